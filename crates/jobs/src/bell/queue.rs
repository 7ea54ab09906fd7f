//! The queues of those who wait, without any waiting: who stands where, who is called, and when to look again.
//!
//! ```text
//!   waits --called--> called --tried in vain--> waits, in its place
//!     ^                 |  \--served, given up--> gone
//!     '--polled-- asleep <-- did not come in time
//! ```

use super::{Look, Outlook, Question, Tried};
use mainstay::{Error, Result, Revision, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Poll, Waker};

/// How long whoever is called has what it was called for to itself.
const GRACE_US: u64 = 1_000_000;
/// How soon something that is due already is looked at again.
const SOONEST_US: u64 = 1000;
/// How often the pause between tries in vain doubles: up to a second.
const DOUBLINGS: u32 = 10;

/// All queues.
#[derive(Default)]
pub(super) struct Queues {
    pub all: BTreeMap<String, Queue>,
    /// Those of which something may have changed since they were looked at.
    changed: BTreeSet<String>,
    /// Up to where it is known what was written; nothing: all who wait came later.
    pub seen: Option<Revision>,
    /// When time changes something, at the earliest.
    wakes_at: Option<Stamp>,
    last_number: u64,
    pub is_over: bool,
}

/// Those who wait for the same.
pub(super) struct Queue {
    look: Look,
    places: BTreeMap<u64, Place>,
    /// Up to where something of it was written, as far as those who stand here have not seen it.
    written: Revision,
    /// When further ones can be served.
    due: Option<Stamp>,
    /// When somebody who tried in vain may try again though nothing was written.
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
    /// It was called and has not come: it is not called again before it shows up.
    Asleep,
    Late,
    Failed(Error),
}

/// Tries that got nothing though the look had promised something.
#[derive(Clone, Copy)]
struct Vain {
    revision: Revision,
    again_at: Stamp,
    count: u32,
}

/// A look at a queue that is to be made.
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

    /// Whether nothing is left to look at.
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
        // What it waits for may have come since it tried.
        self.changed.insert(name.to_owned());
        self.wake_by(Some(until));
        self.last_number
    }

    /// Takes a place away; gives the queue if it was the last one, and whether others may have its turn.
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

    /// How a place stands, and whether that changed something for the bell.
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

    /// Somebody tried in vain and waits again, in its place.
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

    /// A record was written: whoever waits for it, or for what its key begins with up to a point, looks again.
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

    /// Whatever is waited for may have been written.
    pub fn all_written(&mut self, upto: Revision) {
        for (name, queue) in &mut self.all {
            queue.written = upto;
            self.changed.insert(name.clone());
        }
    }

    /// Lets time pass: some are late, calls are withdrawn, something is due.
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

    /// What is to be looked at; from here on whatever changes is looked at again.
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
            // Who waits for what cannot be read would wait in vain.
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

    /// Calls the first of those who wait.
    fn serve(&mut self, found: Outlook, question: Question, wakers: &mut Vec<Waker>) {
        let (now, written) = (question.now, self.written);
        self.due = found.due.map(|due| due.max(now + SOONEST_US));
        self.again_at = None;
        // Not those who try now: one that ended meanwhile may have taken what the look saw.
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

    /// Says whether it has to be looked at.
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
        match at < self.until {
            true => self.become_now(Standing::Asleep),
            false => self.become_now(Standing::Late),
        }
    }

    /// When its time, or that of its call, is over.
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
