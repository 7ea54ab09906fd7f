//! Three-way comparison of two branches against their common ancestor.
//!
//! ```text
//!            base
//!           /    \        candidates: names written in a layer since the base,
//!          a      b       compared by value: timestamps do not matter
//! ```

use crate::apply::keyed::space::Declaration;
use crate::apply::runs;
use crate::base::work::{Budget, Meter};
use crate::key::entry::{self, EntryHeader};
use crate::key::keyspace::{self, DATA, KEYED, RECORDS, RUNS, SPACES};
use crate::key::state_keys;
use crate::mvcc::catalog::{Catalog, Layers};
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::Index;
use mainstay_model::{Contract, Result, Revision, Stamp, VersionKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A branch as of a revision.
pub(crate) type DiffPoint = (u32, Revision);

/// A key space, and a name in it.
pub type DiffItem = (u8, Vec<u8>);

/// The state of a name on one side.
#[derive(Clone, Debug, Default)]
pub struct DiffSide {
    /// The encoded value, if the name is live.
    pub payload: Option<Vec<u8>>,
    pub counter: u64,
    pub expires: Option<Stamp>,
    /// Whether the expiry has passed but no tombstone was written yet.
    pub lapsed: bool,
    /// The expiry whose marker is in the side's own layer.
    pub marked: Option<Stamp>,
}

/// One name in the base and on both sides.
pub struct ThreeWayEntry {
    pub space: u8,
    pub name: Vec<u8>,
    pub base: DiffSide,
    pub a: DiffSide,
    pub b: DiffSide,
    /// For an entry of keyed state: the kinds of versions in base, `a` and `b`.
    pub kinds: [Option<VersionKind>; 3],
}

impl ThreeWayEntry {
    pub fn a_changed(&self) -> bool {
        !self.equal(&self.a, &self.base)
    }

    pub fn b_changed(&self) -> bool {
        !self.equal(&self.b, &self.base)
    }

    /// Returns whether two sides are equal: cells by their value, records also by their expiry, runs by their
    /// events, spaces by their declaration.
    fn equal(&self, one: &DiffSide, other: &DiffSide) -> bool {
        if self.space == RUNS {
            return runs::merge::are_equal(one, other);
        }
        if self.space == SPACES {
            let info = |side: &DiffSide| declared(side).map(|declared| declared.info);
            return info(one) == info(other);
        }
        let expires = self.space != RECORDS || one.expires == other.expires;
        one.payload == other.payload && expires
    }

    pub fn contract(&self) -> Contract {
        match self.space {
            RECORDS => Contract::Records,
            RUNS => Contract::Runs,
            SPACES | KEYED => Contract::Keyed,
            _ => Contract::Cells,
        }
    }

    /// Returns whether both sides are equal.
    pub fn agrees(&self) -> bool {
        self.equal(&self.a, &self.b)
    }
}

/// The declarations of a space in the base and on both sides. `None` where the space does not exist.
#[derive(Clone, Copy)]
pub struct ThreeWayState {
    pub base: Option<Declaration>,
    pub a: Option<Declaration>,
    pub b: Option<Declaration>,
}

impl ThreeWayState {
    fn all(&self) -> [Option<Declaration>; 3] {
        [self.base, self.a, self.b]
    }

    /// Returns whether all three show the same generation.
    pub fn are_one(&self) -> bool {
        let generation = |side: Option<Declaration>| side.map(|shown| shown.generation);
        generation(self.base) == generation(self.a) && generation(self.a) == generation(self.b)
    }
}

/// Returns the declaration of a side's space, if the space exists.
fn declared(side: &DiffSide) -> Option<Declaration> {
    let declared = side.payload.as_deref().and_then(|bytes| Declaration::decode(bytes).ok());
    declared.filter(|declared| declared.is_there)
}

/// Compares two branches with their common ancestor.
pub struct Comparison<'a> {
    index: &'a Index,
    /// The common ancestor.
    pub base: DiffPoint,
    base_layers: Layers,
    a: Layers,
    b: Layers,
    now: Stamp,
    budget: Budget<'a>,
}

