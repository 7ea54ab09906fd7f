//! Directories that are no database or must not be opened: a clear error, and no changes.

use super::*;
use mainstay::{Code, Result};
use std::os::unix::fs::PermissionsExt;

/// Asserts that opening, inspecting and salvaging are refused alike, and change nothing.
#[track_caller]
fn assert_refused(root: &Path, directory: &Path, code: Code, what: &str) {
    let before = contents(root);
    let refusals: [Result<()>; 3] = [
        options().open(directory).map(drop),
        doctor::inspect(directory).map(drop),
        doctor::salvage(directory).map(drop),
    ];
    for (way, refused) in ["open", "inspect", "salvage"].iter().zip(refusals) {
        let error = refused.err().unwrap_or_else(|| panic!("{way} was not refused"));
        assert_eq!(error.code(), code, "{way}: {error}");
        assert!(error.message().contains(what), "{way}: {error} does not say {what}");
    }
    assert!(contents(root) == before, "refusing changed something");
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("thesis.txt"), "chapter one").unwrap();
    assert_refused(root.path(), root.path(), Code::ForeignDirectory, "Mainstay database");
}

#[test]
fn what_a_cut_left_of_a_creation_is_taken_up() {
    for left in [&["LOCK"][..], &["DATABASE.next"], &["LOCK", "DATABASE.next"]] {
        let root = tempfile::tempdir().unwrap();
        for name in left {
            fs::write(root.path().join(name), "MAIN").unwrap();
        }
        options().open(root.path()).unwrap().close().unwrap();
    }
}

#[test]
fn a_file_is_no_database() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_refused(root.path(), &file, Code::ForeignDirectory, "file");
}

#[test]
fn looking_does_not_make_a_database() {
    let root = tempfile::tempdir().unwrap();
    for path in [root.path().to_owned(), root.path().join("none")] {
        assert_eq!(doctor::inspect(&path).unwrap_err().code(), Code::ForeignDirectory);
        assert_eq!(doctor::salvage(&path).unwrap_err().code(), Code::ForeignDirectory);
    }
    assert!(contents(root.path()).is_empty());
}

#[test]
fn a_newer_format_is_refused() {
    let directory = database(0, 3);
    let header = directory.path().join("DATABASE");
    let mut bytes = fs::read(&header).unwrap();
    bytes[8] = 9;
    fs::write(&header, bytes).unwrap();
    assert_refused(directory.path(), directory.path(), Code::NewerFormat, "format 9");
}

#[test]
fn a_second_open_is_refused_while_the_first_lives() {
    let directory = database(0, 3);
    let db = options().open(directory.path()).unwrap();
    let before = contents(directory.path());
    let error = options().open(directory.path()).err().unwrap();
    assert_eq!(error.code(), Code::Locked);
    assert!(error.message().contains("close it there first"), "{error}");
    assert!(contents(directory.path()) == before);
    drop(db);
    drop(assert_opens_with(directory.path(), 3));
}

/// The superuser may write everywhere, so as superuser this test uses a place that is not writable for
/// anyone.
#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let directory = database(0, 3);
    let path = directory.path();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(&path.join("LOCK"), 0o400).unwrap();
    set(path, 0o500).unwrap();
    let restricted = fs::File::options().write(true).open(path.join("LOCK")).is_err();
    let before = contents(path);
    if restricted {
        let error = options().open(path).err().unwrap();
        assert_eq!(error.code(), Code::ReadOnlyFiles);
        assert!(error.message().contains("LOCK"), "{error}");
    }
    assert!(inspect(path).is_healthy());
    assert!(contents(path) == before);
    set(path, 0o700).unwrap();
    set(&path.join("LOCK"), 0o600).unwrap();
    let error = options().open("/proc/mainstay").err().unwrap();
    assert!(error.message().contains("/proc/mainstay"), "{error}");
}
