//! Async client: runs of a served database.

use super::remote_snapshot::RemoteSnapshot;
use crate::connection_pool::ConnectionPool;
use mainstay_model::build::{millis, run_append, run_batch, run_fetch, run_list};
use mainstay_model::wire::{AdminRequest, ReadOp, ReadReply};
use mainstay_model::{
    Answer, Appended, At, CanonicalEvent, CompactString, KeptState, Name, NewEvent, Result,
    Revision, RunAlert, RunAnswer, RunCommand, RunFilter, RunInfo, RunPage, RunSnapshot, Stamp,
    Value,
};
use std::sync::Arc;
use std::time::Duration;

/// The runs of one branch.
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
    #[doc(hidden)]
    pub fn on(link: Arc<ConnectionPool>, branch: &str) -> AsyncRuns {
        AsyncRuns { link, branch: branch.into() }
    }

    #[doc(hidden)]
    pub fn into_parts(self) -> (Arc<ConnectionPool>, CompactString) {
        (self.link, self.branch)
    }

    #[doc(hidden)]
    pub async fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        seen(self.link.look(&self.branch, ReadOp::Runs(command)).await?)
    }

    async fn write(&self, command: RunCommand) -> Result<Answer> {
        self.link.run(&self.branch, command.into()).await
    }

    /// Appends an event. If the run already has an event with the same idempotency key, returns that one
    /// instead. Creates an unknown run. Fails with `RunNotFound` if the run was deleted.
    pub async fn append(&self, event: NewEvent) -> Result<Appended> {
        self.write(run_append(event, None)?).await?.into_run()?.into_appended()
    }

    /// Appends an event if the run's last sequence number equals `expected_seq` (0: the run has no events).
    /// Otherwise fails with `SequenceMoved`. An event whose idempotency key already exists is returned
    /// regardless.
    pub async fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Result<Appended> {
        self.write(run_append(event, Some(expected_seq))?).await?.into_run()?.into_appended()
    }

    /// Appends several events, to one run or to many, atomically. Returns one result per event.
    pub async fn append_batch(&self, events: Vec<NewEvent>) -> Result<Vec<Appended>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let receipt = self.link.execute(&run_batch(&self.branch, events)?).await?;
        receipt.answers.into_iter().map(|answer| answer.into_run()?.into_appended()).collect()
    }

    /// Creates a run with metadata and its first events. Fails with `RunExists` if the run exists.
    pub async fn bootstrap(
        &self,
        run: &str,
        metadata: impl Into<Value>,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Appended>> {
        let run = Name::new(run)?;
        let metadata = metadata.into();
        self.write(RunCommand::Bootstrap { run, metadata, events })
            .await?
            .into_run()?
            .into_appended_all()
    }

    /// Appends events from an archive to a run and skips those that it already has. Creates the run if it
    /// does not exist or was deleted. Returns the number of events written.
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

    /// Deletes a whole run. Returns whether it existed. Single events cannot be deleted.
    pub async fn delete(&self, run: &str) -> Result<bool> {
        self.write(RunCommand::Delete { run: Name::new(run)? }).await?.into_did()
    }

    /// Stores the state that a reducer computed from a run's events up to `seq`. Returns whether the run
    /// exists.
    pub async fn keep(
        &self,
        run: &str,
        reducer: &str,
        version: u64,
        seq: u64,
        state: Value,
    ) -> Result<bool> {
        let run = Name::new(run)?;
        let reducer = reducer.to_owned();
        self.write(RunCommand::Keep { run, reducer, version, seq, state }).await?.into_did()
    }

    /// Returns the last stored state of a reducer, or `None` if none was stored for this reducer version.
    pub async fn kept(&self, run: &str, reducer: &str, version: u64) -> Result<Option<KeptState>> {
        let run = Name::new(run)?;
        let reducer = reducer.to_owned();
        match self.read(RunCommand::Kept { run, reducer, version, upto: None }).await? {
            RunAnswer::Kept(kept) => Ok(kept),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Returns the metadata of a run, or `None` if it does not exist.
    pub async fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? }).await?.into_info()
    }

    /// Returns at most `limit` events after sequence `after_seq`, in order. Returns none if the run does
    /// not exist.
    pub async fn fetch(
        &self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        self.read(run_fetch(run, after_seq, limit)?).await?.into_events()
    }

    /// Waits until the run has durable events after sequence `after`. Returns at most `limit` of them, or none
    /// after `timeout`.
    pub async fn wait_for(
        &self,
        run: &Name,
        after: u64,
        limit: usize,
        timeout: Duration,
    ) -> Result<Vec<CanonicalEvent>> {
        let branch = self.branch.to_string();
        let run = run.clone();
        let question = AdminRequest::Tail { branch, run, after, limit, wait_ms: millis(timeout) };
        self.link.ask::<RunAnswer>(question).await?.into_events()
    }

    /// Returns the run's snapshot: the fold of all its events. It is never behind the log.
    pub async fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None }).await?.into_snapshot()
    }

    /// Returns the fold of the events up to `seq`, or `None` if the run has fewer events.
    pub async fn snapshot_at(&self, run: &str, seq: u64) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: Some(seq) })
            .await?
            .into_snapshot()
    }

    /// Recomputes the run's snapshot by folding its events from the first one on, instead of reading the
    /// stored one.
    pub async fn project(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Project { run: Name::new(run)? }).await?.into_snapshot()
    }

    /// Lists runs in byte order of their names: at most `limit` runs that pass the filter and sort after
    /// `after`.
    pub async fn list(
        &self,
        filter: &RunFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<RunPage> {
        self.read(run_list(filter, after, limit)).await?.into_page()
    }

    /// Lists alerts after sequence `after_seq`: events that are not valid successors of the events before
    /// them.
    pub async fn alerts(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<RunAlert>> {
        let run = Name::new(run)?;
        match self.read(RunCommand::Alerts { run, after: after_seq, limit }).await? {
            RunAnswer::Alerts(alerts) => Ok(alerts),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Returns the revision that wrote event `seq`, or `None` if the run has no such event. A branch forked
    /// at this revision continues after the event, or after the last event of the same transaction.
    /// `Database::fork_at_event` can continue after any event.
    pub async fn revision_of(&self, run: &str, seq: u64) -> Result<Option<Revision>> {
        let branch = self.branch.to_string();
        let run = Name::new(run)?;
        self.link.ask(AdminRequest::RevisionOf { branch, run, seq }).await
    }

    /// Opens a view of the runs at one point in time. The view pins that revision until it is dropped, for
    /// at most one hour.
    pub async fn at(&self, at: At) -> Result<AsyncRunsAt> {
        Ok(AsyncRunsAt(RemoteSnapshot::new(&self.link, &self.branch, at).await?))
    }
}

/// A read-only view of a branch's runs at one point in time. The server holds it on a dedicated connection;
/// if that connection breaks, the view is lost.
#[derive(Clone)]
pub struct AsyncRunsAt(pub(super) Arc<RemoteSnapshot>);

impl AsyncRunsAt {
    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    #[doc(hidden)]
    pub async fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        seen(self.0.look(ReadOp::Runs(command)).await?)
    }

    /// Returns the metadata of a run, or `None` if it did not exist.
    pub async fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? }).await?.into_info()
    }

    /// Returns at most `limit` events after sequence `after_seq`, in order.
    pub async fn fetch(
        &self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        self.read(run_fetch(run, after_seq, limit)?).await?.into_events()
    }

    /// Returns the run's snapshot: the fold of all its events up to this view's revision.
    pub async fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None }).await?.into_snapshot()
    }

    /// Lists the runs that existed, in byte order of their names.
    pub async fn list(
        &self,
        filter: &RunFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<RunPage> {
        self.read(run_list(filter, after, limit)).await?.into_page()
    }
}

fn seen(seen: ReadReply) -> Result<RunAnswer> {
    match seen {
        ReadReply::Runs(answer) => Ok(*answer),
        _ => Err(Answer::mismatch()),
    }
}
