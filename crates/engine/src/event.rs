//! Events: what the feed tells of a committed change.

use crate::catalog::{Catalog, UNFINISHED};
use crate::entry::{self, DELETED, EXPIRED, LAPSED};
use crate::spaces;
use mainstay_model::wire::fields;
use mainstay_model::{Result, Revision, Stamp, Value, codec};
use serde::{Deserialize, Serialize};

/// The kinds of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Contract {
    /// Named values.
    Cells,
    /// Branches, tags and merges.
    Branches,
}

/// What happened to a key.
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
}

/// A committed change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The transaction that made it.
    pub revision: Revision,
    /// When that was.
    pub stamp: Stamp,
    /// The branch it was made on, by the name that it had then.
    pub branch: String,
    /// The kind of state.
    pub contract: Contract,
    /// The cell, branch or tag; for a merge, the branch that was merged.
    pub key: String,
    /// What happened.
    pub kind: ChangeKind,
    /// The new value, where there is one.
    #[serde(with = "fields::maybe_value")]
    pub value: Option<Value>,
    /// The cell's counter after the change.
    pub counter: u64,
}

/// Turns an effect of the log into events; what the database keeps for itself gives none.
pub(crate) fn events(
    catalog: &Catalog,
    key: &[u8],
    entry: &[u8],
    out: &mut Vec<Event>,
) -> Result<()> {
    let Some((space, branch, name)) = spaces::split(key) else { return Ok(()) };
    let (head, payload) = entry::parse(entry)?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    // What a branch is called later does not change what happened.
    let branch_name = |id: u32| {
        let name = catalog.name_at(id, head.revision).map(str::to_owned);
        name.unwrap_or_else(|| format!("#{id}"))
    };
    let event = |contract, branch, key, kind, value, counter| Event {
        revision: head.revision,
        stamp: head.stamp,
        branch,
        contract,
        key,
        kind,
        value,
        counter,
    };
    match space {
        spaces::CELLS => {
            let cell = |kind, value, counter| {
                event(Contract::Cells, branch_name(branch), text(name), kind, value, counter)
            };
            if head.flags & LAPSED != 0 {
                out.push(cell(
                    ChangeKind::Expired,
                    None,
                    (head.counter + 1).saturating_sub(head.writes),
                ));
            }
            out.push(match head.flags {
                flags if flags & EXPIRED != 0 => cell(ChangeKind::Expired, None, head.counter),
                flags if flags & DELETED != 0 => cell(ChangeKind::Deleted, None, head.counter),
                _ => cell(ChangeKind::Set, Some(codec::decode(payload)?), head.counter),
            });
        }
        spaces::BRANCHES => {
            let record = crate::catalog::BranchRecord::decode(payload)?;
            let kind = match record {
                _ if record.deleted == Some(head.revision) => ChangeKind::BranchDeleted,
                // An import is told when it begins, before its cells, not when it is shown.
                _ if record.created == UNFINISHED => ChangeKind::Forked,
                _ if record.created == head.revision => match record.created_stamp == head.stamp {
                    true => ChangeKind::Forked,
                    false => return Ok(()),
                },
                _ => ChangeKind::Renamed,
            };
            let name = record.name;
            out.push(event(Contract::Branches, name.clone(), name, kind, None, 0));
        }
        spaces::TAGS => {
            let (kind, branch) = match head.is_deleted() {
                true => (ChangeKind::Untagged, String::new()),
                false => {
                    let tag = crate::catalog::TagRecord::decode(payload)?;
                    (ChangeKind::Tagged, branch_name(tag.branch))
                }
            };
            out.push(event(Contract::Branches, branch, text(name), kind, None, 0));
        }
        spaces::MERGES => {
            let Some((into, from)) = crate::catalog::MergeRecord::pair(name) else { return Ok(()) };
            let (into, from) = (branch_name(into), branch_name(from));
            out.push(event(Contract::Branches, into, from, ChangeKind::Merged, None, 0));
        }
        _ => {}
    }
    Ok(())
}
