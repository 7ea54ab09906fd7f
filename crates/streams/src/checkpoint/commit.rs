//! Commit protocol of a checkpoint, with optimistic concurrency control.
//!
//! ```text
//!   read the newest: not too late, not rescaled --> files all exist --> create the manifest, if its number is free
//!        --> read again: another commit in between? --yes: remove it--> an error          --no: committed--> done
//! ```

use super::{
    Checkpoints, Manifest, ShardPart, ShardReport, check_complete, manifest, unusable_file,
};
use mainstay_model::{Code, Error, Result};
use std::io::Read;

impl Checkpoints {
    /// Commits a checkpoint from the reports of all shards, and removes old checkpoints. Fails with `Fenced`
    /// if the epoch has ended. A retry with the same reports is idempotent.
    pub fn commit(
        &self,
        checkpoint: u64,
        epoch: u64,
        reports: Vec<ShardReport>,
    ) -> Result<Manifest> {
        let mut parts: Vec<ShardPart> = reports.into_iter().map(|report| report.part).collect();
        parts.sort_by_key(|part| part.shard);
        check_complete(checkpoint, &self.job, &parts)?;
        let manifest = Manifest::new(&self.job, checkpoint, epoch, self.retained, parts);
        let bytes = manifest.encode()?;
        let existing = self.list()?;
        if existing.contains(&checkpoint) && self.manifest_equals(checkpoint, &bytes)? {
            return Ok(manifest);
        }
        if let Some(newest) = self.newest_of(&existing)? {
            self.check_not_overtaken(&newest, &manifest)?;
        }
        self.check_files_exist(&manifest)?;
        let is_new = self.store.put_new(&self.manifest_name(checkpoint), &bytes)?;
        // The response to the first of two attempts may have been lost.
        if !is_new && !self.manifest_equals(checkpoint, &bytes)? {
            self.check_not_overtaken(&self.manifest(checkpoint)?, &manifest)?;
            return Err(self.overtaken_error(checkpoint, checkpoint));
        }
        self.check_no_concurrent_commit(&existing, &manifest)?;
        // The checkpoint is committed, so a failed cleanup is left to the next one.
        let _ = self.collect_garbage();
        Ok(manifest)
    }

    /// Returns whether the manifest exists with exactly these bytes. If so, makes it durable.
    fn manifest_equals(&self, checkpoint: u64, bytes: &[u8]) -> Result<bool> {
        let name = self.manifest_name(checkpoint);
        let Some(file) = self.store.open(&name)? else { return Ok(false) };
        let mut stored = Vec::new();
        let read = file.take(manifest::LIMIT_BYTES as u64).read_to_end(&mut stored);
        read.map_err(|error| Error::new(Code::Io, format!("manifest `{name}`: {error}")))?;
        let manifest_equals = stored == bytes;
        if manifest_equals {
            self.sync_manifests()?;
        }
        Ok(manifest_equals)
    }

    /// Rejects a checkpoint if another one overtook it.
    fn check_not_overtaken(&self, other: &Manifest, own: &Manifest) -> Result<()> {
        match other {
            _ if other.epoch > own.epoch => Err(self.rescaled_error(other, own.epoch)),
            _ if other.checkpoint >= own.checkpoint => {
                Err(self.overtaken_error(other.checkpoint, own.checkpoint))
            }
            _ => Ok(()),
        }
    }

    /// Rejects a checkpoint whose files are missing or have another length. Their content is verified when
    /// they are read.
    fn check_files_exist(&self, manifest: &Manifest) -> Result<()> {
        let lengths = self.store.lengths(&format!("{}/data", self.job.name))?;
        for file in manifest.files() {
            match lengths.get(&file.name) {
                Some(length) if *length == file.bytes => {}
                Some(length) => {
                    let why = format!("it has {length} bytes, and {} were written", file.bytes);
                    return Err(unusable_file(file, &why));
                }
                None => return Err(unusable_file(file, "it is not there")),
            }
        }
        Ok(())
    }

    /// Removes the manifest if another one was created between the check and the write, because the job may
    /// continue from only one of them. If both writers see each other, both manifests are removed and both
    /// retry.
    fn check_no_concurrent_commit(&self, existing: &[u64], own: &Manifest) -> Result<()> {
        let concurrent = self.list()?;
        let concurrent =
            concurrent.iter().filter(|id| !existing.contains(id) && **id != own.checkpoint);
        for id in concurrent {
            if let Err(error) = self.check_not_overtaken(&self.manifest(*id)?, own) {
                self.store.remove(&self.manifest_name(own.checkpoint))?;
                return Err(error);
            }
        }
        Ok(())
    }

    #[cold]
    pub(super) fn overtaken_error(&self, newest: u64, checkpoint: u64) -> Error {
        let job = &self.job.name;
        let message =
            format!("job `{job}` has checkpoint {newest} already: {checkpoint} comes too late");
        Error::new(Code::CheckpointExists, message)
    }

    #[cold]
    fn rescaled_error(&self, newest: &Manifest, epoch: u64) -> Error {
        let message = format!(
            "the work of job `{}` was divided anew with checkpoint {}: epoch {epoch} is over, begin again from there",
            self.job.name, newest.checkpoint
        );
        Error::new(Code::Fenced, message)
    }
}
