//! A simulated disk that records all operations and injects faults.
//!
//! ```text
//!   mount: a kernel calls ─┐
//!                          ├──> volume ──> faults: does this call fail? ──> tree, and the tape
//!   files: a log calls ────┘
//! ```

use super::event::{Event, Ino, Kind, ROOT, Tape};
use super::fault::{Action, Fault, Faults};
use super::tree::Tree;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated disk. Clones share the same disk.
#[derive(Clone, Debug, Default)]
pub struct Volume {
    tree: Arc<Mutex<Tree>>,
    tape: Tape,
    faults: Faults,
}

/// The reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name exists already.
    Exists,
    /// The name does not exist.
    NotFound,
    /// The directory is not empty.
    NotEmpty,
    /// A directory was used as a file.
    IsDirectory,
    /// The disk is full.
    Full,
    /// An I/O error.
    Io,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        match fault {
            Fault::Full => Refusal::Full,
            Fault::Io | Fault::Short | Fault::Half | Fault::After | Fault::Cut | Fault::Off => {
                Refusal::Io
            }
        }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        match refusal {
            Refusal::Exists => io::ErrorKind::AlreadyExists.into(),
            Refusal::NotFound => io::ErrorKind::NotFound.into(),
            Refusal::NotEmpty => io::ErrorKind::DirectoryNotEmpty.into(),
            Refusal::IsDirectory => io::ErrorKind::IsADirectory.into(),
            Refusal::Full => io::ErrorKind::StorageFull.into(),
            Refusal::Io => io::Error::other("the disk fails"),
        }
    }
}

impl Volume {
    /// A disk with these files.
    pub fn new(tree: Tree) -> Volume {
        Volume { tree: Arc::new(Mutex::new(tree)), ..Volume::default() }
    }

    /// The recorded events.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// The fault plan.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The current files.
    pub fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies and records an event under one lock, so that the tape has the events in their real order.
    fn happen(&self, tree: &mut Tree, event: Event) {
        tree.apply(&event);
        self.tape.push(event);
    }

    /// The planned fault for a call, if any.
    fn fault(&self, tree: &Tree, action: Action, ino: Ino, name: &str) -> Option<Fault> {
        self.faults.ask(action, || {
            let path = tree.path(ino);
            let path = if name.is_empty() { path } else { path.join(name) };
            path.display().to_string()
        })
    }

