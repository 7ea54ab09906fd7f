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
pub enum DeadlineKind {
    /// The TLS handshake.
    Handshake,
    /// Authentication.
    Login,
    /// Reading the last replies of a closing connection (the close deadline).
    Close,
    /// Reading some of the replies.
    Reading,
    /// Sending the rest of a request.
    Request,
    /// Finishing the open transaction.
    Transaction,
    /// The end of a throttling delay, until which the user may send nothing more.
    Throttle,
}

/// The connection and the step of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// Its slot in the loop.
    pub slot: usize,
    /// The session id, which shows whether the slot still holds the same connection.
    pub id: u64,
    pub kind: DeadlineKind,
}

/// The deadlines of a loop, the earliest first.
#[derive(Default)]
pub struct Deadlines(BinaryHeap<Reverse<(u64, Deadline)>>);

impl Deadlines {
    pub fn insert(&mut self, at_us: u64, deadline: Deadline) {
        self.0.push(Reverse((at_us, deadline)));
    }

    /// Returns the time of the next deadline.
    pub fn next_us(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_us, _))| *at_us)
    }

    /// Removes and returns a deadline that has been reached, if any.
    pub fn pop_expired(&mut self, now_us: u64) -> Option<Deadline> {
        let is_due = self.next_us().is_some_and(|at_us| at_us <= now_us);
        if is_due { self.0.pop().map(|Reverse((_, deadline))| deadline) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_in_order_and_not_too_early() {
        let deadline = |slot| Deadline { slot, id: 1, kind: DeadlineKind::Handshake };
        let mut deadlines = Deadlines::default();
        assert_eq!(deadlines.next_us(), None);
        deadlines.insert(30, deadline(3));
        deadlines.insert(10, deadline(1));
        deadlines.insert(20, deadline(2));
        assert_eq!((deadlines.next_us(), deadlines.pop_expired(9)), (Some(10), None));
        let expired: Vec<usize> = std::iter::from_fn(|| deadlines.pop_expired(20))
            .map(|deadline| deadline.slot)
            .collect();
        assert_eq!(expired, [1, 2]);
        assert_eq!(deadlines.next_us(), Some(30));
    }
}
