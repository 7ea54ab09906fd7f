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
pub(crate) struct PendingRequest {
    pub number: u64,
    /// The opening of the session that it belongs to, and the epoch that began with it.
    pub generation: u64,
    pub epoch: Stamp,
    pub transaction: Transaction,
    /// An attempt was started whose end was not observed.
    is_attempt_running: AtomicBool,
    /// An attempt may have executed it.
    is_in_doubt: AtomicBool,
    /// A caller still holds it, and can ask for its answer without the number.
    pub has_caller: AtomicBool,
    /// A caller is currently waiting for its answer.
    pub is_awaited: AtomicBool,
    /// The error of the last attempt.
    pub last_error: Mutex<Option<Error>>,
}

impl PendingRequest {
    pub fn new(
        number: u64,
        generation: u64,
        epoch: Stamp,
        transaction: Transaction,
    ) -> PendingRequest {
        PendingRequest {
            number,
            generation,
            epoch,
            transaction,
            is_attempt_running: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(false),
            has_caller: AtomicBool::new(true),
            is_awaited: AtomicBool::new(false),
            last_error: Mutex::default(),
        }
    }

    /// Records the start of an attempt.
    pub fn start_attempt(&self) {
        // The previous attempt never ended, because its caller was dropped. So its outcome is unknown.
        if self.is_attempt_running.swap(true, Ordering::SeqCst) {
            self.is_in_doubt.store(true, Ordering::SeqCst);
        }
    }

    /// Records the end of an attempt, and whether it may have been executed.
    pub fn end_attempt(&self, may_be_executed: bool) {
        self.is_attempt_running.store(false, Ordering::SeqCst);
        if may_be_executed {
            self.is_in_doubt.store(true, Ordering::SeqCst);
        }
    }

    /// Returns whether no caller holds or awaits it.
    pub fn is_abandoned(&self) -> bool {
        !self.has_caller.load(Ordering::SeqCst) && !self.is_awaited.load(Ordering::SeqCst)
    }

    /// Returns whether it may have been executed.
    pub fn may_be_executed(&self) -> bool {
        self.is_in_doubt.load(Ordering::SeqCst) || self.is_attempt_running.load(Ordering::SeqCst)
    }
}

/// The window; see the module.
pub(crate) struct Window {
    limit: usize,
    next: u64,
    pending: BTreeMap<u64, Arc<PendingRequest>>,
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
    pub fn ensure_capacity(&mut self) -> bool {
        while self.is_full() {
            let oldest = self.pending.values().find(|request| request.is_abandoned());
            match oldest.map(|request| request.number) {
                Some(number) => self.remove(number),
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
    pub fn assign(
        &mut self,
        generation: u64,
        epoch: Stamp,
        transaction: Transaction,
    ) -> Arc<PendingRequest> {
        let request = Arc::new(PendingRequest::new(self.next, generation, epoch, transaction));
        self.pending.insert(self.next, request.clone());
        self.next = self.next.saturating_add(1);
        request
    }

    /// Adds an earlier request under its old number.
    pub fn adopt(&mut self, request: Arc<PendingRequest>) {
        self.next = self.next.max(request.number.saturating_add(1));
        self.pending.insert(request.number, request);
    }

    /// Removes a request that was answered or given up.
    pub fn remove(&mut self, number: u64) {
        self.pending.remove(&number);
    }

    /// Removes a request, if it belongs to this opening of the session.
    pub fn remove_if_current(&mut self, request: &PendingRequest) {
        if self.get(request.number).is_some_and(|current| current.generation == request.generation)
        {
            self.remove(request.number);
        }
    }

    /// An unanswered request.
    pub fn get(&self, number: u64) -> Option<&Arc<PendingRequest>> {
        self.pending.get(&number)
    }

    /// All unanswered requests, in the order of their numbers.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<PendingRequest>> {
        self.pending.values()
    }

    /// The injected fault that reuses a number.
    pub fn reuse_number(&mut self, number: u64) {
        self.remove(number);
        self.next = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(limit: usize) -> Window {
        Window::from(1, limit)
    }

    fn assign(window: &mut Window) -> Arc<PendingRequest> {
        assert!(window.ensure_capacity());
        window.assign(1, 1, Transaction::new())
    }

    #[test]
    fn the_lowest_is_the_first_without_an_answer_or_the_next() {
        let mut window = window(8);
        assert_eq!(window.lowest(), 1);
        let all: Vec<_> = (0..3).map(|_| assign(&mut window)).collect();
        window.remove(2);
        assert_eq!((window.lowest(), window.next()), (1, 4));
        window.remove(1);
        assert_eq!(window.lowest(), 3);
        window.remove(3);
        assert_eq!((window.lowest(), all.len()), (4, 3));
    }

    #[test]
    fn a_full_window_waits_unless_somebody_let_go() {
        let mut window = window(2);
        let first = assign(&mut window);
        let second = assign(&mut window);
        assert!(!window.ensure_capacity());
        second.has_caller.store(false, Ordering::SeqCst);
        second.is_awaited.store(true, Ordering::SeqCst);
        assert!(!window.ensure_capacity(), "somebody asks for it");
        second.is_awaited.store(false, Ordering::SeqCst);
        assert!(window.ensure_capacity());
        assert_eq!(
            window.pending().map(|request| request.number).collect::<Vec<_>>(),
            [first.number]
        );
    }

    #[test]
    fn numbers_do_not_run_further_ahead_than_responses_are_kept() {
        let mut window = window(WINDOW_LIMIT);
        let _first = assign(&mut window);
        for _ in 1..WINDOW_LIMIT {
            let next = assign(&mut window);
            window.remove(next.number);
        }
        assert!(!window.ensure_capacity(), "the first has no answer");
        window.remove(1);
        assert!(window.ensure_capacity());
    }

    #[test]
    fn an_attempt_that_nobody_saw_the_end_of_leaves_a_doubt() {
        let request = PendingRequest::new(1, 1, 1, Transaction::new());
        request.start_attempt();
        request.end_attempt(false);
        assert!(!request.may_be_executed());
        request.start_attempt();
        assert!(request.may_be_executed());
        request.start_attempt();
        request.end_attempt(false);
        assert!(request.may_be_executed());
    }
}
