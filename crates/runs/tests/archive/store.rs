//! An in-memory store with fault injection.

use async_trait::async_trait;
use mainstay_runs::archive::ArchivedRun;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_stream::Stream;

type Listing<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;
type Hook = Box<dyn Fn() + Send>;

/// The kind of an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation is not executed and fails.
    Fails,
    /// The operation is executed but reports an error.
    FailsBehind,
    /// Half of the data is written, and success is reported.
    Lies,
}

#[derive(Default)]
pub struct FaultyStore {
    inner: InMemory,
    operations: AtomicUsize,
    fault: Mutex<Option<(usize, Fault)>>,
    /// Called before a write.
    pub before_put: Mutex<Option<Hook>>,
}

impl FaultyStore {
    /// Injects a fault into the operation with this number, counted from now.
    pub fn let_go_wrong(&self, number: usize, fault: Fault) {
        // A test counter; `SeqCst` only keeps the count exact across threads, no other data depends on it.
        self.operations.store(0, Ordering::SeqCst);
        *self.fault.lock() = Some((number, fault));
    }

    /// Stops the fault injection. Returns whether a fault occurred.
    pub fn heal(&self) -> bool {
        let fault = self.fault.lock().take();
        // Reads the counter that `now` increments.
        fault.is_some_and(|(number, _)| self.operations.load(Ordering::SeqCst) > number)
    }

    /// The bytes of a file.
    pub fn bytes(&self, run: &ArchivedRun) -> Vec<u8> {
        let get = async { self.inner.get(&path(run)).await?.bytes().await };
        mainstay::remote::wait(get).unwrap().to_vec()
    }

    /// Overwrites a file.
    pub fn replace(&self, run: &ArchivedRun, bytes: Vec<u8>) {
        mainstay::remote::wait(self.inner.put(&path(run), bytes.into())).unwrap();
    }

    /// Returns the fault for the current operation.
    fn now(&self) -> Option<Fault> {
        // Counts the operation; see `let_go_wrong`.
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        self.fault.lock().filter(|(at, _)| *at == number).map(|(_, fault)| fault)
    }
}

fn path(run: &ArchivedRun) -> Path {
    Path::parse(&run.path).unwrap()
}

fn broken() -> Error {
    Error::Generic { store: "troubled", source: "the network is gone".into() }
}

fn half(payload: PutPayload) -> PutPayload {
    let bytes: Vec<u8> = payload.iter().flat_map(|piece| piece.to_vec()).collect();
    bytes[..bytes.len() / 2].to_vec().into()
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("troubled")
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("troubled")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if let Some(hook) = &*self.before_put.lock() {
            hook();
        }
        match self.now() {
            None => self.inner.put_opts(at, payload, options).await,
            Some(Fault::Lies) => self.inner.put_opts(at, half(payload), options).await,
            Some(Fault::Fails) => Err(broken()),
            Some(Fault::FailsBehind) => {
                self.inner.put_opts(at, payload, options).await?;
                Err(broken())
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        match self.now() {
            None | Some(Fault::Lies) => self.inner.get_opts(at, options).await,
            Some(_) => Err(broken()),
        }
    }

    fn delete_stream(&self, paths: Listing<Path>) -> Listing<Path> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> Listing<ObjectMeta> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
