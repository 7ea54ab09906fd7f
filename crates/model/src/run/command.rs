//! What can be done with runs, and what comes of it.

use super::{CanonicalEvent, Instant, NewEvent, RunSnapshot, RunStatus};
use crate::wire::fields;
use crate::{Command, Name, Revision, Stamp, Value};
use serde::{Deserialize, Serialize};

/// What can be done with a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RunCommand {
    /// Appends an event; one whose key the run has already is the first one again.
    Append {
        /// The event.
        #[serde(with = "fields::object")]
        event: Box<NewEvent>,
        /// The last sequence that the run must have; 0: none.
        expected: Option<u64>,
    },
    /// Makes a run with what is known of it and its first events; fails where there is one.
    Bootstrap {
        /// The run.
        run: Name,
        /// What is known of it.
        #[serde(with = "fields::value")]
        metadata: Value,
        /// Its first events.
        #[serde(with = "fields::object")]
        events: Vec<NewEvent>,
    },
    /// Deletes a whole run; says whether there was one.
    Delete {
        /// The run.
        run: Name,
    },
    /// Writes events as an export or an archive kept them, behind those that are there; those that are there already
    /// are left alone. It makes the run where there is none, also one that was deleted. Answers how many were
    /// written.
    Restore {
        /// The run.
        run: Name,
        /// What is known of it, where it is made.
        #[serde(with = "fields::maybe_value")]
        metadata: Option<Value>,
        /// When it was made, where it is made; nothing: now.
        created: Option<Stamp>,
        /// The events, in order and without gaps.
        #[serde(with = "fields::object")]
        events: Vec<CanonicalEvent>,
    },
    /// Keeps what a reducer has made of a run's events up to one of them.
    Keep {
        /// The run.
        run: Name,
        /// The reducer.
        reducer: String,
        /// The reducer's version.
        version: u64,
        /// The last event that is in it.
        seq: u64,
        /// What it has made of them.
        #[serde(with = "fields::value")]
        state: Value,
    },
    /// What a reducer has made of a run: the last of what was kept up to an event.
    Kept {
        /// The run.
        run: Name,
        /// The reducer.
        reducer: String,
        /// The reducer's version.
        version: u64,
        /// Only what was kept up to this event.
        upto: Option<u64>,
    },
    /// What is known of a run.
    Get {
        /// The run.
        run: Name,
    },
    /// Events of a run, in order.
    Fetch {
        /// The run.
        run: Name,
        /// Only events behind this one.
        after: u64,
        /// At most this many.
        limit: usize,
    },
    /// What the events of a run add up to, by the reducer that all runs have.
    Snapshot {
        /// The run.
        run: Name,
        /// Only events up to this one; nothing: all.
        seq: Option<u64>,
    },
    /// The same, from the first event on: nothing that was kept is looked at.
    Project {
        /// The run.
        run: Name,
    },
    /// Events of a run that could not follow those before them.
    Alerts {
        /// The run.
        run: Name,
        /// Only behind this one.
        after: u64,
        /// At most this many.
        limit: usize,
    },
    /// Runs in byte order of their names.
    List {
        /// Which of them.
        filter: RunFilter,
        /// Only runs behind this one.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// Writes events as an archive kept them where nobody sees them, in pieces, and then shows the run, all of it at once.
    /// Meanwhile nothing can be appended to it. Fails where there is a run of this name, and with `Fenced` where
    /// another restoring of it has begun. Answers how many events were written.
    RestoreHidden {
        /// The run.
        run: Name,
        /// What is known of it, for the piece that begins.
        #[serde(with = "fields::maybe_value")]
        metadata: Option<Value>,
        /// When it was made, for the piece that begins; nothing: now.
        created: Option<Stamp>,
        /// The events, in order and without gaps.
        #[serde(with = "fields::object")]
        events: Vec<CanonicalEvent>,
        /// The revision of the piece that began; nothing: this one does, and what others left goes.
        begun: Option<Revision>,
        /// Whether the run is whole with this piece and is to be seen.
        ends: bool,
    },
    /// The revision that brought an event, or nothing where there is none.
    Revision {
        /// The run.
        run: Name,
        /// The event.
        seq: u64,
    },
    /// Leaves the tombstone of a run that was deleted, as an export has kept it: nothing can be appended to it. Only an import does.
    Tombstone {
        /// The run.
        run: Name,
    },
}

