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

use crate::core::{Core, Deadline, Standing, last_of};
use crate::failure::{self, Meaning, meaning};
use crate::figures::count;
use crate::planted::Planted;
use crate::race::{First, race};
use crate::window::Asked;
use mainstay::remote::wait;
use mainstay::{Error, Receipt, Result, SessionRequest, Stamp, Transaction};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Core {
    /// Executes a transaction. Dropping the future before the answer gives up the request.
    pub async fn execute(&self, transaction: Transaction, deadline: Deadline) -> Result<Receipt> {
        let asked = self.take_number(transaction, deadline).await?;
        let held = Held { core: self, asked: &asked };
        let answer = self.answer(&asked, deadline).await;
        held.let_go();
        answer
    }

    /// Assigns a number to a transaction. Waits while the window is full.
    pub async fn take_number(
        &self,
        transaction: Transaction,
        deadline: Deadline,
    ) -> Result<Arc<Asked>> {
        if transaction.request.is_some() {
            return Err(failure::invalid("a request of a session has its number and no other id"));
        }
        let mut transaction = Some(transaction);
        loop {
            match self.try_take(&mut transaction)? {
                Some(asked) => return Ok(asked),
                None => self.wait_for_room(deadline).await?,
            }
        }
    }

    fn try_take(&self, transaction: &mut Option<Transaction>) -> Result<Option<Arc<Asked>>> {
        let mut state = self.state.lock();
        self.check_live(&state)?;
        if !state.window.make_room() {
            return Ok(None);
        }
        let generation = state.generation;
        let epoch = state.epoch;
        count(&self.tally.requests);
        Ok(Some(state.window.put(generation, epoch, transaction.take().unwrap_or_default())))
    }

    async fn wait_for_room(&self, deadline: Deadline) -> Result<()> {
        let room = self.changed.until(|| {
            let mut state = self.state.lock();
            let is_over = state.standing != Standing::Live;
            (is_over || state.window.make_room()).then_some(())
        });
        match race(room, self.means.runtime.sleep(self.left(deadline))).await {
            First::This(()) => Ok(()),
            First::That(()) => Err(failure::no_room(self.means.settings.window)),
        }
    }

    /// Sends a request until it is answered.
    pub async fn answer(&self, asked: &Arc<Asked>, deadline: Deadline) -> Result<Receipt> {
        // SeqCst pairs with the store in `Awaited::drop`, so that one task at a time awaits a request.
        if asked.is_awaited.swap(true, Ordering::SeqCst) {
            return Err(failure::waited_for(asked.number));
        }
        let _awaited = Awaited(asked);
        let mut asked = asked.clone();
        let mut pauses = self.pauses();
        loop {
            if let Some(answer) = self.send(&asked, deadline).await {
                return answer;
            }
            if !self.rest_unless_over(&asked, &mut pauses, deadline).await {
                return Err(self.overdue(&asked));
            }
            count(&self.tally.retries);
            if self.has(Planted::NewNumber) {
                asked = self.take_number(asked.transaction.clone(), deadline).await?;
            }
        }
    }

    /// Makes one attempt. Returns `None` if another one is needed.
    async fn send(&self, asked: &Arc<Asked>, deadline: Deadline) -> Option<Result<Receipt>> {
        let lowest = match self.lowest_for(asked) {
            Ok(lowest) => lowest,
            Err(error) => return Some(Err(error)),
        };
        let epoch = if self.has(Planted::NoEpoch) { 0 } else { asked.epoch };
        let request = SessionRequest::new(self.name.clone(), asked.number, lowest).in_epoch(epoch);
        let sent_us = self.now_us();
        asked.sending();
        let transaction = asked.transaction.clone().in_session(request);
        let answer = self.attempt(transaction, deadline).await;
        self.judge(asked, sent_us, answer)
    }

    /// The lowest unanswered number, if the request may still be sent.
    fn lowest_for(&self, asked: &Asked) -> Result<u64> {
        let mut state = self.state.lock();
        if state.generation != asked.generation || state.standing != Standing::Live {
            state.window.settle_in(asked);
            count(&self.tally.given_up);
            return Err(if state.standing == Standing::Closed {
                self.closed_before(asked)
            } else {
                self.gone_before(asked, failure::expired(&self.name))
            });
        }
        if state.window.get(asked.number).is_none() {
            return Err(if asked.may_be_done() {
                failure::given_up(asked.number)
            } else {
                failure::not_pending(asked.number)
            });
        }
        Ok(if self.has(Planted::LowestTooHigh) { asked.number } else { state.window.lowest() })
    }

    /// Evaluates the result of an attempt. Returns `None` if another one is needed.
    fn judge(
        &self,
        asked: &Asked,
        sent_us: u64,
        answer: Result<Receipt>,
    ) -> Option<Result<Receipt>> {
        let meaning = answer.as_ref().map_or_else(meaning, |_| Meaning::Answer);
        asked.ended(meaning == Meaning::Unknown);
        match (meaning, answer) {
            (Meaning::Answer, answer) => {
                self.answered(asked, sent_us, &answer);
                Some(answer)
            }
            (Meaning::Expired, Err(error)) => {
                self.expire(asked.generation);
                self.settle(asked);
                count(&self.tally.given_up);
                Some(Err(self.gone_before(asked, error)))
            }
            (Meaning::Refused, Err(error)) if !asked.may_be_done() => {
                self.settle(asked);
                Some(Err(error))
            }
            (Meaning::Refused, Err(error)) => Some(Err(failure::overdue(asked.number, &error))),
            (_, Err(error)) => {
                if meaning == Meaning::Unknown {
                    count(&self.tally.unknown);
                }
                *asked.last.lock() = Some(error);
                None
            }
            (_, Ok(_)) => None,
        }
    }

    fn answered(&self, asked: &Asked, sent_us: u64, answer: &Result<Receipt>) {
        count(&self.tally.answered);
        if answer.as_ref().is_ok_and(|receipt| receipt.repeated) {
            count(&self.tally.repeated);
        }
        let mut state = self.state.lock();
        state.window.settle_in(asked);
        // An error may come from a proxy that did not forward the request.
        if state.generation == asked.generation && answer.is_ok() {
            self.heard(&mut state, sent_us);
        }
        drop(state);
        self.changed.ring();
    }

    /// Removes a request whose answer is no longer awaited.
    pub fn settle(&self, asked: &Asked) {
        self.state.lock().window.settle_in(asked);
        self.changed.ring();
    }

    /// The error for a request whose session is gone.
    fn gone_before(&self, asked: &Asked, expired: Error) -> Error {
        if asked.may_be_done() && !self.has(Planted::AlwaysExpired) {
            failure::lost_with_session(asked.number, &self.name)
        } else {
            expired
        }
    }

    /// The error for a request whose session was closed by its client.
    fn closed_before(&self, asked: &Asked) -> Error {
        if asked.may_be_done() {
            failure::lost_with_session(asked.number, &self.name)
        } else {
            failure::closed(&self.name)
        }
    }

    /// Handles a timeout. A request that was certainly not executed is settled; any other stays unanswered.
    fn overdue(&self, asked: &Asked) -> Error {
        let last = last_of(asked);
        if asked.may_be_done() {
            if self.has(Planted::ReusedNumber) {
                self.state.lock().window.go_back_to(asked.number);
            }
            return failure::overdue(asked.number, &last);
        }
        self.settle(asked);
        last
    }

    /// Pauses before the next attempt, or until the session ends. Returns false if no time is left for one.
    async fn rest_unless_over(
        &self,
        asked: &Asked,
        pauses: &mut crate::pauses::Pauses<'_>,
        deadline: Deadline,
    ) -> bool {
        let over = self.changed.until(|| {
            let state = self.state.lock();
            let is_over = state.standing != Standing::Live || state.generation != asked.generation;
            is_over.then_some(())
        });
        match race(over, self.rest(pauses, deadline)).await {
            First::This(()) => true,
            First::That(goes_on) => goes_on,
        }
    }

    /// The unanswered numbers that no caller holds or awaits.
    pub fn unanswered(&self) -> Vec<u64> {
        self.state
            .lock()
            .window
            .pending()
            .filter(|asked| asked.is_let_go())
            .map(|asked| asked.number)
            .collect()
    }

    /// Sends an unanswered request again.
    pub async fn ask_again(&self, number: u64, deadline: Deadline) -> Result<Receipt> {
        let asked = self.state.lock().window.get(number).cloned();
        let asked = asked.ok_or_else(|| failure::not_pending(number))?;
        self.answer(&asked, deadline).await
    }

    /// Gives up a request. Returns whether it was unanswered.
    pub fn give_up(&self, number: u64) -> bool {
        let asked = self.state.lock().window.get(number).cloned();
        let Some(asked) = asked else { return false };
        count(&self.tally.given_up);
        self.settle(&asked);
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
    core: Arc<Core>,
    asked: Arc<Asked>,
}

impl Request {
    pub(crate) fn new(core: &Arc<Core>, asked: Arc<Asked>) -> Request {
        Request { core: core.clone(), asked }
    }

    /// The request number.
    pub fn number(&self) -> u64 {
        self.asked.number
    }

    /// The epoch of the session in which it is sent. An earlier request that is not sent again keeps its
    /// stored epoch.
    pub fn epoch(&self) -> Stamp {
        self.asked.epoch
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
        self.core.answer(&self.asked, self.core.usual_deadline()).await
    }

    /// Waits for the answer, for at most `time`; `None`: without limit.
    pub async fn answer_within(&self, time: Option<Duration>) -> Result<Receipt> {
        self.core.answer(&self.asked, self.core.deadline(time)).await
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let is_open = self
            .core
            .state
            .lock()
            .window
            .get(self.asked.number)
            .is_some_and(|known| Arc::ptr_eq(known, &self.asked));
        if is_open {
            self.core.give_up(self.asked.number);
        }
    }
}

/// Guard that marks a request as awaited.
struct Awaited<'a>(&'a Asked);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        // SeqCst pairs with the swap in `answer` and the load in `is_let_go`.
        self.0.is_awaited.store(false, Ordering::SeqCst);
    }
}

/// Guard that gives up a request if its caller is dropped.
struct Held<'a> {
    core: &'a Core,
    asked: &'a Arc<Asked>,
}

impl Held<'_> {
    /// The caller has its result. A request that is still unanswered stays reachable by its number.
    fn let_go(self) {
        // SeqCst pairs with the load in `is_let_go`.
        self.asked.is_held.store(false, Ordering::SeqCst);
        // A request without a holder can be evicted, which makes room for waiting ones.
        self.core.changed.ring();
        std::mem::forget(self);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        count(&self.core.tally.given_up);
        self.core.settle(self.asked);
    }
}
