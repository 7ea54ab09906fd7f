//! Deduplication ledger of a session: the executed requests with their stored responses.
//!
//! ```text
//!                mark
//!   evicted ...... | kept: 7 9 10 | not executed: 8 11 12 ...
//!   never executed | repeated     | executed on arrival
//! ```
//!
//! Each number at or above the mark is either stored or was never executed. Each number below it is never
//! executed again. Therefore no request is executed twice, whatever is evicted.

use super::{KEPT_LIMIT, KEPT_LIMIT_BYTES, REQUESTS_AHEAD_LIMIT};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

/// The ledger of one session. A response `R` is its bytes, or only their count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger<R> {
    mark: u64,
    /// Sorted by request number.
    kept: VecDeque<(u64, R)>,
    kept_bytes: usize,
}

/// A response whose size counts towards the ledger's limit.
pub trait Weighed {
    /// The size of the response, in bytes.
    fn bytes(&self) -> usize;
}

impl Weighed for u32 {
    fn bytes(&self) -> usize {
        *self as usize
    }
}

impl Weighed for Box<[u8]> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// The ledger's decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request was executed and its response is stored.
    Repeat,
    /// The response was evicted, or the request was never executed and is below the mark.
    Evicted,
    /// The request must be executed.
    Execute,
}

/// The limits of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLimits {
    /// The most stored responses, at least 1.
    pub count: usize,
    /// The most bytes of stored responses. A larger response is refused.
    pub bytes: usize,
}

impl Default for KeptLimits {
    fn default() -> KeptLimits {
        KeptLimits { count: KEPT_LIMIT, bytes: KEPT_LIMIT_BYTES }
    }
}

/// Numbers of a removed session, which continue in the next session of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Former {
    /// A number that no request of the session had, not even one still in flight.
    pub next_request: u64,
    /// The number of the last request sent to its client.
    pub last_letter: u64,
}

impl<R: Weighed> Default for Ledger<R> {
    fn default() -> Ledger<R> {
        Ledger::from(1)
    }
}

impl<R: Weighed> Ledger<R> {
    /// An empty ledger whose first request has at least this number.
    pub fn from(mark: u64) -> Ledger<R> {
        Ledger { mark: mark.max(1), kept: VecDeque::new(), kept_bytes: 0 }
    }

    /// Decides about a request without changing the ledger.
    pub fn judge(&self, request_id: u64) -> Verdict {
        match self.find(request_id) {
            Ok(_) => Verdict::Repeat,
            Err(_) if request_id < self.mark => Verdict::Evicted,
            Err(_) => Verdict::Execute,
        }
    }

    /// Returns the stored response of a request.
    pub fn response(&self, request_id: u64) -> Option<&R> {
        self.find(request_id).ok().map(|place| &self.kept[place].1)
    }

    /// Returns the mark after this request is answered with so many bytes. It is at least `lowest_pending`,
    /// and higher if the oldest responses must be evicted. The request's own response may be the oldest; then
    /// it is not stored.
    pub fn mark_after(
        &self,
        request_id: u64,
        lowest_pending: u64,
        bytes: usize,
        limits: KeptLimits,
    ) -> u64 {
        let mut mark = self.mark.max(lowest_pending);
        let mut count = self.kept.len() + 1;
        let mut total = self.kept_bytes + bytes;
        let mut oldest = self.kept.iter();
        loop {
            let over = count > limits.count || total > limits.bytes;
            match oldest.next() {
                Some((id, response)) if *id < mark || over && *id < request_id => {
                    mark = mark.max(id + 1);
                    count -= 1;
                    total -= response.bytes();
                }
                _ if over => return request_id + 1,
                _ => return mark,
            }
        }
    }

    /// Returns the mark after evicting the oldest responses that exceed the limits.
    pub fn mark_within(&self, limits: KeptLimits) -> u64 {
        let mut mark = self.mark;
        let mut count = self.kept.len();
        let mut total = self.kept_bytes;
        for (id, response) in &self.kept {
            if count <= limits.count && total <= limits.bytes {
                break;
            }
            mark = id + 1;
            count -= 1;
            total -= response.bytes();
        }
        mark
    }

