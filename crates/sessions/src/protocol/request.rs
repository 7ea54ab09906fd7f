//! A numbered request: sent with the same number until it is answered.
//!
//! ```text
//!   number ---> attempt --answer--> settled
//!      ^           |
//!      |           |--unavailable, unknown, timeout--> pause, doubled each time --> attempt, same number
//!      |           |--the session is gone--> not executed, if no attempt was in doubt; else unknown
//!      |           '--no time left--> not executed, if no attempt was in doubt; else it stays unanswered
//!      '--- lowest unanswered number: sent with every attempt, with its current value
//! ```

use crate::failure::{self, ErrorClass, classify};
use crate::fault_points::ClientFault;
use crate::protocol::session_core::{Deadline, SessionCore, SessionStatus, last_error_of};
use crate::protocol::window::PendingRequest;
use crate::runtime::select::{Either, select};
use crate::stats::count;
use mainstay::remote::wait;
use mainstay::{Error, Receipt, Result, SessionRequest, Stamp, Transaction};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl SessionCore {
    /// Executes a transaction. Dropping the future before the answer gives up the request.
    pub async fn execute(&self, transaction: Transaction, deadline: Deadline) -> Result<Receipt> {
        let pending = self.assign_number(transaction, deadline).await?;
        let guard = CallerGuard { core: self, pending: &pending };
        let answer = self.await_answer(&pending, deadline).await;
        guard.release();
        answer
    }

    /// Assigns a number to a transaction. Waits while the window is full.
    pub async fn assign_number(
        &self,
        transaction: Transaction,
        deadline: Deadline,
    ) -> Result<Arc<PendingRequest>> {
        if transaction.request.is_some() {
            return Err(failure::invalid("a request of a session has its number and no other id"));
        }
        let mut transaction = Some(transaction);
        loop {
            match self.try_assign(&mut transaction)? {
                Some(pending) => return Ok(pending),
                None => self.wait_for_capacity(deadline).await?,
            }
        }
    }

    fn try_assign(
        &self,
        transaction: &mut Option<Transaction>,
    ) -> Result<Option<Arc<PendingRequest>>> {
        let mut state = self.state.lock();
        self.check_live(&state)?;
        if !state.window.ensure_capacity() {
            return Ok(None);
        }
        let generation = state.generation;
        let epoch = state.epoch;
        count(&self.counters.requests);
        Ok(Some(state.window.assign(generation, epoch, transaction.take().unwrap_or_default())))
    }

    async fn wait_for_capacity(&self, deadline: Deadline) -> Result<()> {
        let capacity = self.state_changed.wait_until(|| {
            let mut state = self.state.lock();
            let is_over = state.status != SessionStatus::Live;
            (is_over || state.window.ensure_capacity()).then_some(())
        });
        match select(capacity, self.deps.runtime.sleep(self.remaining(deadline))).await {
            Either::First(()) => Ok(()),
            Either::Second(()) => Err(failure::window_full(self.deps.settings.window)),
        }
    }

    /// Sends a request until it is answered.
    pub async fn await_answer(
        &self,
        pending: &Arc<PendingRequest>,
        deadline: Deadline,
    ) -> Result<Receipt> {
        // SeqCst pairs with the store in `AwaitGuard::drop`, so that one task at a time awaits a request.
        if pending.is_awaited.swap(true, Ordering::SeqCst) {
            return Err(failure::already_awaited(pending.number));
        }
        let _guard = AwaitGuard(pending);
        let mut pending = pending.clone();
        let mut backoff = self.backoff();
        loop {
            if let Some(answer) = self.attempt_request(&pending, deadline).await {
                return answer;
            }
            if !self.pause_unless_over(&pending, &mut backoff, deadline).await {
                return Err(self.timeout_error(&pending));
            }
            count(&self.counters.retries);
            if self.has_fault(ClientFault::NewNumber) {
                pending = self.assign_number(pending.transaction.clone(), deadline).await?;
            }
        }
    }

    /// Makes one attempt. Returns `None` if another one is needed.
    async fn attempt_request(
        &self,
        pending: &Arc<PendingRequest>,
        deadline: Deadline,
    ) -> Option<Result<Receipt>> {
        let lowest = match self.lowest_unanswered_for(pending) {
            Ok(lowest) => lowest,
            Err(error) => return Some(Err(error)),
        };
        let epoch = if self.has_fault(ClientFault::NoEpoch) { 0 } else { pending.epoch };
        let request =
            SessionRequest::new(self.name.clone(), pending.number, lowest).in_epoch(epoch);
        let sent_us = self.now_us();
        pending.start_attempt();
        let transaction = pending.transaction.clone().in_session(request);
        let answer = self.attempt(transaction, deadline).await;
        self.evaluate(pending, sent_us, answer)
    }

    /// The lowest unanswered number, if the request may still be sent.
    fn lowest_unanswered_for(&self, pending: &PendingRequest) -> Result<u64> {
        let mut state = self.state.lock();
        if state.generation != pending.generation || state.status != SessionStatus::Live {
            state.window.remove_if_current(pending);
            count(&self.counters.given_up);
            return Err(if state.status == SessionStatus::Closed {
                self.session_closed_error(pending)
            } else {
                self.session_gone_error(pending, failure::expired(&self.name))
            });
        }
        if state.window.get(pending.number).is_none() {
            return Err(if pending.may_be_executed() {
                failure::given_up(pending.number)
            } else {
                failure::not_pending(pending.number)
            });
        }
        Ok(if self.has_fault(ClientFault::LowestTooHigh) {
            pending.number
        } else {
            state.window.lowest()
        })
    }

    /// Evaluates the result of an attempt. Returns `None` if another one is needed.
    fn evaluate(
        &self,
        pending: &PendingRequest,
        sent_us: u64,
        answer: Result<Receipt>,
    ) -> Option<Result<Receipt>> {
        let class = answer.as_ref().map_or_else(classify, |_| ErrorClass::Answer);
        pending.end_attempt(class == ErrorClass::UnknownOutcome);
        match (class, answer) {
            (ErrorClass::Answer, answer) => {
                self.record_answer(pending, sent_us, &answer);
                Some(answer)
            }
            (ErrorClass::SessionExpired, Err(error)) => {
                self.expire(pending.generation);
                self.remove_request(pending);
                count(&self.counters.given_up);
                Some(Err(self.session_gone_error(pending, error)))
            }
            (ErrorClass::Rejected, Err(error)) if !pending.may_be_executed() => {
                self.remove_request(pending);
                Some(Err(error))
            }
            (ErrorClass::Rejected, Err(error)) => {
                Some(Err(failure::no_answer_yet(pending.number, &error)))
            }
            (_, Err(error)) => {
                if class == ErrorClass::UnknownOutcome {
                    count(&self.counters.unknown);
                }
                *pending.last_error.lock() = Some(error);
                None
            }
            (_, Ok(_)) => None,
        }
    }

    fn record_answer(&self, pending: &PendingRequest, sent_us: u64, answer: &Result<Receipt>) {
        count(&self.counters.answered);
        if answer.as_ref().is_ok_and(|receipt| receipt.repeated) {
            count(&self.counters.repeated);
        }
        let mut state = self.state.lock();
        state.window.remove_if_current(pending);
        // An error may come from a proxy that did not forward the request.
        if state.generation == pending.generation && answer.is_ok() {
            self.record_contact(&mut state, sent_us);
        }
        drop(state);
        self.state_changed.notify_all();
    }

    /// Removes a request whose answer is no longer awaited.
    pub fn remove_request(&self, pending: &PendingRequest) {
        self.state.lock().window.remove_if_current(pending);
        self.state_changed.notify_all();
    }

    /// The error for a request whose session is gone.
    fn session_gone_error(&self, pending: &PendingRequest, expired: Error) -> Error {
        if pending.may_be_executed() && !self.has_fault(ClientFault::AlwaysExpired) {
            failure::lost_with_session(pending.number, &self.name)
        } else {
            expired
        }
    }

    /// The error for a request whose session was closed by its client.
    fn session_closed_error(&self, pending: &PendingRequest) -> Error {
        if pending.may_be_executed() {
            failure::lost_with_session(pending.number, &self.name)
        } else {
            failure::closed(&self.name)
        }
    }

    /// Handles a timeout. A request that was certainly not executed is removed; any other stays unanswered.
    fn timeout_error(&self, pending: &PendingRequest) -> Error {
        let last_error = last_error_of(pending);
        if pending.may_be_executed() {
            if self.has_fault(ClientFault::ReusedNumber) {
                self.state.lock().window.reuse_number(pending.number);
            }
            return failure::no_answer_yet(pending.number, &last_error);
        }
        self.remove_request(pending);
        last_error
    }

    /// Pauses before the next attempt, or until the session ends. Returns false if no time is left for one.
    async fn pause_unless_over(
        &self,
        pending: &PendingRequest,
        backoff: &mut crate::runtime::backoff::Backoff<'_>,
        deadline: Deadline,
    ) -> bool {
        let session_end = self.state_changed.wait_until(|| {
            let state = self.state.lock();
            let is_over =
                state.status != SessionStatus::Live || state.generation != pending.generation;
            is_over.then_some(())
        });
        match select(session_end, self.pause(backoff, deadline)).await {
            Either::First(()) => true,
            Either::Second(has_time) => has_time,
        }
    }

    /// The unanswered numbers that no caller holds or awaits.
    pub fn unanswered(&self) -> Vec<u64> {
        self.state
            .lock()
            .window
            .pending()
            .filter(|pending| pending.is_abandoned())
            .map(|pending| pending.number)
            .collect()
    }

    /// Sends an unanswered request again.
    pub async fn ask_again(&self, number: u64, deadline: Deadline) -> Result<Receipt> {
        let pending = self.state.lock().window.get(number).cloned();
        let pending = pending.ok_or_else(|| failure::not_pending(number))?;
        self.await_answer(&pending, deadline).await
    }

    /// Gives up a request. Returns whether it was unanswered.
    pub fn give_up(&self, number: u64) -> bool {
        let pending = self.state.lock().window.get(number).cloned();
        let Some(pending) = pending else { return false };
        count(&self.counters.given_up);
        self.remove_request(&pending);
        true
    }
}

