//! Runs in the reference model: a log is a list of events, and its snapshot is folded from the start each time.

use super::run::Run;
use super::versions::{Version, Versions};
use super::{Moment, cells};
use mainstay_model::{
    Answer, Appended, CanonicalEvent, Code, Error, Instant, Judgement, Name, NewEvent, Result,
    Revision, RunAlert, RunAnswer, RunCommand, RunFilter, RunInfo, RunPage, RunSnapshot, Stamp,
    Value, event_id, limits, reduce,
};

/// All versions of all runs.
pub type Logs = Versions<Log>;

/// A run's metadata and events.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Metadata given at creation.
    pub metadata: Option<Value>,
    /// Timestamp of creation.
    pub created: Stamp,
    /// Events, each with the timestamp of the transaction that wrote it to this branch.
    pub events: Vec<(CanonicalEvent, Stamp)>,
}

impl Log {
    /// Creates a run without events.
    pub fn new(created: Stamp, metadata: Option<Value>) -> Log {
        Log { metadata, created, events: Vec::new() }
    }

    /// Finds an event by its idempotency key.
    pub fn of_key(&self, key: &str) -> Option<&CanonicalEvent> {
        self.events.iter().map(|(event, _)| event).find(|event| event.idempotency_key == key)
    }

    /// Appends an event and returns its sequence number.
    pub fn push(&mut self, event: CanonicalEvent, stamp: Stamp) -> u64 {
        let run_seq = self.events.len() as u64 + 1;
        self.events.push((CanonicalEvent { run_seq, ..event }, stamp));
        run_seq
    }

    /// Returns whether metadata and event contents are equal. Times of persistence are not compared.
    pub fn means(&self, other: &Log) -> bool {
        let said = |log: &Log| -> Vec<_> {
            let one = |(event, _): &(CanonicalEvent, Stamp)| {
                let CanonicalEvent { event_id, event_type, step_id, event_data, .. } =
                    event.clone();
                (event_id, event_type, step_id, event_data, event.idempotency_key.clone())
            };
            log.events.iter().map(one).collect()
        };
        self.metadata == other.metadata && said(self) == said(other)
    }

    /// Folds the events up to a sequence number into a snapshot. Also returns alerts for events that are
    /// illegal in their state.
    fn fold(&self, run: &str, upto: u64) -> (RunSnapshot, Vec<RunAlert>) {
        let mut snapshot = RunSnapshot::new(run);
        let mut alerts = Vec::new();
        for (event, stamp) in self.events.iter().take(upto as usize) {
            if let Judgement::Illegal(message) = reduce(&mut snapshot, event) {
                alerts.push(RunAlert { run_seq: event.run_seq, message, stamp: *stamp });
            }
        }
        (snapshot, alerts)
    }

    /// Returns whether no event is illegal after the events before it.
    pub fn is_consistent(&self) -> bool {
        self.fold("", u64::MAX).1.is_empty()
    }

    fn last_seq(&self) -> u64 {
        self.events.len() as u64
    }
}

/// The info of a run version; `None` if the run is deleted.
fn info(run: &str, version: &Version<Log>) -> Option<RunInfo> {
    let log = version.value.as_ref()?;
    let (snapshot, alerts) = log.fold(run, log.last_seq());
    Some(RunInfo {
        run_id: run.to_owned(),
        status: snapshot.status,
        last_event_seq: log.last_seq(),
        inconsistent: !alerts.is_empty(),
        created: log.created,
        updated: version.stamp,
        revision: version.revision,
        metadata: log.metadata.clone(),
    })
}

/// The revision that wrote an event at its sequence number on this branch.
pub(super) fn revision_of(logs: &Logs, run: &str, seq: u64) -> Option<Revision> {
    let has = |log: &Log| (1..=log.last_seq()).contains(&seq);
    let versions = logs.all(run).iter().rev();
    let since = versions.take_while(|version| version.value.as_ref().is_some_and(has));
    since.last().map(|version| version.revision)
}

/// Executes a read-only command at a moment.
pub(super) fn read(logs: &Logs, command: &RunCommand, moment: Moment) -> Result<RunAnswer> {
    let live = |run: &Name| logs.value(run.as_str(), moment);
    Ok(match command {
        RunCommand::Get { run } => {
            let seen = logs.live(run.as_str(), moment);
            RunAnswer::Info(seen.and_then(|seen| info(run.as_str(), seen)))
        }
        RunCommand::Fetch { run, after, limit } => {
            check_limit(*limit)?;
            let events = live(run).map(|log| log.events).unwrap_or_default().into_iter();
            let behind = events.map(|(event, _)| event).filter(|event| event.run_seq > *after);
            RunAnswer::Events(behind.take(*limit).collect())
        }
        RunCommand::Snapshot { run, seq } => {
            let log = live(run).filter(|log| seq.is_none_or(|seq| seq <= log.last_seq()));
            RunAnswer::Snapshot(log.map(|log| log.fold(run.as_str(), seq.unwrap_or(u64::MAX)).0))
        }
        RunCommand::Project { run } => {
            RunAnswer::Snapshot(live(run).map(|log| log.fold(run.as_str(), u64::MAX).0))
        }
        RunCommand::Alerts { run, after, limit } => {
            check_limit(*limit)?;
            let alerts = live(run).map(|log| log.fold(run.as_str(), u64::MAX).1);
            let behind = alerts.unwrap_or_default().into_iter().filter(|one| one.run_seq > *after);
            RunAnswer::Alerts(behind.take(*limit).collect())
        }
        RunCommand::List { filter, after, limit } => {
            RunAnswer::Runs(list(logs, filter, after.as_deref(), *limit, moment)?)
        }
        other => return Err(Error::new(Code::Unsupported, format!("{other:?}"))),
    })
}

