//! Garbage collection of old checkpoints and unneeded files.

use super::{Checkpoints, Manifest, checkpoint_number};
use mainstay_model::{ErrorKind, Result};
use std::collections::BTreeSet;

impl Checkpoints {
    /// Removes the oldest checkpoints, and files that neither an existing checkpoint needs nor a running one
    /// can need.
    pub(super) fn collect_garbage(&self) -> Result<()> {
        let all = self.list()?;
        let Some(newest) = all.last().copied() else { return Ok(()) };
        let (old, retained) = all.split_at(all.len().saturating_sub(self.retained));
        let mut needed = BTreeSet::new();
        let mut mark_needed = |manifest: &Manifest| {
            needed.extend(manifest.files().map(|file| file.name.clone()));
        };
        let mut later_epochs = Vec::new();
        for id in retained.iter().rev() {
            let manifest = self.manifest(*id)?;
            later_epochs.push(manifest.epoch);
            mark_needed(&manifest);
        }
        for id in old.iter().rev() {
            match self.manifest_if_valid(*id)? {
                Some(manifest) if self.is_last_of_epoch(&manifest, &mut later_epochs) => {
                    mark_needed(&manifest);
                }
                _ => self.store.remove(&self.manifest_name(*id))?,
            }
        }
        // Manifests first, data last: after a crash in between no manifest names a missing file.
        for name in self.store.list(&format!("{}/data", self.job.name))? {
            let is_not_newer = checkpoint_number(&name).is_some_and(|id| id <= newest);
            if is_not_newer && !needed.contains(&name) {
                self.store.remove(&name)?;
            }
        }
        self.remove_temporary_files(newest)
    }

    /// Removes temporary files left by crashes. A writer that is still active for an overtaken checkpoint
    /// would be refused anyway.
    fn remove_temporary_files(&self, newest: u64) -> Result<()> {
        for name in self.store.list_temporary(&self.job.name)? {
            if checkpoint_number(&name).is_some_and(|id| id < newest) {
                self.store.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Returns whether a checkpoint is the last one of its epoch. It is kept because the old shards' sinks
    /// need it to show their last outputs. It is kept for as many epochs as checkpoints are kept.
    fn is_last_of_epoch(&self, manifest: &Manifest, later_epochs: &mut Vec<u64>) -> bool {
        if later_epochs.contains(&manifest.epoch) {
            return false;
        }
        let newest = later_epochs.iter().max().copied().unwrap_or(manifest.epoch);
        later_epochs.push(manifest.epoch);
        newest.saturating_sub(manifest.epoch) <= self.retained as u64
    }

    /// Reads a manifest; `None` if it is damaged.
    pub(crate) fn manifest_if_valid(&self, id: u64) -> Result<Option<Manifest>> {
        match self.manifest(id) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }
}
