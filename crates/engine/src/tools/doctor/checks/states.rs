//! Doctor check: whether a space of keyed state is consistent.
//!
//! ```text
//!   declaration   can be read
//!   state         can be read, and has versions of the space's kind; a deleted one is found by its version
//!   waiting       is not below the frontier
//!   grave         leads to a state that was deleted with that version
//! ```

use crate::apply::keyed::space;
use crate::apply::keyed::space::Declaration;
use crate::key::keyspace::{self, KEYED, SPACES};
use crate::key::state_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use crate::tools::doctor::Faults;
use mainstay_model::{Code, EntryKind, EntryRef, Name, Result, Version, take_state};
use std::collections::BTreeSet;
use std::ops::Bound;

const REBUILD: &str =
    "Let the index be rebuilt from the log, or restore the space from a snapshot.";

/// Checks all spaces that have entries on the branch itself. Returns the number of spaces and of their
/// entries.
pub(crate) fn check(view: &View<'_>, faults: &mut Faults) -> Result<(u64, u64)> {
    let mut spaces = 0;
    let mut entries = 0;
    for space in own(view)? {
        let Ok(name) = Name::new(&space) else {
            faults.space(&space, "no space can have this name".into(), REBUILD);
            continue;
        };
        match unless_damaged(space::find(view, &WriteSet::default(), &name))? {
            None => faults.space(&space, "its declaration cannot be read".into(), REBUILD),
            Some(None) => {}
            Some(Some(declared)) => {
                spaces += 1;
                let looked = StateCheck { view, space: &space, declared, entries: 0 }.all(faults);
                match unless_damaged(looked)? {
                    Some(found) => entries += found,
                    None => {
                        faults.space(&space, "something of it cannot be read".into(), REBUILD);
                    }
                }
            }
        }
    }
    Ok((spaces, entries))
}

/// Turns damage into `None`. Any other error ends the check.
fn unless_damaged<T>(looked: Result<T>) -> Result<Option<T>> {
    match looked {
        Err(error) if error.code() == Code::CorruptData => Ok(None),
        looked => looked.map(Some),
    }
}

/// Returns the spaces that have entries on the branch itself. Reads only their names.
fn own(view: &View<'_>) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let at = view.layers[0].1;
    for kind in [SPACES, KEYED] {
        let mut from = keyspace::key(kind, view.branch(), b"").to_vec();
        let end = keyspace::after_prefix(&from);
        loop {
            let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let Some(row) = view.index.scan(Bound::Included(&from), to, at).next() else { break };
            let row = row?;
            let name = &row.key()[keyspace::PREFIX_BYTES..];
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            names.insert(String::from_utf8_lossy(name).into_owned());
            // Skips all entries of the space at once.
            let passed = [&keyspace::key(kind, view.branch(), name)[..], &[0]].concat();
            let behind = if kind == KEYED { keyspace::after_prefix(&passed) } else { Some(passed) };
            let Some(behind) = behind else { break };
            from = behind;
        }
    }
    Ok(names)
}

struct StateCheck<'l> {
    view: &'l View<'l>,
    space: &'l str,
    declared: Declaration,
    entries: u64,
}

impl StateCheck<'_> {
    fn all(mut self, faults: &mut Faults) -> Result<u64> {
        let life = state_keys::life(self.space, self.declared.generation);
        let nothing = WriteSet::default();
        let mut walk = self.view.walk(&nothing, KEYED, &life, None);
        while let Some(step) = walk.next()? {
            if step.head.is_deleted() {
                continue;
            }
            let place = &step.name()[life.len()..];
            let payload = step.payload();
            let what = match place.strip_prefix(&state_keys::GRAVES) {
                Some(grave) => self.grave(grave)?,
                None => {
                    self.entries += 1;
                    self.entry(place, payload)?
                }
            };
            if let Some(what) = what {
                faults.space(self.space, what, REBUILD);
            }
        }
        Ok(self.entries)
    }

    /// Returns the fault of an entry, if any.
    fn entry(&self, place: &[u8], payload: &[u8]) -> Result<Option<String>> {
        let info = self.declared.info;
        let Ok(entry) = EntryRef::from_parts(place, Some(payload), info.options.versions) else {
            return Ok(Some(format!("the entry at {} cannot be read", place.escape_ascii())));
        };
        Ok(match entry {
            EntryRef::State { key, version, value: None } => {
                let there = self.payload(&state_keys::grave(version, key))?.is_some();
                (!there).then(|| {
                    let key = key.escape_ascii();
                    format!("key {key} was deleted with version {version}, and is not found by it")
                })
            }
            EntryRef::Waiting { key, version, .. } if info.is_sealed(version) => {
                let key = key.escape_ascii();
                Some(format!("a write to key {key} waits with version {version}, which is closed"))
            }
            _ => None,
        })
    }

    /// Returns the fault of a tombstone index entry (grave), if any.
    fn grave(&self, grave: &[u8]) -> Result<Option<String>> {
        let bytes = self.declared.info.options.versions.map_or(0, |kind| kind.bytes());
        let parts = grave.split_at_checked(bytes);
        let parts = parts.and_then(|(version, key)| Some((Version::from_bytes(version)?, key)));
        let Some((version, key)) = parts else {
            return Ok(Some(format!("{} leads to no key", grave.escape_ascii())));
        };
        let state = self.payload(&EntryKind::state(key))?;
        let is_so = state.as_deref().and_then(take_state) == Some((version, None));
        Ok((!is_so).then(|| {
            let key = key.escape_ascii();
            format!("key {key} is said to be deleted with version {version}, and is not")
        }))
    }

    fn payload(&self, place: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut at = state_keys::life(self.space, self.declared.generation);
        at.extend_from_slice(place);
        let (key, hash) = self.view.key(KEYED, &at);
        let found = self.view.find(&WriteSet::default(), &key, hash, |head, payload| {
            Ok((!head.is_deleted()).then(|| payload.to_vec()))
        })?;
        Ok(found.and_then(|(found, _)| found))
    }
}
