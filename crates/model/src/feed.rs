//! Change feed events and filters.

use crate::wire::fields;
use crate::{Contract, Fields, Revision, Stamp, Value};
use serde::{Deserialize, Serialize};

/// A kind of change to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The key has a new value.
    Set,
    /// The key was deleted.
    Deleted,
    /// The key expired.
    Expired,
    /// A branch was created.
    Forked,
    /// A branch was deleted.
    BranchDeleted,
    /// A branch was renamed.
    Renamed,
    /// Another branch was merged into this one.
    Merged,
    /// A revision was pinned.
    Tagged,
    /// A pin was removed.
    Untagged,
    /// An event was appended to a run.
    Appended,
    /// An appended event is not a valid successor of the run's earlier events.
    Alerted,
    /// A run was restored from an archive, or a space replaced by a snapshot, as a whole. The consumer reads
    /// its content from the store.
    Restored,
    /// A session was opened.
    Opened,
    /// A session was closed by its client.
    Closed,
    /// A request was sent to the client of a session.
    Sent,
}

/// A committed change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The revision of the transaction that made the change.
    pub revision: Revision,
    /// The commit timestamp.
    pub stamp: Stamp,
    /// The name of the branch at that time. Empty for sessions, which are on no branch.
    pub branch: String,
    /// The contract (kind of state).
    pub contract: Contract,
    /// The cell, record, branch or tag. For a merge, the source branch. For keyed state, the space, or
    /// `space/key` with non-UTF-8 bytes escaped.
    pub key: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The new value of a cell, the event of a run, the message of the outbox, or the request to a session's
    /// client. For keyed state, an object with the version and the state, an item's id and the item, a
    /// position, or the space's options.
    #[serde(with = "fields::maybe_value")]
    pub value: Option<Value>,
    /// The new fields of a record, if the change has them.
    pub fields: Option<Fields>,
    /// The counter of the cell or record after the change, or the sequence number of an event (for a restored
    /// run, of the last one). For a session, the number of the request.
    pub counter: u64,
}

/// A filter on changes. The default matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Matches only this branch.
    pub branch: Option<String>,
    /// Matches only this contract.
    pub contract: Option<Contract>,
    /// Matches only keys with this prefix.
    pub prefix: Option<String>,
    /// Matches only this key.
    pub key: Option<String>,
}

impl Filter {
    /// Returns whether a change matches.
    pub fn wants(&self, event: &Event) -> bool {
        self.branch.as_ref().is_none_or(|branch| *branch == event.branch)
            && self.contract.is_none_or(|contract| contract == event.contract)
            && self.prefix.as_ref().is_none_or(|prefix| event.key.starts_with(prefix.as_str()))
            && self.key.as_ref().is_none_or(|key| *key == event.key)
    }
}

/// The result of reading a bounded part of the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Glance {
    /// A change.
    Event(Event),
    /// The end of the log: no further change yet.
    End,
    /// The read limit is reached. The log has more entries.
    More,
}
