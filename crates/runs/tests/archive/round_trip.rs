//! Archive and import round trips.

use crate::world::{World, difficult};
use flate2::read::GzDecoder;
use mainstay::{Code, Database, NewEvent, Value};
use mainstay_runs::archive::{Archive, ArchiveSettings, Outcome, StoreSettings};
use std::io::Read;

#[test]
fn a_run_comes_back_as_it_was() {
    let world = World::new();
    let mut odd = NewEvent::new("tenant/é 7", "Odd").plan("1").value(difficult());
    odd.more.insert("colour".to_owned(), difficult());
    odd.engine_run_ref = Some(difficult());
    let started = NewEvent::new("tenant/é 7", "RunStarted").plan("1");
    let illegal = NewEvent::new("tenant/é 7", "RunResumed").plan("1");
    let numbers = "[1.50,1E2,-0,1e-7,1e+300,18446744073709551616]";
    let written = NewEvent::new("tenant/é 7", "Written").plan("1").data(numbers);
    let measured = NewEvent::new("tenant/é 7", "Measured").plan("1").value(1e-7);
    let events = vec![started, odd, illegal, written, measured];
    world.runs().bootstrap("tenant/é 7", difficult(), events).unwrap();
    world.runs().bootstrap("without events", Value::Null, vec![]).unwrap();
    for run in ["tenant/é 7", "without events"] {
        let before = world.whole(run).unwrap();
        assert!(matches!(world.archive.archive(run).unwrap(), Outcome::Archived { .. }));
        assert_eq!(world.whole(run), None);
        world.import(run).unwrap();
        assert_eq!(world.whole(run).unwrap(), before);
    }
    assert_eq!(world.archive.archive("unknown").unwrap(), Outcome::Missing);
    assert_eq!(world.archive.find("unknown").unwrap(), None);
}

#[test]
fn a_long_run_comes_back_in_pieces_however_often_it_is_asked_for() {
    let world = World::new();
    for n in 0..2_500 {
        world.runs().append(NewEvent::new("long", "Tick").plan("1").attempt(n).step("s")).unwrap();
    }
    let before = world.whole("long").unwrap();
    world.archive.archive("long").unwrap();
    let archived = world.archive.find("long").unwrap().unwrap();
    assert_eq!(
        (archived.last_event_seq, world.archive.verify(&archived).unwrap().count),
        (2_500, 2_500)
    );
    let other = World::new();
    for n in 0..1_200 {
        other.runs().append(NewEvent::new("long", "Tick").plan("1").attempt(n).step("s")).unwrap();
    }
    let part = other.runs().fetch("long", 0, 1_200).unwrap();
    // A partially restored run is a different run.
    assert_eq!(world.runs().restore("long", None, None, part.clone()).unwrap(), 1_200);
    assert_eq!(world.import("long").unwrap_err().code(), Code::RunExists);
    world.runs().delete("long").unwrap();
    // An interrupted import has restored a part, which is hidden.
    world.runs().restoring("long", None, None).unwrap().add(part).unwrap();
    assert_eq!(world.whole("long"), None);
    assert_eq!(world.import("long").unwrap(), 2_500);
    assert_eq!(world.import("long").unwrap(), 0);
    assert_eq!(world.runs().fetch("long", 0, 100_000).unwrap().len(), 2_500);
    world.runs().delete("long").unwrap();
    assert_eq!(world.import("long").unwrap(), 2_500);
    assert_eq!(world.whole("long").unwrap(), before);
}

#[test]
fn archiving_again_what_came_back_makes_no_second_file() {
    let world = World::new();
    world.ended("r");
    world.archive.archive("r").unwrap();
    world.import("r").unwrap();
    world.pass_ms(crate::world::DAY_MS);
    world.archive.archive("r").unwrap();
    assert_eq!(world.archive.list(None).unwrap().len(), 1);
}

#[test]
fn two_lives_of_a_run_have_two_files() {
    let world = World::new();
    world.ended("r");
    world.archive.archive("r").unwrap();
    let other = World::new();
    other.runs().append(NewEvent::new("r", "RunCancelled").plan("1")).unwrap();
    let events = other.runs().fetch("r", 0, 9).unwrap();
    world.runs().restore("r", Some("second".into()), None, events).unwrap();
    let second = world.whole("r").unwrap();
    let first = world.archive.find("r").unwrap().unwrap();
    let refused = world.archive.import(&first).unwrap_err();
    assert_eq!(world.whole("r").unwrap(), second, "{refused}");
    world.pass_ms(crate::world::DAY_MS);
    world.archive.archive("r").unwrap();
    assert_eq!(world.archive.list(None).unwrap().len(), 2);
    assert_eq!(
        world.archive.list(Some(&first.day)).unwrap().len(),
        2,
        "by the day of the last event"
    );
    world.archive.import(&first).unwrap();
    assert_eq!(world.runs().fetch("r", 0, 9).unwrap().len(), 2);
}

#[test]
fn a_directory_holds_gzip_that_anybody_reads() {
    let db = Database::memory().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = StoreSettings::Directory { path: directory.path().join("made/here") };
    let settings = ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() };
    let archive = Archive::open(&db, &store, settings).unwrap();
    for kind in ["RunStarted", "RunFailed"] {
        db.runs().append(NewEvent::new("a.b/c", kind).plan("1").data(r#"{"rows":3}"#)).unwrap();
    }
    let long = "é".repeat(500);
    db.runs().append(NewEvent::new(&long, "RunCancelled").plan("1")).unwrap();
    assert_eq!(archive.round().unwrap().archived, 2);
    let listed = archive.list(None).unwrap();
    assert_eq!(listed.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["a.b/c", &long]);
    assert_eq!(archive.find(&long).unwrap().as_ref(), Some(&listed[1]));

    let path = directory.path().join("made/here").join(&listed[0].path);
    assert!(path.file_name().unwrap().to_string_lossy().starts_with("a=2Eb=2Fc.2."));
    assert_eq!(path.metadata().unwrap().len(), listed[0].size_bytes);
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["runId"], &lines[0]["status"]), (&"a.b/c".into(), &"FAILED".into()));
    assert_eq!((&lines[1]["runSeq"], &lines[1]["eventData"]["rows"]), (&1.into(), &3.into()));
    assert_eq!((&lines[2]["eventType"], &lines[3]["count"]), (&"RunFailed".into(), &2.into()));
}
