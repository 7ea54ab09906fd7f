//! Where disks are mounted, and images written.

use std::io;
use std::path::{Path, PathBuf};

/// Two directories, gone when it is dropped.
pub struct Homes {
    _directory: tempfile::TempDir,
    /// To mount a disk on.
    pub mounted: PathBuf,
    /// To write images to.
    pub image: PathBuf,
}

impl Homes {
    /// Makes them.
    pub fn make() -> Result<Homes, String> {
        let told = |error: io::Error| format!("no temporary directory: {error}");
        // Images are written and read again at once: a file system in memory is the place for them.
        let memory = Path::new("/dev/shm");
        let within = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("mainstay-sim-").tempdir_in(within);
        let directory = directory.map_err(told)?;
        let (mounted, image) = (directory.path().join("disk"), directory.path().join("image"));
        std::fs::create_dir(&mounted).map_err(told)?;
        Ok(Homes { _directory: directory, mounted, image })
    }
}
