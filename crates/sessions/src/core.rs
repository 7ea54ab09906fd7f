//! Core of a session, shared by the blocking and the async handle.
//!
//! ```text
//!   Session (blocking) ---\
//!                          >-- Core: numbers, attempts, pauses, letters ---> Transport
//!   AsyncSession (async) -/      ^
//!                                '--- keep-alives, by the Runtime
//! ```

use crate::failure::{self, Meaning, meaning};
use crate::figures::{Tally, count};
use crate::own_thread::micros;
use crate::pauses::{Chance, Pauses};
use crate::planted::Planted;
use crate::race::{Bell, First, race};
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::window::{Asked, Window};
use mainstay::{
    Answer, Durability, Error, Hold, Name, Receipt, Result, SessionAnswer, SessionCommand,
    SessionInfo, SessionRequest, Stamp, Transaction,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// State shared by all sessions of a client.
pub(crate) struct Means {
    pub transport: Arc<dyn Transport>,
    pub runtime: Arc<dyn Runtime>,
    pub settings: Settings,
    pub chance: Chance,
}

/// Client-side state of a session.
pub(crate) struct Core {
    pub means: Arc<Means>,
    pub name: Name,
    pub tally: Tally,
    pub state: Mutex<State>,
    /// Rung whenever a change of the state may concern waiting tasks.
    pub changed: Bell,
    opening: SessionCommand,
}

/// Unanswered requests of an earlier client object.
pub(crate) struct Left {
    /// The epoch in which their numbers were assigned.
    pub epoch: Stamp,
    pub requests: Vec<(u64, Transaction)>,
}

impl Left {
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

pub(crate) struct State {
    pub standing: Standing,
    /// Number of openings. Answers about one session must not be applied to the next one of the same name.
    pub generation: u64,
    pub window: Window,
    /// The epoch in which this client owns the session.
    pub epoch: Stamp,
    pub info: Option<SessionInfo>,
    /// Send time of the last message that the database has received.
    pub heard_us: u64,
    /// The last letter that was handled, and the last that was acknowledged.
    pub handled: u64,
    pub acknowledged: u64,
    /// True while a listener handles letters.
    pub is_listening: bool,
}

/// The session's status as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
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

impl Core {
    pub fn new(means: &Arc<Means>, opening: SessionCommand) -> Result<Core> {
        let name = opening.session().cloned().ok_or_else(failure::unexpected)?;
        let state = State {
            standing: Standing::Gone,
            generation: 0,
            window: Window::from(1, means.settings.window),
            epoch: 0,
            info: None,
            heard_us: 0,
            handled: 0,
            acknowledged: 0,
            is_listening: false,
        };
        Ok(Core {
            means: means.clone(),
            name,
            tally: Tally::default(),
            state: Mutex::new(state),
            changed: Bell::default(),
            opening,
        })
    }

    pub fn now_us(&self) -> u64 {
        self.means.runtime.now_us()
    }

    /// The deadline of an operation that begins now.
    pub fn deadline(&self, time: Option<Duration>) -> Deadline {
        Deadline(time.map(|time| self.now_us().saturating_add(micros(time))))
    }

    /// The deadline of the settings.
    pub fn usual_deadline(&self) -> Deadline {
        self.deadline(self.means.settings.deadline)
    }

    pub fn pauses(&self) -> Pauses<'_> {
        Pauses::new(&self.means.settings, &self.means.chance)
    }

    /// Returns whether a test has planted this bug.
    pub fn has(&self, planted: Planted) -> bool {
        #[cfg(feature = "planted-faults")]
        return self.means.settings.planted == Some(planted);
        #[cfg(not(feature = "planted-faults"))]
        {
            let _ = planted;
            false
        }
    }

    /// Opens the session, or its successor if it is gone, and becomes its only owner.
    pub async fn open(&self) -> Result<()> {
        self.open_with(None).await.map(drop)
    }

    /// Opens the session and takes over the unanswered requests of an earlier client object.
    pub async fn open_with(&self, left: Option<Left>) -> Result<Vec<Arc<Asked>>> {
        left.iter().try_for_each(|left| left.check(&self.name))?;
        let Some(opening) = self.begin_opening().await? else { return Ok(Vec::new()) };
        let sent_us = self.now_us();
        let expected = left.as_ref().map_or(0, |left| left.epoch);
        let taken = self.take(expected, self.usual_deadline()).await?;
        let left = opening.done(taken, left, sent_us);
        if self.state.lock().standing == Standing::Closed {
            // The session was closed meanwhile, in the epoch before.
            self.close().await?;
            return Err(failure::closed(&self.name));
        }
        Ok(left)
    }

    /// Begins a new epoch, in which this client is the only owner. Requests of other clients, and of this
    /// one from earlier epochs, are not executed from now on, and a database crash does not undo that.
    /// First tries to end the epoch `expected`.
    async fn take(&self, expected: Stamp, deadline: Deadline) -> Result<Taken> {
        // Independent of the settings' seed, because two clients may use the same seed.
        let nonce = self.means.runtime.unique();
        let mut over = expected;
        loop {
            let mut opening = self.opening.clone();
            if let SessionCommand::Open { hold, .. } = &mut opening {
                *hold = Some(Hold { nonce, over });
            }
            let answer = self.ask_durably(opening, deadline).await?;
            match of_session(answer)? {
                SessionAnswer::Opened { info, held: true, .. } => return Ok(Taken { info, over }),
                // Another client owns the session. Its answer names the epoch to end.
                SessionAnswer::Opened { info, .. } if info.epoch != over => over = info.epoch,
                _ => return Err(failure::unexpected()),
            }
        }
    }

    /// Returns `None` if the session is open. Waits if another task is opening it.
    async fn begin_opening(&self) -> Result<Option<Opening<'_>>> {
        self.changed
            .until(|| {
                let mut state = self.state.lock();
                match state.standing {
                    Standing::Opening => None,
                    Standing::Live => Some(Ok(None)),
                    Standing::Closed => Some(Err(failure::closed(&self.name))),
                    Standing::Gone => {
                        state.standing = Standing::Opening;
                        Some(Ok(Some(Opening { core: self })))
                    }
                }
            })
            .await
    }

    /// Marks the session as gone, if it is still that opening, and wakes all waiting tasks.
    pub fn expire(&self, generation: u64) {
        {
            let mut state = self.state.lock();
            if state.generation != generation || state.standing != Standing::Live {
                return;
            }
            state.standing = Standing::Gone;
        }
        self.changed.ring();
    }

    /// Executes a session command, and retries while the outcome is unknown. All of these commands are
    /// idempotent.
    pub async fn ask(&self, command: SessionCommand, deadline: Deadline) -> Result<Answer> {
        self.ask_with(Transaction::new().step(command), deadline).await
    }

    /// Like `ask`, but waits for an fsync, so that a database crash undoes neither the effect nor the
    /// answer.
    pub async fn ask_durably(&self, command: SessionCommand, deadline: Deadline) -> Result<Answer> {
        let transaction = Transaction::new().step(command).durability(Durability::Sync);
        self.ask_with(transaction, deadline).await
    }

    async fn ask_with(&self, transaction: Transaction, deadline: Deadline) -> Result<Answer> {
        let mut pauses = self.pauses();
        loop {
            let answer = self.attempt(transaction.clone(), deadline).await;
            let error = match answer {
                Ok(receipt) => {
                    return receipt.answers.into_iter().next().ok_or_else(failure::unexpected);
                }
                Err(error) => error,
            };
            if !matches!(meaning(&error), Meaning::NotNow | Meaning::Unknown)
                || !self.rest(&mut pauses, deadline).await
            {
                return Err(error);
            }
        }
    }

    /// Sends a transaction and waits for its answer, for at most one attempt timeout.
    pub async fn attempt(&self, transaction: Transaction, deadline: Deadline) -> Result<Receipt> {
        let limit = self.left(deadline).min(self.means.settings.attempt);
        let execute = self.means.transport.execute(transaction);
        match race(execute, self.means.runtime.sleep(limit)).await {
            First::This(answer) => answer,
            First::That(()) => Err(failure::silent(limit)),
        }
    }

    /// Pauses before the next attempt. Returns false if no time is left for one.
    pub async fn rest(&self, pauses: &mut Pauses<'_>, deadline: Deadline) -> bool {
        let pause = pauses.next();
        let left = self.left(deadline);
        if left.is_zero() {
            return false;
        }
        self.means.runtime.sleep(pause.min(left)).await;
        !self.left(deadline).is_zero()
    }

    /// The time left until a deadline.
    pub fn left(&self, deadline: Deadline) -> Duration {
        deadline.0.map_or(Duration::MAX, |until| {
            Duration::from_micros(until.saturating_sub(self.now_us()))
        })
    }

    /// Records that the database has received a message sent at `sent_us`.
    pub fn heard(&self, state: &mut State, sent_us: u64) {
        state.heard_us = state.heard_us.max(sent_us);
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
        match self.ask(command, deadline).await {
            Ok(_) => {
                count(&self.tally.keep_alives);
                let mut state = self.state.lock();
                if state.generation == generation {
                    self.heard(&mut state, sent_us);
                }
                Ok(())
            }
            Err(error) => {
                if meaning(&error) == Meaning::Expired {
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
            state.standing = Standing::Closed;
            (self.name.clone(), state.epoch)
        };
        self.changed.ring();
        match self.ask(SessionCommand::Close { session, epoch }, self.usual_deadline()).await? {
            Answer::Did(was_there) => Ok(was_there),
            _ => Err(failure::unexpected()),
        }
    }

    /// Fails unless the session is open.
    pub fn check_live(&self, state: &State) -> Result<()> {
        match state.standing {
            Standing::Live => Ok(()),
            Standing::Closed => Err(failure::closed(&self.name)),
            Standing::Gone | Standing::Opening => Err(failure::expired(&self.name)),
        }
    }
}

/// Result of taking ownership.
struct Taken {
    info: SessionInfo,
    /// The epoch that ended, unless the session is new.
    over: Stamp,
}

impl Taken {
    /// Returns whether the session has had no other owner since `epoch`. The answer may come from any of
    /// several copies of the request, and tells only who the owner is. But epochs are unique, so the epoch
    /// last asked for is the one that ended. A new session begins with its first epoch.
    fn follows(&self, epoch: Stamp) -> bool {
        self.over == epoch && self.info.epoch != self.info.opened
    }
}

/// The task that opens the session. If it fails or is dropped, the next task may try.
struct Opening<'a> {
    core: &'a Core,
}

impl Opening<'_> {
    /// Completes the opening. Returns the resumed requests.
    fn done(self, taken: Taken, left: Option<Left>, sent_us: u64) -> Vec<Arc<Asked>> {
        let core = self.core;
        let info = &taken.info;
        let mut state = core.state.lock();
        let acknowledged = info.last_sent.saturating_sub(info.pending);
        // Letter numbers belong to one session. The next session may reuse them if the database has
        // forgotten the old one.
        let is_same = state.opened() == info.opened;
        state.handled = if is_same { state.handled.max(acknowledged) } else { acknowledged };
        state.acknowledged = acknowledged;
        state.generation += 1;
        state.heard_us = sent_us;
        state.epoch = info.epoch;
        let next = state.window.next().max(info.next_request);
        state.window = Window::from(next, core.means.settings.window);
        let goes_on = |left: &Left| taken.follows(left.epoch) || core.has(Planted::AnyEpoch);
        let left = left.map_or_else(Vec::new, |left| state.take_in(goes_on(&left), left));
        state.info = Some(taken.info);
        if state.standing == Standing::Opening {
            state.standing = Standing::Live;
        }
        count(&core.tally.openings);
        left
    }
}

impl State {
    /// Takes over earlier requests. If another client has owned the session since, or it is gone, their
    /// numbers may belong to other requests. Then their outcome is unknown, and they are not sent.
    fn take_in(&mut self, goes_on: bool, left: Left) -> Vec<Arc<Asked>> {
        let (generation, epoch) =
            if goes_on { (self.generation, self.epoch) } else { (self.generation - 1, left.epoch) };
        let before = |(number, transaction): (u64, Transaction)| {
            let asked = Arc::new(Asked::new(number, generation, epoch, transaction));
            // It may have been sent before the crash.
            asked.ended(true);
            asked
        };
        let left: Vec<Arc<Asked>> = left.requests.into_iter().map(before).collect();
        left.iter().filter(|_| goes_on).for_each(|asked| self.window.take_in(asked.clone()));
        left
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.core.state.lock();
            if state.standing == Standing::Opening {
                state.standing = Standing::Gone;
            }
        }
        self.core.changed.ring();
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
pub(crate) fn last_of(asked: &Asked) -> Error {
    asked.last.lock().clone().unwrap_or_else(|| failure::silent(Duration::ZERO))
}
