//! Core of a session, shared by the blocking and the async handle.
//!
//! ```text
//!   Session (blocking) ---\
//!                          >-- SessionCore: numbers, attempts, backoff, server messages ---> Transport
//!   AsyncSession (async) -/      ^
//!                                '--- keep-alives, by the Runtime
//! ```

use crate::failure::{self, ErrorClass, classify};
use crate::fault_points::ClientFault;
use crate::protocol::window::{PendingRequest, Window};
use crate::runtime::Runtime;
use crate::runtime::backoff::{Backoff, Jitter};
use crate::runtime::select::{Either, Notify, select};
use crate::runtime::timer_thread::micros;
use crate::settings::Settings;
use crate::stats::{Counters, count};
use crate::transport::Transport;
use mainstay::{
    Answer, Durability, Error, Hold, Name, Receipt, Result, SessionAnswer, SessionCommand,
    SessionInfo, SessionRequest, Stamp, Transaction,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// State shared by all sessions of a client.
pub(crate) struct ClientDeps {
    pub transport: Arc<dyn Transport>,
    pub runtime: Arc<dyn Runtime>,
    pub settings: Settings,
    pub jitter: Jitter,
}

/// Client-side state of a session.
pub(crate) struct SessionCore {
    pub deps: Arc<ClientDeps>,
    pub name: Name,
    pub counters: Counters,
    pub state: Mutex<SessionState>,
    /// Notified whenever a change of the state may concern waiting tasks.
    pub state_changed: Notify,
    open_command: SessionCommand,
}

/// Unanswered requests of an earlier client object.
pub(crate) struct UnansweredRequests {
    /// The epoch in which their numbers were assigned.
    pub epoch: Stamp,
    pub requests: Vec<(u64, Transaction)>,
}

impl UnansweredRequests {
    /// Rejects invalid and duplicate numbers.
    fn check(&self, session: &Name) -> Result<()> {
        let mut numbers = BTreeSet::new();
        for (number, _) in &self.requests {
            SessionRequest::new(session.clone(), *number, *number).check()?;
            if !numbers.insert(number) {
                return Err(failure::invalid(format!("request {number} is given twice")));
            }
        }
        Ok(())
    }
}

pub(crate) struct SessionState {
    pub status: SessionStatus,
    /// Number of openings. Answers about one session must not be applied to the next one of the same name.
    pub generation: u64,
    pub window: Window,
    /// The epoch in which this client owns the session.
    pub epoch: Stamp,
    pub info: Option<SessionInfo>,
    /// Send time of the last message that the database has received.
    pub last_contact_us: u64,
    /// The last server message that was handled, and the last that was acknowledged.
    pub last_handled: u64,
    pub last_acknowledged: u64,
    /// True while a listener handles server messages.
    pub is_listening: bool,
}

/// The session's status as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionStatus {
    /// The session does not exist, or no longer.
    Gone,
    /// It is being opened.
    Opening,
    Live,
    /// The client has closed it.
    Closed,
}

/// Deadline of an operation, in the runtime's time; `None`: unlimited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub Option<u64>);

impl SessionCore {
    pub fn new(deps: &Arc<ClientDeps>, open_command: SessionCommand) -> Result<SessionCore> {
        let name = open_command.session().cloned().ok_or_else(failure::unexpected)?;
        let state = SessionState {
            status: SessionStatus::Gone,
            generation: 0,
            window: Window::from(1, deps.settings.window),
            epoch: 0,
            info: None,
            last_contact_us: 0,
            last_handled: 0,
            last_acknowledged: 0,
            is_listening: false,
        };
        Ok(SessionCore {
            deps: deps.clone(),
            name,
            counters: Counters::default(),
            state: Mutex::new(state),
            state_changed: Notify::default(),
            open_command,
        })
    }

    pub fn now_us(&self) -> u64 {
        self.deps.runtime.now_us()
    }

    /// The deadline of an operation that begins now.
    pub fn deadline(&self, time: Option<Duration>) -> Deadline {
        Deadline(time.map(|time| self.now_us().saturating_add(micros(time))))
    }

