//! Checkpoint storage: files in a directory or objects in an object store.
//!
//! ```text
//!   directory   name.part --write, fsync--> rename to name --fsync of the directory
//!   objects     multipart upload; the object appears when it is complete
//! ```
//!
//! In both, a file appears atomically, and an existing file is durable.

use super::unique_suffix;
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
const TEMPORARY_SUFFIX: &str = ".part";
/// The read buffer size of a file, in bytes.
const READ_BYTES: usize = 1 << 20;

/// The storage of checkpoints. Clones share it.
#[derive(Clone)]
pub struct CheckpointStore {
    kind: StoreBackend,
    progress: Option<ProgressCallback>,
}

/// A callback that receives the number of bytes of each read or write.
type ProgressCallback = Arc<dyn Fn(u64) + Send + Sync>;

#[derive(Clone)]
enum StoreBackend {
    Directory(PathBuf),
    Objects { objects: Arc<dyn ObjectStore>, runtime: Arc<Runtime> },
}

impl CheckpointStore {
    /// Uses a directory, which is created if it does not exist.
    pub fn directory(path: impl AsRef<Path>) -> Result<CheckpointStore> {
        let path = path.as_ref();
        let created = mainstay::create_dir_all_durable(path);
        created.map_err(|error| store_error("make", path.display(), &error))?;
        Ok(CheckpointStore { kind: StoreBackend::Directory(path.to_owned()), progress: None })
    }

    /// Uses any object store whose writes are durable.
    pub fn objects(objects: Arc<dyn ObjectStore>) -> Result<CheckpointStore> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mainstay-checkpoint")
            .enable_all()
            .build()
            .map_err(|error| store_error("begin to use", "the store of objects", &error))?;
        let kind = StoreBackend::Objects { objects, runtime: Arc::new(runtime) };
        Ok(CheckpointStore { kind, progress: None })
    }

    /// Adds a callback that receives the number of bytes of each read or write, for progress reports.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(u64) + Send + Sync + 'static) -> CheckpointStore {
        CheckpointStore { progress: Some(Arc::new(progress)), ..self }
    }

    /// Writes a file atomically. The name may contain `/`.
    pub(super) fn put<T>(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> Result<T>,
    ) -> Result<T> {
        let progress = self.progress.clone();
        let write = |out: &mut dyn Write| match progress {
            Some(progress) => write(&mut ProgressIo { inner: out, progress }),
            None => write(out),
        };
        match &self.kind {
            StoreBackend::Directory(root) => write_file_atomic(root, name, write),
            StoreBackend::Objects { objects, runtime } => {
                let path = ObjectPath::from(name);
                let mut out = Upload {
                    writer: BufWriter::new(objects.clone(), path),
                    runtime: runtime.clone(),
                };
                let value = write(&mut out)?;
                let result = runtime.block_on(out.writer.shutdown());
                result.map_err(|error| store_error("write", name, &error))?;
                Ok(value)
            }
        }
    }

    /// Creates a small file if it does not exist. Returns whether it did not. Of two concurrent callers only
    /// one creates it.
    pub(super) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        match &self.kind {
            StoreBackend::Directory(root) => create_file(root, name, bytes),
            StoreBackend::Objects { objects, runtime } => {
                let mode = object_store::PutMode::Create.into();
                let path = ObjectPath::from(name);
                let bytes = bytes.to_vec().into();
                match runtime.block_on(objects.put_opts(&path, bytes, mode)) {
                    Ok(_) => Ok(true),
                    Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                    Err(error) => Err(store_error("write", name, &error)),
                }
            }
        }
    }

    /// Fsyncs a directory and its parents up to the root, because the writer of a file may have crashed
    /// before it did.
    pub(super) fn sync_directory(&self, prefix: &str) -> Result<()> {
        let StoreBackend::Directory(root) = &self.kind else { return Ok(()) };
        let directory = root.join(prefix);
        sync_ancestors(root, &directory)
            .map_err(|error| store_error("sync", directory.display(), &error))
    }

    /// Opens a file; `None` if it does not exist.
    pub(super) fn open(&self, name: &str) -> Result<Option<Box<dyn Read>>> {
        let inner = self.open_unobserved(name)?;
        let Some(progress) = self.progress.clone() else { return Ok(inner) };
        Ok(inner.map(|inner| Box::new(ProgressIo { inner, progress }) as Box<dyn Read>))
    }

    fn open_unobserved(&self, name: &str) -> Result<Option<Box<dyn Read>>> {
        match &self.kind {
            StoreBackend::Directory(root) => match File::open(root.join(name)) {
                Ok(file) => Ok(Some(Box::new(BufReader::with_capacity(READ_BYTES, file)))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(store_error("open", name, &error)),
            },
            StoreBackend::Objects { objects, runtime } => {
                let response = runtime.block_on(objects.get(&ObjectPath::from(name)));
                match response {
                    Ok(object) => {
                        let stream = object.into_stream();
                        let runtime = runtime.clone();
                        let chunk_reader = io::Cursor::new(Vec::new());
                        Ok(Some(Box::new(Download { stream, chunk_reader, runtime })))
                    }
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(store_error("open", name, &error)),
                }
            }
        }
    }

    /// Lists the names below a path, in order, without files that are being written.
    pub(super) fn list(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.lengths(prefix)?.into_keys().collect())
    }

    /// Lists the names below a path with their sizes in bytes.
    pub(super) fn lengths(&self, prefix: &str) -> Result<BTreeMap<String, u64>> {
        match &self.kind {
            StoreBackend::Directory(root) => {
                let mut all = list_files(root, prefix)?;
                all.retain(|name, _| !name.ends_with(TEMPORARY_SUFFIX));
                Ok(all)
            }
            StoreBackend::Objects { objects, runtime } => {
                use tokio_stream::StreamExt;
                let prefix = ObjectPath::from(prefix);
                let all = runtime.block_on(async {
                    let mut all = BTreeMap::new();
                    let mut listing = objects.list(Some(&prefix));
                    while let Some(one) = listing.next().await {
                        let one = one?;
                        all.insert(one.location.to_string(), one.size);
                    }
                    Ok::<_, object_store::Error>(all)
                });
                all.map_err(|error| store_error("list", prefix, &error))
            }
        }
    }

    /// Lists the files below a path that are being written or whose writing was interrupted. Empty for an
    /// object store, which discards unfinished uploads by its own rules.
    pub(super) fn list_temporary(&self, prefix: &str) -> Result<Vec<String>> {
        let StoreBackend::Directory(root) = &self.kind else { return Ok(Vec::new()) };
        let all = list_files(root, prefix)?;
        Ok(all.into_keys().filter(|name| name.ends_with(TEMPORARY_SUFFIX)).collect())
    }

    /// Removes a file. A missing file is not an error.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        match &self.kind {
            StoreBackend::Directory(root) => match fs::remove_file(root.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(store_error("remove", name, &error))
                }
                _ => Ok(()),
            },
            StoreBackend::Objects { objects, runtime } => {
                match runtime.block_on(objects.delete(&ObjectPath::from(name))) {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                    Err(error) => Err(store_error("remove", name, &error)),
                }
            }
        }
    }
}

