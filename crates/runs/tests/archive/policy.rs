//! Selection and schedule of archived runs.

use crate::world::{DAY_MS, World};
use mainstay::{At, NewEvent};
use mainstay_runs::archive::{Archive, ArchiveSettings, ArchiveStore, Archiver};

fn names(world: &World) -> Vec<String> {
    world.archive.list(None).unwrap().into_iter().map(|run| run.run_id).collect()
}

#[test]
fn only_what_has_ended_and_is_old_enough_goes() {
    let world = World::new();
    world.ended("old");
    world.runs().append(NewEvent::new("runs on", "RunStarted").plan("1")).unwrap();
    world.pass_ms(DAY_MS / 2);
    world.ended("young");
    assert_eq!(world.archive.round().unwrap().due, 0);
    world.pass_ms(DAY_MS / 2 + 1);
    let report = world.archive.round().unwrap();
    assert_eq!((report.due, report.archived, report.events), (1, 1, 2));
    assert_eq!(names(&world), ["old"]);
    world.pass_ms(DAY_MS / 2);
    assert_eq!(world.archive.round().unwrap().archived, 1);
    assert_eq!(names(&world), ["old", "young"]);
    assert!(world.runs().get("runs on").unwrap().is_some());
    // The age of an imported run counts from its import.
    world.import("old").unwrap();
    assert_eq!(world.archive.round().unwrap().due, 0);
}

#[test]
fn all_runs_go_where_that_is_wanted_and_only_those_of_the_prefix() {
    let settings = ArchiveSettings {
        older_than_ms: 0,
        only_ended: false,
        runs_prefix: "t1/".to_owned(),
        ..ArchiveSettings::default()
    };
    let world = World::with(settings);
    for run in ["t1/a", "t2/a"] {
        world.runs().append(NewEvent::new(run, "RunStarted").plan("1")).unwrap();
    }
    assert_eq!(world.archive.round().unwrap().archived, 1);
    assert_eq!(names(&world), ["t1/a"]);
}

#[test]
fn a_branch_has_an_archive_of_its_own() {
    let world = World::new();
    world.ended("r");
    world.db.fork("b", "main", At::Latest).unwrap();
    let settings =
        ArchiveSettings { branch: "b".to_owned(), older_than_ms: 0, ..ArchiveSettings::default() };
    let archive = Archive::new(&world.db, ArchiveStore::of(world.store.clone()), settings).unwrap();
    assert_eq!(archive.round().unwrap().archived, 1);
    assert_eq!(world.db.branch("b").unwrap().runs().get("r").unwrap(), None);
    assert!(world.runs().get("r").unwrap().is_some(), "main keeps its own");
    assert!(names(&world).is_empty());
    archive.import(&archive.find("r").unwrap().unwrap()).unwrap();
    assert!(world.db.branch("b").unwrap().runs().get("r").unwrap().is_some());
}

#[test]
fn an_archiver_works_in_the_background_and_ends_when_told() {
    let world = World::with(ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() });
    for n in 0..5 {
        world.ended(&format!("r{n}"));
    }
    let archiver = Archiver::start(&world.archive).unwrap();
    while archiver.stats().rounds == 0 {
        std::thread::yield_now();
    }
    let stats = archiver.stop();
    assert_eq!((stats.total.archived, stats.total.events, stats.errors), (5, 10, 0));
    assert!(stats.total.bytes > 0 && stats.current.is_none());
    assert_eq!(names(&world).len(), 5);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for settings in [
        ArchiveSettings { every_ms: 0, ..ArchiveSettings::default() },
        ArchiveSettings { branch: String::new(), ..ArchiveSettings::default() },
        ArchiveSettings { prefix: "a//b".to_owned(), ..ArchiveSettings::default() },
    ] {
        assert!(settings.check().is_err(), "{settings:?}");
    }
}
