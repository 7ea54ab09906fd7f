//! How requests reach the engine, which blocks, without an async thread ever waiting for it.
//!
//! ```text
//!   write  --channel--> one thread: submit_with --> engine --callback--> oneshot --> the request
//!   read that may be slow --permit--> a blocking thread --> the request
//! ```
//!
//! Submitting can wait for room in the engine's queue, and may execute what others queued: that is
//! why even it has a thread. Nothing waits there for the disk, so one is enough.

use super::Http;
use super::access::Asking;
use super::conditions::identified;
use super::refusal::{Answered, Refusal};
use super::repeats::Expected;
use crate::security::{Outcome, User, recorded};
use axum::http::HeaderMap;
use mainstay::{Command, Database, MAIN, Receipt, Result, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// A transaction and who waits for its answer.
struct Write {
    transaction: Transaction,
    answer: oneshot::Sender<Result<Receipt>>,
}

/// The thread that submits; it ends with this.
pub(crate) struct Writer {
    sender: Option<mpsc::Sender<Write>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// So many writes may wait for the thread.
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

    /// How many writes wait for the thread.
    pub fn waiting(&self) -> usize {
        let waiting = |sender: &mpsc::Sender<Write>| sender.max_capacity() - sender.capacity();
        self.sender.as_ref().map_or(0, waiting)
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
            // A panic there has been told on its own thread.
            let _ = thread.join();
        }
    }
}

/// A client that went away is told nothing.
fn submit(db: &Database, write: Write) {
    let answer = write.answer;
    db.submit_with(write.transaction, move |receipt| drop(answer.send(receipt)));
}

impl Http {
    /// Executes commands on a branch, all or none, as the request that the headers name.
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

    /// Executes a transaction, if whoever asks may do all of it.
    pub(crate) async fn write(
        &self,
        asking: &Asking,
        transaction: Transaction,
    ) -> Answered<Receipt> {
        let audit = self.security().audit();
        let entries = recorded(audit, &asking.user, &asking.peer, &transaction);
        let (outcome, done) = match asking.user.allow(&transaction) {
            Err(denied) => (Outcome::Denied, Err(Refusal::from(denied))),
            Ok(()) => match self.submit_as(&asking.user, transaction).await {
                Ok(receipt) => (Outcome::Done, Ok(receipt)),
                Err(refusal) => (Outcome::Failed, Err(refusal)),
            },
        };
        entries.iter().for_each(|entry| audit.record(entry, outcome));
        done
    }

    /// As a request of this user, with what it holds counted as the user's.
    async fn submit_as(&self, user: &User, transaction: Transaction) -> Answered<Receipt> {
        let commands = transaction.steps.iter().map(|step| &step.command);
        self.security().admit_sessions(user, self.db(), commands)?;
        if let Some(wait) = user.pace.wait(self.db().flush_backlog()) {
            tokio::time::sleep(wait).await;
        }
        user.pace.take(transaction.weight_bytes(), self.db().flush_backlog());
        self.submit(user.own_request(transaction)).await
    }

    async fn submit(&self, transaction: Transaction) -> Answered<Receipt> {
        let expected = Expected::of(&transaction);
        let (answer, receipt) = oneshot::channel();
        let write = Write { transaction, answer };
        if write.transaction.is_long() {
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
            Some(expected) => expected.met_by(receipt),
            None => Ok(receipt),
        }
    }

    /// Runs what may be slow on a thread that may block, a bounded number at once.
    pub(crate) async fn slowly<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let own = self.slow_reads_of_users().acquire().await?;
        while_wanted(self.slow_reads(), own, work).await
    }

    /// The same for a reader of the feed that is behind. However many these are, half of the threads is left to
    /// other reads.
    pub(crate) async fn catch_up<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let own = self.catching_up().acquire_owned().await.map_err(|_| Refusal::lost())?;
        while_wanted(self.slow_reads(), Some(own), work).await
    }

    /// Looks at the figures of the database.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        while_wanted(self.looks(), None, work).await
    }

    /// Runs an export, an import or a backup, a bounded number at once.
    pub(crate) async fn transfer<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        bounded(self.transfers(), None, work).await
    }
}

/// The same for reads, which end early when their client has left or the server stops.
async fn while_wanted<T: Send + 'static>(
    seats: Arc<Semaphore>,
    own: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> Answered<T> + Send + 'static,
) -> Answered<T> {
    /// Sets the flag when the answer is not awaited any more.
    struct Wanted(Arc<AtomicBool>);
    impl Drop for Wanted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let left: Arc<AtomicBool> = Arc::default();
    let _wanted = Wanted(left.clone());
    let work = move || mainstay::until_stopped(move || left.load(Ordering::Relaxed), work);
    bounded(seats, own, work).await
}

/// The permits are kept by the work, which goes on when its client has left.
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