    /// The deadline of the settings.
    pub fn default_deadline(&self) -> Deadline {
        self.deadline(self.deps.settings.deadline)
    }

    pub fn backoff(&self) -> Backoff<'_> {
        Backoff::new(&self.deps.settings, &self.deps.jitter)
    }

    /// Returns whether a test has injected this fault.
    pub fn has_fault(&self, fault: ClientFault) -> bool {
        #[cfg(feature = "planted-faults")]
        return self.deps.settings.injected_fault == Some(fault);
        #[cfg(not(feature = "planted-faults"))]
        {
            let _ = fault;
            false
        }
    }

    /// Opens the session, or its successor if it is gone, and becomes its only owner.
    pub async fn open(&self) -> Result<()> {
        self.open_with(None).await.map(drop)
    }

    /// Opens the session and takes over the unanswered requests of an earlier client object.
    pub async fn open_with(
        &self,
        unanswered: Option<UnansweredRequests>,
    ) -> Result<Vec<Arc<PendingRequest>>> {
        unanswered.iter().try_for_each(|unanswered| unanswered.check(&self.name))?;
        let Some(guard) = self.begin_opening().await? else { return Ok(Vec::new()) };
        let sent_us = self.now_us();
        let expected = unanswered.as_ref().map_or(0, |unanswered| unanswered.epoch);
        let ownership = self.acquire_ownership(expected, self.default_deadline()).await?;
        let unanswered = guard.finish(ownership, unanswered, sent_us);
        if self.state.lock().status == SessionStatus::Closed {
            // The session was closed meanwhile, in the epoch before.
            self.close().await?;
            return Err(failure::closed(&self.name));
        }
        Ok(unanswered)
    }

    /// Begins a new epoch, in which this client is the only owner. Requests of other clients, and of this
    /// one from earlier epochs, are not executed from now on, and a database crash does not undo that.
    /// First tries to end the epoch `expected`.
    async fn acquire_ownership(&self, expected: Stamp, deadline: Deadline) -> Result<Ownership> {
        // Independent of the settings' seed, because two clients may use the same seed.
        let nonce = self.deps.runtime.unique();
        let mut ended_epoch = expected;
        loop {
            let mut command = self.open_command.clone();
            if let SessionCommand::Open { hold, .. } = &mut command {
                *hold = Some(Hold { nonce, over: ended_epoch });
            }
            let answer = self.call_durably(command, deadline).await?;
            match of_session(answer)? {
                SessionAnswer::Opened { info, held: true, .. } => {
                    return Ok(Ownership { info, ended_epoch });
                }
                // Another client owns the session. Its answer names the epoch to end.
                SessionAnswer::Opened { info, .. } if info.epoch != ended_epoch => {
                    ended_epoch = info.epoch
                }
                _ => return Err(failure::unexpected()),
            }
        }
    }

    /// Returns `None` if the session is open. Waits if another task is opening it.
    async fn begin_opening(&self) -> Result<Option<OpeningGuard<'_>>> {
        self.state_changed
            .wait_until(|| {
                let mut state = self.state.lock();
                match state.status {
                    SessionStatus::Opening => None,
                    SessionStatus::Live => Some(Ok(None)),
                    SessionStatus::Closed => Some(Err(failure::closed(&self.name))),
                    SessionStatus::Gone => {
                        state.status = SessionStatus::Opening;
                        Some(Ok(Some(OpeningGuard { core: self })))
                    }
                }
            })
            .await
    }

    /// Marks the session as gone, if it is still that opening, and wakes all waiting tasks.
    pub fn expire(&self, generation: u64) {
        {
            let mut state = self.state.lock();
            if state.generation != generation || state.status != SessionStatus::Live {
                return;
            }
            state.status = SessionStatus::Gone;
        }
        self.state_changed.notify_all();
    }

    /// Executes a session command, and retries while the outcome is unknown. All of these commands are
    /// idempotent.
    pub async fn call(&self, command: SessionCommand, deadline: Deadline) -> Result<Answer> {
        self.call_with_retries(Transaction::new().step(command), deadline).await
    }

    /// Like `call`, but waits for an fsync, so that a database crash undoes neither the effect nor the
    /// answer.
    pub async fn call_durably(
        &self,
        command: SessionCommand,
        deadline: Deadline,
    ) -> Result<Answer> {
        let transaction = Transaction::new().step(command).durability(Durability::Sync);
        self.call_with_retries(transaction, deadline).await
    }

    async fn call_with_retries(
        &self,
        transaction: Transaction,
        deadline: Deadline,
    ) -> Result<Answer> {
        let mut backoff = self.backoff();
        loop {
            let answer = self.attempt(transaction.clone(), deadline).await;
            let error = match answer {
                Ok(receipt) => {
                    return receipt.answers.into_iter().next().ok_or_else(failure::unexpected);
                }
                Err(error) => error,
            };
            if !matches!(classify(&error), ErrorClass::Unavailable | ErrorClass::UnknownOutcome)
                || !self.pause(&mut backoff, deadline).await
            {
                return Err(error);
            }
        }
    }

    /// Sends a transaction and waits for its answer, for at most one attempt timeout.
    pub async fn attempt(&self, transaction: Transaction, deadline: Deadline) -> Result<Receipt> {
        let limit = self.remaining(deadline).min(self.deps.settings.attempt);
        let execute = self.deps.transport.execute(transaction);
        match select(execute, self.deps.runtime.sleep(limit)).await {
            Either::First(answer) => answer,
            Either::Second(()) => Err(failure::attempt_timed_out(limit)),
        }
    }

    /// Pauses before the next attempt. Returns false if no time is left for one.
    pub async fn pause(&self, backoff: &mut Backoff<'_>, deadline: Deadline) -> bool {
        let pause = backoff.next();
        let remaining = self.remaining(deadline);
        if remaining.is_zero() {
            return false;
        }
        self.deps.runtime.sleep(pause.min(remaining)).await;
        !self.remaining(deadline).is_zero()
    }

    /// The time left until a deadline.
    pub fn remaining(&self, deadline: Deadline) -> Duration {
        deadline.0.map_or(Duration::MAX, |until| {
            Duration::from_micros(until.saturating_sub(self.now_us()))
        })
    }

    /// Records that the database has received a message sent at `sent_us`.
    pub fn record_contact(&self, state: &mut SessionState, sent_us: u64) {
        state.last_contact_us = state.last_contact_us.max(sent_us);
    }

    /// Renews the lease, and reports which answers the client has received.
    pub async fn keep_alive(&self, deadline: Deadline) -> Result<()> {
        let (generation, epoch, lowest_pending, sent_us) = {
            let state = self.state.lock();
            self.check_live(&state)?;
            (state.generation, state.epoch, state.window.lowest(), self.now_us())
        };
        let session = self.name.clone();
        let command = SessionCommand::KeepAlive { session, lowest_pending, epoch };
        match self.call(command, deadline).await {
            Ok(_) => {
                count(&self.counters.keep_alives);
                let mut state = self.state.lock();
                if state.generation == generation {
                    self.record_contact(&mut state, sent_us);
                }
                Ok(())
            }
            Err(error) => {
                if classify(&error) == ErrorClass::SessionExpired {
                    self.expire(generation);
                }
                Err(error)
            }
        }
    }

    /// Closes the session. Returns whether it existed.
    pub async fn close(&self) -> Result<bool> {
        let (session, epoch) = {
            let mut state = self.state.lock();
            state.status = SessionStatus::Closed;
            (self.name.clone(), state.epoch)
        };
        self.state_changed.notify_all();
        match self.call(SessionCommand::Close { session, epoch }, self.default_deadline()).await? {
            Answer::Did(existed) => Ok(existed),
            _ => Err(failure::unexpected()),
        }
    }

    /// Fails unless the session is open.
    pub fn check_live(&self, state: &SessionState) -> Result<()> {
        match state.status {
            SessionStatus::Live => Ok(()),
            SessionStatus::Closed => Err(failure::closed(&self.name)),
            SessionStatus::Gone | SessionStatus::Opening => Err(failure::expired(&self.name)),
        }
    }
}

