//! `bootstrap`: creates a run with metadata and first events, once.

use super::{all, is_whole, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, ErrorKind, RunStatus, Value};

/// Metadata and events are written in one transaction.
pub fn metadata_and_events(w: &mut TestDb) {
    let about = Value::Object([("tenant".to_owned(), Value::from(7))].into());
    let first = vec![of_run("r", "RunApproved"), of_run("", "RunStarted")];
    let answers = writes_once(w.db(), || w.runs().bootstrap("r", about.clone(), first).unwrap());
    assert_eq!(answers.iter().map(|one| one.run_seq).collect::<Vec<_>>(), [1, 2]);
    let info = w.runs().get("r").unwrap().unwrap();
    assert_eq!((info.metadata, info.status), (Some(about), RunStatus::Running));
    is_whole(&w.runs(), "r");
}

/// Bootstrapping an existing run fails with `RunExists` and writes nothing.
pub fn existing_is_refused(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let twice =
        writes_nothing(w.db(), || w.runs().bootstrap("r", 1, vec![note("r", 2)])).unwrap_err();
    assert_eq!((twice.code(), twice.kind()), (Code::RunExists, ErrorKind::Exists));
    assert_eq!(w.runs().get("r").unwrap().unwrap().metadata, None);
    w.runs().bootstrap("s", Value::Null, vec![]).unwrap();
    refused(w.runs().bootstrap("s", Value::Null, vec![]), Code::RunExists);
}

/// A run without events is `Pending`, and later appends work as usual.
pub fn without_events(w: &mut TestDb) {
    assert!(w.runs().bootstrap("r", "about", vec![]).unwrap().is_empty());
    let info = w.runs().get("r").unwrap().unwrap();
    assert_eq!((info.status, info.last_event_seq), (RunStatus::Pending, 0));
    is_whole(&w.runs(), "r");
    assert_eq!(w.runs().append(note("r", 1)).unwrap().run_seq, 1);
    assert_eq!(w.runs().get("r").unwrap().unwrap().metadata, Some("about".into()));
}

/// Metadata can be `Null`, which differs from no metadata.
pub fn null_is_metadata(w: &mut TestDb) {
    w.runs().bootstrap("r", Value::Null, vec![]).unwrap();
    assert_eq!(w.runs().get("r").unwrap().unwrap().metadata, Some(Value::Null));
}

/// An invalid first event, or one of another run, aborts the bootstrap, and no run is created.
pub fn bad_events_leave_no_run(w: &mut TestDb) {
    let no_step = mainstay::NewEvent::new("r", "StepStarted").plan("1");
    for bad in [no_step, note("other", 1)] {
        let made = writes_nothing(w.db(), || w.runs().bootstrap("r", 1, vec![note("r", 1), bad]));
        refused(made, Code::InvalidArgument);
    }
    assert!(w.runs().get("r").unwrap().is_none() && all(&w.runs(), "r").is_empty());
}

/// First events with the same key are one event.
pub fn a_key_twice_is_one_event(w: &mut TestDb) {
    let answers = w.runs().bootstrap("r", 1, vec![note("r", 1), note("r", 1)]).unwrap();
    assert_eq!((answers[1].run_seq, answers[1].idempotent), (1, true));
    assert_eq!(all(&w.runs(), "r").len(), 1);
}