/// A request with an assigned number, which is sent when its answer is awaited. A caller that stores the
/// number and the epoch first can get the answer even after its own crash: see
/// [`Client::resume`](crate::Client::resume).
///
/// Dropping it unanswered gives it up: either it was executed, or it will not be executed once the database
/// receives the next message of this client. The caller cannot find out which.
///
/// ```
/// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
/// use mainstay_sessions::Client;
/// let db = Database::memory()?;
/// let session = Client::here(&db)?.open(SessionOptions::new())?;
/// let add = CellCommand::Incr { name: Name::new("n")?, by: 1.into() };
/// let request = session.request(Transaction::new().step(add))?;
/// assert_eq!(db.cells().get("n")?, None);
/// request.wait()?;
/// assert_eq!(db.cells().get("n")?, Some(1.into()));
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct Request {
    core: Arc<SessionCore>,
    pending: Arc<PendingRequest>,
}

impl Request {
    pub(crate) fn new(core: &Arc<SessionCore>, pending: Arc<PendingRequest>) -> Request {
        Request { core: core.clone(), pending }
    }

    /// The request number.
    pub fn number(&self) -> u64 {
        self.pending.number
    }

    /// The epoch of the session in which it is sent. An earlier request that is not sent again keeps its
    /// stored epoch.
    pub fn epoch(&self) -> Stamp {
        self.pending.epoch
    }

