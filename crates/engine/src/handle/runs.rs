//! Runs: append-only logs of events, what they add up to, and those who follow them.

use crate::base::clock::{Clock, SystemClock};
use crate::handle::backend::Backend;
use crate::lifecycle::engine::Engine;
use crate::read::pinned_snapshot::PinnedSnapshot;
use crate::read::snapshot::Snapshot;
use crate::remote::{AsyncRuns, AsyncRunsAt, ConnectionPool, wait};
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

/// The runs of a branch.
///
/// ```
/// use mainstay::{NewEvent, RunStatus};
/// let runs = mainstay::Database::memory()?.runs();
/// let started = NewEvent::new("order-7", "RunStarted").plan("1");
/// assert_eq!(runs.append(started.clone())?.run_seq, 1);
/// // Told twice, it is one event.
/// let again = runs.append(started)?;
/// assert_eq!((again.run_seq, again.idempotent, again.persisted), (1, true, false));
/// runs.append(NewEvent::new("order-7", "StepStarted").step("pay").plan("1"))?;
/// let snapshot = runs.snapshot("order-7")?.expect("it is there");
/// assert_eq!((snapshot.status, snapshot.last_event_seq), (RunStatus::Running, 2));
/// // What is kept and what the log says are one thing.
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

    /// The same runs, to be awaited.
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

    /// Answers a command that only reads, for those who have commands as values. What retention passed by meanwhile
    /// is looked at again.
    pub fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        only_read(command.is_read())?;
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

    /// Appends an event; one whose key the run has already is the first one again. A run that is not known is
    /// made, one that was deleted is the error `RunNotFound`.
    pub fn append(&self, event: NewEvent) -> Result<Appended> {
        self.write(append(event, None)?)?.into_run()?.into_appended()
    }

    /// Appends an event if the run's last sequence is this one (0: it has none); else the error is `SequenceMoved`. An
    /// event that is there already is found all the same.
    pub fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Result<Appended> {
        self.write(append(event, Some(expected_seq))?)?.into_run()?.into_appended()
    }

    /// Appends several events, of one run or of many, all or none; answers each.
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
        let answers = self.execute(batch(&self.branch, events)?)?;
        answers.into_iter().map(|answer| answer.into_run()?.into_appended()).collect()
    }

    /// Makes a run with what is known of it and its first events; where there is one, the error is `RunExists`.
    pub fn bootstrap(
        &self,
        run: &str,
        metadata: impl Into<Value>,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Appended>> {
        let (run, metadata) = (Name::new(run)?, metadata.into());
        self.write(RunCommand::Bootstrap { run, metadata, events })?.into_run()?.into_appended_all()
    }

    /// Writes events as an archive kept them, behind those that are there; those that are there already are left
    /// alone. Makes the run where there is none, also one that was deleted. Gives how many were written.
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

    /// Deletes a whole run; says whether there was one. Single events are never deleted.
    pub fn delete(&self, run: &str) -> Result<bool> {
        self.write(RunCommand::Delete { run: Name::new(run)? })?.into_did()
    }

    /// Keeps what a reducer has made of a run's events up to one of them; says whether there is such a run.
    pub fn keep(
        &self,
        run: &str,
        reducer: &str,
        version: u64,
        seq: u64,
        state: Value,
    ) -> Result<bool> {
        let (run, reducer) = (Name::new(run)?, reducer.to_owned());
        self.write(RunCommand::Keep { run, reducer, version, seq, state })?.into_did()
    }

    /// What a reducer has made of a run, as it was kept last; nothing of another version.
    pub fn kept(&self, run: &str, reducer: &str, version: u64) -> Result<Option<KeptState>> {
        let (run, reducer) = (Name::new(run)?, reducer.to_owned());
        match self.read(RunCommand::Kept { run, reducer, version, upto: None })? {
            RunAnswer::Kept(kept) => Ok(kept),
            _ => Err(Answer::mismatch()),
        }
    }

    /// What is known of a run.
    pub fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? })?.into_info()
    }

    /// Events behind one of them, in order; none of a run that there is not.
    pub fn fetch(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<CanonicalEvent>> {
        self.read(fetch(run, after_seq, limit)?)?.into_events()
    }

    /// What the events add up to, never behind them.
    pub fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None })?.into_snapshot()
    }

    /// What the events up to one of them add up to; nothing where there are not so many.
    pub fn snapshot_at(&self, run: &str, seq: u64) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: Some(seq) })?.into_snapshot()
    }

    /// What the events add up to, from the first one on.
    pub fn project(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Project { run: Name::new(run)? })?.into_snapshot()
    }

    /// Runs in byte order of their names.
    pub fn list(&self, filter: &RunFilter, after: Option<&str>, limit: usize) -> Result<RunPage> {
        self.read(list(filter, after, limit))?.into_page()
    }

    /// Events behind one of them that could not follow those before them.
    pub fn alerts(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<RunAlert>> {
        let run = Name::new(run)?;
        match self.read(RunCommand::Alerts { run, after: after_seq, limit })? {
            RunAnswer::Alerts(alerts) => Ok(alerts),
            _ => Err(Answer::mismatch()),
        }
    }

    /// The revision that brought an event: a branch that is forked there goes on behind it, or behind the last of
    /// those that came with it. [`Database::fork_at_event`](crate::Database::fork_at_event) goes on behind any.
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

    /// Follows a run behind one of its events. It need not be there yet.
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
        let (runs, run) = (self.clone(), Name::new(run)?);
        Ok(RunTail { runs, run, after: after_seq })
    }

    /// The runs as they were, for as long as the view lives (an hour at most).
    pub fn at(&self, at: At) -> Result<RunsAt> {
        Ok(match &self.place {
            Backend::Local(core) => RunsAt::here(PinnedSnapshot::new(core, &self.branch, at)?),
            Backend::Remote(link) => RunsAt::there(wait(self.there(link).at(at))?),
        })
    }
}

