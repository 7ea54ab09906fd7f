//! Chooses the thread that executes a transaction.
//!
//! ```text
//!   short                            event loop: one batch for all clients
//!   long                             worker
//!   rewrites large cells or records  worker: waits while flushes are behind, executes, fsyncs
//! ```
//!
//! A command that changes one field of a record writes the whole record. If the record has megabytes, all
//! connections in its batch would wait for it.

use super::connection_state::ConnectionState;
use crate::security::await_flushes;
use mainstay::{Command, Database, Receipt, Result, Transaction};

/// Commands that rewrite more bytes than this are executed by workers.
pub const LARGE_WRITE_BYTES: usize = 1 << 20;

impl ConnectionState {
    /// Returns whether a transaction is so expensive that a worker executes it.
    pub fn needs_worker(&self, transaction: &Transaction) -> bool {
        transaction.is_long()
            || self.rewrites_large_values(&transaction.branch, commands(transaction))
    }

    /// Returns whether commands rewrite so many bytes that other connections would wait for them. It uses
    /// the present sizes and the bytes that this connection has added to them in the batch.
    pub fn rewrites_large_values<'c>(
        &self,
        branch: &str,
        commands: impl Iterator<Item = &'c Command>,
    ) -> bool {
        if !self.shared.measures_writes() {
            return false;
        }
        let Ok(Some(bytes)) = self.shared.db.rewritten_bytes(branch, commands) else {
            return false;
        };
        self.shared.record_write_size(bytes > LARGE_WRITE_BYTES);
        bytes.saturating_add(self.batch_write_bytes) > LARGE_WRITE_BYTES
    }

    /// Returns a job that executes a transaction on a thread that may block.
    pub fn blocking_execution(
        &self,
        transaction: Transaction,
    ) -> impl FnOnce() -> Result<Receipt> + Send + use<> {
        let db = self.shared.db.clone();
        let user = self.user.clone();
        move || {
            let bytes = large_bytes(&db, &transaction);
            if bytes == 0 {
                return db.execute(transaction);
            }
            user.inspect(|user| user.pace.take(bytes, db.flush_backlog()));
            await_flushes(&db);
            let receipt = db.execute(transaction);
            // Sync at every durability level. Otherwise the next small write would wait for the megabytes
            // of several large ones. A failed fsync is reported to clients that asked for durability.
            let _ = db.sync();
            receipt
        }
    }
}

/// Returns the bytes that a transaction rewrites if they exceed the limit, otherwise 0.
pub fn large_bytes(db: &Database, transaction: &Transaction) -> usize {
    let bytes = db.rewritten_bytes(&transaction.branch, commands(transaction));
    bytes.ok().flatten().filter(|bytes| *bytes > LARGE_WRITE_BYTES).unwrap_or_default()
}

fn commands(transaction: &Transaction) -> impl Iterator<Item = &Command> {
    let otherwise = transaction.otherwise.iter().flatten();
    transaction.steps.iter().chain(otherwise).map(|step| &step.command)
}
