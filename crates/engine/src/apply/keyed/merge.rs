//! Merging a space: key by key, and the newer version wins.
//!
//! ```text
//!   state      newer version wins; equal versions that differ are a conflict
//!   waiting    what the target does not have comes to wait there; what the source sealed is sealed there, too
//!   item       what the target does not have; equal ids that differ are a conflict
//!   position   the further one
//!   space      the further frontier; one that was replaced or removed as a whole is so in the target, too, unless that
//!              has changed meanwhile: then it is a conflict
//! ```

use super::space::{self, Declaration};
use super::write::Writer;
use super::{places, restore};
use crate::apply::branches::Context;
use crate::catalog::Layers;
use crate::compare::{Comparison, Item, Side, Triple};
use crate::index::NEWEST;
use crate::overlay::{Overlay, Payload, Write};
use crate::spaces::{self, KEYED, SPACES};
use crate::view::View;
use mainstay_model::{
    Code, EntryKind, EntryRef, MergeStrategy, Name, Result, Version, VersionKind, take_state,
};
use std::collections::BTreeMap;

/// Whether two sides mean the same space: declared alike, sealed alike, and the same generation.
pub(crate) fn are_equal(one: &Side, other: &Side) -> bool {
    let said = |side: &Side| declared(side).map(|it| (it.generation, it.info));
    said(one) == said(other)
}

/// The space that a side has, if it is there for all to see.
fn declared(side: &Side) -> Option<Declaration> {
    let declared = side.payload.as_deref().and_then(|bytes| Declaration::decode(bytes).ok());
    declared.filter(|declared| declared.is_there)
}

/// What becomes of a space that the source changed.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Its entries are merged one by one into what the target has.
    Merged,
    /// The target gets the source's generation as it is.
    Replaced { generation: u64 },
    /// The target's side stays.
    Kept,
}

/// Keyed state on its way from one branch to another.
pub(crate) struct KeyedMerge<'m> {
    context: &'m Context<'m>,
    comparison: &'m Comparison<'m>,
    target: u32,
    strategy: MergeStrategy,
    /// What was decided of spaces.
    fates: BTreeMap<String, Fate>,
    /// Which kinds of versions spaces of the source have.
    kinds: BTreeMap<String, VersionKind>,
    /// What has to be sealed once all entries are there.
    frontiers: BTreeMap<String, Version>,
}

