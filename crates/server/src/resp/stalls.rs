//! Stall detection: limits the time for reading replies, sending a request and holding a transaction,
//! because a stalled client holds memory.
//!
//! ```text
//!   unsent replies, half a request, an open transaction --begun--> a deadline of the loop
//!                                                        --then--> done or progressing? nothing : abort
//! ```

use super::deadlines::DeadlineKind;
use std::time::Duration;

/// A client that reads this much until the deadline is slow but makes progress.
const PROGRESS_BYTES: u64 = 16 << 10;

/// The kind of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The client did not read its replies.
    Reader,
    /// The client did not send the rest of a request.
    Request,
}

/// The deadlines of a connection's unfinished steps, and its progress.
#[derive(Debug, Default)]
pub struct StallDetector {
    /// Number of all requests taken, and of all bytes sent.
    requests: u64,
    sent_bytes: u64,
    /// The values of those counters when the deadline was set; `None` without a deadline.
    reading: Option<u64>,
    request: Option<u64>,
    transaction: bool,
}

impl StallDetector {
    pub fn count_request(&mut self) {
        self.requests += 1;
    }

    pub fn count_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Returns the steps in progress that have no deadline yet, each with its time limit in microseconds,
    /// and records the present progress.
    pub fn start_deadlines(
        &mut self,
        unsent_limit_ms: Option<u64>,
        request_limit_ms: Option<u64>,
        transaction_left: Option<Duration>,
    ) -> impl Iterator<Item = (DeadlineKind, u64)> + use<> {
        let reading = unsent_limit_ms.filter(|_| self.reading.is_none());
        if reading.is_some() {
            self.reading = Some(self.sent_bytes);
        }
        let request = request_limit_ms.filter(|_| self.request.is_none());
        if request.is_some() {
            self.request = Some(self.requests);
        }
        let transaction = transaction_left.filter(|_| !self.transaction);
        self.transaction |= transaction.is_some();
        let us = |ms: u64| ms.saturating_mul(1000);
        let left_us = |left: Duration| u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
        [
            reading.map(|ms| (DeadlineKind::Reading, us(ms))),
            request.map(|ms| (DeadlineKind::Request, us(ms))),
            transaction.map(|left| (DeadlineKind::Transaction, left_us(left))),
        ]
        .into_iter()
        .flatten()
    }

    /// Called at the deadline of a reader. Returns whether it read next to nothing although bytes are
    /// unsent.
    pub fn is_reader_stalled(&mut self, unsent_bytes: usize) -> bool {
        let before = self.reading.take().unwrap_or(self.sent_bytes);
        unsent_bytes > 0 && self.sent_bytes - before < PROGRESS_BYTES
    }

    /// Called at the deadline of a request. Returns whether the same request is still incomplete.
    pub fn is_request_stalled(&mut self, awaits_rest: bool) -> bool {
        let before = self.request.take();
        awaits_rest && before == Some(self.requests)
    }

    /// Called at the deadline of a transaction.
    pub fn end_transaction_deadline(&mut self) {
        self.transaction = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(stalls: &mut StallDetector, unsent_bytes: bool, request: bool) -> Vec<DeadlineKind> {
        let limit = |begun: bool| begun.then_some(7);
        stalls
            .start_deadlines(limit(unsent_bytes), limit(request), None)
            .map(|(kind, _)| kind)
            .collect()
    }

    #[test]
    fn a_deadline_is_set_once_and_again_for_what_begins_later() {
        let mut stalls = StallDetector::default();
        assert_eq!(
            started(&mut stalls, true, true),
            [DeadlineKind::Reading, DeadlineKind::Request]
        );
        assert_eq!(started(&mut stalls, true, true), []);
        assert!(stalls.is_request_stalled(true), "nothing came of it");
        assert_eq!(started(&mut stalls, true, true), [DeadlineKind::Request]);
        stalls.count_request();
        assert!(!stalls.is_request_stalled(true), "this is another one");
    }

    #[test]
    fn who_reads_a_little_goes_on_and_who_reads_nothing_does_not() {
        let mut stalls = StallDetector::default();
        started(&mut stalls, true, false);
        stalls.count_sent(PROGRESS_BYTES as usize);
        assert!(!stalls.is_reader_stalled(1));
        started(&mut stalls, true, false);
        stalls.count_sent(100);
        assert!(stalls.is_reader_stalled(1), "a trickle keeps the memory");
        started(&mut stalls, true, false);
        assert!(!stalls.is_reader_stalled(0), "all of it was taken");
    }
}
