//! Merging a space: key by key, and the newer version wins.
//!
//! ```text
//!   state      newer version wins; equal versions that differ are a conflict. One that was forgotten below a frontier has
//!              no version any more: it is gone in the target, too, unless that has changed the key below the frontier
//!   waiting    what the target does not have comes to wait there; what the source has settled waits no longer
//!   item       what the target does not have; equal ids that differ are a conflict
//!   position   the further one. Neither is taken away, unless the space is replaced as a whole
//!   space      the further frontier; one that was replaced or removed as a whole is so in the target, too, unless that
//!              has changed meanwhile: then it is a conflict
//! ```
//!
//! Each side's entries are looked for in the generation that it shows: a space that was made on both sides is one space
//! from the first merge on.

use super::restore;
use super::space::{self, Declaration};
use super::write::SpaceWriter;
use crate::apply::branches::BranchContext;
use crate::apply::deferred_delete;
use crate::apply::three_way_diff::{Comparison, DiffItem, ThreeWayEntry, ThreeWayState};
use crate::key::entry::{self, QUIET};
use crate::key::keyspace::{self, KEYED, SPACES};
use crate::key::state_keys;
use crate::mvcc::catalog::Layers;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::NEWEST;
use mainstay_model::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay_model::{
    Code, EntryKind, EntryRef, Error, MergeStrategy, Name, Result, Version, take_state,
};
use std::collections::BTreeMap;

const ITEM: u8 = EntryKind::Item as u8;
const POSITION: u8 = EntryKind::Position as u8;

/// What becomes of a space that the source changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpaceMerge {
    /// Its entries are merged one by one into what the target has.
    Merged,
    /// The source has replaced, made or removed it as a whole.
    Whole,
    /// What the source changed does not fit into what the target has: that removed it, or declares it otherwise.
    Clash,
    /// That was decided, and nothing is left to do.
    Settled,
}

/// Keyed state on its way from one branch to another.
pub(crate) struct KeyedMerge<'m> {
    context: &'m BranchContext<'m>,
    comparison: &'m Comparison<'m>,
    target: u32,
    strategy: MergeStrategy,
    /// Spaces as they were found, and what was decided of them.
    courses: BTreeMap<String, (ThreeWayState, SpaceMerge)>,
    /// What has to be sealed once all entries are there.
    frontiers: BTreeMap<String, Version>,
    /// What the target may have changed, once somebody has asked.
    changed_in_target: Option<Vec<DiffItem>>,
}