/// Follows a run: events in order, each once, and only what is on stable storage.
///
/// One that is deleted and comes back with all that was given is followed further. One that comes back shorter
/// would have other events under the sequences to come: the error is `SequenceMoved`, and who follows it begins
/// again behind an event that the run has.
pub struct RunTail {
    runs: Runs,
    run: Name,
    after: u64,
}

impl RunTail {
    /// The last event that was given.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// The next events, at most so many, and fewer where so many are too large for one answer. Waits for at least
    /// one; none when the time is over.
    pub fn next(&mut self, limit: usize, timeout: Duration) -> Result<Vec<CanonicalEvent>> {
        check_page(limit)?;
        // What is too large is there: only the first time it is waited for.
        let events = PageSize::upto(limit).ask(|limit| self.wait(limit, timeout))?;
        self.after = events.last().map_or(self.after, |event| event.run_seq);
        Ok(events)
    }

    /// The next events that are there, at most so many, and no more once they are as large as this. It does not wait.
    pub fn glance(&mut self, limit: usize, bytes: usize) -> Result<Vec<CanonicalEvent>> {
        check_page(limit)?;
        let Backend::Local(core) = &self.runs.place else {
            return self.next(limit, Duration::ZERO);
        };
        let look = |limit| self.wait_here(core, (limit, bytes), Duration::ZERO);
        let events = PageSize::upto(limit).ask(look)?;
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
        // What is synced is durable before it is visible: who waits for the one alone misses the other.
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

    /// Refuses to wait for what a run that is shorter than it was may never have. One that is gone may come back.
    fn check_there(&self, core: &Arc<Engine>) -> Result<()> {
        let snapshot = Snapshot::new(core, &self.runs.branch, At::Latest)?;
        match snapshot.last_seq(&self.run)? {
            Some(last_seq) if last_seq < self.after => {
                Err(shorter(&self.run, last_seq, self.after))
            }
            _ => Ok(()),
        }
    }

    /// What is durable of what comes next. What retention passed by meanwhile is looked at again, newly.
    fn look(&self, core: &Arc<Engine>, size: (usize, usize)) -> Result<Vec<CanonicalEvent>> {
        loop {
            let durable = core.sequencer.durable();
            let mut snapshot = Snapshot::new(core, &self.runs.branch, At::Latest)?;
            if durable < snapshot.revision {
                // A branch may have been forked where its parent is not durable yet.
                snapshot.layers.iter_mut().for_each(|layer| layer.1 = layer.1.min(durable));
                (snapshot.revision, snapshot.fresh) = (durable, false);
            }
            match snapshot.events(&self.run, self.after, size) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                events => return events,
            }
        }
    }
}

/// The runs of a branch as of one point in time. Clones are the same view.
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

    /// The revision it shows.
    pub fn revision(&self) -> Revision {
        match &self.0 {
            RunsBackend::Here(pinned) => pinned.snapshot.revision,
            RunsBackend::There(view) => view.revision(),
        }
    }

    /// Answers a command that only reads, for those who have commands as values.
    pub fn read(&self, command: RunCommand) -> Result<RunAnswer> {
        only_read(command.is_read())?;
        match &self.0 {
            RunsBackend::Here(pinned) => pinned.snapshot.runs(&command),
            RunsBackend::There(view) => wait(view.read(command)),
        }
    }

    /// What was known of a run.
    pub fn get(&self, run: &str) -> Result<Option<RunInfo>> {
        self.read(RunCommand::Get { run: Name::new(run)? })?.into_info()
    }

    /// Events behind one of them that there were, in order.
    pub fn fetch(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<CanonicalEvent>> {
        self.read(fetch(run, after_seq, limit)?)?.into_events()
    }

    /// What the events added up to.
    pub fn snapshot(&self, run: &str) -> Result<Option<RunSnapshot>> {
        self.read(RunCommand::Snapshot { run: Name::new(run)?, seq: None })?.into_snapshot()
    }

    /// Runs that there were, in byte order of their names.
    pub fn list(&self, filter: &RunFilter, after: Option<&str>, limit: usize) -> Result<RunPage> {
        self.read(list(filter, after, limit))?.into_page()
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

/// Refuses what writes where something is read.
pub(crate) fn only_read(is_read: bool) -> Result<()> {
    let message = "this command writes: execute it in a transaction";
    if is_read { Ok(()) } else { Err(Error::new(Code::InvalidArgument, message)) }
}

/// The command that appends an event. Its key is made here, so that the writer need not.
pub(crate) fn append(mut event: NewEvent, expected: Option<u64>) -> Result<RunCommand> {
    event.check()?;
    event.idempotency_key = Some(event.key()?);
    Ok(RunCommand::Append { event: Box::new(event), expected })
}

/// The transaction that appends several events. What is wrong with one of them says which one it is.
pub(crate) fn batch(branch: &str, events: Vec<NewEvent>) -> Result<Transaction> {
    let mut transaction = Transaction::on(branch);
    for (position, event) in events.into_iter().enumerate() {
        let command = append(event, None).map_err(|error| error.at_position(position))?;
        transaction.steps.push(command.into());
    }
    Ok(transaction)
}

pub(crate) fn fetch(run: &str, after: u64, limit: usize) -> Result<RunCommand> {
    Ok(RunCommand::Fetch { run: Name::new(run)?, after, limit })
}

pub(crate) fn list(filter: &RunFilter, after: Option<&str>, limit: usize) -> RunCommand {
    RunCommand::List { filter: filter.clone(), after: after.map(str::to_owned), limit }
}
