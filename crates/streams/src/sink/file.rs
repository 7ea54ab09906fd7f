//! File sink: JSON Lines files that become visible with their checkpoint.
//!
//! ```text
//!   write --append--> staged-<start> --prepare: fsync, close--> --commit: rename--> part-<start> --> read
//!                        |
//!                     open(position): truncated there, later files deleted
//! ```

use super::part_files::{
    CommittedOutput, PartFiles, part_path, shard_marker_path, staged_path, start_marker_path,
};
use super::{OpenStatus, ShardId, Sink};
use crate::files::{io_error, sync_directory};
use crate::output::Output;
use mainstay_model::{Code, Error, Result};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Writes outputs as JSON lines into files of a directory, which no other sink may use. Readers see the
/// outputs of committed checkpoints, each once. A position is the number of bytes written since the
/// beginning.
///
/// ```
/// use mainstay_streams::{FileSink, Items, MemoryState, Pipeline, StatefulOperator};
/// use std::io::Read;
/// use std::sync::Arc;
/// let doubles = StatefulOperator::new("doubles", |_: &u32| "all", |_: Option<()>, n, _| Ok((None, vec![n * 2])));
/// let directory = tempfile::tempdir().unwrap();
/// let mut pipeline = Pipeline::of(doubles)
///     .source(Items::new("numbers", [1, 2, 3]))
///     .sink(FileSink::new("out", directory.path()))
///     .open(Arc::new(MemoryState::new()))?;
/// pipeline.run()?;
///
/// let read = || -> mainstay_model::Result<String> {
///     let mut text = String::new();
///     FileSink::<u32>::read(directory.path())?.read_to_string(&mut text).unwrap();
///     Ok(text)
/// };
/// assert_eq!(read()?, "");
/// pipeline.barrier(1)?;
/// // Here the checkpoint is made durable.
/// pipeline.commit_checkpoint(1)?;
/// assert_eq!(read()?, "2\n4\n6\n");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct FileSink<O> {
    name: String,
    directory: PathBuf,
    with_ids: bool,
    /// True if earlier outputs may be elsewhere; `start` is the position up to which they are.
    continued: bool,
    start: u64,
    /// The shard whose outputs it takes, if assigned.
    shard_id: Option<ShardId>,
    position: u64,
    /// The committed position: outputs before it may have been read and are not written again.
    committed: u64,
    /// The file being written, and its start position.
    active: Option<(File, u64)>,
    outputs: PhantomData<fn(O)>,
}

impl<O> FileSink<O> {
    /// A sink that writes into a directory, which is created if it does not exist.
    pub fn new(name: &str, directory: impl AsRef<Path>) -> FileSink<O> {
        FileSink {
            name: name.to_owned(),
            directory: directory.as_ref().to_owned(),
            with_ids: false,
            continued: false,
            start: 0,
            shard_id: None,
            position: 0,
            committed: 0,
            active: None,
            outputs: PhantomData,
        }
    }

    /// Writes each output with its id, key and version, for readers that forward it; see [`Output`].
    #[must_use]
    pub fn with_ids(mut self) -> FileSink<O> {
        self.with_ids = true;
        self
    }

    /// Lets an empty directory continue after the last checkpoint: earlier outputs are where they were
    /// written, for example on another machine. Without this setting an empty directory means that the
    /// outputs were lost.
    #[must_use]
    pub fn continued(mut self) -> FileSink<O> {
        self.continued = true;
        self
    }

    /// Reads all committed outputs of a directory, in order, as one stream.
    pub fn read(directory: impl AsRef<Path>) -> Result<CommittedOutput> {
        CommittedOutput::open(directory.as_ref())
    }

    fn create_directory(&self) -> Result<()> {
        let created = mainstay::create_dir_all_durable(&self.directory);
        created.map_err(|error| io_error("make", &self.directory, &error))
    }

    /// Marks the directory with the shard whose outputs it holds. An empty directory can be taken over by any
    /// shard, whatever its mark is.
    fn mark_owner(&self, files: &PartFiles) -> Result<()> {
        let Some(shard_id) = self.shard_id.filter(|shard_id| files.shard_id != Some(*shard_id))
        else {
            return Ok(());
        };
        if let Some(other) = files.shard_id.filter(|_| files.is_empty()) {
            let path = shard_marker_path(&self.directory, other);
            let removed = std::fs::remove_file(&path);
            removed.map_err(|error| io_error("remove", &path, &error))?;
        }
        if files.shard_id.is_none() || files.is_empty() {
            self.create_marker(&shard_marker_path(&self.directory, shard_id))
        } else {
            Ok(())
        }
    }

