//! A priority queue of connection deadlines.
//!
//! ```text
//!   connection starts a step -> (time, connection, step) -> time reached -> done? nothing : close
//! ```
//!
//! A deadline is not removed when its step is done in time. Instead, the loop asks the connection when the
//! deadline is reached.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A step with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The TLS handshake.
    Handshake,
    /// Authentication.
    Login,
    /// Reading the last replies of a closing connection (the close deadline).
    Goodbye,
    /// Reading some of the replies.
    Reading,
    /// Sending the rest of a request.
    Request,
    /// Finishing the open transaction.
    Transaction,
    /// The end of a throttling delay, until which the user may send nothing more.
    Pace,
}

/// The connection and the step of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Its slot in the loop.
    pub place: usize,
    /// The session id, which shows whether the slot still holds the same connection.
    pub id: u64,
    pub step: Step,
}

/// The deadlines of a loop, the earliest first.
#[derive(Default)]
pub struct Deadlines(BinaryHeap<Reverse<(u64, Due)>>);

impl Deadlines {
    pub fn set(&mut self, at_us: u64, due: Due) {
        self.0.push(Reverse((at_us, due)));
    }

    /// Returns the time of the next deadline.
    pub fn next_us(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_us, _))| *at_us)
    }

    /// Removes and returns a deadline that has been reached, if any.
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
