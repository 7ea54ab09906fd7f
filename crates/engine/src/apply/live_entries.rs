//! Scan of the live index entries of one layer, in order. Skips dead entries, and caches long ranges of them.

use crate::key::entry;
use crate::key::keyspace::{self, ENTRIES};
use crate::mvcc::view::View;
use crate::storage::dead_ranges::{DeadRange, DeadRangeCache, GRAVE_ENTRIES};
use mainstay_model::{Result, Revision};
use std::ops::Bound;

/// A range of names with an exclusive end.
pub(super) type Span = (Bound<Vec<u8>>, Option<Vec<u8>>);

/// Visits the names of the live entries of a layer in a span, until `visit` returns `false`. A dead range is
/// scanned once and cached, and later scans skip it.
pub(super) fn each(
    view: &View<'_>,
    (branch, at): (u32, Revision),
    (from, to): Span,
    visit: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<()> {
    let key = |name: &Vec<u8>| keyspace::key(ENTRIES, branch, name).to_vec();
    let to = to.as_ref().map(key);
    let to = to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(to.as_slice()));
    let mut from = from.as_ref().map(key);
    let index = view.index;
    let mut walk = EntryWalk { graves: &index.graves, at, dead: None };
    loop {
        let mut grave = None;
        for row in view.scan(from.as_ref().map(Vec::as_slice), to, at) {
            let row = row?;
            index.searches.pass();
            if entry::parse(row.entry())?.0.is_deleted() {
                grave = walk.dead(row.key());
                if grave.is_some() {
                    break;
                }
                continue;
            }
            walk.alive();
            if !visit(row.key().get(keyspace::PREFIX_BYTES..).unwrap_or_default())? {
                return Ok(());
            }
        }
        match grave {
            Some(grave) => from = Bound::Excluded(grave.last),
            None => break,
        }
    }
    walk.alive();
    Ok(())
}

/// A scan that records ranges of dead entries.
struct EntryWalk<'g> {
    graves: &'g DeadRangeCache,
    at: Revision,
    /// The current range of dead entries, and the number of them scanned so far.
    dead: Option<(DeadRange, usize)>,
}

impl EntryWalk<'_> {
    /// Records a dead entry. Returns the cached dead range that contains it, if any.
    fn dead(&mut self, key: &[u8]) -> Option<DeadRange> {
        match &mut self.dead {
            Some((grave, count)) => {
                grave.last = key.to_vec();
                *count += 1;
                None
            }
            None => {
                let known = self.graves.containing(key, self.at);
                let begun = DeadRange { first: key.to_vec(), last: key.to_vec() };
                self.dead = Some((known.clone().unwrap_or(begun), 0));
                known
            }
        }
    }

    /// Ends the current dead range at a live entry or at the end of the scan, and caches it if it is long.
    fn alive(&mut self) {
        if let Some((grave, count)) = self.dead.take()
            && count >= GRAVE_ENTRIES
        {
            self.graves.insert(grave, self.at);
        }
    }
}
