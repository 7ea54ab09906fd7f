//! The store that an archive's files lie in.

use super::StoreSettings;
use mainstay::{Code, Error, Result};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use std::fs::File;
use std::sync::Arc;

/// Where an archive's files lie. Clones are the same store.
#[derive(Clone)]
pub struct ArchiveStore {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The same, where it is a directory: what is written there is not on stable storage by itself.
    directory: Option<(Arc<LocalFileSystem>, std::path::PathBuf)>,
}

impl ArchiveStore {
    /// Opens what the settings say.
    pub fn open(settings: &StoreSettings) -> Result<ArchiveStore> {
        match settings {
            StoreSettings::Directory { path } => directory(path),
            StoreSettings::S3 { bucket, region, endpoint, allow_http } => {
                s3(bucket, region.as_deref(), endpoint.as_deref(), *allow_http)
            }
        }
    }

    /// Any store. What it has taken must stay: a directory is better [opened](ArchiveStore::open), since then its
    /// files are synced.
    pub fn of(objects: Arc<dyn ObjectStore>) -> ArchiveStore {
        ArchiveStore { objects, directory: None }
    }

    /// Makes a file stay, and its name.
    pub(super) fn settle(&self, path: &Path) -> Result<()> {
        let Some((files, root)) = &self.directory else { return Ok(()) };
        let file = files.path_to_filesystem(path).map_err(|error| failed("found", path, &error))?;
        let own = file.ancestors().take_while(|part| part.starts_with(root));
        for part in own {
            let synced = File::open(part).and_then(|part| part.sync_all());
            synced.map_err(|error| failed("synced", path, &error))?;
        }
        Ok(())
    }
}

fn directory(path: &std::path::Path) -> Result<ArchiveStore> {
    let unusable = |error: &dyn std::fmt::Display| {
        let message =
            format!("directory {} of the archive cannot be used: {error}", path.display());
        Error::new(Code::Io, message)
    };
    std::fs::create_dir_all(path).map_err(|error| unusable(&error))?;
    let root = path.canonicalize().map_err(|error| unusable(&error))?;
    let files = LocalFileSystem::new_with_prefix(&root).map_err(|error| unusable(&error))?;
    let files = Arc::new(files);
    Ok(ArchiveStore { objects: files.clone(), directory: Some((files, root)) })
}

#[cfg(feature = "s3")]
fn s3(
    bucket: &str,
    region: Option<&str>,
    endpoint: Option<&str>,
    allow_http: bool,
) -> Result<ArchiveStore> {
    let mut builder = object_store::aws::AmazonS3Builder::from_env().with_bucket_name(bucket);
    builder = region.into_iter().fold(builder, |builder, region| builder.with_region(region));
    builder = endpoint.into_iter().fold(builder, |builder, place| builder.with_endpoint(place));
    let store = builder.with_allow_http(allow_http).build().map_err(|error| {
        Error::new(Code::InvalidOption, format!("bucket `{bucket}` of the archive: {error}"))
    })?;
    Ok(ArchiveStore::of(Arc::new(store)))
}

#[cfg(not(feature = "s3"))]
fn s3(bucket: &str, _: Option<&str>, _: Option<&str>, _: bool) -> Result<ArchiveStore> {
    let message = format!(
        "bucket `{bucket}` of the archive: this program was built without S3, build it with the feature `s3`"
    );
    Err(Error::new(Code::Unsupported, message))
}

#[cold]
pub(super) fn failed(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("archive file `{path}` could not be {what}: {error}"))
}

#[cold]
pub(super) fn damaged(path: &Path, why: &dyn std::fmt::Display) -> Error {
    let message = format!("archive file `{path}` is damaged: {why}; restore it from a copy");
    Error::new(Code::CorruptData, message)
}
