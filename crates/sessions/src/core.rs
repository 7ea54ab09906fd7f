//! The core: what both faces of a session are made of, written once, to be awaited.
//!
//! ```text
//!   Session (waits) ------\
//!                          >-- Core: numbers, attempts, pauses, letters ---> Transport
//!   AsyncSession (awaits) -/     ^
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

/// What all sessions of a client share.
pub(crate) struct Means {
    pub transport: Arc<dyn Transport>,
    pub runtime: Arc<dyn Runtime>,
    pub settings: Settings,
    pub chance: Chance,
}

/// A session as its client has it.
pub(crate) struct Core {
    pub means: Arc<Means>,
    pub name: Name,
    pub tally: Tally,
    pub state: Mutex<State>,
    /// Rung whenever something of the state changes that others wait for.
    pub changed: Bell,
    opening: SessionCommand,
}

/// What an earlier client object left without an answer.
pub(crate) struct Left {
    /// The epoch in which it had its numbers.
    pub epoch: Stamp,
    pub requests: Vec<(u64, Transaction)>,
}

impl Left {
    /// Refuses numbers that no request can have had, and those that stand twice.
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
    /// Counts openings: what an answer says of one session is not said of the next one of its name.
    pub generation: u64,
    pub window: Window,
    /// The epoch of the session that this client has it in.
    pub epoch: Stamp,
    pub info: Option<SessionInfo>,
    /// When the last word was sent that the database has heard.
    pub heard_us: u64,
    /// The last request of the server that was handled, and the last that was acknowledged.
    pub handled: u64,
    pub acknowledged: u64,
    /// Somebody handles requests of the server.
    pub is_listening: bool,
}

/// How a session stands, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is not there, or not any more.
    Gone,
    /// It is being opened.
    Opening,
    Live,
    /// Its client does not want it any more.
    Closed,
}

/// Until when something is tried, by the runtime's time; nothing: for ever.
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

    /// Until when something is tried that begins now.
    pub fn deadline(&self, time: Option<Duration>) -> Deadline {
        Deadline(time.map(|time| self.now_us().saturating_add(micros(time))))
    }

    /// As the settings have it.
    pub fn usual_deadline(&self) -> Deadline {
        self.deadline(self.means.settings.deadline)
    }

    pub fn pauses(&self) -> Pauses<'_> {
        Pauses::new(&self.means.settings, &self.means.chance)
    }

    /// Whether a test planted this bug.
    pub fn has(&self, planted: Planted) -> bool {
        #[cfg(feature = "planted-faults")]
        return self.means.settings.planted == Some(planted);
        #[cfg(not(feature = "planted-faults"))]
        {
            let _ = planted;
            false
        }
    }

    /// Opens the session, or the next one of its name where it is gone, and has it alone from then on.
    pub async fn open(&self) -> Result<()> {
        self.open_with(None).await.map(drop)
    }

    /// The same, and takes along what an earlier client object left without an answer.
    pub async fn open_with(&self, left: Option<Left>) -> Result<Vec<Arc<Asked>>> {
        left.iter().try_for_each(|left| left.check(&self.name))?;
        let Some(opening) = self.begin_opening().await? else { return Ok(Vec::new()) };
        let sent_us = self.now_us();
        let expected = left.as_ref().map_or(0, |left| left.epoch);
        let taken = self.take(expected, self.usual_deadline()).await?;
        let left = opening.done(taken, left, sent_us);
        if self.state.lock().standing == Standing::Closed {
            // Somebody closed it meanwhile, in the epoch before.
            self.close().await?;
            return Err(failure::closed(&self.name));
        }
        Ok(left)
    }

    /// Begins an epoch of the session in which it is this client's alone: whatever others sent, or this one in an epoch
    /// before, is not executed from here on. A crash does not take that back. The epoch that is expected to end is tried
    /// first.
    async fn take(&self, expected: Stamp, deadline: Deadline) -> Result<Taken> {
        // Not from the seed of the settings: two clients may have the same one.
        let (nonce, mut over) = (self.means.runtime.unique(), expected);
        loop {
            let mut opening = self.opening.clone();
            if let SessionCommand::Open { hold, .. } = &mut opening {
                *hold = Some(Hold { nonce, over });
            }
            let answer = self.ask_durably(opening, deadline).await?;
            match of_session(answer)? {
                SessionAnswer::Opened { info, held: true, .. } => return Ok(Taken { info, over }),
                // Somebody has it: now it is known in which epoch.
                SessionAnswer::Opened { info, .. } if info.epoch != over => over = info.epoch,
                _ => return Err(failure::unexpected()),
            }
        }
    }

    /// Nothing where it is open; waits for somebody else who opens it.
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

    /// The session is gone, if it is still that one: everybody is told.
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

    /// Has a command on the session done, again and again while nobody knows whether it was: each of them can be
    /// repeated without harm.
    pub async fn ask(&self, command: SessionCommand, deadline: Deadline) -> Result<Answer> {
        self.ask_with(Transaction::new().step(command), deadline).await
    }

    /// The same, and a crash of the database takes back neither what was done nor what was told.
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

    /// Sends a transaction and waits for its answer, for as long as one attempt may take.
    pub async fn attempt(&self, transaction: Transaction, deadline: Deadline) -> Result<Receipt> {
        let limit = self.left(deadline).min(self.means.settings.attempt);
        let execute = self.means.transport.execute(transaction);
        match race(execute, self.means.runtime.sleep(limit)).await {
            First::This(answer) => answer,
            First::That(()) => Err(failure::silent(limit)),
        }
    }

    /// Pauses before the next attempt; false when there is no time for one.
    pub async fn rest(&self, pauses: &mut Pauses<'_>, deadline: Deadline) -> bool {
        let (pause, left) = (pauses.next(), self.left(deadline));
        if left.is_zero() {
            return false;
        }
        self.means.runtime.sleep(pause.min(left)).await;
        !self.left(deadline).is_zero()
    }

    /// How much time is left.
    pub fn left(&self, deadline: Deadline) -> Duration {
        let left = |until: u64| Duration::from_micros(until.saturating_sub(self.now_us()));
        deadline.0.map_or(Duration::MAX, left)
    }

    /// The database has heard a word that was sent then.
    pub fn heard(&self, state: &mut State, sent_us: u64) {
        state.heard_us = state.heard_us.max(sent_us);
    }

    /// Says that the client is there, and which answers it has.
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

    /// Ends the session; says whether it was there.
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

    /// Refuses what needs a session where there is none.
    pub fn check_live(&self, state: &State) -> Result<()> {
        match state.standing {
            Standing::Live => Ok(()),
            Standing::Closed => Err(failure::closed(&self.name)),
            Standing::Gone | Standing::Opening => Err(failure::expired(&self.name)),
        }
    }
}

