//! Inconsistent sessions, written without the writer, as only a software or hardware fault could.

use super::corruption_fixture::{CorruptDatabase, opened};
use mainstay::{Receipt, SessionOptions};
use mainstay_engine::apply::sessions::bytes::{Part, Profile, StoredSession, part_key};
use mainstay_engine::apply::sessions::{response, slot};
use mainstay_engine::key::keyspace::{PREFIX_BYTES, SESSION_DATA, SESSIONS};
use mainstay_model::{CellCommand, KEPT_LIMIT, Name, SmallVec, Transaction};

/// A session with small and large responses and client requests, an empty one, and a closed one.
fn patient() -> CorruptDatabase {
    let (directory, db) = opened();
    let open = |name: &str| db.sessions().open(SessionOptions::new().name(name)).unwrap();
    let session = open("s");
    let set = |n: u64| {
        let name = Name::new("c").unwrap();
        Transaction::new().step(CellCommand::set(name, "x".repeat(n as usize)))
    };
    let get = || {
        let name = Name::new("c").unwrap();
        Transaction::new().step(CellCommand::Get { name })
    };
    for n in 1..=5 {
        session.execute(n, 1, set(n * 300)).unwrap();
    }
    session.execute(6, 2, get()).unwrap();
    session.execute(7, 3, get()).unwrap();
    for n in 1..=6 {
        db.sessions().send("s", vec![0; n]).unwrap();
    }
    session.acknowledge(2).unwrap();
    open("idle");
    let gone = open("gone");
    gone.execute(1, 1, set(1)).unwrap();
    gone.close().unwrap();
    let generation = db.revision();
    CorruptDatabase { directory, db, generation }
}

fn part(session: &str, part: Part) -> Vec<u8> {
    part_key(&Name::new(session).unwrap(), part)[PREFIX_BYTES..].to_vec()
}

/// Returns a slot with an empty response for each of these requests.
fn slot_of(requests: impl Iterator<Item = u64>) -> Vec<u8> {
    let answers = SmallVec::new();
    let revision = 1;
    let receipt = Receipt { revision, stamp: 1, held: true, repeated: false, answers };
    let mut bytes = Vec::new();
    let mut out = Vec::new();
    response::encode(&Ok(receipt), &mut bytes).unwrap();
    let response =
        |request_id| Ok(slot::Response { request_id, revision, stamp: 1, bytes: &bytes });
    slot::encode(1, requests.map(response), &mut out).unwrap();
    out
}

/// Checks that exactly these faults are found, and that a rebuild repairs them.
#[track_caller]
fn assert_found(patient: CorruptDatabase, expected: &[(&str, &str)]) {
    patient.assert_found(expected, |fault, (session, what)| {
        fault.session.as_deref() == Some(*session) && fault.what.contains(what)
    });
}

#[test]
fn what_agrees_is_healthy_from_the_log_and_from_the_stores() {
    for is_flushed in [false, true] {
        let report = patient().healthy(is_flushed);
        let runs = &report.runs;
        assert_eq!((runs.sessions, runs.responses, runs.letters), (2, 5, 4), "{report}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let patient = patient();
    patient.put(SESSIONS, b"idle", 0, b"\x09");
    patient.put(SESSION_DATA, &part("s", Part::Slot(0)), 0, b"\x01\x07\x7f");
    patient.put_torn(SESSION_DATA, &part("s", Part::Letter(4)));
    patient.put(SESSION_DATA, b"what", 0, b"");
    let expected = [
        ("idle", "it cannot be read"),
        ("s", "slot 0 of its responses cannot be read"),
        ("s", "something of it cannot be read"),
        ("s", "requests 4 to 4 to its client are missing"),
        ("what", "this is part of no session"),
    ];
    assert_found(patient, &expected);
}

#[test]
fn letters_have_to_be_those_that_wait() {
    let patients = [patient(), patient(), patient()];
    patients[0].remove(SESSION_DATA, &part("s", Part::Letter(4)));
    patients[0].remove(SESSION_DATA, &part("s", Part::Letter(6)));
    patients[1].put(SESSION_DATA, &part("s", Part::Letter(2)), 0, b"");
    patients[1].put(SESSION_DATA, &part("s", Part::Letter(7)), 0, b"");
    patients[2].put(SESSION_DATA, &part("s", Part::Letter(4)), 0, b"longer than it was");
    let expected = [
        ["requests 4 to 4 to its client are missing", "requests 6 to 6 to its client are missing"],
        [
            "request 2 to its client is acknowledged, and still",
            "7 to its client is there, and 6 was",
        ],
        ["requests to its client have 32 bytes, and it says 18", ""],
    ];
    for (patient, expected) in patients.into_iter().zip(expected) {
        let expected = expected.into_iter().filter(|what| !what.is_empty()).map(|what| ("s", what));
        assert_found(patient, &expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_request_has_one_response_and_a_session_not_too_many() {
    let patient = patient();
    patient.put(SESSION_DATA, &part("s", Part::Slot(40)), 0, &slot_of([7, 8].into_iter()));
    let many = (1..=KEPT_LIMIT as u64 + 1).rev();
    patient.put(SESSION_DATA, &part("idle", Part::Slot(0)), 0, &slot_of(many));
    let expected = [("s", "request 7 has two responses"), ("idle", "it keeps 1001 responses")];
    assert_found(patient, &expected);
}

#[test]
fn what_a_session_leaves_is_named() {
    let patient = patient();
    patient.put(SESSION_DATA, &part("gone", Part::Letter(1)), 0, b"x");
    patient.put(SESSION_DATA, &part("never", Part::Slot(0)), 0, &slot_of([1].into_iter()));
    patient.put(SESSION_DATA, &part("never", Part::Slot(1)), 0, &slot_of([2].into_iter()));
    let mut gone = Vec::new();
    StoredSession::Gone { expired: true, former: Default::default() }.encode(&mut gone);
    patient.put(SESSIONS, b"late", 0, &gone);
    let mut live = Vec::new();
    StoredSession::Live(Profile::default()).encode(&mut live);
    patient.put(SESSIONS, b"\xff", 0, &live);
    let something = "it does not live, and something of it is there";
    let expected = [
        ("gone", something),
        ("never", something),
        ("late", "it is gone, and would be remembered for ever"),
        ("\\xff", "no session can have that name"),
    ];
    assert_found(patient, &expected);
}
