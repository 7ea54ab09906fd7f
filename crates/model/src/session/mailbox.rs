//! Mailbox of a session: the queue of requests that its client has not acknowledged.
//!
//! ```text
//!   1 2 3 | 4 5 6 |            acknowledged | pending, each with the time of its last send
//!           ^   ^ last         numbers are never reused, even if nothing is pending
//! ```

use crate::{Name, Stamp};
use std::collections::{BTreeSet, VecDeque};

/// The unacknowledged requests to one session's client. A request `P` is its bytes, or nothing if they are
/// stored elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox<P> {
    last: u64,
    pending: VecDeque<Letter<P>>,
}

/// A request to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter<P> {
    /// The time of the last send.
    pub sent: Stamp,
    /// The content.
    pub payload: P,
}

impl<P> Default for Mailbox<P> {
    fn default() -> Mailbox<P> {
        Mailbox::from(0)
    }
}

impl<P> Mailbox<P> {
    /// An empty mailbox whose last request had this number.
    pub fn from(last: u64) -> Mailbox<P> {
        Mailbox { last, pending: VecDeque::new() }
    }

    /// The number of the last request.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The number of pending requests.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Returns whether no request is pending.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The number of the first pending request, or of the next one if none is pending.
    pub fn first(&self) -> u64 {
        self.last + 1 - self.pending.len() as u64
    }

    /// Adds a request. Returns its number.
    pub fn put(&mut self, sent: Stamp, payload: P) -> u64 {
        self.last += 1;
        self.pending.push_back(Letter { sent, payload });
        self.last
    }

    /// Raises the last number of an empty mailbox, after a request was numbered elsewhere.
    pub fn advance(&mut self, last: u64) {
        if self.pending.is_empty() {
            self.last = self.last.max(last);
        }
    }

    /// Removes all requests up to a number, which may be beyond the last, and returns them.
    pub fn acknowledge(&mut self, upto: u64) -> impl Iterator<Item = (u64, Letter<P>)> + '_ {
        let first = self.first();
        let count = upto.saturating_add(1).saturating_sub(first).min(self.pending.len() as u64);
        self.pending
            .drain(..count as usize)
            .enumerate()
            .map(move |(place, letter)| (first + place as u64, letter))
    }

    /// Iterates over the pending requests, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Letter<P>)> {
        (self.first()..).zip(&self.pending)
    }

    /// Returns a pending request.
    pub fn letter_mut(&mut self, id: u64) -> Option<&mut Letter<P>> {
        let place = id.checked_sub(self.first())?;
        self.pending.get_mut(usize::try_from(place).ok()?)
    }
}

/// Index of all pending requests by the time of their last send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    sent: BTreeSet<(Stamp, Name, u64)>,
    /// The lowest send time, cached so that `any_before` runs in constant time.
    oldest: Option<Stamp>,
}

impl Retries {
    /// Returns whether a request was sent strictly before a time.
    pub fn any_before(&self, sent_before: Stamp) -> bool {
        self.oldest.is_some_and(|oldest| oldest < sent_before)
    }

    /// Iterates over the requests sent strictly before a time, the oldest first.
    pub fn before(&self, sent_before: Stamp) -> impl Iterator<Item = (Stamp, &Name, u64)> {
        let before = self.sent.iter().take_while(move |(sent, ..)| *sent < sent_before);
        before.map(|(sent, session, id)| (*sent, session, *id))
    }

    /// Adds a request with its send time.
    pub fn put(&mut self, sent: Stamp, session: &Name, id: u64) {
        self.sent.insert((sent, session.clone(), id));
        self.oldest = Some(self.oldest.map_or(sent, |oldest| oldest.min(sent)));
    }

    /// Removes a request with its send time.
    pub fn take(&mut self, sent: Stamp, session: &Name, id: u64) {
        self.sent.remove(&(sent, session.clone(), id));
        self.oldest = self.sent.first().map(|(sent, ..)| *sent);
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Returns whether no request is pending.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once() {
        let mut mailbox = Mailbox::default();
        assert_eq!((1..=3).map(|at| mailbox.put(at, at)).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(mailbox.acknowledge(2).map(|(id, _)| id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            mailbox.iter().map(|(id, letter)| (id, letter.payload)).collect::<Vec<_>>(),
            [(3, 3)]
        );
        assert_eq!(mailbox.acknowledge(2).count(), 0, "acknowledged twice");
        assert_eq!(mailbox.acknowledge(u64::MAX).count(), 1, "beyond the last");
        assert!(mailbox.is_empty());
        assert_eq!(mailbox.put(9, 9), 4);
        assert_eq!((mailbox.first(), mailbox.last()), (4, 4));
        assert!(mailbox.letter_mut(3).is_none() && mailbox.letter_mut(5).is_none());
        assert_eq!(mailbox.letter_mut(4).unwrap().payload, 9);
    }

    #[test]
    fn whether_one_is_older_is_known_without_a_look_at_any() {
        let a = Name::new("a").unwrap();
        let mut retries = Retries::default();
        for sent in 3..10_000 {
            retries.put(sent, &a, sent);
        }
        let all = std::mem::take(&mut retries.sent);
        assert!(!retries.any_before(3) && retries.any_before(4), "there are none to look at");
        retries.sent = all;
        retries.take(3, &a, 3);
        assert!(!retries.any_before(4) && retries.any_before(5));
    }

    #[test]
    fn only_the_strictly_older_are_retried() {
        let a = Name::new("a").unwrap();
        let mut retries = Retries::default();
        retries.put(5, &a, 1);
        retries.put(7, &a, 2);
        assert!(!retries.any_before(5) && retries.any_before(6));
        assert_eq!(retries.before(7).map(|(_, _, id)| id).collect::<Vec<_>>(), [1]);
        retries.take(5, &a, 1);
        assert!(!retries.any_before(7) && retries.any_before(8));
        retries.take(7, &a, 2);
        assert!(retries.is_empty() && !retries.any_before(Stamp::MAX));
    }
}
