//! Outbox: leases, order within a run, back-off, dead letters.

use crate::memory;
use mainstay::{At, Code, Database, Durability, Failed, ManualClock, Message, Options};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
const BACK_OFF: Duration = Duration::from_secs(1);

fn subjects(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.subject.as_str()).collect()
}

/// Lets a lease end. Timestamps rise a little even while the clock does not advance.
fn outlast(clock: &ManualClock) {
    clock.advance(LEASE + Duration::from_secs(1));
}

fn claim(db: &Database) -> Vec<Message> {
    db.outbox().claim(100, LEASE).unwrap()
}

#[test]
fn a_message_is_claimed_by_one_until_its_lease_is_over() {
    let (db, clock) = memory();
    let id = db.outbox().put("a", "payload", None).unwrap();
    let first = claim(&db);
    assert_eq!((first[0].id, first[0].tries, &first[0].payload[..]), (id, 1, &b"payload"[..]));
    assert!(claim(&db).is_empty());
    outlast(&clock);
    let second = claim(&db);
    assert_eq!((second.len(), second[0].tries), (1, 2));
    assert_eq!(db.outbox().ack(&[id, id, 99]).unwrap(), 1);
    outlast(&clock);
    assert!(claim(&db).is_empty());
    assert_eq!(db.outbox().state().unwrap().pending, 0);
}

#[test]
fn messages_of_a_run_keep_their_order_and_others_do_not_wait() {
    let (db, clock) = memory();
    let outbox = db.outbox();
    for (subject, run) in [("r1", "r"), ("r2", "r"), ("s1", "s"), ("r3", "r"), ("s2", "s")] {
        outbox.put(subject, "", Some(run)).unwrap();
    }
    outbox.put("free", "", None).unwrap();
    let first = claim(&db);
    assert_eq!(subjects(&first), ["r1", "s1", "free"]);
    // The first message of `r` fails. The later ones of `r` wait, those of `s` do not.
    assert!(matches!(outbox.fail(first[0].id, "no", BACK_OFF, 10).unwrap(), Failed::Waits(_)));
    outbox.ack(&[first[1].id, first[2].id]).unwrap();
    assert_eq!(subjects(&claim(&db)), ["s2"]);
    clock.advance(2 * BACK_OFF);
    let again = claim(&db);
    assert_eq!((subjects(&again), again[0].failure.as_deref()), (vec!["r1"], Some("no")));
    outbox.ack(&[again[0].id]).unwrap();
    let second = claim(&db);
    assert_eq!(subjects(&second), ["r2"]);
    outbox.ack(&[second[0].id]).unwrap();
    assert_eq!(subjects(&claim(&db)), ["r3"]);
}

