//! Temporary directories for mounted disks and images.

use std::io;
use std::path::{Path, PathBuf};

/// Two directories, deleted on drop.
pub struct Homes {
    _directory: tempfile::TempDir,
    /// Mount point for a disk.
    pub mounted: PathBuf,
    /// Directory for images.
    pub image: PathBuf,
}

impl Homes {
    /// Creates the directories.
    pub fn make() -> Result<Homes, String> {
        let told = |error: io::Error| format!("no temporary directory: {error}");
        // Images are written and read back at once, so an in-memory file system is best.
        let memory = Path::new("/dev/shm");
        let within = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("mainstay-sim-").tempdir_in(within);
        let directory = directory.map_err(told)?;
        let mounted = directory.path().join("disk");
        let image = directory.path().join("image");
        std::fs::create_dir(&mounted).map_err(told)?;
        Ok(Homes { _directory: directory, mounted, image })
    }
}
