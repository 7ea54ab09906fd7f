//! JSON forms of commands on runs and of their answers. Events have the field names of the stored event type.

use super::{Raw, given, raw, value};
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{
    Appended, CanonicalEvent, Code, Error, KeptState, Name, NewEvent, Result, RunAlert, RunCommand,
    RunFilter, RunInfo, RunPage, RunSnapshot, RunStatus, Value, from_value, to_value,
};
use serde::de::IntoDeserializer;
use serde::de::value::Error as Unknown;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendEventForm {
    /// The event: runId, eventType and what else there is to say of it; message, of subject and payload, goes to the
    /// outbox if the event is new.
    #[schema(value_type = Object)]
    event: Raw,
    /// The last sequence that the run must have, 0 for none; any without it.
    expect: Option<u64>,
}

/// A run to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BootstrapForm {
    /// The run; left out where the path names it.
    run: Option<String>,
    /// What is known of it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    metadata: Option<Raw>,
    /// Its first events.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    events: Vec<Raw>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreRunForm {
    /// The run.
    run: String,
    /// What is known of it, where it is made.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    metadata: Option<Raw>,
    /// When it was made, where it is made, in microseconds; now without it.
    created: Option<u64>,
    /// Whole events, in order and without gaps.
    #[schema(value_type = Vec<Object>)]
    events: Vec<Raw>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepStateForm {
    /// The run.
    run: String,
    /// The reducer.
    reducer: String,
    /// The reducer's version.
    version: u64,
    /// The last event that is in it.
    seq: u64,
    /// What it has made of them.
    #[schema(value_type = serde_json::Value)]
    state: Raw,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptStateForm {
    /// The run.
    run: String,
    /// The reducer.
    reducer: String,
    /// The reducer's version.
    version: u64,
    /// Only what was kept up to this event.
    upto: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunNameForm {
    /// The run.
    run: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventRevisionForm {
    /// The run.
    run: String,
    /// The event.
    seq: u64,
}

impl EventRevisionForm {
    pub fn command(self) -> Result<RunCommand> {
        Ok(RunCommand::Revision { run: Name::new(&self.run)?, seq: self.seq })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchForm {
    /// The run.
    run: String,
    /// Only behind this event.
    #[serde(default)]
    after: u64,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunSnapshotForm {
    /// The run.
    run: String,
    /// Only events up to this one; all without it.
    seq: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRunsForm {
    /// Only names that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only those that stand here.
    status: Option<String>,
    /// Only runs behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

/// Parses an event. An event without a run belongs to the run that the path names.
pub(crate) fn event_of(said: &RawValue, run: Option<&Name>) -> Result<NewEvent> {
    let mut event: NewEvent = from_value(Value::from_json_exact(said.get())?)?;
    if let Some(run) = run {
        if event.run_id.is_empty() {
            event.run_id = run.as_str().to_owned();
        }
        if event.run_id != run.as_str() {
            let message = format!(
                "the path names run `{run}`, and the event `{}`: say it once",
                event.run_id
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
    }
    Ok(event)
}

/// The command that appends an event. It computes the idempotency key here, so that the writer thread need
/// not.
pub(crate) fn append(mut event: NewEvent, expected: Option<u64>) -> Result<RunCommand> {
    event.check()?;
    event.idempotency_key = Some(event.key()?);
    Ok(RunCommand::Append { event: Box::new(event), expected })
}

/// Encodes a stored event.
pub(crate) fn shown_event(event: &CanonicalEvent) -> Result<Raw> {
    Ok(raw(&to_value(event)?))
}

/// Events that are stored.
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Vec<Object>)]
pub(crate) struct EventsForm(Vec<Raw>);

impl EventsForm {
    pub fn of(events: &[CanonicalEvent]) -> Result<EventsForm> {
        events.iter().map(shown_event).collect::<Result<_>>().map(EventsForm)
    }
}

impl From<Vec<Raw>> for EventsForm {
    fn from(events: Vec<Raw>) -> EventsForm {
        EventsForm(events)
    }
}

/// Parses the status of a run.
pub(crate) fn status_of(name: Option<&str>) -> Result<Option<RunStatus>> {
    let parse = |name: &str| {
        let upper = name.to_ascii_uppercase();
        let status: std::result::Result<RunStatus, Unknown> =
            RunStatus::deserialize(upper.as_str().into_deserializer());
        status.map_err(|error| Error::new(Code::InvalidArgument, format!("status: {error}")))
    };
    name.map(parse).transpose()
}

fn metadata_of(said: Option<&Raw>) -> Result<Option<Value>> {
    said.map(|said| value(said)).transpose()
}

impl AppendEventForm {
    pub fn command(self) -> Result<RunCommand> {
        append(event_of(&self.event, None)?, self.expect)
    }
}

impl BootstrapForm {
    /// The command for the run that the path names.
    pub fn at(self, run: Name) -> Result<RunCommand> {
        match &self.run {
            None => self.named(run),
            Some(_) => {
                let message = "the path names the run: leave it out of the body";
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }

    /// The command for the run that the form names.
    pub fn command(self) -> Result<RunCommand> {
        let run = Name::new(self.run.as_deref().unwrap_or_default())?;
        self.named(run)
    }

    fn named(self, run: Name) -> Result<RunCommand> {
        let metadata = metadata_of(self.metadata.as_ref())?.unwrap_or_default();
        let events = self.events.iter().map(|said| event_of(said, Some(&run)));
        let events = events.collect::<Result<_>>()?;
        Ok(RunCommand::Bootstrap { run, metadata, events })
    }
}

impl RestoreRunForm {
    pub fn command(self) -> Result<RunCommand> {
        let events = self
            .events
            .iter()
            .map(|said| from_value(Value::from_json_exact(said.get())?))
            .collect::<Result<_>>()?;
        let run = Name::new(&self.run)?;
        let metadata = metadata_of(self.metadata.as_ref())?;
        Ok(RunCommand::Restore { run, metadata, created: self.created, events })
    }
}

impl KeepStateForm {
    pub fn command(self) -> Result<RunCommand> {
        let KeepStateForm { run, reducer, version, seq, state } = self;
        Ok(RunCommand::Keep { run: Name::new(&run)?, reducer, version, seq, state: value(&state)? })
    }
}

impl KeptStateForm {
    pub fn command(self) -> Result<RunCommand> {
        let KeptStateForm { run, reducer, version, upto } = self;
        Ok(RunCommand::Kept { run: Name::new(&run)?, reducer, version, upto })
    }
}

impl RunNameForm {
    pub fn named(&self) -> Result<Name> {
        Name::new(&self.run)
    }
}

impl FetchForm {
    pub fn events(self) -> Result<RunCommand> {
        let run = Name::new(&self.run)?;
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        Ok(RunCommand::Fetch { run, after: self.after, limit })
    }

    pub fn alerts(self) -> Result<RunCommand> {
        let run = Name::new(&self.run)?;
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        Ok(RunCommand::Alerts { run, after: self.after, limit })
    }
}

impl RunSnapshotForm {
    pub fn command(self) -> Result<RunCommand> {
        Ok(RunCommand::Snapshot { run: Name::new(&self.run)?, seq: self.seq })
    }
}

impl ListRunsForm {
    pub fn command(self) -> Result<RunCommand> {
        let ListRunsForm { prefix, status, after, limit } = self;
        super::check_place(&prefix, after.as_deref())?;
        let status = status_of(status.as_deref())?;
        let filter = RunFilter { prefix, status, ..RunFilter::default() };
        Ok(RunCommand::List { filter, after, limit: limit.unwrap_or(PAGE_DEFAULT) })
    }
}

/// What came of an append.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppendedForm {
    /// The event's place in its run.
    run_seq: u64,
    /// Whether the run had an event of this key before: this is its place.
    idempotent: bool,
    /// Whether a new event was written.
    persisted: bool,
    /// Whether the event of this key says something else.
    conflict: bool,
    /// The name of the event that is stored.
    event_id: String,
    /// When it was stored.
    persisted_at: String,
}

/// What is known of a run without looking at its events.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunForm {
    /// The run.
    run_id: String,
    /// Where it stands.
    #[schema(value_type = String, example = "RUNNING")]
    status: RunStatus,
    /// Its last event; 0 while it has none.
    last_event_seq: u64,
    /// Whether an event came that could not follow those before it.
    inconsistent: bool,
    /// When it was made, in microseconds.
    created: u64,
    /// When its last event came, in microseconds.
    updated: u64,
    /// The transaction that brought it; zero inside the transaction itself.
    revision: u64,
    /// What it was made with; lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    metadata: Option<Raw>,
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunPageForm {
    /// In byte order of their names, without their metadata.
    runs: Vec<RunForm>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<String>,
}

/// What the events of a run add up to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotForm {
    /// runId, status, lastEventSeq, steps with their attempts, flags.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    snapshot: RunSnapshot,
    /// The SHA-256 of its canonical JSON: equal snapshots have equal ones, wherever they were made.
    hash: String,
}

/// What a reducer has made of a run, as it was kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeptForm {
    /// The last event that is in it.
    seq: u64,
    /// What the reducer has made of them.
    #[schema(value_type = serde_json::Value)]
    state: Raw,
}

/// An event that could not follow those before it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlertForm {
    /// The event.
    run_seq: u64,
    /// What was wrong with it.
    message: String,
    /// When it came, in microseconds.
    stamp: u64,
}

impl From<Appended> for AppendedForm {
    fn from(appended: Appended) -> AppendedForm {
        let Appended { run_seq, idempotent, persisted, conflict, event_id, persisted_at } =
            appended;
        let persisted_at = persisted_at.as_str().to_owned();
        AppendedForm { run_seq, idempotent, persisted, conflict, event_id, persisted_at }
    }
}

impl From<RunInfo> for RunForm {
    fn from(info: RunInfo) -> RunForm {
        RunForm {
            run_id: info.run_id,
            status: info.status,
            last_event_seq: info.last_event_seq,
            inconsistent: info.inconsistent,
            created: info.created,
            updated: info.updated,
            revision: info.revision,
            metadata: info.metadata.as_ref().map(raw),
        }
    }
}

impl From<RunPage> for RunPageForm {
    fn from(page: RunPage) -> RunPageForm {
        RunPageForm { runs: page.runs.into_iter().map(RunForm::from).collect(), next: page.next }
    }
}

impl From<RunSnapshot> for SnapshotForm {
    fn from(snapshot: RunSnapshot) -> SnapshotForm {
        let hash = snapshot.hash();
        SnapshotForm { snapshot, hash }
    }
}

impl From<KeptState> for KeptForm {
    fn from(kept: KeptState) -> KeptForm {
        KeptForm { seq: kept.seq, state: raw(&kept.state) }
    }
}

impl From<RunAlert> for AlertForm {
    fn from(alert: RunAlert) -> AlertForm {
        let RunAlert { run_seq, message, stamp } = alert;
        AlertForm { run_seq, message, stamp }
    }
}
