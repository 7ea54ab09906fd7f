//! No failure at any point loses a run.

use crate::store::Fault;
use crate::world::World;
use mainstay::NewEvent;
use mainstay_runs::archive::{ArchiveSettings, Outcome};

fn world() -> World {
    World::with(ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() })
}

/// Archives a run once for every operation of the store, with that operation failing.
fn at_every_operation(fault: Fault) {
    for number in 0.. {
        let world = world();
        world.ended("r");
        world.ended("neighbour");
        let before = world.whole("r").unwrap();
        world.store.let_go_wrong(number, fault);
        let outcome = world.archive.archive("r");
        if !world.store.heal() {
            assert!(
                matches!(outcome, Ok(Outcome::Archived { .. })),
                "without trouble it is archived"
            );
            return;
        }
        if !matches!(outcome, Ok(Outcome::Archived { .. })) {
            assert_eq!(world.whole("r").as_ref(), Some(&before), "it stays: {fault:?} at {number}");
        }
        let report = world.archive.round().unwrap();
        assert_eq!(report.failed, 0, "what was left half does not matter: {report:?}");
        assert_eq!((world.whole("r"), world.whole("neighbour")), (None, None));
        world.import("r").unwrap();
        assert_eq!(world.whole("r"), Some(before), "{fault:?} at {number}");
    }
}

#[test]
fn a_store_that_does_nothing_loses_nothing() {
    at_every_operation(Fault::Fails);
}

#[test]
fn a_store_that_does_it_and_does_not_say_so_loses_nothing() {
    at_every_operation(Fault::FailsBehind);
}

#[test]
fn a_store_that_lies_loses_nothing() {
    at_every_operation(Fault::Lies);
}

#[test]
fn a_lie_is_noticed_before_the_run_is_deleted() {
    let world = world();
    world.ended("r");
    // The first operation checks whether the file exists, the second writes it.
    world.store.let_go_wrong(1, Fault::Lies);
    let error = world.archive.archive("r").unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(world.store.heal() && world.runs().get("r").unwrap().is_some());
}

#[test]
fn one_run_that_cannot_be_archived_holds_up_no_other() {
    let world = world();
    for run in ["a", "b", "c"] {
        world.ended(run);
    }
    world.store.let_go_wrong(1, Fault::Fails);
    let report = world.archive.round().unwrap();
    assert_eq!((report.archived, report.failed), (2, 1));
    assert!(report.last_error.unwrap().contains("the network is gone"));
    assert!(world.runs().get("a").unwrap().is_some());
}

#[test]
fn a_run_that_changes_meanwhile_stays() {
    let world = world();
    world.ended("r");
    let runs = world.runs();
    *world.store.before_put.lock() =
        Some(Box::new(move || drop(runs.append(NewEvent::new("r", "Late").plan("1")).unwrap())));
    assert_eq!(world.archive.archive("r").unwrap(), Outcome::Changed);
    assert_eq!(world.runs().fetch("r", 0, 9).unwrap().len(), 3, "with what came meanwhile");
    *world.store.before_put.lock() = None;
    assert_eq!(world.archive.round().unwrap().archived, 1);
    world.import("r").unwrap();
    assert_eq!(world.runs().fetch("r", 0, 9).unwrap().len(), 3, "the newest is found");
}

#[test]
fn a_run_that_is_deleted_and_made_anew_meanwhile_stays() {
    let world = world();
    world.ended("r");
    let runs = world.runs();
    let events = runs.fetch("r", 0, 9).unwrap();
    let renew = move || {
        runs.delete("r").unwrap();
        runs.restore("r", Some("another".into()), None, events.clone()).unwrap();
    };
    *world.store.before_put.lock() = Some(Box::new(renew));
    assert_eq!(world.archive.archive("r").unwrap(), Outcome::Changed);
    assert_eq!(world.runs().get("r").unwrap().unwrap().metadata, Some("another".into()));
}
