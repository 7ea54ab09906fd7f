//! Runs: append-only event logs with projections and tails.

use crate::backend::Backend;
use mainstay_client::{AsyncRuns, AsyncRunsAt, ConnectionPool, wait};
use mainstay_engine::base::clock::{Clock, SystemClock};
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_engine::read::pinned_snapshot::PinnedSnapshot;
use mainstay_engine::read::snapshot::Snapshot;
use mainstay_model::build::{check_read, run_append, run_batch, run_fetch, run_list};
use mainstay_model::limits::check_page;
use mainstay_model::{
    Answer, Appended, At, CanonicalEvent, Code, CompactString, Error, KeptState, Name, NewEvent,
    PageSize, Receipt, Result, Revision, RunAlert, RunAnswer, RunCommand, RunFilter, RunInfo,
    RunPage, RunSnapshot, SmallVec, Stamp, Transaction, Value,
};
use std::sync::Arc;
use std::time::Duration;

mod restoring;
mod rewinding;
mod store;

pub use restoring::Restoring;

/// The runs of one branch.
///
/// ```
/// use mainstay::{NewEvent, RunStatus};
/// let runs = mainstay::Database::memory()?.runs();
/// let started = NewEvent::new("order-7", "RunStarted").plan("1");
/// assert_eq!(runs.append(started.clone())?.run_seq, 1);
/// // An event that is appended twice is stored once.
/// let again = runs.append(started)?;
/// assert_eq!((again.run_seq, again.idempotent, again.persisted), (1, true, false));
/// runs.append(NewEvent::new("order-7", "StepStarted").step("pay").plan("1"))?;
/// let snapshot = runs.snapshot("order-7")?.expect("it is there");
/// assert_eq!((snapshot.status, snapshot.last_event_seq), (RunStatus::Running, 2));
/// // The stored snapshot equals the projection of the log.
/// assert_eq!(snapshot.hash(), runs.project("order-7")?.expect("it is there").hash());
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Runs {
    place: Backend,
    branch: CompactString,
}

impl Runs {
    pub(crate) fn on(place: Backend, branch: &str) -> Runs {
        Runs { place, branch: branch.into() }
    }

    /// Returns the async client API for the same runs.
    fn there(&self, link: &Arc<ConnectionPool>) -> AsyncRuns {
        AsyncRuns::on(link.clone(), &self.branch)
    }

    fn receive(&self, transaction: Transaction) -> Result<Receipt> {
        match &self.place {
            Backend::Local(core) => core.sequencer.execute(transaction),
            Backend::Remote(link) => link.execute_and_wait(&transaction),
        }
    }

    fn execute(&self, transaction: Transaction) -> Result<SmallVec<[Answer; 1]>> {
        Ok(self.receive(transaction)?.answers)
    }

    fn write(&self, command: RunCommand) -> Result<Answer> {
        let answers = self.execute(Transaction::on(&self.branch).step(command))?;
        answers.into_iter().next().ok_or_else(Answer::mismatch)
    }

