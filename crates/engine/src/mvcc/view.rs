//! A view: a branch as of a revision, overlaid with the writes of a transaction.
//!
//! ```text
//!   overlay (own writes)
//!     -> own layer  (branch, revision)
//!       -> parent layer (parent, fork revision) -> ... -> main
//! ```
//!
//! The first layer that has the key decides, even if its entry is a tombstone.

use crate::base::work::{Budget, Exempt, Meter, WorkMeter};
use crate::key::entry::{self, EntryHeader};
use crate::key::keyspace::{self, Key};
use crate::mvcc::catalog::Layers;
use crate::mvcc::write_set::{Effect, WriteSet};
use crate::storage::index::Index;
use crate::storage::memtable::is_before_end;
use crate::storage::scan::{Scan, ScanRow};
use mainstay_model::{Result, Revision, Stamp};
use std::ops::Bound;

/// The place where an entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Overlay,
    Own,
    /// In the ancestor layer with this index.
    Inherited(usize),
}

pub struct View<'a> {
    pub index: &'a Index,
    pub layers: &'a Layers,
    /// The time at which expiry is judged.
    pub now: Stamp,
    /// True if the view's revision is the newest visible one, so that entries it reads may be cached as
    /// current.
    pub fresh: bool,
    /// The budget that its reads count towards.
    pub budget: Budget<'a>,
}

