//! What is told of sessions when nothing is written any more.
//!
//! Their table runs ahead of what readers see, so the writer is asked for what is in it; after a failed sync it answers
//! nobody. Then the table is read once more, as of the last revision that can be seen, and time stands still for it:
//! no client can renew its lease, and all of them begin anew when the database is opened. Whoever asks for what is on
//! stable storage is told of nothing else: what was seen before it was synced may be gone when the database is opened.

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

/// How often it is tried to look beside writers that fail.
const TRIES: usize = 16;

/// The sessions as of a revision.
pub(super) struct SessionSnapshot {
    revision: Revision,
    now: Stamp,
    table: Mutex<SessionTable>,
}

impl Sequencer {
    /// What a refused transaction is told all the same: it looks at sessions and does nothing else.
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

    /// Looks at sessions. Who does so waits with writers for what it saw of them; that they fail is not its own failure, and
    /// then it looks again.
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
        // What was being written when the sync failed may have come to be seen since.
        let is_true = |there: &Arc<SessionSnapshot>| there.revision == last();
        if let Some(there) = self.remembered.lock().clone().filter(is_true) {
            return Ok(there);
        }
        // Not under the lock: who comes to the executor may have to call back others, who look, too.
        let now = self.with_exec(|exec| exec.now().max(exec.stamper.last()));
        let revision = last();
        let table = SessionTable::load(&self.state.index, revision, now)?;
        let there = Arc::new(SessionSnapshot { revision, now, table: Mutex::new(table) });
        Ok(self.remembered.lock().insert(there).clone())
    }
}

/// Whether all that a transaction does is to look at sessions: that needs no room.
pub(super) fn is_session_read(transaction: &Transaction) -> bool {
    let Transaction { steps, guards, otherwise, request, .. } = transaction;
    let plain = guards.is_empty() && otherwise.is_none() && request.is_none();
    plain && !steps.is_empty() && steps.iter().all(|step| looks(&step.command).is_some())
}

/// The command, if it looks at sessions.
fn looks(command: &Command) -> Option<&SessionCommand> {
    match command {
        Command::Session(command) if command.reads() => Some(command),
        _ => None,
    }
}