    /// Creates an empty file whose name carries the information.
    fn create_marker(&self, path: &Path) -> Result<()> {
        let created = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        created.map_err(|error| io_error("create", path, &error))?;
        sync_directory(&self.directory)
    }

    /// Truncates the staged files to a position and makes the rest durable.
    fn truncate_staged(&self, files: &PartFiles, position: u64) -> Result<()> {
        for (start, end) in &files.staged {
            let path = staged_path(&self.directory, *start);
            if *start >= position {
                let removed = std::fs::remove_file(&path);
                removed.map_err(|error| io_error("remove", &path, &error))?;
                continue;
            }
            let opened = OpenOptions::new().write(true).open(&path);
            let truncated = opened.and_then(|file| {
                file.set_len((*end).min(position) - start)?;
                Ok(file)
            });
            let file = truncated.map_err(|error| io_error("cut", &path, &error))?;
            self.sync_staged(&file, *start)?;
        }
        sync_directory(&self.directory)
    }

    /// Fsyncs a staged file. After a failed fsync a repeated one may seem to succeed although the bytes are
    /// lost. Therefore the staged files from there on are removed, and the state must go back and produce
    /// them again.
    fn sync_staged(&self, file: &File, start: u64) -> Result<()> {
        let Err(error) = file.sync_all() else { return Ok(()) };
        self.discard_staged(start)?;
        let path = staged_path(&self.directory, start);
        let message = format!(
            "cannot sync {}: {error}; sink `{}` has given it up: restore the last checkpoint",
            path.display(),
            self.name
        );
        Err(Error::new(Code::SyncFailed, message))
    }

    /// Removes the staged files from a position on, the last first, so that the remaining ones have no gap.
    fn discard_staged(&self, start: u64) -> Result<()> {
        for (start, _) in PartFiles::list(&self.directory)?.staged.range(start..).rev() {
            let path = staged_path(&self.directory, *start);
            let removed = std::fs::remove_file(&path);
            removed.map_err(|error| io_error("remove", &path, &error))?;
        }
        Ok(())
    }

    /// Commits the staged files up to a position by renaming them. Returns the committed position. A file
    /// that ends beyond the position, because it was reopened since, is committed with the next checkpoint.
    fn publish(&self, files: &PartFiles, position: u64) -> Result<u64> {
        let mut committed = files.committed_position();
        for (start, end) in files.staged.range(..position) {
            if *start != committed || *end > position {
                break;
            }
            let from = staged_path(&self.directory, *start);
            let to = part_path(&self.directory, *start);
            let renamed = std::fs::rename(&from, to);
            renamed.map_err(|error| io_error("rename", &from, &error))?;
            committed = *end;
        }
        sync_directory(&self.directory)?;
        Ok(committed)
    }

    /// The file being written. A new one starts at the current position.
    fn active(&mut self) -> Result<&mut File> {
        let (file, _) = match self.active.take() {
            Some(active) => self.active.insert(active),
            None => {
                let path = staged_path(&self.directory, self.position);
                let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
                let file = file.map_err(|error| io_error("create", &path, &error))?;
                self.active.insert((file, self.position))
            }
        };
        Ok(file)
    }

    /// Compares repeated outputs with the committed ones. Returns the number of repeated bytes.
    fn check_replay(&self, bytes: &[u8]) -> Result<usize> {
        let replayed = self.committed.saturating_sub(self.position);
        let replayed = usize::try_from(replayed).unwrap_or(usize::MAX).min(bytes.len());
        if replayed == 0 {
            return Ok(0);
        }
        // Outputs that are elsewhere cannot be compared.
        let missing = self.start.saturating_sub(self.position);
        let missing = usize::try_from(missing).unwrap_or(usize::MAX).min(replayed);
        let mut previous = vec![0; replayed - missing];
        let mut committed = CommittedOutput::open(&self.directory)?;
        committed.seek(self.position + missing as u64);
        let read = committed.read_exact(&mut previous);
        read.map_err(|error| io_error("read", &self.directory, &error))?;
        if previous != bytes[missing..replayed] {
            let message = format!(
                "sink `{}` was given other output than it has committed, in the {replayed} bytes from {} on: the operator is not the one that made it, or gives different outputs for the same input",
                self.name, self.position
            );
            return Err(Error::new(Code::CorruptData, message));
        }
        Ok(replayed)
    }
}