fn list(
    logs: &Logs,
    filter: &RunFilter,
    after: Option<&str>,
    limit: usize,
    moment: Moment,
) -> Result<RunPage> {
    check_limit(limit)?;
    let inside = logs.names().filter(|run| cells::in_range(run, &filter.prefix, after, None));
    let known = inside.filter_map(|run| info(run, logs.live(run, moment)?));
    let mut runs: Vec<RunInfo> = known.filter(|run| filter.passes(run)).collect();
    let more = runs.len() > limit;
    runs.truncate(limit);
    runs.iter_mut().for_each(|run| run.metadata = None);
    let next = if more { runs.last().map(|run| run.run_id.clone()) } else { None };
    Ok(RunPage { runs, next })
}

fn check_limit(limit: usize) -> Result<()> {
    if (1..=limits::PAGE_LIMIT).contains(&limit) {
        Ok(())
    } else {
        Err(Error::new(Code::InvalidLimit, format!("{limit} is no page limit")))
    }
}

impl Run<'_> {
    pub(super) fn run(&mut self, command: &RunCommand) -> Result<Answer> {
        let answer = |answer| Ok(Answer::Run(Box::new(answer)));
        match command {
            RunCommand::Append { event, expected } => {
                answer(RunAnswer::Appended(self.append_event(event, *expected)?))
            }
            RunCommand::Bootstrap { run, metadata, events } => {
                let log = self.log(run)?;
                if log.is_some() {
                    return Err(Error::new(Code::RunExists, format!("run `{run}` exists")));
                }
                let events: Vec<NewEvent> = events.iter().map(|event| of_run(event, run)).collect();
                events.iter().try_for_each(|event| check(event, run))?;
                self.put_log(run, Log::new(self.writer.stamp, Some(metadata.clone())));
                let all = events.iter().map(|event| self.append_event(event, None));
                let all = all.collect::<Result<Vec<Appended>>>()?;
                answer(RunAnswer::AppendedAll(all))
            }
            RunCommand::Delete { run } => {
                let first = self.state.logs.all(run.as_str()).first();
                if first.is_some_and(|first| first.revision == self.writer.revision) {
                    return Err(Error::new(Code::InvalidArgument, "made in the same transaction"));
                }
                Ok(Answer::Did(self.remove(run.as_str(), |state| &mut state.logs)))
            }
            read_only => answer(read(&self.state.logs, read_only, self.moment())?),
        }
    }

    fn append_event(&mut self, event: &NewEvent, expected: Option<u64>) -> Result<Appended> {
        event.check()?;
        let run = Name::new(&event.run_id)?;
        let key = event.key()?;
        let stamp = self.writer.stamp;
        let log = self.log(&run)?;
        if let Some(first) = log.as_ref().and_then(|log| log.of_key(&key)) {
            return Ok(Appended {
                run_seq: first.run_seq,
                idempotent: true,
                persisted: false,
                conflict: !first.says_the_same(event),
                event_id: first.event_id.clone(),
                persisted_at: first.persisted_at.clone().unwrap_or_else(|| Instant::of_us(0)),
            });
        }
        let mut log = log.unwrap_or_else(|| Log::new(stamp, None));
        if expected.is_some_and(|expected| expected != log.last_seq()) {
            return Err(Error::new(Code::SequenceMoved, "the run is elsewhere"));
        }
        let now = Instant::of_us(stamp);
        let id = event.event_id.clone().unwrap_or_else(|| event_id(stamp, run.as_str(), &key));
        let stored = event.clone().stored(0, id.clone(), key.clone(), now.clone());
        let run_seq = log.push(stored, stamp);
        self.put_log(&run, log);
        if let Some(message) = &event.message {
            self.put_with_event(&message.put(run), key)?;
        }
        let event_id = id;
        let persisted_at = now;
        Ok(Appended {
            run_seq,
            idempotent: false,
            persisted: true,
            conflict: false,
            event_id,
            persisted_at,
        })
    }

    /// Returns the run if it exists; a deleted run is an error.
    fn log(&self, run: &Name) -> Result<Option<Log>> {
        let live = self.state.logs.value(run.as_str(), self.moment());
        let deleted = live.is_none() && !self.state.logs.all(run.as_str()).is_empty();
        if deleted {
            Err(Error::new(Code::RunNotFound, format!("run `{run}` was deleted")))
        } else {
            Ok(live)
        }
    }

    fn put_log(&mut self, run: &Name, log: Log) {
        self.wrote = true;
        self.state.logs.write(self.writer, run.as_str(), Some(log), None);
    }
}

fn of_run(event: &NewEvent, run: &Name) -> NewEvent {
    let mut event = event.clone();
    if event.run_id.is_empty() {
        event.run_id = run.as_str().to_owned();
    }
    event
}

fn check(event: &NewEvent, run: &Name) -> Result<()> {
    if event.run_id != run.as_str() {
        return Err(Error::new(Code::InvalidArgument, "an event of another run"));
    }
    event.check().and_then(|()| event.key().map(drop))
}
