//! Reference model of keyed state, written for readability and not for speed.
//!
//! The model defines the semantics. If a store differs from it, one of the two has a bug.

use mainstay_model::{
    Code, Item, Kept, KeySelection, SnapshotHead, SnapshotWriter, SpaceEntry, SpaceInfo,
    SpaceOptions, State, StatePage, StateWrite, Version, VersionKind, WaitingEntry, Wrote,
};
use std::collections::BTreeMap;

type Bytes = Vec<u8>;
type Answer<T> = Result<T, Code>;

/// A space of keyed state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyedOracle {
    /// Declared options and frontier; `None` before the space is declared or written.
    pub info: Option<SpaceInfo>,
    /// States by key, including tombstones.
    pub states: BTreeMap<Bytes, Kept>,
    /// Waiting writes by version and key.
    pub waiting: BTreeMap<(Version, Bytes), Option<Bytes>>,
    /// Log items by key and id.
    pub items: BTreeMap<(Bytes, Bytes), Bytes>,
    /// Consumed positions by source.
    pub positions: BTreeMap<String, u64>,
}

impl KeyedOracle {
    /// Returns the space's info, or the defaults that the first write would create.
    pub fn info_or_default(&self) -> SpaceInfo {
        self.info.unwrap_or(SpaceInfo { options: SpaceOptions::default(), frontier: None })
    }

    fn kind(&self) -> Option<VersionKind> {
        self.info_or_default().options.versions
    }

    /// Returns whether a version is below the frontier.
    pub(super) fn is_closed(&self, version: Version) -> bool {
        self.info_or_default().frontier.is_some_and(|frontier| version < frontier)
    }

    fn version(&self, key: &[u8]) -> Option<Version> {
        self.states.get(key).map(|kept| kept.version)
    }

    /// Returns whether a version is newer than the key's.
    pub(super) fn is_newer(&self, key: &[u8], version: Version) -> bool {
        self.version(key).is_none_or(|held| held < version)
    }

    /// Creates the space if it is missing and fixes its version kind unless that is fixed already.
    pub(super) fn touch(&mut self, kind: Option<VersionKind>) {
        let mut info = self.info_or_default();
        if info.options.versions.is_none() {
            info.options.versions = kind;
        }
        self.info = Some(info);
    }

    /// Declares the space. Returns true if it is new.
    pub fn declare(&mut self, asked: SpaceOptions) -> Answer<bool> {
        let Some(info) = self.info else {
            self.info = Some(SpaceInfo { options: asked, frontier: None });
            return Ok(true);
        };
        let is = info.options;
        if (is.ordered, is.merged, is.groups) != (asked.ordered, asked.merged, asked.groups) {
            return Err(Code::SpaceExists);
        }
        match (is.versions, asked.versions) {
            (Some(is), Some(asked)) if is != asked => Err(Code::SpaceExists),
            (_, asked) => {
                self.touch(asked);
                Ok(false)
            }
        }
    }

    /// Applies the writes to a copy, which replaces the space only if every write succeeds.
    pub fn write(&mut self, writes: &[StateWrite]) -> Answer<Vec<Wrote>> {
        let mut copy = self.clone();
        let mut kind = self.kind();
        let mut answers = Vec::new();
        for write in writes {
            write.check().map_err(|error| error.code())?;
            if let Some(version) = write.version() {
                if kind.is_some_and(|kind| kind != version.kind()) {
                    return Err(Code::InvalidVersion);
                }
                kind = Some(version.kind());
            }
            if let StateWrite::AllSettled { below } = write {
                self.check_all_settled(*below, writes)?;
                answers.push(Wrote::Applied);
                continue;
            }
            let wrote = copy.write_one(write)?;
            if wrote == Wrote::Applied || wrote == Wrote::Waiting {
                copy.touch(write.version().map(|version| version.kind()));
            }
            answers.push(wrote);
        }
        *self = copy;
        Ok(answers)
    }

    /// Checks that a merge in the batch names each write below the version that waited before the batch.
    fn check_all_settled(&self, below: Version, writes: &[StateWrite]) -> Answer<()> {
        let is_named = |(version, key): &(Version, Bytes)| {
            let mut settles = writes.iter().filter_map(StateWrite::settles);
            settles.any(|(of, versions)| of == key && versions.contains(version))
        };
        let mut due = self.waiting.keys().filter(|(version, _)| *version < below);
        if due.all(is_named) { Ok(()) } else { Err(Code::Conflict) }
    }

