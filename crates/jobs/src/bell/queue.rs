//! State of the wait queues, without threads or blocking: order, calls, and the next time to look.
//!
//! ```text
//!   waits --called--> called --try failed--> waits, in its place
//!     ^                 |  \--served, given up--> removed
//!     '--polled-- asleep <-- did not respond in time
//! ```

use super::{Look, Outlook, Question, Tried};
use mainstay::{Error, Result, Revision, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Poll, Waker};

/// How long a called waiter has exclusive use of its turn.
const GRACE_US: u64 = 1_000_000;
/// Minimum delay before a queue with something already due is looked at again.
const SOONEST_US: u64 = 1000;
/// Maximum number of doublings of the pause between failed tries, which then is one second.
const DOUBLINGS: u32 = 10;

#[derive(Default)]
pub(super) struct Queues {
    pub all: BTreeMap<String, Queue>,
    /// Queues that may have changed since the last look.
    changed: BTreeSet<String>,
    /// The revision up to which writes were examined. `None`: all waiters came later.
    pub seen: Option<Revision>,
    /// The earliest time when the passing of time changes something.
    wakes_at: Option<Stamp>,
    last_number: u64,
    pub is_over: bool,
}

/// The waiters for one job type or lock.
pub(super) struct Queue {
    look: Look,
    places: BTreeMap<u64, Place>,
    /// The newest revision that wrote to this queue's keys, as far as its waiters have not seen it.
    written: Revision,
    /// The next time when more waiters can be served.
    due: Option<Stamp>,
    /// The next time when a waiter whose try failed may retry although nothing was written.
    again_at: Option<Stamp>,
}

struct Place {
    until: Stamp,
    standing: Standing,
    waker: Option<Waker>,
    vain: Option<Vain>,
}

enum Standing {
    Waits,
    Called {
        at: Stamp,
    },
    /// Called but did not respond. It is not called again before it is polled.
    Asleep,
    Late,
    Failed(Error),
}

/// Failed tries, although the look had found something ready.
#[derive(Clone, Copy)]
struct Vain {
    revision: Revision,
    again_at: Stamp,
    count: u32,
}

/// A pending look at a queue.
pub(super) struct Visit {
    name: String,
    pub look: Look,
    pub question: Question,
}

impl Queues {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn wakes_at(&self) -> Option<Stamp> {
        self.wakes_at
    }

    /// Returns whether every queue has been looked at.
    #[cfg(test)]
    pub fn is_looked_at(&self) -> bool {
        self.changed.is_empty()
    }

    pub fn enter(&mut self, name: &str, until: Stamp, look: Look) -> u64 {
        if self.all.is_empty() {
            self.seen = None;
        }
        self.last_number += 1;
        let queue = self.all.entry(name.to_owned()).or_insert_with(|| Queue::new(look));
        queue.places.insert(self.last_number, Place::until(until));
        // A write may have happened between its try and now.
        self.changed.insert(name.to_owned());
        self.wake_by(Some(until));
        self.last_number
    }

    /// Removes a place. Returns the queue if this was its last place, and whether its turn can pass to the
    /// next waiter.
    pub fn leave(&mut self, name: &str, number: u64) -> (Option<Queue>, bool) {
        let Some(queue) = self.all.get_mut(name) else { return (None, false) };
        let left = queue.places.remove(&number);
        if queue.places.is_empty() {
            self.changed.remove(name);
            return (self.all.remove(name), false);
        }
        let was_called = left.is_some_and(|place| place.is_called());
        if was_called {
            self.changed.insert(name.to_owned());
        }
        (None, was_called)
    }

    /// Polls a place. Also returns whether this changed something for the dispatcher thread.
    pub fn poll(
        &mut self,
        name: &str,
        number: u64,
        context: &Context<'_>,
    ) -> (Poll<Result<bool>>, bool) {
        let Some(place) = self.place(name, number) else { return (Poll::Ready(Ok(false)), false) };
        let polled = match &place.standing {
            Standing::Called { .. } => Poll::Ready(Ok(true)),
            Standing::Late => Poll::Ready(Ok(false)),
            Standing::Failed(error) => Poll::Ready(Err(error.clone())),
            Standing::Waits | Standing::Asleep => Poll::Pending,
        };
        let wakes_up = matches!(place.standing, Standing::Asleep);
        if polled.is_pending() {
            place.waker = Some(context.waker().clone());
        }
        if wakes_up {
            place.standing = Standing::Waits;
            self.changed.insert(name.to_owned());
        }
        (polled, wakes_up)
    }

    /// A waiter whose try failed waits again, in its place.
    pub fn again(&mut self, name: &str, number: u64, tried: Tried) {
        let Some(queue) = self.all.get_mut(name) else { return };
        let Some(place) = queue.places.get_mut(&number) else { return };
        let before = place.vain.filter(|vain| queue.written <= vain.revision);
        let count = before.map_or(0, |vain| vain.count + 1);
        let again_at = tried.at.saturating_add(SOONEST_US << count.min(DOUBLINGS));
        place.vain = Some(Vain { revision: tried.revision, again_at, count });
        if place.is_called() || matches!(place.standing, Standing::Asleep) {
            place.standing = Standing::Waits;
        }
        self.changed.insert(name.to_owned());
    }

    /// A record was written: marks the queue of its key, and those of the key's prefixes that end with a
    /// dot.
    pub fn written(&mut self, branch: &str, key: &str, upto: Revision) {
        let whole = format!("{branch} {key}");
        let ends = whole.match_indices('.').map(|(at, _)| at + 1).filter(|end| *end < whole.len());
        for end in ends.chain([whole.len()]) {
            if let Some(queue) = self.all.get_mut(&whole[..end]) {
                queue.written = upto;
                self.changed.insert(whole[..end].to_owned());
            }
        }
    }

