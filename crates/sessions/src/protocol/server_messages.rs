//! Server messages: sent by the server to the client, each handled once, in order, and then acknowledged.
//!
//! ```text
//!   waker: a message was sent ----\
//!                                  >--> pending messages after the last handled one -----> handler --ok--> handled := n
//!   (re)connected, reopened ------/                                                       |               |
//!                                                          failed: a pause, retry,           acknowledge n
//!                                                          while it is the same opening
//! ```
//!
//! The message waker only signals that messages exist; their content is fetched. So a waker that wakes twice,
//! late or out of order is harmless. The client remembers handled messages until the database has received
//! the acknowledgement.

use crate::failure::{self, ErrorClass, classify};
use crate::fault_points::ClientFault;
use crate::protocol::session_core::{
    Deadline, SessionCore, SessionState, SessionStatus, of_session,
};
use crate::runtime::select::{Either, select};
use crate::stats::count;
use crate::transport::MessageWaker;
use mainstay::{Code, Error, ErrorKind, Result, SessionAnswer, SessionCommand, Stamp};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Number of server messages fetched per request.
const PAGE_SIZE: usize = 100;

/// A message of the server to the client of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerMessage {
    /// Its number in the session. Numbers increase, and each is used once.
    pub number: u64,
    /// Its content.
    pub payload: Arc<[u8]>,
}

/// Stop signal of a listener.
#[derive(Clone, Default)]
pub(crate) struct StopSignal(Arc<AtomicBool>);

/// The listener of a session.
pub(crate) struct MessageListener<'a> {
    core: &'a SessionCore,
    stop: &'a StopSignal,
}

impl StopSignal {
    pub fn set(&self, core: &SessionCore) {
        // SeqCst pairs with `is_set`; set before the notification, so that a woken listener sees it.
        self.0.store(true, Ordering::SeqCst);
        core.state_changed.notify_all();
    }

    fn is_set(&self) -> bool {
        // SeqCst pairs with `set`.
        self.0.load(Ordering::SeqCst)
    }
}

impl SessionCore {
    /// Registers a listener. Fails if the session already has one.
    pub fn register_listener(&self) -> Result<()> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_listening, true) {
            return Err(failure::invalid("somebody handles the letters of this session already"));
        }
        Ok(())
    }

    /// Handles server messages until the session is closed or `stop` is set. Fails if this client lacks the
    /// permission. Call [`SessionCore::register_listener`] first.
    pub async fn listen<F>(
        &self,
        stop: &StopSignal,
        mut handle: impl FnMut(ServerMessage) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let listener = MessageListener { core: self, stop };
        let mut backoff = self.backoff();
        while !listener.is_over() {
            let last_handled = self.state.lock().last_handled;
            let Err(error) = listener.run_connection(&mut handle).await else { return Ok(()) };
            if self.state.lock().last_handled > last_handled {
                backoff = self.backoff();
            }
            match classify(&error) {
                ErrorClass::SessionExpired => listener.wait_until_open().await,
                // A retry would not change the client's permissions.
                _ if is_permission_error(&error) => return Err(error),
                _ => listener.wait_unless_over(self.deps.runtime.sleep(backoff.next())).await,
            }
        }
        Ok(())
    }
}

impl Drop for MessageListener<'_> {
    fn drop(&mut self) {
        self.core.state.lock().is_listening = false;
    }
}