    fn write_one(&mut self, write: &StateWrite) -> Answer<Wrote> {
        match write {
            StateWrite::Put { key, value, version } => self.put(key, Some(value.clone()), *version),
            StateWrite::Delete { key, version } => self.put(key, None, *version),
            StateWrite::Append { key, id, item } => {
                let place = (key.clone(), id.clone());
                if self.items.contains_key(&place) {
                    return Ok(Wrote::Stale);
                }
                self.items.insert(place, item.clone());
                Ok(Wrote::Applied)
            }
            StateWrite::Advance { source, position } => {
                if self.positions.get(source).is_some_and(|held| held >= position) {
                    return Ok(Wrote::Stale);
                }
                self.positions.insert(source.clone(), *position);
                Ok(Wrote::Applied)
            }
            StateWrite::Merge { key, value, version, read, settles } => {
                if self.version(key) != *read
                    || !settles
                        .iter()
                        .all(|version| self.waiting.contains_key(&(*version, key.clone())))
                {
                    return Ok(Wrote::Moved);
                }
                if self.is_closed(*version) && settles.is_empty() {
                    return Ok(Wrote::Stale);
                }
                for settled in settles {
                    self.waiting.remove(&(*settled, key.clone()));
                }
                if *read != Some(*version) {
                    let kept = Kept { version: *version, value: value.clone() };
                    self.states.insert(key.clone(), kept);
                }
                Ok(Wrote::Applied)
            }
            other => panic!("the model does not know {other:?}"),
        }
    }

    fn put(&mut self, key: &[u8], value: Option<Bytes>, version: Version) -> Answer<Wrote> {
        let SpaceOptions { ordered, merged, .. } = self.info_or_default().options;
        if merged && !ordered {
            return Err(Code::InvalidArgument);
        }
        if self.is_closed(version) || !self.is_newer(key, version) {
            return Ok(Wrote::Stale);
        }
        if !ordered {
            self.states.insert(key.to_vec(), Kept { version, value });
            return Ok(Wrote::Applied);
        }
        let place = (version, key.to_vec());
        if self.waiting.contains_key(&place) {
            return Ok(Wrote::Stale);
        }
        self.waiting.insert(place, value);
        Ok(Wrote::Waiting)
    }

    /// Raises the frontier and returns the number of waiting writes that became due.
    pub fn seal(&mut self, frontier: Version) -> Answer<u64> {
        let info = self.info_or_default();
        if self.kind().is_some_and(|kind| kind != frontier.kind()) {
            return Err(Code::InvalidVersion);
        }
        if info.frontier.is_some_and(|present| frontier <= present) {
            return Ok(0);
        }
        let due: Vec<(Version, Bytes)> =
            self.waiting.keys().filter(|place| place.0 < frontier).cloned().collect();
        if info.options.merged && !due.is_empty() {
            return Err(Code::Conflict);
        }
        for place in &due {
            let value = self.waiting.remove(place).unwrap();
            let (version, key) = place.clone();
            if self.is_newer(&key, version) {
                self.states.insert(key, Kept { version, value });
            }
        }
        self.states.retain(|_, kept| kept.value.is_some() || kept.version >= frontier);
        self.touch(Some(frontier.kind()));
        self.info = self.info.map(|info| SpaceInfo { frontier: Some(frontier), ..info });
        Ok(due.len() as u64)
    }

