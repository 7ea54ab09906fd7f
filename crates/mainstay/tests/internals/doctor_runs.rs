//! Inconsistent runs and outboxes, written without the writer, as only a software or hardware fault could.

use super::corruption_fixture::{CorruptDatabase, opened};
use mainstay_engine::tools::doctor::*;

use mainstay::NewEvent;
use mainstay_engine::key::keyspace::{
    self, ALERTS, EVENT_KEYS, EVENTS, MAIN_ID, OUTBOX, REAPS, RUNS, STATES,
};
use mainstay_engine::key::run_keys;
use mainstay_model::codec::put_varint;
use mainstay_model::{CanonicalEvent, RunSnapshot, StepStatus, reduce_parts};

const EVENTS_OF_A: u64 = 600;

/// Two runs, one of them continued on a fork, a deleted run, a run whose restore is incomplete, and
/// messages of all kinds.
fn patient() -> CorruptDatabase {
    let (directory, db) = opened();
    let note = |run: &str, n: u64| NewEvent::new(run, "Noted").with_key(&format!("key {n}"));
    let append = |run: &str, from: u64, upto: u64| {
        db.runs().append_batch((from..=upto).map(|n| note(run, n)).collect()).unwrap();
    };
    append("a", 1, EVENTS_OF_A);
    let generation = db.revision();
    append("b", 1, 3);
    // The event cannot follow here, which raises an alert.
    db.runs().append(NewEvent::new("b", "RunResumed").with_key("resumed")).unwrap();
    db.fork("fork", "main", mainstay::At::Latest).unwrap();
    let fork = db.branch("fork").unwrap();
    fork.runs().append(note("b", 9)).unwrap();
    append("gone", 1, 5);
    let kept = db.runs().fetch("gone", 0, 4).unwrap();
    db.runs().delete("gone").unwrap();
    let coming = kept.into_iter().map(|event| CanonicalEvent { run_id: "coming".into(), ..event });
    db.runs().restoring("coming", None, None).unwrap().add(coming.collect()).unwrap();
    for run in [None, Some("a"), Some("a"), Some("a")] {
        db.outbox().put("s", "p", run).unwrap();
    }
    CorruptDatabase { directory, db, generation }
}

impl CorruptDatabase {
    /// Returns the key of an event of `a`.
    fn at(&self, seq: u64) -> run_keys::RunName {
        run_keys::at("a", self.generation, seq)
    }

    fn key(&self, n: u64) -> run_keys::RunName {
        run_keys::key("a", self.generation, &format!("key {n}"))
    }
}

/// Checks that exactly these faults are found, each with its location, and that a rebuild repairs them.
#[track_caller]
fn assert_found(patient: CorruptDatabase, expected: &[(Option<&str>, Option<u64>, &str)]) {
    patient.assert_found(expected, |fault, (run, at, what)| {
        fault.run.as_deref() == *run && fault.at == *at && fault.what.contains(what)
    });
}

#[test]
fn what_agrees_is_healthy_from_the_log_and_from_the_stores() {
    for is_flushed in [false, true] {
        let report = patient().healthy(is_flushed);
        let RunsReport { runs, events, messages, skipped, .. } = &report.runs;
        // `b` counts again on the fork, where it was continued, with the events that it inherits.
        assert_eq!((*runs, *events, *messages), (3, EVENTS_OF_A + 4 + 5, 4), "{report}");
        assert_eq!(*skipped, None);
    }
}

#[test]
fn an_open_database_is_not_checked_for_agreement() {
    let patient = patient();
    let report = inspect(patient.directory.path()).unwrap();
    assert!(report.runs.skipped.as_ref().unwrap().contains("open"), "{report}");
}

#[test]
fn a_missing_event_is_named() {
    let patient = patient();
    patient.remove(EVENTS, &patient.at(7));
    let no_event = (Some("a"), Some(7), "there is no event with that key");
    assert_found(patient, &[(Some("a"), Some(7), "it is missing"), no_event]);
}

