//! Frees the disk space of removed tables in small steps, like RocksDB's delete scheduler.
//!
//! ```text
//!   compacted table --open--> [ waiting ] --unlinked, no reader--> truncate 1 MiB, sync; a pause; 1 MiB ... --> closed
//! ```
//!
//! With the mount option `discard`, a file system reports all blocks of a deleted file to the device at once.
//! For a table of 64 MiB, many devices need tens of milliseconds, and the fsync of a commit waits for them.
//! lsm-tree unlinks a table, but its blocks stay allocated while this scheduler holds it open. When the
//! process ends, the kernel frees them.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

/// Bytes freed per step.
const PART_BYTES: u64 = 1 << 20;
/// Pause between two steps, in which the device serves other requests.
const PAUSE: Duration = Duration::from_millis(4);
/// With more than this many bytes left to free, the pauses are skipped, so that the disk does not fill up.
const BACKLOG_BYTES: u64 = 256 << 20;
/// Maximum number of open files. Beyond it, the oldest are closed, which frees them at once.
pub(super) const OPEN_FILES: usize = 64;
/// Polling interval for tables that readers still use.
const READERS_EVERY: Duration = Duration::from_secs(1);

/// A table that the manifest no longer lists.
pub(super) struct Unlisted {
    path: PathBuf,
    file: File,
}

impl Unlisted {
    /// Opens a table before it is unlinked. If that fails, its space is freed when it is unlinked.
    pub(super) fn open(path: PathBuf) -> Option<Unlisted> {
        let file = File::options().write(true).open(&path).ok()?;
        Unlisted::of(path, file)
    }

    /// Skips file systems without link counts, where it is unknown when the last name is removed.
    fn of(path: PathBuf, file: File) -> Option<Unlisted> {
        let counts_names = file.metadata().ok()?.nlink() > 0;
        counts_names.then_some(Unlisted { path, file })
    }

    /// The bytes left to free; zero while the file has a name, through which readers may open it.
    fn free_bytes(&self) -> u64 {
        match self.file.metadata() {
            Ok(about) if about.nlink() == 0 => about.len(),
            _ => 0,
        }
    }

    /// Returns whether the file has space to free, now or once its readers have finished.
    fn is_wanted(&self) -> bool {
        let Ok(about) = self.file.metadata() else { return false };
        let has_name = || fs::metadata(&self.path).is_ok_and(|named| named.ino() == about.ino());
        match about.nlink() {
            0 => about.len() > 0,
            // If the file has only another name, it belongs to someone else, such as a snapshot.
            _ => has_name(),
        }
    }

    /// Truncates the last part. The sync makes the file system report it to the device before the next part.
    fn free_part(&self) -> io::Result<()> {
        self.file.set_len(self.free_bytes().saturating_sub(PART_BYTES))?;
        self.file.sync_all()
    }
}

/// Frees the space of removed tables on a background thread, started on first use. Dropping the scheduler
/// ends the thread and leaves the rest to the kernel.
#[derive(Default)]
pub struct DeleteScheduler {
    running: Mutex<Option<(Sender<Unlisted>, JoinHandle<()>)>>,
}

impl DeleteScheduler {
    /// Takes over tables that are, or will be, unlinked.
    pub(super) fn take(&self, tables: Vec<Unlisted>) {
        if tables.is_empty() {
            return;
        }
        let mut running = self.running.lock();
        if running.is_none() {
            let (sender, receiver) = mpsc::channel();
            let thread = thread::Builder::new().name("mainstay-delete".to_owned());
            // Without a thread the files are closed here, and their space is freed when they are unlinked.
            let Ok(thread) = thread.spawn(move || run(&receiver)) else { return };
            *running = Some((sender, thread));
        }
        if let Some((sender, _)) = &*running {
            tables.into_iter().for_each(|table| drop(sender.send(table)));
        }
    }
}

impl Drop for DeleteScheduler {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.running.get_mut().take() {
            drop(sender);
            // A thread that panicked has closed its files.
            let _ = thread.join();
        }
    }
}

