//! Merge precondition: rejects a merge result if a waiting write below its version was not an input to the
//! merge function.

use super::write::SpaceWriter;
use crate::key::keyspace::KEYED;
use crate::key::state_keys;
use mainstay_model::{Code, EntryKind, Error, Result, StateWrite, Version};
use std::collections::HashSet;

impl SpaceWriter<'_> {
    /// Fails with `Conflict` if the writes claim to settle all waiting writes below a version, and do not.
    pub fn check_all_settled(&self, writes: &[StateWrite]) -> Result<()> {
        let below = writes.iter().filter_map(|write| match write {
            StateWrite::AllSettled { below } => Some(*below),
            _ => None,
        });
        let Some(below) = below.max() else { return Ok(()) };
        let settled = writes.iter().filter_map(StateWrite::settles);
        let settled = settled.flat_map(|(key, all)| all.iter().map(move |version| (*version, key)));
        let settled: HashSet<(Version, &[u8])> = settled.collect();
        let life = state_keys::life(self.space.as_str(), self.declared.generation);
        let prefix = [&life[..], &state_keys::kind(EntryKind::Waiting)].concat();
        let mut walk = self.view.walk(self.overlay, KEYED, &prefix, None);
        while let Some(step) = walk.next()? {
            let split = step.name()[prefix.len()..].split_at_checked(below.kind().bytes());
            let Some((version, key)) = split else { continue };
            let Some(version) = Version::from_bytes(version) else { continue };
            if version >= below {
                break;
            }
            if !step.head.is_deleted() && !settled.contains(&(version, key)) {
                return Err(unseen(self.space.as_str(), version, key));
            }
        }
        Ok(())
    }
}

#[cold]
fn unseen(space: &str, version: Version, key: &[u8]) -> Error {
    let message = format!(
        "a write to key {} of `{space}` with version {version} came to wait meanwhile: look again",
        key.escape_ascii()
    );
    Error::new(Code::Conflict, message)
}
