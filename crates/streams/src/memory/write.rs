//! Writes to an in-memory space: all are checked before any is applied, and applying cannot fail.

use super::space::{SharedBytes, Space};
use mainstay_model::{Code, Error, Result, SpaceInfo, StateWrite, Version, Wrote};
use std::collections::HashSet;
use std::collections::btree_map::Entry;

impl Space {
    /// Rejects the whole batch if one write is invalid in this space.
    pub(super) fn check(&self, writes: &[StateWrite]) -> Result<()> {
        let mut info = self.info();
        for (position, write) in writes.iter().enumerate() {
            check_one(&info, write).map_err(|error| error.at_position(position))?;
            let versions = write.version().map(|version| version.kind());
            info.options.versions = info.options.versions.or(versions);
        }
        writes.iter().try_for_each(|write| match write {
            StateWrite::AllSettled { below } => self.check_all_settled(*below, writes),
            _ => Ok(()),
        })
    }

    /// Rejects a merge result that would overtake a waiting write.
    fn check_all_settled(&self, below: Version, writes: &[StateWrite]) -> Result<()> {
        let settled = writes.iter().filter_map(StateWrite::settles);
        let settled = settled.flat_map(|(key, all)| all.iter().map(move |version| (*version, key)));
        let settled: HashSet<(Version, &[u8])> = settled.collect();
        let mut waiting = self.waiting.keys().take_while(|(version, _)| *version < below);
        match waiting.find(|(version, key)| !settled.contains(&(*version, &**key))) {
            None => Ok(()),
            Some((version, key)) => {
                let message = format!(
                    "a write to key {} with version {version} came to wait meanwhile: look again",
                    key.escape_ascii()
                );
                Err(Error::new(Code::Conflict, message))
            }
        }
    }

    /// Applies a checked write. The first write that takes effect fixes the version kind.
    pub(super) fn apply(&mut self, write: StateWrite) -> Wrote {
        let versions = write.version().map(|version| version.kind());
        let outcome = match write {
            StateWrite::Put { key, value, version } => {
                self.put(key.into(), Some(value.into()), version)
            }
            StateWrite::Delete { key, version } => self.put(key.into(), None, version),
            StateWrite::Append { key, id, item } => self.append(key.into(), id.into(), item.into()),
            StateWrite::Advance { source, position } => self.advance(source, position),
            StateWrite::Merge { key, value, version, read, settles } => {
                let merged = (version, value.map(SharedBytes::from));
                self.merge(key.into(), merged, read, &settles)
            }
            StateWrite::AllSettled { .. } => return Wrote::Applied,
            // Unknown writes were rejected before.
            _ => Wrote::Stale,
        };
        if outcome.took_effect() {
            self.fix_version_kind(versions);
        }
        outcome
    }

    fn put(&mut self, key: SharedBytes, value: Option<SharedBytes>, version: Version) -> Wrote {
        let info = self.info();
        if info.is_sealed(version) || !self.states.is_newer(&key, version) {
            return Wrote::Stale;
        }
        if !info.options.ordered {
            self.states.set(key, version, value);
            return Wrote::Applied;
        }
        if self.add_waiting(key, version, value) { Wrote::Waiting } else { Wrote::Stale }
    }

    /// Adds a waiting write. Returns whether none was waiting with this version and key.
    pub(super) fn add_waiting(
        &mut self,
        key: SharedBytes,
        version: Version,
        value: Option<SharedBytes>,
    ) -> bool {
        match self.waiting.entry((version, key)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(value);
                true
            }
        }
    }

    pub(super) fn append(&mut self, key: SharedBytes, id: SharedBytes, item: SharedBytes) -> Wrote {
        match self.logs.entry(key).or_default().entry(id) {
            Entry::Occupied(_) => Wrote::Stale,
            Entry::Vacant(entry) => {
                entry.insert(item);
                Wrote::Applied
            }
        }
    }

    pub(super) fn advance(&mut self, source: String, position: u64) -> Wrote {
        if self.positions.get(&source).is_some_and(|current| position <= *current) {
            return Wrote::Stale;
        }
        self.positions.insert(source, position);
        Wrote::Applied
    }

    fn merge(
        &mut self,
        key: SharedBytes,
        (version, value): (Version, Option<SharedBytes>),
        read: Option<Version>,
        settles: &[Version],
    ) -> Wrote {
        if self.states.version(&key) != read
            || !settles.iter().all(|version| self.waiting.contains_key(&(*version, key.clone())))
        {
            return Wrote::Moved;
        }
        if settles.is_empty() && self.info().is_sealed(version) {
            return Wrote::Stale;
        }
        for settled in settles {
            self.waiting.remove(&(*settled, key.clone()));
        }
        // If all waiting writes were overtaken, the version equals the key's own, and its state stays.
        self.states.set_newer(key, version, value);
        Wrote::Applied
    }
}

fn check_one(info: &SpaceInfo, write: &StateWrite) -> Result<()> {
    write.check()?;
    write.version().map_or(Ok(()), |version| info.check_write(version))?;
    match write {
        StateWrite::Put { .. } | StateWrite::Delete { .. } => check_plain(info),
        StateWrite::Append { .. }
        | StateWrite::Advance { .. }
        | StateWrite::Merge { .. }
        | StateWrite::AllSettled { .. } => Ok(()),
        _ => Err(Error::new(Code::Unsupported, "this store does not know such a write")),
    }
}

/// Rejects plain writes to a space that needs a merge function.
fn check_plain(info: &SpaceInfo) -> Result<()> {
    if !info.options.merged || info.options.ordered {
        return Ok(());
    }
    let message =
        "a function merges what is put to this space, and it is missing: write through `Merging`";
    Err(Error::new(Code::InvalidArgument, message))
}
