//! Idempotency keys: explicit, derived from a signal, or derived by the formula.

use super::{all, append, keys_of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, ErrorKind, NewEvent, RunStatus, Transaction};

/// The key that an event is stored with.
fn stored(w: &TestDb, event: NewEvent) -> String {
    let run = event.run_id.clone();
    let seq = w.runs().append(event).unwrap().run_seq;
    all(&w.runs(), &run)[seq as usize - 1].idempotency_key.clone()
}

/// The derived key is the hash of run, step, attempt, type and plan version, joined by `|`.
pub fn by_the_formula(w: &mut TestDb) {
    let event = NewEvent::new("r", "StepCompleted").step("s").attempt(2).plan("7");
    // printf 'r|s|2|StepCompleted|7' | sha256sum
    let key = "3f7e5e74a8788714abff87066f40a0d36c626bd33f2dc9b8073586742ac5f79c";
    assert_eq!(stored(w, event), key);
}

/// A missing attempt counts as attempt 1.
pub fn missing_attempt_is_the_first(w: &mut TestDb) {
    let event = || NewEvent::new("r", "StepStarted").step("s").plan("7");
    // printf 'r|s|1|StepStarted|7' | sha256sum
    let key = "9e1919e10e3a6c10fad5fd014ee7490bef1e50fa18087cc37ae37a14b469d8a9";
    assert_eq!(stored(w, event()), key);
    assert!(w.runs().append(event().attempt(1)).unwrap().idempotent);
    assert!(w.runs().append(event().attempt(2)).unwrap().persisted);
}

/// An event of the whole run has `RUN` as its step.
pub fn of_the_whole_run(w: &mut TestDb) {
    // printf 'r|RUN|1|RunStarted|7' | sha256sum
    let key = "dcbc7419404ef1739cdc8c2df17457e680ef9aff7997f50ea3a0a4cc6d8e530b";
    assert_eq!(stored(w, NewEvent::new("r", "RunStarted").plan("7")), key);
}

/// A plan ID is placed before the plan version.
pub fn plan_id_stands_before_the_version(w: &mut TestDb) {
    let mut event = NewEvent::new("r", "RunStarted").plan("7");
    event.plan_id = Some("p".into());
    // printf 'r|RUN|1|RunStarted|p|7' | sha256sum
    let key = "25428361440df9542df75efd6507e11576a95de9b3475ac109775c73a32721b5";
    assert_eq!(stored(w, event), key);
}

/// An event caused by a signal derives its key from the signal.
pub fn of_a_signal(w: &mut TestDb) {
    // printf 'r|SIGNAL|u' | sha256sum
    let key = "3581e0889586565c595d362825ea60094b40328ac641245d346d3fbf7b258ed4";
    assert_eq!(stored(w, NewEvent::new("r", "RunPaused").plan("7").signal("u")), key);
    let bare = NewEvent::new("r", "RunPaused").signal("v");
    assert!(w.runs().append(bare).unwrap().persisted, "a signal needs no plan");
}

/// So a run can pause twice, by different signals.
pub fn a_run_can_pause_twice(w: &mut TestDb) {
    w.runs().append(NewEvent::new("r", "RunStarted").plan("7")).unwrap();
    for (kind, signal) in
        [("RunPaused", "1"), ("RunResumed", "2"), ("RunPaused", "3"), ("RunPaused", "3")]
    {
        w.runs().append(NewEvent::new("r", kind).plan("7").signal(signal)).unwrap();
    }
    let snapshot = w.runs().snapshot("r").unwrap().unwrap();
    assert_eq!((snapshot.status, snapshot.last_event_seq), (RunStatus::Paused, 4));
    assert!(!snapshot.is_inconsistent());
}

/// An explicit key is used unchanged.
pub fn own_key_comes_first(w: &mut TestDb) {
    let event = NewEvent::new("r", "RunPaused").plan("7").signal("u").with_key("mine | é");
    assert_eq!(stored(w, event), "mine | é");
    assert_eq!(keys_of_run(&w.runs(), "r"), ["mine | é"]);
}

/// Another plan version gives another key.
pub fn another_plan_is_another_event(w: &mut TestDb) {
    for version in ["1", "2"] {
        assert!(
            w.runs().append(NewEvent::new("r", "RunApproved").plan(version)).unwrap().persisted
        );
    }
}

/// An event without a plan version, a signal or a key is refused.
pub fn nothing_to_make_it_of_is_refused(w: &mut TestDb) {
    let bare = || NewEvent::new("r", "RunStarted");
    let refusal = writes_nothing(w.db(), || w.runs().append(bare())).unwrap_err();
    assert_eq!((refusal.code(), refusal.kind()), (Code::InvalidArgument, ErrorKind::Invalid));
    let raw = Transaction::new().step(set("c", 1)).step(append(bare()));
    refused_at(writes_nothing(w.db(), || w.db().execute(raw)), Code::InvalidArgument, 1);
}

/// The separator `|` is refused inside a part, because two keys could become equal.
pub fn bar_inside_is_refused(w: &mut TestDb) {
    let step = || NewEvent::new("r", "StepStarted").step("s").plan("1");
    let mut plan_id = step();
    plan_id.plan_id = Some("p|".into());
    let bad = [
        NewEvent::new("r|s", "RunStarted").plan("1"),
        NewEvent::new("r", "Run|Started").plan("1"),
        NewEvent::new("r", "RunStarted").plan("1|2"),
        step().step("s|t"),
        step().attempt("1|2"),
        plan_id,
        NewEvent::new("r", "RunPaused").signal("a|b"),
    ];
    for event in bad {
        refused(writes_nothing(w.db(), || w.runs().append(event)), Code::InvalidArgument);
    }
}

/// An append in a transaction derives the same key as a direct call.
pub fn commands_get_the_same_key(w: &mut TestDb) {
    let event = NewEvent::new("r", "StepStarted").step("s").plan("7");
    w.db().execute(Transaction::new().step(append(event.clone()))).unwrap();
    assert!(w.runs().append(event).unwrap().idempotent);
}

/// A key has 1 to 1,024 bytes.
pub fn keys_have_limits(w: &mut TestDb) {
    let with = |key: &str| NewEvent::new("r", "Noted").with_key(key);
    refused(w.runs().append(with("")), Code::InvalidArgument);
    refused(w.runs().append(with(&"k".repeat(1_025))), Code::InvalidArgument);
    assert_eq!(w.runs().append(with(&"k".repeat(1_024))).unwrap().run_seq, 1);
    assert!(w.runs().append(with(&"k".repeat(1_024))).unwrap().idempotent);
}

/// Keys are distinct even if one is a prefix of another or contains a NUL.
pub fn keys_are_told_apart(w: &mut TestDb) {
    let keys = ["k", "kk", "k\0", "k\0\0", "\u{1}", "K"];
    for (place, key) in keys.iter().enumerate() {
        let answer = w.runs().append(NewEvent::new("r", "Noted").with_key(key)).unwrap();
        assert_eq!((answer.run_seq, answer.persisted), (place as u64 + 1, true), "{key:?}");
    }
    assert_eq!(keys_of_run(&w.runs(), "r"), keys);
}