impl<'m> KeyedMerge<'m> {
    pub fn new(
        context: &'m BranchContext<'m>,
        comparison: &'m Comparison<'m>,
        target: u32,
        strategy: MergeStrategy,
    ) -> KeyedMerge<'m> {
        let (courses, frontiers, changed_in_target) = Default::default();
        KeyedMerge { context, comparison, target, strategy, courses, frontiers, changed_in_target }
    }

    /// Brings what the source may have changed into the target; names what it could not.
    pub fn take(&mut self, overlay: &mut WriteSet, item: &DiffItem) -> Result<Option<String>> {
        let (kind, name) = item;
        if *kind == SPACES {
            return self.space(overlay, &String::from_utf8_lossy(name));
        }
        let Some((space, generation, place)) = state_keys::split(name) else { return Ok(None) };
        let (sides, fate) = self.course(space)?;
        // What deleted keys are found by follows from their states; other generations are seen by nobody.
        let is_seen = sides.a.is_some_and(|a| a.generation == generation);
        if !is_seen || !state_keys::is_entry(place) || fate == SpaceMerge::Settled {
            return Ok(None);
        }
        match fate {
            SpaceMerge::Whole => self.whole(overlay, space, &sides),
            _ if has_other_places(&sides) => Ok(None),
            _ => self.place(overlay, space, place),
        }
    }

    /// Brings what the source may have changed at a place.
    fn place(
        &mut self,
        overlay: &mut WriteSet,
        space: &str,
        place: &[u8],
    ) -> Result<Option<String>> {
        let (sides, fate) = self.course(space)?;
        let triple = self.comparison.entry(space, &sides, place)?;
        match fate {
            _ if !triple.a_changed() => Ok(None),
            SpaceMerge::Clash => self.clash(overlay, space, &sides),
            SpaceMerge::Merged if !triple.agrees() => {
                self.entry(overlay, space, &sides, place, &triple)
            }
            _ => Ok(None),
        }
    }

    /// Brings spaces of which the source shows another generation than the ancestor did: what is gone there has left no
    /// trace, and what is there may be older than the ancestor, so all places are looked at.
    fn others(&mut self, overlay: &mut WriteSet) -> Result<Vec<String>> {
        let courses = self.courses.iter().filter(|(_, (sides, _))| has_other_places(sides));
        let others: Vec<_> = courses.map(|(space, (sides, _))| (space.clone(), *sides)).collect();
        let mut conflicts = Vec::new();
        for (space, sides) in others {
            for place in self.comparison.places(&space, &sides)? {
                conflicts.extend(self.place(overlay, &space, &place)?);
            }
        }
        Ok(conflicts)
    }

    /// A space as it was found, and what becomes of it.
    fn course(&mut self, space: &str) -> Result<(ThreeWayState, SpaceMerge)> {
        if let Some(course) = self.courses.get(space) {
            return Ok(*course);
        }
        let sides = self.comparison.sides(space)?;
        let course = (sides, fate(&sides, self.comparison.base.1));
        self.courses.insert(space.to_owned(), course);
        Ok(course)
    }

    fn settle(&mut self, space: &str) {
        if let Some((_, fate)) = self.courses.get_mut(space) {
            *fate = SpaceMerge::Settled;
        }
    }

    fn space(&mut self, overlay: &mut WriteSet, space: &str) -> Result<Option<String>> {
        let (sides, fate) = self.course(space)?;
        let info = |side: Option<Declaration>| side.map(|declared| declared.info);
        let is_changed = info(sides.a) != info(sides.base);
        match (fate, sides.a, sides.b) {
            (SpaceMerge::Whole, ..) => self.whole(overlay, space, &sides),
            (SpaceMerge::Clash, ..) if is_changed => self.clash(overlay, space, &sides),
            (SpaceMerge::Merged, Some(a), Some(b)) if is_changed => {
                self.declare(overlay, space, &a, &b).map(|()| None)
            }
            _ => Ok(None),
        }
    }

    /// The kind of versions travels, and the frontier once all entries are there.
    fn declare(
        &mut self,
        overlay: &mut WriteSet,
        space: &str,
        a: &Declaration,
        b: &Declaration,
    ) -> Result<()> {
        if let Some(frontier) = a.info.frontier {
            self.frontiers.insert(space.to_owned(), frontier);
        }
        let kind = a.info.options.versions.filter(|_| b.info.options.versions.is_none());
        let Some(kind) = kind else { return Ok(()) };
        let (name, layers) = (Name::new(space)?, self.layers());
        let view = self.view(&layers);
        let mut writer = SpaceWriter::open(&view, overlay, &name, self.context.revision)?;
        writer.declared.info.options.versions = Some(kind);
        writer.changed = true;
        writer.close()
    }

    /// A space that the source replaced, made or removed.
    fn whole(
        &mut self,
        overlay: &mut WriteSet,
        space: &str,
        sides: &ThreeWayState,
    ) -> Result<Option<String>> {
        self.settle(space);
        match (self.target_changed(space, sides)?, self.strategy) {
            (true, MergeStrategy::Strict) => Ok(Some(space.to_owned())),
            (true, MergeStrategy::Ours) => Ok(None),
            _ => {
                // Under a number that it once had the target would find what is left of that, or lose it to the
                // reaper.
                let generation = sides.a.map_or(0, |a| a.generation);
                let is_fresh = self.target_knows(overlay, space, generation)?;
                self.replace(overlay, space, sides, is_fresh).map(|()| None)
            }
        }
    }

    /// A space that the source changed, and the target has no place for that.
    fn clash(
        &mut self,
        overlay: &mut WriteSet,
        space: &str,
        sides: &ThreeWayState,
    ) -> Result<Option<String>> {
        self.settle(space);
        match self.strategy {
            MergeStrategy::Strict => Ok(Some(space.to_owned())),
            MergeStrategy::Ours => Ok(None),
            MergeStrategy::Theirs => self.replace(overlay, space, sides, true).map(|()| None),
        }
    }

    /// Whether the target has changed anything of a space since the common ancestor.
    fn target_changed(&mut self, space: &str, sides: &ThreeWayState) -> Result<bool> {
        let said = |side: Option<Declaration>| side.map(|it| (it.generation, it.info));
        if said(sides.b) != said(sides.base) {
            return Ok(true);
        }
        let Some(b) = sides.b else { return Ok(false) };
        let life = state_keys::life(space, b.generation);
        if self.changed_in_target.is_none() {
            let changed = self.comparison.changed_in_b()?.into_iter();
            self.changed_in_target = Some(changed.filter(|(kind, _)| *kind == KEYED).collect());
        }
        for (_, name) in self.changed_in_target.iter().flatten() {
            let place = name.strip_prefix(&life[..]).filter(|place| state_keys::is_entry(place));
            let Some(place) = place else { continue };
            if self.comparison.entry(space, sides, place)?.b_changed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the target's space what the source's is, all of it, under the same generation or one of its own.
    fn replace(
        &self,
        overlay: &mut WriteSet,
        space: &str,
        sides: &ThreeWayState,
        is_fresh: bool,
    ) -> Result<()> {
        let (name, layers) = (Name::new(space)?, self.layers());
        let view = self.view(&layers);
        restore::remove(&view, overlay, &name, 0)?;
        let Some(a) = sides.a else { return Ok(()) };
        let revision = self.context.revision;
        let generation = if is_fresh { revision } else { a.generation };
        let met = space::meet(&view, overlay, &name)?;
        let shown = Declaration { generation, shown: revision, restored: true, filling: 0, ..a };
        space::put(overlay, met.seen, &shown)?;
        self.copy(overlay, space, &a, generation)
    }

    /// Whether the target shows or has shown a generation, or inherits it: then it has what is left of that.
    fn target_knows(&self, overlay: &WriteSet, space: &str, generation: u64) -> Result<bool> {
        let marker = deferred_delete::space(self.target, space, generation);
        let hash = self.context.index.current.hash(&marker);
        let layers = self.layers();
        let view = self.view(&layers);
        if view.find(overlay, &marker, hash, |_, _| Ok(()))?.is_some() {
            return Ok(true);
        }
        let life = state_keys::life(space, generation);
        if view.walk(&WriteSet::default(), KEYED, &life, None).next()?.is_some() {
            return Ok(true);
        }
        // One without entries leaves nothing but its declaration.
        let mut was_shown = false;
        for &(branch, upto) in &layers {
            let key = keyspace::key(SPACES, branch, space.as_bytes());
            self.context.index.versions(&key, upto, &mut |entry: &[u8]| {
                let (head, payload) = entry::parse(entry)?;
                was_shown |=
                    !head.is_deleted() && Declaration::decode(payload)?.generation == generation;
                Ok(!was_shown)
            })?;
        }
        Ok(was_shown)
    }

    /// Copies all entries of the source's space; the feed tells of the space alone.
    fn copy(
        &self,
        overlay: &mut WriteSet,
        space: &str,
        a: &Declaration,
        generation: u64,
    ) -> Result<()> {
        let mut key = keyspace::key(KEYED, self.target, &state_keys::life(space, generation));
        let (start, mut count) = (key.len(), 0);
        self.comparison.each_in_a(space, a, |place, payload| {
            count += 1;
            if count > TRANSACTION_LIMIT_COMMANDS {
                return Err(too_many(space));
            }
            let mut put = |place: &[u8], payload: &[u8]| {
                key.truncate(start);
                key.extend_from_slice(place);
                let (flags, payload) = (QUIET, Payload::Bytes(payload));
                let write =
                    Write { flags, counter: 1, writes: 1, expires: None, prior: None, payload };
                overlay.write(key.clone(), self.context.index.current.hash(&key), write)
            };
            put(place, payload)?;
            let grave = (place.first() == Some(&(EntryKind::State as u8)))
                .then(|| take_state(payload))
                .flatten()
                .filter(|(_, value)| value.is_none());
            match grave {
                Some((version, _)) => put(&state_keys::grave(version, &place[1..]), b""),
                None => Ok(()),
            }
        })
    }

    /// Brings one entry into a space that both have; names it if that is a conflict.
    fn entry(
        &self,
        overlay: &mut WriteSet,
        space: &str,
        sides: &ThreeWayState,
        place: &[u8],
        triple: &ThreeWayEntry,
    ) -> Result<Option<String>> {
        let is_gone = triple.a.payload.is_none();
        if is_gone && matches!(place.first(), Some(&(ITEM | POSITION))) {
            // Only a space that is replaced as a whole loses any: lists of changes say nothing of their going.
            return Ok(None);
        }
        let kind = sides.a.and_then(|a| a.info.options.versions);
        let entry = EntryRef::from_parts(place, triple.a.payload.as_deref(), kind)?;
        if is_conflict(sides, &entry, triple) {
            match self.strategy {
                MergeStrategy::Strict => return Ok(super::feed_names::difference(triple)),
                MergeStrategy::Ours => return Ok(None),
                MergeStrategy::Theirs => {}
            }
        }
        let (name, layers) = (Name::new(space)?, self.layers());
        let view = self.view(&layers);
        let mut writer = SpaceWriter::open(&view, overlay, &name, self.context.revision)?;
        match is_conflict(sides, &entry, triple) {
            true => overwrite(&mut writer, entry)?,
            false => follow(&mut writer, entry, triple)?,
        }
        writer.close()?;
        Ok(None)
    }

    /// Brings what is left, and seals in the target what the source has sealed; names what it could not, and which spaces
    /// wait for a function.
    pub fn finish(mut self, overlay: &mut WriteSet) -> Result<Vec<String>> {
        let mut unsettled = self.others(overlay)?;
        let layers = self.layers();
        let view = self.view(&layers);
        for (space, frontier) in &self.frontiers {
            let name = Name::new(space)?;
            let mut writer = SpaceWriter::open(&view, overlay, &name, self.context.revision)?;
            loop {
                match writer.seal(*frontier, usize::MAX) {
                    Err(error) if error.code() == Code::Conflict => {
                        unsettled.push(space.clone());
                        break;
                    }
                    sealed => {
                        if sealed?.done {
                            break;
                        }
                    }
                }
            }
            writer.close()?;
        }
        Ok(unsettled)
    }

    fn layers(&self) -> Layers {
        self.context.catalog.layers(self.target, NEWEST)
    }

    fn view<'v>(&self, layers: &'v Layers) -> View<'v>
    where
        'm: 'v,
    {
        let BranchContext { index, now, budget, .. } = *self.context;
        View { index, layers, now, fresh: false, budget }
    }
}

