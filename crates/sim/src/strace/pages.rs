//! A model of the page cache: tracks dirty data, and the data that Linux may drop after a failed sync.

use super::call::{Call, Errno};
use super::trace::Event;
use crate::disk::Image;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The state of all files after a trace.
#[derive(Debug, Default)]
pub struct Pages(BTreeMap<PathBuf, File>);

#[derive(Debug, Default)]
struct File {
    /// The file's path before the trace, if it existed, and how much of its content has not been
    /// truncated.
    origin: Option<(PathBuf, u64)>,
    /// The file offset of the next `write`.
    cursor: u64,
    /// Written and unsynced ranges, with the line of the write.
    dirty: Vec<(usize, Range<u64>)>,
    /// Ranges that a sync failed to write. They count as clean, so no later sync writes them, and the
    /// disk keeps the old content.
    forgotten: Vec<Range<u64>>,
}

impl Pages {
    /// Returns the state after a trace.
    pub fn after(events: &[Event]) -> Pages {
        let mut pages = Pages::default();
        events.iter().for_each(|event| pages.follow(event));
        pages
    }

    fn follow(&mut self, event: &Event) {
        let answer = match &event.answer {
            Ok(answer) => *answer,
            // A failed call has no effect here. A failed sync has one, unless it was interrupted.
            Err(error) if event.call.syncs() && error != Errno::Eintr.name() => {
                return self.at(event).forget(event.begun);
            }
            Err(_) => return,
        };
        match (event.call, event.numbers.as_slice()) {
            (Call::Openat, _) => self.at(event).cursor = 0,
            (Call::Pwrite, [.., offset]) => self.at(event).write(event.ended, *offset, answer),
            (Call::Write, _) => {
                let file = self.at(event);
                file.write(event.ended, file.cursor, answer);
                file.cursor += answer;
            }
            (Call::Ftruncate, [.., len]) => self.at(event).cut(*len),
            (Call::Fsync | Call::Fdatasync, _) => {
                self.at(event).dirty.retain(|(written, _)| *written >= event.begun);
            }
            (Call::Rename | Call::Renameat, _) => self.rename(event),
            (Call::Unlink | Call::Unlinkat, _) => self.remove(&event.path),
            _ => {}
        }
    }

    fn at(&mut self, event: &Event) -> &mut File {
        let path = &event.path;
        self.0
            .entry(path.clone())
            .or_insert_with(|| File { origin: Some((path.clone(), u64::MAX)), ..File::default() })
    }

    /// The next file of this name is a new file.
    fn remove(&mut self, path: &Path) {
        self.0.insert(path.to_owned(), File::default());
    }

    /// Renames a path. Files below a renamed directory move with it.
    fn rename(&mut self, event: &Event) {
        let Some(to) = &event.to else { return };
        self.at(event);
        self.0.retain(|path, _| !path.starts_with(to));
        let all = std::mem::take(&mut self.0).into_iter();
        let (moved, stays) = all.partition(|(path, _)| path.starts_with(&event.path));
        self.0 = stays;
        let moved: BTreeMap<PathBuf, File> = moved;
        for (path, file) in moved {
            let below = path.strip_prefix(&event.path).unwrap_or(Path::new(""));
            // The path itself is not joined, because joining an empty path would add a separator.
            let named = below == Path::new("");
            self.0.insert(if named { to.clone() } else { to.join(below) }, file);
        }
        self.remove(&event.path);
    }

    /// Rewrites the files of a directory as if Linux had dropped all the data that it may drop.
    /// `before` is the directory's old content. Returns how many bytes changed.
    pub fn drop_forgotten(&self, directory: &Path, before: &Image) -> io::Result<u64> {
        let mut bytes = 0;
        for (path, file) in &self.0 {
            if file.forgotten.is_empty() || !path.is_file() {
                continue;
            }
            let open = OpenOptions::new().read(true).write(true).open(path)?;
            let len = open.metadata()?.len();
            let was = file.was(directory, before);
            for range in &file.forgotten {
                bytes += put_back(&open, range.start..range.end.min(len), was)?;
            }
        }
        Ok(bytes)
    }
}

/// Restores the old content of a range. Returns how many bytes changed.
fn put_back(open: &fs::File, range: Range<u64>, was: &[u8]) -> io::Result<u64> {
    let mut is = vec![0; range.end.saturating_sub(range.start) as usize];
    open.read_exact_at(&mut is, range.start)?;
    let old: Vec<u8> = (range.start..)
        .take(is.len())
        .map(|at| was.get(at as usize).copied().unwrap_or(0))
        .collect();
    open.write_all_at(&old, range.start)?;
    Ok(is.iter().zip(&old).filter(|(is, old)| is != old).count() as u64)
}

