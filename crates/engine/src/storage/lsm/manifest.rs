//! Verifies the table manifest before lsm-tree opens it.
//!
//! lsm-tree 3.1.10 writes a checksum of its manifest but does not verify it: after one flipped bit it opens
//! an empty tree and deletes the tables as orphans. So the engine verifies it first.
//!
//! `current`: version id `u64`, xxh3-128 `u128` of the file `v<id>`, checksum type `u8` (0), all
//! little-endian.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::Result;
use xxhash_rust::xxh3::xxh3_128;

use super::failure::{corrupt, io_failure};

const CURRENT: &str = "current";
const CURRENT_BYTES: usize = 25;
/// The temporary name of a new `current`.
const NEXT: &str = "current.next";

/// The directory of table files.
pub(super) const TABLES: &str = "tables";

/// The state of a directory in which a tree is to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoundTree {
    /// A tree with a valid manifest.
    Tree,
    /// Neither a tree nor remains of one.
    Nothing,
}

/// The content of the file `current`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct CurrentVersion {
    pub(super) id: u64,
    checksum: u128,
}

impl CurrentVersion {
    fn encode(&self) -> [u8; CURRENT_BYTES] {
        let mut bytes = [0; CURRENT_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }
}

/// Inspects the directory without changing it. Any damage is an error.
pub(super) fn inspect(dir: &Path, expect_existing: bool) -> Result<FoundTree> {
    match read_current(dir)? {
        Some(current) => {
            check_manifest(dir, &current)?;
            check_table_names(dir)?;
            Ok(FoundTree::Tree)
        }
        None if expect_existing => Err(corrupt(dir, "its file `current` is missing")),
        None => check_untouched(dir).map(|()| FoundTree::Nothing),
    }
}

/// Syncs the directory, because the process that made its names may have crashed before doing so.
pub(super) fn keep(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| io_failure(&error, "opening", dir))
}

/// Makes `current` name this version, so that the next start opens it. `known` is its earlier content for
/// this version.
pub(super) fn point(dir: &Path, id: u64, known: Option<CurrentVersion>) -> Result<()> {
    let named = current_id(dir)?;
    let path = dir.join(CURRENT);
    let steps = || -> io::Result<()> {
        if named != Some(id) {
            rewrite_current(dir, id, known)?;
        }
        // Always sync: an earlier reset of `current` may not be durable yet.
        fault_points::unless(InjectedFault::NoSyncOfCurrentName, || File::open(dir)?.sync_all())
    };
    steps().map_err(|error| io_failure(&error, "writing", &path))
}

fn rewrite_current(dir: &Path, id: u64, known: Option<CurrentVersion>) -> io::Result<()> {
    let current = match known {
        Some(current) => current,
        None => CurrentVersion { id, checksum: xxh3_128(&fs::read(dir.join(format!("v{id}")))?) },
    };
    let next = dir.join(NEXT);
    let mut file = File::create(&next)?;
    file.write_all(&current.encode())?;
    fault_points::unless(InjectedFault::NoSyncOfCurrent, || file.sync_all())?;
    fs::rename(&next, dir.join(CURRENT))
}

/// The id of the version that the next start would open.
pub(super) fn current_id(dir: &Path) -> Result<Option<u64>> {
    Ok(read_current(dir)?.map(|current| current.id))
}

pub(super) fn read_current(dir: &Path) -> Result<Option<CurrentVersion>> {
    let path = dir.join(CURRENT);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_failure(&error, "reading", &path)),
    };
    parse_current(&bytes).map(Some).ok_or_else(|| corrupt(&path, "it cannot be read"))
}

fn parse_current(bytes: &[u8]) -> Option<CurrentVersion> {
    if bytes.len() != CURRENT_BYTES || bytes[24] != 0 {
        return None;
    }
    let id = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    let checksum = u128::from_le_bytes(bytes[8..24].try_into().ok()?);
    Some(CurrentVersion { id, checksum })
}

/// Parses the file `current`, for fuzzers: returns an id and a checksum.
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub fn current_of(bytes: &[u8]) -> Option<(u64, u128)> {
    parse_current(bytes).map(|current| (current.id, current.checksum))
}

fn check_manifest(dir: &Path, current: &CurrentVersion) -> Result<()> {
    let path = dir.join(format!("v{}", current.id));
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = format!("it names `v{}`, which is not there", current.id);
            return Err(corrupt(&dir.join(CURRENT), &what));
        }
        Err(error) => return Err(io_failure(&error, "reading", &path)),
    };
    if xxh3_128(&bytes) != current.checksum {
        return Err(corrupt(&path, "its checksum does not match the one in `current`"));
    }
    Ok(())
}

/// Checks the directory of tables. lsm-tree itself checks that every listed table exists, before it deletes
/// anything. But it would create a missing directory of tables, and a directory inside it would stop the
/// program.
fn check_table_names(dir: &Path) -> Result<()> {
    let tables = dir.join(TABLES);
    for file in fs::read_dir(&tables).map_err(|error| io_failure(&error, "reading", &tables))? {
        let file = file.map_err(|error| io_failure(&error, "reading", &tables))?;
        if file.path().is_dir() {
            return Err(corrupt(&file.path(), "a directory stands where a table should be"));
        }
    }
    Ok(())
}

/// An interrupted creation leaves at most `v0` and an empty directory of tables. Anything more without
/// `current` means that a tree existed.
fn check_untouched(dir: &Path) -> Result<()> {
    let remains = || corrupt(dir, "there are tables, but its file `current` is missing");
    for name in names(dir)? {
        let number = name.strip_prefix('v').and_then(|number| number.parse::<u64>().ok());
        if number.is_some_and(|number| number > 0) {
            return Err(remains());
        }
    }
    if names(&dir.join(TABLES))?.is_empty() { Ok(()) } else { Err(remains()) }
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let files = match fs::read_dir(dir) {
        Ok(files) => files,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_failure(&error, "reading", dir)),
    };
    let names = files.map(|file| file.map(|file| file.file_name().to_string_lossy().into_owned()));
    names.collect::<std::io::Result<_>>().map_err(|error| io_failure(&error, "reading", dir))
}
