//! Large input and output: outside, by reference.
//!
//! ```text
//!   bytes --up to the limit--> the field `params` or `result`
//!         --beyond it--------> object {type}/{id}/params/{hash}, and its path in `params_ref` or `result_ref`
//! ```
//!
//! An object is written before the record that names it, under a name made of what it holds: no record names
//! what is not there, and a repeated or refused operation overwrites nothing. What a refused one wrote stays
//! until somebody tidies up.

use crate::job::Job;
use mainstay::{Code, Error, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use std::sync::Arc;

pub(crate) struct Objects {
    store: Option<Arc<dyn ObjectStore>>,
    inline_limit_bytes: usize,
}

impl Objects {
    pub fn new(store: Option<Arc<dyn ObjectStore>>, inline_limit_bytes: usize) -> Objects {
        Objects { store, inline_limit_bytes }
    }

    /// Puts bytes where they belong; gives the field that says so.
    pub fn write(
        &self,
        at: &str,
        bytes: &[u8],
        inline: &'static str,
        reference: &'static str,
    ) -> Result<(&'static str, Vec<u8>)> {
        if bytes.len() <= self.inline_limit_bytes {
            return Ok((inline, bytes.to_vec()));
        }
        let path = Path::from(format!("{at}/{}", blake3::hash(bytes).to_hex()));
        let payload = PutPayload::from(bytes.to_vec());
        wait(self.store(at)?.put(&path, payload))
            .map_err(|error| failed("written", &path, &error))?;
        Ok((reference, path.to_string().into_bytes()))
    }

    /// The bytes that a job's record holds or names.
    pub fn read(&self, job: &Job, inline: &str, reference: &str) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = job.fields.get(inline) {
            return Ok(Some(bytes.to_vec()));
        }
        let Some(path) = job.fields.text(reference) else { return Ok(None) };
        let store = self.store(path)?;
        let path = Path::parse(path).map_err(|error| {
            let message = format!("field `{reference}` of job {}: {error}", job.name);
            Error::new(Code::CorruptData, message)
        })?;
        let fetch = async { store.get(&path).await?.bytes().await };
        let bytes = wait(fetch).map_err(|error| failed("read", &path, &error))?;
        check(&path, &bytes)?;
        Ok(Some(bytes.to_vec()))
    }

    fn store(&self, what: &str) -> Result<&Arc<dyn ObjectStore>> {
        self.store.as_ref().ok_or_else(|| {
            let message = format!(
                "`{what}` has more than {} bytes and there is no object store for it: open the jobs with one",
                self.inline_limit_bytes
            );
            Error::new(Code::ValueTooLarge, message)
        })
    }
}

/// Refuses what is not what was written.
fn check(path: &Path, bytes: &[u8]) -> Result<()> {
    let hash = blake3::hash(bytes).to_hex();
    if path.filename() == Some(hash.as_str()) {
        return Ok(());
    }
    let message = format!("object `{path}` does not hold what its name says: restore it");
    Err(Error::new(Code::CorruptData, message))
}

/// Waits for a store, on a thread of its own: the caller's may belong to a runtime that must not be blocked so.
fn wait<T: Send>(
    future: impl Future<Output = object_store::Result<T>> + Send,
) -> std::io::Result<T> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(future).map_err(std::io::Error::other)
    };
    let panicked = || std::io::Error::other("the object store panicked");
    std::thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|_| Err(panicked())))
}

#[cold]
fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("object `{path}` could not be {what}: {error}"))
}