    /// Executes a read-only command, for callers that build commands as values. Fails with
    /// `InvalidArgument` if the command writes. Retries at a newer snapshot if retention trimmed the one it
    /// read.
    pub fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        check_read(command.is_read())?;
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(self.there(link).read(command)),
        };
        loop {
            match Snapshot::new(core, &self.branch, At::Latest)?.runs(&command) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                other => return other,
            }
        }
    }

    /// Appends an event. If the run already has an event with the same idempotency key, returns that one
    /// instead. Creates an unknown run. Fails with `RunNotFound` if the run was deleted.
    pub fn append(&self, event: NewEvent) -> Result<Appended> {
        self.write(run_append(event, None)?)?.into_run()?.into_appended()
    }

    /// Appends an event if the run's last sequence number equals `expected_seq` (0: the run has no events).
    /// Otherwise fails with `SequenceMoved`. An event whose idempotency key already exists is returned
    /// regardless.
    pub fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Result<Appended> {
        self.write(run_append(event, Some(expected_seq))?)?.into_run()?.into_appended()
    }

    /// Appends several events, to one run or to many, atomically. Returns one result per event.
    ///
    /// ```
    /// use mainstay::NewEvent;
    /// let runs = mainstay::Database::memory()?.runs();
    /// let event = |kind: &str, step: &str| NewEvent::new("r", kind).step(step).plan("1");
    /// let all = runs.append_batch(vec![event("StepStarted", "a"), event("StepStarted", "b")])?;
    /// assert_eq!(all.iter().map(|one| one.run_seq).collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn append_batch(&self, events: Vec<NewEvent>) -> Result<Vec<Appended>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.execute(run_batch(&self.branch, events)?)?;
        answers.into_iter().map(|answer| answer.into_run()?.into_appended()).collect()
    }

    /// Creates a run with metadata and its first events. Fails with `RunExists` if the run exists.
    pub fn bootstrap(
        &self,
        run: &str,
        metadata: impl Into<Value>,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Appended>> {
        let run = Name::new(run)?;
        let metadata = metadata.into();
        self.write(RunCommand::Bootstrap { run, metadata, events })?.into_run()?.into_appended_all()
    }

    /// Appends events from an archive to a run and skips those that it already has. Creates the run if it
    /// does not exist or was deleted. Returns the number of events written.
    pub fn restore(
        &self,
        run: &str,
        metadata: Option<Value>,
        created: Option<Stamp>,
        events: Vec<CanonicalEvent>,
    ) -> Result<u64> {
        let run = Name::new(run)?;
        self.write(RunCommand::Restore { run, metadata, created, events })?.into_count()
    }

    /// Deletes a whole run. Returns whether it existed. Single events cannot be deleted.
    pub fn delete(&self, run: &str) -> Result<bool> {
        self.write(RunCommand::Delete { run: Name::new(run)? })?.into_did()
    }

    /// Stores the state that a reducer computed from a run's events up to `seq`. Returns whether the run
    /// exists.
    pub fn keep(
        &self,
        run: &str,
        reducer: &str,
        version: u64,
        seq: u64,
        state: Value,
    ) -> Result<bool> {
        let run = Name::new(run)?;
        let reducer = reducer.to_owned();
        self.write(RunCommand::Keep { run, reducer, version, seq, state })?.into_did()
    }

    /// Returns the last stored state of a reducer, or `None` if none was stored for this reducer version.
    pub fn kept(&self, run: &str, reducer: &str, version: u64) -> Result<Option<KeptState>> {
        let run = Name::new(run)?;
        let reducer = reducer.to_owned();
        match self.read(RunCommand::Kept { run, reducer, version, upto: None })? {
            RunAnswer::Kept(kept) => Ok(kept),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Returns the metadata of a run, or `None` if it does not exist.
    pub fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? })?.into_info()
    }

    /// Returns at most `limit` events after sequence `after_seq`, in order. Returns none if the run does
    /// not exist.
    pub fn fetch(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<CanonicalEvent>> {
        self.read(run_fetch(run, after_seq, limit)?)?.into_events()
    }

    /// Returns the run's snapshot: the fold of all its events. It is never behind the log.
    pub fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None })?.into_snapshot()
    }

    /// Returns the fold of the events up to `seq`, or `None` if the run has fewer events.
    pub fn snapshot_at(&self, run: &str, seq: u64) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: Some(seq) })?.into_snapshot()
    }

    /// Recomputes the run's snapshot by folding its events from the first one on, instead of reading the
    /// stored one.
    pub fn project(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Project { run: Name::new(run)? })?.into_snapshot()
    }

    /// Lists runs in byte order of their names: at most `limit` runs that pass the filter and sort after
    /// `after`.
    pub fn list(&self, filter: &RunFilter, after: Option<&str>, limit: usize) -> Result<RunPage> {
        self.read(run_list(filter, after, limit))?.into_page()
    }

    /// Lists alerts after sequence `after_seq`: events that are not valid successors of the events before
    /// them.
    pub fn alerts(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<RunAlert>> {
        let run = Name::new(run)?;
        match self.read(RunCommand::Alerts { run, after: after_seq, limit })? {
            RunAnswer::Alerts(alerts) => Ok(alerts),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Returns the revision that wrote event `seq`, or `None` if the run has no such event. A branch forked
    /// at this revision continues after the event, or after the last event of the same transaction.
    /// [`Database::fork_at_event`](crate::Database::fork_at_event) can continue after any event.
    ///
    /// ```
    /// use mainstay::{At, Database, NewEvent};
    /// let db = Database::memory()?;
    /// let event = |kind: &str| NewEvent::new("r", kind).step("s").plan("1");
    /// for kind in ["StepStarted", "StepFailed"] {
    ///     db.runs().append(event(kind))?;
    /// }
    /// let first = db.runs().revision_of("r", 1)?.expect("it is there");
    /// db.fork("again", "main", At::Revision(first))?;
    /// let again = db.branch("again")?.runs();
    /// assert_eq!(again.append(event("StepCompleted"))?.run_seq, 2);
    /// assert_eq!(db.runs().fetch("r", 1, 9)?[0].event_type, "StepFailed");
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn revision_of(&self, run: &str, seq: u64) -> Result<Option<Revision>> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(self.there(link).revision_of(run, seq)),
        };
        Snapshot::new(core, &self.branch, At::Latest)?.revision_of(&Name::new(run)?, seq)
    }

    /// Opens a tail that delivers the run's events after `after_seq`. The run need not exist yet.
    ///
    /// ```
    /// use mainstay::NewEvent;
    /// use std::time::Duration;
    /// let runs = mainstay::Database::memory()?.runs();
    /// let mut tail = runs.tail("r", 0)?;
    /// assert!(tail.next(10, Duration::ZERO)?.is_empty());
    /// runs.append(NewEvent::new("r", "RunStarted").plan("1"))?;
    /// assert_eq!(tail.next(10, Duration::from_secs(5))?[0].run_seq, 1);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn tail(&self, run: &str, after_seq: u64) -> Result<RunTail> {
        let runs = self.clone();
        let run = Name::new(run)?;
        Ok(RunTail { runs, run, after: after_seq })
    }

    /// Opens a view of the runs at one point in time. The view pins that revision until it is dropped, for
    /// at most one hour.
    pub fn at(&self, at: At) -> Result<RunsAt> {
        Ok(match &self.place {
            Backend::Local(core) => RunsAt::here(PinnedSnapshot::new(core, &self.branch, at)?),
            Backend::Remote(link) => RunsAt::there(wait(self.there(link).at(at))?),
        })
    }
}

