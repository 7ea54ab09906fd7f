//! Storage of archive files: a directory or an object store.

use super::StoreSettings;
use mainstay::{Code, Error, Result};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use std::fs::File;
use std::sync::Arc;

/// The storage of an archive's files. Clones share the store.
#[derive(Clone)]
pub struct ArchiveStore {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The directory, if the store is one. Its files are not durable until they are fsynced.
    directory: Option<(Arc<LocalFileSystem>, std::path::PathBuf)>,
}

impl ArchiveStore {
    /// Opens the configured store.
    pub fn open(settings: &StoreSettings) -> Result<ArchiveStore> {
        match settings {
            StoreSettings::Directory { path } => directory(path),
            StoreSettings::S3 { .. } => {
                settings.check()?;
                s3(settings)
            }
        }
    }

    /// Uses any object store whose writes are durable. For a directory use [`open`](ArchiveStore::open),
    /// which fsyncs its files.
    pub fn of(objects: Arc<dyn ObjectStore>) -> ArchiveStore {
        ArchiveStore { objects, directory: None }
    }

    /// The underlying object store.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Makes a file and its name durable: fsyncs the file and all its parent directories up to the root.
    pub(super) fn sync(&self, path: &Path) -> Result<()> {
        let Some((files, root)) = &self.directory else { return Ok(()) };
        let file =
            files.path_to_filesystem(path).map_err(|error| file_error("found", path, &error))?;
        let own = file.ancestors().take_while(|part| part.starts_with(root));
        for part in own {
            let synced = File::open(part).and_then(|part| part.sync_all());
            synced.map_err(|error| file_error("synced", path, &error))?;
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
    mainstay::create_dir_all_durable(path).map_err(|error| unusable(&error))?;
    let root = path.canonicalize().map_err(|error| unusable(&error))?;
    let files = LocalFileSystem::new_with_prefix(&root).map_err(|error| unusable(&error))?;
    let files = Arc::new(files);
    Ok(ArchiveStore { objects: files.clone(), directory: Some((files, root)) })
}

#[cfg(feature = "s3")]
fn s3(settings: &StoreSettings) -> Result<ArchiveStore> {
    let StoreSettings::S3 { bucket, prefix, region, endpoint, allow_http } = settings else {
        return Err(super::settings::invalid("the archive is not on S3"));
    };
    let mut builder = object_store::aws::AmazonS3Builder::from_env().with_bucket_name(bucket);
    builder = region.iter().fold(builder, |builder, region| builder.with_region(region));
    builder = endpoint.iter().fold(builder, |builder, endpoint| builder.with_endpoint(endpoint));
    // If it is not set here, the environment may set it.
    if *allow_http {
        builder = builder.with_allow_http(true);
    }
    let store = builder
        .build()
        .map_err(|error| Error::new(Code::InvalidOption, format!("bucket `{bucket}`: {error}")))?;
    Ok(match prefix {
        Some(prefix) => {
            let prefixed = object_store::prefix::PrefixStore::new(store, prefix.as_str());
            ArchiveStore::of(Arc::new(prefixed))
        }
        None => ArchiveStore::of(Arc::new(store)),
    })
}

/// Without the feature, the settings check has already rejected S3.
#[cfg(not(feature = "s3"))]
fn s3(settings: &StoreSettings) -> Result<ArchiveStore> {
    Err(super::settings::invalid(&format!("{settings:?} cannot be opened by this program")))
}

#[cold]
pub(super) fn file_error(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("archive file `{path}` could not be {what}: {error}"))
}

#[cold]
pub(super) fn corrupt_error(path: &Path, why: &dyn std::fmt::Display) -> Error {
    let message = format!("archive file `{path}` is damaged: {why}; restore it from a copy");
    Error::new(Code::CorruptData, message)
}
