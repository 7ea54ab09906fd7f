//! Content of an in-memory space.

use super::states::States;
use mainstay_model::{
    Code, Error, Item, Result, SpaceInfo, SpaceOptions, Version, VersionKind, WaitingEntry,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes that copies of a space share.
pub(super) type SharedBytes = Arc<[u8]>;

/// A space. A copy shares the bytes of keys, states and items.
#[derive(Clone, Default)]
pub(super) struct Space {
    /// `None` before it is declared or written to.
    pub(super) info: Option<SpaceInfo>,
    pub(super) states: States,
    /// Sorted in the order in which they are sealed.
    pub(super) waiting: BTreeMap<(Version, SharedBytes), Option<SharedBytes>>,
    pub(super) logs: HashMap<SharedBytes, BTreeMap<SharedBytes, SharedBytes>>,
    pub(super) positions: BTreeMap<String, u64>,
}

impl Space {
    /// The options and the frontier, with the defaults for an undeclared space.
    pub(super) fn info(&self) -> SpaceInfo {
        let undeclared = SpaceInfo { options: SpaceOptions::default(), frontier: None };
        self.info.unwrap_or(undeclared)
    }

    /// Declares the space. Returns whether it was undeclared.
    pub(super) fn declare(&mut self, options: SpaceOptions) -> Result<bool> {
        let Some(info) = &mut self.info else {
            self.info = Some(SpaceInfo { options, frontier: None });
            return Ok(true);
        };
        // The first declaration that names a version kind fixes it.
        let versions = info.options.versions.or(options.versions);
        let agreed = SpaceOptions { versions, ..info.options };
        if !agreed.is_as(&options) {
            return Err(options_mismatch(&info.options, &options));
        }
        info.options = agreed;
        Ok(false)
    }

    /// Marks the space as existing, with this version kind.
    pub(super) fn fix_version_kind(&mut self, versions: Option<VersionKind>) {
        let mut info = self.info();
        info.options.versions = info.options.versions.or(versions);
        self.info = Some(info);
    }

    /// The items of a key's log after one of them.
    pub(super) fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<Item> {
        let Some(log) = self.logs.get(key) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let following = log.range::<[u8], _>((from, Bound::Unbounded));
        following
            .take(limit)
            .map(|(id, item)| Item { id: id.to_vec(), item: item.to_vec() })
            .collect()
    }

    /// The writes that wait with versions below one.
    pub(super) fn waiting(
        &self,
        below: Option<Version>,
        limit: usize,
    ) -> Result<Vec<WaitingEntry>> {
        below.map_or(Ok(()), |below| self.info().check_version(below))?;
        let is_below = |version: Version| below.is_none_or(|below| version < below);
        let all = self.waiting.iter().take_while(|((version, _), _)| is_below(*version));
        let to_entry =
            |((version, key), value): (&(Version, SharedBytes), &Option<SharedBytes>)| {
                WaitingEntry {
                    key: key.to_vec(),
                    version: *version,
                    value: value.as_deref().map(<[u8]>::to_vec),
                }
            };
        Ok(all.take(limit).map(to_entry).collect())
    }
}

/// The error of a declaration with other options.
#[cold]
pub(super) fn options_mismatch(declared: &SpaceOptions, requested: &SpaceOptions) -> Error {
    let message = format!("the space is declared as {declared:?}, which is not {requested:?}");
    Error::new(Code::SpaceExists, message)
}