impl RunCommand {
    /// The run that it is about; a listing is about none, and an event may name none.
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

    /// Whether it only reads.
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

/// What came of an append.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    /// The event's place in its run.
    pub run_seq: u64,
    /// Whether the run had an event of this key before.
    pub idempotent: bool,
    /// Whether a new event was written.
    pub persisted: bool,
    /// Whether the event of this key says something else.
    pub conflict: bool,
    /// The name of the event that is stored.
    pub event_id: String,
    /// When it was stored.
    #[serde(with = "fields::object")]
    pub persisted_at: Instant,
}

/// Which runs a listing shows.
///
/// ```
/// use mainstay_model::{RunFilter, RunStatus};
/// let failed = RunFilter::of("tenant-7/").status(RunStatus::Failed);
/// assert_eq!(failed.prefix, "tenant-7/");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFilter {
    /// Only names that begin with this: a tenant's, for example.
    pub prefix: String,
    /// Only those that stand here.
    pub status: Option<RunStatus>,
    /// Only those made at this stamp or later.
    pub created_from: Option<Stamp>,
    /// Only those made before this stamp.
    pub created_before: Option<Stamp>,
    /// Only those whose last event came at this stamp or later.
    pub updated_from: Option<Stamp>,
    /// Only those whose last event came before this stamp.
    pub updated_before: Option<Stamp>,
}

impl RunFilter {
    /// Runs whose names begin with this.
    pub fn of(prefix: &str) -> RunFilter {
        RunFilter { prefix: prefix.to_owned(), ..RunFilter::default() }
    }

    /// Only those that stand here.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> RunFilter {
        self.status = Some(status);
        self
    }

    /// Whether a run is one of them; its name is not looked at.
    pub fn passes(&self, run: &RunInfo) -> bool {
        self.status.is_none_or(|status| run.status == status)
            && self.created_from.is_none_or(|from| run.created >= from)
            && self.created_before.is_none_or(|before| run.created < before)
            && self.updated_from.is_none_or(|from| run.updated >= from)
            && self.updated_before.is_none_or(|before| run.updated < before)
    }
}

/// What is known of a run without looking at its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The run.
    pub run_id: String,
    /// Where it stands, by the reducer that all runs have.
    pub status: RunStatus,
    /// Its last event; 0 while it has none.
    pub last_event_seq: u64,
    /// Whether an event came that could not follow those before it.
    pub inconsistent: bool,
    /// When it was made.
    pub created: Stamp,
    /// When its last event came.
    pub updated: Stamp,
    /// The transaction that brought it.
    pub revision: Revision,
    /// What it was made with; a listing leaves it out.
    #[serde(with = "fields::maybe_value")]
    pub metadata: Option<Value>,
}

/// A page of runs, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunPage {
    /// The runs, in byte order of their names.
    #[serde(with = "fields::list")]
    pub runs: Vec<RunInfo>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

/// What a reducer has made of a run, as it was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptState {
    /// The last event that is in it.
    pub seq: u64,
    /// What the reducer has made of them.
    #[serde(with = "fields::value")]
    pub state: Value,
}

/// An event that could not follow those before it. There is one of these for each such event, however often
/// the run is projected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAlert {
    /// The event.
    pub run_seq: u64,
    /// What was wrong with it.
    pub message: String,
    /// When it came.
    pub stamp: Stamp,
}

/// What commands on runs answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RunAnswer {
    /// What came of an append.
    Appended(Appended),
    /// What came of several.
    AppendedAll(#[serde(with = "fields::list")] Vec<Appended>),
    /// What is known of a run.
    Info(Option<RunInfo>),
    /// Events, in order.
    Events(#[serde(with = "fields::object")] Vec<CanonicalEvent>),
    /// What they add up to.
    Snapshot(#[serde(with = "fields::object")] Option<RunSnapshot>),
    /// What a reducer has made of them.
    Kept(Option<KeptState>),
    /// Events that could not follow.
    Alerts(#[serde(with = "fields::list")] Vec<RunAlert>),
    /// A page of runs.
    Runs(RunPage),
    /// The revision that brought an event.
    Revision(Option<Revision>),
}

impl RunAnswer {
    /// Whether the command took effect: an append whose key stands for another event did not.
    pub fn took_effect(&self) -> bool {
        !matches!(self, RunAnswer::Appended(Appended { conflict: true, .. }))
    }

    /// The memory that what it holds takes, about.
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