/// A session that was taken.
struct Taken {
    info: SessionInfo,
    /// The epoch that ended, if the session is not a new one.
    over: Stamp,
}

impl Taken {
    /// Whether nobody else had the session since that epoch. The answer that is told may be one of several copies, and says
    /// only who has it: but an epoch comes once, so the last one that was asked for is the one that ended. A session that is new
    /// begins with its first epoch.
    fn follows(&self, epoch: Stamp) -> bool {
        self.over == epoch && self.info.epoch != self.info.opened
    }
}

/// Whoever opens the session. If that fails, or is given up, the next one may try.
struct Opening<'a> {
    core: &'a Core,
}

impl Opening<'_> {
    /// It is open; gives the requests of before.
    fn done(self, taken: Taken, left: Option<Left>, sent_us: u64) -> Vec<Arc<Asked>> {
        let (core, info) = (self.core, &taken.info);
        let mut state = core.state.lock();
        let acknowledged = info.last_sent.saturating_sub(info.pending);
        // Letters belong to their session. The next one's may have the same numbers, where a database has forgotten them.
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
    /// Requests of before, to be asked for again. Where somebody else had their session since, or it is gone, their numbers
    /// may be those of other requests: nobody knows what became of them, and they are not sent.
    fn take_in(&mut self, goes_on: bool, left: Left) -> Vec<Arc<Asked>> {
        let (generation, epoch) = match goes_on {
            true => (self.generation, self.epoch),
            false => (self.generation - 1, left.epoch),
        };
        let before = |(number, transaction): (u64, Transaction)| {
            let asked = Arc::new(Asked::new(number, generation, epoch, transaction));
            // It may have been sent: that is why it is asked for again.
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

/// The answer of a command on sessions.
pub(crate) fn of_session(answer: Answer) -> Result<SessionAnswer> {
    match answer {
        Answer::Session(answer) => Ok(*answer),
        _ => Err(failure::unexpected()),
    }
}

/// What a failed attempt was about, for whoever is told later.
pub(crate) fn last_of(asked: &Asked) -> Error {
    asked.last.lock().clone().unwrap_or_else(|| failure::silent(Duration::ZERO))
}