    /// Blocks until the answer, for at most [`Settings::deadline`](crate::Settings::deadline). After
    /// `UnknownOutcome` it may be called again.
    pub fn wait(&self) -> Result<Receipt> {
        wait(self.answer())
    }

    /// Blocks until the answer, for at most `time`; `None`: without limit.
    pub fn wait_within(&self, time: Option<Duration>) -> Result<Receipt> {
        wait(self.answer_within(time))
    }

    /// Waits for the answer, for at most [`Settings::deadline`](crate::Settings::deadline).
    pub async fn answer(&self) -> Result<Receipt> {
        self.core.await_answer(&self.pending, self.core.default_deadline()).await
    }

    /// Waits for the answer, for at most `time`; `None`: without limit.
    pub async fn answer_within(&self, time: Option<Duration>) -> Result<Receipt> {
        self.core.await_answer(&self.pending, self.core.deadline(time)).await
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let is_open = self
            .core
            .state
            .lock()
            .window
            .get(self.pending.number)
            .is_some_and(|current| Arc::ptr_eq(current, &self.pending));
        if is_open {
            self.core.give_up(self.pending.number);
        }
    }
}

/// Guard that marks a request as awaited.
struct AwaitGuard<'a>(&'a PendingRequest);

impl Drop for AwaitGuard<'_> {
    fn drop(&mut self) {
        // SeqCst pairs with the swap in `await_answer` and the load in `is_abandoned`.
        self.0.is_awaited.store(false, Ordering::SeqCst);
    }
}

/// Guard that gives up a request if its caller is dropped.
struct CallerGuard<'a> {
    core: &'a SessionCore,
    pending: &'a Arc<PendingRequest>,
}

impl CallerGuard<'_> {
    /// The caller has its result. A request that is still unanswered stays reachable by its number.
    fn release(self) {
        // SeqCst pairs with the load in `is_abandoned`.
        self.pending.has_caller.store(false, Ordering::SeqCst);
        // A request without a holder can be evicted, which makes room for waiting ones.
        self.core.state_changed.notify_all();
        std::mem::forget(self);
    }
}

impl Drop for CallerGuard<'_> {
    fn drop(&mut self) {
        count(&self.core.counters.given_up);
        self.core.remove_request(self.pending);
    }
}