impl<'a> View<'a> {
    /// The view of a transaction in the writer. Restarts the work counters.
    pub fn in_transaction(
        index: &'a Index,
        layers: &'a Layers,
        now: Stamp,
        work: &'a WorkMeter,
    ) -> View<'a> {
        work.begin();
        View { index, layers, now, fresh: false, budget: Budget::Transaction(work) }
    }

    /// A view without a budget, for internal reads of the engine.
    pub fn unlimited(index: &'a Index, layers: &'a Layers, now: Stamp) -> View<'a> {
        View { index, layers, now, fresh: false, budget: Budget::Unlimited }
    }

    /// Exempts the first read of each kind in a transaction from the budget, because a write may depend on a
    /// long read and could otherwise never succeed. Later reads count. Events of a run are few, so they count
    /// as lookups.
    pub fn uncounted_once(&self, exempt: Exempt) -> View<'a> {
        let (Budget::Transaction(work) | Budget::Lookups(work)) = self.budget else {
            return View { ..*self };
        };
        let budget = match exempt {
            _ if work.take_exemption(exempt) => Budget::Unlimited,
            Exempt::Fold => Budget::Lookups(work),
            Exempt::Claim => self.budget,
        };
        View { budget, ..*self }
    }

    pub fn branch(&self) -> u32 {
        self.layers[0].0
    }

    /// The key of a name on this branch, and its hash.
    #[inline]
    pub fn key(&self, space: u8, name: &[u8]) -> (Key, u64) {
        let key = keyspace::key(space, self.branch(), name);
        let hash = self.index.current.hash(&key);
        (key, hash)
    }

    /// Looks up a key of this branch, own writes first.
    #[inline]
    pub fn find<T>(
        &self,
        overlay: &WriteSet,
        key: &Key,
        hash: u64,
        mut read: impl FnMut(EntryHeader, &[u8]) -> Result<T>,
    ) -> Result<Option<(T, Origin)>> {
        if let Some(effect) = overlay.find(hash, key) {
            let head = effect.head(overlay.revision, self.now);
            return Ok(Some((read(head, overlay.payload(effect))?, Origin::Overlay)));
        }
        self.find_stored(key, hash, read)
    }

    /// Looks up a key of this branch in the index, layer by layer.
    #[inline]
    pub fn find_stored<T>(
        &self,
        key: &Key,
        hash: u64,
        mut read: impl FnMut(EntryHeader, &[u8]) -> Result<T>,
    ) -> Result<Option<(T, Origin)>> {
        let mut parse = |entry: &[u8]| {
            self.budget.count_found(entry.len())?;
            let (head, payload) = entry::parse(entry)?;
            read(head, payload)
        };
        let found = self.index.entry(hash, key, self.layers[0].1, self.fresh, &mut parse)?;
        if let Some(found) = found {
            return Ok(Some((found?, Origin::Own)));
        }
        for (place, &(branch, at)) in self.layers.iter().enumerate().skip(1) {
            let key = rebased(key, branch);
            let hash = self.index.current.hash(&key);
            // Not current: the inherited version may have been overwritten on its own branch since.
            if let Some(found) = self.index.entry(hash, &key, at, false, &mut parse)? {
                return Ok(Some((found?, Origin::Inherited(place))));
            }
        }
        Ok(None)
    }

    /// The size of a key's entry, 0 if it has none; `None` if a layer would have to read from disk.
    pub fn size_in_memory(&self, key: &Key, hash: u64) -> Option<usize> {
        for (place, &(branch, at)) in self.layers.iter().enumerate() {
            let size = match place {
                0 => self.index.size_in_memory(hash, key, at)?,
                _ => {
                    let key = rebased(key, branch);
                    self.index.size_in_memory(self.index.current.hash(&key), &key, at)?
                }
            };
            if size > 0 {
                return Some(size);
            }
        }
        Some(0)
    }

    /// Visits the stored versions of a name, newest first, layer by layer, until `visit` returns false.
    pub fn versions(
        &self,
        space: u8,
        name: &[u8],
        mut visit: impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let mut meter = Meter::new(self.budget);
        let mut counted = |entry: &[u8]| {
            meter.pass(entry.len())?;
            visit(entry)
        };
        for &(branch, bound) in self.layers {
            let key = keyspace::key(space, branch, name);
            if !self.index.versions(&key, bound, &mut counted)? {
                break;
            }
        }
        Ok(())
    }

    /// Scans the names of a space in order, merging layers and own writes. Tombstones are included.
    pub fn walk<'o>(
        &self,
        overlay: &'o WriteSet,
        space: u8,
        prefix: &[u8],
        after: Option<&[u8]>,
    ) -> NameWalk<'o>
    where
        'a: 'o,
    {
        let layer = |&(branch, at): &(u32, u64)| {
            let from = match after.filter(|after| *after >= prefix) {
                Some(after) => Bound::Excluded(keyspace::key(space, branch, after)),
                None => Bound::Included(keyspace::key(space, branch, prefix)),
            };
            let end = keyspace::after_prefix(&keyspace::key(space, branch, prefix));
            let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            ViewLayer::new(self.scan(from.as_ref().map(|key| key.as_slice()), to, at))
        };
        let from = match after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let end = keyspace::after_prefix(prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let own = own_names(overlay, space, self.branch(), from, to);
        let layers = self.layers.iter().map(layer).collect();
        NameWalk { overlay, own, layers, now: self.now, budget: self.budget, passed_own: false }
    }

    /// Scans the keys of a range as of a revision, regardless of branches.
    pub fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, at: Revision) -> Rows<'a> {
        Rows { scan: self.index.scan(from, to, at), meter: Meter::new(self.budget) }
    }
}

fn rebased(key: &Key, branch: u32) -> Key {
    let mut key = key.clone();
    key[1..keyspace::PREFIX_BYTES].copy_from_slice(&branch.to_be_bytes());
    key
}

/// The indexes of the write set's effects in a range, in descending order of their names.
fn own_names(
    overlay: &WriteSet,
    space: u8,
    branch: u32,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
) -> Vec<usize> {
    let name = |place: &usize| &overlay.effects()[*place].key[keyspace::PREFIX_BYTES..];
    let mut own: Vec<usize> = (0..overlay.effects().len())
        .filter(|place| {
            let Some((s, b, name)) = keyspace::split(&overlay.effects()[*place].key) else {
                return false;
            };
            let begun = match from {
                Bound::Included(from) => name >= from,
                Bound::Excluded(from) => name > from,
                Bound::Unbounded => true,
            };
            s == space && b == branch && begun && is_before_end(name, to)
        })
        .collect();
    own.sort_by(|a, b| name(b).cmp(name(a)));
    own
}

/// The rows of a scan, counted towards the budget.
pub struct Rows<'a> {
    scan: Scan,
    meter: Meter<'a>,
}

