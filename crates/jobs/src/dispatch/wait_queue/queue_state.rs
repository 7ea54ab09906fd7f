//! State of the wait queues, without threads or blocking: order, granted turns, and the time of the next probe.
//!
//! ```text
//!   waiting --granted--> has turn --try failed--> waiting, in its position
//!     ^                    |  \--served, given up--> removed
//!     '--polled-- unresponsive <-- did not respond in time
//! ```

use super::{Availability, FailedAttempt, Probe, ProbeFn};
use mainstay::{Error, Result, Revision, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Poll, Waker};

/// How long a waiter has exclusive use of its turn.
const TURN_TIMEOUT_US: u64 = 1_000_000;
/// Minimum delay before a queue with something already due is probed again.
const MIN_DELAY_US: u64 = 1000;
/// Maximum number of doublings of the pause between failed tries, which then is one second.
const MAX_DOUBLINGS: u32 = 10;

#[derive(Default)]
pub(super) struct WaitQueues {
    pub all: BTreeMap<String, WaitQueue>,
    /// Queues that may have changed since the last probe.
    changed: BTreeSet<String>,
    /// The revision up to which writes were examined. `None`: all waiters came later.
    pub examined: Option<Revision>,
    /// The earliest time when the passing of time changes something.
    next_wakeup: Option<Stamp>,
    last_id: u64,
    pub is_shut_down: bool,
}

/// The waiters for one job type or lock.
pub(super) struct WaitQueue {
    probe_fn: ProbeFn,
    waiters: BTreeMap<u64, Waiter>,
    /// The newest revision that wrote to this queue's keys, as far as its waiters have not seen it.
    last_write: Revision,
    /// The next time when more waiters can be served.
    next_due: Option<Stamp>,
    /// The next time when a waiter whose try failed may retry although nothing was written.
    retry_at: Option<Stamp>,
}

struct Waiter {
    deadline: Stamp,
    state: WaiterState,
    waker: Option<Waker>,
    backoff: Option<Backoff>,
}

enum WaiterState {
    Waiting,
    Granted {
        at: Stamp,
    },
    /// Had a turn but did not respond. It gets no other turn before it is polled.
    Unresponsive,
    TimedOut,
    Failed(Error),
}

/// Failed tries, although the probe had found something ready.
#[derive(Clone, Copy)]
struct Backoff {
    revision: Revision,
    retry_at: Stamp,
    count: u32,
}

/// A pending probe of a queue.
pub(super) struct PendingProbe {
    name: String,
    pub probe_fn: ProbeFn,
    pub probe: Probe,
}

impl WaitQueues {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn next_wakeup(&self) -> Option<Stamp> {
        self.next_wakeup
    }

    /// Returns whether every queue has been probed.
    #[cfg(test)]
    pub fn is_probed(&self) -> bool {
        self.changed.is_empty()
    }

    pub fn enter(&mut self, name: &str, deadline: Stamp, probe_fn: ProbeFn) -> u64 {
        if self.all.is_empty() {
            self.examined = None;
        }
        self.last_id += 1;
        let queue = self.all.entry(name.to_owned()).or_insert_with(|| WaitQueue::new(probe_fn));
        queue.waiters.insert(self.last_id, Waiter::new(deadline));
        // A write may have happened between its try and now.
        self.changed.insert(name.to_owned());
        self.schedule_wakeup(Some(deadline));
        self.last_id
    }

    /// Removes a waiter. Returns the queue if this was its last waiter, and whether its turn can pass to the
    /// next waiter.
    pub fn leave(&mut self, name: &str, id: u64) -> (Option<WaitQueue>, bool) {
        let Some(queue) = self.all.get_mut(name) else { return (None, false) };
        let removed = queue.waiters.remove(&id);
        if queue.waiters.is_empty() {
            self.changed.remove(name);
            return (self.all.remove(name), false);
        }
        let had_turn = removed.is_some_and(|waiter| waiter.has_turn());
        if had_turn {
            self.changed.insert(name.to_owned());
        }
        (None, had_turn)
    }

