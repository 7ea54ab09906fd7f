//! Reads of several kinds of state, and sizes of entries, for those who serve a database.

use super::database::Database;
use crate::key::keyspace;
use crate::read::read_view::ReadView;
use crate::read::snapshot::Snapshot;
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Contract, HashCommand, Name, RecordCommand, Result,
    SmallVec, Stamp, StateKey, StringCommand,
};

impl Database {
    /// Answers commands that only read, all as of the newest moment; and that moment's time. The database
    /// has to be in this process.
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

    /// The same; nothing once some of the answers have more bytes than this, and there are more commands.
    pub fn look_within(
        &self,
        branch: &str,
        commands: &[Command],
        bytes: usize,
    ) -> Result<Option<(SmallVec<[Answer; 1]>, Stamp)>> {
        let core = self.place.here("a look at several kinds of state")?;
        // Reads again, at the newest revision, where retention has trimmed the one that was read.
        loop {
            let moment = ReadView::of(Snapshot::new(core, branch, At::Latest)?);
            match moment.answers_within(commands, bytes) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                answers => return Ok(answers?.map(|answers| (answers, moment.now()))),
            }
        }
    }

    /// The stored size of a cell or a record, 0 where there is none; nothing where it is not in memory, and the disk would have to be
    /// read. The database has to be in this process.
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

    /// The stored size of a record; 0 where there is none. The database has to be in this process.
    pub fn record_bytes(&self, branch: &str, key: &Name) -> Result<usize> {
        let core = self.place.here("the size of a record")?;
        Snapshot::new(core, branch, At::Latest)?.stored_bytes(keyspace::RECORDS, key)
    }

    /// The size of the cells and records of which commands change a part and write the whole; nothing where no command does
    /// so. The database has to be in this process.
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
        let add =
            |sum: usize, (space, name)| Ok(sum.saturating_add(snapshot.stored_bytes(space, name)?));
        rewritten.try_fold(0, add).map(Some)
    }

    /// Returns how many bytes the newest states of some keys of a space take. The database has to be in
    /// this process.
    pub fn state_bytes(&self, branch: &str, space: &Name, keys: &[StateKey]) -> Result<usize> {
        let core = self.place.here("the size of states")?;
        Snapshot::new(core, branch, At::Latest)?.state_bytes(space, keys)
    }

    /// A moment of a branch, for as long as the handle lives (an hour at most). The database has to be
    /// in this process.
    pub fn moment(&self, branch: &str, at: At) -> Result<ReadView> {
        ReadView::pinned(self.place.here("a moment of several kinds of state")?, branch, at)
    }
}

/// The cell or record that a command changes in part, for which it writes the whole.
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
