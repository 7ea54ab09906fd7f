//! Format compatibility: opens, reads and verifies the files and frames of earlier versions.
//!
//! `fixtures/0.1/` holds the files that version 0.1 wrote, and never changes. A version that changes a
//! format adds its own directory: change [`fixtures`], run the command below, and keep opening the older
//! directories.
//!
//! ```text
//!   cargo test -p mainstay-conformance --test formats -- --ignored make
//! ```
//!
//! [`world`] writes the state, and [`verify`] has hand-written expectations for each file.

mod verify;
mod wire;
mod world;

use mainstay::{
    At, BackupKind, Code, Database, ManualClock, Options, restore_backup, verify_backup,
    verify_chain, verify_export,
};
use mainstay_runs::archive::{Archive, ArchiveSettings, ArchiveStore, StoreSettings};
use mainstay_streams::{CheckpointStore, Checkpoints, Job, MemoryState};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Time at which the fixture state was written, in microseconds since 1970.
const WRITTEN_US: u64 = 1_794_000_000_000_000;
/// The tests open the fixtures this much later, so that values with a shorter time to live have expired.
const HOUR: Duration = Duration::from_secs(3_600);

/// Options of the fixtures. They keep all history, so that opening the files trims nothing, and run no
/// background threads, so that the files depend only on the calls.
fn options(clock: &Arc<ManualClock>) -> Options {
    Options::new()
        .clock(clock.clone())
        .background(false)
        .sweep_interval(None)
        .write_buffer_bytes(64 << 10)
        .segment_bytes(16 << 10)
        .retention_all()
        .retention_class("scratch/", Some(30 * 24 * HOUR))
        .record_retention(None)
        .keyed_retention(None)
}

fn an_hour_later() -> Arc<ManualClock> {
    let clock = ManualClock::new(WRITTEN_US);
    clock.advance(HOUR);
    clock
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/0.1")
}

/// Opens a copy, because opening a database writes to its directory.
fn open_copy(root: &TempDir, of: &str) -> Database {
    let copy = root.path().join(of);
    copy_directory(&fixtures().join(of), &copy);
    options(&an_hour_later()).open(&copy).unwrap()
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

fn archive(db: &Database, directory: &Path) -> Archive {
    let store = ArchiveStore::open(&StoreSettings::of(directory.to_str().unwrap())).unwrap();
    let settings = ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() };
    Archive::new(db, store, settings).unwrap()
}

fn checkpoints(directory: &Path) -> Checkpoints {
    Checkpoints::open(CheckpointStore::directory(directory).unwrap(), Job::new("orders", "totals"))
        .unwrap()
}

/// Writes the fixtures of this version. It refuses to overwrite existing files, because fixtures must
/// never change.
#[test]
#[ignore = "writes files of the repository; see the head of this file"]
fn make() {
    let out = fixtures();
    assert!(!out.exists(), "{} is there already, and fixtures never change", out.display());
    fs::create_dir_all(&out).unwrap();
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("database");
    let clock = ManualClock::new(WRITTEN_US);
    let db = options(&clock).open(&path).unwrap();
    let checkpoints = checkpoints(&out.join("checkpoints"));
    let totals = || world::totals(&db);

    world::before_the_tag(&db, &clock);
    checkpoints.create(&totals()).unwrap();
    // Flushes the write buffers, so that the first half of the state is in the stores and the second
    // half only in the log.
    db.trim().unwrap();
    let full = db.backup(&out.join("backup.full"), &mut |_| {}).unwrap();
    world::after_the_tag(&db, &clock);
    checkpoints.create(&totals()).unwrap();
    archive(&db, &out.join("archive")).archive("archived").unwrap();
    world::after_the_archive(&db);
    db.backup_since(full.revision, &out.join("backup.increment"), &mut |_| {}).unwrap();
    db.export("main", &out.join("main.export"), &mut |_| {}).unwrap();
    // Copies the files as a crash leaves them, without closing the database.
    copy_directory(&path, &out.join("database"));
    fs::write(out.join("frames.txt"), wire::lines()).unwrap();
}