impl MessageListener<'_> {
    fn is_over(&self) -> bool {
        self.stop.is_set() || self.core.state.lock().status == SessionStatus::Closed
    }

    /// Completes when server messages are no longer wanted.
    async fn wait_for_stop(&self) {
        self.core.state_changed.wait_until(|| self.is_over().then_some(())).await;
    }

    /// Waits for a future, or until server messages are no longer wanted.
    async fn wait_unless_over(&self, time: impl Future<Output = ()>) {
        select(self.wait_for_stop(), time).await;
    }

    async fn wait_until_open(&self) {
        let core = self.core;
        let is_open = || core.state.lock().status == SessionStatus::Live;
        core.state_changed.wait_until(|| (self.is_over() || is_open()).then_some(())).await;
    }

    /// Returns `None` while server messages of this opening are wanted. `Ok` if they are no longer wanted, and an
    /// error if the session is gone or was reopened.
    fn end_result(&self, generation: u64) -> Option<Result<()>> {
        if self.is_over() {
            return Some(Ok(()));
        }
        let state = self.core.state.lock();
        let is_current = state.status == SessionStatus::Live && state.generation == generation;
        (!is_current).then(|| Err(failure::expired(&self.core.name)))
    }

    /// Waits until `end_result` returns a result.
    async fn wait_for_end(&self, generation: u64) -> Result<()> {
        self.core.state_changed.wait_until(|| self.end_result(generation)).await
    }

    /// Handles server messages during one connection and one opening of the session. Returns `Ok` when they are no
    /// longer wanted.
    async fn run_connection<F>(&self, handle: &mut impl FnMut(ServerMessage) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let generation = self.core.state.lock().generation;
        // Watch before fetching the pending server messages, so that a message sent in between still wakes it.
        let watch = self.core.deps.transport.watch(&self.core.name);
        let mut waker = match select(self.wait_for_end(generation), watch).await {
            Either::First(end) => return end,
            Either::Second(waker) => waker?,
        };
        loop {
            self.handle_pending(generation, handle).await?;
            match select(self.wait_for_end(generation), self.wait_for_message(&mut *waker)).await {
                Either::First(end) => return end,
                Either::Second(woken) => woken?,
            }
        }
    }

    /// Waits for a server message that is not handled yet.
    async fn wait_for_message(&self, waker: &mut dyn MessageWaker) -> Result<()> {
        while waker.next().await? <= self.core.state.lock().last_handled {}
        Ok(())
    }

    /// Handles the pending server messages, while they are wanted.
    async fn handle_pending<F>(
        &self,
        generation: u64,
        handle: &mut impl FnMut(ServerMessage) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let core = self.core;
        if !core.has_fault(ClientFault::HandledForgotten) {
            self.acknowledge().await?;
        }
        loop {
            let (opened, messages, more) = self.pending().await?;
            for message in messages {
                let number = message.number;
                if self.end_result(generation).is_some() {
                    // They are gone with their session, or its new owner has handled them.
                    return Ok(());
                }
                if number <= core.state.lock().last_handled
                    && !core.has_fault(ClientFault::HandledForgotten)
                {
                    count(&core.counters.messages_repeated);
                    continue;
                }
                if core.has_fault(ClientFault::AcknowledgedFirst) {
                    core.state.lock().last_handled = number;
                    self.acknowledge().await?;
                }
                if !self.handle(message, generation, handle).await {
                    return Ok(());
                }
                core.state.lock().record_handled(opened, number);
                count(&core.counters.messages);
                self.acknowledge().await?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Handles one server message and retries after failures. Returns false if it is no longer wanted.
    async fn handle<F>(
        &self,
        message: ServerMessage,
        generation: u64,
        handle: &mut impl FnMut(ServerMessage) -> F,
    ) -> bool
    where
        F: Future<Output = Result<()>>,
    {
        let core = self.core;
        let mut backoff = core.backoff();
        while self.end_result(generation).is_none() {
            if catch_panics(|| handle(message.clone())).await.is_ok() {
                return true;
            }
            count(&core.counters.messages_failed);
            select(self.wait_for_end(generation), core.deps.runtime.sleep(backoff.next())).await;
        }
        false
    }

    /// Fetches the pending server messages after the last handled one, and whether more exist. Also returns the
    /// opening time of the session that they belong to.
    async fn pending(&self) -> Result<(Stamp, Vec<ServerMessage>, bool)> {
        let core = self.core;
        let (opened, generation, epoch, last_handled) = {
            let state = core.state.lock();
            core.check_live(&state)?;
            (state.opened(), state.generation, state.epoch, state.last_handled)
        };
        let after = if core.has_fault(ClientFault::HandledForgotten) { 0 } else { last_handled };
        let session = core.name.clone();
        let pending = SessionCommand::Pending { session, after, limit: PAGE_SIZE, epoch };
        let answer = self.call(pending, generation).await?;
        let SessionAnswer::Pending { requests, more } = of_session(answer)? else {
            return Err(failure::unexpected());
        };
        Ok((
            opened,
            requests
                .into_iter()
                .map(|(number, payload)| ServerMessage { number, payload: payload.into() })
                .collect(),
            more,
        ))
    }

    /// Acknowledges the handled server messages, unless the database already knows.
    async fn acknowledge(&self) -> Result<()> {
        let core = self.core;
        let (upto, last_acknowledged, generation, epoch) = {
            let state = core.state.lock();
            core.check_live(&state)?;
            (state.last_handled, state.last_acknowledged, state.generation, state.epoch)
        };
        if upto <= last_acknowledged {
            return Ok(());
        }
        let session = core.name.clone();
        let sent_us = core.now_us();
        self.call(SessionCommand::Acknowledge { session, upto, epoch }, generation).await?;
        let mut state = core.state.lock();
        if state.generation == generation {
            state.last_acknowledged = state.last_acknowledged.max(upto);
            core.record_contact(&mut state, sent_us);
        }
        Ok(())
    }

    /// Retries until an answer arrives. A listener that wants no more server messages stops waiting after one
    /// attempt timeout.
    async fn call(&self, command: SessionCommand, generation: u64) -> Result<mainstay::Answer> {
        let core = self.core;
        let stop_timeout = async {
            self.wait_for_stop().await;
            core.deps.runtime.sleep(core.deps.settings.attempt).await;
        };
        // Durable, because a server message undone by a crash would leave its number to another server message.
        match select(core.call_durably(command, Deadline(None)), stop_timeout).await {
            Either::First(Err(error)) => {
                if classify(&error) == ErrorClass::SessionExpired {
                    core.expire(generation);
                }
                Err(error)
            }
            Either::First(answer) => answer,
            Either::Second(()) => Err(failure::closed(&core.name)),
        }
    }
}

impl SessionState {
    /// Opening time of the session.
    pub fn opened(&self) -> Stamp {
        self.info.as_ref().map_or(0, |info| info.opened)
    }

    /// Records a handled server message, if the session is still the one that it was sent to. It may have been
    /// replaced since.
    fn record_handled(&mut self, opened: Stamp, number: u64) {
        if self.opened() == opened {
            self.last_handled = self.last_handled.max(number);
        }
    }
}

/// Returns whether an error is about permissions.
fn is_permission_error(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Forbidden)
}

/// Calls a handler. A panic counts as a failure.
async fn catch_panics<F: Future<Output = Result<()>>>(handle: impl FnOnce() -> F) -> Result<()> {
    let panicked = |_| Error::new(Code::MachineFailed, "the handler of a letter panicked");
    let mut future = pin!(catch_unwind(AssertUnwindSafe(handle)).map_err(panicked)?);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))))
    })
    .await
}
