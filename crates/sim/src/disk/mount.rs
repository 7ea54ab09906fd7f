//! A FUSE file system in memory that records all operations.

use super::event::{Ino, Kind, Tape};
use super::fault::{Action, Faults};
use super::tree::Tree;
use super::volume::{Refusal, Volume};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel may cache, because only this mount changes the files.
const TTL: Duration = Duration::from_secs(3600);
const BLOCK: u64 = 4096;
/// Reported capacity, in blocks.
const BLOCKS: u64 = 1 << 24;

/// A mounted file system. Dropping it unmounts it.
pub struct Mount {
    session: Option<BackgroundSession>,
    volume: Volume,
    directory: PathBuf,
}

impl Mount {
    /// Mounts these files on an existing directory.
    pub fn new(tree: Tree, directory: &Path) -> io::Result<Mount> {
        let volume = Volume::new(tree);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("mainstay-sim".to_owned())];
        let session = fuser::spawn_mount(Served(volume.clone()), directory, &config)?;
        Ok(Mount { session: Some(session), volume, directory: directory.to_owned() })
    }

    /// The mount point.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The recorded events.
    pub fn tape(&self) -> &Tape {
        self.volume.tape()
    }

    /// The fault plan.
    pub fn faults(&self) -> &Faults {
        self.volume.faults()
    }

    /// A copy of the current files.
    pub fn tree(&self) -> Tree {
        self.volume.tree().clone()
    }

    /// Unmounts the file system.
    pub fn end(mut self) -> io::Result<()> {
        match self.session.take().map_or(Ok(()), BackgroundSession::umount_and_join) {
            // The kernel ends a FUSE connection with this error.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            ended => ended,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A caller that needs the result calls `end` instead.
        let _ = self.session.take().map(BackgroundSession::umount_and_join);
    }
}

/// The FUSE request handler.
struct Served(Volume);

impl Served {
    /// Cache lifetime of a name in the kernel. If a rename can fail and still happen, the kernel must not
    /// cache names, because it would keep the old ones.
    fn name_ttl(&self) -> Duration {
        if self.0.faults().may_rename_unseen() { Duration::ZERO } else { TTL }
    }

    fn make(&self, parent: INodeNo, name: &OsStr, kind: Kind) -> Result<FileAttr, Errno> {
        let ino = self.0.make(parent.0, &text(name)?, kind).map_err(errno)?;
        attributes(&self.0.tree(), ino)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        self.0.remove(parent.0, &text(name)?).map_err(errno)
    }

    fn sync(&self, action: Action, ino: INodeNo) -> Result<(), Errno> {
        self.0.sync(action, ino.0).map_err(errno)
    }

    fn resize(&self, ino: INodeNo, len: u64) -> Result<(), Errno> {
        self.0.resize(ino.0, len).map_err(errno)
    }
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotFound => Errno::ENOENT,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
        Refusal::IsDirectory => Errno::EISDIR,
        Refusal::Full => Errno::ENOSPC,
        Refusal::Io => Errno::EIO,
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

/// Bypasses the page cache, so that writes arrive at once and reads can fail.
const OPENED: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.0.tree();
        let found = text(name).and_then(|name| tree.find(parent.0, &name).ok_or(Errno::ENOENT));
        match found.and_then(|ino| attributes(&tree, ino)) {
            Ok(attributes) => reply.entry(&self.name_ttl(), &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&self.0.tree(), ino.0) {
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
        let resized = size.map_or(Ok(()), |len| self.resize(ino, len));
        match resized.and_then(|()| attributes(&self.0.tree(), ino.0)) {
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
            Ok(attributes) => reply.entry(&self.name_ttl(), &attributes, Generation(0)),
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
                reply.created(&self.name_ttl(), &attributes, Generation(0), FileHandle(0), OPENED);
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
        match self.0.read(ino.0, offset, size as usize).map_err(errno) {
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
        match self.0.write(ino.0, offset, data).map_err(errno) {
            Ok(written) => reply.written(written as u32),
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
        answer(self.0.reserve(ino.0, offset + length).map_err(errno), reply);
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
            self.0.rename((parent.0, name), (newparent.0, newname)).map_err(errno)
        });
        answer(done, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = text(name).and_then(|name| {
            self.0.link(ino.0, parent.0, &name).map_err(errno)?;
            attributes(&self.0.tree(), ino.0)
        });
        match linked {
            Ok(attributes) => reply.entry(&self.name_ttl(), &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.remove(parent, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.remove(parent, name), reply);
    }

    /// Makes the kernel skip flush calls on close: a process that exits would wait for itself.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.sync(Action::Sync, ino), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.sync(Action::SyncDir, ino), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let tree = self.0.tree();
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
