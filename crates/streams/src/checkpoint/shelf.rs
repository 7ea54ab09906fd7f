//! Checkpoint storage: files in a directory or objects in an object store.
//!
//! ```text
//!   directory   name.part --write, fsync--> rename to name --fsync of the directory
//!   objects     multipart upload; the object appears when it is complete
//! ```
//!
//! In both, a file appears atomically, and an existing file is durable.

use super::unique;
use mainstay_model::{Code, Error, Result};
use object_store::buffered::BufWriter;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

/// The suffix of files that are being written.
const PART: &str = ".part";
/// The read buffer size of a file, in bytes.
const READ_BYTES: usize = 1 << 20;

/// The storage of checkpoints. Clones share it.
#[derive(Clone)]
pub struct Shelf {
    kind: Kind,
    watcher: Option<Watcher>,
}

/// A callback that receives the number of bytes of each read or write.
type Watcher = Arc<dyn Fn(u64) + Send + Sync>;

#[derive(Clone)]
enum Kind {
    Directory(PathBuf),
    Objects { objects: Arc<dyn ObjectStore>, runtime: Arc<Runtime> },
}

impl Shelf {
    /// Uses a directory, which is created if it does not exist.
    pub fn directory(path: impl AsRef<Path>) -> Result<Shelf> {
        let path = path.as_ref();
        let made = mainstay::create_dir_all_durable(path);
        made.map_err(|error| cannot("make", path.display(), &error))?;
        Ok(Shelf { kind: Kind::Directory(path.to_owned()), watcher: None })
    }

    /// Uses any object store whose writes are durable.
    pub fn objects(objects: Arc<dyn ObjectStore>) -> Result<Shelf> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mainstay-checkpoint")
            .enable_all()
            .build()
            .map_err(|error| cannot("begin to use", "the store of objects", &error))?;
        let kind = Kind::Objects { objects, runtime: Arc::new(runtime) };
        Ok(Shelf { kind, watcher: None })
    }

    /// Adds a callback that receives the number of bytes of each read or write, for progress reports.
    #[must_use]
    pub fn watched(self, watcher: impl Fn(u64) + Send + Sync + 'static) -> Shelf {
        Shelf { watcher: Some(Arc::new(watcher)), ..self }
    }

    /// Writes a file atomically. The name may contain `/`.
    pub(super) fn put<T>(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> Result<T>,
    ) -> Result<T> {
        let watcher = self.watcher.clone();
        let write = |out: &mut dyn Write| match watcher {
            Some(watcher) => write(&mut Watched { inner: out, watcher }),
            None => write(out),
        };
        match &self.kind {
            Kind::Directory(root) => put_file(root, name, write),
            Kind::Objects { objects, runtime } => {
                let path = ObjectPath::from(name);
                let mut out = Upload {
                    writer: BufWriter::new(objects.clone(), path),
                    runtime: runtime.clone(),
                };
                let written = write(&mut out)?;
                let done = runtime.block_on(out.writer.shutdown());
                done.map_err(|error| cannot("write", name, &error))?;
                Ok(written)
            }
        }
    }

    /// Creates a small file if it does not exist. Returns whether it did not. Of two concurrent callers only
    /// one creates it.
    pub(super) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        match &self.kind {
            Kind::Directory(root) => put_new_file(root, name, bytes),
            Kind::Objects { objects, runtime } => {
                let mode = object_store::PutMode::Create.into();
                let path = ObjectPath::from(name);
                let bytes = bytes.to_vec().into();
                match runtime.block_on(objects.put_opts(&path, bytes, mode)) {
                    Ok(_) => Ok(true),
                    Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                    Err(error) => Err(cannot("write", name, &error)),
                }
            }
        }
    }

    /// Fsyncs a directory and its parents up to the root, because the writer of a file may have crashed
    /// before it did.
    pub(super) fn keep(&self, below: &str) -> Result<()> {
        let Kind::Directory(root) = &self.kind else { return Ok(()) };
        let directory = root.join(below);
        sync_up(root, &directory).map_err(|error| cannot("sync", directory.display(), &error))
    }

    /// Opens a file; `None` if it does not exist.
    pub(super) fn open(&self, name: &str) -> Result<Option<Box<dyn Read>>> {
        let inner = self.find(name)?;
        let Some(watcher) = self.watcher.clone() else { return Ok(inner) };
        Ok(inner.map(|inner| Box::new(Watched { inner, watcher }) as Box<dyn Read>))
    }

    fn find(&self, name: &str) -> Result<Option<Box<dyn Read>>> {
        match &self.kind {
            Kind::Directory(root) => match File::open(root.join(name)) {
                Ok(file) => Ok(Some(Box::new(BufReader::with_capacity(READ_BYTES, file)))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(cannot("open", name, &error)),
            },
            Kind::Objects { objects, runtime } => {
                let found = runtime.block_on(objects.get(&ObjectPath::from(name)));
                match found {
                    Ok(found) => {
                        let stream = found.into_stream();
                        let runtime = runtime.clone();
                        let rest = io::Cursor::new(Vec::new());
                        Ok(Some(Box::new(Download { stream, rest, runtime })))
                    }
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(cannot("open", name, &error)),
                }
            }
        }
    }

    /// Lists the names below a path, in order, without files that are being written.
    pub(super) fn list(&self, below: &str) -> Result<Vec<String>> {
        Ok(self.lengths(below)?.into_keys().collect())
    }

    /// Lists the names below a path with their sizes in bytes.
    pub(super) fn lengths(&self, below: &str) -> Result<BTreeMap<String, u64>> {
        match &self.kind {
            Kind::Directory(root) => {
                let mut all = list_files(root, below)?;
                all.retain(|name, _| !name.ends_with(PART));
                Ok(all)
            }
            Kind::Objects { objects, runtime } => {
                use tokio_stream::StreamExt;
                let prefix = ObjectPath::from(below);
                let all = runtime.block_on(async {
                    let mut all = BTreeMap::new();
                    let mut found = objects.list(Some(&prefix));
                    while let Some(one) = found.next().await {
                        let one = one?;
                        all.insert(one.location.to_string(), one.size);
                    }
                    Ok::<_, object_store::Error>(all)
                });
                all.map_err(|error| cannot("list", below, &error))
            }
        }
    }

    /// Lists the files below a path that are being written or whose writing was interrupted. Empty for an
    /// object store, which discards unfinished uploads by its own rules.
    pub(super) fn unfinished(&self, below: &str) -> Result<Vec<String>> {
        let Kind::Directory(root) = &self.kind else { return Ok(Vec::new()) };
        let all = list_files(root, below)?;
        Ok(all.into_keys().filter(|name| name.ends_with(PART)).collect())
    }

    /// Removes a file. A missing file is not an error.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        match &self.kind {
            Kind::Directory(root) => match fs::remove_file(root.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(cannot("remove", name, &error))
                }
                _ => Ok(()),
            },
            Kind::Objects { objects, runtime } => {
                match runtime.block_on(objects.delete(&ObjectPath::from(name))) {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                    Err(error) => Err(cannot("remove", name, &error)),
                }
            }
        }
    }
}

