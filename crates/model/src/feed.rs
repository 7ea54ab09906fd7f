//! The changes that the feed tells of.

use crate::wire::fields;
use crate::{Contract, Fields, Revision, Stamp, Value};
use serde::{Deserialize, Serialize};

/// A kind of change to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It has a new value.
    Set,
    /// It was deleted.
    Deleted,
    /// Its time came.
    Expired,
    /// A branch was made.
    Forked,
    /// A branch was deleted.
    BranchDeleted,
    /// A branch has another name.
    Renamed,
    /// Another branch was merged into this one.
    Merged,
    /// A revision was pinned.
    Tagged,
    /// A pin was removed.
    Untagged,
    /// A run has a further event.
    Appended,
    /// An event of a run could not follow those before it.
    Alerted,
    /// A run was brought back from an archive, or a space replaced by a snapshot, all of it at once: what is in it is
    /// there to be read.
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
    /// The transaction that made it.
    pub revision: Revision,
    /// When that was.
    pub stamp: Stamp,
    /// The branch it was made on, by the name that it had then; none for sessions, which are on no branch.
    pub branch: String,
    /// The kind of state.
    pub contract: Contract,
    /// The cell, record, branch or tag; for a merge, the branch that was merged; of keyed state the space, or the space,
    /// `/` and the key, with bytes that are not UTF-8 escaped.
    pub key: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The new value of a cell, the event of a run, the message of an outbox, the request to the client of a session; of keyed state an object with the version
    /// and the state, an item's id and the item, a position, or how a space is declared.
    #[serde(with = "fields::maybe_value")]
    pub value: Option<Value>,
    /// The new fields of a record, where there are some.
    pub fields: Option<Fields>,
    /// The counter of the cell or record after the change; the sequence of an event, the last one of a restored run; the
    /// number of a request to the client of a session.
    pub counter: u64,
}

/// Which changes are wanted; the default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Only on this branch.
    pub branch: Option<String>,
    /// Only of this kind of state.
    pub contract: Option<Contract>,
    /// Only keys that begin with this.
    pub prefix: Option<String>,
    /// Only this key.
    pub key: Option<String>,
}

impl Filter {
    /// Whether it lets a change pass.
    pub fn wants(&self, event: &Event) -> bool {
        self.branch.as_ref().is_none_or(|branch| *branch == event.branch)
            && self.contract.is_none_or(|contract| contract == event.contract)
            && self.prefix.as_ref().is_none_or(|prefix| event.key.starts_with(prefix.as_str()))
            && self.key.as_ref().is_none_or(|key| *key == event.key)
    }
}

/// The state of a feed after it read a bounded part of the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Glance {
    /// A change.
    Event(Event),
    /// Nothing further yet.
    End,
    /// The log goes on, but as much was looked through as was allowed.
    More,
}
