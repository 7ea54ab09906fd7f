//! The files that make a directory a database: the header file with its identity, and the lock.
//!
//! ```text
//!   DATABASE   | "MAINSTAY" | format u32 LE | id 16 bytes | crc32c u32 LE |
//!   LOCK       locked by the process that has the database open, as are DATABASE and the directory itself
//!   log/       segments
//!   index/     MARK and a directory per retention class
//!   scratch/   temporary files of a server; no data of the database
//! ```
//!
//! A file lock is held on an inode, not on a name. Earlier versions of this program lock only `LOCK`.
//! If that name is removed, the next process would lock a new file. The directory itself is locked,
//! too: it cannot be created again while its old inode is locked, so a second opener is refused there.
//! Before every operation by path, [`LockedInodes::check`] verifies that the names still lead to the
//! locked inodes.

use crate::base::fault_points::{self, InjectedFault};
use crate::fs::durable_dir::fsync_ancestors;
use crate::fs::error::io_error;
use mainstay_model::{Code, Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"MAINSTAY";
const FILE: &str = "DATABASE";
pub(crate) const LOCK: &str = "LOCK";
/// The mode bits of group and others.
const OTHERS: u32 = 0o077;
/// The directory, by its name inside itself.
const ITSELF: &str = ".";

/// The on-disk format that this program writes, and the newest it reads.
pub(crate) const FORMAT: u32 = 1;

/// A database directory that this process has locked.
pub struct DatabaseFile {
    pub id: [u8; 16],
    /// The directory whose header file is still to be written.
    reserved: Option<PathBuf>,
    locks: Locks,
}

/// All files that are locked while a database is open.
struct Locks {
    directory: PathBuf,
    /// The locked files, with their names inside the directory.
    held: Vec<(&'static str, File)>,
}

impl Locks {
    /// Locks `LOCK`, which every version of this program locks, and the directory, whose lock survives
    /// the removal of names.
    fn take(directory: &Path) -> Result<Locks> {
        let path = directory.join(LOCK);
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.map_err(|error| io_error("open", &path, &error))?;
        let mut locks = Locks { directory: directory.to_owned(), held: Vec::new() };
        locks.add(LOCK, file, false)?;
        let itself = File::open(directory).map_err(|error| io_error("open", directory, &error))?;
        locks.add(ITSELF, itself, true)?;
        Ok(locks)
    }

    /// Locks the header file, too. During a restore it does not exist until everything else does.
    fn take_header(&mut self) -> Result<()> {
        let path = self.directory.join(FILE);
        // A file opened read-only can be locked as well, except on some network file systems.
        let file = File::options().read(true).write(true).open(&path);
        let file = file.or_else(|_| File::open(&path));
        self.add(FILE, file.map_err(|error| io_error("open", &path, &error))?, true)
    }

    /// Locks one more file. Some network file systems cannot lock directories or files opened
    /// read-only. If `is_extra`, the file may stay unlocked there.
    fn add(&mut self, name: &'static str, file: File, is_extra: bool) -> Result<()> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(locked(&self.directory)),
            Err(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOLCK) if is_extra => {}
            Err(error) => return Err(io_error("lock", &self.directory.join(name), &error.into())),
        }
        self.held.push((name, file));
        Ok(())
    }

    fn hold(&self) -> Result<LockedInodes> {
        let inode = |(name, file): &(&'static str, File)| match file.metadata() {
            Ok(found) => Ok((*name, found.dev(), found.ino())),
            Err(error) => Err(io_error("look at", &self.directory.join(name), &error)),
        };
        let mut inodes = self.held.iter().map(inode).collect::<Result<Vec<_>>>()?;
        // The directory first: that it was moved explains more than files missing under its old name.
        inodes.sort_by_key(|(name, ..)| *name != ITSELF);
        Ok(LockedInodes { directory: self.directory.clone(), inodes })
    }
}

impl Drop for Locks {
    /// Releases `LOCK` last. A process that finds another lock held without it concludes that `LOCK`
    /// was lost.
    fn drop(&mut self) {
        while self.held.pop().is_some() {}
    }
}

/// Whether a database is open. If it is not, the shared locks held here keep other processes from
/// opening it for writing.
pub(crate) struct DatabaseUse {
    pub is_open: bool,
    /// True if the database is open and `LOCK` is no longer the file that was locked.
    pub lost_lock_file: bool,
    _held: Vec<File>,
}

/// Returns whether a process has the database open. Creates no file.
pub(crate) fn look_at_use(directory: &Path) -> Result<DatabaseUse> {
    let mut held = Vec::new();
    let mut taken = Vec::new();
    for name in [LOCK, ITSELF, FILE] {
        let path = directory.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(io_error("open", &path, &error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => held.push(file),
            Err(Errno::WOULDBLOCK) => taken.push(name),
            Err(_) if name != LOCK => {}
            Err(error) => return Err(io_error("lock", &path, &error.into())),
        }
    }
    let is_open = !taken.is_empty();
    Ok(DatabaseUse { is_open, lost_lock_file: is_open && !taken.contains(&LOCK), _held: held })
}

/// The inodes that the names of a database led to when it was locked.
///
/// It keeps no file open, so it may outlive the lock. While the lock is held, no other file can get one
/// of these inode numbers.
pub struct LockedInodes {
    directory: PathBuf,
    inodes: Vec<(&'static str, u64, u64)>,
}

impl LockedInodes {
    /// Fails once a name leads to another inode. From then on a write by path may go into another
    /// database, or another program may write this one.
    pub fn check(&self) -> Result<()> {
        self.inodes.iter().try_for_each(|(name, device, inode)| {
            let path = self.directory.join(name);
            let what = match fs::metadata(&path) {
                Ok(found) if (found.dev(), found.ino()) == (*device, *inode) => return Ok(()),
                Ok(_) => "leads to another one now",
                Err(error) if error.kind() == ErrorKind::NotFound => "was removed",
                Err(error) if error.kind() == ErrorKind::NotADirectory => "was replaced",
                // A failed lookup is no sign that a name was changed.
                Err(_) => return Ok(()),
            };
            Err(self.lost(name, what))
        })
    }

    #[cold]
    fn lost(&self, name: &str, what: &str) -> Error {
        let directory = self.directory.display();
        let which = match name {
            ITSELF => format!("{directory}, which this process has open,"),
            name => format!("{name} in {directory}, which this process holds locked,"),
        };
        let message = format!(
            "{which} {what}: another program may be writing there, so this one writes nothing more until the database \
             is opened again. What was acknowledged is in the directory that was opened. Stop every program that uses \
             either, put that directory back if it was moved, and look with `mainstay doctor`"
        );
        Error::new(Code::LockLost, message)
    }
}

impl DatabaseFile {
    /// Opens or creates a database. Changes nothing in a directory that holds something else.
    pub fn claim(directory: &Path) -> Result<DatabaseFile> {
        let known = read(directory)?;
        if known.is_none() {
            check_empty(directory)?;
            check_unused(directory)?;
            make_directory(directory)?;
        }
        let mut locks = Locks::take(directory)?;
        // Another process may have created the database while this one waited for the lock.
        let id = match read(directory)? {
            Some(id) => {
                keep_names(directory)?;
                id
            }
            None => {
                let id = random_id();
                write(directory, &id)?;
                id
            }
        };
        locks.take_header()?;
        Ok(DatabaseFile { id, reserved: None, locks })
    }

    /// Reserves an empty directory for a restore. It becomes a database by
    /// [`complete`](DatabaseFile::complete), when everything is restored, because half a restore must
    /// not be opened.
    pub fn reserve(directory: &Path, id: [u8; 16]) -> Result<DatabaseFile> {
        check_empty(directory)?;
        make_directory(directory)?;
        let locks = Locks::take(directory)?;
        match read(directory)? {
            Some(_) => Err(foreign(directory)),
            None => Ok(DatabaseFile { id, reserved: Some(directory.to_owned()), locks }),
        }
    }

    /// Writes the header file, which makes a reserved directory a database.
    pub fn complete(&mut self) -> Result<()> {
        if let Some(directory) = &self.reserved {
            write(directory, &self.id)?;
            self.locks.take_header()?;
        }
        self.reserved = None;
        Ok(())
    }

    /// Returns the inodes to check before anything is written by path.
    pub fn hold(&self) -> Result<LockedInodes> {
        self.locks.hold()
    }

    /// Locks a database that must exist.
    pub fn existing(directory: &Path) -> Result<DatabaseFile> {
        match read(directory)? {
            Some(id) => {
                let mut locks = Locks::take(directory)?;
                locks.take_header()?;
                Ok(DatabaseFile { id, reserved: None, locks })
            }
            None => Err(foreign(directory)),
        }
    }
}

/// Fsyncs the directory, so that its names are durable. The process that created them may have crashed
/// before it did, and the next steps rely on them.
pub(crate) fn keep_names(directory: &Path) -> Result<()> {
    let synced =
        fault_points::unless(InjectedFault::NoSyncOfKnown, || File::open(directory)?.sync_all());
    synced.map_err(|error| io_error("sync", directory, &error))
}

/// Returns the id of the database in a directory; `None` if the directory holds no database.
pub(crate) fn read(directory: &Path) -> Result<Option<[u8; 16]>> {
    let path = directory.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(io_error("read", &path, &error)),
    };
    decode(&bytes, &path).map(Some)
}

pub fn decode(bytes: &[u8], path: &Path) -> Result<[u8; 16]> {
    let damaged = || {
        let message = format!("{} is not the header of a Mainstay database", path.display());
        Error::new(Code::ForeignDirectory, message)
    };
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (format, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    if magic != MAGIC {
        return Err(damaged());
    }
    let format = u32::from_le_bytes(*format);
    if format > FORMAT {
        let message = format!(
            "{} has format {format}, this program knows up to {FORMAT}: use a newer one",
            path.display()
        );
        return Err(Error::new(Code::NewerFormat, message));
    }
    let (id, rest) = rest.split_first_chunk::<16>().ok_or_else(damaged)?;
    let crc = rest.first_chunk::<4>().ok_or_else(damaged)?;
    let sound = crc32c::crc32c(&bytes[..28]) == u32::from_le_bytes(*crc) && rest.len() == 4;
    if !sound || format != FORMAT {
        return Err(Error::new(Code::CorruptData, format!("{} is damaged", path.display())));
    }
    Ok(*id)
}

pub fn encode(id: &[u8; 16]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(id);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn write(directory: &Path, id: &[u8; 16]) -> Result<()> {
    let bytes = encode(id);
    let next = directory.join("DATABASE.next");
    let steps = || -> std::io::Result<()> {
        let mut file = File::create(&next)?;
        file.write_all(&bytes)?;
        fault_points::unless(InjectedFault::NoSyncOfIdentity, || file.sync_all())?;
        fs::rename(&next, directory.join(FILE))?;
        fault_points::unless(InjectedFault::NoSyncOfIdentityName, || {
            File::open(directory)?.sync_all()
        })
    };
    steps().map_err(|error| io_error("write", &directory.join(FILE), &error))
}

/// Returns whether an interrupted creation may leave this name in a directory.
fn is_our_litter(name: &str) -> bool {
    let index = matches!(name, "index" | "index.next" | "index.old" | "index.damaged");
    index || matches!(name, LOCK | "DATABASE.next" | "log" | "log.next" | "scratch")
}

/// Creation writes the header file first. So a log or an index without a header is left from a restore,
/// or from a database that lost its header. Neither may be overwritten.
fn check_unused(directory: &Path) -> Result<()> {
    let log = match fs::read_dir(directory.join("log")) {
        Ok(entries) => entries
            .filter_map(|entry| entry.ok())
            .any(|entry| entry.path().extension().is_some_and(|extension| extension == "seg")),
        Err(_) => false,
    };
    let index = ["index", "index.old"].map(|name| directory.join(name).join("MARK"));
    if !log && !index.iter().any(|mark| mark.exists()) {
        return Ok(());
    }
    let message = format!(
        "{} has a log or an index but no file {FILE}: a restore was cut short, or the file is lost. \
         Restore again with the backup as the base, or put the file back; nothing was touched",
        directory.display()
    );
    Err(Error::new(Code::ForeignDirectory, message))
}

fn check_empty(directory: &Path) -> Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            let message = format!("{} is not a directory", directory.display());
            return Err(Error::new(Code::ForeignDirectory, message));
        }
        Err(error) => return Err(io_error("read", directory, &error)),
    };
    let names: Vec<String> = entries
        .filter_map(|entry| entry.ok())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    // Creation makes these two names first, and a power failure may have kept either of them.
    let ours = names.is_empty()
        || names.iter().any(|name| matches!(name.as_str(), LOCK | "DATABASE.next"));
    if ours && names.iter().all(|name| is_our_litter(name)) {
        return Ok(());
    }
    Err(foreign(directory))
}

fn foreign(directory: &Path) -> Error {
    let message = format!(
        "{} holds something that is not a Mainstay database: nothing was touched; \
         give an empty or a new directory",
        directory.display()
    );
    Error::new(Code::ForeignDirectory, message)
}

/// Creates a directory that only its owner can enter.
fn make_directory(directory: &Path) -> Result<()> {
    let steps = || -> std::io::Result<()> {
        directory.parent().map_or(Ok(()), fs::create_dir_all)?;
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        fault_points::unless(InjectedFault::NoSyncOfParent, || fsync_ancestors(directory))
    };
    steps().map_err(|error| io_error("make", directory, &error))
}

fn locked(directory: &Path) -> Error {
    let message = format!(
        "{} is open in another process (or twice in this one): close it there first",
        directory.display()
    );
    Error::new(Code::Locked, message)
}

/// Removes the rights of group and others from all files of a database, with whatever mode they were
/// created. The owner's rights are kept: if the owner cannot write, that was intended.
pub(crate) fn make_private(directory: &Path) {
    restrict(directory);
    // Other files in the directory are not ours. `log` and `index` may be links to other disks.
    for name in [FILE, LOCK, "log", "index", "scratch"] {
        restrict_all(&directory.join(name));
    }
}

fn restrict_all(path: &Path) {
    restrict(path);
    // A file has no entries. A file that vanishes meanwhile needs no change.
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.filter_map(|entry| entry.ok()) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => restrict_all(&entry.path()),
            Ok(kind) if kind.is_file() => restrict(&entry.path()),
            _ => {}
        }
    }
}