/// What becomes of a space. It is the same one where a side has another generation than the ancestor, but has had it for
/// longer than that is ago: that is what a space is that was made on both sides.
fn fate(sides: &ThreeWayState, since: u64) -> SpaceMerge {
    let (base, Some(a)) = (sides.base, sides.a) else {
        let is_removed = sides.base.is_some() && sides.b.is_some();
        return if is_removed { SpaceMerge::Whole } else { SpaceMerge::Settled };
    };
    let is_whole = match base {
        Some(base) => base.generation != a.generation && a.shown > since,
        None => sides.b.is_none(),
    };
    match sides.b {
        _ if is_whole => SpaceMerge::Whole,
        Some(b) if are_alike(&a, &b) => SpaceMerge::Merged,
        _ => SpaceMerge::Clash,
    }
}

/// Whether the source shows another generation than the ancestor did, or the ancestor none.
fn has_other_places(sides: &ThreeWayState) -> bool {
    let generation = |side: Option<Declaration>| side.map(|shown| shown.generation);
    sides.a.is_some() && generation(sides.a) != generation(sides.base)
}

/// Whether two sides can be put together. One that has no version yet takes the other's kind.
fn are_alike(a: &Declaration, b: &Declaration) -> bool {
    let (of_a, mut of_b) = (a.info.options, b.info.options);
    of_b.versions = of_b.versions.or(of_a.versions);
    of_b.is_as(&of_a)
}

