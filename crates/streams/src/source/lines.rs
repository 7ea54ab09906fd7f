//! File source: the lines of a file.
//!
//! ```text
//!   a line\n another\n the last
//!   ^       ^         ^        ^
//!   time 0  time 7    time 16  positions: 7, 16, 24
//! ```

use super::{Source, SourceItem};
use crate::files::io_error;
use mainstay_model::{Code, Error, LogicalTime, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The longest line, in bytes, so that an endless line cannot fill the memory.
pub const LINE_LIMIT_BYTES: usize = 16 << 20;

/// The lines of a file. A line's time is its byte offset, so an append-only file can be read again at any
/// time. A last line without a line end counts. If it is extended later, that is an error, because it was
/// already read without the extension.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Lines, Source};
/// let directory = tempfile::tempdir().unwrap();
/// let path = directory.path().join("words.txt");
/// std::fs::write(&path, "so\nit\ngoes").unwrap();
///
/// let mut lines = Lines::open("words", &path)?.epoch(4);
/// lines.seek(3)?;
/// let read = lines.next()?.unwrap();
/// assert_eq!((read.item.as_str(), read.time, read.position), ("it", LogicalTime::new(4, 3), 6));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Debug)]
pub struct Lines {
    name: String,
    path: PathBuf,
    file: BufReader<File>,
    epoch: u64,
    offset: u64,
    /// True if the last line read had no line end.
    is_last_line_open: bool,
}

impl Lines {
    /// Opens a file, which must exist.
    pub fn open(name: &str, path: impl AsRef<Path>) -> Result<Lines> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(|error| io_error("open", &path, &error))?;
        let file = BufReader::new(file);
        Ok(Lines {
            name: name.to_owned(),
            path,
            file,
            epoch: 0,
            offset: 0,
            is_last_line_open: false,
        })
    }

    /// Sets the epoch of the lines' times; the default is 0. A file that replaces another one needs a higher
    /// epoch.
    #[must_use]
    pub fn epoch(mut self, epoch: u64) -> Lines {
        self.epoch = epoch;
        self
    }

    fn file_error(&self, what: &str, error: &io::Error) -> Error {
        io_error(what, &self.path, error)
    }

    fn input_error(&self, code: Code, what: &str) -> Error {
        Error::new(code, format!("source `{}`: {} {what}", self.name, self.path.display()))
    }

    /// Rejects a position at which no line of this file begins, because it belongs to another file.
    fn check_position(&mut self, position: u64) -> Result<()> {
        let length = self.file.get_ref().metadata().map(|data| data.len());
        let length = length.map_err(|error| self.file_error("look at", &error))?;
        if position > length {
            let what = format!(
                "has {length} bytes, and reading was to go on behind {position}: it is not the file that was read"
            );
            return Err(self.input_error(Code::InvalidArgument, &what));
        }
        if position == 0 || position == length || self.byte_before(position)? == b'\n' {
            return Ok(());
        }
        let what =
            format!("has no line that begins at {position}: it is not the file that was read");
        Err(self.input_error(Code::InvalidArgument, &what))
    }

    fn byte_before(&mut self, position: u64) -> Result<u8> {
        let mut byte = [0];
        let at = SeekFrom::Start(position.saturating_sub(1));
        let read = self.file.seek(at).and_then(|_| self.file.read_exact(&mut byte));
        read.map_err(|error| self.file_error("read", &error))?;
        Ok(byte[0])
    }

    /// The next line with its line end, if one exists.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let limit = LINE_LIMIT_BYTES as u64 + 1;
        let read = self.file.by_ref().take(limit).read_until(b'\n', &mut line);
        read.map_err(|error| self.file_error("read", &error))?;
        if line.len() > LINE_LIMIT_BYTES {
            let what = format!(
                "has a line of more than {LINE_LIMIT_BYTES} bytes at offset {}",
                self.offset
            );
            return Err(self.input_error(Code::ValueTooLarge, &what));
        }
        Ok(Some(line).filter(|line| !line.is_empty()))
    }
}

