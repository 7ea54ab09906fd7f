//! Runs of a served database.

use super::remote_snapshot::RemoteSnapshot;
use crate::handle::outbox::ms;
use crate::handle::runs::{append, batch, fetch, list};
use crate::remote::connection_pool::ConnectionPool;
use crate::wire::{AdminRequest, ReadOp, ReadReply};
use mainstay_model::{
    Answer, Appended, At, CanonicalEvent, CompactString, KeptState, Name, NewEvent, Result,
    Revision, RunAlert, RunAnswer, RunCommand, RunFilter, RunInfo, RunPage, RunSnapshot, Stamp,
    Value,
};
use std::sync::Arc;
use std::time::Duration;

/// The runs of a branch.
///
/// ```no_run
/// # async fn example() -> mainstay::Result<()> {
/// use mainstay::NewEvent;
/// let runs = mainstay::remote::connect_async("127.0.0.1:7379").await?.runs();
/// let appended = runs.append(NewEvent::new("order-7", "RunStarted").plan("1")).await?;
/// assert_eq!(appended.run_seq, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncRuns {
    link: Arc<ConnectionPool>,
    branch: CompactString,
}

impl AsyncRuns {
    pub(crate) fn on(link: Arc<ConnectionPool>, branch: &str) -> AsyncRuns {
        AsyncRuns { link, branch: branch.into() }
    }

    pub(crate) fn into_parts(self) -> (Arc<ConnectionPool>, CompactString) {
        (self.link, self.branch)
    }

    pub(crate) async fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        seen(self.link.look(&self.branch, ReadOp::Runs(command)).await?)
    }

    async fn write(&self, command: RunCommand) -> Result<Answer> {
        self.link.run(&self.branch, command.into()).await
    }

    /// Appends an event; one whose key the run has already is the first one again.
    pub async fn append(&self, event: NewEvent) -> Result<Appended> {
        self.write(append(event, None)?).await?.into_run()?.into_appended()
    }

    /// Appends an event if the run's last sequence is this one; else the error is `SequenceMoved`.
    pub async fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Result<Appended> {
        self.write(append(event, Some(expected_seq))?).await?.into_run()?.into_appended()
    }

    /// Appends several events, all or none; answers each.
    pub async fn append_batch(&self, events: Vec<NewEvent>) -> Result<Vec<Appended>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let receipt = self.link.execute(&batch(&self.branch, events)?).await?;
        receipt.answers.into_iter().map(|answer| answer.into_run()?.into_appended()).collect()
    }

    /// Makes a run with what is known of it and its first events; where there is one, the error is `RunExists`.
    pub async fn bootstrap(
        &self,
        run: &str,
        metadata: impl Into<Value>,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Appended>> {
        let (run, metadata) = (Name::new(run)?, metadata.into());
        self.write(RunCommand::Bootstrap { run, metadata, events })
            .await?
            .into_run()?
            .into_appended_all()
    }

    /// Writes events as an archive kept them; gives how many were written.
    pub async fn restore(
        &self,
        run: &str,
        metadata: Option<Value>,
        created: Option<Stamp>,
        events: Vec<CanonicalEvent>,
    ) -> Result<u64> {
        let run = Name::new(run)?;
        self.write(RunCommand::Restore { run, metadata, created, events }).await?.into_count()
    }

    /// Deletes a whole run; says whether there was one.
    pub async fn delete(&self, run: &str) -> Result<bool> {
        self.write(RunCommand::Delete { run: Name::new(run)? }).await?.into_did()
    }

    /// Keeps what a reducer has made of a run's events up to one of them.
    pub async fn keep(
        &self,
        run: &str,
        reducer: &str,
        version: u64,
        seq: u64,
        state: Value,
    ) -> Result<bool> {
        let (run, reducer) = (Name::new(run)?, reducer.to_owned());
        self.write(RunCommand::Keep { run, reducer, version, seq, state }).await?.into_did()
    }

    /// What a reducer has made of a run, as it was kept last.
    pub async fn kept(&self, run: &str, reducer: &str, version: u64) -> Result<Option<KeptState>> {
        let (run, reducer) = (Name::new(run)?, reducer.to_owned());
        match self.read(RunCommand::Kept { run, reducer, version, upto: None }).await? {
            RunAnswer::Kept(kept) => Ok(kept),
            _ => Err(Answer::mismatch()),
        }
    }

    /// What is known of a run.
    pub async fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? }).await?.into_info()
    }

    /// Events behind one of them, in order; none of a run that there is not.
    pub async fn fetch(
        &self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        self.read(fetch(run, after_seq, limit)?).await?.into_events()
    }

    /// Waits for events behind one of them; none when the time is over.
    pub async fn wait_for(
        &self,
        run: &Name,
        after: u64,
        limit: usize,
        timeout: Duration,
    ) -> Result<Vec<CanonicalEvent>> {
        let (branch, run) = (self.branch.to_string(), run.clone());
        let question = AdminRequest::Tail { branch, run, after, limit, wait_ms: ms(timeout) };
        self.link.ask::<RunAnswer>(question).await?.into_events()
    }

    /// What the events add up to, never behind them.
    pub async fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None }).await?.into_snapshot()
    }

    /// What the events up to one of them add up to.
    pub async fn snapshot_at(&self, run: &str, seq: u64) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: Some(seq) })
            .await?
            .into_snapshot()
    }

    /// What the events add up to, from the first one on.
    pub async fn project(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Project { run: Name::new(run)? }).await?.into_snapshot()
    }

    /// Runs in byte order of their names.
    pub async fn list(
        &self,
        filter: &RunFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<RunPage> {
        self.read(list(filter, after, limit)).await?.into_page()
    }

    /// Events behind one of them that could not follow those before them.
    pub async fn alerts(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<RunAlert>> {
        let run = Name::new(run)?;
        match self.read(RunCommand::Alerts { run, after: after_seq, limit }).await? {
            RunAnswer::Alerts(alerts) => Ok(alerts),
            _ => Err(Answer::mismatch()),
        }
    }

    /// The revision that brought an event.
    pub async fn revision_of(&self, run: &str, seq: u64) -> Result<Option<Revision>> {
        let (branch, run) = (self.branch.to_string(), Name::new(run)?);
        self.link.ask(AdminRequest::RevisionOf { branch, run, seq }).await
    }

    /// The runs as they were, for as long as the view lives (an hour at most).
    pub async fn at(&self, at: At) -> Result<AsyncRunsAt> {
        Ok(AsyncRunsAt(RemoteSnapshot::new(&self.link, &self.branch, at).await?))
    }
}

/// The runs of a branch as of one point in time.
#[derive(Clone)]
pub struct AsyncRunsAt(pub(super) Arc<RemoteSnapshot>);

impl AsyncRunsAt {
    /// The revision it shows.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    pub(crate) async fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        seen(self.0.look(ReadOp::Runs(command)).await?)
    }

    /// What was known of a run.
    pub async fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? }).await?.into_info()
    }

    /// Events behind one of them that there were, in order.
    pub async fn fetch(
        &self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        self.read(fetch(run, after_seq, limit)?).await?.into_events()
    }

    /// What the events added up to.
    pub async fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None }).await?.into_snapshot()
    }

    /// Runs that there were, in byte order of their names.
    pub async fn list(
        &self,
        filter: &RunFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<RunPage> {
        self.read(list(filter, after, limit)).await?.into_page()
    }
}

fn seen(seen: ReadReply) -> Result<RunAnswer> {
    match seen {
        ReadReply::Runs(answer) => Ok(*answer),
        _ => Err(Answer::mismatch()),
    }
}