    /// Returns a page of live keys with their states.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> StatePage {
        let live = self.states.iter().filter_map(|(key, kept)| {
            let is_behind = after.is_none_or(|after| key.as_slice() > after);
            let value = kept.value.clone().filter(|_| key.starts_with(prefix) && is_behind)?;
            Some((key.clone(), State { value, version: kept.version }))
        });
        let mut states: Vec<(Bytes, State)> = live.collect();
        let is_more = states.len() > limit;
        states.truncate(limit);
        let last = states.last().map(|(key, _)| key.clone());
        StatePage { states, next: last.filter(|_| is_more) }
    }

    /// Returns items of a key's log.
    pub fn log(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<Item> {
        let of_key = self.items.iter().filter(|((of, _), _)| of == key);
        let behind = of_key.filter(|((_, id), _)| after.is_none_or(|after| id.as_slice() > after));
        behind
            .map(|((_, id), item)| Item { id: id.clone(), item: item.clone() })
            .take(limit)
            .collect()
    }

    /// Returns waiting writes, optionally only those below a version.
    pub fn waiting(&self, below: Option<Version>, limit: usize) -> Vec<WaitingEntry> {
        let due =
            self.waiting.iter().filter(|((version, _), _)| below.is_none_or(|b| *version < b));
        let one = |((version, key), value): (&(Version, Bytes), &Option<Bytes>)| WaitingEntry {
            key: key.clone(),
            version: *version,
            value: value.clone(),
        };
        due.map(one).take(limit).collect()
    }

    /// Returns the part that a snapshot of the selected keys contains. It has no positions.
    pub fn only(&self, keys: &KeySelection) -> KeyedOracle {
        let mut some = self.clone();
        some.states.retain(|key, _| keys.contains(key));
        some.waiting.retain(|(_, key), _| keys.contains(key));
        some.items.retain(|(key, _), _| keys.contains(key));
        some.positions.clear();
        some
    }

    /// Merges a snapshot into the space and returns the number of new entries.
    pub fn add(&mut self, other: &KeyedOracle) -> Answer<u64> {
        let from = other.info_or_default().options;
        if let Some(SpaceInfo { options: is, .. }) = self.info {
            if (is.ordered, is.merged, is.groups) != (from.ordered, from.merged, from.groups) {
                return Err(Code::SpaceExists);
            }
            if is.versions.zip(from.versions).is_some_and(|(is, from)| is != from) {
                return Err(Code::InvalidVersion);
            }
        } else {
            self.info = Some(SpaceInfo { options: from, frontier: None });
        }
        let is_merged = self.info_or_default().options.merged;
        if is_merged && other.waiting.keys().any(|(version, _)| self.is_closed(*version)) {
            return Err(Code::Conflict);
        }
        self.touch(from.versions);
        let mut new = 0;
        for (key, kept) in &other.states {
            if self.is_newer(key, kept.version) {
                self.states.insert(key.clone(), kept.clone());
                new += 1;
            }
        }
        for (place, value) in &other.waiting {
            let (version, key) = place.clone();
            if !self.is_newer(&key, version) {
                continue;
            }
            if self.is_closed(version) {
                self.states.insert(key, Kept { version, value: value.clone() });
                new += 1;
            } else if !self.waiting.contains_key(place) {
                self.waiting.insert(place.clone(), value.clone());
                new += 1;
            }
        }
        if let Some(frontier) = self.info_or_default().frontier {
            self.states.retain(|_, kept| kept.value.is_some() || kept.version >= frontier);
        }
        for (place, item) in &other.items {
            if !self.items.contains_key(place) {
                self.items.insert(place.clone(), item.clone());
                new += 1;
            }
        }
        for (source, position) in &other.positions {
            if self.positions.get(source).is_none_or(|held| held < position) {
                self.positions.insert(source.clone(), *position);
                new += 1;
            }
        }
        Ok(new)
    }

    /// The number of entries in a snapshot of the space.
    pub fn count(&self) -> u64 {
        let keyed = self.states.len() + self.waiting.len() + self.items.len();
        (keyed + self.positions.len()) as u64
    }

    /// Encodes a snapshot of the space, marked as full or as a selection of keys.
    pub fn snapshot(&self, some_keys: bool) -> Vec<u8> {
        let all = SnapshotHead::all(self.info_or_default());
        let mut writer =
            SnapshotWriter::new(Vec::new(), &SnapshotHead { some_keys, ..all }).unwrap();
        for (place, entry) in self.entries() {
            let mut payload = Vec::new();
            entry.put_payload(&mut payload);
            writer.push(&place, Some(&payload)).unwrap();
        }
        writer.finish().unwrap().1
    }

    /// All entries, keyed by their position in a snapshot.
    pub fn entries(&self) -> BTreeMap<Bytes, SpaceEntry> {
        let mut entries = Vec::new();
        for (key, Kept { version, value }) in self.states.clone() {
            entries.push(SpaceEntry::State { key, version, value });
        }
        for entry in self.waiting(None, usize::MAX) {
            entries.push(SpaceEntry::Waiting(entry));
        }
        for ((key, id), item) in self.items.clone() {
            entries.push(SpaceEntry::Item { key, id, item });
        }
        for (source, position) in self.positions.clone() {
            entries.push(SpaceEntry::Position { source, position });
        }
        entries.into_iter().map(|entry| (entry.place().to_vec(), entry)).collect()
    }

    /// Inserts an entry of a snapshot.
    pub(super) fn place(&mut self, entry: SpaceEntry) {
        match entry {
            SpaceEntry::State { key, version, value } => {
                self.states.insert(key, Kept { version, value });
            }
            SpaceEntry::Waiting(WaitingEntry { key, version, value }) => {
                self.waiting.insert((version, key), value);
            }
            SpaceEntry::Item { key, id, item } => {
                self.items.insert((key, id), item);
            }
            SpaceEntry::Position { source, position } => {
                self.positions.insert(source, position);
            }
            _ => {}
        }
    }

    /// Applies a state if it is newer. A deletion below the frontier removes the key without a
    /// tombstone.
    pub(super) fn settle(&mut self, key: &[u8], version: Version, value: Option<Bytes>) {
        if !self.is_newer(key, version) {
            return;
        }
        if value.is_none() && self.is_closed(version) {
            self.states.remove(key);
        } else {
            self.states.insert(key.to_vec(), Kept { version, value });
        }
    }
}
