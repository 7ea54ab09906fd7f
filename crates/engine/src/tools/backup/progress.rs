//! How far the reading of one or more files has come.

use crate::fs::checksummed_file::ChecksummedReader;
use crate::tools::export::Progress;
use std::path::PathBuf;

/// Tells somebody how many bytes of all files were read.
pub(crate) struct ReadProgress<'a> {
    phase: &'static str,
    /// The bytes of the files before this one.
    before: u64,
    total: u64,
    tell: Option<&'a mut dyn FnMut(Progress)>,
}

impl<'a> ReadProgress<'a> {
    /// Over these files, each read once.
    pub fn over(
        files: &[PathBuf],
        phase: &'static str,
        tell: &'a mut dyn FnMut(Progress),
    ) -> ReadProgress<'a> {
        // A file that is not there is noticed when it is read.
        let bytes = |path: &PathBuf| path.metadata().map_or(0, |data| data.len());
        ReadProgress { phase, before: 0, total: files.iter().map(bytes).sum(), tell: Some(tell) }
    }

    /// Tells nobody.
    pub fn silent() -> ReadProgress<'static> {
        ReadProgress { phase: "", before: 0, total: 0, tell: None }
    }

    /// A piece of a file was read.
    pub fn read(&mut self, file: &ChecksummedReader<'_>) {
        let done = self.before + file.position();
        if let Some(tell) = &mut self.tell {
            tell(Progress { phase: self.phase, done, total: Some(self.total) });
        }
    }

    /// A whole file was read.
    pub fn file_done(&mut self, bytes: u64) {
        self.before += bytes;
    }
}
