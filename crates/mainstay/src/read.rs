//! Multi-contract reads from one snapshot, and entry sizes, for servers on top of the database.

use super::database::Database;
use mainstay_engine::key::keyspace;
use mainstay_engine::read::read_view::ReadView;
use mainstay_engine::read::snapshot::Snapshot;
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Contract, HashCommand, Name, RecordCommand, Result,
    SmallVec, Stamp, StateKey, StringCommand,
};

impl Database {
    /// Executes read-only commands on one snapshot of the newest revision. Returns their answers and the
    /// snapshot's time. Fails with `Unsupported` for a served database.
    ///
    /// ```
    /// use mainstay::{Answer, Command, Database, Name, StringCommand};
    /// let db = Database::memory()?;
    /// db.cells().set("a", "text")?;
    /// let get = Command::from(StringCommand::Get { name: Name::new("a")? });
    /// let (answers, _) = db.look("main", &[get])?;
    /// assert!(matches!(&answers[0], Answer::Cell(Some(cell)) if cell.value == "text".into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn look(
        &self,
        branch: &str,
        commands: &[Command],
    ) -> Result<(SmallVec<[Answer; 1]>, Stamp)> {
        self.look_within(branch, commands, usize::MAX)?.ok_or_else(Answer::mismatch)
    }

    /// Like [`Database::look`], but returns `None` if the answers so far exceed `bytes` and more commands
    /// remain.
    pub fn look_within(
        &self,
        branch: &str,
        commands: &[Command],
        bytes: usize,
    ) -> Result<Option<(SmallVec<[Answer; 1]>, Stamp)>> {
        let core = self.place.here("a look at several kinds of state")?;
        // Retries at the newest revision if retention trimmed the one that was read.
        loop {
            let moment = ReadView::of(Snapshot::new(core, branch, At::Latest)?);
            match moment.answers_within(commands, bytes) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                answers => return Ok(answers?.map(|answers| (answers, moment.now()))),
            }
        }
    }

    /// Returns the stored size of a cell or a record in bytes, or 0 if it is absent. Returns `None` if it
    /// is not in memory, so that finding out would need a disk read. Fails with `Unsupported` for a served
    /// database.
    pub fn size_in_memory(
        &self,
        branch: &str,
        contract: Contract,
        name: &Name,
    ) -> Result<Option<usize>> {
        let core = self.place.here("the size of an entry")?;
        let snapshot = Snapshot::new(core, branch, At::Latest)?;
        Ok(snapshot.size_in_memory(keyspace::of(contract)?, name))
    }

    /// Returns the stored size of a record in bytes, or 0 if it is absent. Fails with `Unsupported` for a
    /// served database.
    pub fn record_bytes(&self, branch: &str, key: &Name) -> Result<usize> {
        let core = self.place.here("the size of a record")?;
        Snapshot::new(core, branch, At::Latest)?.stored_bytes(keyspace::RECORDS, key)
    }

    /// Returns the total stored size of the cells and records that the commands change in part but write as
    /// a whole. Returns `None` if no command does so. Fails with `Unsupported` for a served database.
    pub fn rewritten_bytes<'c>(
        &self,
        branch: &str,
        commands: impl IntoIterator<Item = &'c Command>,
    ) -> Result<Option<usize>> {
        let mut rewritten = commands.into_iter().filter_map(rewritten).peekable();
        if rewritten.peek().is_none() {
            return Ok(None);
        }
        let core = self.place.here("the size of entries")?;
        let snapshot = Snapshot::new(core, branch, At::Latest)?;
        rewritten
            .try_fold(0usize, |sum, (space, name)| {
                Ok(sum.saturating_add(snapshot.stored_bytes(space, name)?))
            })
            .map(Some)
    }

    /// Returns the total size in bytes of the newest states of some keys of a space. Fails with
    /// `Unsupported` for a served database.
    pub fn state_bytes(&self, branch: &str, space: &Name, keys: &[StateKey]) -> Result<usize> {
        let core = self.place.here("the size of states")?;
        Snapshot::new(core, branch, At::Latest)?.state_bytes(space, keys)
    }

    /// Opens a view of a branch at one point in time. It pins that revision until it is dropped, for at
    /// most one hour. Fails with `Unsupported` for a served database.
    pub fn moment(&self, branch: &str, at: At) -> Result<ReadView> {
        ReadView::pinned(self.place.here("a moment of several kinds of state")?, branch, at)
    }
}

/// Returns the cell or record that a command changes in part but writes as a whole.
fn rewritten(command: &Command) -> Option<(u8, &Name)> {
    match command {
        Command::Cell(CellCommand::Expire { name, .. })
        | Command::String(
            StringCommand::Append { name, .. }
            | StringCommand::Touch { name, .. }
            | StringCommand::Expire { name, .. }
            | StringCommand::Persist { name },
        ) => Some((keyspace::CELLS, name)),
        Command::Record(RecordCommand::Write(write)) if !write.replace => {
            Some((keyspace::RECORDS, &write.key))
        }
        Command::Record(RecordCommand::Expire { key, .. })
        | Command::Hash(
            HashCommand::Set { key, .. }
            | HashCommand::Delete { key, .. }
            | HashCommand::Add { key, .. }
            | HashCommand::AddFloat { key, .. },
        ) => Some((keyspace::RECORDS, key)),
        _ => None,
    }
}
