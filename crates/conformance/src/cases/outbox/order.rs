//! Delivery order: messages of one run are delivered one after another; other messages are independent.

use super::{BACK_OFF, claim, claimed, outlast, send, subjects};
use crate::TestDb;
use crate::assertions::*;

/// Only the first message of each run can be claimed, and the next one after it is acknowledged.
pub fn one_behind_the_other(w: &mut TestDb) {
    for (subject, run) in [("r1", "r"), ("r2", "r"), ("s1", "s"), ("r3", "r"), ("s2", "s")] {
        send(w, subject, Some(run));
    }
    let first = claim(w);
    assert_eq!(subjects(&first), ["r1", "s1"]);
    assert!(claimed(w).is_empty());
    w.db().outbox().ack(&[first[0].id]).unwrap();
    let second = claim(w);
    assert_eq!(subjects(&second), ["r2"]);
    w.db().outbox().ack(&[second[0].id, first[1].id]).unwrap();
    assert_eq!(claimed(w), ["r3", "s2"]);
}

/// Messages without a run do not wait for others.
pub fn without_a_run_nobody_waits(w: &mut TestDb) {
    send(w, "r1", Some("r"));
    claim(w);
    for subject in ["a", "r2", "b"] {
        send(w, subject, (subject == "r2").then_some("r"));
    }
    assert_eq!(claimed(w), ["a", "b"]);
}

/// A failed message blocks only its own run.
pub fn a_failure_holds_up_its_run_only(w: &mut TestDb) {
    for (subject, run) in [("r1", Some("r")), ("r2", Some("r")), ("s1", Some("s")), ("free", None)]
    {
        send(w, subject, run);
    }
    let first = claim(w);
    w.db().outbox().fail(first[0].id, "no", BACK_OFF, 10).unwrap();
    w.db().outbox().ack(&[first[1].id, first[2].id]).unwrap();
    send(w, "s2", Some("s"));
    assert_eq!(claimed(w), ["s2"]);
    w.pass(2 * BACK_OFF);
    assert_eq!(claimed(w), ["r1"]);
}

/// An expired lease blocks its run until the message is claimed again.
pub fn a_lost_relay_loses_no_order(w: &mut TestDb) {
    send(w, "r1", Some("r"));
    send(w, "r2", Some("r"));
    claim(w);
    outlast(w);
    let again = claim(w);
    assert_eq!((subjects(&again), again[0].tries), (vec!["r1".to_owned()], 2));
    w.db().outbox().ack(&[again[0].id]).unwrap();
    assert_eq!(claimed(w), ["r2"]);
}

/// A dead message no longer blocks its run, even after a replay, because the run has continued without
/// it.
pub fn a_dead_one_holds_up_nobody(w: &mut TestDb) {
    let dead = send(w, "r1", Some("r"));
    send(w, "r2", Some("r"));
    claim(w);
    w.db().outbox().fail(dead, "no", BACK_OFF, 1).unwrap();
    assert_eq!(claimed(w), ["r2"]);
    send(w, "r3", Some("r"));
    assert!(w.db().outbox().replay(dead).unwrap());
    assert_eq!(claimed(w), ["r1"]);
}

/// Runs are distinct even if one name is a prefix of another.
pub fn runs_are_told_apart(w: &mut TestDb) {
    for run in ["r", "r\u{1}", "rr"] {
        send(w, run, Some(run));
    }
    assert_eq!(claimed(w), ["r", "r\u{1}", "rr"]);
}

/// A message that was never claimed can be neither acknowledged nor failed, because later messages of
/// its run could overtake the first.
pub fn unclaimed_is_not_delivered(w: &mut TestDb) {
    let ids: Vec<u64> =
        ["r1", "r2", "r3"].iter().map(|subject| send(w, subject, Some("r"))).collect();
    assert_eq!(claimed(w), ["r1"]);
    assert_eq!(writes_nothing(w.db(), || w.db().outbox().ack(&ids[1..]).unwrap()), 0);
    let failed =
        writes_nothing(w.db(), || w.db().outbox().fail(ids[1], "no", BACK_OFF, 1).unwrap());
    assert_eq!(failed, mainstay::Failed::Unknown);
    assert!(claimed(w).is_empty());
    w.db().outbox().ack(&ids[..1]).unwrap();
    assert_eq!(claimed(w), ["r2"]);
}
