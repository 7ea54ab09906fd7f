//! `bootstrap`: metadata and first events, once.

use super::{all, is_whole, note, of_run};
use crate::World;
use crate::check::*;
use mainstay::{Code, ErrorKind, RunStatus, Value};

/// Metadata and events in one transaction.
pub fn metadata_and_events(w: &mut World) {
    let about = Value::Object([("tenant".to_owned(), Value::from(7))].into());
    let first = vec![of_run("r", "RunApproved"), of_run("", "RunStarted")];
    let answers = writes_once(w.db(), || w.runs().bootstrap("r", about.clone(), first).unwrap());
    assert_eq!(answers.iter().map(|one| one.run_seq).collect::<Vec<_>>(), [1, 2]);
    let info = w.runs().get("r").unwrap().unwrap();
    assert_eq!((info.metadata, info.status), (Some(about), RunStatus::Running));
    is_whole(&w.runs(), "r");
}

/// Where there is a run, it is the error `Exists`, and nothing is written.
pub fn existing_is_refused(w: &mut World) {
    w.runs().append(note("r", 1)).unwrap();
    let twice =
        writes_nothing(w.db(), || w.runs().bootstrap("r", 1, vec![note("r", 2)])).unwrap_err();
    assert_eq!((twice.code(), twice.kind()), (Code::RunExists, ErrorKind::Exists));
    assert_eq!(w.runs().get("r").unwrap().unwrap().metadata, None);
    w.runs().bootstrap("s", Value::Null, vec![]).unwrap();
    refused(w.runs().bootstrap("s", Value::Null, vec![]), Code::RunExists);
}

/// A run without events stands at the beginning, and goes on as any other.
pub fn without_events(w: &mut World) {
    assert!(w.runs().bootstrap("r", "about", vec![]).unwrap().is_empty());
    let info = w.runs().get("r").unwrap().unwrap();
    assert_eq!((info.status, info.last_event_seq), (RunStatus::Pending, 0));
    is_whole(&w.runs(), "r");
    assert_eq!(w.runs().append(note("r", 1)).unwrap().run_seq, 1);
    assert_eq!(w.runs().get("r").unwrap().unwrap().metadata, Some("about".into()));
}

/// Metadata may be null, which is a value.
pub fn null_is_metadata(w: &mut World) {
    w.runs().bootstrap("r", Value::Null, vec![]).unwrap();
    assert_eq!(w.runs().get("r").unwrap().unwrap().metadata, Some(Value::Null));
}

/// A first event that is wrong, or of another run, leaves no run.
pub fn bad_events_leave_no_run(w: &mut World) {
    let no_step = mainstay::NewEvent::new("r", "StepStarted").plan("1");
    for bad in [no_step, note("other", 1)] {
        let made = writes_nothing(w.db(), || w.runs().bootstrap("r", 1, vec![note("r", 1), bad]));
        refused(made, Code::InvalidArgument);
    }
    assert!(w.runs().get("r").unwrap().is_none() && all(&w.runs(), "r").is_empty());
}

/// A key twice among the first events is one event.
pub fn a_key_twice_is_one_event(w: &mut World) {
    let answers = w.runs().bootstrap("r", 1, vec![note("r", 1), note("r", 1)]).unwrap();
    assert_eq!((answers[1].run_seq, answers[1].idempotent), (1, true));
    assert_eq!(all(&w.runs(), "r").len(), 1);
}
