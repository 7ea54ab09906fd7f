//! Sliding window of request numbers: those in flight, the next one, and the limit between them.
//!
//! ```text
//!    answered      lowest                     next
//!   ............... | 7  8  10  13  14 ....... | not assigned yet
//!                   in flight, at most `limit`
//!                   '- WINDOW_LIMIT at most -'
//! ```
//!
//! Numbers run ahead of the lowest one by at most the number of stored responses, so that no awaited
//! response is evicted.

use crate::settings::WINDOW_LIMIT;
use mainstay::{Error, Stamp, Transaction};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request with an assigned number.
// The flags use SeqCst: each is set by the task that sends or awaits the request, and read by others.
pub(crate) struct Asked {
    pub number: u64,
    /// The opening of the session that it belongs to, and the epoch that began with it.
    pub generation: u64,
    pub epoch: Stamp,
    pub transaction: Transaction,
    /// An attempt was started whose end was not observed.
    is_sent: AtomicBool,
    /// An attempt may have executed it.
    is_in_doubt: AtomicBool,
    /// A caller still holds it, and can ask for its answer without the number.
    pub is_held: AtomicBool,
    /// A caller is currently waiting for its answer.
    pub is_awaited: AtomicBool,
    /// The error of the last attempt.
    pub last: Mutex<Option<Error>>,
}

impl Asked {
    pub fn new(number: u64, generation: u64, epoch: Stamp, transaction: Transaction) -> Asked {
        Asked {
            number,
            generation,
            epoch,
            transaction,
            is_sent: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(false),
            is_held: AtomicBool::new(true),
            is_awaited: AtomicBool::new(false),
            last: Mutex::default(),
        }
    }

    /// Records the start of an attempt.
    pub fn sending(&self) {
        // The previous attempt never ended, because its caller was dropped. So its outcome is unknown.
        if self.is_sent.swap(true, Ordering::SeqCst) {
            self.is_in_doubt.store(true, Ordering::SeqCst);
        }
    }

    /// Records the end of an attempt, and whether it may have been executed.
    pub fn ended(&self, may_be_done: bool) {
        self.is_sent.store(false, Ordering::SeqCst);
        if may_be_done {
            self.is_in_doubt.store(true, Ordering::SeqCst);
        }
    }

    /// Returns whether no caller holds or awaits it.
    pub fn is_let_go(&self) -> bool {
        !self.is_held.load(Ordering::SeqCst) && !self.is_awaited.load(Ordering::SeqCst)
    }

    /// Returns whether it may have been executed.
    pub fn may_be_done(&self) -> bool {
        self.is_in_doubt.load(Ordering::SeqCst) || self.is_sent.load(Ordering::SeqCst)
    }
}

/// The window; see the module.
pub(crate) struct Window {
    limit: usize,
    next: u64,
    pending: BTreeMap<u64, Arc<Asked>>,
}

impl Window {
    /// A window that starts at this number.
    pub fn from(next: u64, limit: usize) -> Window {
        Window { limit, next, pending: BTreeMap::new() }
    }

    /// The next number to assign.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The lowest unanswered number.
    pub fn lowest(&self) -> u64 {
        self.pending.keys().next().copied().unwrap_or(self.next)
    }

    /// Returns whether a number is available. If the window is full, evicts the oldest requests that no
    /// caller holds or awaits; they are given up.
    pub fn make_room(&mut self) -> bool {
        while self.is_full() {
            let oldest = self.pending.values().find(|asked| asked.is_let_go());
            match oldest.map(|asked| asked.number) {
                Some(number) => self.settle(number),
                None => return false,
            }
        }
        true
    }

    fn is_full(&self) -> bool {
        let span = self.next.saturating_sub(self.lowest());
        self.pending.len() >= self.limit || span >= WINDOW_LIMIT as u64
    }

    /// Assigns the next number to a transaction.
    pub fn put(&mut self, generation: u64, epoch: Stamp, transaction: Transaction) -> Arc<Asked> {
        let asked = Arc::new(Asked::new(self.next, generation, epoch, transaction));
        self.pending.insert(self.next, asked.clone());
        self.next = self.next.saturating_add(1);
        asked
    }

    /// Adds an earlier request under its old number.
    pub fn take_in(&mut self, asked: Arc<Asked>) {
        self.next = self.next.max(asked.number.saturating_add(1));
        self.pending.insert(asked.number, asked);
    }

    /// Removes a request that was answered or given up.
    pub fn settle(&mut self, number: u64) {
        self.pending.remove(&number);
    }

    /// Removes a request, if it belongs to this opening of the session.
    pub fn settle_in(&mut self, asked: &Asked) {
        if self.get(asked.number).is_some_and(|known| known.generation == asked.generation) {
            self.settle(asked.number);
        }
    }

    /// An unanswered request.
    pub fn get(&self, number: u64) -> Option<&Arc<Asked>> {
        self.pending.get(&number)
    }

    /// All unanswered requests, in the order of their numbers.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<Asked>> {
        self.pending.values()
    }

    /// The planted bug that reuses a number.
    pub fn go_back_to(&mut self, number: u64) {
        self.settle(number);
        self.next = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(limit: usize) -> Window {
        Window::from(1, limit)
    }

    fn put(window: &mut Window) -> Arc<Asked> {
        assert!(window.make_room());
        window.put(1, 1, Transaction::new())
    }

    #[test]
    fn the_lowest_is_the_first_without_an_answer_or_the_next() {
        let mut window = window(8);
        assert_eq!(window.lowest(), 1);
        let all: Vec<_> = (0..3).map(|_| put(&mut window)).collect();
        window.settle(2);
        assert_eq!((window.lowest(), window.next()), (1, 4));
        window.settle(1);
        assert_eq!(window.lowest(), 3);
        window.settle(3);
        assert_eq!((window.lowest(), all.len()), (4, 3));
    }

    #[test]
    fn a_full_window_waits_unless_somebody_let_go() {
        let mut window = window(2);
        let first = put(&mut window);
        let second = put(&mut window);
        assert!(!window.make_room());
        second.is_held.store(false, Ordering::SeqCst);
        second.is_awaited.store(true, Ordering::SeqCst);
        assert!(!window.make_room(), "somebody asks for it");
        second.is_awaited.store(false, Ordering::SeqCst);
        assert!(window.make_room());
        assert_eq!(window.pending().map(|asked| asked.number).collect::<Vec<_>>(), [first.number]);
    }

    #[test]
    fn numbers_do_not_run_further_ahead_than_responses_are_kept() {
        let mut window = window(WINDOW_LIMIT);
        let _first = put(&mut window);
        for _ in 1..WINDOW_LIMIT {
            let next = put(&mut window);
            window.settle(next.number);
        }
        assert!(!window.make_room(), "the first has no answer");
        window.settle(1);
        assert!(window.make_room());
    }

    #[test]
    fn an_attempt_that_nobody_saw_the_end_of_leaves_a_doubt() {
        let asked = Asked::new(1, 1, 1, Transaction::new());
        asked.sending();
        asked.ended(false);
        assert!(!asked.may_be_done());
        asked.sending();
        assert!(asked.may_be_done());
        asked.sending();
        asked.ended(false);
        assert!(asked.may_be_done());
    }
}