fn run(tables: &Receiver<Unlisted>) {
    let mut waiting = VecDeque::new();
    loop {
        let next = match free_next(&mut waiting) {
            Some(pause) => tables.recv_timeout(pause),
            None => tables.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(table) => waiting.push_back(table),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting.extend(tables.try_iter());
    }
}

/// Frees a part of the oldest table without readers. Returns the time until the next call; `None` if nothing
/// is left to wait for.
fn free_next(waiting: &mut VecDeque<Unlisted>) -> Option<Duration> {
    waiting.retain(Unlisted::is_wanted);
    waiting.drain(..waiting.len().saturating_sub(OPEN_FILES));
    let backlog_bytes: u64 = waiting.iter().map(Unlisted::free_bytes).sum();
    let Some(place) = waiting.iter().position(|table| table.free_bytes() > 0) else {
        return (!waiting.is_empty()).then_some(READERS_EVERY);
    };
    if waiting[place].free_part().is_err() {
        // Closing it frees all its space at once.
        waiting.remove(place);
    }
    Some(if backlog_bytes > BACKLOG_BYTES { Duration::ZERO } else { PAUSE })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(root: &tempfile::TempDir, name: &str, parts: u64) -> (PathBuf, Unlisted) {
        let path = root.path().join(name);
        File::create(&path).unwrap().set_len(parts * PART_BYTES).unwrap();
        let opened = Unlisted::open(path.clone()).unwrap();
        (path, opened)
    }

    #[test]
    fn a_removed_table_is_freed_part_by_part() {
        let root = tempfile::tempdir().unwrap();
        let (path, opened) = table(&root, "1", 3);
        let watched = File::open(&path).unwrap();
        let mut waiting = VecDeque::from([opened]);
        fs::remove_file(path).unwrap();
        for parts in [2, 1, 0] {
            assert_eq!(free_next(&mut waiting), Some(PAUSE));
            assert_eq!(watched.metadata().unwrap().len(), parts * PART_BYTES);
        }
        assert_eq!((free_next(&mut waiting), waiting.len()), (None, 0));
    }

    #[test]
    fn a_table_with_a_name_stays_whole_and_those_behind_it_are_freed() {
        let root = tempfile::tempdir().unwrap();
        let ((read, first), (gone, second)) = (table(&root, "1", 2), table(&root, "2", 1));
        let mut waiting = VecDeque::from([first, second]);
        fs::remove_file(gone).unwrap();
        assert_eq!(free_next(&mut waiting), Some(PAUSE));
        assert_eq!(free_next(&mut waiting), Some(READERS_EVERY));
        assert_eq!((fs::metadata(&read).unwrap().len(), waiting.len()), (2 * PART_BYTES, 1));
        // A snapshot made of hard links keeps its data.
        let linked = root.path().join("linked");
        fs::rename(&read, &linked).unwrap();
        assert_eq!((free_next(&mut waiting), waiting.len()), (None, 0));
        assert_eq!(fs::metadata(linked).unwrap().len(), 2 * PART_BYTES);
    }

    #[test]
    fn a_file_without_a_count_of_names_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (path, opened) = table(&root, "1", 1);
        fs::remove_file(&path).unwrap();
        assert!(Unlisted::of(path, opened.file).is_none());
    }

    #[test]
    fn many_bytes_are_freed_without_pauses_and_many_files_at_once() {
        let root = tempfile::tempdir().unwrap();
        let mut waiting = VecDeque::new();
        for n in 0..=OPEN_FILES {
            let (path, opened) = table(&root, &n.to_string(), BACKLOG_BYTES / PART_BYTES);
            fs::remove_file(path).unwrap();
            waiting.push_back(opened);
        }
        assert_eq!((free_next(&mut waiting), waiting.len()), (Some(Duration::ZERO), OPEN_FILES));
    }

    #[test]
    fn the_thread_frees_what_it_takes_and_ends() {
        let root = tempfile::tempdir().unwrap();
        let (path, opened) = table(&root, "1", 2);
        let watched = File::open(&path).unwrap();
        fs::remove_file(path).unwrap();
        let scheduler = DeleteScheduler::default();
        scheduler.take(vec![opened]);
        while watched.metadata().unwrap().len() > 0 {
            thread::yield_now();
        }
        drop(scheduler);
    }
}
