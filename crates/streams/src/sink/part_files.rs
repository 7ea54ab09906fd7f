//! Directory layout of a [`FileSink`](super::FileSink), and the reader of its committed files.
//!
//! ```text
//!   part-00000000000000000000   part-00000000000000000120 | staged-00000000000000000300   staged-...
//!   0                       120                       300   300
//!   committed: contiguous, in order, from 0 on          | staged: truncated to the position in the state
//!
//!   shard-00000000000000000001-2    empty: all files belong to shard 2 of epoch 1
//!   from-00000000000000000300       empty: earlier outputs were committed elsewhere
//! ```

use super::ShardId;
use crate::files::io_error;
use mainstay_model::{Code, Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const PART: &str = "part-";
const STAGED: &str = "staged-";
const SHARD: &str = "shard-";
const FROM: &str = "from-";
/// The read size for staged files, in bytes.
const READ_BYTES: usize = 64 << 10;

/// The content of a directory: end positions by start positions, and the owner.
#[derive(Debug, Default)]
pub(super) struct PartFiles {
    pub(super) shard_id: Option<ShardId>,
    /// Outputs before this position were committed elsewhere.
    pub(super) start: u64,
    pub(super) parts: BTreeMap<u64, u64>,
    pub(super) staged: BTreeMap<u64, u64>,
}

/// The path of a committed file.
pub(super) fn part_path(directory: &Path, start: u64) -> PathBuf {
    directory.join(format!("{PART}{start:020}"))
}

/// The path of a staged file.
pub(super) fn staged_path(directory: &Path, start: u64) -> PathBuf {
    directory.join(format!("{STAGED}{start:020}"))
}

/// The path of the empty file that records that earlier outputs were committed elsewhere.
pub(super) fn start_marker_path(directory: &Path, position: u64) -> PathBuf {
    directory.join(format!("{FROM}{position:020}"))
}

/// The path of the empty file that records the owning shard.
pub(super) fn shard_marker_path(directory: &Path, shard_id: ShardId) -> PathBuf {
    directory.join(format!("{SHARD}{:020}-{}", shard_id.epoch, shard_id.shard))
}

impl PartFiles {
    /// Lists a directory. Files with other names are ignored.
    pub(super) fn list(directory: &Path) -> Result<PartFiles> {
        let failed = |error: &io::Error| io_error("list", directory, error);
        let mut files = PartFiles::default();
        for entry in std::fs::read_dir(directory).map_err(|error| failed(&error))? {
            let entry = entry.map_err(|error| failed(&error))?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            files.shard_id = files.shard_id.or(parse_shard_marker(name));
            files.start = files.start.max(parse_number(name, FROM).unwrap_or(0));
            let (files_of_kind, start) =
                match (parse_number(name, PART), parse_number(name, STAGED)) {
                    (Some(start), _) => (&mut files.parts, start),
                    (_, Some(start)) => (&mut files.staged, start),
                    _ => continue,
                };
            let length = match entry.metadata() {
                Ok(length) => length,
                // The file was committed or removed after the directory was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io_error("look at", &entry.path(), &error)),
            };
            // A file whose end would exceed the largest position cannot come from a sink.
            let end = start.checked_add(length.len());
            files_of_kind.insert(start, end.ok_or_else(|| gap_error(directory, u64::MAX, start))?);
        }
        files.check_parts(directory)?;
        Ok(files)
    }

    /// The shard whose outputs are here, if any exist. An unmarked directory is from before rescaling
    /// existed, so it belongs to epoch 0.
    pub(super) fn stored_shard_id(&self, shard: u32) -> Option<ShardId> {
        let stored = self.shard_id.unwrap_or(ShardId { epoch: 0, shard });
        (!self.is_empty()).then_some(stored)
    }

    /// The committed position.
    pub(super) fn committed_position(&self) -> u64 {
        self.parts.last_key_value().map_or(self.start, |(_, end)| *end)
    }

    /// Returns whether no outputs are here and none were elsewhere.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.staged.is_empty() && self.start == 0
    }

    /// Checks the content of staged files. After a power failure they may contain zeros or end within a line.
    /// Such a tail does not count.
    pub(super) fn check_content(&mut self, directory: &Path) -> Result<()> {
        for (start, end) in &mut self.staged {
            let path = staged_path(directory, *start);
            let complete =
                complete_lines(&path).map_err(|error| io_error("read", &path, &error))?;
            *end = (*end).min(start.saturating_add(complete));
        }
        Ok(())
    }

    /// The position up to which the outputs are here without a gap, staged or committed.
    pub(super) fn end_position(&self) -> u64 {
        let complete =
            |end: u64, (start, next): (&u64, &u64)| if *start == end { *next } else { end };
        self.staged.iter().fold(self.committed_position(), complete)
    }

    /// Rejects committed files that are not contiguous.
    fn check_parts(&self, directory: &Path) -> Result<()> {
        let mut end = self.start;
        for (start, next) in &self.parts {
            if *start != end {
                return Err(gap_error(directory, end, *start));
            }
            end = *next;
        }
        Ok(())
    }

    /// Rejects staged files that are not contiguous with the committed ones, up to a position.
    pub(super) fn check_staged(&self, directory: &Path, position: u64) -> Result<()> {
        let mut end = self.committed_position();
        for (start, next) in self.staged.range(..position.max(end)) {
            if *start != end {
                return Err(gap_error(directory, end, *start));
            }
            end = *next;
        }
        Ok(())
    }
}