impl File {
    /// Returns the old content, without the truncated part. Within one process the log overwrites only
    /// zeros.
    fn was<'a>(&self, directory: &Path, before: &'a Image) -> &'a [u8] {
        let Some((path, kept)) = &self.origin else { return &[] };
        let path = path.strip_prefix(directory).unwrap_or(path);
        let bytes = before.files().find(|(at, _)| *at == path).map_or(&[][..], |(_, bytes)| bytes);
        &bytes[..bytes.len().min(*kept as usize)]
    }

    /// A rewritten range becomes dirty again, so the next sync may write it.
    fn write(&mut self, line: usize, offset: u64, len: u64) {
        let range = offset..offset + len;
        self.forgotten = without(&self.forgotten, &range);
        self.dirty.push((line, range));
    }

    fn cut(&mut self, len: u64) {
        if let Some((_, kept)) = &mut self.origin {
            *kept = len.min(*kept);
        }
        let gone = len..u64::MAX;
        self.forgotten = without(&self.forgotten, &gone);
        for (_, range) in &mut self.dirty {
            range.end = range.end.min(len.max(range.start));
        }
    }

    /// Handles a failed sync that began on this line.
    fn forget(&mut self, begun: usize) {
        let tried = self.dirty.extract_if(.., |(written, _)| *written < begun);
        self.forgotten.extend(tried.map(|(_, range)| range));
    }
}

/// Returns the ranges without `gone`.
fn without(ranges: &[Range<u64>], gone: &Range<u64>) -> Vec<Range<u64>> {
    let left = |range: &Range<u64>| {
        let before = range.start..range.end.min(gone.start);
        let behind = range.start.max(gone.end)..range.end;
        [before, behind]
    };
    ranges.iter().flat_map(left).filter(|range| range.start < range.end).collect()
}

#[cfg(test)]
mod tests {
    use super::super::trace::read;
    use super::*;

    /// Returns the dropped ranges of a file as text.
    fn forgotten(trace: &str, path: &str) -> Vec<String> {
        let file = Pages::after(&read(trace)).0.remove(Path::new(path));
        let ranges = file.map_or(Vec::new(), |file| file.forgotten);
        ranges.iter().map(|range| format!("{range:?}")).collect()
    }

    const FAILED: &str = "7 fsync(5</d/a>) = -1 EIO (Input/output error) (INJECTED)\n";

    #[test]
    fn what_a_failed_sync_did_not_write_is_forgotten_whatever_is_synced_later() {
        let trace = format!(
            "7 pwrite64(5</d/a>, \"\"..., 8, 0) = 8\n7 fsync(5</d/a>) = 0\n\
             7 pwrite64(5</d/a>, \"\"..., 8, 8) = 8\n{FAILED}\
             7 pwrite64(5</d/a>, \"\"..., 8, 16) = 8\n7 fsync(5</d/a>) = 0\n"
        );
        assert_eq!(forgotten(&trace, "/d/a"), ["8..16"]);
        let mended = format!("{trace}7 pwrite64(5</d/a>, \"\"..., 4, 8) = 4\n");
        assert_eq!(forgotten(&mended, "/d/a"), ["12..16"]);
    }

    #[test]
    fn a_sync_that_was_interrupted_forgets_nothing() {
        let trace = "7 write(5</d/a>, \"\"..., 8) = 8\n\
                     7 fsync(5</d/a>) = -1 EINTR (Interrupted system call) (INJECTED)\n";
        assert!(forgotten(trace, "/d/a").is_empty());
    }

    #[test]
    fn what_was_written_while_a_sync_ran_is_not_of_it() {
        let trace = "7 fsync(5</d/a> <unfinished ...>\n8 write(5</d/a>, \"\"..., 8) = 8\n\
                     7 <... fsync resumed>) = -1 EIO (Input/output error) (INJECTED)\n";
        assert!(forgotten(trace, "/d/a").is_empty());
        assert_eq!(forgotten(&format!("{trace}{FAILED}"), "/d/a"), ["0..8"]);
    }

    #[test]
    fn what_is_written_over_what_was_there_leaves_that() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a");
        fs::write(&file, "old and new").unwrap();
        let before = Image::read(home.path()).unwrap();
        fs::write(&file, "new and new, and more").unwrap();
        let name = file.display();
        let trace = format!(
            "7 pwrite64(5<{name}>, \"\"..., 3, 0) = 3\n7 pwrite64(5<{name}>, \"\"..., 10, 11) = 10\n\
             7 fsync(5<{name}>) = -1 EIO (Input/output error) (INJECTED)\n"
        );
        let dropped = Pages::after(&read(&trace)).drop_forgotten(home.path(), &before).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"old and new\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(dropped, 13);
    }

    #[test]
    fn a_file_is_followed_under_its_new_name() {
        let trace = format!(
            "7 write(5</d/a>, \"\"..., 8) = 8\n{FAILED}7 rename(\"/d/a\", \"/d/b\") = 0\n\
             7 rename(\"/d\", \"/e\") = 0\n"
        );
        assert_eq!(forgotten(&trace, "/e/b"), ["0..8"]);
        let gone = format!("{trace}7 ftruncate(5</e/b>, 2) = 0\n");
        assert_eq!(forgotten(&gone, "/e/b"), ["0..2"]);
        assert!(forgotten(&format!("{gone}7 unlink(\"/e/b\") = 0\n"), "/e/b").is_empty());
    }
}
