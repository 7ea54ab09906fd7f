//! Frees the space of removed tables in small parts, as RocksDB's delete scheduler does.
//!
//! ```text
//!   compacted table --open--> [ waiting ] --no name, no reader--> 1 MiB cut off, synced; a pause; 1 MiB ... --> closed
//! ```
//!
//! A file system that is mounted with `discard` tells the device of all blocks of a removed file at once. Many devices take tens of milliseconds
//! for the 64 MiB of a table, and the sync of a commit waits for them. lsm-tree removes the name of a table; as long as we have the file
//! open, its blocks stay. When the process ends, the kernel frees them.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

/// So many bytes are freed at a time.
const PART_BYTES: u64 = 1 << 20;
/// Between two parts, in which the device is left to others.
const PAUSE: Duration = Duration::from_millis(4);
/// Beyond so many bytes to be freed there are no pauses: the disk must not fill up with them.
const BACKLOG_BYTES: u64 = 256 << 20;
/// More files are not kept open: the oldest are closed, and freed at once.
pub(super) const OPEN_FILES: usize = 64;
/// How often the tables that are still read are looked at.
const READERS_EVERY: Duration = Duration::from_secs(1);

/// A table that is no longer listed.
pub(super) struct Unlisted {
    path: PathBuf,
    file: File,
}

impl Unlisted {
    /// Opens a table before its name is removed. One that cannot be opened is freed when it is removed.
    pub(super) fn open(path: PathBuf) -> Option<Unlisted> {
        let file = File::options().write(true).open(&path).ok()?;
        Unlisted::of(path, file)
    }

    /// A file system that counts no names cannot tell when the last one is removed: its files are left alone.
    fn of(path: PathBuf, file: File) -> Option<Unlisted> {
        let counts_names = file.metadata().ok()?.nlink() > 0;
        counts_names.then_some(Unlisted { path, file })
    }

    /// How many bytes there are to free; none while it has a name, which somebody may read it by.
    fn free_bytes(&self) -> u64 {
        match self.file.metadata() {
            Ok(about) if about.nlink() == 0 => about.len(),
            _ => 0,
        }
    }

    /// Whether there is something to free, now or when its readers are done.
    fn is_wanted(&self) -> bool {
        let Ok(about) = self.file.metadata() else { return false };
        let has_name = || fs::metadata(&self.path).is_ok_and(|named| named.ino() == about.ino());
        match about.nlink() {
            0 => about.len() > 0,
            // One that has another name is none of ours any more.
            _ => has_name(),
        }
    }

    /// Frees the last part. The sync has the file system tell the device before the next one.
    fn free_part(&self) -> io::Result<()> {
        self.file.set_len(self.free_bytes().saturating_sub(PART_BYTES))?;
        self.file.sync_all()
    }
}

/// Frees the space of removed tables on a thread, which is started when there is something to do. Dropped, it ends the thread and leaves
/// the rest to the kernel.
#[derive(Default)]
pub struct DeleteScheduler {
    running: Mutex<Option<(Sender<Unlisted>, JoinHandle<()>)>>,
}

impl DeleteScheduler {
    /// Takes tables that are, or will be, removed.
    pub(super) fn take(&self, tables: Vec<Unlisted>) {
        if tables.is_empty() {
            return;
        }
        let mut running = self.running.lock();
        if running.is_none() {
            let (sender, receiver) = mpsc::channel();
            let thread = thread::Builder::new().name("mainstay-delete".to_owned());
            // Without a thread they are closed here, and freed when they are removed.
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

/// Frees a part of the oldest table that nobody reads. Gives the time until the next one; none when there is nothing to wait for.
fn free_next(waiting: &mut VecDeque<Unlisted>) -> Option<Duration> {
    waiting.retain(Unlisted::is_wanted);
    waiting.drain(..waiting.len().saturating_sub(OPEN_FILES));
    let backlog_bytes: u64 = waiting.iter().map(Unlisted::free_bytes).sum();
    let Some(place) = waiting.iter().position(|table| table.free_bytes() > 0) else {
        return (!waiting.is_empty()).then_some(READERS_EVERY);
    };
    if waiting[place].free_part().is_err() {
        // Closed, it is freed at once.
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
        // A snapshot made of links keeps what it has.
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