    /// Any key may have been written: marks all queues.
    pub fn all_written(&mut self, upto: Revision) {
        for (name, queue) in &mut self.all {
            queue.written = upto;
            self.changed.insert(name.clone());
        }
    }

    /// Advances the time: expires waiters and calls, and marks queues with something due.
    pub fn pass(&mut self, now: Stamp, wakers: &mut Vec<Waker>) {
        if self.wakes_at.is_none_or(|at| now < at) {
            return;
        }
        self.wakes_at = None;
        let mut next = None;
        for (name, queue) in &mut self.all {
            if queue.pass(now, wakers) {
                self.changed.insert(name.clone());
            }
            next = earliest([next, queue.wakes_at()]);
        }
        self.wakes_at = next;
    }

    /// The looks to make. Any change from here on marks its queue again.
    pub fn visits(&mut self, now: Stamp) -> Vec<Visit> {
        let changed = std::mem::take(&mut self.changed);
        let visit = |name: String| {
            let queue = self.all.get(&name)?;
            let question = queue.question(now);
            let is_waited = question.asked > question.called;
            is_waited.then(|| Visit { look: queue.look.clone(), question, name })
        };
        changed.into_iter().filter_map(visit).collect()
    }

    pub fn visited(&mut self, visit: &Visit, found: Result<Outlook>, wakers: &mut Vec<Waker>) {
        let Some(queue) = self.all.get_mut(&visit.name) else { return };
        match found {
            Ok(found) => queue.serve(found, visit.question, wakers),
            // Fail the waiters, because they would wait forever for something that cannot be read.
            Err(error) => queue.fail(&error, wakers),
        }
        let next = queue.wakes_at();
        self.wake_by(next);
    }

    fn wake_by(&mut self, at: Option<Stamp>) {
        self.wakes_at = earliest([self.wakes_at, at]);
    }

    fn place(&mut self, name: &str, number: u64) -> Option<&mut Place> {
        self.all.get_mut(name)?.places.get_mut(&number)
    }
}

impl Queue {
    fn new(look: Look) -> Queue {
        Queue { look, places: BTreeMap::new(), written: 0, due: None, again_at: None }
    }

    fn question(&self, now: Stamp) -> Question {
        let until = self.places.values().map(|place| place.until).max().unwrap_or(now);
        let called = self.places.values().filter(|place| place.is_called()).count();
        let waits = self.places.values().filter(|place| place.waits()).count();
        Question { now, asked: waits + called, called, until, due: self.due }
    }

    /// Calls the first waiters in the queue.
    fn serve(&mut self, found: Outlook, question: Question, wakers: &mut Vec<Waker>) {
        let now = question.now;
        let written = self.written;
        self.due = found.due.map(|due| due.max(now + SOONEST_US));
        self.again_at = None;
        // Skip those that try now: one that ended meanwhile may have taken a job that the look still
        // counted.
        let mut left = found.ready.saturating_sub(question.called);
        for place in self.places.values_mut().filter(|place| place.waits()) {
            if left == 0 {
                return;
            }
            match place.vain.filter(|vain| written <= vain.revision && now < vain.again_at) {
                Some(vain) => self.again_at = earliest([self.again_at, Some(vain.again_at)]),
                None => {
                    left -= 1;
                    wakers.extend(place.become_now(Standing::Called { at: now }));
                }
            }
        }
    }

    pub fn fail(&mut self, error: &Error, wakers: &mut Vec<Waker>) {
        self.due = None;
        for place in self.places.values_mut().filter(|place| place.waits()) {
            wakers.extend(place.become_now(Standing::Failed(error.clone())));
        }
    }

    /// Returns whether the queue must be looked at.
    fn pass(&mut self, now: Stamp, wakers: &mut Vec<Waker>) -> bool {
        let is_over = |at: &mut Stamp| *at <= now;
        let was_due = self.due.take_if(is_over).is_some();
        let may_try = self.again_at.take_if(is_over).is_some();
        let mut is_changed = was_due || may_try;
        for place in self.places.values_mut() {
            let was_called = place.is_called();
            wakers.extend(place.pass(now));
            is_changed |= was_called && !place.is_called();
        }
        is_changed
    }

    fn wakes_at(&self) -> Option<Stamp> {
        let places = self.places.values().map(Place::wakes_at);
        earliest(places.chain([self.due, self.again_at]))
    }
}

impl Place {
    fn until(until: Stamp) -> Place {
        Place { until, standing: Standing::Waits, waker: None, vain: None }
    }

    fn waits(&self) -> bool {
        matches!(self.standing, Standing::Waits)
    }

    fn is_called(&self) -> bool {
        matches!(self.standing, Standing::Called { .. })
    }

    fn become_now(&mut self, standing: Standing) -> Option<Waker> {
        self.standing = standing;
        self.waker.take()
    }

    fn pass(&mut self, now: Stamp) -> Option<Waker> {
        let at = self.wakes_at().filter(|at| *at <= now)?;
        if at < self.until {
            self.become_now(Standing::Asleep)
        } else {
            self.become_now(Standing::Late)
        }
    }

    /// The time when this place expires, or its call does.
    fn wakes_at(&self) -> Option<Stamp> {
        match &self.standing {
            Standing::Waits | Standing::Asleep => Some(self.until),
            Standing::Called { at } => Some(self.until.min(at.saturating_add(GRACE_US))),
            Standing::Late | Standing::Failed(_) => None,
        }
    }
}

fn earliest(all: impl IntoIterator<Item = Option<Stamp>>) -> Option<Stamp> {
    all.into_iter().flatten().min()
}