    /// Performs an operation that happens as a whole or not at all, and returns its result.
    fn change(&self, tree: &mut Tree, fault: Option<Fault>, event: Event) -> Result<(), Refusal> {
        let happens = match &event {
            Event::Rename { .. } => {
                matches!(fault, None | Some(Fault::Half | Fault::After | Fault::Cut))
            }
            // This includes truncation, so that some writes happen and cannot be undone.
            _ => matches!(fault, None | Some(Fault::Cut)),
        };
        if happens {
            self.happen(tree, event);
        }
        fault.map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Creates a file or a directory. Returns its inode number.
    pub fn make(&self, parent: Ino, name: &str, kind: Kind) -> Result<Ino, Refusal> {
        let mut tree = self.tree();
        let fault = self.fault(&tree, Action::Make, parent, name);
        if tree.find(parent, name).is_some() {
            return Err(fault.map_or(Refusal::Exists, Refusal::from));
        }
        let ino = tree.next_ino();
        let name = name.to_owned();
        self.change(&mut tree, fault, Event::Make { parent, name, ino, kind })?;
        Ok(ino)
    }

    /// Creates a hard link.
    pub fn link(&self, ino: Ino, parent: Ino, name: &str) -> Result<(), Refusal> {
        let mut tree = self.tree();
        let fault = self.fault(&tree, Action::Make, parent, name);
        if tree.find(parent, name).is_some() {
            return Err(fault.map_or(Refusal::Exists, Refusal::from));
        }
        self.change(&mut tree, fault, Event::Link { ino, parent, name: name.to_owned() })
    }

    /// Removes a file or an empty directory.
    pub fn remove(&self, parent: Ino, name: &str) -> Result<(), Refusal> {
        let mut tree = self.tree();
        let fault = self.fault(&tree, Action::Remove, parent, name);
        let ino = tree.find(parent, name).ok_or(Refusal::NotFound)?;
        if tree.entries(ino).is_some_and(|entries| !entries.is_empty()) {
            return Err(Refusal::NotEmpty);
        }
        self.change(&mut tree, fault, Event::Remove { parent, name: name.to_owned() })
    }

    /// Renames an entry, replacing the target if it exists.
    pub fn rename(&self, from: (Ino, String), to: (Ino, String)) -> Result<(), Refusal> {
        let mut tree = self.tree();
        let fault = self.fault(&tree, Action::Rename, to.0, &to.1);
        tree.find(from.0, &from.1).ok_or(Refusal::NotFound)?;
        let directories = [from.0, to.0];
        let renamed = self.change(&mut tree, fault, Event::Rename { from, to });
        if fault == Some(Fault::After) {
            directories.into_iter().for_each(|ino| self.tape.push(Event::Sync { ino }));
        }
        renamed
    }

    /// Truncates a file, or extends it with zeros.
    pub fn resize(&self, ino: Ino, len: u64) -> Result<(), Refusal> {
        let mut tree = self.tree();
        let shrinks = tree.bytes(ino).is_some_and(|bytes| bytes.len() as u64 >= len);
        // Truncating needs no space.
        let fault = self.fault(&tree, Action::Write, ino, "");
        let fault = fault.filter(|fault| !(shrinks && *fault == Fault::Full));
        self.change(&mut tree, fault, Event::Resize { ino, len })
    }

    /// Extends a file to at least this length.
    pub fn reserve(&self, ino: Ino, len: u64) -> Result<(), Refusal> {
        if self.len(ino)? < len { self.resize(ino, len) } else { Ok(()) }
    }

    /// The length of a file.
    pub fn len(&self, ino: Ino) -> Result<u64, Refusal> {
        self.tree().bytes(ino).map(|bytes| bytes.len() as u64).ok_or(Refusal::IsDirectory)
    }

    /// Writes some of these bytes. Returns their number.
    pub fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize, Refusal> {
        let mut tree = self.tree();
        let fault = self.fault(&tree, Action::Write, ino, "");
        let len = match fault {
            Some(Fault::Io | Fault::Full | Fault::Off) => 0,
            Some(Fault::Short | Fault::Half) => data.len() / 2,
            // The power failure model decides how much of the write survives.
            Some(Fault::After | Fault::Cut) | None => data.len(),
        };
        if len > 0 {
            self.happen(&mut tree, Event::Write { ino, offset, bytes: data[..len].to_vec() });
        }
        match fault {
            // A write of zero bytes would look like a full disk to some callers, and make others retry
            // forever.
            None => Ok(len),
            Some(Fault::Short) if len > 0 => Ok(len),
            Some(fault) => Err(fault.into()),
        }
    }

    /// Reads up to `size` bytes.
    pub fn read(&self, ino: Ino, offset: u64, size: usize) -> Result<Vec<u8>, Refusal> {
        let tree = self.tree();
        if let Some(fault) = self.fault(&tree, Action::Read, ino, "") {
            return Err(fault.into());
        }
        let bytes = tree.bytes(ino).ok_or(Refusal::IsDirectory)?;
        let start = bytes.len().min(offset as usize);
        let end = bytes.len().min(start + size);
        Ok(bytes[start..end].to_vec())
    }

    /// Syncs a file, or a directory.
    pub fn sync(&self, action: Action, ino: Ino) -> Result<(), Refusal> {
        let tree = self.tree();
        match self.fault(&tree, action, ino, "") {
            Some(fault) => {
                match fault {
                    Fault::Half if action == Action::Sync => {
                        self.tape.push(Event::Dropped { ino });
                    }
                    Fault::After => self.tape.push(Event::Sync { ino }),
                    _ => {}
                }
                Err(fault.into())
            }
            None => {
                self.tape.push(Event::Sync { ino });
                Ok(())
            }
        }
    }

    /// The inode with this name in the root directory.
    pub fn find(&self, name: &str) -> Result<Ino, Refusal> {
        self.check_power()?;
        self.tree().find(ROOT, name).ok_or(Refusal::NotFound)
    }

    /// The names in the root directory.
    pub fn names(&self) -> Result<Vec<String>, Refusal> {
        self.check_power()?;
        Ok(self.tree().entries(ROOT).into_iter().flatten().map(|(name, _)| name.clone()).collect())
    }

    fn check_power(&self) -> Result<(), Refusal> {
        if self.faults.has_power() { Ok(()) } else { Err(Refusal::Io) }
    }
}
