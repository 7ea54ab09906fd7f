//! Fault-injecting transport: loses, repeats, delays and reorders with configured probabilities.
//!
//! ```text
//!   execute ---> lost | refused | held, executed behind later ones | executed ---> answer | answer lost, or silence
//!                                                                  | twice
//!                                                                  | again, behind later ones
//! ```
//!
//! The fate of a call depends on the seed, the request, and how often that request was sent before. It does
//! not depend on the timing of other threads.

use super::{Doorbell, Transport};
use crate::failure::{Meaning, meaning};
use crate::pauses::mixed;
use mainstay::{
    Answering, Code, Command, Error, Name, Receipt, Result, SessionCommand, Transaction,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;

/// Maximum delay of a held or late copy, in number of further calls.
const LATE_CALLS: u64 = 20;

/// Probabilities of the faults, from 0 (never) to 1 (always).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Seed of the faults. The same seed gives the same faults.
    pub seed: u64,
    /// The request is lost.
    pub lose_request: f64,
    /// The request is executed, and the answer is lost.
    pub lose_answer: f64,
    /// Of the lost ones: the caller gets no error, but waits until its timeout.
    pub silence: f64,
    /// The database temporarily refuses the request.
    pub refuse: f64,
    /// The request is executed twice. Other requests may execute in between.
    pub repeat: f64,
    /// The request is executed, and a copy of it again after later requests.
    pub repeat_late: f64,
    /// The request is reported as lost, and executed after later requests.
    pub hold: f64,
    /// The request waits while others overtake it.
    pub delay: f64,
    /// A doorbell breaks when it should ring.
    pub break_bell: f64,
    /// A doorbell rings twice.
    pub ring_twice: f64,
}

impl Faults {
    /// High fault rates: three of ten requests and three of ten answers are lost, and most other faults
    /// happen sometimes.
    ///
    /// ```
    /// use mainstay_sessions::Faults;
    /// let faults = Faults { silence: 0.1, ..Faults::many(7) };
    /// assert_eq!((faults.lose_request, faults.lose_answer), (0.3, 0.3));
    /// ```
    pub fn many(seed: u64) -> Faults {
        Faults {
            seed,
            lose_request: 0.3,
            lose_answer: 0.3,
            silence: 0.0,
            refuse: 0.05,
            repeat: 0.1,
            repeat_late: 0.1,
            hold: 0.1,
            delay: 0.2,
            break_bell: 0.2,
            ring_twice: 0.2,
        }
    }
}

/// Number of injected faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Calls in total.
    pub calls: u64,
    /// Lost requests.
    pub requests: u64,
    /// Lost answers.
    pub answers: u64,
    /// Refused calls.
    pub refused: u64,
    /// Requests that were executed twice.
    pub repeated: u64,
    /// Copies that were executed after later requests.
    pub late: u64,
    /// Requests that others overtook.
    pub delayed: u64,
}

/// A transport that injects faults, for tests.
///
/// ```
/// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
/// use mainstay_sessions::{Client, Faults, Faulty, Local, Settings};
/// use std::time::Duration;
///
/// let db = Database::memory()?;
/// let lossy = Faulty::new(Local::new(&db)?, Faults::many(7));
/// let settings = Settings { first_pause: Duration::from_micros(100), ..Settings::default() };
/// let session = Client::with(lossy.clone(), settings)?.open(SessionOptions::new())?;
/// for _ in 0..20 {
///     let add = CellCommand::Incr { name: Name::new("n")?, by: 1.into() };
///     session.execute(Transaction::new().step(add))?;
/// }
/// assert_eq!(db.cells().get("n")?, Some(20.into()));
/// assert!(lossy.losses().requests > 0 && lossy.losses().answers > 0);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct Faulty {
    inner: Arc<dyn Transport>,
    faults: Mutex<Faults>,
    past: Mutex<Past>,
}

#[derive(Default)]
struct Past {
    losses: Losses,
    /// How often each request was sent.
    asked: HashMap<String, u64>,
    /// Copies to execute after a number of calls.
    late: Vec<(u64, Transaction)>,
}

/// Random decisions about one call.
struct Dice {
    state: u64,
}

impl Dice {
    fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state)
    }

    fn falls(&mut self, probability: f64) -> bool {
        let fraction = (self.number() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction < probability
    }
}

impl Faulty {
    /// Wraps a transport.
    pub fn new(inner: Arc<dyn Transport>, faults: Faults) -> Arc<Faulty> {
        Arc::new(Faulty { inner, faults: Mutex::new(faults), past: Mutex::default() })
    }

    /// Replaces the fault probabilities.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }

    fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    /// The number of injected faults so far.
    pub fn losses(&self) -> Losses {
        self.past.lock().losses
    }

    /// Delivers all delayed copies. Returns their number.
    pub async fn settle(&self) -> usize {
        let late = std::mem::take(&mut self.past.lock().late);
        let count = late.len();
        for (_, transaction) in late {
            let _ = self.inner.execute(transaction).await;
        }
        count
    }

    fn dice(&self, what: &str) -> Dice {
        let mut past = self.past.lock();
        let times = past.asked.entry(what.to_owned()).or_default();
        *times += 1;
        let bytes = what.bytes().chain(times.to_le_bytes());
        let state = bytes.fold(self.faults().seed, |state, byte| mixed(state ^ u64::from(byte)));
        Dice { state }
    }