#[test]
fn events_behind_the_head_are_named() {
    let patient = patient();
    let event = patient.payload(EVENTS, &patient.at(EVENTS_OF_A));
    patient.put(EVENTS, &patient.at(EVENTS_OF_A + 1), 0, &event);
    assert_found(patient, &[(Some("a"), Some(EVENTS_OF_A + 1), "head ends with event 600")]);
}

#[test]
fn a_head_that_is_of_other_events_is_named() {
    let patient = patient();
    let mut other = patient.payload(EVENTS, &patient.at(8));
    // Its type is another word of the same length.
    let noted = other.windows(5).position(|word| word == b"Noted").unwrap();
    other[noted..noted + 5].copy_from_slice(b"Moved");
    patient.put(EVENTS, &patient.at(8), 0, &other);
    assert_found(patient, &[(Some("a"), None, "other events")]);
}

#[test]
fn a_head_that_ends_early_is_named() {
    let patient = patient();
    let b = patient.payload(RUNS, b"b");
    patient.put(RUNS, b"a", 0, &b);
    let (_directory, report) = patient.look();
    assert_eq!(report.verdict, Verdict::Disagrees, "{report}");
    let of_a = |fault: &Fault| fault.run.as_deref() == Some("a");
    assert!(report.runs.faults.iter().any(|fault| of_a(fault) && fault.what.contains("missing")));
    let left = |fault: &Fault| of_a(fault) && fault.what.contains("a life that is over");
    assert!(report.runs.faults.iter().any(left), "{report}");
}

/// Also checks that the inspection continues after these faults: the outbox has a fault, too.
#[track_caller]
fn assert_found_besides(patient: CorruptDatabase, expected: &[(Option<&str>, Option<u64>, &str)]) {
    patient.put(OUTBOX, b"h", 0, &[4, 3, 9]);
    let of_outbox = (None, None, "it counts 3 that wait and 9 dead ones");
    assert_found(patient, &[expected, &[of_outbox]].concat());
}

#[test]
fn a_head_that_cannot_be_read_is_named_and_the_rest_is_looked_at() {
    let patients = [patient(), patient()];
    patients[0].put(RUNS, b"a", 0, b"\xff");
    patients[1].put_torn(RUNS, b"a");
    for patient in patients {
        assert_found_besides(patient, &[(Some("a"), None, "its head cannot be read")]);
    }
}

#[test]
fn an_event_that_cannot_be_read_is_named_and_the_rest_is_looked_at() {
    let no_event = (Some("a"), Some(7), "there is no event with that key");
    let damaged = patient();
    damaged.put(EVENTS, &damaged.at(7), 0, b"\xff");
    assert_found_besides(damaged, &[(Some("a"), Some(7), "it cannot be read"), no_event]);
    let torn = patient();
    torn.put_torn(EVENTS, &torn.at(7));
    assert_found_besides(torn, &[(Some("a"), None, "something of it cannot be read")]);
}

#[test]
fn a_message_that_cannot_be_read_is_named_and_the_runs_are_looked_at() {
    let patient = patient();
    patient.put_torn(OUTBOX, &message(b'm', 1));
    patient.remove(EVENT_KEYS, &patient.key(7));
    let expected = [
        (Some("a"), Some(7), "`key 7` is missing"),
        (None, Some(1), "cannot be read"),
        (None, None, "something of it cannot be read"),
    ];
    assert_found(patient, &expected);
}

#[test]
fn branches_that_cannot_be_read_are_no_good_health() {
    let patient = patient();
    patient.put_torn(keyspace::BRANCHES, &MAIN_ID.to_be_bytes());
    let (_directory, report) = patient.look();
    assert!(!report.is_healthy(), "{report}");
    let finding = "Runs and the outbox: cannot be read: ";
    assert!(report.findings.iter().any(|found| found.starts_with(finding)), "{report}");
}