impl<'a> Comparison<'a> {
    pub fn new(
        index: &'a Index,
        catalog: &Catalog,
        a: DiffPoint,
        b: DiffPoint,
        now: Stamp,
        budget: Budget<'a>,
    ) -> Result<Comparison<'a>> {
        let base = catalog.merge_base(a, b);
        if base.1 > 0 {
            // Revision 0 is the empty state, which nothing can trim.
            index.check_all_reach(base.1)?;
        }
        let layers = |point: DiffPoint| catalog.layers(point.0, point.1);
        let base_layers = layers(base);
        let a = layers(a);
        let b = layers(b);
        Ok(Comparison { index, base, base_layers, a, b, now, budget })
    }

    /// The layers of both sides.
    pub fn layers(&self) -> (&Layers, &Layers) {
        (&self.a, &self.b)
    }

    /// Returns the names that side `a` may have changed since the base.
    pub fn changed_in_a(&self) -> Result<BTreeSet<DiffItem>> {
        names(self.walk_a())
    }

    /// Scans every row that must be checked for that. Yields its name if it may have changed.
    pub fn walk_a(&self) -> impl Iterator<Item = Result<Option<DiffItem>>> {
        walk(self.index, &self.base_layers, &self.a, self.budget)
    }

    /// Returns the names that side `b` may have changed since the base.
    pub fn changed_in_b(&self) -> Result<BTreeSet<DiffItem>> {
        names(walk(self.index, &self.base_layers, &self.b, self.budget))
    }

    pub fn triple(&self, (space, name): DiffItem) -> Result<ThreeWayEntry> {
        let side = |layers| self.side(layers, space, &name);
        let base = side(&self.base_layers)?;
        let a = side(&self.a)?;
        let b = side(&self.b)?;
        Ok(ThreeWayEntry { space, name, base, a, b, kinds: [None; 3] })
    }

    /// Returns the declarations of a space in the base and on both sides.
    pub fn sides(&self, space: &str) -> Result<ThreeWayState> {
        let there = |layers| self.side(layers, SPACES, space.as_bytes()).map(|s| declared(&s));
        Ok(ThreeWayState {
            base: there(&self.base_layers)?,
            a: there(&self.a)?,
            b: there(&self.b)?,
        })
    }

    /// Returns an entry of a space in the base and on both sides, each from the generation that it shows.
    pub fn entry(&self, space: &str, sides: &ThreeWayState, place: &[u8]) -> Result<ThreeWayEntry> {
        let at = |shown: Declaration| {
            let mut name = state_keys::life(space, shown.generation).to_vec();
            name.extend_from_slice(place);
            name
        };
        let side = |layers, shown: Option<Declaration>| {
            shown.map_or(Ok(DiffSide::default()), |shown| self.side(layers, KEYED, &at(shown)))
        };
        let name = sides.all().into_iter().flatten().next().map(at).unwrap_or_default();
        let base = side(&self.base_layers, sides.base)?;
        let a = side(&self.a, sides.a)?;
        let kinds = [sides.base, sides.a, sides.b];
        let kinds = kinds.map(|shown| shown.and_then(|shown| shown.info.options.versions));
        Ok(ThreeWayEntry { space: KEYED, name, base, a, b: side(&self.b, sides.b)?, kinds })
    }

    /// Returns the places of all entries that a space has in the base or on a side.
    pub fn places(&self, space: &str, sides: &ThreeWayState) -> Result<BTreeSet<Vec<u8>>> {
        let mut found = BTreeSet::new();
        for (layers, shown) in [&self.base_layers, &self.a, &self.b].into_iter().zip(sides.all()) {
            let Some(shown) = shown else { continue };
            self.each_entry(layers, space, shown.generation, |place, _| {
                found.insert(place.to_vec());
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Visits all entries of a space that side `a` shows.
    pub fn each_in_a(
        &self,
        space: &str,
        shown: &Declaration,
        visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.each_entry(&self.a, space, shown.generation, visit)
    }

    fn each_entry(
        &self,
        layers: &Layers,
        space: &str,
        generation: u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let view = self.view(layers);
        let life = state_keys::life(space, generation);
        let nothing = WriteSet::default();
        let mut walk = view.walk(&nothing, KEYED, &life, None);
        while let Some(step) = walk.next()? {
            let place = &step.name()[life.len()..];
            if !step.head.is_deleted() && state_keys::is_entry(place) {
                visit(place, step.payload())?;
            }
        }
        Ok(())
    }

    fn view<'v>(&'v self, layers: &'v Layers) -> View<'v> {
        let Comparison { index, now, budget, .. } = *self;
        View { index, layers, now, fresh: false, budget }
    }

    fn side(&self, layers: &Layers, space: u8, name: &[u8]) -> Result<DiffSide> {
        let view = self.view(layers);
        let (key, hash) = view.key(space, name);
        let read = |head: EntryHeader, payload: &[u8]| {
            let live = head.is_live(self.now);
            let payload = live.then(|| payload.to_vec());
            let expires = head.expires.filter(|_| live);
            let marked = head.expires.filter(|_| !head.is_deleted());
            let lapsed = head.is_lapsed(self.now);
            Ok(DiffSide { payload, counter: head.counter, expires, lapsed, marked })
        };
        let found = view.find(&WriteSet::default(), &key, hash, read)?;
        Ok(found.map_or_else(DiffSide::default, |(side, origin)| DiffSide {
            marked: side.marked.filter(|_| origin == crate::mvcc::view::Origin::Own),
            ..side
        }))
    }
}

fn names(walk: impl Iterator<Item = Result<Option<DiffItem>>>) -> Result<BTreeSet<DiffItem>> {
    walk.filter_map(Result::transpose).collect()
}

/// Scans each layer that two views see differently, and yields the names written in between.
///
/// A layer that both see up to the same revision is skipped, so comparing a fork with its base costs only the
/// writes on the fork.
fn walk<'a>(
    index: &'a Index,
    base: &Layers,
    side: &Layers,
    budget: Budget<'a>,
) -> impl Iterator<Item = Result<Option<DiffItem>>> + use<'a> {
    let mut bounds: BTreeMap<u32, (Revision, Revision)> = BTreeMap::new();
    for &(branch, at) in base {
        bounds.entry(branch).or_default().0 = at;
    }
    for &(branch, at) in side {
        bounds.entry(branch).or_default().1 = at;
    }
    let differ = bounds.into_iter().filter(|(_, (in_base, in_side))| in_base != in_side);
    differ.flat_map(move |(branch, (in_base, in_side))| {
        let older = in_base.min(in_side);
        let newer = in_base.max(in_side);
        DATA.into_iter()
            .flat_map(move |space| written(index, space, branch, (older, newer), budget))
    })
}

/// Scans a branch's layer as of one revision, and yields the names written after another.
fn written<'b>(
    index: &Index,
    space: u8,
    branch: u32,
    (older, newer): (Revision, Revision),
    budget: Budget<'b>,
) -> impl Iterator<Item = Result<Option<DiffItem>>> + use<'b> {
    let mut meter = Meter::new(budget);
    let from = keyspace::key(space, branch, b"");
    let end = keyspace::after_prefix(&from);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    index.scan(Bound::Included(&from), to, newer).map(move |row| {
        let row = row?;
        meter.pass(row.entry().len())?;
        let is_newer = entry::revision_of(row.entry()) > older;
        Ok(is_newer.then(|| (space, row.key()[keyspace::PREFIX_BYTES..].to_vec())))
    })
}
