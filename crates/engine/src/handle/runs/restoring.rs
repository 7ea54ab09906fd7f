//! A run on its way back from an archive: in pieces, and seen by nobody before it is whole.

use super::Runs;
use mainstay_model::{
    Answer, CanonicalEvent, Contract, Guard, Name, Result, Revision, RunCommand, Stamp,
    Transaction, Value,
};

/// A run that is being restored; [`Restoring::finish`] shows it. One that is dropped before, or that a crash
/// ended, leaves nothing that anybody sees, and is begun again.
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
    /// The transaction that began.
    begun: Option<Revision>,
    /// The first piece takes the place of the run as it was then; nothing: there is no such run.
    replaces: Option<Revision>,
}

impl Runs {
    /// Restores a run in pieces that nobody sees before all are there: with what it was made with and when, if
    /// that is known. The first piece ends whatever other restoring of the run is under way, and from then on nothing
    /// can be appended to the run. Where there is such a run the error is `RunExists`.
    pub fn restoring(
        &self,
        run: &str,
        metadata: Option<Value>,
        created: Option<Stamp>,
    ) -> Result<Restoring> {
        let (runs, run) = (self.clone(), Name::new(run)?);
        Ok(Restoring { runs, run, metadata, created, begun: None, replaces: None })
    }
}

impl Restoring {
    /// Lets the first piece delete the run, as it was at a revision.
    pub(super) fn replacing(self, since: Revision) -> Restoring {
        Restoring { replaces: Some(since), ..self }
    }

    /// Writes further events; gives how many there were. Those of one piece have to fit into a transaction. The
    /// error `Fenced` says that somebody else has begun to restore the run.
    pub fn add(&mut self, events: Vec<CanonicalEvent>) -> Result<u64> {
        self.piece(events, false)
    }

    /// Writes the last events, and shows the run; gives how many there were.
    pub fn finish(mut self, events: Vec<CanonicalEvent>) -> Result<u64> {
        self.piece(events, true)
    }

    /// Writes a piece, the last one or not; one that is refused has written nothing.
    pub(super) fn piece(&mut self, events: Vec<CanonicalEvent>, ends: bool) -> Result<u64> {
        let (run, created, begun) = (self.run.clone(), self.created, self.begun);
        let metadata = self.metadata.clone().filter(|_| begun.is_none());
        let mut transaction = Transaction::on(&self.runs.branch);
        if let Some(since) = self.replaces.filter(|_| begun.is_none()) {
            let (contract, name, expires) = (Contract::Runs, run.clone(), None);
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
