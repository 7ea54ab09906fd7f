//! Bridges async requests to the blocking engine, so that no serving thread ever blocks on it.
//!
//! ```text
//!   write  --channel--> one thread: submit_with --> engine --callback--> oneshot --> the request
//!   read that may be slow --permit--> a blocking thread --> the request
//!   feed reader behind --channel--> a thread of low priority --> the feed reader
//! ```
//!
//! Submitting can wait for room in the engine's queue, and may execute transactions that other threads
//! queued. So writes are submitted on a thread of their own. That thread never waits for the disk, so one is
//! enough.

use super::Http;
use super::access::Asking;
use super::answers::{self, done_without_answer, no_memory};
use super::conditions::identified;
use super::refusal::{Answered, Refusal};
use crate::fair_queue::FairQueue;
use crate::memory::{Account, Exceeded, Kind};
use crate::process;
use crate::repeats::Expected;
use crate::resp::execution::large_bytes;
use crate::security::{FLUSH_WAIT_LIMIT, Security, TransactionAudit, User, flushes_are_behind};
use axum::http::HeaderMap;
use mainstay::{Answer, At, Command, Contract, Database, MAIN, Name, Receipt, Result, Transaction};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Answers up to this size are read and encoded on the serving threads, which is faster than a switch to
/// another thread.
const SMALL_BYTES: usize = 16 << 10;

/// The sleep of a large write between two checks of the flush backlog.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);

/// A transaction and the channel for its receipt.
struct Write {
    transaction: Transaction,
    answer: oneshot::Sender<Result<Receipt>>,
    audited: Audited,
}

/// The audit entries of a write. They are recorded when the write ends, because its client may have
/// disconnected by then. A write that never begins is recorded as failed.
struct Audited {
    security: Arc<Security>,
    entries: Option<TransactionAudit>,
}

impl Audited {
    fn record(mut self, receipt: Option<&Receipt>) {
        if let Some(entries) = self.entries.take() {
            entries.record(self.security.audit(), receipt);
        }
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        if let Some(entries) = self.entries.take() {
            entries.record(self.security.audit(), None);
        }
    }
}

/// Owns the thread that submits writes, which stops when this is dropped.
pub(crate) struct Writer {
    sender: Option<mpsc::Sender<Write>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. At most `waiting_limit` writes wait for it.
    pub fn start(db: Database, waiting_limit: usize) -> std::io::Result<Writer> {
        let (sender, mut receiver) = mpsc::channel::<Write>(waiting_limit.max(1));
        let submit_all = move || {
            while let Some(write) = receiver.blocking_recv() {
                submit(&db, write);
            }
        };
        let thread = std::thread::Builder::new().name("mainstay-http-write".into());
        Ok(Writer { sender: Some(sender), thread: Some(thread.spawn(submit_all)?) })
    }

    /// The number of writes that wait for the thread.
    pub fn waiting(&self) -> usize {
        self.sender.as_ref().map_or(0, |sender| sender.max_capacity() - sender.capacity())
    }

    async fn send(&self, write: Write) -> Answered<()> {
        let sender = self.sender.as_ref().ok_or_else(Refusal::lost)?;
        sender.send(write).await.map_err(|_| Refusal::lost())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // The panic was already reported on its own thread.
            let _ = thread.join();
        }
    }
}

/// Submits a write. If the client has disconnected, its receipt is dropped.
fn submit(db: &Database, write: Write) {
    let Write { transaction, answer, audited } = write;
    db.submit_with(transaction, move |receipt| {
        audited.record(receipt.as_ref().ok());
        drop(answer.send(receipt));
    });
}

/// Reads one piece of the log for a feed reader.
type Piece = Box<dyn FnOnce() + Send>;

