//! Large input and output: stored in an object store, by reference.
//!
//! ```text
//!   bytes --up to the limit--> the field `params` or `result`
//!         --larger-------> object {namespace}/{type}/{id}/params/{hash}, and its path in `params_ref` or `result_ref`
//! ```
//!
//! An object is written before the record that names it, and its name contains the hash of its content. So every
//! reference has its object, and a repeated or rejected operation overwrites nothing. Objects of rejected operations
//! stay until [`Jobs::collect_garbage`](crate::Jobs::collect_garbage) deletes them.
//!
//! A reference is a field of a record, and any user who may write the record may write the field. So references are not
//! trusted: an object is read only if its path contains the job's own name.

mod object_store_thread;

use crate::model::job::Job;
use crate::model::name::JobName;
use mainstay::{Clock, Code, Error, Result, SystemClock};
use object_store::path::{Path, PathPart};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use object_store_thread::ObjectStoreThread;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::StreamExt;

pub(crate) struct Objects {
    store: Option<Arc<dyn ObjectStore>>,
    inline_limit_bytes: usize,
    thread: ObjectStoreThread,
}

/// A field and its value: inline bytes, or the path of an object.
pub(crate) type StoredField = (&'static str, Vec<u8>);

/// The location of a job's input or output in the object store.
pub(crate) struct ObjectLocation(Vec<String>);

impl ObjectLocation {
    pub fn new(namespace: &str, name: &JobName, field: &str) -> ObjectLocation {
        let parts = [namespace, name.task_type(), name.id(), field];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        ObjectLocation(parts.map(str::to_owned).collect())
    }

    pub fn path(&self, hash: &str) -> Path {
        Path::from_iter(self.0.iter().map(String::as_str).chain([hash]).map(PathPart::from))
    }

    /// Returns whether an object belongs to this location, with any hash.
    fn contains(&self, path: &Path) -> bool {
        path.filename().is_some_and(|hash| self.path(hash) == *path)
    }

    /// Parses an object's path into its job and whether it is input or output. Returns `None` if it is not
    /// a job object of this namespace.
    pub fn parse(namespace: &str, path: &Path) -> Option<(JobName, String)> {
        let parts = path.parts().map(|part| percent_decode(part.as_ref()));
        let parts = parts.collect::<Option<Vec<String>>>()?;
        let parts = match namespace {
            "" => &parts[..],
            namespace => parts.split_first().filter(|(first, _)| *first == namespace)?.1,
        };
        let [task_type, id, field, _hash] = parts else { return None };
        Some((JobName::new(task_type, id).ok()?, field.clone()))
    }
}

/// Reverses the percent-encoding of a path.
fn percent_decode(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut remaining = part.as_bytes();
    while let [first, tail @ ..] = remaining {
        (remaining, _) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let code = std::str::from_utf8(&digits).ok()?;
                (tail, bytes.push(u8::from_str_radix(code, 16).ok()?))
            }
            _ => (tail, bytes.push(*first)),
        };
    }
    String::from_utf8(bytes).ok()
}

impl Objects {
    pub fn new(store: Option<Arc<dyn ObjectStore>>, inline_limit_bytes: usize) -> Objects {
        Objects { store, inline_limit_bytes, thread: ObjectStoreThread::default() }
    }

    /// Stores bytes inline or as an object. Returns the field that holds or names them.
    pub async fn write(
        &self,
        location: &ObjectLocation,
        bytes: &[u8],
        inline: &'static str,
        reference: &'static str,
    ) -> Result<StoredField> {
        if bytes.len() <= self.inline_limit_bytes {
            return Ok((inline, bytes.to_vec()));
        }
        let store = self.store(&location.0.join("/"))?.clone();
        let path = location.path(blake3::hash(bytes).to_hex().as_str());
        let target = path.clone();
        let payload = PutPayload::from(bytes.to_vec());
        let put = async move { store.put(&target, payload).await.map(drop) };
        self.thread.run(put).await.map_err(|error| io_error("written", &path, &error))?;
        Ok((reference, path.to_string().into_bytes()))
    }