    /// The numbers of the stored responses below a mark.
    pub fn below(&self, mark: u64) -> impl Iterator<Item = u64> + '_ {
        self.kept.iter().map(|(id, _)| *id).take_while(move |id| *id < mark)
    }

    /// Raises the mark and drops the responses below it. The mark never decreases.
    pub fn raise(&mut self, mark: u64) {
        drop(self.raise_taking(mark));
    }

    /// Raises the mark like `raise`, and returns the dropped responses.
    pub fn raise_taking(&mut self, mark: u64) -> Drain<'_, (u64, R)> {
        self.mark = self.mark.max(mark);
        let count = self.kept.partition_point(|(id, _)| *id < self.mark);
        let bytes = self.kept.iter().take(count).map(|(_, response)| response.bytes());
        self.kept_bytes -= bytes.sum::<usize>();
        self.kept.drain(..count)
    }

    /// Stores a response, unless its number is below the mark.
    pub fn keep(&mut self, request_id: u64, response: R) {
        if request_id < self.mark {
            return;
        }
        let added_bytes = response.bytes();
        match self.find(request_id) {
            Ok(place) => {
                self.kept_bytes -= self.kept[place].1.bytes();
                self.kept[place].1 = response;
            }
            Err(place) => self.kept.insert(place, (request_id, response)),
        }
        self.kept_bytes += added_bytes;
    }

    /// The lowest number that may still be executed or is stored.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// The number of the client's next request.
    pub fn next_request(&self) -> u64 {
        self.kept.back().map_or(0, |(id, _)| id + 1).max(self.mark)
    }

    /// A number beyond all requests that a client may have in flight. A delayed copy of a request that was
    /// refused and never executed must not be executed by the next session of the same name.
    pub fn beyond(&self) -> u64 {
        self.next_request().saturating_add(REQUESTS_AHEAD_LIMIT)
    }

    /// The number of stored responses.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether no response is stored.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The size of the stored responses, in bytes.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Iterates over the responses in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &R)> {
        self.kept.iter().map(|(id, response)| (*id, response))
    }

    /// Finds a response. Most requests arrive in order, so the end is checked first.
    fn find(&self, request_id: u64) -> Result<usize, usize> {
        match self.kept.back() {
            Some((last, _)) if *last < request_id => Err(self.kept.len()),
            None => Err(0),
            _ => self.kept.binary_search_by_key(&request_id, |(id, _)| *id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: KeptLimits = KeptLimits { count: 3, bytes: 100 };

    fn kept(ids: &[u64]) -> Ledger<u32> {
        let mut ledger = Ledger::default();
        ids.iter().for_each(|id| ledger.keep(*id, 10));
        ledger
    }

    #[test]
    fn what_is_kept_repeats_and_what_went_is_never_executed() {
        let mut ledger = kept(&[2, 1, 4]);
        ledger.raise(2);
        let verdicts = [1, 2, 3, 4, 5].map(|id| ledger.judge(id));
        use Verdict::{Evicted, Execute, Repeat};
        assert_eq!(verdicts, [Evicted, Repeat, Execute, Repeat, Execute]);
        assert_eq!((ledger.len(), ledger.kept_bytes(), ledger.next_request()), (2, 20, 5));
    }

    #[test]
    fn the_mark_follows_the_client_and_never_falls() {
        let mut ledger = kept(&[1, 2]);
        assert_eq!(ledger.mark_after(3, 2, 1, LIMITS), 2);
        ledger.raise(3);
        ledger.raise(1);
        assert_eq!((ledger.mark(), ledger.is_empty()), (3, true));
        assert_eq!(ledger.mark_after(4, 1, 1, LIMITS), 3);
    }

    #[test]
    fn the_oldest_make_room() {
        let ledger = kept(&[5, 6, 7]);
        assert_eq!(ledger.mark_after(8, 1, 10, LIMITS), 6, "one too many");
        assert_eq!(ledger.mark_after(8, 6, 10, LIMITS), 6, "the client made room itself");
        assert_eq!(ledger.mark_after(8, 1, 85, LIMITS), 7, "too many bytes");
        assert_eq!(ledger.below(7).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(ledger.mark_after(2, 1, 10, LIMITS), 3, "the oldest is the new one itself");
    }

    #[test]
    fn smaller_limits_end_the_oldest() {
        let ledger = kept(&[5, 6, 7]);
        assert_eq!(ledger.mark_within(LIMITS), 1, "all have room");
        assert_eq!(ledger.mark_within(KeptLimits { count: 1, bytes: 100 }), 7);
        assert_eq!(ledger.mark_within(KeptLimits { count: 3, bytes: 25 }), 6);
        assert_eq!(ledger.mark_within(KeptLimits { count: 3, bytes: 0 }), 8);
    }

    #[test]
    fn an_evicted_response_is_not_taken_back() {
        let mut ledger = kept(&[]);
        ledger.raise(5);
        ledger.keep(4, 1);
        assert!(ledger.is_empty());
    }
}
