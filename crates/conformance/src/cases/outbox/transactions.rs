//! Messages in transactions: committed together with the other steps or not at all.

use super::{LEASE, claimed, put_command, send, subjects};
use crate::TestDb;
use crate::assertions::*;
use crate::cases::runs::{append, note};
use mainstay::{
    Answer, Code, Contract, ErrorKind, Failed, Guard, OutboxAnswer, OutboxCommand, RequestId,
    Transaction,
};

/// A message and an event commit together or not at all.
pub fn both_or_none(w: &mut TestDb) {
    let both = Transaction::new().step(append(note("r", 1))).step(put_command("done"));
    w.db().execute(both).unwrap();
    let bad = Transaction::new()
        .step(append(note("r", 2)))
        .step(put_command("lost"))
        .must(delete("absent"));
    refused_at(w.db().execute(bad), Code::MustFailed, 2);
    let guarded = Transaction::new().guard(counter_is("c", Some(9))).step(put_command("lost"));
    refused(w.db().execute(guarded), Code::GuardFailed);
    assert_eq!(claimed(w), ["done"]);
}

/// Several messages of one transaction keep their order.
pub fn several_keep_their_order(w: &mut TestDb) {
    let steps = ["c", "a", "b"].into_iter().map(put_command);
    w.db().execute(steps.fold(Transaction::new(), Transaction::step)).unwrap();
    assert_eq!(claimed(w), ["c", "a", "b"]);
}

/// Acknowledging a message and putting another is one transaction, as forwarding relays need it.
pub fn acknowledge_and_put(w: &mut TestDb) {
    let id = send(w, "first", Some("r"));
    w.db().outbox().claim(1, LEASE).unwrap();
    let pass_on = Transaction::new()
        .step(OutboxCommand::Ack { ids: vec![id] })
        .step(put_command("second"))
        .step(OutboxCommand::Look);
    let answers = writes_once(w.db(), || w.db().execute(pass_on).unwrap()).answers;
    let Answer::Outbox(answer) = &answers[2] else { panic!("{answers:?}") };
    let OutboxAnswer::State(state) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!(state.pending, 1, "steps see earlier ones");
    assert_eq!(claimed(w), ["second"]);
}

/// A transaction with a request ID puts once, and a repeated claim returns the same messages.
pub fn repeated_gives_the_same_receipt(w: &mut TestDb) {
    let put = Transaction::new().step(put_command("a")).request(RequestId::new("put").unwrap());
    let first = w.db().execute(put.clone()).unwrap();
    assert_eq!(w.db().execute(put).unwrap().answers, first.answers);
    let claim = Transaction::new()
        .step(OutboxCommand::Claim { limit: 9, lease_ms: 30_000 })
        .request(RequestId::new("claim").unwrap());
    let first = w.db().execute(claim.clone()).unwrap();
    let again = writes_nothing(w.db(), || w.db().execute(claim).unwrap());
    assert_eq!((again.repeated, &again.answers), (true, &first.answers));
    let Answer::Outbox(answer) = &first.answers[0] else { panic!("{first:?}") };
    let OutboxAnswer::Messages(messages) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!(subjects(messages), ["a"]);
}

/// Messages of an interactive transaction become visible at commit and never conflict.
pub fn interactive_puts_wait_for_the_commit(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.put_message("mine", "x", Some("r")).unwrap();
    send(w, "others", Some("s"));
    assert_eq!(claimed(w), ["others"]);
    t.commit().unwrap();
    assert_eq!(claimed(w), ["mine"]);
    let mut dropped = w.db().begin().unwrap();
    dropped.put_message("lost", "x", None).unwrap();
    drop(dropped);
    assert!(claimed(w).is_empty());
}

/// Runs a command in an interactive transaction, then another command outside. Returns whether the
/// transaction committed.
fn survives(w: &TestDb, command: OutboxCommand, told: Answer, meanwhile: OutboxCommand) -> bool {
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.run(command).unwrap(), told);
    t.set("told", 1).unwrap();
    w.db().execute(Transaction::new().step(meanwhile)).unwrap();
    let committed = t.commit().map_err(|error| assert_eq!(error.kind(), ErrorKind::Conflict));
    committed.is_ok()
}

fn fail(id: u64) -> OutboxCommand {
    OutboxCommand::Fail { id, message: "no".into(), backoff_ms: 1_000, tries: 1 }
}

/// The answers to acknowledge, fail and replay still hold at commit. If another caller was faster, the
/// commit conflicts.
pub fn interactive_answers_are_as_told(w: &mut TestDb) {
    let ids = ["a", "b", "c", "d"].map(|subject| send(w, subject, None));
    assert_eq!(claimed(w).len(), 4);
    let ack = |id| OutboxCommand::Ack { ids: vec![id] };
    let replay = |id| OutboxCommand::Replay { id };
    let dead = || Answer::Outbox(Box::new(OutboxAnswer::Failed(Failed::Dead)));
    let [a, b, c, d] = ids;
    assert!(!survives(w, ack(a), Answer::Count(1), ack(a)));
    assert!(!survives(w, ack(b), Answer::Count(1), fail(b)));
    // A wrong lease token is refused immediately.
    let held = |id| OutboxCommand::AckHeld { token: 1, ids: vec![id] };
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.run(held(c)).unwrap_err().code(), Code::Fenced);
    drop(t);
    assert!(!survives(w, replay(b), Answer::Did(true), replay(b)));
    assert!(!survives(w, fail(c), dead(), ack(c)));
    // The acknowledge returned 0, but a message with that ID exists at commit.
    assert!(!survives(w, ack(d + 1), Answer::Count(0), put_command("e")));
    assert_eq!(w.cells().get("told").unwrap(), None);
    assert!(survives(w, fail(d), dead(), put_command("f")));
    assert!(survives(w, replay(d), Answer::Did(true), fail(b)));
}

/// In an interactive transaction on a fork, the parent's messages are invisible and cannot conflict.
pub fn interactive_answers_are_of_the_branch(w: &mut TestDb) {
    w.configure(|options| options.serve_branches(true));
    let id = send(w, "a", None);
    assert_eq!(claimed(w), ["a"]);
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let mut t = w.db().branch("dev").unwrap().begin().unwrap();
    assert_eq!(t.run(OutboxCommand::Ack { ids: vec![id] }).unwrap(), Answer::Count(0));
    t.set("c", 1).unwrap();
    w.db().outbox().ack(&[id]).unwrap();
    t.commit().unwrap();
}

/// A guard identifies a message by its ID.
pub fn guard_on_a_message(w: &mut TestDb) {
    let id = send(w, "a", Some("r"));
    let since = w.db().revision();
    let guard = |name: &str| {
        let contract = Contract::Outbox;
        let name = crate::assertions::name(name);
        Guard::Unchanged { contract, name, since, expires: None }
    };
    let look = |guard| w.db().execute(Transaction::new().guard(guard).otherwise(vec![]));
    send(w, "b", None);
    assert!(look(guard(&id.to_string())).unwrap().held);
    assert_eq!(claimed(w), ["a", "b"]);
    assert!(!look(guard(&id.to_string())).unwrap().held, "it is claimed");
    refused(look(guard("first")), Code::InvalidArgument);
}

/// Claims are refused in interactive transactions, because their snapshot is old at commit.
pub fn interactive_claims_are_refused(w: &mut TestDb) {
    send(w, "a", None);
    let mut t = w.db().begin().unwrap();
    let claim = OutboxCommand::Claim { limit: 1, lease_ms: 1_000 };
    refused(t.run(claim), Code::InvalidArgument);
    drop(t);
    assert_eq!(claimed(w), ["a"]);
}
