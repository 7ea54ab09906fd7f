//! Calls: what was asked, what was answered, and when.

use std::sync::atomic::{AtomicU64, Ordering};

/// One line of time for all threads: each moment is taken once.
#[derive(Default)]
pub struct Moments(AtomicU64);

impl Moments {
    /// The next moment.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// About how many have been taken.
    pub fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A call to one thing, as its caller saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<A, R> {
    /// Who called.
    pub thread: u64,
    /// The moment before it was asked.
    pub invoked: u64,
    /// What was asked.
    pub asked: A,
    /// The moment after the answer, and the answer. Nothing: it may have happened at any time since, or never.
    pub answer: Option<(u64, R)>,
}

impl<A, R> Call<A, R> {
    /// The answer, if it came up to this moment.
    pub fn answer_by(&self, moment: u64) -> Option<(u64, &R)> {
        let (returned, answer) = self.answer.as_ref()?;
        (*returned <= moment).then_some((*returned, answer))
    }

    /// The moment of the answer; later than all others where there is none.
    pub fn returned(&self) -> u64 {
        self.answer.as_ref().map_or(u64::MAX, |(returned, _)| *returned)
    }
}