impl Iterator for Rows<'_> {
    type Item = Result<ScanRow>;

    #[inline]
    fn next(&mut self) -> Option<Result<ScanRow>> {
        let row = self.scan.next()?;
        Some(row.and_then(|row| {
            self.meter.pass(row.key().len() + row.entry().len())?;
            Ok(row)
        }))
    }
}

struct ViewLayer<'a> {
    scan: Rows<'a>,
    row: Option<ScanRow>,
    started: bool,
}

impl<'a> ViewLayer<'a> {
    fn new(scan: Rows<'a>) -> ViewLayer<'a> {
        ViewLayer { scan, row: None, started: false }
    }

    fn advance(&mut self) -> Result<()> {
        self.started = true;
        self.row = self.scan.next().transpose()?;
        Ok(())
    }

    fn name(&self) -> Option<&[u8]> {
        self.row.as_ref().map(|row| &row.key()[keyspace::PREFIX_BYTES..])
    }
}

/// An ordered iterator over the names of a view.
pub struct NameWalk<'o> {
    overlay: &'o WriteSet,
    own: Vec<usize>,
    layers: Vec<ViewLayer<'o>>,
    now: Stamp,
    budget: Budget<'o>,
    /// True once the search for own writes was counted.
    passed_own: bool,
}

/// A name that a walk visits.
pub struct NameStep<'o> {
    pub head: EntryHeader,
    /// True if the transaction itself wrote it.
    pub own: bool,
    held: EntryLocation<'o>,
}

/// Storage of a visited entry.
enum EntryLocation<'o> {
    Overlay(&'o Effect, &'o [u8]),
    Index(ScanRow),
}

impl<'o> NameStep<'o> {
    fn of_overlay(overlay: &'o WriteSet, effect: &'o Effect, now: Stamp) -> NameStep<'o> {
        let held = EntryLocation::Overlay(effect, overlay.payload(effect));
        NameStep { head: effect.head(overlay.revision, now), own: true, held }
    }

    fn of_row(row: ScanRow) -> Result<NameStep<'o>> {
        let (head, _) = entry::parse(row.entry())?;
        Ok(NameStep { head, own: false, held: EntryLocation::Index(row) })
    }

    pub fn name(&self) -> &[u8] {
        let key = match &self.held {
            EntryLocation::Overlay(effect, _) => effect.key.as_slice(),
            EntryLocation::Index(row) => row.key(),
        };
        &key[keyspace::PREFIX_BYTES..]
    }

    pub fn payload(&self) -> &[u8] {
        match &self.held {
            EntryLocation::Overlay(_, payload) => payload,
            // Cannot fail, because the entry was parsed before.
            EntryLocation::Index(row) => {
                entry::parse(row.entry()).map_or(&[], |(_, payload)| payload)
            }
        }
    }
}

impl<'o> NameWalk<'o> {
    pub fn next(&mut self) -> Result<Option<NameStep<'o>>> {
        for layer in self.layers.iter_mut().filter(|layer| !layer.started) {
            layer.advance()?;
        }
        if !self.passed_own {
            self.passed_own = true;
            self.budget.count_own(self.overlay.effects().len())?;
        }
        let own = self.own.last().map(|&place| &self.overlay.effects()[place]);
        let own_name = own.map(|effect| &effect.key[keyspace::PREFIX_BYTES..]);
        // On equal names the lowest index wins: layers are ordered from the branch to its oldest ancestor.
        let names = self.layers.iter().map(ViewLayer::name).enumerate();
        let first = names.filter_map(|(place, name)| Some((name?, place))).min();
        let step = match (own, first) {
            (Some(effect), first) if first.is_none_or(|(name, _)| own_name <= Some(name)) => {
                self.own.pop();
                NameStep::of_overlay(self.overlay, effect, self.now)
            }
            (_, Some((_, place))) => {
                let layer = &mut self.layers[place];
                let Some(row) = layer.row.take() else { return Ok(None) };
                layer.advance()?;
                NameStep::of_row(row)?
            }
            _ => return Ok(None),
        };
        for layer in &mut self.layers {
            if layer.name() == Some(step.name()) {
                layer.advance()?;
            }
        }
        Ok(Some(step))
    }
}
