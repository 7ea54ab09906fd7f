//! Hard-linked copies of stores, so that they can be read without touching the original.
//!
//! Opening a store may delete files, so the doctor opens a directory of links elsewhere.
//!
//! ```text
//!   index/runs/current, v7     --copied-->  a temporary directory
//!   index/runs/tables/12, 13   --linked-->  .../tables
//! ```

use crate::fs::error::io_error;
use crate::lifecycle::database_file::random_id;
use mainstay_model::Result;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// A temporary directory that is removed on drop.
pub(super) struct HardlinkedStore {
    directory: PathBuf,
}

impl HardlinkedStore {
    pub fn new() -> Result<HardlinkedStore> {
        let name = random_id().map(|byte| format!("{byte:02x}")).concat();
        let directory = std::env::temp_dir().join(format!("mainstay-doctor-{name}"));
        let made = fs::DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|error| io_error("make", &directory, &error))?;
        Ok(HardlinkedStore { directory })
    }

    /// Links a store. Returns the path where it can be opened.
    pub fn link(&self, store: &Path, name: &str) -> Result<PathBuf> {
        let shadow = self.directory.join(name);
        link(store, &shadow).map_err(|error| io_error("link", store, &error))?;
        Ok(shadow)
    }
}

impl Drop for HardlinkedStore {
    fn drop(&mut self) {
        // It contains only links and copies.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Copies the small metadata files of a store and links its tables.
fn link(store: &Path, shadow: &Path) -> io::Result<()> {
    fs::create_dir(shadow)?;
    for entry in fs::read_dir(fs::canonicalize(store)?)? {
        let entry = entry?;
        let from = entry.path();
        let to = shadow.join(entry.file_name());
        if from.is_dir() { link_files(&from, &to)? } else { fs::copy(&from, &to).map(drop)? }
    }
    Ok(())
}

fn link_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        symlink(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_gets_into_a_shadow() {
        let shadow = HardlinkedStore::new().unwrap();
        let made = shadow.directory.metadata().unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
    }
}
