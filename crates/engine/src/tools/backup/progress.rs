//! Progress of reading one or more backup files.

use crate::fs::checksummed_file::ChecksummedReader;
use crate::tools::export::Progress;
use std::path::PathBuf;

/// Reports how many bytes of all files have been read.
pub(crate) struct ReadProgress<'a> {
    phase: &'static str,
    /// The size of the files read before this one.
    before: u64,
    total: u64,
    tell: Option<&'a mut dyn FnMut(Progress)>,
}

impl<'a> ReadProgress<'a> {
    /// Tracks these files, each read once.
    pub fn over(
        files: &[PathBuf],
        phase: &'static str,
        tell: &'a mut dyn FnMut(Progress),
    ) -> ReadProgress<'a> {
        // A missing file is reported when it is read.
        ReadProgress {
            phase,
            before: 0,
            total: files.iter().map(|path| path.metadata().map_or(0, |data| data.len())).sum(),
            tell: Some(tell),
        }
    }

    /// Tracks nothing.
    pub fn silent() -> ReadProgress<'static> {
        ReadProgress { phase: "", before: 0, total: 0, tell: None }
    }

    /// Reports the current position in a file.
    pub fn read(&mut self, file: &ChecksummedReader<'_>) {
        let done = self.before + file.position();
        if let Some(tell) = &mut self.tell {
            tell(Progress { phase: self.phase, done, total: Some(self.total) });
        }
    }

    /// Counts a file as read completely.
    pub fn file_done(&mut self, bytes: u64) {
        self.before += bytes;
    }
}