#[test]
fn back_off_doubles_and_the_tenth_failure_is_the_last() {
    let (db, clock) = memory();
    let outbox = db.outbox();
    let id = outbox.put("poison", "x", Some("r")).unwrap();
    outbox.put("behind", "y", Some("r")).unwrap();
    let mut waited = Vec::new();
    for _ in 0..9 {
        assert_eq!(subjects(&claim(&db)), ["poison"]);
        let now = db.now_us().unwrap();
        let Failed::Waits(due) = outbox.fail(id, "broken", BACK_OFF, 10).unwrap() else {
            panic!("it is dead too early");
        };
        waited.push((due - now) / 1_000_000);
        clock.advance(Duration::from_micros(due - now + 1000));
    }
    assert_eq!(waited, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert_eq!(subjects(&claim(&db)), ["poison"]);
    assert_eq!(outbox.fail(id, "broken", BACK_OFF, 10).unwrap(), Failed::Dead);
    assert_eq!(outbox.fail(id, "broken", BACK_OFF, 10).unwrap(), Failed::Unknown);
    assert_eq!(subjects(&claim(&db)), ["behind"]);
    let state = outbox.state().unwrap();
    assert_eq!((state.pending, state.dead), (1, 1));
    let dead = outbox.dead(0, 10).unwrap();
    assert_eq!((dead[0].id, dead[0].failure.as_deref()), (id, Some("broken")));
    assert!(outbox.replay(id).unwrap());
    assert!(!outbox.replay(id).unwrap());
    let replayed = claim(&db);
    assert_eq!((subjects(&replayed), replayed[0].tries), (vec!["poison"], 1));
    outbox.ack(&[id]).unwrap();
    assert_eq!(outbox.state().unwrap().dead, 0);
}

#[test]
fn one_whose_lease_is_over_every_time_dies_too() {
    let (db, clock) = memory();
    let id = db.outbox().put("kills its relay", "", None).unwrap();
    for _ in 0..10 {
        assert_eq!(claim(&db).len(), 1);
        outlast(&clock);
    }
    assert!(claim(&db).is_empty());
    assert_eq!(db.outbox().dead(0, 10).unwrap()[0].id, id);
}

#[test]
fn a_fork_inherits_no_messages_and_has_its_own() {
    let db = Options::new().durability(Durability::Memory).serve_branches(true).memory().unwrap();
    db.outbox().put("of main", "", Some("r")).unwrap();
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap().outbox();
    assert!(side.claim(10, LEASE).unwrap().is_empty());
    side.put("of side", "", Some("r")).unwrap();
    assert_eq!(subjects(&side.claim(10, LEASE).unwrap()), ["of side"]);
    assert_eq!(subjects(&claim(&db)), ["of main"]);
}

#[test]
fn what_waits_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path()).unwrap();
    let ids: Vec<u64> =
        (0..50).map(|i| db.outbox().put(&format!("{i:02}"), "", Some("r")).unwrap()).collect();
    db.outbox().claim(1, LEASE).unwrap();
    db.outbox().ack(&ids[..1]).unwrap();
    drop(db);
    let db = Database::open(directory.path()).unwrap();
    let mut seen = Vec::new();
    while let Some(message) = db.outbox().claim(1, LEASE).unwrap().pop() {
        seen.push(message.subject);
        db.outbox().ack(&[message.id]).unwrap();
    }
    let expected: Vec<String> = (1..50).map(|i| format!("{i:02}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn bad_input_is_refused() {
    let (db, _) = memory();
    let outbox = db.outbox();
    assert!(outbox.put("", "", None).is_err());
    assert!(outbox.put(&"s".repeat(1025), "", None).is_err());
    assert!(outbox.put("s", vec![0; (16 << 20) + 1], None).is_err());
    assert!(outbox.put("s", "", Some("")).is_err());
    assert_eq!(outbox.claim(0, LEASE).unwrap_err().code(), Code::InvalidLimit);
    assert_eq!(outbox.claim(1001, LEASE).unwrap_err().code(), Code::InvalidLimit);
    assert_eq!(outbox.claim(1, Duration::ZERO).unwrap_err().code(), Code::InvalidTtl);
    assert!(outbox.dead(0, 0).is_err());
    let mut t = db.begin().unwrap();
    let claim = mainstay::OutboxCommand::Claim { limit: 1, lease_ms: 1 };
    assert_eq!(t.run(claim).unwrap_err().code(), Code::InvalidArgument);
}

/// A worker that lost its lease cannot end the lease of the next worker.
#[test]
fn a_token_that_is_over_acknowledges_and_fails_nothing() {
    let (db, clock) = memory();
    let outbox = db.outbox();
    let lease = Duration::from_secs(30);
    let ids = [1, 2].map(|_| outbox.put("s", "x", None).unwrap());
    let late = outbox.hold(9, lease).unwrap();
    clock.advance(Duration::from_secs(31));
    let next = outbox.hold(1, lease).unwrap();
    assert_eq!((late.messages.len(), next.messages[0].id), (2, ids[0]));
    let code = |error: mainstay::Error| error.code();
    // Not even the message that no other worker holds is acknowledged: all or none.
    assert_eq!(outbox.ack_held(late.token, &[ids[1], ids[0]]).map_err(code), Err(Code::Fenced));
    let failed = outbox.fail_held(late.token, ids[0], "no wire", lease, 9);
    assert_eq!(failed.map_err(code), Err(Code::Fenced));
    assert_eq!(outbox.state().unwrap().pending, 2);
    assert_eq!(
        outbox.ack_held(late.token, &[ids[1]]).unwrap(),
        1,
        "its lease is over, and nobody took it"
    );
    assert!(matches!(
        outbox.fail_held(next.token, ids[0], "no wire", lease, 9),
        Ok(Failed::Waits(_))
    ));
    assert_eq!(outbox.ack_held(next.token, &[ids[0]]).map_err(code), Err(Code::Fenced), "given up");
    assert_eq!(outbox.ack_held(next.token, &[77]).unwrap(), 0, "there is no such message");
    assert_eq!(outbox.ack(&[ids[0]]).unwrap(), 1, "without a token it is as it was");
}

#[test]
fn a_token_does_not_outlive_a_replay_and_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let db = mainstay::Database::open(directory.path()).unwrap();
    let id = db.outbox().put("s", "x", None).unwrap();
    let held = db.outbox().hold(1, Duration::from_secs(3600)).unwrap();
    drop(db);
    let db = mainstay::Database::open(directory.path()).unwrap();
    let dead = db.outbox().fail_held(held.token, id, "no wire", Duration::ZERO, 1).unwrap();
    assert_eq!(dead, Failed::Dead);
    assert!(db.outbox().replay(id).unwrap());
    let again = db.outbox().hold(1, Duration::from_secs(3600)).unwrap();
    assert_eq!(db.outbox().ack_held(held.token, &[id]).unwrap_err().code(), Code::Fenced);
    assert_eq!(db.outbox().ack_held(again.token, &[id]).unwrap(), 1);
}
