//! Recorded calls: request, response, and the interval between them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A logical clock for all threads: each moment is used once.
#[derive(Default)]
pub struct Moments(AtomicU64);

impl Moments {
    /// Returns the next moment.
    pub fn next(&self) -> u64 {
        // SeqCst: the operation between two moments must not be reordered across them.
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns roughly how many moments have been used.
    pub fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A call to one object, as its caller saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<A, R> {
    /// The calling thread.
    pub thread: u64,
    /// The moment before the request.
    pub invoked: u64,
    /// The request.
    pub asked: A,
    /// The moment after the response, and the response. `None` if the outcome is unknown: the call may
    /// take effect at any later time, or never.
    pub answer: Option<(u64, R)>,
}

impl<A, R> Call<A, R> {
    /// Returns the response if it arrived by this moment.
    pub fn answer_by(&self, moment: u64) -> Option<(u64, &R)> {
        let (returned, answer) = self.answer.as_ref()?;
        (*returned <= moment).then_some((*returned, answer))
    }

    /// Returns the moment of the response; the greatest value if none arrived.
    pub fn returned(&self) -> u64 {
        self.answer.as_ref().map_or(u64::MAX, |(returned, _)| *returned)
    }
}
