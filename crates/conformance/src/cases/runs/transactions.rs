//! Transactions over runs, cells, records and the outbox: all or nothing.

use super::{all, append, fetch_all, keys_of_run, note};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Appended, Code, Contract, Guard, OutboxCommand, RequestId, RunAnswer, RunCommand,
    Transaction,
};

fn put(subject: &str) -> OutboxCommand {
    OutboxCommand::Put { subject: subject.to_owned(), payload: b"x".to_vec(), run: Some(name("r")) }
}

/// Extracts the result of an append from an answer.
pub(super) fn appended(answer: &Answer) -> Appended {
    let Answer::Run(answer) = answer else { panic!("{answer:?}") };
    let RunAnswer::Appended(appended) = answer.as_ref() else { panic!("{answer:?}") };
    appended.clone()
}

fn pending(w: &TestDb) -> u64 {
    w.db().outbox().state().unwrap().pending
}

fn unchanged_run(since: u64) -> Guard {
    Guard::Unchanged { contract: Contract::Runs, name: name("r"), since, expires: None }
}

/// Writes to cells, records, runs and the outbox in one transaction share one revision.
pub fn one_revision_for_all_kinds(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(set("c", 1))
        .step(write("k", &[("a", "1")]))
        .step(append(note("r", 1)))
        .step(put("s"))
        .step(append(note("r", 2)));
    let receipt = writes_once(w.db(), || w.db().execute(transaction).unwrap());
    assert_eq!(
        (appended(&receipt.answers[2]).run_seq, appended(&receipt.answers[4]).run_seq),
        (1, 2)
    );
    assert_eq!(w.runs().revision_of("r", 2).unwrap(), Some(receipt.revision));
    assert_eq!((w.runs().get("r").unwrap().unwrap().updated, pending(w)), (receipt.stamp, 1));
}

/// An error in any step aborts all other steps.
pub fn all_or_nothing(w: &mut TestDb) {
    let bad = Transaction::new()
        .step(set("c", 1))
        .step(append(note("r", 1)))
        .step(put("s"))
        .step(append(mainstay::NewEvent::new("r", "StepStarted").with_key("k")));
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::InvalidArgument, 3);
    assert!(w.runs().get("r").unwrap().is_none() && w.cells().get("c").unwrap().is_none());
    assert_eq!(pending(w), 0);
    let again = w.runs().append(note("r", 1)).unwrap();
    assert_eq!((again.run_seq, again.persisted), (1, true), "its key is free");
}

/// A duplicate is a normal answer, even under `must`, because the event exists.
pub fn duplicate_under_must_is_fine(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let transaction = Transaction::new().must(append(note("r", 1))).step(set("c", 1));
    let receipt = w.db().execute(transaction).unwrap();
    assert!(appended(&receipt.answers[0]).idempotent);
    assert_eq!(w.cells().get("c").unwrap(), int(1));
}

/// A conflicting duplicate is a normal answer; under `must` it aborts the transaction.
pub fn conflict_under_must_aborts(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let other = || append(note("r", 1).value("else"));
    let plain = Transaction::new().step(other()).step(set("c", 1));
    assert!(appended(&w.db().execute(plain).unwrap().answers[0]).conflict);
    let must = Transaction::new().step(set("d", 1)).step(append(note("r", 2))).must(other());
    refused_at(writes_nothing(w.db(), || w.db().execute(must)), Code::MustFailed, 2);
    assert_eq!((all(&w.runs(), "r").len(), w.cells().get("d").unwrap()), (1, None));
}

/// Steps see the events appended by earlier steps.
pub fn steps_see_earlier_ones(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(append(note("r", 1)))
        .step(append(note("r", 1)))
        .step(fetch_all("r"));
    let answers = w.db().execute(transaction).unwrap().answers;
    assert!(appended(&answers[1]).idempotent);
    let Answer::Run(answer) = &answers[2] else { panic!("{answers:?}") };
    let RunAnswer::Events(events) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!(events.iter().map(|event| event.run_seq).collect::<Vec<_>>(), [1]);
}

