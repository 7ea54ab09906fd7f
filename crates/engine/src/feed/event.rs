//! Change-feed events: decodes one logged effect into zero, one or two events.

use crate::apply::runs::shown_seq;
use crate::apply::sessions::bytes::{Part, StoredSession, split_part};
use crate::apply::{keyed, outbox};
use crate::key::entry::{self, DELETED, EXPIRED, LAPSED, QUIET};
use crate::key::keyspace;
use crate::key::run_keys;
use crate::mvcc::catalog::{Catalog, UNFINISHED};
use mainstay_model::{
    CanonicalEvent, ChangeKind, Contract, Event, Fields, Result, Value, codec, to_value,
};

/// The state of the key after the change.
enum RemainingState {
    Nothing,
    Value(Value),
    Fields(Fields),
}

/// Appends the events for one effect of the log. Effects on internal keys append none.
pub fn events(catalog: &Catalog, key: &[u8], entry: &[u8], out: &mut Vec<Event>) -> Result<()> {
    let Some((space, branch, name)) = keyspace::split(key) else { return Ok(()) };
    let (head, payload) = entry::parse(entry)?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    // The event carries the branch's name at this revision, because a later rename does not change history.
    let branch_name = |id: u32| {
        let name = catalog.name_at(id, head.revision).map(str::to_owned);
        name.unwrap_or_else(|| format!("#{id}"))
    };
    let event = |contract, branch, key, kind, left, counter| {
        let (value, fields) = match left {
            RemainingState::Nothing => (None, None),
            RemainingState::Value(value) => (Some(value), None),
            RemainingState::Fields(fields) => (None, Some(fields)),
        };
        let revision = head.revision;
        let stamp = head.stamp;
        Event { revision, stamp, branch, contract, key, kind, value, fields, counter }
    };
    match space {
        keyspace::CELLS | keyspace::RECORDS => {
            let contract =
                if space == keyspace::CELLS { Contract::Cells } else { Contract::Records };
            let change = |kind, left, counter| {
                event(contract, branch_name(branch), text(name), kind, left, counter)
            };
            if head.flags & LAPSED != 0 {
                let counter = head.counter.saturating_add(1).saturating_sub(head.writes);
                out.push(change(ChangeKind::Expired, RemainingState::Nothing, counter));
            }
            let (kind, left) = match (head.flags, contract) {
                (flags, _) if flags & EXPIRED != 0 => {
                    (ChangeKind::Expired, RemainingState::Nothing)
                }
                (flags, _) if flags & DELETED != 0 => {
                    (ChangeKind::Deleted, RemainingState::Nothing)
                }
                (_, Contract::Cells) => {
                    (ChangeKind::Set, RemainingState::Value(codec::decode(payload)?))
                }
                _ => (ChangeKind::Set, RemainingState::Fields(Fields::decode(payload)?)),
            };
            out.push(change(kind, left, head.counter));
        }
        keyspace::EVENTS | keyspace::ALERTS if head.flags & (DELETED | QUIET) == 0 => {
            let Some((run, _, seq)) = run_keys::split(name) else { return Ok(()) };
            let seq = run_keys::seq(seq).unwrap_or_default();
            let (kind, value) = match (space, seq) {
                (keyspace::ALERTS, _) => (ChangeKind::Alerted, Value::from(text(payload))),
                (_, 0) => (ChangeKind::Set, codec::decode(payload)?),
                _ => {
                    let event = CanonicalEvent::decode(payload, run, seq, head.stamp)?;
                    (ChangeKind::Appended, to_value(&event)?)
                }
            };
            let contract = Contract::Runs;
            let left = RemainingState::Value(value);
            out.push(event(contract, branch_name(branch), run.to_owned(), kind, left, seq));
        }
        // A staged restore reserves the run's name with a quiet tombstone. No visible run was deleted.
        keyspace::RUNS if head.is_deleted() && head.flags & QUIET != 0 => {}
        keyspace::RUNS if head.is_deleted() => {
            let contract = Contract::Runs;
            let kind = ChangeKind::Deleted;
            out.push(event(
                contract,
                branch_name(branch),
                text(name),
                kind,
                RemainingState::Nothing,
                0,
            ));
        }
        keyspace::RUNS => {
            let Some(last_seq) = shown_seq(payload, head.revision)? else { return Ok(()) };
            let contract = Contract::Runs;
            let kind = ChangeKind::Restored;
            let branch = branch_name(branch);
            let run = text(name);
            out.push(event(contract, branch, run, kind, RemainingState::Nothing, last_seq));
        }
        // Entries of a restore are QUIET: the entry of the space reports them all when the restore becomes
        // visible. Entries that leave with a dropped generation are not reported.
        keyspace::KEYED if head.flags & QUIET == 0 => {
            let told = if head.is_deleted() {
                keyed::feed_names::gone(name)
            } else {
                keyed::feed_names::entry(name, payload)?
            };
            let Some(told) = told else { return Ok(()) };
            let contract = Contract::Keyed;
            let left = told.value.map_or(RemainingState::Nothing, RemainingState::Value);
            out.push(event(contract, branch_name(branch), told.key, told.kind, left, head.counter));
        }
        keyspace::SPACES if head.flags & QUIET == 0 => {
            let told = if head.is_deleted() {
                Some((ChangeKind::Deleted, None))
            } else {
                keyed::feed_names::space(payload, head.revision)?
            };
            let Some((kind, value)) = told else { return Ok(()) };
            let contract = Contract::Keyed;
            let left = value.map_or(RemainingState::Nothing, RemainingState::Value);
            out.push(event(contract, branch_name(branch), text(name), kind, left, head.counter));
        }
        keyspace::OUTBOX if !head.is_deleted() => {
            if let Some((id, session, payload)) = outbox::transfer::told_request(name, payload) {
                let kind = ChangeKind::Set;
                let left = RemainingState::Value(Value::Bytes(payload));
                let contract = Contract::Sessions;
                let session = session.as_str().to_owned();
                out.push(event(contract, branch_name(branch), session, kind, left, id));
            }
            let Some((id, subject, run, payload)) = outbox::told(name, payload) else {
                return Ok(());
            };
            let value = [
                ("subject".to_owned(), Value::from(subject)),
                ("payload".to_owned(), Value::Bytes(payload)),
                ("run".to_owned(), run.map_or(Value::Null, Value::from)),
            ];
            let kind = ChangeKind::Set;
            let left = RemainingState::Value(Value::Object(value.into()));
            let contract = Contract::Outbox;
            let key = id.to_string();
            out.push(event(contract, branch_name(branch), key, kind, left, id));
        }
        keyspace::SESSIONS if !head.is_deleted() => {
            let kind = match StoredSession::decode(payload)? {
                StoredSession::Live(profile) if profile.opened == head.stamp => ChangeKind::Opened,
                StoredSession::Live(_) => return Ok(()),
                StoredSession::Gone { expired: true, .. } => ChangeKind::Expired,
                StoredSession::Gone { expired: false, .. } => ChangeKind::Closed,
            };
            out.push(event(
                Contract::Sessions,
                String::new(),
                text(name),
                kind,
                RemainingState::Nothing,
                0,
            ));
        }
        keyspace::SESSION_DATA if !head.is_deleted() => {
            let Some((session, Part::Letter(number))) = split_part(name) else { return Ok(()) };
            let kind = ChangeKind::Sent;
            let left = RemainingState::Value(Value::Bytes(payload.to_vec()));
            let contract = Contract::Sessions;
            let session = session.to_owned();
            out.push(event(contract, String::new(), session, kind, left, number));
        }
        keyspace::BRANCHES => {
            let record = crate::mvcc::catalog::BranchRecord::decode(payload)?;
            let kind = match record {
                _ if record.deleted == Some(head.revision) => ChangeKind::BranchDeleted,
                // An import is reported when it begins, before its cells, not when it becomes visible.
                _ if record.created == UNFINISHED => ChangeKind::Forked,
                _ if record.created == head.revision => {
                    if record.created_stamp == head.stamp {
                        ChangeKind::Forked
                    } else {
                        return Ok(());
                    }
                }
                _ => ChangeKind::Renamed,
            };
            let name = record.name;
            out.push(event(
                Contract::Branches,
                name.clone(),
                name,
                kind,
                RemainingState::Nothing,
                0,
            ));
        }
        keyspace::TAGS => {
            let (kind, branch) = if head.is_deleted() {
                (ChangeKind::Untagged, String::new())
            } else {
                let tag = crate::mvcc::catalog::TagRecord::decode(payload)?;
                (ChangeKind::Tagged, branch_name(tag.branch))
            };
            out.push(event(
                Contract::Branches,
                branch,
                text(name),
                kind,
                RemainingState::Nothing,
                0,
            ));
        }
        keyspace::MERGES => {
            let Some((into, from)) = crate::mvcc::catalog::MergeRecord::pair(name) else {
                return Ok(());
            };
            let into = branch_name(into);
            let from = branch_name(from);
            out.push(event(
                Contract::Branches,
                into,
                from,
                ChangeKind::Merged,
                RemainingState::Nothing,
                0,
            ));
        }
        _ => {}
    }
    Ok(())
}
