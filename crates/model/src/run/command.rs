//! Commands on runs (event logs) and their answers.

use super::{CanonicalEvent, Instant, NewEvent, RunSnapshot, RunStatus};
use crate::wire::fields;
use crate::{Command, Name, Revision, Stamp, Value};
use serde::{Deserialize, Serialize};

/// Commands on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RunCommand {
    /// Appends an event. If the run already has an event with its idempotency key, returns that event
    /// instead.
    Append {
        /// The event.
        #[serde(with = "fields::object")]
        event: Box<NewEvent>,
        /// The last sequence number that the run must have; 0 if it must have no event.
        expected: Option<u64>,
    },
    /// Creates a run with metadata and its first events. Fails if the run exists.
    Bootstrap {
        /// The run.
        run: Name,
        /// The metadata.
        #[serde(with = "fields::value")]
        metadata: Value,
        /// The first events.
        #[serde(with = "fields::object")]
        events: Vec<NewEvent>,
    },
    /// Deletes a whole run. Returns whether it existed.
    Delete {
        /// The run.
        run: Name,
    },
    /// Writes exported or archived events after the existing ones and skips events that exist already.
    /// Creates the run if it does not exist, even if it was deleted. Returns the number of events written.
    Restore {
        /// The run.
        run: Name,
        /// The metadata of a new run.
        #[serde(with = "fields::maybe_value")]
        metadata: Option<Value>,
        /// The creation time of a new run; `None` for now.
        created: Option<Stamp>,
        /// The events, in order and without gaps.
        #[serde(with = "fields::object")]
        events: Vec<CanonicalEvent>,
    },
    /// Stores a reducer's state at one event.
    Keep {
        /// The run.
        run: Name,
        /// The reducer.
        reducer: String,
        /// The reducer's version.
        version: u64,
        /// The last event in the state.
        seq: u64,
        /// The reducer's state.
        #[serde(with = "fields::value")]
        state: Value,
    },
    /// Reads a reducer's latest stored state, up to an event.
    Kept {
        /// The run.
        run: Name,
        /// The reducer.
        reducer: String,
        /// The reducer's version.
        version: u64,
        /// Returns only states up to this event.
        upto: Option<u64>,
    },
    /// Reads a run's metadata and status.
    Get {
        /// The run.
        run: Name,
    },
    /// Reads events of a run, in order.
    Fetch {
        /// The run.
        run: Name,
        /// The cursor: reads only events after this one.
        after: u64,
        /// The page size.
        limit: usize,
    },
    /// Reads a snapshot of a run by the default reducer.
    Snapshot {
        /// The run.
        run: Name,
        /// Includes only events up to this one; `None` for all.
        seq: Option<u64>,
    },
    /// Computes the snapshot from the first event on, without any stored state.
    Project {
        /// The run.
        run: Name,
    },
    /// Lists events of a run that were not valid successors of the earlier events.
    Alerts {
        /// The run.
        run: Name,
        /// The cursor: lists only alerts after this event.
        after: u64,
        /// The page size.
        limit: usize,
    },
    /// Lists runs in byte order of their names.
    List {
        /// The filter.
        filter: RunFilter,
        /// The cursor: lists only runs after this one.
        after: Option<String>,
        /// The page size.
        limit: usize,
    },
    /// Restores archived events into a hidden run, piece by piece. The last piece makes the whole run visible
    /// at once. Until then nothing can be appended to it. Fails if a run of this name exists, and with
    /// `Fenced` if another restore of it has begun. Returns the number of events written.
    RestoreHidden {
        /// The run.
        run: Name,
        /// The metadata, in the first piece.
        #[serde(with = "fields::maybe_value")]
        metadata: Option<Value>,
        /// The creation time, in the first piece; `None` for now.
        created: Option<Stamp>,
        /// The events, in order and without gaps.
        #[serde(with = "fields::object")]
        events: Vec<CanonicalEvent>,
        /// The revision of the first piece. `None` if this is the first; it discards an unfinished restore.
        begun: Option<Revision>,
        /// True if this is the last piece, which makes the run visible.
        ends: bool,
    },
    /// Reads the revision that appended an event; `None` if the event does not exist.
    Revision {
        /// The run.
        run: Name,
        /// The event.
        seq: u64,
    },
    /// Writes the exported tombstone of a deleted run, so that nothing can be appended to it. Only an import
    /// sends it.
    Tombstone {
        /// The run.
        run: Name,
    },
}

impl RunCommand {
    /// The run of the command; `None` for a listing. The text may be empty, because an event may name no run.
    pub fn run(&self) -> Option<&str> {
        match self {
            RunCommand::Append { event, .. } => Some(&event.run_id),
            RunCommand::Restore { run, .. }
            | RunCommand::RestoreHidden { run, .. }
            | RunCommand::Bootstrap { run, .. }
            | RunCommand::Delete { run }
            | RunCommand::Tombstone { run }
            | RunCommand::Keep { run, .. }
            | RunCommand::Kept { run, .. }
            | RunCommand::Get { run }
            | RunCommand::Fetch { run, .. }
            | RunCommand::Snapshot { run, .. }
            | RunCommand::Project { run }
            | RunCommand::Revision { run, .. }
            | RunCommand::Alerts { run, .. } => Some(run.as_str()),
            RunCommand::List { .. } => None,
        }
    }

    /// Returns whether the command is read-only.
    pub fn is_read(&self) -> bool {
        !matches!(
            self,
            RunCommand::Append { .. }
                | RunCommand::Bootstrap { .. }
                | RunCommand::Delete { .. }
                | RunCommand::Restore { .. }
                | RunCommand::RestoreHidden { .. }
                | RunCommand::Tombstone { .. }
                | RunCommand::Keep { .. }
        )
    }
}