/// Threads that read the log for feed readers that are behind, in turns per user. They have low priority, so
/// that other requests get the processor first.
pub(crate) struct CatchUp {
    queue: Arc<CatchUpQueue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct CatchUpQueue {
    pieces: Mutex<WaitingPieces>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingPieces {
    /// Keyed by the number of the user.
    pieces: FairQueue<usize, Piece>,
    is_over: bool,
}

impl CatchUp {
    pub fn start(threads: usize) -> std::io::Result<CatchUp> {
        let queue = Arc::<CatchUpQueue>::default();
        let start = |_| {
            let queue = queue.clone();
            let run = move || {
                process::lower_priority();
                while let Some(piece) = queue.next() {
                    // A panic is reported on this thread. The reader sees its answer channel close.
                    let _ = catch_unwind(AssertUnwindSafe(piece));
                }
            };
            std::thread::Builder::new().name("mainstay-http-catch-up".into()).spawn(run)
        };
        let threads = (0..threads.max(1)).map(start).collect::<std::io::Result<_>>()?;
        Ok(CatchUp { queue, threads })
    }

    /// Queues a piece of work in the turn of its user.
    fn run(&self, user: usize, piece: impl FnOnce() + Send + 'static) {
        self.queue.pieces.lock().pieces.push(user, Box::new(piece));
        self.queue.changed.notify_one();
    }
}

impl CatchUpQueue {
    /// Waits for the next piece; `None` on shutdown.
    fn next(&self) -> Option<Piece> {
        let mut waiting = self.pieces.lock();
        while !waiting.is_over {
            if let Some((_, piece)) = waiting.pieces.pop() {
                return Some(piece);
            }
            self.changed.wait(&mut waiting);
        }
        None
    }
}

impl Drop for CatchUp {
    fn drop(&mut self) {
        self.queue.pieces.lock().is_over = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            // The thread catches panics of its pieces.
            let _ = thread.join();
        }
    }
}

impl Http {
    /// Executes commands on a branch atomically, with the request identity from the headers.
    pub(crate) async fn execute<C: Into<Command>>(
        &self,
        asking: &Asking,
        headers: &HeaderMap,
        branch: Option<&str>,
        commands: impl IntoIterator<Item = C>,
    ) -> Answered<Receipt> {
        let transaction = Transaction::on(branch.unwrap_or(MAIN));
        let transaction = commands.into_iter().fold(transaction, Transaction::step);
        self.write(asking, identified(headers, transaction)?).await
    }

    /// Checks the caller's rights on every command, then executes the transaction.
    pub(crate) async fn write(
        &self,
        asking: &Asking,
        transaction: Transaction,
    ) -> Answered<Receipt> {
        let security = self.shared_security();
        let entries =
            TransactionAudit::new(security.audit(), &asking.user, &asking.peer, &transaction);
        if let Err(denied) = asking.user.allow(&transaction) {
            entries.record_denied(security.audit());
            return Err(Refusal::from(denied));
        }
        let audited = Audited { security, entries: Some(entries) };
        self.admit(&asking.user, &transaction)?;
        self.pace(&asking.user, &transaction).await;
        self.submit(&asking.user, asking.user.own_request(transaction), audited).await
    }

    /// Counts the sessions that the transaction opens against the user's limit.
    fn admit(&self, user: &User, transaction: &Transaction) -> Answered<()> {
        let commands = transaction.steps.iter().map(|step| &step.command);
        Ok(self.security().admit_sessions(user, self.db(), commands)?)
    }

    /// Throttles a user who writes faster than flushes can follow.
    async fn pace(&self, user: &User, transaction: &Transaction) {
        if let Some(wait) = user.pace.wait(self.db().flush_backlog()) {
            tokio::time::sleep(wait).await;
        }
        user.pace.take(transaction.weight_bytes(), self.db().flush_backlog());
    }

    async fn submit(
        &self,
        user: &User,
        transaction: Transaction,
        audited: Audited,
    ) -> Answered<Receipt> {
        let expected = Expected::of(&transaction);
        let (answer, receipt) = oneshot::channel();
        let write = Write { transaction, answer, audited };
        if write.transaction.is_long() || self.rewrites_much(user, &write.transaction).await {
            let db = self.db().clone();
            let submit = move || {
                submit(&db, write);
                Ok(())
            };
            self.slowly(submit).await?;
        } else {
            self.writer().send(write).await?;
        }
        let receipt = receipt.await.map_err(|_| Refusal::lost())?.map_err(Refusal::from)?;
        match expected {
            Some(expected) => Ok(expected.met_by(receipt)?),
            None => Ok(receipt),
        }
    }

    /// Returns whether a transaction rewrites large cells or records. If so, it waits while flushes are
    /// behind, and charges the bytes to the user's write rate.
    async fn rewrites_much(&self, user: &User, transaction: &Transaction) -> bool {
        let bytes = large_bytes(self.db(), transaction);
        if bytes == 0 {
            return false;
        }
        user.pace.take(bytes, self.db().flush_backlog());
        let begun = tokio::time::Instant::now();
        while flushes_are_behind(self.db()) && begun.elapsed() < FLUSH_WAIT_LIMIT {
            tokio::time::sleep(FLUSH_PAUSE).await;
        }
        true
    }

