//! What happens on a disk, in order.

use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of a file or a directory.
pub type Ino = u64;

/// The directory that everything is in.
pub const ROOT: Ino = 1;

/// A file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Something new has a name.
    Make {
        /// The directory it is in.
        parent: Ino,
        /// Its name there.
        name: String,
        /// Its number.
        ino: Ino,
        /// What it is.
        kind: Kind,
    },
    /// Bytes were written to a file.
    Write {
        /// The file.
        ino: Ino,
        /// Where.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// A file was cut, or got longer by zeros.
    Resize {
        /// The file.
        ino: Ino,
        /// Its length now.
        len: u64,
    },
    /// A name was changed; what had the new one is gone.
    Rename {
        /// Directory and name before.
        from: (Ino, String),
        /// Directory and name after.
        to: (Ino, String),
    },
    /// A file has one more name.
    Link {
        /// The file.
        ino: Ino,
        /// The directory of the name.
        parent: Ino,
        /// The name.
        name: String,
    },
    /// A name is gone.
    Remove {
        /// The directory it was in.
        parent: Ino,
        /// The name.
        name: String,
    },
    /// A file or a directory was synced.
    Sync {
        /// Which.
        ino: Ino,
    },
    /// A sync of a file failed, and what it should have written is dropped: it is read as long as nobody pulls the plug.
    Dropped {
        /// Which.
        ino: Ino,
    },
    /// Somebody who writes has said something.
    Note(String),
}

impl Event {
    /// Whether it gives a name, or takes one.
    pub fn is_about_names(&self) -> bool {
        matches!(
            self,
            Event::Make { .. } | Event::Rename { .. } | Event::Link { .. } | Event::Remove { .. }
        )
    }

    /// Whether a cut right before it, or right behind it, may show something that others do not.
    pub fn is_boundary(&self) -> bool {
        !matches!(self, Event::Write { .. } | Event::Note(_))
    }
}

/// All events, as they come.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Vec<Event>>>);

impl Tape {
    /// Something happened.
    pub fn push(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Everything so far.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How much there is.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
