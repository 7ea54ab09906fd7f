//! Letters: messages of the server to the client, each handled once, in order, and then acknowledged.
//!
//! ```text
//!   doorbell: a letter was sent --\
//!                                  >--> pending letters after the last handled one ------> handler --ok--> handled := n
//!   (re)connected, reopened ------/                                                       |               |
//!                                                          failed: a pause, retry,           acknowledge n
//!                                                          while it is the same opening
//! ```
//!
//! The doorbell only signals that letters exist; their content is fetched. So a doorbell that rings twice,
//! late or out of order is harmless. The client remembers handled letters until the database has received
//! the acknowledgement.

use crate::core::{Core, Deadline, Standing, State, of_session};
use crate::failure::{self, Meaning, meaning};
use crate::figures::count;
use crate::planted::Planted;
use crate::race::{First, race};
use crate::transport::Doorbell;
use mainstay::{Code, Error, ErrorKind, Result, SessionAnswer, SessionCommand, Stamp};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Number of letters fetched per request.
const PAGE: usize = 100;

/// A message of the server to the client of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its number in the session. Numbers increase, and each is used once.
    pub number: u64,
    /// Its content.
    pub payload: Arc<[u8]>,
}

/// Stop signal of a listener.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// The listener of a session.
pub(crate) struct Listening<'a> {
    core: &'a Core,
    stop: &'a Stop,
}

impl Stop {
    pub fn set(&self, core: &Core) {
        // SeqCst pairs with `is_set`; set before the ring, so that a woken listener sees it.
        self.0.store(true, Ordering::SeqCst);
        core.changed.ring();
    }

    fn is_set(&self) -> bool {
        // SeqCst pairs with `set`.
        self.0.load(Ordering::SeqCst)
    }
}

impl Core {
    /// Registers a listener. Fails if the session already has one.
    pub fn begin_listening(&self) -> Result<()> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_listening, true) {
            return Err(failure::invalid("somebody handles the letters of this session already"));
        }
        Ok(())
    }

    /// Handles letters until the session is closed or `stop` is set. Fails if this client lacks the
    /// permission. Call [`Core::begin_listening`] first.
    pub async fn listen<F>(&self, stop: &Stop, mut handle: impl FnMut(Letter) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let listening = Listening { core: self, stop };
        let mut pauses = self.pauses();
        while !listening.is_over() {
            let handled = self.state.lock().handled;
            let Err(error) = listening.follow(&mut handle).await else { return Ok(()) };
            if self.state.lock().handled > handled {
                pauses = self.pauses();
            }
            match meaning(&error) {
                Meaning::Expired => listening.wait_until_open().await,
                // A retry would not change the client's permissions.
                _ if is_about_rights(&error) => return Err(error),
                _ => listening.rest(self.means.runtime.sleep(pauses.next())).await,
            }
        }
        Ok(())
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.core.state.lock().is_listening = false;
    }
}