impl<O: Serialize> FileSink<O> {
    fn encode_lines(&self, outputs: &[Output<O>]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for output in outputs {
            let result = if self.with_ids {
                serde_json::to_writer(&mut bytes, output)
            } else {
                serde_json::to_writer(&mut bytes, &output.value)
            };
            result.map_err(|error| {
                let message = format!("sink `{}`: {} is no JSON: {error}", self.name, output.id);
                Error::new(Code::InvalidValue, message)
            })?;
            bytes.push(b'\n');
        }
        Ok(bytes)
    }
}

impl<O: Serialize> Sink<O> for FileSink<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn assign(&mut self, shard_id: ShardId) -> Result<ShardId> {
        self.shard_id = Some(shard_id);
        if !self.directory.is_dir() {
            return Ok(shard_id);
        }
        Ok(PartFiles::list(&self.directory)?.stored_shard_id(shard_id.shard).unwrap_or(shard_id))
    }

    fn open(&mut self, position: u64) -> Result<OpenStatus> {
        self.active = None;
        self.create_directory()?;
        let mut files = PartFiles::list(&self.directory)?;
        files.check_content(&self.directory)?;
        files.check_staged(&self.directory, position)?;
        if files.end_position() < position {
            return Ok(OpenStatus::Lagging { position: files.end_position() });
        }
        self.mark_owner(&files)?;
        self.truncate_staged(&files, position)?;
        self.position = position;
        self.committed = files.committed_position();
        self.start = files.start;
        Ok(OpenStatus::Ready)
    }

    fn begin_at(&mut self, position: u64) -> Result<()> {
        self.create_directory()?;
        let files = PartFiles::list(&self.directory)?;
        if !self.continued || !files.is_empty() {
            return Ok(());
        }
        // Mark the shard first, because an unmarked directory that is not empty belongs to the first epoch.
        self.mark_owner(&files)?;
        self.create_marker(&start_marker_path(&self.directory, position))
    }

    fn write(&mut self, outputs: &[Output<O>]) -> Result<u64> {
        let bytes = self.encode_lines(outputs)?;
        let replayed = self.check_replay(&bytes)?;
        self.position += replayed as u64;
        let new = &bytes[replayed..];
        if !new.is_empty() {
            let result = self.active()?.write_all(new);
            result.map_err(|error| io_error("write into", &self.directory, &error))?;
            self.position += new.len() as u64;
        }
        Ok(self.position)
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<()> {
        let Some((file, start)) = self.active.take() else { return Ok(()) };
        self.sync_staged(&file, start)?;
        sync_directory(&self.directory)
    }

    fn commit(&mut self, _checkpoint: u64, position: u64) -> Result<()> {
        let mut files = PartFiles::list(&self.directory)?;
        // The file being written is not prepared.
        files.staged.retain(|start, _| self.active.as_ref().is_none_or(|(_, own)| start != own));
        self.committed = self.publish(&files, position)?;
        if files.end_position() >= position {
            return Ok(());
        }
        let message = format!(
            "sink `{}` was to commit {position} bytes, and has prepared {}: prepare before the checkpoint is taken",
            self.name,
            files.end_position()
        );
        Err(Error::new(Code::CorruptData, message))
    }

    /// Staged outputs stay and are committed with a later checkpoint.
    fn abort(&mut self, _checkpoint: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Cause;
    use mainstay_model::LogicalTime;

    #[test]
    fn what_could_not_be_synced_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let mut sink = FileSink::new("out", root.path());
        let output = |n| Output::new("o", b"k", Cause::Item(LogicalTime::new(0, n)), 0, n);
        sink.open(0).unwrap();
        let retained = sink.write(&[output(1)]).unwrap();
        sink.prepare(1).unwrap();
        let discarded = sink.write(&[output(2)]).unwrap();
        sink.prepare(2).unwrap();
        let position = sink.write(&[output(3)]).unwrap();
        sink.discard_staged(retained).unwrap();
        assert!(discarded < position);
        assert_eq!(sink.open(position).unwrap(), OpenStatus::Lagging { position: retained });
        assert_eq!(sink.open(retained).unwrap(), OpenStatus::Ready);
        assert_eq!(sink.write(&[output(2), output(3)]).unwrap(), position);
    }
}
