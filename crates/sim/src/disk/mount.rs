//! A file system in memory that writes down what is done to it.

use super::event::{Event, Ino, Kind, Tape};
use super::fault::{Action, Fault, Faults};
use super::tree::Tree;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nobody else changes anything, so that the kernel may remember it.
const TTL: Duration = Duration::from_secs(3600);
const BLOCK: u64 = 4096;
/// How much room there seems to be.
const BLOCKS: u64 = 1 << 24;

/// A file system, mounted until it is dropped.
pub struct Mount {
    session: Option<BackgroundSession>,
    shared: Shared,
    directory: PathBuf,
}

/// What the file system and its owner share.
#[derive(Clone)]
struct Shared {
    tree: Arc<Mutex<Tree>>,
    tape: Tape,
    faults: Faults,
}

impl Mount {
    /// Mounts these files on a directory, which must be there.
    pub fn new(tree: Tree, directory: &Path) -> io::Result<Mount> {
        let tree = Arc::new(Mutex::new(tree));
        let shared = Shared { tree, tape: Tape::default(), faults: Faults::default() };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("mainstay-sim".to_owned())];
        let session = fuser::spawn_mount(shared.clone(), directory, &config)?;
        Ok(Mount { session: Some(session), shared, directory: directory.to_owned() })
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is done to it.
    pub fn tape(&self) -> &Tape {
        &self.shared.tape
    }

    /// What fails.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// The files as they are.
    pub fn tree(&self) -> Tree {
        self.shared.tree().clone()
    }

    /// Unmounts it.
    pub fn end(mut self) -> io::Result<()> {
        self.session.take().map_or(Ok(()), BackgroundSession::umount_and_join)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Who wants to know how it ends asks for that.
        let _ = self.session.take().map(BackgroundSession::umount_and_join);
    }
}

impl Shared {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does it and writes it down, both under one lock: the tape has the order in which things happened.
    fn happen(&self, tree: &mut Tree, event: Event) {
        tree.apply(&event);
        self.tape.push(event);
    }

    /// Whether something fails, and that only.
    fn fails(&self, tree: &Tree, action: Action, ino: Ino, name: &str) -> Option<Fault> {
        self.faults.ask(action, || tree.path(ino).join(name).display().to_string())
    }

