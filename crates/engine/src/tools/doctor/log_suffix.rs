//! A view of a log without its older segments, to check whether the rest is sound.

use crate::log::{DiskFiles, File, Files};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The files of a log from one segment on, read-only.
pub(super) struct LogSuffix<'a> {
    files: DiskFiles,
    first: &'a str,
}

impl<'a> LogSuffix<'a> {
    pub(super) fn new(directory: &Path, first: &'a str) -> LogSuffix<'a> {
        LogSuffix { files: DiskFiles::read_only(directory), first }
    }
}

impl Files for LogSuffix<'_> {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.files.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.files.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        // Names of segments sort in the order of their revisions.
        Ok(self.files.list()?.into_iter().filter(|name| name.as_str() >= self.first).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.files.sync_dir()
    }
}