#[test]
fn keys_that_are_missing_or_lead_elsewhere_are_named() {
    let patient = patient();
    patient.remove(EVENT_KEYS, &patient.key(7));
    let mut nine = Vec::new();
    put_varint(&mut nine, 9);
    patient.put(EVENT_KEYS, &patient.key(8), 0, &nine);
    patient.put(EVENT_KEYS, &patient.key(7_000), 0, &nine);
    let expected = [
        (Some("a"), Some(7), "`key 7` is missing"),
        (Some("a"), Some(8), "`key 8` leads to event 9"),
        (Some("a"), Some(9), "`key 8` leads there"),
        (Some("a"), Some(9), "`key 7000` leads there"),
    ];
    assert_found(patient, &expected);
}

#[test]
fn a_snapshot_that_is_not_what_the_events_add_up_to_is_named() {
    let patient = patient();
    let [first, second] = [256, 512].map(|seq| run_keys::snapshot("a", patient.generation, seq));
    let early = patient.payload(STATES, &first);
    patient.put(STATES, &second, 0, &early);
    assert_found(patient, &[(Some("a"), Some(512), "not what the events add up to")]);
}

/// Earlier versions ignored attempts and stored snapshots by another rule. Such snapshots are healthy,
/// but are not folded further.
#[test]
fn a_snapshot_of_an_earlier_reducer_is_refolded_and_healthy() {
    let (directory, db) = opened();
    let run = |kind: &str| NewEvent::new("a", kind).plan("1");
    let step = |kind, attempt: u64| run(kind).step("s").attempt(attempt);
    let late = [
        run("RunStarted"),
        step("StepStarted", 1),
        step("StepFailed", 1),
        step("StepRetried", 2),
        step("StepStarted", 2),
        step("StepCompleted", 1),
    ];
    let notes = (0..300).map(|n| NewEvent::new("a", "Noted").with_key(&format!("{n}")));
    db.runs().append_batch(late.into_iter().chain(notes).collect()).unwrap();
    let generation = db.revision();
    let patient = CorruptDatabase { directory, db, generation };
    let place = run_keys::snapshot("a", generation, 256);
    let mut earlier = RunSnapshot::new("a");
    for event in patient.db.runs().fetch("a", 0, 256).unwrap() {
        let CanonicalEvent { run_seq, event_type, step_id, .. } = &event;
        reduce_parts(&mut earlier, *run_seq, event_type, step_id.as_deref(), None);
    }
    assert_eq!(earlier.steps["s"].status, StepStatus::Success);
    let mut bytes = Vec::new();
    earlier.encode(&mut bytes);
    // Without a name in it, the bytes equal those of the first format except for the format number.
    bytes[0] = 1;
    patient.put(STATES, &place, 0, &bytes);
    let runs = patient.db.runs();
    let snapshot = runs.snapshot("a").unwrap().unwrap();
    assert_eq!(snapshot.steps["s"].status, StepStatus::Running);
    assert_eq!(snapshot.hash(), runs.project("a").unwrap().unwrap().hash());
    runs.append(step("StepCompleted", 2)).unwrap();
    let snapshot = runs.snapshot("a").unwrap().unwrap();
    assert_eq!(snapshot.hash(), runs.project("a").unwrap().unwrap().hash());
    drop(runs);
    patient.healthy(true);
}

#[test]
fn a_snapshot_that_the_head_names_and_that_is_gone_is_named() {
    let patient = patient();
    patient.remove(STATES, &run_keys::snapshot("a", patient.generation, 512));
    assert_found(patient, &[(Some("a"), Some(512), "but there is none")]);
}

#[test]
fn a_state_of_events_to_come_is_named() {
    let patient = patient();
    let mut state = Vec::new();
    [1, 9_999].into_iter().for_each(|number| put_varint(&mut state, number));
    mainstay_model::codec::encode(&mainstay_model::Value::Int(1), &mut state).unwrap();
    patient.put(STATES, &run_keys::state("a", patient.generation, "mine"), 0, &state);
    assert_found(patient, &[(Some("a"), Some(9_999), "the run ends with 600")]);
}

#[test]
fn alerts_without_reason_are_named() {
    let patient = patient();
    patient.put(ALERTS, &patient.at(5), 0, b"why");
    patient.put(ALERTS, &patient.at(5_000), 0, b"why");
    let no_reason = (Some("a"), Some(5), "it could follow");
    assert_found(patient, &[no_reason, (Some("a"), Some(5_000), "no such event")]);
}