    fn note(&self, note: impl FnOnce(&mut Losses)) {
        note(&mut self.past.lock().losses);
    }

    async fn carry(&self, transaction: Transaction) -> Result<Receipt> {
        let mut dice = self.dice(&what(&transaction));
        self.note(|losses| losses.calls += 1);
        if dice.falls(self.faults().delay) {
            self.note(|losses| losses.delayed += 1);
            let_others(dice.number() % 8).await;
        }
        self.bring_late().await;
        if dice.falls(self.faults().refuse) {
            self.note(|losses| losses.refused += 1);
            return Err(Error::new(Code::QueueFull, "refused, as it was told"));
        }
        if dice.falls(self.faults().hold) {
            self.keep(&transaction, &mut dice);
            return self.lost(&mut dice).await;
        }
        if dice.falls(self.faults().lose_request) {
            self.note(|losses| losses.requests += 1);
            return self.lost(&mut dice).await;
        }
        self.bring(transaction, dice).await
    }

    async fn bring(&self, transaction: Transaction, mut dice: Dice) -> Result<Receipt> {
        let mut answer = self.inner.execute(transaction.clone()).await;
        if dice.falls(self.faults().repeat) {
            self.note(|losses| losses.repeated += 1);
            let_others(dice.number() % 8).await;
            let again = self.inner.execute(transaction.clone()).await;
            answer =
                if dice.falls(0.5) { of_both(again, &answer) } else { of_both(answer, &again) };
        }
        if dice.falls(self.faults().repeat_late) {
            self.keep(&transaction, &mut dice);
            answer = of_both(answer, &Err(lost()));
        }
        if dice.falls(self.faults().lose_answer) {
            self.note(|losses| losses.answers += 1);
            return self.lost(&mut dice).await;
        }
        answer
    }

    /// Stores a copy for later.
    fn keep(&self, transaction: &Transaction, dice: &mut Dice) {
        let mut past = self.past.lock();
        past.losses.late += 1;
        let due = past.losses.calls + 1 + dice.number() % LATE_CALLS;
        past.late.push((due, transaction.clone()));
    }

    async fn bring_late(&self) {
        let due: Vec<Transaction> = {
            let mut past = self.past.lock();
            let calls = past.losses.calls;
            past.late
                .extract_if(.., |(due, _)| *due <= calls)
                .map(|(_, transaction)| transaction)
                .collect()
        };
        for transaction in due {
            let _ = self.inner.execute(transaction).await;
        }
    }

    async fn lost(&self, dice: &mut Dice) -> Result<Receipt> {
        if dice.falls(self.faults().silence) {
            pending::<()>().await;
        }
        Err(lost())
    }
}

impl Transport for Faulty {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(self.carry(transaction))
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn Doorbell>> {
        Box::pin(async move {
            let mut dice = self.dice(&format!("watch {session}"));
            if dice.falls(self.faults().refuse) {
                return Err(Error::new(Code::Io, "no connection, as it was told"));
            }
            let inner = self.inner.watch(session).await?;
            let Faults { break_bell, ring_twice, .. } = self.faults();
            Ok(Box::new(Bell { inner, dice, break_bell, ring_twice, last: None })
                as Box<dyn Doorbell>)
        })
    }
}

struct Bell {
    inner: Box<dyn Doorbell>,
    dice: Dice,
    break_bell: f64,
    ring_twice: f64,
    last: Option<u64>,
}

impl Doorbell for Bell {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(async move {
            if let Some(last) = self.last.filter(|_| self.dice.falls(self.ring_twice)) {
                return Ok(last);
            }
            let number = self.inner.next().await?;
            if self.dice.falls(self.break_bell) {
                return Err(Error::new(Code::Io, "the connection broke, as it was told"));
            }
            self.last = Some(number);
            Ok(number)
        })
    }
}

/// A key that identifies retries of the same request. It omits the ownership nonce, which differs on each
/// attempt.
fn what(transaction: &Transaction) -> String {
    if let Some(request) = transaction.session() {
        return format!("{} {}", request.session, request.request_id);
    }
    match transaction.steps.first().map(|step| &step.command) {
        Some(Command::Session(SessionCommand::Open { session, hold, .. })) => {
            format!("open {session} {}", hold.map_or(0, |hold| hold.over))
        }
        command => format!("{command:?}"),
    }
}

fn lost() -> Error {
    Error::new(Code::UnknownOutcome, "lost on the way, as it was told")
}

/// The combined result of two copies: if only one was refused, the other may have been executed.
fn of_both(told: Result<Receipt>, other: &Result<Receipt>) -> Result<Receipt> {
    match (did_nothing(&told), did_nothing(other)) {
        (true, false) => {
            let message = "one copy was refused, and another one may have been executed";
            Err(Error::new(Code::UnknownOutcome, message))
        }
        _ => told,
    }
}

/// Returns whether a copy was certainly not executed.
fn did_nothing(answer: &Result<Receipt>) -> bool {
    let is_refusal =
        |error| matches!(meaning(error), Meaning::NotNow | Meaning::Expired | Meaning::Refused);
    answer.as_ref().is_err_and(is_refusal)
}

/// Yields to other tasks this many times.
async fn let_others(times: u64) {
    let mut left = times;
    poll_fn(|context| match left {
        0 => Poll::Ready(()),
        _ => {
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