    /// Reads the bytes that a job's record holds or names. Rejects a reference to an object of another job,
    /// with an error that does not reveal the reference.
    pub async fn read(
        &self,
        location: &ObjectLocation,
        job: &Job,
        inline: &str,
        reference: &str,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = job.fields.get(inline) {
            return Ok(Some(bytes.to_vec()));
        }
        let Some(path) = job.fields.text(reference) else { return Ok(None) };
        let own_path = Path::parse(path).ok().filter(|path| location.contains(path));
        let path = own_path.ok_or_else(|| foreign(job, reference))?;
        let store = self.store(path.as_ref())?.clone();
        let source = path.clone();
        let fetch = async move { store.get(&source).await?.bytes().await };
        let bytes =
            self.thread.run(fetch).await.map_err(|error| io_error("read", &path, &error))?;
        check(&path, &bytes)?;
        Ok(Some(bytes.to_vec()))
    }

    /// Lists the objects under a namespace that are at least this old. Empty without a store.
    pub async fn older_than(&self, namespace: &str, age: Duration) -> Result<Vec<Path>> {
        let Some(store) = self.store.clone() else { return Ok(Vec::new()) };
        let prefix = Path::from_iter((!namespace.is_empty()).then(|| PathPart::from(namespace)));
        let age_us = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let now_us = i64::try_from(SystemClock::new().wall_us()).unwrap_or(i64::MAX);
        let is_old = move |meta: &ObjectMeta| {
            meta.last_modified.timestamp_micros() <= now_us.saturating_sub(age_us)
        };
        let list_prefix = prefix.clone();
        let list = async move {
            let all: object_store::Result<Vec<_>> = store.list(Some(&list_prefix)).collect().await;
            Ok(all?.into_iter().filter(is_old).map(|meta| meta.location).collect())
        };
        self.thread.run(list).await.map_err(|error| io_error("listed", &prefix, &error))
    }

    /// Deletes an object. Succeeds if it no longer exists.
    pub async fn delete(&self, path: &Path) -> Result<()> {
        let store = self.store(path.as_ref())?.clone();
        let target = path.clone();
        let delete = async move {
            match store.delete(&target).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                other => other,
            }
        };
        self.thread.run(delete).await.map_err(|error| io_error("deleted", path, &error))
    }

    fn store(&self, what: &str) -> Result<&Arc<dyn ObjectStore>> {
        self.store.as_ref().ok_or_else(|| {
            let message = format!(
                "`{what}` has more than {} bytes and there is no object store for it: open the jobs with one, or raise \
                 `inline_limit_bytes` (of a server `jobs.objects_directory` and `jobs.inline_limit_bytes`)",
                self.inline_limit_bytes
            );
            Error::new(Code::ValueTooLarge, message)
        })
    }
}

/// Rejects content that does not match the hash in its name.
fn check(path: &Path, bytes: &[u8]) -> Result<()> {
    let hash = blake3::hash(bytes).to_hex();
    if path.filename() == Some(hash.as_str()) {
        return Ok(());
    }
    let message = format!("object `{path}` does not hold what its name says: restore it");
    Err(Error::new(Code::CorruptData, message))
}

#[cold]
fn foreign(job: &Job, reference: &str) -> Error {
    let message = format!("field `{reference}` of job {} names no object of this job", job.name);
    Error::new(Code::CorruptData, message)
}

#[cold]
fn io_error(what: &str, path: &Path, error: &std::io::Error) -> Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    let why = match cause {
        // A file-based store would include the server's file path in its error.
        Some(object_store::Error::NotFound { .. }) => "it is not there".to_owned(),
        _ => error.to_string(),
    };
    Error::new(Code::Io, format!("object `{path}` could not be {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_whatever_its_names_hold() {
        let name = JobName::new("e-mail", "100%_é..#1").unwrap();
        for namespace in ["", "mainstay.", "a/b."] {
            let path = ObjectLocation::new(namespace, &name, "params").path("abc");
            let path = Path::parse(path.as_ref()).unwrap();
            let read = ObjectLocation::parse(namespace, &path);
            assert_eq!(read, Some((name.clone(), "params".to_owned())), "{path}");
            assert_eq!(ObjectLocation::parse("other.", &path), None);
        }
        let own = ObjectLocation::new("mainstay.", &name, "params").path("abc");
        assert_eq!(ObjectLocation::parse("", &own), None, "another namespace's");
    }
}