#[test]
fn a_database_opens() {
    let root = tempfile::tempdir().unwrap();
    let db = open_copy(&root, "database");
    verify::database(&db);
    db.close().unwrap();
}

/// Opening an old directory must leave it in a state that can be opened again.
#[test]
fn a_database_opens_again_after_writes() {
    let root = tempfile::tempdir().unwrap();
    let db = open_copy(&root, "database");
    db.cells().set("scratch/new", 1).unwrap();
    db.trim().unwrap();
    db.close().unwrap();
    let db = options(&an_hour_later()).open(root.path().join("database")).unwrap();
    assert_eq!(db.cells().get("scratch/new").unwrap(), Some(1.into()));
    db.cells().delete("scratch/new").unwrap();
    verify::database(&db);
}

#[test]
fn a_backup_restores_with_its_increment() {
    let root = tempfile::tempdir().unwrap();
    let files = ["backup.full", "backup.increment"].map(|file| fixtures().join(file));
    assert_eq!(verify_backup(&files[0]).unwrap().kind, BackupKind::Full);
    assert_eq!(verify_chain(&files, &mut |_| {}).unwrap().len(), 2);
    let copy = root.path().join("copy");
    restore_backup(&copy, &files, &mut |_| {}).unwrap();
    verify::database(&options(&an_hour_later()).open(&copy).unwrap());
}

#[test]
fn a_backup_alone_restores_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let copy = root.path().join("copy");
    restore_backup(&copy, &[fixtures().join("backup.full")], &mut |_| {}).unwrap();
    let db = options(&an_hour_later()).open(&copy).unwrap();
    verify::at_the_tag(&db, "main", At::Latest);
    assert_eq!(db.branch_info("side").unwrap_err().code(), Code::BranchNotFound);
}

#[test]
fn a_damaged_backup_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(fixtures().join("backup.full")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let path = root.path().join("damaged");
    fs::write(&path, bytes).unwrap();
    assert_eq!(verify_backup(&path).unwrap_err().code(), Code::CorruptData);
}

#[test]
fn an_export_imports() {
    let file = fixtures().join("main.export");
    let contents = verify_export(&file, &mut |_| {}).unwrap();
    assert_eq!((contents.branch.as_str(), contents.spaces), ("main", 2));
    let root = tempfile::tempdir().unwrap();
    let db = options(&an_hour_later()).open(root.path().join("other")).unwrap();
    db.import(&file, "copy", &mut |_| {}).unwrap();
    verify::branch(&db, "copy");
    // Exporting the same state gives the same file until a version changes the format.
    let again = root.path().join("again.export");
    open_copy(&root, "database").export("main", &again, &mut |_| {}).unwrap();
    assert!(fs::read(&again).unwrap() == fs::read(&file).unwrap());
}

#[test]
fn an_archive_is_read_and_imported() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("archive");
    copy_directory(&fixtures().join("archive"), &directory);
    let db = options(&an_hour_later()).open(root.path().join("other")).unwrap();
    let archive = archive(&db, &directory);
    let found = archive.find("archived").unwrap().unwrap();
    assert_eq!(archive.list(None).unwrap().as_slice(), std::slice::from_ref(&found));
    archive.verify(&found).unwrap();
    archive.import(&found).unwrap();
    verify::archived_run(&db);
}

#[test]
fn checkpoints_restore() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("checkpoints");
    copy_directory(&fixtures().join("checkpoints"), &directory);
    let checkpoints = checkpoints(&directory);
    let ids = checkpoints.list().unwrap();
    assert_eq!(ids.len(), 2, "a full one, and one of changes alone");
    for (id, check) in ids.into_iter().zip([verify::first_totals, verify::last_totals]) {
        checkpoints.verify(id).unwrap();
        let db = Database::memory().unwrap();
        let in_memory = MemoryState::new();
        checkpoints.restore(id, 0, &in_memory).unwrap();
        check(&in_memory);
        let in_database = db.keyed("totals").unwrap();
        checkpoints.restore(id, 0, &in_database).unwrap();
        check(&in_database);
    }
}

#[test]
fn frames_are_read_and_written() {
    let text = fs::read_to_string(fixtures().join("frames.txt")).unwrap();
    wire::verify(&text);
}
