//! Expiry: markers in their own key space, ordered by time. The sweep turns due keys into tombstones.

use crate::apply::key_state;
use crate::base::work::Budget;
use crate::key::entry::DELETED;
use crate::key::keyspace::{self, Key};
use crate::mvcc::catalog::{BranchRecord, Catalog, Layers};
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::{Index, NEWEST};
use mainstay_model::{Result, Stamp};
use smallvec::smallvec;
use std::ops::Bound;

/// Maximal number of keys that one sweep turns into tombstones in one transaction.
pub(crate) const SWEEP_LIMIT: usize = 1000;

/// Turns up to `limit` due keys into tombstones and returns the number of keys that it handled. No key is due
/// before `from`.
pub(crate) fn sweep(
    index: &Index,
    catalog: &Catalog,
    overlay: &mut WriteSet,
    from: Stamp,
    now: Stamp,
    limit: usize,
) -> Result<usize> {
    let mut count = 0;
    // Markers of a deleted branch are skipped. Compaction removes them with the branch's keys.
    let lives = |branch| catalog.by_id(branch).is_some_and(BranchRecord::lives);
    for marker in due(index, from, now, limit, lives)? {
        let key = &marker[keyspace::PREFIX_BYTES + 8..];
        let Some((_, branch, _)) = keyspace::split(key) else { continue };
        // Only the branch's own layer has markers. Inherited keys expire lazily.
        let layers: Layers = smallvec![(branch, NEWEST)];
        let view = View { index, layers: &layers, now, fresh: false, budget: Budget::Unlimited };
        if !key_state::expire_key_lazily(&view, overlay, key)? {
            remove_marker(index, overlay, &marker)?;
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the markers due between two times on live branches, earliest first.
fn due(
    index: &Index,
    from: Stamp,
    now: Stamp,
    limit: usize,
    lives: impl Fn(u32) -> bool,
) -> Result<Vec<Key>> {
    let from = keyspace::key(keyspace::EXPIRIES, keyspace::MAIN_ID, &from.to_be_bytes());
    let to =
        keyspace::key(keyspace::EXPIRIES, keyspace::MAIN_ID, &now.saturating_add(1).to_be_bytes());
    let mut due = Vec::new();
    for row in index.scan(Bound::Included(&from), Bound::Excluded(&to), NEWEST) {
        if due.len() == limit {
            break;
        }
        let row = row?;
        let key = row.key().get(keyspace::PREFIX_BYTES + 8..).and_then(keyspace::split);
        let lives = key.is_none_or(|(_, branch, _)| lives(branch));
        if lives && !crate::key::entry::parse(row.entry())?.0.is_deleted() {
            due.push(Key::from_slice(row.key()));
        }
    }
    Ok(due)
}

/// Returns the time of the next marker at or after `from`.
pub(crate) fn next_due(index: &Index, from: Stamp) -> Result<Option<Stamp>> {
    let first = due(index, from, Stamp::MAX - 1, 1, |_| true)?;
    let stamp =
        first.first().and_then(|marker| marker[keyspace::PREFIX_BYTES..].first_chunk::<8>());
    Ok(stamp.map(|stamp| u64::from_be_bytes(*stamp)))
}

/// Writes the markers that a transaction's writes need, and removes those that became obsolete. Returns the
/// earliest new expiry.
pub(crate) fn follow(index: &Index, overlay: &mut WriteSet) -> Result<Option<Stamp>> {
    let moved = |effect: &&crate::mvcc::write_set::Effect| {
        let live = effect.flags & DELETED == 0;
        effect.prior != effect.expires.filter(|_| live)
    };
    let changes: Vec<(Key, Option<Stamp>, Option<Stamp>)> = overlay
        .effects()
        .iter()
        .filter(moved)
        .map(|effect| (effect.key.clone(), effect.prior, effect.expires))
        .collect();
    let mut earliest: Option<Stamp> = None;
    for (key, prior, expires) in changes {
        if let Some(prior) = prior {
            remove_marker(index, overlay, &keyspace::expiry_key(prior, &key))?;
        }
        if let Some(expires) = expires {
            write_marker(index, overlay, &keyspace::expiry_key(expires, &key), 0)?;
            earliest = Some(earliest.map_or(expires, |earliest| earliest.min(expires)));
        }
    }
    Ok(earliest)
}

fn remove_marker(index: &Index, overlay: &mut WriteSet, marker: &Key) -> Result<()> {
    write_marker(index, overlay, marker, DELETED)
}

fn write_marker(index: &Index, overlay: &mut WriteSet, marker: &Key, flags: u8) -> Result<()> {
    let hash = index.current.hash(marker);
    let payload = Payload::Bytes(b"");
    let write = Write { flags, counter: 1, writes: 1, expires: None, prior: None, payload };
    overlay.write(marker.clone(), hash, write)
}
