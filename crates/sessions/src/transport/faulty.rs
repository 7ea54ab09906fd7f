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

use super::{MessageWaker, Transport};
use crate::failure::{ErrorClass, classify};
use crate::runtime::backoff::splitmix64;
use mainstay::{
    Answering, Code, Command, Error, Name, Receipt, Result, SessionCommand, Transaction,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;

/// Maximum delay of a held or late copy, in number of further calls.
const MAX_DELAY_CALLS: u64 = 20;

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
    /// A message waker breaks when it should wake.
    pub break_waker: f64,
    /// A message waker wakes twice.
    pub wake_twice: f64,
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
            break_waker: 0.2,
            wake_twice: 0.2,
        }
    }
}

/// Number of injected faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultCounts {
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
/// assert!(lossy.fault_counts().requests > 0 && lossy.fault_counts().answers > 0);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct Faulty {
    inner: Arc<dyn Transport>,
    faults: Mutex<Faults>,
    history: Mutex<FaultHistory>,
}

#[derive(Default)]
struct FaultHistory {
    fault_counts: FaultCounts,
    /// How often each request was sent.
    attempt_counts: HashMap<String, u64>,
    /// Copies to execute after a number of calls.
    late: Vec<(u64, Transaction)>,
}

/// Random decisions about one call.
struct FaultRandom {
    state: u64,
}

impl FaultRandom {
    fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        splitmix64(self.state)
    }

    fn happens(&mut self, probability: f64) -> bool {
        let fraction = (self.number() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction < probability
    }
}

impl Faulty {
    /// Wraps a transport.
    pub fn new(inner: Arc<dyn Transport>, faults: Faults) -> Arc<Faulty> {
        Arc::new(Faulty { inner, faults: Mutex::new(faults), history: Mutex::default() })
    }

    /// Replaces the fault probabilities.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }

    fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    /// The number of injected faults so far.
    pub fn fault_counts(&self) -> FaultCounts {
        self.history.lock().fault_counts
    }

    /// Delivers all delayed copies. Returns their number.
    pub async fn deliver_delayed(&self) -> usize {
        let late = std::mem::take(&mut self.history.lock().late);
        let count = late.len();
        for (_, transaction) in late {
            let _ = self.inner.execute(transaction).await;
        }
        count
    }

    fn random(&self, key: &str) -> FaultRandom {
        let mut history = self.history.lock();
        let times = history.attempt_counts.entry(key.to_owned()).or_default();
        *times += 1;
        let bytes = key.bytes().chain(times.to_le_bytes());
        let state =
            bytes.fold(self.faults().seed, |state, byte| splitmix64(state ^ u64::from(byte)));
        FaultRandom { state }
    }

    fn count(&self, change: impl FnOnce(&mut FaultCounts)) {
        change(&mut self.history.lock().fault_counts);
    }

    async fn execute_with_faults(&self, transaction: Transaction) -> Result<Receipt> {
        let mut random = self.random(&request_key(&transaction));
        self.count(|fault_counts| fault_counts.calls += 1);
        if random.happens(self.faults().delay) {
            self.count(|fault_counts| fault_counts.delayed += 1);
            yield_times(random.number() % 8).await;
        }
        self.deliver_due_copies().await;
        if random.happens(self.faults().refuse) {
            self.count(|fault_counts| fault_counts.refused += 1);
            return Err(Error::new(Code::QueueFull, "refused, as it was told"));
        }
        if random.happens(self.faults().hold) {
            self.delay_copy(&transaction, &mut random);
            return self.lose(&mut random).await;
        }
        if random.happens(self.faults().lose_request) {
            self.count(|fault_counts| fault_counts.requests += 1);
            return self.lose(&mut random).await;
        }
        self.deliver(transaction, random).await
    }