/// A guard that a run is unchanged fails after an append or a deletion.
pub fn guard_on_no_change(w: &mut TestDb) {
    let passes = |w: &TestDb, guard| {
        w.db().execute(Transaction::new().guard(guard).otherwise(vec![])).unwrap().held
    };
    let before = w.db().revision();
    assert!(passes(w, unchanged_run(before)));
    w.runs().append(note("r", 1)).unwrap();
    assert!(!passes(w, unchanged_run(before)));
    let since = w.db().revision();
    w.runs().append(note("r", 1)).unwrap();
    w.runs().append(note("other", 1)).unwrap();
    w.cells().set("r", 1).unwrap();
    assert!(passes(w, unchanged_run(since)), "nothing of it was written");
    w.runs().delete("r").unwrap();
    assert!(!passes(w, unchanged_run(since)));
}

/// Guards on cells can protect writes to runs, and if one fails, `otherwise` runs.
pub fn otherwise_runs(w: &mut TestDb) {
    let transaction = |is| {
        Transaction::new()
            .guard(counter_is("c", is))
            .step(append(note("r", 1)))
            .step(put("yes"))
            .otherwise(vec![append(note("r", 2)).into(), put("no").into()])
    };
    assert!(!w.db().execute(transaction(Some(1))).unwrap().held);
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-2"]);
    assert!(w.db().execute(transaction(None)).unwrap().held);
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-2", "note-1"]);
    let failing = Transaction::new().guard(counter_is("c", Some(1))).step(append(note("r", 3)));
    refused(writes_nothing(w.db(), || w.db().execute(failing)), Code::GuardFailed);
}

/// An `attempt` step fails alone.
pub fn attempts_fail_alone(w: &mut TestDb) {
    let no_step = mainstay::NewEvent::new("r", "StepStarted").with_key("k");
    let transaction =
        Transaction::new().attempt(append(no_step)).step(append(note("r", 1))).step(set("c", 1));
    let answers = w.db().execute(transaction).unwrap().answers;
    assert!(matches!(&answers[0], Answer::Failed(error) if error.code() == Code::InvalidArgument));
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-1"]);
}

/// A transaction with a request ID runs once, and a retry returns the same receipt.
pub fn repeated_gives_the_same_receipt(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(append(note("r", 1)))
        .step(RunCommand::Bootstrap {
            run: name("s"),
            metadata: 1.into(),
            events: vec![note("s", 1)],
        })
        .step(put("m"))
        .step(fetch_all("r"))
        .step(RunCommand::Snapshot { run: name("r"), seq: None })
        .step(RunCommand::Get { run: name("s") })
        .step(RunCommand::Delete { run: name("absent") })
        .request(RequestId::new("once").unwrap());
    let first = w.db().execute(transaction.clone()).unwrap();
    let again = writes_nothing(w.db(), || w.db().execute(transaction.clone()).unwrap());
    assert!(again.repeated && !first.repeated);
    assert_eq!((again.revision, again.stamp), (first.revision, first.stamp));
    assert_eq!(again.answers, first.answers);
    assert!(appended(&again.answers[0]).persisted, "the first answer, not that of a duplicate");
    assert_eq!(pending(w), 1);
    let other =
        Transaction::new().step(append(note("r", 2))).request(RequestId::new("once").unwrap());
    refused(writes_nothing(w.db(), || w.db().execute(other)), Code::RequestReused);
}

/// Tickets of appends complete in order, each with its sequence number.
pub fn tickets_have_their_sequences(w: &mut TestDb) {
    let tickets: Vec<_> = (1..=64)
        .map(|number| w.db().submit(Transaction::new().step(append(note("r", number)))))
        .collect();
    for (ticket, seq) in tickets.into_iter().zip(1..) {
        assert_eq!(appended(&ticket.wait().unwrap().answers[0]).run_seq, seq);
    }
}