/// Whether both mean different things by one version or id, or by versions that nobody knows any more.
fn is_conflict(sides: &ThreeWayState, entry: &EntryRef<'_>, triple: &ThreeWayEntry) -> bool {
    let held = triple.b.payload.as_deref();
    let version = |payload: &[u8]| take_state(payload).map(|(version, _)| version);
    let is_open = |side: Option<Declaration>, version: Version| {
        side.is_some_and(|side| !side.info.is_sealed(version))
    };
    match (entry, held) {
        (EntryRef::State { version: own, .. }, Some(held)) => version(held) == Some(*own),
        // The target has forgotten it below its frontier.
        (EntryRef::State { version, .. }, None) => {
            triple.base.payload.is_some() && !is_open(sides.b, *version)
        }
        // The source has.
        (EntryRef::NoState { .. }, Some(held)) => {
            let is_newer = version(held).is_some_and(|version| is_open(sides.a, version));
            triple.b_changed() && !is_newer
        }
        (EntryRef::Waiting { .. } | EntryRef::Item { .. }, held) => held.is_some(),
        _ => false,
    }
}

/// Writes what is no conflict.
fn follow(writer: &mut SpaceWriter<'_>, entry: EntryRef<'_>, triple: &ThreeWayEntry) -> Result<()> {
    let is_as_before = !triple.b_changed();
    match entry {
        EntryRef::NoState { key } if is_as_before => writer.clear_state(key),
        // What it became is in the states that travel.
        EntryRef::NotWaiting { key, version } if is_as_before => writer.clear_waiting(version, key),
        EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => Ok(()),
        entry => writer.take_one(entry).map(drop),
    }
}

/// Writes the source's side over the target's.
fn overwrite(writer: &mut SpaceWriter<'_>, entry: EntryRef<'_>) -> Result<()> {
    match entry {
        EntryRef::State { key, version, value } => {
            let (seen, had) = writer.see(key)?;
            match value.is_none() && writer.declared.info.is_sealed(version) {
                // A sealed version needs no tombstone: everything older is stale by the frontier.
                true => writer.clear_state(key),
                false => writer.set_state(key, seen, had, version, value),
            }
        }
        EntryRef::Waiting { key, version, value } => writer.wait_anew(key, value, version),
        EntryRef::Item { key, id, item } => writer.append_anew(key, id, item),
        EntryRef::NoState { key } => writer.clear_state(key),
        EntryRef::NotWaiting { .. } | EntryRef::Position { .. } => Ok(()),
    }
}

#[cold]
fn too_many(space: &str) -> Error {
    let message = format!(
        "the merge brings space `{space}` as a whole, with more than {TRANSACTION_LIMIT_COMMANDS} entries: take a \
         snapshot of it and restore that"
    );
    Error::new(Code::TransactionTooLarge, message)
}
