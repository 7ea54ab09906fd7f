//! Sealing: applies the waiting writes below the frontier.

use super::space::Space;
use mainstay_model::{Code, Error, Result, SpaceInfo, Version};
use std::sync::Arc;

impl Space {
    /// Seals all versions below the frontier. Returns the number of waiting writes.
    pub(super) fn seal(&mut self, frontier: Version) -> Result<u64> {
        let info = self.info();
        info.check_version(frontier)?;
        if info.frontier.is_some_and(|current| frontier <= current) {
            return Ok(0);
        }
        self.check_merged(&info, frontier)?;
        let applied = self.apply_below(frontier);
        self.states.drop_tombstones_below(frontier);
        self.fix_version_kind(Some(frontier.kind()));
        self.info = Some(SpaceInfo { frontier: Some(frontier), ..self.info() });
        Ok(applied)
    }

    /// Rejects sealing if a merge function must settle waiting writes first.
    fn check_merged(&self, info: &SpaceInfo, frontier: Version) -> Result<()> {
        let first = self.waiting.first_key_value();
        match first {
            Some(((version, key), _)) if info.options.merged && *version < frontier => {
                let message = format!(
                    "a write to key {} with version {version} waits to be merged: seal through `Merging`",
                    key.escape_ascii()
                );
                Err(Error::new(Code::Conflict, message))
            }
            _ => Ok(()),
        }
    }

    /// Applies the writes that wait below the frontier, in order of version, then of key.
    fn apply_below(&mut self, frontier: Version) -> u64 {
        // Keys are not empty, so the split keeps all entries of the frontier's own version.
        let unsealed = self.waiting.split_off(&(frontier, Arc::default()));
        let due = std::mem::replace(&mut self.waiting, unsealed);
        let applied = due.len() as u64;
        for ((version, key), value) in due {
            self.states.set_newer(key, version, value);
        }
        applied
    }
}
