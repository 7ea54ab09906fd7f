//! Delivery failures: exponential back-off, at most ten tries, dead letters, replay.

use super::{BACK_OFF, LEASE, claim, claimed, outlast, send, subjects};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Failed};
use std::time::Duration;

/// The back-off doubles with each failure, and the message keeps the last error.
pub fn back_off_doubles(w: &mut TestDb) {
    let id = send(w, "a", None);
    for wait_s in [1, 2, 4, 8, 16] {
        assert_eq!(claimed(w), ["a"]);
        let before = w.wall_us();
        let failed = w.db().outbox().fail(id, "broken", BACK_OFF, 10).unwrap();
        let Failed::Waits(due) = failed else { panic!("{failed:?}") };
        let waits = due - before;
        assert!((wait_s * 1_000_000..=wait_s * 1_000_000 + 1_000).contains(&waits), "{waits}");
        w.pass(Duration::from_micros(waits / 2));
        assert!(claimed(w).is_empty(), "too early");
        w.pass(Duration::from_micros(waits / 2 + 1_000));
    }
    assert_eq!(claim(w)[0].failure.as_deref(), Some("broken"));
}

/// After ten failed tries the message is dead, and later messages of its run are delivered.
pub fn dead_after_ten_tries(w: &mut TestDb) {
    let id = send(w, "poison", Some("r"));
    send(w, "behind", Some("r"));
    for tries in 1..=10 {
        let message = claim(w).remove(0);
        assert_eq!((message.id, message.tries), (id, tries));
        let failed = w.db().outbox().fail(id, &format!("try {tries}"), BACK_OFF, 10).unwrap();
        assert_eq!(failed == Failed::Dead, tries == 10);
        w.pass(Duration::from_secs(1_000));
    }
    assert_eq!(claimed(w), ["behind"]);
    let state = w.db().outbox().state().unwrap();
    assert_eq!((state.pending, state.dead), (1, 1));
    let dead = w.db().outbox().dead(0, 9).unwrap();
    assert_eq!((dead[0].id, dead[0].failure.as_deref()), (id, Some("try 10")));
}

/// A message whose lease expires on every try dies, too.
pub fn silence_counts_as_a_try(w: &mut TestDb) {
    let id = send(w, "kills its relay", None);
    for _ in 0..10 {
        assert_eq!(claim(w).len(), 1);
        outlast(w);
    }
    assert!(claimed(w).is_empty());
    assert_eq!(w.db().outbox().dead(0, 9).unwrap()[0].id, id);
}

/// Failing an unknown or dead message returns `Unknown`.
pub fn unknown_cannot_fail(w: &mut TestDb) {
    let fail = |id| writes_nothing(w.db(), || w.db().outbox().fail(id, "", BACK_OFF, 1).unwrap());
    assert_eq!(fail(77), Failed::Unknown);
    let id = send(w, "a", None);
    claim(w);
    assert_eq!(w.db().outbox().fail(id, "", BACK_OFF, 1).unwrap(), Failed::Dead);
    assert_eq!(fail(id), Failed::Unknown);
    refused(w.db().outbox().fail(id, "", BACK_OFF, 0), Code::InvalidArgument);
}

/// Dead letters are listed oldest first, after an ID, up to a limit. Acknowledging one deletes it.
pub fn dead_letters_are_listed(w: &mut TestDb) {
    let ids: Vec<u64> = ["a", "b", "c"].iter().map(|subject| send(w, subject, None)).collect();
    claim(w);
    for id in [ids[2], ids[0], ids[1]] {
        w.db().outbox().fail(id, "no", BACK_OFF, 1).unwrap();
    }
    let dead = |after, limit| subjects(&w.db().outbox().dead(after, limit).unwrap());
    assert_eq!((dead(0, 2), dead(ids[1], 9)), (vec!["a".into(), "b".into()], vec!["c".into()]));
    assert_eq!(w.db().outbox().ack(&[ids[1]]).unwrap(), 1);
    assert_eq!(dead(0, 9), ["a", "c"]);
    assert_eq!(w.db().outbox().state().unwrap().dead, 2);
}

/// A replayed message starts with a try counter of zero.
pub fn replayed_has_all_its_tries(w: &mut TestDb) {
    let id = send(w, "a", None);
    claim(w);
    w.db().outbox().fail(id, "no", BACK_OFF, 1).unwrap();
    assert!(w.db().outbox().replay(id).unwrap());
    assert!(!writes_nothing(w.db(), || w.db().outbox().replay(id).unwrap()), "it is not dead");
    assert!(!writes_nothing(w.db(), || w.db().outbox().replay(99).unwrap()));
    let again = w.db().outbox().claim(9, LEASE).unwrap();
    assert_eq!((again[0].id, again[0].tries), (id, 1));
    assert!(w.db().outbox().dead(0, 9).unwrap().is_empty());
}

/// A claim marks a message without tries left as dead and returns the next one instead.
pub fn one_given_up_takes_no_place(w: &mut TestDb) {
    send(w, "kills its relay", Some("r"));
    for _ in 0..10 {
        assert_eq!(claim(w).len(), 1);
        outlast(w);
    }
    send(w, "next", Some("r"));
    let one = w.db().outbox().claim(1, LEASE).unwrap();
    assert_eq!(subjects(&one), ["next"]);
}
