//! Change events of one transaction, encoded as JSON once for all readers.

use super::Wanted;
use crate::http::forms::{Raw, raw, shown};
use mainstay::{ChangeKind, Contract, Event, Feed, Fields, Result, Revision, Value};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// The kind of an event that was appended to a run.
const APPENDED: &str = "appended";

/// The kind of a run that was restored as a whole.
const RESTORED: &str = "restored";

/// One change, encoded.
#[derive(Debug)]
pub(crate) struct Change {
    pub branch: String,
    pub key: String,
    pub kind: &'static str,
    pub contract: Contract,
    /// The key's counter, or the sequence number of a run's event.
    counter: u64,
    /// The event as JSON.
    pub text: Raw,
}

impl Change {
    /// The sequence number of the appended event, if this change is one.
    pub fn appended(&self) -> Option<u64> {
        (self.contract == Contract::Runs && self.kind == APPENDED).then_some(self.counter)
    }

    /// Returns whether a run was restored. Its events have no changes of their own.
    pub fn is_restored(&self) -> bool {
        self.contract == Contract::Runs && self.kind == RESTORED
    }

    /// The member `value` of the JSON.
    pub fn value(&self) -> Option<&RawValue> {
        #[derive(Deserialize)]
        struct Valued<'v> {
            #[serde(borrow)]
            value: &'v RawValue,
        }
        serde_json::from_str(self.text.get()).ok().map(|valued: Valued<'_>| valued.value)
    }
}

/// All changes of one transaction. Readers take them together, so that a feed position is always a revision.
#[derive(Debug)]
pub(crate) struct Group {
    pub revision: Revision,
    /// The number of events that were read, and their approximate size, wanted or not.
    pub events: usize,
    pub read_bytes: usize,
    /// The size of the JSON of the changes.
    pub bytes: usize,
    pub changes: Vec<Arc<Change>>,
}

/// A committed change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventForm {
    /// The transaction that made it.
    revision: u64,
    /// When that was, in microseconds.
    stamp: u64,
    /// The branch it was made on; empty for sessions, which are on none.
    branch: String,
    /// The kind of state.
    #[schema(example = "cells")]
    contract: &'static str,
    /// The cell, record, run, session, branch or tag, or the number of a message; for a merge, the branch that was merged.
    key: String,
    /// What happened.
    #[schema(example = "set")]
    kind: &'static str,
    /// The new value of a cell, the event of a run, the message of an outbox, the request to a session's client;
    /// left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Raw>,
    /// The new fields of a record; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    fields: Option<Raw>,
    /// The counter of the cell or record after the change; the sequence of an event, the number of a message or
    /// of a request to a session's client.
    counter: u64,
}

/// Reads the next transaction of a feed and keeps its wanted changes, possibly none. Returns `None` if no
/// transaction arrives within `timeout`.
pub(crate) fn next_group(
    feed: &mut Feed,
    wanted: &Wanted,
    timeout: Duration,
) -> Result<Option<Group>> {
    let Some(first) = feed.next(timeout)? else { return Ok(None) };
    let revision = first.revision;
    let changes = Vec::new();
    let mut group = Group { revision, events: 0, read_bytes: 0, bytes: 0, changes };
    group.add(first, wanted);
    // The rest of the transaction is available at once, because a log frame holds whole transactions.
    while feed.position() < group.revision {
        match feed.next(Duration::ZERO)? {
            Some(event) => group.add(event, wanted),
            None => break,
        }
    }
    Ok(Some(group))
}

impl Group {
    fn add(&mut self, event: Event, wanted: &Wanted) {
        self.events += 1;
        self.read_bytes += event_bytes(&event);
        if wanted.includes(event.contract, &event.branch, &event.key) {
            let change = change(event);
            self.bytes += change.text.get().len();
            self.changes.push(Arc::new(change));
        }
    }
}

/// The approximate size of an event when it was read, wanted or not.
fn event_bytes(event: &Event) -> usize {
    let value = event.value.as_ref().map_or(0, Value::weight_bytes);
    let fields = event.fields.as_ref().map_or(0, Fields::weight_bytes);
    event.key.len() + value + fields
}

fn change(event: Event) -> Change {
    let Event { revision, stamp, branch, contract, key, kind, value, fields, counter } = event;
    let kind = kind_name(kind);
    let contract_name = contract_name(contract);
    let value = value.as_ref().map(raw);
    let fields = fields.as_ref().map(shown);
    let form_branch = branch.clone();
    let form_key = key.clone();
    let form = EventForm {
        revision,
        stamp,
        branch: form_branch,
        contract: contract_name,
        key: form_key,
        kind,
        value,
        fields,
        counter,
    };
    // A form of text and numbers always encodes to JSON.
    let text = serde_json::value::to_raw_value(&form);
    Change { branch, key, kind, contract, counter, text: text.unwrap_or_default() }
}

fn kind_name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Set => "set",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Expired => "expired",
        ChangeKind::Forked => "forked",
        ChangeKind::BranchDeleted => "branch_deleted",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Merged => "merged",
        ChangeKind::Tagged => "tagged",
        ChangeKind::Untagged => "untagged",
        ChangeKind::Appended => APPENDED,
        ChangeKind::Alerted => "alerted",
        ChangeKind::Restored => RESTORED,
        ChangeKind::Opened => "opened",
        ChangeKind::Closed => "closed",
        ChangeKind::Sent => "sent",
        _ => "changed",
    }
}

fn contract_name(contract: Contract) -> &'static str {
    match contract {
        Contract::Cells => "cells",
        Contract::Branches => "branches",
        Contract::Records => "records",
        Contract::Runs => "runs",
        Contract::Outbox => "outbox",
        Contract::Keyed => "keyed",
        Contract::Sessions => "sessions",
        _ => "other",
    }
}