/// Result of taking ownership.
struct Ownership {
    info: SessionInfo,
    /// The epoch that ended, unless the session is new.
    ended_epoch: Stamp,
}

impl Ownership {
    /// Returns whether the session has had no other owner since `epoch`. The answer may come from any of
    /// several copies of the request, and tells only who the owner is. But epochs are unique, so the epoch
    /// last asked for is the one that ended. A new session begins with its first epoch.
    fn follows(&self, epoch: Stamp) -> bool {
        self.ended_epoch == epoch && self.info.epoch != self.info.opened
    }
}

/// The task that opens the session. If it fails or is dropped, the next task may try.
struct OpeningGuard<'a> {
    core: &'a SessionCore,
}

impl OpeningGuard<'_> {
    /// Completes the opening. Returns the resumed requests.
    fn finish(
        self,
        ownership: Ownership,
        unanswered: Option<UnansweredRequests>,
        sent_us: u64,
    ) -> Vec<Arc<PendingRequest>> {
        let core = self.core;
        let info = &ownership.info;
        let mut state = core.state.lock();
        let last_acknowledged = info.last_sent.saturating_sub(info.pending);
        // Server message numbers belong to one session. The next session may reuse them if the database has
        // forgotten the old one.
        let is_same = state.opened() == info.opened;
        state.last_handled =
            if is_same { state.last_handled.max(last_acknowledged) } else { last_acknowledged };
        state.last_acknowledged = last_acknowledged;
        state.generation += 1;
        state.last_contact_us = sent_us;
        state.epoch = info.epoch;
        let next = state.window.next().max(info.next_request);
        state.window = Window::from(next, core.deps.settings.window);
        let is_continued = |unanswered: &UnansweredRequests| {
            ownership.follows(unanswered.epoch) || core.has_fault(ClientFault::AnyEpoch)
        };
        let unanswered = unanswered
            .map_or_else(Vec::new, |unanswered| state.adopt(is_continued(&unanswered), unanswered));
        state.info = Some(ownership.info);
        if state.status == SessionStatus::Opening {
            state.status = SessionStatus::Live;
        }
        count(&core.counters.openings);
        unanswered
    }
}