impl From<RunCommand> for Command {
    fn from(command: RunCommand) -> Command {
        Command::Run(command)
    }
}

/// The result of an append.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    /// The event's sequence number in its run.
    pub run_seq: u64,
    /// True if the run already had an event with this key.
    pub idempotent: bool,
    /// True if a new event was written.
    pub persisted: bool,
    /// True if the stored event with this key has different content.
    pub conflict: bool,
    /// The id of the stored event.
    pub event_id: String,
    /// The storage time.
    #[serde(with = "fields::object")]
    pub persisted_at: Instant,
}

/// A filter on runs.
///
/// ```
/// use mainstay_model::{RunFilter, RunStatus};
/// let failed = RunFilter::of("tenant-7/").status(RunStatus::Failed);
/// assert_eq!(failed.prefix, "tenant-7/");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFilter {
    /// Matches only names with this prefix, such as a tenant's.
    pub prefix: String,
    /// Matches only runs with this status.
    pub status: Option<RunStatus>,
    /// Matches only runs created at this timestamp or later.
    pub created_from: Option<Stamp>,
    /// Matches only runs created before this timestamp.
    pub created_before: Option<Stamp>,
    /// Matches only runs whose last event was stored at this timestamp or later.
    pub updated_from: Option<Stamp>,
    /// Matches only runs whose last event was stored before this timestamp.
    pub updated_before: Option<Stamp>,
}

impl RunFilter {
    /// Matches runs whose names have this prefix.
    pub fn of(prefix: &str) -> RunFilter {
        RunFilter { prefix: prefix.to_owned(), ..RunFilter::default() }
    }

    /// Matches only runs with this status.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> RunFilter {
        self.status = Some(status);
        self
    }

    /// Returns whether a run matches. Its name is not checked.
    pub fn passes(&self, run: &RunInfo) -> bool {
        self.status.is_none_or(|status| run.status == status)
            && self.created_from.is_none_or(|from| run.created >= from)
            && self.created_before.is_none_or(|before| run.created < before)
            && self.updated_from.is_none_or(|from| run.updated >= from)
            && self.updated_before.is_none_or(|before| run.updated < before)
    }
}

/// A run's metadata and status, available without reading its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The run.
    pub run_id: String,
    /// The status, by the default reducer.
    pub status: RunStatus,
    /// The last event's sequence number; 0 if the run has no event.
    pub last_event_seq: u64,
    /// True if an event was not a valid successor of the earlier ones.
    pub inconsistent: bool,
    /// The creation time.
    pub created: Stamp,
    /// The storage time of the last event.
    pub updated: Stamp,
    /// The revision of the last event.
    pub revision: Revision,
    /// The metadata given at creation. A listing leaves it out.
    #[serde(with = "fields::maybe_value")]
    pub metadata: Option<Value>,
}

/// A page of runs with the cursor of the next page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunPage {
    /// The runs, in byte order of their names.
    #[serde(with = "fields::list")]
    pub runs: Vec<RunInfo>,
    /// The cursor: pass it as `after` for the next page. `None` at the end.
    pub next: Option<String>,
}

/// A stored state of a reducer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptState {
    /// The last event in the state.
    pub seq: u64,
    /// The reducer's state.
    #[serde(with = "fields::value")]
    pub state: Value,
}

/// An event that was not a valid successor of the earlier ones. Each such event has exactly one alert,
/// however often the run is projected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAlert {
    /// The event's sequence number.
    pub run_seq: u64,
    /// The reason.
    pub message: String,
    /// The storage time of the event.
    pub stamp: Stamp,
}

/// The answer of a command on runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RunAnswer {
    /// The result of an append.
    Appended(Appended),
    /// The results of several appends.
    AppendedAll(#[serde(with = "fields::list")] Vec<Appended>),
    /// A run's metadata and status.
    Info(Option<RunInfo>),
    /// Events, in order.
    Events(#[serde(with = "fields::object")] Vec<CanonicalEvent>),
    /// A snapshot of the run.
    Snapshot(#[serde(with = "fields::object")] Option<RunSnapshot>),
    /// A reducer's stored state.
    Kept(Option<KeptState>),
    /// Events that were not valid successors.
    Alerts(#[serde(with = "fields::list")] Vec<RunAlert>),
    /// A page of runs.
    Runs(RunPage),
    /// The revision that appended an event.
    Revision(Option<Revision>),
}

impl RunAnswer {
    /// Returns whether the command took effect. An append does not if its key belongs to an event with
    /// different content.
    pub fn took_effect(&self) -> bool {
        !matches!(self, RunAnswer::Appended(Appended { conflict: true, .. }))
    }

    /// The approximate memory that the answer takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        match self {
            RunAnswer::Events(events) => events.iter().map(CanonicalEvent::weight_bytes).sum(),
            RunAnswer::Info(Some(info)) => info.metadata.as_ref().map_or(0, Value::weight_bytes),
            RunAnswer::Kept(Some(kept)) => kept.state.weight_bytes(),
            RunAnswer::Snapshot(Some(snapshot)) => snapshot.weight_bytes(),
            RunAnswer::Runs(page) => {
                page.runs.iter().map(|run| size_of::<RunInfo>() + run.run_id.len()).sum()
            }
            RunAnswer::Alerts(alerts) => {
                alerts.iter().map(|alert| size_of::<RunAlert>() + alert.message.len()).sum()
            }
            RunAnswer::AppendedAll(all) => all.len() * (size_of::<Appended>() + 64),
            _ => 0,
        }
    }
}
