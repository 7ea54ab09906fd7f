//! Inconsistent keyed state, written without the writer, as only a software or hardware fault could.

use super::corruption_fixture::{CorruptDatabase, opened};
use mainstay_engine::key::keyspace::{self, KEYED, MAIN_ID, REAPS, SPACES};
use mainstay_engine::key::state_keys;
use mainstay_model::{
    At, EntryBlock, EntryKind, KeyedState, SpaceOptions, StateCommand, StateWrite, Transaction,
    VersionKind,
};

/// A space with all kinds of entries, one that was replaced and not yet reaped, one that is being
/// filled, and a fork.
fn patient() -> CorruptDatabase {
    let (directory, db) = opened();
    let s = db.keyed("s").unwrap();
    s.declare(SpaceOptions::default().versions(VersionKind::U64).ordered()).unwrap();
    let generation = db.revision();
    let puts = (1..=9_u64).map(|n| StateWrite::put(format!("k{n}"), "v", n));
    s.write(puts.collect()).unwrap();
    s.write(vec![StateWrite::append("l", "1", "x"), StateWrite::advance("in", 7)]).unwrap();
    s.seal(5).unwrap();
    s.delete("k1", 5).unwrap();
    s.delete("k2", 20).unwrap();
    let plain = db.keyed("plain").unwrap();
    plain.put("a", "1", 1).unwrap();
    plain.delete("a", 2).unwrap();
    plain.put("b", "1", 1).unwrap();
    let replaced = db.keyed("replaced").unwrap();
    replaced.put("a", "1", 1).unwrap();
    replaced.restore(&KeyedState::snapshot(&plain).unwrap()).unwrap();
    let info = plain.info().unwrap().unwrap();
    let mut block = EntryBlock::default();
    block.push(&EntryKind::position("p"), Some(&[0; 8]));
    let space = mainstay_model::Name::new("half").unwrap();
    let begin = StateCommand::Restore { space, info, block, begun: None, ends: false };
    db.execute(Transaction::new().step(begin)).unwrap();
    db.fork("fork", "main", At::Latest).unwrap();
    let fork = db.branch("fork").unwrap();
    fork.keyed("plain").unwrap().put("c", "1", 1).unwrap();
    fork.keyed("s").unwrap().clear().unwrap();
    CorruptDatabase { directory, db, generation }
}

impl CorruptDatabase {
    /// Returns the key of a place in `s`.
    fn place(&self, place: &[u8]) -> Vec<u8> {
        [&state_keys::life("s", self.generation)[..], place].concat()
    }
}

/// Checks that exactly these faults are found, and that a rebuild repairs them.
#[track_caller]
fn assert_found(patient: CorruptDatabase, expected: &[(&str, &str)]) {
    patient.assert_found(expected, |fault, (space, what)| {
        fault.space.as_deref() == Some(*space) && fault.what.contains(what)
    });
}

#[test]
fn what_agrees_is_healthy_from_the_log_and_from_the_stores() {
    for is_flushed in [false, true] {
        let report = patient().healthy(is_flushed);
        // `plain` counts again on the fork, where it was written to.
        assert_eq!((report.runs.spaces, report.runs.entries), (4, 11 + 2 + 2 + 2 + 3), "{report}");
    }
}

#[test]
fn a_declaration_that_cannot_be_read_is_named_and_the_rest_is_looked_at() {
    let patients = [patient(), patient()];
    patients[0].put(SPACES, b"plain", 0, b"\xff");
    patients[1].put_torn(SPACES, b"plain");
    for patient in patients {
        let grave = patient.place(&state_keys::grave(99.into(), b"k1"));
        patient.put(KEYED, &grave, 0, b"");
        let expected =
            [("plain", "its declaration cannot be read"), ("s", "key k1 is said to be deleted")];
        assert_found(patient, &expected);
    }
}

#[test]
fn entries_that_cannot_be_read_are_named() {
    let patient = patient();
    let mut of_time = Vec::new();
    let time = mainstay_model::LogicalTime::new(1, 1);
    mainstay_model::put_state(time.into(), Some(b"v"), &mut of_time);
    patient.put(KEYED, &patient.place(&EntryKind::state(b"k1")), 0, &of_time);
    patient.put(KEYED, &patient.place(&EntryKind::state(b"k2")), 0, b"");
    patient.put(KEYED, &patient.place(&EntryKind::position("in")), 0, b"short");
    patient.put(KEYED, &patient.place(b"\x09what"), 0, b"");
    let what = ["x00k1 cannot be read", "x00k2 cannot be read", "x04in cannot", "\\twhat cannot"];
    assert_found(patient, &what.map(|what| ("s", what)));
    let torn = self::patient();
    torn.put_torn(KEYED, &torn.place(&EntryKind::state(b"k1")));
    assert_found(torn, &[("s", "something of it cannot be read")]);
}

#[test]
fn deletions_and_what_they_are_found_by_have_to_agree() {
    let patient = patient();
    let mut deleted = Vec::new();
    mainstay_model::put_state(30.into(), None, &mut deleted);
    patient.put(KEYED, &patient.place(&EntryKind::state(b"k3")), 0, &deleted);
    patient.put(KEYED, &patient.place(&state_keys::grave(40.into(), b"k4")), 0, b"");
    patient.put(KEYED, &patient.place(&state_keys::grave(40.into(), b"nobody")), 0, b"");
    patient.put(KEYED, &patient.place(b"\x03abc"), 0, b"");
    let expected = [
        ("s", "key k3 was deleted with version 30, and is not found by it"),
        ("s", "key k4 is said to be deleted with version 40, and is not"),
        ("s", "key nobody is said to be deleted"),
        ("s", "abc leads to no key"),
    ];
    assert_found(patient, &expected);
}

#[test]
fn what_waits_below_the_frontier_is_named() {
    let patient = patient();
    patient.put(KEYED, &patient.place(&EntryKind::waiting(4.into(), b"late")), 0, b"\0v");
    assert_found(patient, &[("s", "key late waits with version 4, which is closed")]);
}

#[test]
fn what_generations_left_needs_a_marker() {
    let patient = patient();
    let index = patient.db.engine().index();
    let from = keyspace::key(REAPS, MAIN_ID, b"");
    let rows = index.scan(
        std::ops::Bound::Included(&from),
        std::ops::Bound::Unbounded,
        mainstay_engine::storage::index::NEWEST,
    );
    let of_replaced = |key: &Vec<u8>| key.windows(8).any(|window| window == b"replaced");
    let mut markers = rows.map(|row| row.unwrap().key()[keyspace::PREFIX_BYTES..].to_vec());
    let marker = markers.find(of_replaced).unwrap();
    patient.remove(REAPS, &marker);
    let stray = [&state_keys::life("s", 7_777)[..], &EntryKind::state(b"a")].concat();
    patient.put(KEYED, &stray, 0, b"");
    let what = "is neither seen nor filled";
    assert_found(patient, &[("replaced", what), ("s", "generation 7777, which is neither")]);
}