/// A cursor that follows a run: delivers durable events in order, each exactly once.
///
/// If the run is deleted and then restored with all delivered events, the tail continues. If it is restored
/// with fewer events, other events would get the next sequence numbers. Then the tail fails with
/// `SequenceMoved`, and the reader must start a new tail after an event that the run has.
pub struct RunTail {
    runs: Runs,
    run: Name,
    after: u64,
}

impl RunTail {
    /// The sequence number of the last delivered event.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// Blocks until at least one event is available and returns up to `limit` events. Returns fewer if they
    /// are too large for one answer, and none after `timeout`.
    pub fn next(&mut self, limit: usize, timeout: Duration) -> Result<Vec<CanonicalEvent>> {
        check_page(limit)?;
        // If the answer is too large, events are available. So only the first attempt waits.
        let events = PageSize::upto(limit).ask(|limit| self.wait(limit, timeout))?;
        self.after = events.last().map_or(self.after, |event| event.run_seq);
        Ok(events)
    }

    /// Returns up to `limit` available events without blocking, and stops once they reach `bytes`.
    pub fn glance(&mut self, limit: usize, bytes: usize) -> Result<Vec<CanonicalEvent>> {
        check_page(limit)?;
        let Backend::Local(core) = &self.runs.place else {
            return self.next(limit, Duration::ZERO);
        };
        let events = PageSize::upto(limit)
            .ask(|limit| self.wait_here(core, (limit, bytes), Duration::ZERO))?;
        self.after = events.last().map_or(self.after, |event| event.run_seq);
        Ok(events)
    }

    fn wait(&self, limit: usize, timeout: Duration) -> Result<Vec<CanonicalEvent>> {
        match &self.runs.place {
            Backend::Local(core) => self.wait_here(core, (limit, usize::MAX), timeout),
            Backend::Remote(link) => {
                wait(self.runs.there(link).wait_for(&self.run, self.after, limit, timeout))
            }
        }
    }

