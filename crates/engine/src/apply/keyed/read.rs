//! Reads of keyed state.

use super::space::{self, Declaration};
use super::write::{damaged, position_of};
use crate::key::keyspace::KEYED;
use crate::key::state_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{
    EntryBlock, EntryKind, EntryRef, Item, Kept, Name, Result, STATE_KEY_LIMIT_BYTES, Scales,
    State, StateAnswer, StateKey, StatePage, Version, WaitingEntry, take_state,
};

/// A page ends once it exceeds this many bytes.
const PAGE_BYTES: usize = 32 << 20;

/// A read-only view of one space.
pub(crate) struct SpaceReader<'r> {
    view: &'r View<'r>,
    overlay: &'r WriteSet,
    space: &'r Name,
    /// `None` if the space does not exist.
    pub declared: Option<Declaration>,
}

impl<'r> SpaceReader<'r> {
    pub fn open(
        view: &'r View<'r>,
        overlay: &'r WriteSet,
        space: &'r Name,
    ) -> Result<SpaceReader<'r>> {
        let declared = space::find(view, overlay, space)?;
        Ok(SpaceReader { view, overlay, space, declared })
    }

    /// Returns the versions and values of keys.
    pub fn look(&self, keys: &[StateKey]) -> Result<Vec<Option<Kept>>> {
        let mut scales = Scales::default();
        keys.iter()
            .map(|key| {
                let kept = self.kept(&key.0)?;
                let bytes = kept.as_ref().and_then(|kept| kept.value.as_ref()).map_or(0, Vec::len);
                scales.add_bytes(bytes)?;
                Ok(kept)
            })
            .collect()
    }

    /// Returns the total size of the keys' states, in bytes.
    pub fn weigh(&self, keys: &[StateKey]) -> Result<usize> {
        keys.iter().try_fold(0, |all, key| {
            let bytes = self.find(&EntryKind::state(&key.0), |payload| Ok(payload.len()))?;
            Ok(all + bytes.unwrap_or_default())
        })
    }

    /// Returns the version and the value of a key, or `None` if no version is stored.
    pub fn kept(&self, key: &[u8]) -> Result<Option<Kept>> {
        // No stored key is this long, so the lookup is skipped.
        if key.len() > STATE_KEY_LIMIT_BYTES {
            return Ok(None);
        }
        self.find(&EntryKind::state(key), |payload| {
            let (version, value) = take_state(payload).ok_or_else(damaged)?;
            Ok(Kept { version, value: value.map(<[u8]>::to_vec) })
        })
    }

    fn find<T>(&self, place: &[u8], mut read: impl FnMut(&[u8]) -> Result<T>) -> Result<Option<T>> {
        let Some(declared) = self.declared else { return Ok(None) };
        let mut at = state_keys::life(self.space.as_str(), declared.generation);
        at.extend_from_slice(place);
        let (key, hash) = self.view.key(KEYED, &at);
        let found = self.view.find(self.overlay, &key, hash, |head, payload| {
            (!head.is_deleted()).then(|| read(payload)).transpose()
        })?;
        Ok(found.and_then(|(found, _)| found))
    }

    /// Visits the entries with a prefix that follow a place, until `visit` returns `false`. Passes place and
    /// payload.
    pub fn walk(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let Some(declared) = self.declared else { return Ok(()) };
        let life = state_keys::life(self.space.as_str(), declared.generation);
        let at = |place: &[u8]| [&life[..], place].concat();
        let prefix = at(prefix);
        let after = after.map(at);
        let mut walk = self.view.walk(self.overlay, KEYED, &prefix, after.as_deref());
        while let Some(step) = walk.next()? {
            if !step.head.is_deleted() && !visit(&step.name()[life.len()..], step.payload())? {
                break;
            }
        }
        Ok(())
    }

    /// Returns a page of keys with their states, in byte order.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        let mut page = StatePage::default();
        let mut bytes = 0;
        self.live(prefix, after, |key, version, value| {
            if page.states.len() == limit || bytes > PAGE_BYTES {
                page.next = page.states.last().map(|(key, _)| key.clone());
                return false;
            }
            bytes += key.len() + value.len();
            page.states.push((key.to_vec(), State { value: value.to_vec(), version }));
            true
        })?;
        Ok(page)
    }

    /// Returns a page of keys, in byte order.
    pub fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StateAnswer> {
        let mut keys: Vec<StateKey> = Vec::new();
        let mut next = None;
        self.live(prefix, after, |key, _, _| {
            if keys.len() == limit {
                next = keys.last().map(|key| key.0.clone());
                return false;
            }
            keys.push(StateKey(key.to_vec()));
            true
        })?;
        Ok(StateAnswer::Keys { keys, next })
    }

    fn live(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], Version, &[u8]) -> bool,
    ) -> Result<()> {
        let prefix = EntryKind::state(prefix);
        let after = after.map(EntryKind::state);
        self.walk(&prefix, after.as_deref(), |place, payload| {
            let (version, value) = take_state(payload).ok_or_else(damaged)?;
            Ok(value.is_none_or(|value| visit(&place[1..], version, value)))
        })
    }

    /// Returns items of a key's log, ordered by id.
    pub fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        let prefix = EntryKind::item(key, b"");
        let after = after.map(|id| EntryKind::item(key, id));
        let mut items = Vec::new();
        let mut bytes = 0;
        self.walk(&prefix, after.as_deref(), |place, item| {
            bytes += place.len() + item.len();
            items.push(Item { id: place[prefix.len()..].to_vec(), item: item.to_vec() });
            Ok(items.len() < limit && bytes < PAGE_BYTES)
        })?;
        Ok(items)
    }

    /// Returns waiting writes with versions below `below`, or all.
    pub fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        let mut waiting = Vec::new();
        let mut bytes = 0;
        let versions = self.declared.and_then(|declared| declared.info.options.versions);
        if let Some((declared, below)) = self.declared.zip(below) {
            declared.info.check_version(below)?;
        }
        self.walk(&state_keys::kind(EntryKind::Waiting), None, |place, payload| {
            let entry = EntryRef::from_parts(place, Some(payload), versions)?;
            let EntryRef::Waiting { key, version, value } = entry else { return Ok(true) };
            if below.is_some_and(|below| version >= below) {
                return Ok(false);
            }
            bytes += place.len() + payload.len();
            let key = key.to_vec();
            let value = value.map(<[u8]>::to_vec);
            waiting.push(WaitingEntry { key, version, value });
            Ok(waiting.len() < limit && bytes < PAGE_BYTES)
        })?;
        Ok(waiting)
    }

    /// Returns the position of each source.
    pub fn positions(&self) -> Result<Vec<(String, u64)>> {
        let mut positions = Vec::new();
        self.walk(&state_keys::kind(EntryKind::Position), None, |place, payload| {
            let source = std::str::from_utf8(&place[1..]).map_err(|_| damaged())?;
            positions.push((source.to_owned(), position_of(payload)?));
            Ok(true)
        })?;
        Ok(positions)
    }

    /// Visits all entries in the order of a snapshot.
    pub fn each(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        EntryKind::ALL.map(state_keys::kind).iter().try_for_each(|kind| {
            self.walk(kind, None, |place, payload| visit(place, payload).map(|()| true))
        })
    }

    /// Returns entries in the order of a snapshot, after a place and up to a size.
    pub fn dump(&self, after: Option<&[u8]>, limit_bytes: usize) -> Result<StateAnswer> {
        let mut block = EntryBlock::default();
        let mut last = None;
        let mut full = false;
        let most = limit_bytes.clamp(1, PAGE_BYTES);
        for kind in EntryKind::ALL.map(state_keys::kind) {
            let begins = after.is_none_or(|after| after[..1.min(after.len())] <= kind[..]);
            if full || !begins {
                continue;
            }
            let after = after.filter(|after| after.starts_with(&kind));
            self.walk(&kind, after, |place, payload| {
                full = block.as_bytes().len() >= most;
                if !full {
                    block.push(place, Some(payload));
                    last = Some(place.to_vec());
                }
                Ok(!full)
            })?;
        }
        Ok(StateAnswer::Entries { block, next: last.filter(|_| full) })
    }
}
