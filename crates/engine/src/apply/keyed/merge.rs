//! Merge of keyed state: key by key, and the newer version wins.
//!
//! ```text
//!   state      the newer version wins; equal versions with different values are a conflict. A state deleted below a
//!              frontier has no version: it is deleted in the target too, unless the target changed the key below it
//!   waiting    writes that the target lacks are added to its waiting writes; writes applied in the source are removed
//!   item       items that the target lacks are added; equal ids with different values are a conflict
//!   position   the higher one. Items and positions are never removed, unless the space is replaced as a whole
//!   space      the higher frontier; if the source replaced or removed the space, so does the target, unless the
//!              target has changed the space since the ancestor: then it is a conflict
//! ```
//!
//! Entries of each side are read from the generation that the side shows. Thus a space that was created on
//! both sides becomes one space with the first merge.

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

/// How to merge a space that the source changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpaceMerge {
    /// Its entries are merged one by one into the target's space.
    Merged,
    /// The source replaced, created or removed it as a whole.
    Whole,
    /// The source's change does not fit the target, which removed the space or declares it differently.
    Clash,
    /// The space was handled as a whole, so no work remains.
    Settled,
}

/// A merge of keyed state from one branch into another.
pub(crate) struct KeyedMerge<'m> {
    context: &'m BranchContext<'m>,
    comparison: &'m Comparison<'m>,
    target: u32,
    strategy: MergeStrategy,
    /// Spaces as found, each with the decision how to merge it.
    courses: BTreeMap<String, (ThreeWayState, SpaceMerge)>,
    /// Frontiers to seal after all entries are merged.
    frontiers: BTreeMap<String, Version>,
    /// Names that the target may have changed. Computed on first use.
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

    /// Merges an item that the source may have changed. Returns its name if it is in conflict.
    pub fn take(&mut self, overlay: &mut WriteSet, item: &DiffItem) -> Result<Option<String>> {
        let (kind, name) = item;
        if *kind == SPACES {
            return self.space(overlay, &String::from_utf8_lossy(name));
        }
        let Some((space, generation, place)) = state_keys::split(name) else { return Ok(None) };
        let (sides, fate) = self.course(space)?;
        // Entries of the tombstone index follow from the states, and other generations are not visible.
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

    /// Merges one place of a space.
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

    /// Merges the spaces whose generation in the source differs from that in the ancestor. Deletions there
    /// left no trace, and entries there may be older than the ancestor, so all places are compared.
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

    /// Returns a space as found and the decision how to merge it.
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

    /// Merges the kind of versions now. The frontier follows after all entries.
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
        let name = Name::new(space)?;
        let layers = self.layers();
        let view = self.view(&layers);
        let mut writer = SpaceWriter::open(&view, overlay, &name, self.context.revision)?;
        writer.declared.info.options.versions = Some(kind);
        writer.changed = true;
        writer.close()
    }

    /// Merges a space that the source replaced, created or removed.
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
                // If the target reused a generation that it once had, it would find remains of the old data,
                // or the deferred delete would remove the new data.
                let generation = sides.a.map_or(0, |a| a.generation);
                let is_fresh = self.target_knows(overlay, space, generation)?;
                self.replace(overlay, space, sides, is_fresh).map(|()| None)
            }
        }
    }

    /// Resolves a change of the source that does not fit the target's space.
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

    /// Returns whether the target has changed anything in a space since the common ancestor.
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

    /// Replaces the target's space by the source's space, under the same generation or a new one.
    fn replace(
        &self,
        overlay: &mut WriteSet,
        space: &str,
        sides: &ThreeWayState,
        is_fresh: bool,
    ) -> Result<()> {
        let name = Name::new(space)?;
        let layers = self.layers();
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

    /// Returns whether the target shows or has shown a generation, or inherits it. Then the target may hold
    /// remains of it.
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
        // A generation without entries leaves only its declaration.
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

    /// Copies all entries of the source's space. The feed reports only the space itself.
    fn copy(
        &self,
        overlay: &mut WriteSet,
        space: &str,
        a: &Declaration,
        generation: u64,
    ) -> Result<()> {
        let mut key = keyspace::key(KEYED, self.target, &state_keys::life(space, generation));
        let start = key.len();
        let mut count = 0;
        self.comparison.each_in_a(space, a, |place, payload| {
            count += 1;
            if count > TRANSACTION_LIMIT_COMMANDS {
                return Err(too_many(space));
            }
            let mut put = |place: &[u8], payload: &[u8]| {
                key.truncate(start);
                key.extend_from_slice(place);
                let flags = QUIET;
                let payload = Payload::Bytes(payload);
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

    /// Merges one entry into a space that both sides have. Returns its name if it is in conflict.
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
            // Items and positions are removed only when a space is replaced as a whole, and lists of changes
            // do not record such removals.
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
        let name = Name::new(space)?;
        let layers = self.layers();
        let view = self.view(&layers);
        let mut writer = SpaceWriter::open(&view, overlay, &name, self.context.revision)?;
        if is_conflict(sides, &entry, triple) {
            overwrite(&mut writer, entry)?
        } else {
            follow(&mut writer, entry, triple)?
        }
        writer.close()?;
        Ok(None)
    }

    /// Merges the remaining spaces, then seals in the target what the source has sealed. Returns the names in
    /// conflict, and the spaces whose waiting writes need a merge function first.
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

/// Decides how to merge a space. If the source shows another generation than the ancestor, the source
/// replaced the space, unless it showed that generation before the ancestor's revision already. In that case
/// the space was created on both sides, and it counts as the same one.
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

/// Returns whether the source shows a generation that the ancestor does not show.
fn has_other_places(sides: &ThreeWayState) -> bool {
    let generation = |side: Option<Declaration>| side.map(|shown| shown.generation);
    sides.a.is_some() && generation(sides.a) != generation(sides.base)
}

/// Returns whether two declarations are compatible. A space without a kind of versions takes the other's
/// kind.
fn are_alike(a: &Declaration, b: &Declaration) -> bool {
    let of_a = a.info.options;
    let mut of_b = b.info.options;
    of_b.versions = of_b.versions.or(of_a.versions);
    of_b.is_as(&of_a)
}

/// Returns whether both sides use one version or id for different data, or a version was forgotten below a
/// frontier so that the sides cannot be ordered.
fn is_conflict(sides: &ThreeWayState, entry: &EntryRef<'_>, triple: &ThreeWayEntry) -> bool {
    let held = triple.b.payload.as_deref();
    let version = |payload: &[u8]| take_state(payload).map(|(version, _)| version);
    let is_open = |side: Option<Declaration>, version: Version| {
        side.is_some_and(|side| !side.info.is_sealed(version))
    };
    match (entry, held) {
        (EntryRef::State { version: own, .. }, Some(held)) => version(held) == Some(*own),
        // The target deleted it below its frontier and forgot the version.
        (EntryRef::State { version, .. }, None) => {
            triple.base.payload.is_some() && !is_open(sides.b, *version)
        }
        // The source deleted it below its frontier and forgot the version.
        (EntryRef::NoState { .. }, Some(held)) => {
            let is_newer = version(held).is_some_and(|version| is_open(sides.a, version));
            triple.b_changed() && !is_newer
        }
        (EntryRef::Waiting { .. } | EntryRef::Item { .. }, held) => held.is_some(),
        _ => false,
    }
}

/// Writes an entry that is not in conflict.
fn follow(writer: &mut SpaceWriter<'_>, entry: EntryRef<'_>, triple: &ThreeWayEntry) -> Result<()> {
    let is_as_before = !triple.b_changed();
    match entry {
        EntryRef::NoState { key } if is_as_before => writer.clear_state(key),
        // The result of the waiting write is among the merged states.
        EntryRef::NotWaiting { key, version } if is_as_before => writer.clear_waiting(version, key),
        EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => Ok(()),
        entry => writer.take_one(entry).map(drop),
    }
}

/// Overwrites the target's side with the source's side.
fn overwrite(writer: &mut SpaceWriter<'_>, entry: EntryRef<'_>) -> Result<()> {
    match entry {
        EntryRef::State { key, version, value } => {
            let (seen, had) = writer.see(key)?;
            if value.is_none() && writer.declared.info.is_sealed(version) {
                // A sealed version needs no tombstone: everything older is stale by the frontier.
                writer.clear_state(key)
            } else {
                writer.set_state(key, seen, had, version, value)
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