fn put_file<T>(
    root: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> Result<T>,
) -> Result<T> {
    let path = root.join(name);
    let failed = |error: io::Error| cannot("write", path.display(), &error);
    let parent = path.parent().unwrap_or(root);
    fs::create_dir_all(parent).map_err(failed)?;
    let part = PathBuf::from(format!("{}{PART}", path.display()));
    let mut file = File::create_new(&part).map_err(failed)?;
    let written = match write(&mut file) {
        Ok(written) => written,
        Err(error) => {
            // Best effort: readers ignore the temporary name.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
    };
    // Fsync before the rename: otherwise a crash could leave the name without the complete content.
    file.sync_all().map_err(failed)?;
    fs::rename(&part, &path).map_err(failed)?;
    // The rename is durable only after the directory is fsynced.
    sync_up(root, parent).map_err(failed)?;
    Ok(written)
}

/// Creates a file by a hard link, which fails if the name exists. A rename would replace it.
fn put_new_file(root: &Path, name: &str, bytes: &[u8]) -> Result<bool> {
    let path = root.join(name);
    let failed = |error: io::Error| cannot("write", path.display(), &error);
    let parent = path.parent().unwrap_or(root);
    fs::create_dir_all(parent).map_err(failed)?;
    // Two writers may be active, so each uses its own temporary file.
    let part = PathBuf::from(format!("{}.{}{PART}", path.display(), unique()));
    let written = File::create_new(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let linked = written.and_then(|()| fs::hard_link(&part, &path));
    let _ = fs::remove_file(&part);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        linked => linked.map_err(failed)?,
    }
    sync_up(root, parent).map_err(failed)?;
    Ok(true)
}

/// Fsyncs a directory and its parents up to the root.
fn sync_up(root: &Path, directory: &Path) -> io::Result<()> {
    let own = directory.ancestors().take_while(|part| part.starts_with(root));
    own.map(File::open).try_for_each(|directory| directory?.sync_all())
}

/// Lists all files below a path with their sizes.
fn list_files(root: &Path, below: &str) -> Result<BTreeMap<String, u64>> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.join(below)];
    while let Some(directory) = open.pop() {
        let failed = |error: io::Error| cannot("list", directory.display(), &error);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            // A file that was removed in the meantime is skipped.
            let about = match fs::metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                about => about.map_err(failed)?,
            };
            let name = path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_owned);
            match name {
                _ if about.is_dir() => open.push(path),
                Some(name) => drop(files.insert(name, about.len())),
                None => {}
            }
        }
    }
    Ok(files)
}

/// Wraps a reader or writer to report its progress.
struct Watched<F> {
    inner: F,
    watcher: Watcher,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.inner.read(room).inspect(|read| (self.watcher)(*read as u64))
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).inspect(|written| (self.watcher)(*written as u64))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes an object as a multipart upload.
struct Upload {
    writer: BufWriter,
    runtime: Arc<Runtime>,
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads an object as a stream.
struct Download<S> {
    stream: S,
    rest: io::Cursor<Vec<u8>>,
    runtime: Arc<Runtime>,
}

impl<S, B> Read for Download<S>
where
    S: tokio_stream::Stream<Item = object_store::Result<B>> + Unpin,
    B: AsRef<[u8]>,
{
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        use tokio_stream::StreamExt;
        loop {
            let read = self.rest.read(room)?;
            if read > 0 || room.is_empty() {
                return Ok(read);
            }
            match self.runtime.block_on(self.stream.next()) {
                Some(piece) => {
                    self.rest = io::Cursor::new(piece.map_err(io::Error::other)?.as_ref().to_vec())
                }
                None => return Ok(0),
            }
        }
    }
}

#[cold]
fn cannot(what: &str, name: impl std::fmt::Display, error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("cannot {what} `{name}` of the checkpoints: {error}"))
}