    fn wait_here(
        &self,
        core: &Arc<Engine>,
        size: (usize, usize),
        timeout: Duration,
    ) -> Result<Vec<CanonicalEvent>> {
        let clock = SystemClock::new();
        // A synced revision is durable before it is visible. Waiting for only one of them would miss the
        // other.
        let reached = || core.sequencer.durable().min(core.sequencer.published());
        loop {
            let seen = reached();
            let events = self.look(core, size)?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.check_there(core)?;
            let left = timeout.saturating_sub(Duration::from_micros(clock.monotonic_us()));
            let _waiting = core.state.figures.runs.waiting();
            if !core.sequencer.wait_until(left, || reached() > seen) {
                core.check_open()?;
                return Ok(Vec::new());
            }
        }
    }

    /// Fails if the run is now shorter than this cursor, because the awaited event may never come. A
    /// deleted run may be restored, so it passes.
    fn check_there(&self, core: &Arc<Engine>) -> Result<()> {
        let snapshot = Snapshot::new(core, &self.runs.branch, At::Latest)?;
        match snapshot.last_seq(&self.run)? {
            Some(last_seq) if last_seq < self.after => {
                Err(shorter(&self.run, last_seq, self.after))
            }
            _ => Ok(()),
        }
    }

    /// Reads the next durable events. Retries at a newer snapshot if retention trimmed the one it read.
    fn look(&self, core: &Arc<Engine>, size: (usize, usize)) -> Result<Vec<CanonicalEvent>> {
        loop {
            let durable = core.sequencer.durable();
            let mut snapshot = Snapshot::new(core, &self.runs.branch, At::Latest)?;
            if durable < snapshot.revision {
                // The branch may have been forked at a revision of its parent that is not durable yet.
                snapshot.layers.iter_mut().for_each(|layer| layer.1 = layer.1.min(durable));
                snapshot.revision = durable;
                snapshot.fresh = false;
            }
            match snapshot.events(&self.run, self.after, size) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                events => return events,
            }
        }
    }
}

/// A read-only view of a branch's runs at one point in time. Clones share the view.
#[derive(Clone)]
pub struct RunsAt(RunsBackend);

#[derive(Clone)]
enum RunsBackend {
    Here(Arc<PinnedSnapshot>),
    There(AsyncRunsAt),
}

impl RunsAt {
    pub(crate) fn here(pinned: Arc<PinnedSnapshot>) -> RunsAt {
        RunsAt(RunsBackend::Here(pinned))
    }

    pub(crate) fn there(view: AsyncRunsAt) -> RunsAt {
        RunsAt(RunsBackend::There(view))
    }

    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        match &self.0 {
            RunsBackend::Here(pinned) => pinned.snapshot.revision,
            RunsBackend::There(view) => view.revision(),
        }
    }

    /// Executes a read-only command in this view, for callers that build commands as values. Fails with
    /// `InvalidArgument` if the command writes.
    pub fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        check_read(command.is_read())?;
        match &self.0 {
            RunsBackend::Here(pinned) => pinned.snapshot.runs(&command),
            RunsBackend::There(view) => wait(view.read(command)),
        }
    }

    /// Returns the metadata of a run, or `None` if it did not exist.
    pub fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? })?.into_info()
    }

    /// Returns at most `limit` events after sequence `after_seq`, in order.
    pub fn fetch(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<CanonicalEvent>> {
        self.read(run_fetch(run, after_seq, limit)?)?.into_events()
    }

    /// Returns the run's snapshot: the fold of all its events up to this view's revision.
    pub fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None })?.into_snapshot()
    }

    /// Lists the runs that existed, in byte order of their names.
    pub fn list(&self, filter: &RunFilter, after: Option<&str>, limit: usize) -> Result<RunPage> {
        self.read(run_list(filter, after, limit))?.into_page()
    }
}

#[cold]
fn shorter(run: &Name, last_seq: u64, after: u64) -> Error {
    let message = format!(
        "run `{run}` is at {last_seq} and has no event {after} to go on from: it was deleted and is another one, or it is \
         that of another branch; begin again behind an event that it has"
    );
    Error::new(Code::SequenceMoved, message)
}
