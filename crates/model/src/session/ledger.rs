//! The ledger of a session: which of its requests were executed, and what they were answered.
//!
//! ```text
//!                mark
//!   evicted ...... | kept: 7 9 10 | not executed: 8 11 12 ...
//!   never again    | answered     | executed when they come
//! ```
//!
//! Every number at or above the mark is kept or was never executed; every number below it is never executed again. So
//! nothing is executed twice, whatever goes.

use super::{KEPT_LIMIT, KEPT_LIMIT_BYTES, REQUESTS_AHEAD_LIMIT};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

/// What one session's requests have come to. A response is an `R`: its bytes, or only how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger<R> {
    mark: u64,
    /// In the order of their numbers.
    kept: VecDeque<(u64, R)>,
    kept_bytes: usize,
}

/// Something that takes room in a ledger.
pub trait Weighed {
    /// How many bytes of response it is, or stands for.
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

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was executed, and its response is kept.
    Repeat,
    /// Its response is gone, if there was one.
    Evicted,
    /// It is executed.
    Execute,
}

/// How much a ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLimits {
    /// At most so many responses, at least 1.
    pub count: usize,
    /// At most so many bytes of them; a response that is larger is refused.
    pub bytes: usize,
}

impl Default for KeptLimits {
    fn default() -> KeptLimits {
        KeptLimits { count: KEPT_LIMIT, bytes: KEPT_LIMIT_BYTES }
    }
}

/// What is remembered of a session that is gone, so that its numbers go on in one of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Former {
    /// A number that none of its requests had, not even one that is still under way.
    pub next_request: u64,
    /// The number of the last request of the server to it.
    pub last_letter: u64,
}

impl<R: Weighed> Default for Ledger<R> {
    fn default() -> Ledger<R> {
        Ledger::from(1)
    }
}

impl<R: Weighed> Ledger<R> {
    /// A ledger whose first request has at least this number.
    pub fn from(mark: u64) -> Ledger<R> {
        Ledger { mark: mark.max(1), kept: VecDeque::new(), kept_bytes: 0 }
    }

    /// What becomes of a request of this number. Nothing of the ledger changes.
    pub fn judge(&self, request_id: u64) -> Verdict {
        match self.find(request_id) {
            Ok(_) => Verdict::Repeat,
            Err(_) if request_id < self.mark => Verdict::Evicted,
            Err(_) => Verdict::Execute,
        }
    }

    /// The response that is kept for a request.
    pub fn response(&self, request_id: u64) -> Option<&R> {
        self.find(request_id).ok().map(|place| &self.kept[place].1)
    }

    /// Where the mark will be once this request is answered with so many bytes: where the client says, and higher where
    /// the oldest have to go. The request's own response may be the oldest; then it does not stay.
    pub fn mark_after(
        &self,
        request_id: u64,
        lowest_pending: u64,
        bytes: usize,
        limits: KeptLimits,
    ) -> u64 {
        let mut mark = self.mark.max(lowest_pending);
        let (mut count, mut total) = (self.kept.len() + 1, self.kept_bytes + bytes);
        let mut oldest = self.kept.iter();
        loop {
            let over = count > limits.count || total > limits.bytes;
            match oldest.next() {
                Some((id, response)) if *id < mark || over && *id < request_id => {
                    mark = mark.max(id + 1);
                    (count, total) = (count - 1, total - response.bytes());
                }
                _ if over => return request_id + 1,
                _ => return mark,
            }
        }
    }

    /// Where the mark will be once the oldest have gone of which there is no room with these limits.
    pub fn mark_within(&self, limits: KeptLimits) -> u64 {
        let (mut mark, mut count, mut total) = (self.mark, self.kept.len(), self.kept_bytes);
        for (id, response) in &self.kept {
            if count <= limits.count && total <= limits.bytes {
                break;
            }
            (mark, count, total) = (id + 1, count - 1, total - response.bytes());
        }
        mark
    }

    /// The numbers of responses that a mark ends.
    pub fn below(&self, mark: u64) -> impl Iterator<Item = u64> + '_ {
        self.kept.iter().map(|(id, _)| *id).take_while(move |id| *id < mark)
    }

    /// Raises the mark, never lowers it; what is below goes.
    pub fn raise(&mut self, mark: u64) {
        drop(self.raise_taking(mark));
    }

    /// The same; gives what went.
    pub fn raise_taking(&mut self, mark: u64) -> Drain<'_, (u64, R)> {
        self.mark = self.mark.max(mark);
        let count = self.kept.partition_point(|(id, _)| *id < self.mark);
        let bytes = self.kept.iter().take(count).map(|(_, response)| response.bytes());
        self.kept_bytes -= bytes.sum::<usize>();
        self.kept.drain(..count)
    }

    /// Keeps a response, unless its number is below the mark.
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

    /// The lowest number that may be executed or is kept.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// The number for a client to go on with.
    pub fn next_request(&self) -> u64 {
        self.kept.back().map_or(0, |(id, _)| id + 1).max(self.mark)
    }

    /// A number that no request has which a client may have under way. A late copy of one that was never executed, and
    /// was told so, must not be executed by the next session of the same name.
    pub fn beyond(&self) -> u64 {
        self.next_request().saturating_add(REQUESTS_AHEAD_LIMIT)
    }

    /// How many responses are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many bytes of responses are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The responses, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &R)> {
        self.kept.iter().map(|(id, response)| (*id, response))
    }

    /// Most requests come in their order, so the end is looked at first.
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