impl Listening<'_> {
    fn is_over(&self) -> bool {
        self.stop.is_set() || self.core.state.lock().standing == Standing::Closed
    }

    /// Completes when letters are no longer wanted.
    async fn over(&self) {
        self.core.changed.until(|| self.is_over().then_some(())).await;
    }

    /// Waits for a future, or until letters are no longer wanted.
    async fn rest(&self, time: impl Future<Output = ()>) {
        race(self.over(), time).await;
    }

    async fn wait_until_open(&self) {
        let core = self.core;
        let is_open = || core.state.lock().standing == Standing::Live;
        core.changed.until(|| (self.is_over() || is_open()).then_some(())).await;
    }

    /// Returns `None` while letters of this opening are wanted. `Ok` if they are no longer wanted, and an
    /// error if the session is gone or was reopened.
    fn ended(&self, generation: u64) -> Option<Result<()>> {
        if self.is_over() {
            return Some(Ok(()));
        }
        let state = self.core.state.lock();
        let goes_on = state.standing == Standing::Live && state.generation == generation;
        (!goes_on).then(|| Err(failure::expired(&self.core.name)))
    }

    /// Waits until `ended` returns a result.
    async fn end(&self, generation: u64) -> Result<()> {
        self.core.changed.until(|| self.ended(generation)).await
    }

    /// Handles letters during one connection and one opening of the session. Returns `Ok` when they are no
    /// longer wanted.
    async fn follow<F>(&self, handle: &mut impl FnMut(Letter) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let generation = self.core.state.lock().generation;
        // Watch before fetching the pending letters, so that a letter sent in between still rings.
        let watching = self.core.means.transport.watch(&self.core.name);
        let mut bell = match race(self.end(generation), watching).await {
            First::This(end) => return end,
            First::That(bell) => bell?,
        };
        loop {
            self.drain(generation, handle).await?;
            match race(self.end(generation), self.ring(&mut *bell)).await {
                First::This(end) => return end,
                First::That(rung) => rung?,
            }
        }
    }

    /// Waits for a letter that is not handled yet.
    async fn ring(&self, bell: &mut dyn Doorbell) -> Result<()> {
        while bell.next().await? <= self.core.state.lock().handled {}
        Ok(())
    }

    /// Handles the pending letters, while they are wanted.
    async fn drain<F>(&self, generation: u64, handle: &mut impl FnMut(Letter) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let core = self.core;
        if !core.has(Planted::HandledForgotten) {
            self.acknowledge().await?;
        }
        loop {
            let (opened, letters, more) = self.pending().await?;
            for letter in letters {
                let number = letter.number;
                if self.ended(generation).is_some() {
                    // They are gone with their session, or its new owner has handled them.
                    return Ok(());
                }
                if number <= core.state.lock().handled && !core.has(Planted::HandledForgotten) {
                    count(&core.tally.letters_repeated);
                    continue;
                }
                if core.has(Planted::AcknowledgedFirst) {
                    core.state.lock().handled = number;
                    self.acknowledge().await?;
                }
                if !self.handle(letter, generation, handle).await {
                    return Ok(());
                }
                core.state.lock().handled_in(opened, number);
                count(&core.tally.letters);
                self.acknowledge().await?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Handles one letter and retries after failures. Returns false if it is no longer wanted.
    async fn handle<F>(
        &self,
        letter: Letter,
        generation: u64,
        handle: &mut impl FnMut(Letter) -> F,
    ) -> bool
    where
        F: Future<Output = Result<()>>,
    {
        let core = self.core;
        let mut pauses = core.pauses();
        while self.ended(generation).is_none() {
            if guarded(|| handle(letter.clone())).await.is_ok() {
                return true;
            }
            count(&core.tally.letters_failed);
            race(self.end(generation), core.means.runtime.sleep(pauses.next())).await;
        }
        false
    }

    /// Fetches the pending letters after the last handled one, and whether more exist. Also returns the
    /// opening time of the session that they belong to.
    async fn pending(&self) -> Result<(Stamp, Vec<Letter>, bool)> {
        let core = self.core;
        let (opened, generation, epoch, handled) = {
            let state = core.state.lock();
            core.check_live(&state)?;
            (state.opened(), state.generation, state.epoch, state.handled)
        };
        let after = if core.has(Planted::HandledForgotten) { 0 } else { handled };
        let session = core.name.clone();
        let pending = SessionCommand::Pending { session, after, limit: PAGE, epoch };
        let answer = self.ask(pending, generation).await?;
        let SessionAnswer::Pending { requests, more } = of_session(answer)? else {
            return Err(failure::unexpected());
        };
        Ok((
            opened,
            requests
                .into_iter()
                .map(|(number, payload)| Letter { number, payload: payload.into() })
                .collect(),
            more,
        ))
    }

    /// Acknowledges the handled letters, unless the database already knows.
    async fn acknowledge(&self) -> Result<()> {
        let core = self.core;
        let (upto, known, generation, epoch) = {
            let state = core.state.lock();
            core.check_live(&state)?;
            (state.handled, state.acknowledged, state.generation, state.epoch)
        };
        if upto <= known {
            return Ok(());
        }
        let session = core.name.clone();
        let sent_us = core.now_us();
        self.ask(SessionCommand::Acknowledge { session, upto, epoch }, generation).await?;
        let mut state = core.state.lock();
        if state.generation == generation {
            state.acknowledged = state.acknowledged.max(upto);
            core.heard(&mut state, sent_us);
        }
        Ok(())
    }

    /// Retries until an answer arrives. A listener that wants no more letters stops waiting after one
    /// attempt timeout.
    async fn ask(&self, command: SessionCommand, generation: u64) -> Result<mainstay::Answer> {
        let core = self.core;
        let patience = async {
            self.over().await;
            core.means.runtime.sleep(core.means.settings.attempt).await;
        };
        // Durable, because a letter undone by a crash would leave its number to another letter.
        match race(core.ask_durably(command, Deadline(None)), patience).await {
            First::This(Err(error)) => {
                if meaning(&error) == Meaning::Expired {
                    core.expire(generation);
                }
                Err(error)
            }
            First::This(answer) => answer,
            First::That(()) => Err(failure::closed(&core.name)),
        }
    }
}

impl State {
    /// Opening time of the session.
    pub fn opened(&self) -> Stamp {
        self.info.as_ref().map_or(0, |info| info.opened)
    }

    /// Records a handled letter, if the session is still the one that it was sent to. It may have been
    /// replaced since.
    fn handled_in(&mut self, opened: Stamp, number: u64) {
        if self.opened() == opened {
            self.handled = self.handled.max(number);
        }
    }
}

/// Returns whether an error is about permissions.
fn is_about_rights(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Forbidden)
}

/// Calls a handler. A panic counts as a failure.
async fn guarded<F: Future<Output = Result<()>>>(handle: impl FnOnce() -> F) -> Result<()> {
    let panicked = |_| Error::new(Code::MachineFailed, "the handler of a letter panicked");
    let mut handling = pin!(catch_unwind(AssertUnwindSafe(handle)).map_err(panicked)?);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))))
    })
    .await
}
