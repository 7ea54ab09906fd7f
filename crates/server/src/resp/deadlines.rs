//! Deadlines: what a connection has to have done by when.
//!
//! ```text
//!   a connection comes -> (when, which, what) -> the time is there -> done? nothing : closed
//! ```
//!
//! Nothing is taken out when it is done in time: the loop asks the connection when the time has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a connection has limited time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The handshake of TLS.
    Handshake,
    /// Saying who it is.
    Login,
    /// Reading the last that it is told.
    Goodbye,
    /// Taking some of its replies.
    Reading,
    /// The rest of a request that it has begun.
    Request,
    /// The transaction that it has open.
    Transaction,
    /// Waiting until its user may send more.
    Pace,
}

/// A connection that has to have done something by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Where it is.
    pub place: usize,
    /// The number of its session, which tells whether it is still the same one.
    pub id: u64,
    /// What it has to have done.
    pub step: Step,
}

/// All deadlines of a loop, the next one first.
#[derive(Default)]
pub struct Deadlines(BinaryHeap<Reverse<(u64, Due)>>);

impl Deadlines {
    /// Sets one.
    pub fn set(&mut self, at_us: u64, due: Due) {
        self.0.push(Reverse((at_us, due)));
    }

    /// When the next one is.
    pub fn next_us(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_us, _))| *at_us)
    }

    /// Takes one whose time has come.
    pub fn take_due(&mut self, now_us: u64) -> Option<Due> {
        let is_due = self.next_us().is_some_and(|at_us| at_us <= now_us);
        if is_due { self.0.pop().map(|Reverse((_, due))| due) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_in_order_and_not_too_early() {
        let due = |place| Due { place, id: 1, step: Step::Handshake };
        let mut deadlines = Deadlines::default();
        assert_eq!(deadlines.next_us(), None);
        deadlines.set(30, due(3));
        deadlines.set(10, due(1));
        deadlines.set(20, due(2));
        assert_eq!((deadlines.next_us(), deadlines.take_due(9)), (Some(10), None));
        let taken: Vec<usize> =
            std::iter::from_fn(|| deadlines.take_due(20)).map(|due| due.place).collect();
        assert_eq!(taken, [1, 2]);
        assert_eq!(deadlines.next_us(), Some(30));
    }
}