impl<'m> KeyedMerge<'m> {
    pub fn new(
        context: &'m Context<'m>,
        comparison: &'m Comparison<'m>,
        target: u32,
        strategy: MergeStrategy,
    ) -> KeyedMerge<'m> {
        let (fates, kinds, frontiers) = Default::default();
        KeyedMerge { context, comparison, target, strategy, fates, kinds, frontiers }
    }

    /// Brings what the source changed into the target; says whether it could. Spaces come before what is in them.
    pub fn take(&mut self, overlay: &mut Overlay, triple: &Triple) -> Result<bool> {
        match triple.space {
            SPACES => self.space(overlay, triple),
            _ => self.entry(overlay, triple),
        }
    }

    fn space(&mut self, overlay: &mut Overlay, triple: &Triple) -> Result<bool> {
        let name = Name::new(&String::from_utf8_lossy(&triple.name))?;
        let [base, a, b] = [&triple.base, &triple.a, &triple.b].map(declared);
        let generation = |it: Option<Declaration>| it.map(|it| it.generation);
        // One that both made, or that has only been sealed or typed since, is put together.
        let is_whole = generation(base) != generation(a) && (base.is_some() || b.is_none());
        if let (false, Some(a), Some(b)) = (is_whole, a, b) {
            return self.alike(&name, &a, &b);
        }
        let changed = generation(b) != generation(base) || self.target_changed(&name, b)?;
        let fate = match (changed, self.strategy) {
            (true, MergeStrategy::Strict) => return Ok(false),
            (true, MergeStrategy::Ours) => Fate::Kept,
            _ => Fate::Replaced { generation: generation(a).unwrap_or(0) },
        };
        if let Fate::Replaced { .. } = fate {
            self.replace(overlay, &name, a)?;
        }
        self.fates.insert(name.as_str().to_owned(), fate);
        Ok(true)
    }

    /// Two sides of a space that are put together: they have to be declared alike.
    fn alike(&mut self, name: &Name, a: &Declaration, b: &Declaration) -> Result<bool> {
        let (of_a, mut of_b) = (a.info.options, b.info.options);
        // One that has no version yet takes the other's kind.
        of_b.versions = of_b.versions.or(of_a.versions);
        if let Some(kind) = of_a.versions {
            self.kinds.insert(name.as_str().to_owned(), kind);
        }
        let fate = match (of_b.is_as(&of_a), self.strategy) {
            (true, _) => Fate::Merged,
            (false, MergeStrategy::Ours) => Fate::Kept,
            (false, _) => return Ok(false),
        };
        if let (Fate::Merged, Some(frontier)) = (fate, a.info.frontier) {
            self.frontiers.insert(name.as_str().to_owned(), frontier);
        }
        self.fates.insert(name.as_str().to_owned(), fate);
        Ok(true)
    }

    /// Whether the target has changed anything in a space since the common ancestor.
    fn target_changed(&self, name: &Name, b: Option<Declaration>) -> Result<bool> {
        let Some(b) = b else { return Ok(false) };
        let life = places::life(name.as_str(), b.generation);
        for (space, name) in self.comparison.changed_in_b()? {
            if space == KEYED && name.starts_with(&life) {
                let triple = self.comparison.triple((space, name) as Item)?;
                if triple.b_changed() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Makes the target's space what the source's is; its entries follow.
    fn replace(&self, overlay: &mut Overlay, name: &Name, a: Option<Declaration>) -> Result<()> {
        let layers = self.layers();
        let view = self.view(&layers);
        restore::remove(&view, overlay, name, 0)?;
        let Some(a) = a else { return Ok(()) };
        let met = space::meet(&view, overlay, name)?;
        let shown = Declaration { shown: self.context.revision, filling: 0, ..a };
        space::put(overlay, met.seen, &shown)
    }

    fn entry(&mut self, overlay: &mut Overlay, triple: &Triple) -> Result<bool> {
        let Some((space, generation, place)) = places::split(&triple.name) else { return Ok(true) };
        if !places::is_entry(place) {
            // What deleted keys are found by follows from their states.
            return Ok(true);
        }
        match self.fates.get(space).copied() {
            Some(Fate::Kept) => return Ok(true),
            Some(Fate::Replaced { generation: shown }) if shown == generation => {
                return self.copy(overlay, triple, place).map(|()| true);
            }
            Some(Fate::Replaced { .. }) => return Ok(true),
            Some(Fate::Merged) | None => {}
        }
        let name = Name::new(space)?;
        let layers = self.layers();
        let view = self.view(&layers);
        let Some(there) = space::find(&view, overlay, &name)? else {
            // The target removed the space, and the source went on with it.
            return Ok(self.strategy == MergeStrategy::Ours);
        };
        let kind = self.kinds.get(space).copied().or(there.info.options.versions);
        let Some(payload) = &triple.a.payload else {
            // What the source sealed or forgot is sealed here when all is there.
            return Ok(true);
        };
        let entry = EntryRef::from_parts(place, Some(payload), kind)?;
        if self.is_conflict(&view, overlay, &there, &name, place, payload)? {
            match self.strategy {
                MergeStrategy::Strict => return Ok(false),
                MergeStrategy::Ours => return Ok(true),
                MergeStrategy::Theirs => {
                    return self.overwrite(&view, overlay, &name, entry).map(|()| true);
                }
            }
        }
        let mut writer = Writer::open(&view, overlay, &name, self.context.revision)?;
        writer.take_one(entry)?;
        writer.close()?;
        Ok(true)
    }

    /// Whether both have the same version of a key, or the same id, and mean different things by it.
    fn is_conflict(
        &self,
        view: &View<'_>,
        overlay: &Overlay,
        there: &Declaration,
        name: &Name,
        place: &[u8],
        payload: &[u8],
    ) -> Result<bool> {
        let mut at = places::life(name.as_str(), there.generation);
        at.extend_from_slice(place);
        let (key, hash) = view.key(KEYED, &at);
        let found = view.find(overlay, &key, hash, |head, held| {
            Ok((!head.is_deleted()).then(|| held.to_vec()))
        })?;
        let Some(held) = found.and_then(|(held, _)| held).filter(|held| held != payload) else {
            return Ok(false);
        };
        Ok(match place.first() {
            Some(&kind) if kind == EntryKind::State as u8 => {
                take_state(&held).map(|(version, _)| version)
                    == take_state(payload).map(|(version, _)| version)
            }
            // The further position is no conflict.
            Some(&kind) => kind != EntryKind::Position as u8,
            None => false,
        })
    }

    /// Writes the source's state over the target's of the same version.
    fn overwrite(
        &self,
        view: &View<'_>,
        overlay: &mut Overlay,
        name: &Name,
        entry: EntryRef<'_>,
    ) -> Result<()> {
        let mut writer = Writer::open(view, overlay, name, self.context.revision)?;
        match entry {
            EntryRef::State { key, version, value } => {
                let (seen, had) = writer.see(key)?;
                writer.set_state(key, seen, had, version, value)?;
            }
            EntryRef::Waiting { key, version, value } => writer.wait_anew(key, value, version)?,
            EntryRef::Item { key, id, item } => writer.append_anew(key, id, item)?,
            _ => {}
        }
        writer.close()
    }

    /// Copies an entry of a generation that the target takes as it is.
    fn copy(&self, overlay: &mut Overlay, triple: &Triple, place: &[u8]) -> Result<()> {
        let Some(payload) = &triple.a.payload else { return Ok(()) };
        let mut put = |name: &[u8], payload: &[u8]| {
            let key = spaces::key(KEYED, self.target, name);
            let hash = self.context.index.current.hash(&key);
            let payload = Payload::Bytes(payload);
            let counter = triple.b.counter + 1;
            let write = Write { flags: 0, counter, writes: 1, expires: None, prior: None, payload };
            overlay.write(key, hash, write)
        };
        put(&triple.name, payload)?;
        if place.first() == Some(&(EntryKind::State as u8))
            && let Some((version, None)) = take_state(payload)
        {
            let life = &triple.name[..triple.name.len() - place.len()];
            put(&[life, &places::grave(version, &place[1..])].concat(), b"")?;
        }
        Ok(())
    }

    /// Seals in the target what the source has sealed; says which spaces wait for a function.
    pub fn finish(self, overlay: &mut Overlay) -> Result<Vec<String>> {
        let layers = self.layers();
        let view = self.view(&layers);
        let mut unsettled = Vec::new();
        for (space, frontier) in &self.frontiers {
            let name = Name::new(space)?;
            let mut writer = Writer::open(&view, overlay, &name, self.context.revision)?;
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
        View { index: self.context.index, layers, now: self.context.now, fresh: false }
    }
}
