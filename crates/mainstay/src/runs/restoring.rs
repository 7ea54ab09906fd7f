//! Restores a run from an archive: written in pieces under a hidden generation, then shown atomically.

use super::Runs;
use mainstay_model::{
    Answer, CanonicalEvent, Contract, Guard, Name, Result, Revision, RunCommand, Stamp,
    Transaction, Value,
};

/// A restore in progress. [`Restoring::finish`] makes the run visible. If it is dropped earlier or the
/// process crashes, readers see nothing of it, and the restore can begin again.
///
/// ```
/// use mainstay::{Database, NewEvent};
/// let runs = Database::memory()?.runs();
/// runs.append(NewEvent::new("r", "RunStarted").plan("1"))?;
/// let events = runs.fetch("r", 0, 10)?;
/// runs.delete("r")?;
///
/// let mut restoring = runs.restoring("r", None, None)?;
/// restoring.add(events)?;
/// assert!(runs.get("r")?.is_none());
/// restoring.finish(Vec::new())?;
/// assert_eq!(runs.fetch("r", 0, 10)?.len(), 1);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct Restoring {
    runs: Runs,
    run: Name,
    metadata: Option<Value>,
    created: Option<Stamp>,
    /// The revision of the transaction that began the restore.
    begun: Option<Revision>,
    /// If set, the first piece deletes the existing run, provided that it is unchanged since this revision.
    /// `None`: no such run exists.
    replaces: Option<Revision>,
}

impl Runs {
    /// Begins to restore a run in pieces that stay invisible until all are written. `metadata` and
    /// `created` are those of the original run, if known. The first piece ends any other restore of this
    /// run that is in progress. From then on, appends to the run fail. The first piece fails with
    /// `RunExists` if the run exists.
    pub fn restoring(
        &self,
        run: &str,
        metadata: Option<Value>,
        created: Option<Stamp>,
    ) -> Result<Restoring> {
        let runs = self.clone();
        let run = Name::new(run)?;
        Ok(Restoring { runs, run, metadata, created, begun: None, replaces: None })
    }
}

impl Restoring {
    /// Lets the first piece delete the existing run, provided that it is unchanged since a revision.
    pub(super) fn replacing(self, since: Revision) -> Restoring {
        Restoring { replaces: Some(since), ..self }
    }

    /// Writes more events and returns their number. The events of one piece must fit into one transaction.
    /// Fails with `Fenced` if another restore of the run has begun since.
    pub fn add(&mut self, events: Vec<CanonicalEvent>) -> Result<u64> {
        self.piece(events, false)
    }

    /// Writes the last events and makes the run visible. Returns the number of events in this piece.
    pub fn finish(mut self, events: Vec<CanonicalEvent>) -> Result<u64> {
        self.piece(events, true)
    }

    /// Writes one piece; `ends` marks the last one. A rejected piece has written nothing.
    pub(super) fn piece(&mut self, events: Vec<CanonicalEvent>, ends: bool) -> Result<u64> {
        let run = self.run.clone();
        let created = self.created;
        let begun = self.begun;
        let metadata = self.metadata.clone().filter(|_| begun.is_none());
        let mut transaction = Transaction::on(&self.runs.branch);
        if let Some(since) = self.replaces.filter(|_| begun.is_none()) {
            let contract = Contract::Runs;
            let name = run.clone();
            let expires = None;
            let unchanged = Guard::Unchanged { contract, name, since, expires };
            transaction =
                transaction.guard(unchanged).step(RunCommand::Delete { run: run.clone() });
        }
        let command = RunCommand::RestoreHidden { run, metadata, created, events, begun, ends };
        let receipt = self.runs.receive(transaction.step(command))?;
        self.begun.get_or_insert(receipt.revision);
        receipt.answers.into_iter().next_back().ok_or_else(Answer::mismatch)?.into_count()
    }
}