impl Source for Lines {
    type Item = String;

    fn name(&self) -> &str {
        &self.name
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.check_position(position)?;
        let result = self.file.seek(SeekFrom::Start(position));
        result.map_err(|error| self.file_error("read", &error))?;
        self.offset = position;
        self.is_last_line_open = false;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<SourceItem<String>>> {
        let Some(line) = self.read_line()? else { return Ok(None) };
        if self.is_last_line_open {
            let what =
                format!("goes on at {}, where its last line was read as it was", self.offset);
            return Err(self.input_error(Code::InvalidValue, &what));
        }
        let time = LogicalTime::new(self.epoch, self.offset);
        let position = self.offset + line.len() as u64;
        let Ok(mut item) = String::from_utf8(line) else {
            let what = format!("has a line that is not UTF-8 at offset {}", self.offset);
            return Err(self.input_error(Code::InvalidValue, &what));
        };
        self.offset = position;
        self.is_last_line_open = !item.ends_with('\n');
        item.truncate(trim_line_end(&item).len());
        Ok(Some(SourceItem { item, time, position }))
    }
}

/// A line without its line end, `\n` or `\r\n`.
fn trim_line_end(line: &str) -> &str {
    match line.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (tempfile::TempDir, Lines) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        std::fs::write(&path, text).unwrap();
        (directory, Lines::open("lines", path).unwrap())
    }

    fn all(lines: &mut Lines) -> Vec<(String, u64, u64)> {
        let read = std::iter::from_fn(|| lines.next().unwrap());
        read.map(|read| (read.item, read.time.round, read.position)).collect()
    }

    #[test]
    fn a_last_line_needs_no_end() {
        let (_directory, mut lines) = lines("a\n\nbc\r\nd");
        let read = all(&mut lines);
        let line = |text: &str, time, position| (text.to_owned(), time, position);
        assert_eq!(read, [line("a", 0, 2), line("", 2, 3), line("bc", 3, 7), line("d", 7, 8)]);
    }

    #[test]
    fn reading_goes_on_behind_every_line() {
        let (_directory, mut lines) = lines("a\n\nbc\r\nd");
        let expected = all(&mut lines);
        for (count, (.., position)) in expected.iter().enumerate() {
            lines.seek(*position).unwrap();
            assert_eq!(all(&mut lines), expected[count + 1..]);
        }
    }

    #[test]
    fn positions_of_another_file_are_refused() {
        let (_directory, mut lines) = lines("a\nbc\n");
        let beyond = lines.seek(6).unwrap_err();
        assert_eq!(beyond.code(), Code::InvalidArgument);
        assert!(beyond.message().contains("has 5 bytes"), "{beyond}");
        let within = lines.seek(3).unwrap_err();
        assert!(within.message().contains("no line that begins at 3"), "{within}");
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_offset() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        std::fs::write(&path, b"a\n\xff\n").unwrap();
        let mut lines = Lines::open("lines", path).unwrap();
        lines.next().unwrap();
        let error = lines.next().unwrap_err();
        assert!(error.message().contains("not UTF-8 at offset 2"), "{error}");
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let (_directory, mut lines) = lines(&"x".repeat(LINE_LIMIT_BYTES + 1));
        assert_eq!(lines.next().unwrap_err().code(), Code::ValueTooLarge);
    }

    #[test]
    fn a_file_grows_by_whole_lines() {
        let (directory, mut lines) = lines("a\n");
        let append = |text: &str| {
            use std::io::Write;
            let path = directory.path().join("lines");
            let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        assert_eq!(all(&mut lines).len(), 1);
        append("b\nc");
        assert_eq!(all(&mut lines).len(), 2);
        append("c\n");
        let error = lines.next().unwrap_err();
        assert!(error.message().contains("goes on at 5"), "{error}");
        assert!(lines.seek(5).is_err(), "nor can another process go on there");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Lines::open("lines", "no/such/file").unwrap_err();
        assert!(error.message().contains("no/such/file"), "{error}");
    }
}