    fn make(&self, parent: INodeNo, name: &OsStr, kind: Kind) -> Result<FileAttr, Errno> {
        let mut tree = self.tree();
        let (parent, name) = (parent.0, text(name)?);
        if let Some(fault) = self.fails(&tree, Action::Make, parent, &name) {
            return Err(errno(fault));
        }
        if tree.find(parent, &name).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = tree.next_ino();
        self.happen(&mut tree, Event::Make { parent, name, ino, kind });
        attributes(&tree, ino)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let mut tree = self.tree();
        let (parent, name) = (parent.0, text(name)?);
        if let Some(fault) = self.fails(&tree, Action::Remove, parent, &name) {
            return Err(errno(fault));
        }
        let ino = tree.find(parent, &name).ok_or(Errno::ENOENT)?;
        if tree.entries(ino).is_some_and(|entries| !entries.is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        self.happen(&mut tree, Event::Remove { parent, name });
        Ok(())
    }

    fn resize(&self, ino: Ino, len: u64) -> Result<(), Errno> {
        let mut tree = self.tree();
        if let Some(fault) = self.fails(&tree, Action::Write, ino, "") {
            return Err(errno(fault));
        }
        self.happen(&mut tree, Event::Resize { ino, len });
        Ok(())
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let mut tree = self.tree();
        let fault = self.fails(&tree, Action::Write, ino, "");
        let len = match fault {
            Some(Fault::Io | Fault::Full) => 0,
            Some(Fault::Short | Fault::Half) => data.len() / 2,
            None => data.len(),
        };
        if len > 0 {
            self.happen(&mut tree, Event::Write { ino, offset, bytes: data[..len].to_vec() });
        }
        match fault {
            // Nothing at all would be taken for a full disk by some and for a reason to try for ever by others.
            None => Ok(len as u32),
            Some(Fault::Short) if len > 0 => Ok(len as u32),
            Some(fault) => Err(errno(fault)),
        }
    }

    fn sync(&self, action: Action, ino: Ino) -> Result<(), Errno> {
        let tree = self.tree();
        match self.fails(&tree, action, ino, "") {
            Some(fault) => {
                if fault == Fault::Half && action == Action::Sync {
                    self.tape.push(Event::Dropped { ino });
                }
                Err(errno(fault))
            }
            None => {
                self.tape.push(Event::Sync { ino });
                Ok(())
            }
        }
    }

    fn rename(&self, from: (Ino, String), to: (Ino, String)) -> Result<(), Errno> {
        let mut tree = self.tree();
        let fault = self.fails(&tree, Action::Rename, to.0, &to.1);
        if fault.is_some_and(|fault| fault != Fault::Half) {
            return Err(Errno::EIO);
        }
        tree.find(from.0, &from.1).ok_or(Errno::ENOENT)?;
        self.happen(&mut tree, Event::Rename { from, to });
        fault.map_or(Ok(()), |fault| Err(errno(fault)))
    }

    fn read(&self, ino: Ino, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let tree = self.tree();
        if let Some(fault) = self.fails(&tree, Action::Read, ino, "") {
            return Err(errno(fault));
        }
        let bytes = tree.bytes(ino).ok_or(Errno::EISDIR)?;
        let start = bytes.len().min(offset as usize);
        let end = bytes.len().min(start + size as usize);
        Ok(bytes[start..end].to_vec())
    }
}

fn errno(fault: Fault) -> Errno {
    match fault {
        Fault::Full => Errno::ENOSPC,
        _ => Errno::EIO,
    }
}

fn text(name: &OsStr) -> Result<String, Errno> {
    name.to_str().map(str::to_owned).ok_or(Errno::EINVAL)
}

fn attributes(tree: &Tree, ino: Ino) -> Result<FileAttr, Errno> {
    let (kind, size, perm) = match (tree.bytes(ino), tree.entries(ino)) {
        (Some(bytes), _) => (FileType::RegularFile, bytes.len() as u64, 0o644),
        (None, Some(_)) => (FileType::Directory, 0, 0o755),
        (None, None) => return Err(Errno::ENOENT),
    };
    Ok(FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK as u32,
        flags: 0,
    })
}

/// Nothing passes through the kernel's cache: what is written is written now, and reads can fail.
const OPENED: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

impl Filesystem for Shared {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.tree();
        let found = text(name).and_then(|name| tree.find(parent.0, &name).ok_or(Errno::ENOENT));
        match found.and_then(|ino| attributes(&tree, ino)) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&self.tree(), ino.0) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<fuser::TimeOrNow>,
        _mtime: Option<fuser::TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.map_or(Ok(()), |len| self.resize(ino.0, len));
        match resized.and_then(|()| attributes(&self.tree(), ino.0)) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        match self.make(parent, name, Kind::Directory) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(parent, name, Kind::File) {
            Ok(attributes) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), OPENED);
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), OPENED);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match Shared::read(self, ino.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match Shared::write(self, ino.0, offset, data) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let len = self.tree().bytes(ino.0).map_or(0, <[u8]>::len) as u64;
        let done = match offset + length > len {
            true => self.resize(ino.0, offset + length),
            false => Ok(()),
        };
        answer(done, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let names = text(name).and_then(|name| text(newname).map(|newname| (name, newname)));
        let done = names.and_then(|(name, newname)| {
            Shared::rename(self, (parent.0, name), (newparent.0, newname))
        });
        answer(done, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.remove(parent, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.remove(parent, name), reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.sync(Action::Sync, ino.0), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.sync(Action::SyncDir, ino.0), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let tree = self.tree();
        let Some(entries) = tree.entries(ino.0) else { return reply.error(Errno::ENOTDIR) };
        for (at, (name, ino)) in entries.iter().enumerate().skip(offset as usize) {
            let kind = match tree.bytes(*ino) {
                Some(_) => FileType::RegularFile,
                None => FileType::Directory,
            };
            if reply.add(INodeNo(*ino), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCK as u32, 255, BLOCK as u32);
    }
}

fn answer(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
