//! The events on a simulated disk.

use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Inode number of a file or directory.
pub type Ino = u64;

/// Inode number of the root directory.
pub const ROOT: Ino = 1;

/// Type of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A file or directory was created.
    Make {
        /// Inode of the directory.
        parent: Ino,
        /// Its name in that directory.
        name: String,
        /// Its inode number.
        ino: Ino,
        /// Its type.
        kind: Kind,
    },
    /// Bytes were written to a file.
    Write {
        /// Inode of the file.
        ino: Ino,
        /// Offset in bytes.
        offset: u64,
        /// The written bytes.
        bytes: Vec<u8>,
    },
    /// A file was truncated or extended with zeros.
    Resize {
        /// Inode of the file.
        ino: Ino,
        /// The new length in bytes.
        len: u64,
    },
    /// An entry was renamed, replacing the target if it existed.
    Rename {
        /// Old directory and name.
        from: (Ino, String),
        /// New directory and name.
        to: (Ino, String),
    },
    /// A hard link was created.
    Link {
        /// Inode of the file.
        ino: Ino,
        /// Inode of the directory.
        parent: Ino,
        /// The additional name.
        name: String,
    },
    /// A name was removed.
    Remove {
        /// Inode of the directory.
        parent: Ino,
        /// The removed name.
        name: String,
    },
    /// A file or a directory was synced.
    Sync {
        /// Inode of the file or directory.
        ino: Ino,
    },
    /// The fsync of a file failed and its dirty pages were dropped: reads still return them until power
    /// fails.
    Dropped {
        /// Inode of the file.
        ino: Ino,
    },
    /// A journal line of a writer.
    Note(String),
}

impl Event {
    /// Returns whether it creates, changes or removes a name.
    pub fn is_about_names(&self) -> bool {
        matches!(
            self,
            Event::Make { .. } | Event::Rename { .. } | Event::Link { .. } | Event::Remove { .. }
        )
    }

    /// Returns whether a cut right before or after it may have a distinct result.
    pub fn is_boundary(&self) -> bool {
        !matches!(self, Event::Write { .. } | Event::Note(_))
    }
}

/// A recorder of all events, in order. Clones share the same tape.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Vec<Event>>>);

impl Tape {
    /// Appends an event.
    pub fn push(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Takes all events recorded so far.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns whether the tape has no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