fn write_file_atomic<T>(
    root: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> Result<T>,
) -> Result<T> {
    let path = root.join(name);
    let failed = |error: io::Error| store_error("write", path.display(), &error);
    let parent = path.parent().unwrap_or(root);
    fs::create_dir_all(parent).map_err(failed)?;
    let part = PathBuf::from(format!("{}{TEMPORARY_SUFFIX}", path.display()));
    let mut file = File::create_new(&part).map_err(failed)?;
    let result = match write(&mut file) {
        Ok(result) => result,
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
    sync_ancestors(root, parent).map_err(failed)?;
    Ok(result)
}

/// Creates a file by a hard link, which fails if the name exists. A rename would replace it.
fn create_file(root: &Path, name: &str, bytes: &[u8]) -> Result<bool> {
    let path = root.join(name);
    let failed = |error: io::Error| store_error("write", path.display(), &error);
    let parent = path.parent().unwrap_or(root);
    fs::create_dir_all(parent).map_err(failed)?;
    // Two writers may be active, so each uses its own temporary file.
    let part = PathBuf::from(format!("{}.{}{TEMPORARY_SUFFIX}", path.display(), unique_suffix()));
    let result = File::create_new(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let linked = result.and_then(|()| fs::hard_link(&part, &path));
    let _ = fs::remove_file(&part);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        linked => linked.map_err(failed)?,
    }
    sync_ancestors(root, parent).map_err(failed)?;
    Ok(true)
}

/// Fsyncs a directory and its parents up to the root.
fn sync_ancestors(root: &Path, directory: &Path) -> io::Result<()> {
    let own = directory.ancestors().take_while(|part| part.starts_with(root));
    own.map(File::open).try_for_each(|directory| directory?.sync_all())
}

/// Lists all files below a path with their sizes.
fn list_files(root: &Path, prefix: &str) -> Result<BTreeMap<String, u64>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![root.join(prefix)];
    while let Some(directory) = pending.pop() {
        let failed = |error: io::Error| store_error("list", directory.display(), &error);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            // A file that was removed in the meantime is skipped.
            let metadata = match fs::metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata.map_err(failed)?,
            };
            let name = path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_owned);
            match name {
                _ if metadata.is_dir() => pending.push(path),
                Some(name) => drop(files.insert(name, metadata.len())),
                None => {}
            }
        }
    }
    Ok(files)
}

/// Wraps a reader or writer to report its progress.
struct ProgressIo<F> {
    inner: F,
    progress: ProgressCallback,
}

impl<R: Read> Read for ProgressIo<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).inspect(|read| (self.progress)(*read as u64))
    }
}

impl<W: Write> Write for ProgressIo<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).inspect(|count| (self.progress)(*count as u64))
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
    chunk_reader: io::Cursor<Vec<u8>>,
    runtime: Arc<Runtime>,
}

impl<S, B> Read for Download<S>
where
    S: tokio_stream::Stream<Item = object_store::Result<B>> + Unpin,
    B: AsRef<[u8]>,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use tokio_stream::StreamExt;
        loop {
            let read = self.chunk_reader.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.runtime.block_on(self.stream.next()) {
                Some(chunk) => {
                    self.chunk_reader =
                        io::Cursor::new(chunk.map_err(io::Error::other)?.as_ref().to_vec())
                }
                None => return Ok(0),
            }
        }
    }
}

#[cold]
fn store_error(what: &str, name: impl std::fmt::Display, error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("cannot {what} `{name}` of the checkpoints: {error}"))
}
