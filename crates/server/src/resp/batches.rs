//! Batches that another thread executes where somebody may read meanwhile, so that reads do not wait for the disk.
//!
//! ```text
//!   loop --transactions--> thread: execute_all, one sync --receipts--> loop: pays what is owed
//!    '-- answers reads of others, and gathers the next batch
//! ```

use mainstay::{Database, Receipt, Result, Transaction};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// The outcome of every transaction of a batch.
pub type Receipts = Vec<Result<Receipt>>;

/// The thread; it ends with this, once its batches are executed.
pub struct Executor {
    batches: Option<Sender<Vec<Transaction>>>,
    thread: Option<JoinHandle<()>>,
}

impl Executor {
    /// Starts it; `done` is told of every batch.
    pub fn start(db: Database, done: impl Fn(Receipts) + Send + 'static) -> io::Result<Executor> {
        let (batches, inbox) = channel::<Vec<Transaction>>();
        let run = move || {
            while let Ok(batch) = inbox.recv() {
                done(db.execute_all(batch));
            }
        };
        let thread = std::thread::Builder::new().name("mainstay-batch".to_owned()).spawn(run)?;
        Ok(Executor { batches: Some(batches), thread: Some(thread) })
    }

    /// Hands a batch over; gives it back if there is nobody to take it.
    pub fn take(&self, batch: Vec<Transaction>) -> std::result::Result<(), Vec<Transaction>> {
        match &self.batches {
            Some(batches) => batches.send(batch).map_err(|refused| refused.0),
            None => Err(batch),
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been told on its own thread.
            let _ = thread.join();
        }
    }
}