    /// Runs slow work on a blocking thread, with bounded concurrency.
    pub(crate) async fn slowly<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let own = self.slow_reads_of_users().acquire().await?;
        let (work, _wanted) = while_wanted(work);
        bounded(self.slow_reads(), own, work).await
    }

    /// Reads a cell or a record. A large value, one that is not in memory, or one of a past revision is read
    /// as a slow read.
    pub(crate) async fn read_entry<T: Send + 'static>(
        &self,
        branch: Option<&str>,
        (contract, name): (Contract, &Name),
        at: At,
        read: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        match at {
            At::Latest => {
                match self.db().size_in_memory(branch.unwrap_or(MAIN), contract, name)? {
                    Some(bytes) => self.sized(bytes, no_memory, read).await,
                    None => self.slowly(read).await,
                }
            }
            _ => self.slowly(read).await,
        }
    }

    /// Encodes the answer to a transaction. A large one is encoded on a blocking thread.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        receipt: Receipt,
        encode: impl FnOnce(Receipt) -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        self.sized(weight_bytes(&receipt), done_without_answer, || encode(receipt)).await
    }

    /// Builds an answer of about `bytes`: a small one at once, a large one as a slow read whose bytes are
    /// reserved while it waits. If they do not fit, `refuse` makes the error: either nothing was done, or the
    /// answer was lost.
    pub(crate) async fn sized<T: Send + 'static>(
        &self,
        bytes: usize,
        refuse: fn(&Exceeded) -> Refusal,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        if bytes <= SMALL_BYTES {
            return work();
        }
        let reserved = answers::account(self).reserve(Kind::Answers, bytes);
        let _reserved = reserved.map_err(|exceeded| refuse(&exceeded))?;
        self.slowly(work).await
    }

    /// Reads for a feed reader that is behind, on the catch-up threads. The work is skipped if the client has
    /// disconnected by then.
    pub(crate) async fn catch_up<T: Send + 'static>(
        &self,
        account: &Account,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let (work, _wanted) = while_wanted(work);
        let (answer, done) = oneshot::channel();
        let piece = move || {
            if !answer.is_closed() {
                // An error means that the client disconnected during the read.
                let _ = answer.send(work());
            }
        };
        self.catching_up().run(account.owner(), piece);
        done.await.map_err(|_| Refusal::lost())?
    }

    /// Reads statistics of the database, on a separate small limit.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let (work, _wanted) = while_wanted(work);
        bounded(self.looks(), None, work).await
    }

    /// Runs an export, an import or a backup, with bounded concurrency.
    pub(crate) async fn transfer<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        bounded(self.transfers(), None, work).await
    }
}

/// The memory that the answers of a transaction take, which is about the size of their JSON.
pub(super) fn weight_bytes(receipt: &Receipt) -> usize {
    let answers = receipt.answers.iter().map(|answer| size_of::<Answer>() + answer.weight_bytes());
    answers.sum()
}

/// Runs work to its end even if its client disconnects.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Answered<T>> + Send + 'static,
) -> Answered<T> {
    tokio::spawn(work).await.map_err(|_| Refusal::lost())?
}

/// Wraps work so that it ends early when the server stops or when the returned guard is dropped.
fn while_wanted<T>(
    work: impl FnOnce() -> Answered<T> + Send + 'static,
) -> (impl FnOnce() -> Answered<T> + Send + 'static, Wanted) {
    let left: Arc<AtomicBool> = Arc::default();
    let wanted = Wanted(left.clone());
    (move || mainstay::until_stopped(move || left.load(Ordering::Relaxed), work), wanted)
}