impl SessionState {
    /// Takes over earlier requests. If another client has owned the session since, or it is gone, their
    /// numbers may belong to other requests. Then their outcome is unknown, and they are not sent.
    fn adopt(
        &mut self,
        is_continued: bool,
        unanswered: UnansweredRequests,
    ) -> Vec<Arc<PendingRequest>> {
        let (generation, epoch) = if is_continued {
            (self.generation, self.epoch)
        } else {
            (self.generation - 1, unanswered.epoch)
        };
        let adopted = |(number, transaction): (u64, Transaction)| {
            let request = Arc::new(PendingRequest::new(number, generation, epoch, transaction));
            // It may have been sent before the crash.
            request.end_attempt(true);
            request
        };
        let unanswered: Vec<Arc<PendingRequest>> =
            unanswered.requests.into_iter().map(adopted).collect();
        unanswered
            .iter()
            .filter(|_| is_continued)
            .for_each(|request| self.window.adopt(request.clone()));
        unanswered
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.core.state.lock();
            if state.status == SessionStatus::Opening {
                state.status = SessionStatus::Gone;
            }
        }
        self.core.state_changed.notify_all();
    }
}

/// Unwraps the answer of a session command.
pub(crate) fn of_session(answer: Answer) -> Result<SessionAnswer> {
    match answer {
        Answer::Session(answer) => Ok(*answer),
        _ => Err(failure::unexpected()),
    }
}

/// The error of the last attempt, for a later report.
pub(crate) fn last_error_of(request: &PendingRequest) -> Error {
    request.last_error.lock().clone().unwrap_or_else(|| failure::attempt_timed_out(Duration::ZERO))
}
