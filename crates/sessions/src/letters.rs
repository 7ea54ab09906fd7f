//! Requests of the server: each handled once, in order, and acknowledged when that is done.
//!
//! ```text
//!   doorbell: a letter was sent --\
//!                                  >--> what is pending behind the last one handled --> handler --ok--> handled := n
//!   (re)connected, opened anew ---/                                                       |               |
//!                                                          failed: a pause, again,           acknowledge n
//!                                                          while it is the same opening
//! ```
//!
//! The bell only says that there is something: what it is, is asked for, so that a bell that rings twice, late or in
//! another order changes nothing. What was handled is remembered here until the database has heard of it.

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

/// How many letters are asked for together.
const PAGE: usize = 100;

/// A request of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its number in the session: they rise, and none is given twice.
    pub number: u64,
    /// What it says.
    pub payload: Arc<[u8]>,
}

/// Until when letters are handled.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// The one who handles the letters of a session.
pub(crate) struct Listening<'a> {
    core: &'a Core,
    stop: &'a Stop,
}

impl Stop {
    pub fn set(&self, core: &Core) {
        self.0.store(true, Ordering::SeqCst);
        core.changed.ring();
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Core {
    /// Makes somebody the one who handles letters; there is one at a time.
    pub fn begin_listening(&self) -> Result<()> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_listening, true) {
            return Err(failure::invalid("somebody handles the letters of this session already"));
        }
        Ok(())
    }

    /// Handles letters until the session is closed, or somebody says so; fails where this client may not have them. Call
    /// [`Core::begin_listening`] before.
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
                // Asking again would not change what this client may do.
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

    /// Is over when nobody wants letters any more.
    async fn over(&self) {
        self.core.changed.until(|| self.is_over().then_some(())).await;
    }

    /// Waits for something, unless nobody wants letters any more.
    async fn rest(&self, time: impl Future<Output = ()>) {
        race(self.over(), time).await;
    }

    async fn wait_until_open(&self) {
        let core = self.core;
        let is_open = || core.state.lock().standing == Standing::Live;
        core.changed.until(|| (self.is_over() || is_open()).then_some(())).await;
    }

    /// Nothing while letters of this opening of the session are wanted; else how that ended: well when nobody wants any,
    /// and with an error when the session is gone, or was opened anew.
    fn ended(&self, generation: u64) -> Option<Result<()>> {
        if self.is_over() {
            return Some(Ok(()));
        }
        let state = self.core.state.lock();
        let goes_on = state.standing == Standing::Live && state.generation == generation;
        (!goes_on).then(|| Err(failure::expired(&self.core.name)))
    }

    /// Waits for that end.
    async fn end(&self, generation: u64) -> Result<()> {
        self.core.changed.until(|| self.ended(generation)).await
    }

    /// Handles letters for as long as one connection holds, and one opening of the session; ends well when nobody wants
    /// them any more.
    async fn follow<F>(&self, handle: &mut impl FnMut(Letter) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let generation = self.core.state.lock().generation;
        // Before what is pending is asked for: what is sent in between rings.
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

    /// Handles what is pending, as long as it is wanted.
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
                    // They went with their session, or somebody else has handled them.
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

    /// Has one letter handled, however often that fails; false when it is not wanted any more.
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

    /// What is pending behind the last letter that was handled, and whether there is more; with when the session was
    /// opened that it belongs to.
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
        let letter = |(number, payload): (u64, Vec<u8>)| Letter { number, payload: payload.into() };
        Ok((opened, requests.into_iter().map(letter).collect(), more))
    }

    /// Tells the database what was handled, if it does not know.
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
        let (session, sent_us) = (core.name.clone(), core.now_us());
        self.ask(SessionCommand::Acknowledge { session, upto, epoch }, generation).await?;
        let mut state = core.state.lock();
        if state.generation == generation {
            state.acknowledged = state.acknowledged.max(upto);
            core.heard(&mut state, sent_us);
        }
        Ok(())
    }

    /// Asks until there is an answer. Who wants no more letters does not wait for ever.
    async fn ask(&self, command: SessionCommand, generation: u64) -> Result<mainstay::Answer> {
        let core = self.core;
        let patience = async {
            self.over().await;
            core.means.runtime.sleep(core.means.settings.attempt).await;
        };
        // A letter that a crash takes back leaves its number to another one.
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
    /// When the session was opened.
    pub fn opened(&self) -> Stamp {
        self.info.as_ref().map_or(0, |info| info.opened)
    }

    /// A letter was handled, if the session is still the one it was sent to; it may have been taken anew since.
    fn handled_in(&mut self, opened: Stamp, number: u64) {
        if self.opened() == opened {
            self.handled = self.handled.max(number);
        }
    }
}

/// Whether something is refused because of who asks.
fn is_about_rights(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Forbidden)
}

/// Calls a handler; one that panics has failed.
async fn guarded<F: Future<Output = Result<()>>>(handle: impl FnOnce() -> F) -> Result<()> {
    let panicked = |_| Error::new(Code::MachineFailed, "the handler of a letter panicked");
    let mut handling = pin!(catch_unwind(AssertUnwindSafe(handle)).map_err(panicked)?);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))))
    })
    .await
}
