//! What is looked at each second: memory, open files, the directory, and what was done.

use super::histogram::Latencies;
use crate::drill::Outcome;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A second of a soak.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the load began.
    pub second: u64,
    /// The memory of the process that is resident.
    pub memory_bytes: u64,
    /// Open file descriptors.
    pub descriptors: u64,
    /// What the files of the directory take up on disk.
    pub disk_bytes: u64,
    /// Operations that were done in this second, with their latencies.
    pub latencies: Latencies,
    /// Operations that should have begun by now and have not.
    pub backlog: u64,
}

/// The resident memory of this process.
pub(super) fn memory_bytes() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| "/proc/self/status tells of no memory".to_owned())
}

/// The open file descriptors of this process, but for the one that looks.
pub(super) fn descriptors() -> Outcome<u64> {
    let entries = fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?;
    Ok((entries.count() as u64).saturating_sub(1))
}

/// What a directory takes up. Files come and go meanwhile: one that is gone takes up nothing.
pub(super) fn disk_bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk_bytes(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_memory_and_files_and_a_directory_its_bytes() {
        assert!(memory_bytes().unwrap() > 1 << 20);
        let before = descriptors().unwrap();
        let home = tempfile::tempdir().unwrap();
        let files: Vec<_> =
            (0..50).map(|k| fs::File::create(home.path().join(k.to_string())).unwrap()).collect();
        // Other tests open and close files, too.
        assert!(descriptors().unwrap() > before + 25);
        drop(files);
        fs::create_dir(home.path().join("below")).unwrap();
        fs::write(home.path().join("below/file"), vec![7; 100_000]).unwrap();
        assert!((100_000..200_000).contains(&disk_bytes(home.path())));
    }
}
