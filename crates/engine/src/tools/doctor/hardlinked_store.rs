//! Stores that can be read beside the files of a database: opening a store may delete files, so what is opened is
//! a directory of links, somewhere else.
//!
//! ```text
//!   index/runs/current, v7     --copied-->  a directory for a while
//!   index/runs/tables/12, 13   --linked-->  .../tables
//! ```

use crate::fs::error::io_error;
use crate::lifecycle::database_file::random_id;
use mainstay_model::Result;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// A directory that goes when it is let go of.
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

    /// Links a store; gives where it can be opened.
    pub fn link(&self, store: &Path, name: &str) -> Result<PathBuf> {
        let shadow = self.directory.join(name);
        link(store, &shadow).map_err(|error| io_error("link", store, &error))?;
        Ok(shadow)
    }
}

impl Drop for HardlinkedStore {
    fn drop(&mut self) {
        // There are only links and copies in it.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Copies the lists of a store, which are small, and links its tables.
fn link(store: &Path, shadow: &Path) -> io::Result<()> {
    fs::create_dir(shadow)?;
    for entry in fs::read_dir(fs::canonicalize(store)?)? {
        let entry = entry?;
        let (from, to) = (entry.path(), shadow.join(entry.file_name()));
        match from.is_dir() {
            true => link_files(&from, &to)?,
            false => fs::copy(&from, &to).map(drop)?,
        }
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
