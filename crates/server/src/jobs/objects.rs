//! An object store in a local directory, which makes each object durable before a record refers to it.
//!
//! ```text
//!   put --> temporary file, renamed --> fsync of the file --> fsync of every directory above it --> done
//! ```

use async_trait::async_trait;
use mainstay::{Code, Error};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Place;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use tokio_stream::Stream;

type Flow<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

#[derive(Debug)]
pub(super) struct Directory {
    files: LocalFileSystem,
    root: PathBuf,
}

impl Directory {
    /// Opens the directory at this path, and creates it if necessary.
    pub fn open(root: &Path) -> mainstay::Result<Directory> {
        let made = || -> io::Result<Directory> {
            // The directory itself has to survive a crash, too.
            mainstay::create_dir_all_durable(root)?;
            let root = root.canonicalize()?;
            let files = LocalFileSystem::new_with_prefix(&root).map_err(io::Error::other)?;
            Ok(Directory { files, root })
        };
        made().map_err(|error| {
            let root = root.display();
            let message = format!("jobs.objects_directory, {root}, cannot be used: {error}");
            Error::new(Code::Io, message)
        })
    }

    /// Fsyncs a file and all directories from it up to the root.
    fn sync(&self, place: &Place) -> Result<()> {
        let path = self.files.path_to_filesystem(place)?;
        let synced = path
            .ancestors()
            .take_while(|it| it.starts_with(&self.root))
            .try_for_each(|it| File::open(it)?.sync_all());
        synced.map_err(|source| object_store::Error::Generic {
            store: "files",
            source: source.into(),
        })
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Directory {
    async fn put_opts(
        &self,
        place: &Place,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let put = self.files.put_opts(place, payload, options).await?;
        self.sync(place).map(|()| put)
    }

    async fn put_multipart_opts(
        &self,
        place: &Place,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(place, options).await
    }

    async fn get_opts(&self, place: &Place, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(place, options).await
    }

    fn delete_stream(&self, places: Flow<Place>) -> Flow<Place> {
        self.files.delete_stream(places)
    }

    fn list(&self, prefix: Option<&Place>) -> Flow<ObjectMeta> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Place>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Place, to: &Place, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await?;
        self.sync(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ObjectStoreExt;

    #[tokio::test]
    async fn what_was_put_is_there_and_a_place_that_cannot_be_used_is_named() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::open(&root.path().join("a/b")).unwrap();
        let place = Place::from("t/1/params/x");
        directory.put(&place, PutPayload::from_static(b"bytes")).await.unwrap();
        let bytes = directory.get(&place).await.unwrap().bytes().await.unwrap();
        assert_eq!(&bytes[..], b"bytes");
        assert!(root.path().join("a/b/t/1/params/x").is_file());
        let file = root.path().join("a/b/t/1/params/x");
        let error = Directory::open(&file).unwrap_err();
        assert!(error.message().contains("params/x, cannot be used"), "{error}");
    }
}
