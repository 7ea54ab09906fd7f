//! Garbage collection of old checkpoints and unneeded files.

use super::{Checkpoints, Manifest, number};
use mainstay_model::{ErrorKind, Result};
use std::collections::BTreeSet;

impl Checkpoints {
    /// Removes the oldest checkpoints, and files that neither an existing checkpoint needs nor a running one
    /// can need.
    pub(super) fn tidy(&self) -> Result<()> {
        let all = self.list()?;
        let Some(newest) = all.last().copied() else { return Ok(()) };
        let (old, kept) = all.split_at(all.len().saturating_sub(self.kept));
        let mut needed = BTreeSet::new();
        let mut need = |manifest: &Manifest| {
            needed.extend(manifest.files().map(|file| file.name.clone()));
        };
        let mut later = Vec::new();
        for id in kept.iter().rev() {
            let manifest = self.manifest(*id)?;
            later.push(manifest.epoch);
            need(&manifest);
        }
        for id in old.iter().rev() {
            match self.manifest_if_whole(*id)? {
                Some(manifest) if self.is_last_of_its_division(&manifest, &mut later) => {
                    need(&manifest);
                }
                _ => self.shelf.remove(&self.manifest_name(*id))?,
            }
        }
        // Manifests first, data last: after a crash in between no manifest names a missing file.
        for name in self.shelf.list(&format!("{}/data", self.job.name))? {
            let is_past = number(&name).is_some_and(|id| id <= newest);
            if is_past && !needed.contains(&name) {
                self.shelf.remove(&name)?;
            }
        }
        self.sweep(newest)
    }

    /// Removes temporary files left by crashes. A writer that is still active for an overtaken checkpoint
    /// would be refused anyway.
    fn sweep(&self, newest: u64) -> Result<()> {
        for name in self.shelf.unfinished(&self.job.name)? {
            if number(&name).is_some_and(|id| id < newest) {
                self.shelf.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Returns whether a checkpoint is the last one of its epoch. It is kept because the old shards' sinks
    /// need it to show their last outputs. It is kept for as many epochs as checkpoints are kept.
    fn is_last_of_its_division(&self, manifest: &Manifest, later: &mut Vec<u64>) -> bool {
        if later.contains(&manifest.epoch) {
            return false;
        }
        let newest = later.iter().max().copied().unwrap_or(manifest.epoch);
        later.push(manifest.epoch);
        newest.saturating_sub(manifest.epoch) <= self.kept as u64
    }

    /// Reads a manifest; `None` if it is damaged.
    pub(crate) fn manifest_if_whole(&self, id: u64) -> Result<Option<Manifest>> {
        match self.manifest(id) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }
}
