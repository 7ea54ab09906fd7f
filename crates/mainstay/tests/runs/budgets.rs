//! Bounded work: limits of how much appends, claims and merges may scan while they hold the writer.

use crate::note;
use mainstay::{
    At, Code, Database, Durability, Error, ManualClock, MergeStrategy, Options, OutboxCommand,
    RunCommand, Transaction,
};
use std::time::Duration;

const LEASE_MS: u64 = 30_000;

fn options() -> Options {
    Options::new().durability(Durability::Memory).sweep_interval(None)
}

fn bounded() -> Database {
    options().writer_entries(100).memory().unwrap()
}

fn append(run: &str, number: u64) -> RunCommand {
    RunCommand::Append { event: Box::new(note(run, number)), expected: None }
}

/// One message with an expired lease precedes many deleted ones. A claim that looks for more messages scans
/// these twice.
#[test]
fn a_claim_of_several_passes_what_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(1_700_000_000_000_000);
    let lease = Duration::from_millis(LEASE_MS);
    {
        let db = options().clock(clock.clone()).open(dir.path()).unwrap();
        for _ in 0..1_000 {
            db.outbox().put("s", "", None).unwrap();
        }
        let claimed = db.outbox().claim(1_000, lease).unwrap();
        let ids: Vec<u64> = claimed.iter().map(|one| one.id).skip(1).collect();
        assert_eq!(db.outbox().ack(&ids).unwrap(), 999);
    }
    clock.advance(2 * lease);
    let db = options().writer_entries(100).clock(clock).open(dir.path()).unwrap();
    assert_eq!(db.outbox().claim(10, lease).unwrap().len(), 1);
}

fn assert_too_large(error: &Error) {
    assert_eq!(error.code(), Code::TransactionTooLarge, "{error}");
    assert!(error.to_string().contains("database.transaction_writer_entries"), "{error}");
}

#[test]
fn one_append_to_a_long_run_always_succeeds_and_many_count() {
    let db = bounded();
    for run in ["a", "b", "c"] {
        (1..=200).for_each(|number| drop(db.runs().append(note(run, number)).unwrap()));
    }
    // A fork has no cached snapshot, so it folds the events again.
    for fork in ["one", "two"] {
        db.fork(fork, "main", At::Latest).unwrap();
    }
    db.execute(Transaction::on("one").step(append("a", 201))).unwrap();
    let all =
        ["a", "b", "c"].iter().fold(Transaction::on("two"), |all, run| all.step(append(run, 201)));
    assert_too_large(&db.execute(all).unwrap_err());
}

#[test]
fn one_claim_finds_what_is_due_and_many_count() {
    let dir = tempfile::tempdir().unwrap();
    let lease = Duration::from_millis(LEASE_MS);
    {
        let db = options().open(dir.path()).unwrap();
        for _ in 0..1_000 {
            db.outbox().put("gone", "", None).unwrap();
        }
        let ids: Vec<u64> =
            db.outbox().claim(1_000, lease).unwrap().into_iter().map(|one| one.id).collect();
        assert_eq!(db.outbox().ack(&ids).unwrap(), 1_000);
        db.outbox().put("due", "", None).unwrap();
    }
    let db = options().writer_entries(100).open(dir.path()).unwrap();
    let claimed = db.outbox().claim(1, lease).unwrap();
    assert_eq!(claimed.iter().map(|one| one.subject.as_str()).collect::<Vec<_>>(), ["due"]);
    let claim = || OutboxCommand::Claim { limit: 1, lease_ms: LEASE_MS };
    let put = || OutboxCommand::Put { subject: "own".into(), payload: Vec::new(), run: None };
    let puts = (0..50).fold(Transaction::new(), |all, _| all.step(put()));
    let greedy = (0..50).fold(puts, |all, _| all.step(claim()));
    assert_too_large(&db.execute(greedy).unwrap_err());
}

/// Creates a branch that differs from `main` by many events of one run, or by many messages.
fn grown(db: &Database, by_messages: bool) {
    db.runs().append(note("r", 1)).unwrap();
    db.fork("dev", "main", At::Latest).unwrap();
    let dev = db.branch("dev").unwrap();
    for number in 2..=300 {
        if by_messages {
            dev.outbox().put("s", "", None).unwrap();
        } else {
            dev.runs().append(note("r", number)).unwrap();
        }
    }
    db.runs().append(note("r", 301)).unwrap();
}

#[test]
fn a_merge_counts_what_it_looks_at() {
    for by_messages in [false, true] {
        let db = bounded();
        grown(&db, by_messages);
        let before = db.revision();
        assert_too_large(&db.merge("dev", "main", MergeStrategy::Theirs).unwrap_err());
        assert_eq!((db.revision(), db.outbox().state().unwrap().pending), (before, 0));
        assert_eq!(db.runs().get("r").unwrap().unwrap().last_event_seq, 2);
        let db = options().memory().unwrap();
        grown(&db, by_messages);
        db.merge("dev", "main", MergeStrategy::Theirs).unwrap();
    }
}
