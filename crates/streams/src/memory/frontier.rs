//! The frontier: what is below it is closed.

use super::space::Space;
use mainstay_model::{Code, Error, Result, SpaceInfo, Version};
use std::sync::Arc;

impl Space {
    /// Closes all versions below the frontier; gives how many writes had waited.
    pub(super) fn seal(&mut self, frontier: Version) -> Result<u64> {
        let info = self.info();
        info.check_version(frontier)?;
        if info.frontier.is_some_and(|present| frontier <= present) {
            return Ok(0);
        }
        self.check_settled(&info, frontier)?;
        let settled = self.apply_below(frontier);
        self.states.forget_below(frontier);
        self.fix(Some(frontier.kind()));
        self.info = Some(SpaceInfo { frontier: Some(frontier), ..self.info() });
        Ok(settled)
    }

    /// Refuses to close what only its user's function can settle.
    fn check_settled(&self, info: &SpaceInfo, frontier: Version) -> Result<()> {
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

    /// Applies what waits below the frontier, in order of versions, then of keys.
    fn apply_below(&mut self, frontier: Version) -> u64 {
        // No key is empty: all of this version stay.
        let open = self.waiting.split_off(&(frontier, Arc::default()));
        let due = std::mem::replace(&mut self.waiting, open);
        let settled = due.len() as u64;
        for ((version, key), value) in due {
            self.states.set_newer(key, version, value);
        }
        settled
    }
}
