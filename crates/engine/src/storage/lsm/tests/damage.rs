//! Damage is refused, and no file is deleted.

use std::fs;
use std::path::{Path, PathBuf};

use mainstay_model::Code;

use super::super::{Store, check_tables};
use super::{VALUE, entry, ingest, open_small, options, put};

/// Creates and closes a store with several tables in two levels.
fn closed_store() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open_small(dir.path(), false);
    put(&store, b"a", 1, &[1; 3000]);
    store.compact_all(0).unwrap();
    put(&store, b"a", 2, &[2; 3000]);
    put(&store, b"b", 3, &[3; 3000]);
    drop(store);
    dir
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for file in fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

fn manifest(dir: &Path) -> PathBuf {
    let current = fs::read(dir.join("current")).unwrap();
    dir.join(format!("v{}", u64::from_le_bytes(current[..8].try_into().unwrap())))
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    files(&dir.join("tables")).into_iter().map(|(path, _)| path).collect()
}

/// Opening fails with a damage error, and every file stays unchanged.
fn assert_refused(dir: &Path, expect_existing: bool, what: &str) {
    let before = files(dir);
    match Store::open(dir, &options(), expect_existing) {
        Ok(_) => panic!("opened with {what}"),
        Err(error) => assert_eq!(error.code(), Code::CorruptIndex, "{what}: {error}"),
    }
    assert!(files(dir) == before, "files changed with {what}");
}

fn assert_whole(dir: &Path) {
    let store = Store::open(dir, &options(), true).unwrap();
    for (key, at) in [(b"a", 1), (b"a", 2), (b"b", 3)] {
        let found = store.get(key, at).unwrap().unwrap();
        assert!(found[..] == entry(VALUE, at, &[at as u8; 3000])[..]);
    }
}

#[test]
fn every_flipped_bit_of_the_manifest_is_refused_and_nothing_deleted() {
    let dir = closed_store();
    for path in [dir.path().join("current"), manifest(dir.path())] {
        let whole = fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).unwrap();
            assert_refused(dir.path(), bit % 2 == 0, &format!("bit {bit} of {path:?}"));
        }
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_refused(dir.path(), true, "a byte cut off");
        fs::write(&path, &whole).unwrap();
    }
    assert_whole(dir.path());
}

#[test]
fn missing_files_are_refused_and_nothing_deleted() {
    let dir = closed_store();
    let mut paths = tables(dir.path());
    assert!(paths.len() >= 3, "too few tables to tell: {paths:?}");
    paths.extend([dir.path().join("current"), manifest(dir.path())]);
    let aside = dir.path().with_extension("aside");
    for path in paths {
        fs::rename(&path, &aside).unwrap();
        assert_refused(dir.path(), true, &format!("{path:?} missing"));
        assert_refused(dir.path(), false, &format!("{path:?} missing"));
        fs::rename(&aside, &path).unwrap();
    }
    assert_whole(dir.path());
}

#[test]
fn a_missing_directory_is_made_only_where_nothing_is_expected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    let refused = Store::open(&path, &options(), true).err().unwrap();
    assert_eq!(refused.code(), Code::CorruptIndex);
    assert!(!path.exists());
    drop(Store::open(&path, &options(), false).unwrap());
    drop(Store::open(&path, &options(), true).unwrap());
}

#[test]
fn a_creation_that_was_cut_short_is_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tables")).unwrap();
    fs::write(dir.path().join("v0"), b"half").unwrap();
    put(&Store::open(dir.path(), &options(), false).unwrap(), b"a", 1, b"");
}

#[test]
fn a_directory_among_the_tables_is_refused() {
    let dir = closed_store();
    fs::create_dir(dir.path().join("tables/77")).unwrap();
    assert_refused(dir.path(), true, "a directory among the tables");
}

/// Tables are verified block by block when they are read: a read returns an error or the correct data.
#[test]
fn a_flipped_bit_in_a_table_is_never_read_as_data() {
    let dir = closed_store();
    let whole = files(dir.path());
    for path in tables(dir.path()) {
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            if at % 131 != 0 && at + 64 < bytes.len() {
                continue;
            }
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            read_all_or_fail(dir.path());
            restore(dir.path(), &whole);
        }
    }
    assert_whole(dir.path());
}