/// Ignores errors: only the owner may change the mode, and not on every file system.
fn restrict(path: &Path) {
    let Ok(found) = fs::metadata(path) else { return };
    let mode = found.permissions().mode();
    if mode & OTHERS != 0 {
        let _ = fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS));
    }
}

/// Returns a random id of 16 bytes.
pub(crate) fn random_id() -> [u8; 16] {
    let mut id = [0; 16];
    // The standard library seeds each `RandomState` from the operating system's randomness.
    id[..8].copy_from_slice(&RandomState::new().hash_one(1).to_le_bytes());
    id[8..].copy_from_slice(&RandomState::new().hash_one(2).to_le_bytes());
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_is_made_and_recognised() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let made = DatabaseFile::claim(&path).unwrap();
        assert_eq!(DatabaseFile::claim(&path).err().unwrap().code(), Code::Locked);
        let id = made.id;
        drop(made);
        let again = DatabaseFile::claim(&path).unwrap();
        assert_eq!(again.id, id);
    }

    #[test]
    fn without_the_lock_file_a_second_one_is_refused_all_the_same() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let made = DatabaseFile::claim(&path).unwrap();
        fs::remove_file(path.join(LOCK)).unwrap();
        assert_eq!(DatabaseFile::claim(&path).err().unwrap().code(), Code::Locked);
        assert_eq!(DatabaseFile::existing(&path).err().unwrap().code(), Code::Locked);
        let moved = root.path().join("b");
        fs::rename(&path, &moved).unwrap();
        assert_eq!(
            DatabaseFile::claim(&moved).err().unwrap().code(),
            Code::Locked,
            "whatever its name"
        );
        drop(made);
        DatabaseFile::claim(&moved).unwrap();
    }

    #[test]
    fn a_hold_notices_every_name_that_leads_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let lose = |how: &dyn Fn()| {
            let made = DatabaseFile::claim(&path).unwrap();
            let hold = made.hold().unwrap();
            hold.check().unwrap();
            how();
            let lost = hold.check().unwrap_err();
            assert_eq!(lost.code(), Code::LockLost);
            lost.message().to_owned()
        };
        let told = lose(&|| fs::remove_file(path.join(LOCK)).unwrap());
        assert!(told.starts_with("LOCK in ") && told.contains("was removed"), "{told}");
        let told = lose(&|| {
            fs::remove_file(path.join(LOCK)).unwrap();
            fs::write(path.join(LOCK), "").unwrap();
        });
        assert!(told.contains("leads to another one now"), "{told}");
        let told = lose(&|| {
            fs::copy(path.join(FILE), path.join("copy")).unwrap();
            fs::rename(path.join("copy"), path.join(FILE)).unwrap();
        });
        assert!(told.starts_with("DATABASE in "), "{told}");
        let told = lose(&|| fs::rename(&path, root.path().join("b")).unwrap());
        assert!(told.contains("which this process has open, was removed"), "{told}");
    }

    #[test]
    fn a_format_that_there_never_was_is_refused() {
        let mut bytes = encode(&[7; 16]);
        bytes[8..12].fill(0);
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        let refused = decode(&bytes, Path::new("DATABASE")).unwrap_err();
        assert_eq!(refused.code(), Code::CorruptData);
    }

    #[test]
    fn only_its_owner_gets_into_a_directory_that_is_made() {
        let root = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let claimed = root.path().join("a/b");
        let reserved = root.path().join("c");
        drop(DatabaseFile::claim(&claimed).unwrap());
        drop(DatabaseFile::reserve(&reserved, [1; 16]).unwrap());
        assert_eq!((mode(&claimed), mode(&reserved)), (0o700, 0o700));
    }

    #[test]
    fn others_lose_their_rights_on_all_of_a_database_and_on_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let mode = |name: &str| path(name).metadata().unwrap().permissions().mode() & 0o777;
        fs::create_dir_all(path("index/cells/tables")).unwrap();
        fs::create_dir(path("mine")).unwrap();
        let files = ["index/cells/tables/1", "DATABASE", "mine/file"];
        files.iter().for_each(|name| fs::write(path(name), "x").unwrap());
        let all = ["", "index", "index/cells", "index/cells/tables", "mine"];
        for name in all.iter().chain(&files) {
            fs::set_permissions(path(name), Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(path("DATABASE"), Permissions::from_mode(0o444)).unwrap();
        make_private(root.path());
        for name in ["", "index", "index/cells", "index/cells/tables", "index/cells/tables/1"] {
            assert_eq!(mode(name), 0o700, "{name}");
        }
        assert_eq!(mode("DATABASE"), 0o400, "the owner's rights are the owner's to give");
        assert_eq!([mode("mine"), mode("mine/file")], [0o755; 2]);
    }

    #[test]
    fn foreign_directories_and_files_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("thesis.txt"), "x").unwrap();
        let error = DatabaseFile::claim(root.path()).err().unwrap();
        assert_eq!(error.code(), Code::ForeignDirectory);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        let error = DatabaseFile::claim(&root.path().join("thesis.txt")).err().unwrap();
        assert_eq!(error.code(), Code::ForeignDirectory);
    }

    #[test]
    fn newer_formats_and_damage_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        drop(DatabaseFile::claim(root.path()).unwrap());
        let file = root.path().join(FILE);
        let whole = fs::read(&file).unwrap();
        let mut newer = whole.clone();
        newer[8] = 99;
        fs::write(&file, &newer).unwrap();
        assert_eq!(DatabaseFile::claim(root.path()).err().unwrap().code(), Code::NewerFormat);
        let mut damaged = whole.clone();
        damaged[15] ^= 1;
        fs::write(&file, &damaged).unwrap();
        assert_eq!(DatabaseFile::claim(root.path()).err().unwrap().code(), Code::CorruptData);
        fs::write(&file, b"MAIN").unwrap();
        assert_eq!(DatabaseFile::claim(root.path()).err().unwrap().code(), Code::ForeignDirectory);
    }
}
