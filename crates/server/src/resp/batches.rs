//! An executor thread for batches, used while other clients may read, so that reads do not wait for the
//! disk.
//!
//! ```text
//!   loop --transactions--> thread: execute_all, one fsync --receipts--> loop: completes queued replies
//!    '-- answers reads of other clients, and gathers the next batch
//! ```

use mainstay::{Database, Receipt, Result, Transaction};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// The outcomes of all transactions of a batch, in order.
pub type Receipts = Vec<Result<Receipt>>;

/// The executor thread. Dropping this handle ends the thread after its batches are executed.
pub struct BatchExecutor {
    batches: Option<Sender<Vec<Transaction>>>,
    thread: Option<JoinHandle<()>>,
}

impl BatchExecutor {
    /// Starts the thread. It calls `done` with the receipts of each batch.
    pub fn start(
        db: Database,
        done: impl Fn(Receipts) + Send + 'static,
    ) -> io::Result<BatchExecutor> {
        let (batches, inbox) = channel::<Vec<Transaction>>();
        let run = move || {
            while let Ok(batch) = inbox.recv() {
                done(db.execute_all(batch));
            }
        };
        let thread = std::thread::Builder::new().name("mainstay-batch".to_owned()).spawn(run)?;
        Ok(BatchExecutor { batches: Some(batches), thread: Some(thread) })
    }

    /// Sends a batch to the thread. Returns the batch if the thread has ended.
    pub fn submit(&self, batch: Vec<Transaction>) -> std::result::Result<(), Vec<Transaction>> {
        match &self.batches {
            Some(batches) => batches.send(batch).map_err(|refused| refused.0),
            None => Err(batch),
        }
    }
}

impl Drop for BatchExecutor {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic was already reported by its own thread.
            let _ = thread.join();
        }
    }
}
