//! Commit protocol of a checkpoint, with optimistic concurrency control.
//!
//! ```text
//!   read the newest: not too late, not rescaled --> files all exist --> create the manifest, if its number is free
//!        --> read again: another commit in between? --yes: remove it--> an error          --no: committed--> done
//! ```

use super::{Checkpoints, Manifest, ShardPart, ShardReport, check_whole, lost, manifest};
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
        check_whole(checkpoint, &self.job, &parts)?;
        let manifest = Manifest::new(&self.job, checkpoint, epoch, self.kept, parts);
        let bytes = manifest.encode()?;
        let before = self.list()?;
        if before.contains(&checkpoint) && self.is_there(checkpoint, &bytes)? {
            return Ok(manifest);
        }
        if let Some(newest) = self.latest_of(&before)? {
            self.check_in_time(&newest, &manifest)?;
        }
        self.check_files_there(&manifest)?;
        let is_new = self.shelf.put_new(&self.manifest_name(checkpoint), &bytes)?;
        // The response to the first of two attempts may have been lost.
        if !is_new && !self.is_there(checkpoint, &bytes)? {
            self.check_in_time(&self.manifest(checkpoint)?, &manifest)?;
            return Err(self.too_late(checkpoint, checkpoint));
        }
        self.check_nobody_between(&before, &manifest)?;
        // The checkpoint is committed, so a failed cleanup is left to the next one.
        let _ = self.tidy();
        Ok(manifest)
    }

    /// Returns whether the manifest exists with exactly these bytes. If so, makes it durable.
    fn is_there(&self, checkpoint: u64, bytes: &[u8]) -> Result<bool> {
        let name = self.manifest_name(checkpoint);
        let Some(file) = self.shelf.open(&name)? else { return Ok(false) };
        let mut there = Vec::new();
        let read = file.take(manifest::LIMIT_BYTES as u64).read_to_end(&mut there);
        read.map_err(|error| Error::new(Code::Io, format!("manifest `{name}`: {error}")))?;
        let is_there = there == bytes;
        if is_there {
            self.kept_for_good()?;
        }
        Ok(is_there)
    }

    /// Rejects a checkpoint if another one overtook it.
    fn check_in_time(&self, other: &Manifest, own: &Manifest) -> Result<()> {
        match other {
            _ if other.epoch > own.epoch => Err(self.divided_anew(other, own.epoch)),
            _ if other.checkpoint >= own.checkpoint => {
                Err(self.too_late(other.checkpoint, own.checkpoint))
            }
            _ => Ok(()),
        }
    }

    /// Rejects a checkpoint whose files are missing or have another length. Their content is verified when
    /// they are read.
    fn check_files_there(&self, manifest: &Manifest) -> Result<()> {
        let there = self.shelf.lengths(&format!("{}/data", self.job.name))?;
        for file in manifest.files() {
            match there.get(&file.name) {
                Some(length) if *length == file.bytes => {}
                Some(length) => {
                    let why = format!("it has {length} bytes, and {} were written", file.bytes);
                    return Err(lost(file, &why));
                }
                None => return Err(lost(file, "it is not there")),
            }
        }
        Ok(())
    }

    /// Removes the manifest if another one was created between the check and the write, because the job may
    /// continue from only one of them. If both writers see each other, both manifests are removed and both
    /// retry.
    fn check_nobody_between(&self, before: &[u64], own: &Manifest) -> Result<()> {
        let between = self.list()?;
        let between = between.iter().filter(|id| !before.contains(id) && **id != own.checkpoint);
        for id in between {
            if let Err(error) = self.check_in_time(&self.manifest(*id)?, own) {
                self.shelf.remove(&self.manifest_name(own.checkpoint))?;
                return Err(error);
            }
        }
        Ok(())
    }

    #[cold]
    pub(super) fn too_late(&self, newest: u64, checkpoint: u64) -> Error {
        let job = &self.job.name;
        let message =
            format!("job `{job}` has checkpoint {newest} already: {checkpoint} comes too late");
        Error::new(Code::CheckpointExists, message)
    }

    #[cold]
    fn divided_anew(&self, newest: &Manifest, epoch: u64) -> Error {
        let message = format!(
            "the work of job `{}` was divided anew with checkpoint {}: epoch {epoch} is over, begin again from there",
            self.job.name, newest.checkpoint
        );
        Error::new(Code::Fenced, message)
    }
}