    /// Polls a waiter. Also returns whether this changed something for the dispatcher thread.
    pub fn poll(
        &mut self,
        name: &str,
        id: u64,
        context: &Context<'_>,
    ) -> (Poll<Result<bool>>, bool) {
        let Some(waiter) = self.waiter(name, id) else { return (Poll::Ready(Ok(false)), false) };
        let result = match &waiter.state {
            WaiterState::Granted { .. } => Poll::Ready(Ok(true)),
            WaiterState::TimedOut => Poll::Ready(Ok(false)),
            WaiterState::Failed(error) => Poll::Ready(Err(error.clone())),
            WaiterState::Waiting | WaiterState::Unresponsive => Poll::Pending,
        };
        let was_unresponsive = matches!(waiter.state, WaiterState::Unresponsive);
        if result.is_pending() {
            waiter.waker = Some(context.waker().clone());
        }
        if was_unresponsive {
            waiter.state = WaiterState::Waiting;
            self.changed.insert(name.to_owned());
        }
        (result, was_unresponsive)
    }

    /// A waiter whose try failed waits again, in its position.
    pub fn requeue(&mut self, name: &str, id: u64, attempt: FailedAttempt) {
        let Some(queue) = self.all.get_mut(name) else { return };
        let Some(waiter) = queue.waiters.get_mut(&id) else { return };
        let previous = waiter.backoff.filter(|backoff| queue.last_write <= backoff.revision);
        let count = previous.map_or(0, |backoff| backoff.count + 1);
        let retry_at = attempt.at.saturating_add(MIN_DELAY_US << count.min(MAX_DOUBLINGS));
        waiter.backoff = Some(Backoff { revision: attempt.revision, retry_at, count });
        if waiter.has_turn() || matches!(waiter.state, WaiterState::Unresponsive) {
            waiter.state = WaiterState::Waiting;
        }
        self.changed.insert(name.to_owned());
    }

    /// A record was written: marks the queue of its key, and those of the key's prefixes that end with a
    /// dot.
    pub fn mark_written(&mut self, branch: &str, key: &str, revision: Revision) {
        let qualified_key = format!("{branch} {key}");
        let ends = qualified_key
            .match_indices('.')
            .map(|(at, _)| at + 1)
            .filter(|end| *end < qualified_key.len());
        for end in ends.chain([qualified_key.len()]) {
            if let Some(queue) = self.all.get_mut(&qualified_key[..end]) {
                queue.last_write = revision;
                self.changed.insert(qualified_key[..end].to_owned());
            }
        }
    }

    /// Any key may have been written: marks all queues.
    pub fn mark_all_written(&mut self, revision: Revision) {
        for (name, queue) in &mut self.all {
            queue.last_write = revision;
            self.changed.insert(name.clone());
        }
    }

    /// Advances the time: expires waiters and turns, and marks queues with something due.
    pub fn advance_time(&mut self, now: Stamp, wakers: &mut Vec<Waker>) {
        if self.next_wakeup.is_none_or(|at| now < at) {
            return;
        }
        self.next_wakeup = None;
        let mut next = None;
        for (name, queue) in &mut self.all {
            if queue.advance_time(now, wakers) {
                self.changed.insert(name.clone());
            }
            next = earliest([next, queue.next_wakeup()]);
        }
        self.next_wakeup = next;
    }

    /// Takes the probes to run. Any change from here on marks its queue again.
    pub fn take_pending_probes(&mut self, now: Stamp) -> Vec<PendingProbe> {
        let changed = std::mem::take(&mut self.changed);
        let pending_probe = |name: String| {
            let queue = self.all.get(&name)?;
            let probe = queue.probe(now);
            let has_waiting = probe.waiters > probe.with_turn;
            has_waiting.then(|| PendingProbe { probe_fn: queue.probe_fn.clone(), probe, name })
        };
        changed.into_iter().filter_map(pending_probe).collect()
    }

    pub fn apply_probe(
        &mut self,
        pending: &PendingProbe,
        availability: Result<Availability>,
        wakers: &mut Vec<Waker>,
    ) {
        let Some(queue) = self.all.get_mut(&pending.name) else { return };
        match availability {
            Ok(availability) => queue.serve(availability, pending.probe, wakers),
            // Fail the waiters, because they would wait forever for something that cannot be read.
            Err(error) => queue.fail(&error, wakers),
        }
        let next = queue.next_wakeup();
        self.schedule_wakeup(next);
    }

    fn schedule_wakeup(&mut self, at: Option<Stamp>) {
        self.next_wakeup = earliest([self.next_wakeup, at]);
    }

