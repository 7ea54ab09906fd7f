//! Alerts: an illegal event raises one alert and marks the run as inconsistent.

use super::{is_whole, note, tell};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, NewEvent, RunStatus};

fn alerted(w: &TestDb, run: &str) -> Vec<u64> {
    w.runs().alerts(run, 0, 1_000).unwrap().iter().map(|alert| alert.run_seq).collect()
}

/// An illegal event changes only the mark, is kept in the log, and raises an alert.
pub fn illegal_is_marked_and_told(w: &mut TestDb) {
    tell(w, "r", &["RunStarted"]);
    w.pass_ms(3);
    tell(w, "r", &["RunApproved"]);
    let snapshot = w.runs().snapshot("r").unwrap().unwrap();
    assert_eq!((snapshot.status, snapshot.last_event_seq), (RunStatus::Running, 2));
    assert_eq!(snapshot.flags.iter().collect::<Vec<_>>(), ["INCONSISTENT"]);
    assert!(w.runs().get("r").unwrap().unwrap().inconsistent);
    let alert = w.runs().alerts("r", 0, 9).unwrap().remove(0);
    assert_eq!((alert.run_seq, alert.stamp), (2, w.wall_us()));
    assert!(alert.message.contains("RunApproved"), "{}", alert.message);
    is_whole(&w.runs(), "r");
}

/// Each event raises at most one alert, however often it is repeated, read or replayed.
pub fn once_however_often_replayed(w: &mut TestDb) {
    tell(w, "r", &["RunStarted"]);
    for _ in 0..3 {
        w.runs().append(NewEvent::new("r", "RunResumed").with_key("again")).unwrap();
        w.runs().project("r").unwrap();
        w.runs().snapshot("r").unwrap();
        w.runs().snapshot_at("r", 2).unwrap();
    }
    writes_nothing(w.db(), || w.runs().project("r").unwrap());
    assert_eq!(alerted(w, "r"), [2]);
}

/// Each illegal event raises its own alert, even after a stored base snapshot.
pub fn one_for_each_event(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "RunStarted"]);
    w.runs().append_batch((0..300).map(|number| note("r", number)).collect()).unwrap();
    tell(w, "r", &["StepCompleted", "RunCompleted", "RunPaused"]);
    assert_eq!(alerted(w, "r"), [2, 303, 305]);
    is_whole(&w.runs(), "r");
    assert!(w.runs().snapshot("r").unwrap().unwrap().is_inconsistent(), "the mark stays");
}

/// Alerts are listed in order, after a sequence number, up to a limit.
pub fn pages_of_alerts(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "RunStarted", "RunStarted", "RunStarted"]);
    let page = |after, limit| -> Vec<u64> {
        w.runs().alerts("r", after, limit).unwrap().iter().map(|alert| alert.run_seq).collect()
    };
    assert_eq!((page(0, 2), page(2, 9), page(4, 9)), (vec![2, 3], vec![3, 4], vec![]));
    refused(w.runs().alerts("r", 0, 0), Code::InvalidLimit);
    assert!(w.runs().alerts("absent", 0, 9).unwrap().is_empty());
}

/// Later legal events are applied to an inconsistent run.
pub fn a_run_goes_on(w: &mut TestDb) {
    tell(w, "r", &["RunResumed", "RunStarted", "RunCompleted"]);
    let snapshot = w.runs().snapshot("r").unwrap().unwrap();
    assert_eq!((snapshot.status, snapshot.is_inconsistent()), (RunStatus::Completed, true));
    assert!(!w.runs().snapshot_at("r", 0).unwrap().unwrap().is_inconsistent());
}

/// A refused event raises no alert.
pub fn refused_alerts_nobody(w: &mut TestDb) {
    tell(w, "r", &["RunStarted"]);
    let bad =
        vec![NewEvent::new("r", "RunStarted").with_key("x"), NewEvent::new("r", "StepStarted")];
    w.runs().append_batch(bad).unwrap_err();
    assert!(alerted(w, "r").is_empty() && !w.runs().get("r").unwrap().unwrap().inconsistent);
}
