//! Session reads after a failed sync, served from a snapshot of the session table.
//!
//! The table runs ahead of the revision that readers see, so session reads normally go through the
//! executor. After a failed sync the executor accepts no work. Then the table is rebuilt once, at the
//! last visible revision, and its time no longer advances: no client can renew its lease, and all
//! leases restart when the database is opened. A read at `Durability::Sync` sees the durable revision
//! instead, because a revision that was visible but not synced may be lost when the database is opened.

use super::Sequencer;
use super::execute::QueuedWork;
use crate::apply::session_table::SessionTable;
use crate::apply::sessions::{self, SessionContext};
use crate::commit::executor::{check_limits, run_all};
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{
    Code, Command, Durability, Error, Receipt, Result, Revision, SessionCommand, Stamp, Transaction,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// The number of attempts of a session read while the writes that it waits for fail.
const TRIES: usize = 16;

/// The session table at a revision.
pub(super) struct SessionSnapshot {
    revision: Revision,
    now: Stamp,
    table: Mutex<SessionTable>,
}

impl Sequencer {
    /// Answers a refused transaction if it only reads sessions; otherwise returns the error.
    #[cold]
    pub(super) fn read_sessions(
        &self,
        transaction: &Transaction,
        refused: Error,
    ) -> Result<Receipt> {
        if self.is_closed() || !is_session_read(transaction) {
            return Err(refused);
        }
        check_limits(transaction)?;
        let durability = transaction.durability.unwrap_or(self.durability);
        let remembered = self.snapshot_sessions(durability)?;
        let SessionSnapshot { revision, now, ref table } = *remembered;
        let desk = SessionContext { index: &self.state.index, table, at: revision, now };
        let mut overlay = WriteSet::default();
        let answers = run_all(&transaction.steps, |command| match looks(command) {
            Some(command) => sessions::run(&desk, &mut overlay, command),
            None => Err(refused.clone()),
        })?;
        Ok(Receipt { revision, stamp: now, held: true, repeated: false, answers })
    }

    /// Reads sessions through the executor. The read waits for the writes whose effects it saw. If one
    /// of them fails, the read itself has not failed, so it is retried, up to `TRIES` times in total.
    pub(super) fn wait_to_read_sessions(&self, transaction: Transaction) -> Result<Receipt> {
        let look = || self.wait_on(QueuedWork::Run(transaction.clone().into()));
        let is_told = |told: &Result<Receipt>| match told {
            Ok(_) => true,
            Err(error) => !matches!(
                error.code(),
                Code::UnknownOutcome | Code::DiskFull | Code::Io | Code::SyncFailed
            ),
        };
        (1..TRIES).map(|_| look()).find(is_told).unwrap_or_else(look)
    }

    fn snapshot_sessions(&self, durability: Durability) -> Result<Arc<SessionSnapshot>> {
        let last = || match durability {
            Durability::Sync => self.published().min(self.durable()),
            Durability::Interval | Durability::Memory => self.published(),
        };
        // A group that was being written when the sync failed may have been published since.
        if let Some(there) = self.remembered.lock().clone().filter(|there| there.revision == last())
        {
            return Ok(there);
        }
        // Not under the lock of `remembered`: `with_exec` may run callbacks, which may read sessions,
        // too.
        let now = self.with_exec(|exec| exec.now().max(exec.stamper.last()));
        let revision = last();
        let table = SessionTable::load(&self.state.index, revision, now)?;
        let there = Arc::new(SessionSnapshot { revision, now, table: Mutex::new(table) });
        Ok(self.remembered.lock().insert(there).clone())
    }
}

/// Returns whether a transaction only reads sessions. Such a transaction needs no room.
pub(super) fn is_session_read(transaction: &Transaction) -> bool {
    let Transaction { steps, guards, otherwise, request, .. } = transaction;
    let plain = guards.is_empty() && otherwise.is_none() && request.is_none();
    plain && !steps.is_empty() && steps.iter().all(|step| looks(&step.command).is_some())
}

/// Returns the command if it reads sessions.
fn looks(command: &Command) -> Option<&SessionCommand> {
    match command {
        Command::Session(command) if command.reads() => Some(command),
        _ => None,
    }
}