    fn waiter(&mut self, name: &str, id: u64) -> Option<&mut Waiter> {
        self.all.get_mut(name)?.waiters.get_mut(&id)
    }
}

impl WaitQueue {
    fn new(probe_fn: ProbeFn) -> WaitQueue {
        WaitQueue {
            probe_fn,
            waiters: BTreeMap::new(),
            last_write: 0,
            next_due: None,
            retry_at: None,
        }
    }

    fn probe(&self, now: Stamp) -> Probe {
        let latest_deadline =
            self.waiters.values().map(|waiter| waiter.deadline).max().unwrap_or(now);
        let with_turn = self.waiters.values().filter(|waiter| waiter.has_turn()).count();
        let waiting = self.waiters.values().filter(|waiter| waiter.is_waiting()).count();
        Probe {
            now,
            waiters: waiting + with_turn,
            with_turn,
            latest_deadline,
            next_due: self.next_due,
        }
    }

    /// Grants turns to the first waiters in the queue.
    fn serve(&mut self, availability: Availability, probe: Probe, wakers: &mut Vec<Waker>) {
        let now = probe.now;
        let last_write = self.last_write;
        self.next_due = availability.next_due.map(|due| due.max(now + MIN_DELAY_US));
        self.retry_at = None;
        // Skip those that try now: one that ended meanwhile may have taken a job that the probe still
        // counted.
        let mut remaining = availability.ready.saturating_sub(probe.with_turn);
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.is_waiting()) {
            if remaining == 0 {
                return;
            }
            match waiter
                .backoff
                .filter(|backoff| last_write <= backoff.revision && now < backoff.retry_at)
            {
                Some(backoff) => self.retry_at = earliest([self.retry_at, Some(backoff.retry_at)]),
                None => {
                    remaining -= 1;
                    wakers.extend(waiter.change_state(WaiterState::Granted { at: now }));
                }
            }
        }
    }

    pub fn fail(&mut self, error: &Error, wakers: &mut Vec<Waker>) {
        self.next_due = None;
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.is_waiting()) {
            wakers.extend(waiter.change_state(WaiterState::Failed(error.clone())));
        }
    }

    /// Returns whether the queue must be probed.
    fn advance_time(&mut self, now: Stamp, wakers: &mut Vec<Waker>) -> bool {
        let is_past = |at: &mut Stamp| *at <= now;
        let is_due = self.next_due.take_if(is_past).is_some();
        let may_retry = self.retry_at.take_if(is_past).is_some();
        let mut needs_probe = is_due || may_retry;
        for waiter in self.waiters.values_mut() {
            let had_turn = waiter.has_turn();
            wakers.extend(waiter.advance_time(now));
            needs_probe |= had_turn && !waiter.has_turn();
        }
        needs_probe
    }

    fn next_wakeup(&self) -> Option<Stamp> {
        let waiters = self.waiters.values().map(Waiter::next_wakeup);
        earliest(waiters.chain([self.next_due, self.retry_at]))
    }
}

impl Waiter {
    fn new(deadline: Stamp) -> Waiter {
        Waiter { deadline, state: WaiterState::Waiting, waker: None, backoff: None }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.state, WaiterState::Waiting)
    }

    fn has_turn(&self) -> bool {
        matches!(self.state, WaiterState::Granted { .. })
    }

    fn change_state(&mut self, state: WaiterState) -> Option<Waker> {
        self.state = state;
        self.waker.take()
    }

    fn advance_time(&mut self, now: Stamp) -> Option<Waker> {
        let at = self.next_wakeup().filter(|at| *at <= now)?;
        if at < self.deadline {
            self.change_state(WaiterState::Unresponsive)
        } else {
            self.change_state(WaiterState::TimedOut)
        }
    }

    /// The time when this waiter expires, or its turn does.
    fn next_wakeup(&self) -> Option<Stamp> {
        match &self.state {
            WaiterState::Waiting | WaiterState::Unresponsive => Some(self.deadline),
            WaiterState::Granted { at } => {
                Some(self.deadline.min(at.saturating_add(TURN_TIMEOUT_US)))
            }
            WaiterState::TimedOut | WaiterState::Failed(_) => None,
        }
    }
}

fn earliest(all: impl IntoIterator<Item = Option<Stamp>>) -> Option<Stamp> {
    all.into_iter().flatten().min()
}