#[test]
fn what_deleted_runs_left_needs_a_marker() {
    let patient = patient();
    let index = patient.db.engine().index();
    let from = keyspace::key(REAPS, MAIN_ID, b"");
    let rows = index.scan(
        std::ops::Bound::Included(&from),
        std::ops::Bound::Unbounded,
        mainstay_engine::storage::index::NEWEST,
    );
    let markers: Vec<_> = rows.take(1).map(|row| row.unwrap().key()[5..].to_vec()).collect();
    patient.remove(REAPS, &markers[0]);
    let events = (Some("gone"), None, "events of a life that is over");
    assert_found(patient, &[events, (Some("gone"), None, "idempotency keys of a life")]);
}

fn message(kind: u8, id: u64) -> Vec<u8> {
    [&[kind][..], &id.to_be_bytes()].concat()
}

#[test]
fn a_message_that_stands_in_no_queue_is_named() {
    let patient = patient();
    let queue = patient.queue();
    patient.remove(OUTBOX, &queue[0]);
    assert_found(
        patient,
        &[(None, Some(1), "stands in no queue"), (None, Some(1), "none leads to it")],
    );
}

#[test]
fn a_message_that_would_overtake_is_named() {
    let patient = patient();
    let state = patient.payload(OUTBOX, &message(b's', 3));
    // tries, due, next
    let mut rest = &state[1..];
    let due = mainstay_model::codec::get_varint(&mut rest).unwrap();
    let place = [b"q", &due.to_be_bytes()[..], &3_u64.to_be_bytes()].concat();
    patient.put(OUTBOX, &place, 0, b"");
    assert_found(patient, &[(None, Some(2), "message 3 waits for it, but stands in the queue")]);
}

#[test]
fn a_message_without_words_and_one_without_state_are_named() {
    let patient = patient();
    patient.remove(OUTBOX, &message(b'm', 1));
    patient.put(OUTBOX, &message(b'm', 77), 0, b"\0\0");
    let (_directory, report) = patient.look();
    let says = |id: u64, what: &str| {
        let is_it = |fault: &Fault| fault.at == Some(id) && fault.what.contains(what);
        assert!(report.runs.faults.iter().any(is_it), "{report}");
    };
    says(1, "what it says is missing");
    says(77, "a letter leads to it");
}

#[test]
fn counts_and_lists_that_are_wrong_are_named() {
    let patient = patient();
    patient.put(OUTBOX, b"h", 0, &[4, 3, 9]);
    patient.put(OUTBOX, &message(b'd', 1), 0, b"");
    patient.put(OUTBOX, b"ra", 0, &2_u64.to_be_bytes());
    let expected = [
        (None, None, "it counts 3 that wait and 9 dead ones, but there are 4 and 0"),
        (None, Some(1), "the list of the dead leads to it"),
        (None, Some(2), "the last one of run `a` leads to it"),
        (None, Some(4), "not noted as the last"),
    ];
    assert_found(patient, &expected);
}

impl CorruptDatabase {
    /// Returns the keys of the queue.
    fn queue(&self) -> Vec<Vec<u8>> {
        let index = self.db.engine().index();
        let from = keyspace::key(OUTBOX, MAIN_ID, b"q");
        let end = keyspace::after_prefix(&from).unwrap();
        let from = std::ops::Bound::Included(&from[..]);
        let to = std::ops::Bound::Excluded(&end[..]);
        let rows = index.scan(from, to, mainstay_engine::storage::index::NEWEST);
        rows.map(|row| row.unwrap().key()[keyspace::PREFIX_BYTES..].to_vec()).collect()
    }
}

/// Only the first faults are reported; the rest is counted.
#[test]
fn many_faults_are_counted() {
    let patient = patient();
    for n in 1..=150 {
        patient.remove(EVENT_KEYS, &patient.key(n));
    }
    let (_directory, report) = patient.look();
    assert_eq!((report.runs.faults.len(), report.runs.all_faults), (100, 150), "{report}");
    assert!(report.to_string().contains("50 more faults"), "{report}");
}
