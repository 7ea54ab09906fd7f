//! The archive of a remote database: runs are moved to files, verified there, and restored.

use crate::support::Ours;
use mainstay::{Code, Database, NewEvent, Value, remote};
use mainstay_runs::archive::{Archive, ArchiveSettings, Outcome, StoreSettings};
use std::path::Path;

fn connect(server: &Ours) -> Database {
    remote::connect(&server.address.to_string()).unwrap()
}

fn archive(db: &Database, directory: &Path) -> Archive {
    let store = StoreSettings::Directory { path: directory.to_owned() };
    let settings = ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() };
    Archive::open(db, &store, settings).unwrap()
}

/// Writes a completed run with values of all kinds of bytes, and an open run.
fn write(db: &Database) {
    let runs = db.runs();
    let begin = vec![NewEvent::new("done", "RunStarted").plan("1")];
    runs.bootstrap("done", "made of this", begin).unwrap();
    let note = |n: i64| NewEvent::new("done", "Noted").with_key(&format!("note {n}"));
    runs.append_batch((0..1_500).map(|n| note(n).value(n)).collect()).unwrap();
    runs.append(note(-1).value(Value::from(&b"\xff\x00"[..]))).unwrap();
    runs.append(NewEvent::new("done", "RunCompleted").plan("1")).unwrap();
    runs.append(NewEvent::new("open", "RunStarted").plan("1")).unwrap();
}

fn everything(db: &Database) -> (Vec<mainstay::CanonicalEvent>, Vec<u8>) {
    let runs = db.runs();
    let mut events = runs.fetch("done", 0, 1_000).unwrap();
    events.extend(runs.fetch("done", 1_000, 1_000).unwrap());
    let projected = runs.project("done").unwrap().unwrap();
    assert_eq!(runs.snapshot("done").unwrap().unwrap(), projected);
    let mut bytes = Vec::new();
    projected.encode(&mut bytes);
    (events, bytes)
}

#[test]
fn a_run_goes_into_the_archive_and_comes_back_as_it_was() {
    let server = Ours::start();
    let files = tempfile::tempdir().unwrap();
    let db = connect(&server);
    write(&db);
    let before = everything(&db);
    let metadata = db.runs().get("done").unwrap().unwrap().metadata;
    let archive = archive(&db, files.path());
    let report = archive.round().unwrap();
    assert_eq!((report.archived, report.failed, report.events), (1, 0, 1_503), "{report:?}");
    assert_eq!(db.runs().get("done").unwrap(), None);
    assert!(db.runs().get("open").unwrap().is_some(), "it has not ended");
    assert_eq!(archive.round().unwrap().due, 0);

    let archived = archive.find("done").unwrap().expect("it is there");
    assert_eq!(archive.verify(&archived).unwrap().count, 1_503);
    let imported = archive.import(&archived).unwrap();
    assert_eq!((imported.written, imported.contents.count), (1_503, 1_503));
    assert_eq!(everything(&db), before);
    assert_eq!(db.runs().get("done").unwrap().unwrap().metadata, metadata);
    assert_eq!(archive.import(&archived).unwrap().written, 0, "it is there already");
    // The next event is appended, and an old event is recognized.
    let again = NewEvent::new("done", "Noted").with_key("note 7").value(7_i64);
    assert!(db.runs().append(again).unwrap().idempotent);
}

/// A damaged file restores nothing.
#[test]
fn a_damaged_file_is_refused_and_the_database_stays_as_it_is() {
    let server = Ours::start();
    let files = tempfile::tempdir().unwrap();
    let db = connect(&server);
    write(&db);
    let archive = archive(&db, files.path());
    let Outcome::Archived { run, .. } = archive.archive("done").unwrap() else {
        panic!("it is archived");
    };
    let path = files.path().join(&run.path);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(archive.verify(&run).unwrap_err().code(), Code::CorruptData);
    assert_eq!(archive.import(&run).unwrap_err().code(), Code::CorruptData);
    assert_eq!(db.runs().get("done").unwrap(), None);
}