    async fn deliver(&self, transaction: Transaction, mut random: FaultRandom) -> Result<Receipt> {
        let mut answer = self.inner.execute(transaction.clone()).await;
        if random.happens(self.faults().repeat) {
            self.count(|fault_counts| fault_counts.repeated += 1);
            yield_times(random.number() % 8).await;
            let repeated = self.inner.execute(transaction.clone()).await;
            answer = if random.happens(0.5) {
                merge_results(repeated, &answer)
            } else {
                merge_results(answer, &repeated)
            };
        }
        if random.happens(self.faults().repeat_late) {
            self.delay_copy(&transaction, &mut random);
            answer = merge_results(answer, &Err(lost_error()));
        }
        if random.happens(self.faults().lose_answer) {
            self.count(|fault_counts| fault_counts.answers += 1);
            return self.lose(&mut random).await;
        }
        answer
    }

    /// Stores a copy for later.
    fn delay_copy(&self, transaction: &Transaction, random: &mut FaultRandom) {
        let mut history = self.history.lock();
        history.fault_counts.late += 1;
        let due = history.fault_counts.calls + 1 + random.number() % MAX_DELAY_CALLS;
        history.late.push((due, transaction.clone()));
    }

    async fn deliver_due_copies(&self) {
        let due: Vec<Transaction> = {
            let mut history = self.history.lock();
            let calls = history.fault_counts.calls;
            history
                .late
                .extract_if(.., |(due, _)| *due <= calls)
                .map(|(_, transaction)| transaction)
                .collect()
        };
        for transaction in due {
            let _ = self.inner.execute(transaction).await;
        }
    }

    async fn lose(&self, random: &mut FaultRandom) -> Result<Receipt> {
        if random.happens(self.faults().silence) {
            pending::<()>().await;
        }
        Err(lost_error())
    }
}

impl Transport for Faulty {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(self.execute_with_faults(transaction))
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        Box::pin(async move {
            let mut random = self.random(&format!("watch {session}"));
            if random.happens(self.faults().refuse) {
                return Err(Error::new(Code::Io, "no connection, as it was told"));
            }
            let inner = self.inner.watch(session).await?;
            let Faults { break_waker, wake_twice, .. } = self.faults();
            Ok(Box::new(FaultyMessageWaker { inner, random, break_waker, wake_twice, last: None })
                as Box<dyn MessageWaker>)
        })
    }
}

struct FaultyMessageWaker {
    inner: Box<dyn MessageWaker>,
    random: FaultRandom,
    break_waker: f64,
    wake_twice: f64,
    last: Option<u64>,
}

impl MessageWaker for FaultyMessageWaker {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(async move {
            if let Some(last) = self.last.filter(|_| self.random.happens(self.wake_twice)) {
                return Ok(last);
            }
            let number = self.inner.next().await?;
            if self.random.happens(self.break_waker) {
                return Err(Error::new(Code::Io, "the connection broke, as it was told"));
            }
            self.last = Some(number);
            Ok(number)
        })
    }
}

/// A key that identifies retries of the same request. It omits the ownership nonce, which differs on each
/// attempt.
fn request_key(transaction: &Transaction) -> String {
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

fn lost_error() -> Error {
    Error::new(Code::UnknownOutcome, "lost on the way, as it was told")
}

/// The combined result of two copies: if only one was refused, the other may have been executed.
fn merge_results(result: Result<Receipt>, other: &Result<Receipt>) -> Result<Receipt> {
    match (is_refused(&result), is_refused(other)) {
        (true, false) => {
            let message = "one copy was refused, and another one may have been executed";
            Err(Error::new(Code::UnknownOutcome, message))
        }
        _ => result,
    }
}

/// Returns whether a copy was certainly not executed.
fn is_refused(answer: &Result<Receipt>) -> bool {
    let is_refusal = |error| {
        matches!(
            classify(error),
            ErrorClass::Unavailable | ErrorClass::SessionExpired | ErrorClass::Rejected
        )
    };
    answer.as_ref().is_err_and(is_refusal)
}

/// Yields to other tasks this many times.
async fn yield_times(times: u64) {
    let mut remaining = times;
    poll_fn(|context| match remaining {
        0 => Poll::Ready(()),
        _ => {
            remaining -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