fn read_all_or_fail(dir: &Path) {
    let store = match Store::open(dir, &options(), true) {
        Ok(store) => store,
        Err(error) => return assert_eq!(error.code(), Code::CorruptIndex, "{error}"),
    };
    for (key, at) in [(b"a", 1), (b"a", 2), (b"b", 3)] {
        match store.get(key, at) {
            Ok(found) => {
                let truth = entry(VALUE, at, &[at as u8; 3000]);
                assert!(found.is_some_and(|found| found[..] == truth[..]), "wrong at {at}");
            }
            Err(error) => assert_eq!(error.code(), Code::CorruptIndex, "{error}"),
        }
    }
    if let Err(error) = store.compact_all(0) {
        assert_eq!(error.code(), Code::CorruptIndex, "{error}");
    }
}

fn restore(dir: &Path, whole: &[(PathBuf, Vec<u8>)]) {
    for (path, _) in files(dir) {
        fs::remove_file(path).unwrap();
    }
    for (path, bytes) in whole {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_refused_ingest_leaves_no_file_behind() {
    let dir = closed_store();
    let store = Store::open(dir.path(), &options(), true).unwrap();
    let before = tables(dir.path());
    let mut versions: Vec<_> = (0..200u64)
        .map(|i| (format!("{i:04}").into_bytes(), 10 + i, entry(VALUE, 10 + i, &[7; 1000])))
        .collect();
    versions.push((b"0000".to_vec(), 9, entry(VALUE, 9, b"")));
    assert_eq!(ingest(&store, &versions).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(tables(dir.path()), before);
    versions.pop();
    ingest(&store, &versions).unwrap();
    assert_eq!(store.entries(), 203);
}

#[test]
fn a_failed_compaction_leaves_no_file_behind() {
    let dir = closed_store();
    let listed = tables(dir.path());
    let broken = listed.last().unwrap();
    let mut bytes = fs::read(broken).unwrap();
    bytes[200] ^= 1;
    fs::write(broken, bytes).unwrap();
    let store = Store::open(dir.path(), &options(), true).unwrap();
    assert_eq!(store.compact_all(0).unwrap_err().code(), Code::CorruptIndex);
    assert_eq!(tables(dir.path()), listed);
    assert!(store.compaction_due());
    assert!(store.get(b"a", 1).unwrap().is_some());
}

#[test]
fn damage_in_a_table_is_told_by_the_place_of_its_block() {
    let dir = closed_store();
    let path = tables(dir.path()).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    check_tables(dir.path()).unwrap();
    let mut places = std::collections::BTreeSet::new();
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = check_tables(dir.path()).unwrap_err().to_string();
        let (_, place) = error.split_once("begins at byte ").unwrap();
        let place: usize = place.split(' ').next().unwrap().parse().unwrap();
        assert!(place <= at, "byte {at} is flipped: {error}");
        places.insert(place);
    }
    assert!(places.len() > 3, "blocks of data, of the index and of the filter: {places:?}");
}

#[test]
fn a_list_that_a_failure_left_is_set_back_before_another_is_written() {
    let dir = closed_store();
    let before = files(dir.path());
    let current = fs::read(dir.path().join("current")).unwrap();
    let id = u64::from_le_bytes(current[..8].try_into().unwrap());
    // The state that the tree leaves if it fails late: its next list is renamed into place, and `current`
    // names it.
    let next = dir.path().join(format!("v{}", id + 1));
    fs::copy(manifest(dir.path()), &next).unwrap();
    let mut switched = current.clone();
    switched[..8].copy_from_slice(&(id + 1).to_le_bytes());
    fs::write(dir.path().join("current"), switched).unwrap();

    super::super::manifest::point(dir.path(), id, None).unwrap();
    assert!(fs::read(dir.path().join("current")).unwrap() == current);
    fs::remove_file(next).unwrap();
    assert!(files(dir.path()) == before, "nothing else is there");
    assert_whole(dir.path());
}
