//! Concurrent commits and lost responses: an object store that injects an event between a read and a write.

use mainstay::{Code, Database};
use mainstay_streams::{CheckpointStore, Checkpoints, Job};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio_stream::Stream;

type ResponseFuture<'t, T> = Pin<Box<dyn Future<Output = T> + Send + 't>>;
type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send + 'static>>;

/// The event injected at the next put of a manifest.
enum InjectedEvent {
    /// Another writer puts a manifest first.
    Comes(Path, PutPayload),
    /// The response is lost, and the client retries.
    ReplyLost,
}

struct Store {
    objects: InMemory,
    next: Mutex<Option<InjectedEvent>>,
}

impl Store {
    async fn put_between(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let is_manifest = location.as_ref().contains("/manifests/");
        let next = self.next.lock().unwrap().take_if(|_| is_manifest);
        match next {
            None => self.objects.put_opts(location, payload, options).await,
            Some(InjectedEvent::Comes(other, bytes)) => {
                self.objects.put(&other, bytes).await?;
                self.objects.put_opts(location, payload, options).await
            }
            Some(InjectedEvent::ReplyLost) => {
                self.objects.put_opts(location, payload.clone(), options.clone()).await?;
                self.objects.put_opts(location, payload, options).await
            }
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.objects.fmt(out)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl ObjectStore for Store {
    fn put_opts<'a, 'b, 't>(
        &'a self,
        location: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> ResponseFuture<'t, Result<PutResult>>
    where
        'a: 't,
        'b: 't,
        Self: 't,
    {
        Box::pin(self.put_between(location, payload, options))
    }

    fn put_multipart_opts<'a, 'b, 't>(
        &'a self,
        location: &'b Path,
        options: PutMultipartOptions,
    ) -> ResponseFuture<'t, Result<Box<dyn MultipartUpload>>>
    where
        'a: 't,
        'b: 't,
        Self: 't,
    {
        self.objects.put_multipart_opts(location, options)
    }

    fn get_opts<'a, 'b, 't>(
        &'a self,
        location: &'b Path,
        options: GetOptions,
    ) -> ResponseFuture<'t, Result<GetResult>>
    where
        'a: 't,
        'b: 't,
        Self: 't,
    {
        self.objects.get_opts(location, options)
    }

    fn delete_stream(&self, locations: ResponseStream<Path>) -> ResponseStream<Path> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> ResponseStream<ObjectMeta> {
        self.objects.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 't>(
        &'a self,
        prefix: Option<&'b Path>,
    ) -> ResponseFuture<'t, Result<ListResult>>
    where
        'a: 't,
        'b: 't,
        Self: 't,
    {
        self.objects.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'c, 't>(
        &'a self,
        from: &'b Path,
        to: &'c Path,
        options: CopyOptions,
    ) -> ResponseFuture<'t, Result<()>>
    where
        'a: 't,
        'b: 't,
        'c: 't,
        Self: 't,
    {
        self.objects.copy_opts(from, to, options)
    }
}

fn fixture() -> (Arc<Store>, Checkpoints, mainstay::Keyed) {
    let objects = Arc::new(Store { objects: InMemory::new(), next: Mutex::new(None) });
    let store = CheckpointStore::objects(objects.clone()).unwrap();
    let checkpoints = Checkpoints::open(store, Job::new("job", "counts")).unwrap();
    let space = Database::memory().unwrap().keyed("counts").unwrap();
    space.put("key", "value", 1).unwrap();
    (objects, checkpoints, space)
}

fn manifest(id: u64) -> Path {
    Path::from(format!("job/manifests/{id:020}"))
}

/// Removes a manifest from the store, as if it had not been put yet.
fn remove_manifest(store: &Store, id: u64) -> PutPayload {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let bytes = store.objects.get(&manifest(id)).await.unwrap().bytes().await.unwrap();
        store.objects.delete(&manifest(id)).await.unwrap();
        bytes.into()
    })
}

#[test]
fn a_manifest_whose_reply_was_lost_is_ones_own() {
    let (store, checkpoints, space) = fixture();
    checkpoints.create(&space).unwrap();
    *store.next.lock().unwrap() = Some(InjectedEvent::ReplyLost);
    assert_eq!(checkpoints.create(&space).unwrap().checkpoint, 2);
    // A retry with the same reports returns the same result.
    let report = checkpoints.write(3, 0, 0..128, &space, None).unwrap();
    let first = checkpoints.commit(3, 0, vec![report.clone()]).unwrap();
    assert_eq!(checkpoints.commit(3, 0, vec![report]).unwrap(), first);
    assert_eq!(checkpoints.list().unwrap(), [1, 2, 3]);
}

#[test]
fn a_manifest_of_somebody_else_is_not() {
    let (store, checkpoints, space) = fixture();
    checkpoints.create(&space).unwrap();
    checkpoints.create(&space).unwrap();
    let other = remove_manifest(&store, 2);
    *store.next.lock().unwrap() = Some(InjectedEvent::Comes(manifest(2), other));
    assert_eq!(checkpoints.create(&space).unwrap_err().code(), Code::CheckpointExists);
    checkpoints.verify(2).unwrap();
}

/// A rescaling occurs between the check and the write of a checkpoint. Whichever came first, exactly one
/// remains.
#[test]
fn a_division_that_comes_between_stands() {
    let (store, checkpoints, space) = fixture();
    checkpoints.create(&space).unwrap();
    let divided = checkpoints.rescale(2).unwrap();
    let bytes = remove_manifest(&store, 2);
    let report = checkpoints.write(3, 0, 0..128, &space, None).unwrap();
    *store.next.lock().unwrap() = Some(InjectedEvent::Comes(manifest(2), bytes));
    let error = checkpoints.commit(3, 0, vec![report]).unwrap_err();
    assert_eq!(error.code(), Code::Fenced, "{error}");
    assert_eq!(checkpoints.latest().unwrap().unwrap(), divided);
    checkpoints.verify(2).unwrap();
}

/// The reverse: the rescaled checkpoint is no longer the newest.
#[test]
fn a_checkpoint_that_comes_while_the_work_is_divided_stands() {
    let (store, checkpoints, space) = fixture();
    checkpoints.create(&space).unwrap();
    let report = checkpoints.write(3, 0, 0..128, &space, None).unwrap();
    let newest = checkpoints.commit(3, 0, vec![report]).unwrap();
    let bytes = remove_manifest(&store, 3);
    *store.next.lock().unwrap() = Some(InjectedEvent::Comes(manifest(3), bytes));
    let error = checkpoints.rescale(2).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointExists, "{error}");
    assert_eq!(checkpoints.latest().unwrap().unwrap(), newest);
    assert_eq!(checkpoints.list().unwrap(), [1, 3]);
}