/// The number of bytes in complete lines before the first zero byte. JSON lines contain no zero bytes.
fn complete_lines(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut read = 0;
    let mut complete = 0;
    loop {
        let count = file.read(&mut buffer)?;
        let zero = buffer[..count].iter().position(|byte| *byte == 0);
        let valid = &buffer[..zero.unwrap_or(count)];
        if let Some(end) = valid.iter().rposition(|byte| *byte == b'\n') {
            complete = read + end as u64 + 1;
        }
        read += count as u64;
        if count == 0 || zero.is_some() {
            return Ok(complete);
        }
    }
}

/// Parses the name of a shard mark. A name in another spelling, such as `-02`, is ignored.
fn parse_shard_marker(name: &str) -> Option<ShardId> {
    let (epoch, shard) = name.strip_prefix(SHARD)?.split_once('-')?;
    let shard_id = ShardId { epoch: parse_number(epoch, "")?, shard: shard.parse().ok()? };
    (shard_marker_path(Path::new(""), shard_id) == Path::new(name)).then_some(shard_id)
}

/// Parses a 20-digit number after a prefix.
fn parse_number(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let is_number = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Parses the name of a sink's file and formats it again, for fuzzers; `None` for other files.
#[cfg(any(test, fuzzing))]
pub(crate) fn reformat_name(name: &str) -> Option<String> {
    let directory = Path::new("");
    let numbered = [
        (PART, part_path as fn(&Path, u64) -> PathBuf),
        (STAGED, staged_path),
        (FROM, start_marker_path),
    ];
    let mut paths =
        numbered.iter().filter_map(|(kind, path)| Some(path(directory, parse_number(name, kind)?)));
    let path =
        paths.next().or_else(|| Some(shard_marker_path(directory, parse_shard_marker(name)?)))?;
    path.to_str().map(str::to_owned)
}

#[cold]
fn gap_error(directory: &Path, end: u64, start: u64) -> Error {
    let message = format!(
        "{} holds output up to byte {end}, and the next file begins at {start}: a file was lost, changed or put there",
        directory.display()
    );
    Error::new(Code::CorruptData, message)
}

/// All committed output of a [`FileSink`](super::FileSink), in order, as of the time of opening.
#[derive(Debug)]
pub struct CommittedOutput {
    directory: PathBuf,
    parts: BTreeMap<u64, u64>,
    start: u64,
    offset: u64,
    file: Option<File>,
}

impl CommittedOutput {
    pub(super) fn open(directory: &Path) -> Result<CommittedOutput> {
        // Retry once: the writer may have renamed files during the listing, so that one was missed.
        let listing = PartFiles::list(directory).or_else(|_| PartFiles::list(directory));
        let PartFiles { parts, start, .. } = listing?;
        Ok(CommittedOutput {
            directory: directory.to_owned(),
            parts,
            start,
            offset: start,
            file: None,
        })
    }

    /// The total length, in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.parts.last_key_value().map_or(0, |(_, end)| *end - self.start)
    }

    /// Continues at an offset.
    pub(super) fn seek(&mut self, offset: u64) {
        self.offset = offset;
        self.file = None;
    }

    /// The file at the current offset, with its end position.
    fn file(&mut self) -> io::Result<Option<(&mut File, u64)>> {
        let Some((start, end)) = self.parts.range(..=self.offset).next_back() else {
            return Ok(None);
        };
        if self.offset >= *end {
            return Ok(None);
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut file = File::open(part_path(&self.directory, *start))?;
                file.seek(SeekFrom::Start(self.offset - start))?;
                file
            }
        };
        Ok(Some((self.file.insert(file), *end)))
    }
}

impl Read for CommittedOutput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let offset = self.offset;
        let Some((file, end)) = self.file()? else { return Ok(0) };
        let limit = out.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        let read = file.read(&mut out[..limit])?;
        if read == 0 && limit > 0 {
            let message = format!("committed output ends at byte {offset}, before byte {end}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        self.offset += read as u64;
        if self.offset == end {
            self.file = None;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_we_write_says_whose_outputs_are_there() {
        let name = "shard-00000000000000000001-2";
        assert_eq!(parse_shard_marker(name), Some(ShardId { epoch: 1, shard: 2 }));
        for other in ["shard-00000000000000000001-02", "shard-00000000000000000001-+2", "shard-1-2"]
        {
            assert_eq!(parse_shard_marker(other), None, "{other}");
        }
    }
}