/// A guard held while the answer is awaited. Dropping it cancels the work.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs work under a permit. The work holds the permits, because it continues after its client has
/// disconnected.
async fn bounded<T: Send + 'static>(
    seats: Arc<Semaphore>,
    own: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let seat = seats.acquire_owned().await.map_err(|_| Refusal::lost())?;
    let run = move || {
        let _seats = (seat, own);
        work()
    };
    tokio::task::spawn_blocking(run).await.map_err(|_| Refusal::lost())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;
    use crate::jobs::Desk;
    use crate::memory::{self, MemoryBudget};
    use mainstay::Code;
    use std::sync::mpsc::channel;

    #[test]
    fn users_take_turns_to_catch_up() {
        let catch_up = CatchUp::start(1).unwrap();
        let (let_go, gate) = channel::<()>();
        let (began, begins) = channel();
        catch_up.run(1, move || {
            began.send(()).unwrap();
            let _ = gate.recv();
        });
        begins.recv().unwrap();
        let (done, order) = channel();
        for user in [1, 1, 1, 2] {
            let done = done.clone();
            catch_up.run(user, move || done.send(user).unwrap());
        }
        drop((let_go, done));
        let order: Vec<usize> = order.into_iter().collect();
        assert!(order.iter().position(|user| *user == 2).unwrap() <= 1, "{order:?}");
    }

    #[test]
    fn nothing_is_read_for_clients_that_have_left() {
        let app = Http::new(Database::memory().unwrap(), Settings::default()).unwrap();
        let account = app.memory().connect(None);
        let (let_go, gate) = channel::<()>();
        app.catching_up().run(0, move || {
            let _ = gate.recv();
        });
        let (read, was_read) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let left = app.catch_up(&account, move || {
                read.send(()).unwrap();
                Ok(())
            });
            let limit = std::time::Duration::from_millis(10);
            assert!(tokio::time::timeout(limit, left).await.is_err(), "it waits for its turn");
        });
        drop(let_go);
        assert!(was_read.recv().is_err(), "the piece was dropped and not begun");
    }

    #[test]
    fn a_read_ends_when_its_client_leaves() {
        let db = Database::memory().unwrap();
        for n in 0..1000 {
            db.cells().set(&format!("c{n:03}"), n).unwrap();
        }
        let app = Http::new(db.clone(), Settings::default()).unwrap();
        let (ended, end) = channel();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let read = app.slowly(move || {
                // Bounded, so that the test also ends if the read is not cancelled.
                let failed = (0..10_000).find_map(|_| db.cells().list("", None, 1000).err());
                ended.send(failed.map(|error| error.code())).unwrap();
                Ok(())
            });
            let limit = std::time::Duration::from_millis(10);
            assert!(tokio::time::timeout(limit, read).await.is_err(), "it takes longer");
        });
        assert_eq!(end.recv().unwrap(), Some(Code::Cancelled));
    }

    /// A large cell is decoded and encoded as a slow read, so that it does not delay small reads.
    #[tokio::test]
    async fn large_entries_wait_for_a_seat_and_small_ones_do_not() {
        let db = Database::memory().unwrap();
        db.cells().set("small", "x").unwrap();
        db.cells().set("large", "x".repeat(100 << 10)).unwrap();
        let settings = Settings { slow_reads: 1, ..Settings::default() };
        let limits = memory::Settings { per_connection_bytes: 250 << 10, ..Default::default() };
        let budget = MemoryBudget::new(limits);
        let jobs = Desk::plain(db.clone());
        let app = Http::budgeted(db.clone(), settings, Security::open(), jobs, budget).unwrap();
        let (let_go, gate) = channel::<()>();
        let taken = tokio::spawn({
            let app = app.clone();
            async move { app.slowly(move || Ok(gate.recv().is_err())).await }
        });
        while app.slow_reads().available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let read = |name: &str| {
            let app = app.clone();
            let db = db.clone();
            let name = Name::new(name).unwrap();
            async move {
                let entry = (Contract::Cells, &name);
                let cell = name.clone();
                app.read_entry(None, entry, At::Latest, move || {
                    Ok(db.cells().get(cell.as_str())?)
                })
                .await
            }
        };
        assert!(read("small").await.unwrap().is_some());
        let account = app.memory().connect(None);
        let [first, second, third] =
            [1, 2, 3].map(|_| tokio::spawn(answers::on(account.clone(), read("large"))));
        let refused = third.await.unwrap().unwrap_err();
        assert!(refused.text().contains("memory.per_connection_bytes"), "{}", refused.text());
        assert!(!first.is_finished() && !second.is_finished());
        drop(let_go);
        assert!(taken.await.unwrap().unwrap());
        for waited in [first, second] {
            assert!(waited.await.unwrap().unwrap().is_some());
        }
    }
}
