//! Events of other versions of the contract, from fixture files: which may enter a log, and how they are read
//! back.

use super::memory;
use mainstay::{CanonicalEvent, Code, Value, from_value};

macro_rules! fixture {
    ($version:literal) => {
        include_str!(concat!("../../../model/tests/fixtures/contract/event-", $version, ".json"))
    };
}

fn event(text: &str, run_seq: u64) -> CanonicalEvent {
    let value = Value::from_json(text).unwrap();
    CanonicalEvent { run_seq, ..from_value(value).unwrap() }
}

#[test]
fn earlier_and_later_minor_versions_are_kept_as_they_came() {
    let (db, _) = memory();
    let events = vec![event(fixture!("1.0"), 1), event(fixture!("1.9"), 2)];
    assert_eq!(db.runs().restore("r1", None, None, events.clone()).unwrap(), 2);
    assert_eq!(db.runs().fetch("r1", 0, 9).unwrap(), events);
    assert_eq!(db.runs().snapshot("r1").unwrap().unwrap().last_event_seq, 2);
}

#[test]
fn of_another_major_version_nothing_is_written() {
    let (db, _) = memory();
    let events = vec![event(fixture!("1.0"), 1), event(fixture!("2.0"), 2)];
    let refused = db.runs().restore("r1", None, None, events).unwrap_err();
    assert_eq!(refused.code(), Code::NewerFormat);
    assert!(db.runs().get("r1").unwrap().is_none());
}
