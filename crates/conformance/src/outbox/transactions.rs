//! Messages in transactions: with what they are about, or not at all.

use super::{LEASE, claimed, put_command, send, subjects};
use crate::World;
use crate::check::*;
use crate::runs::{append, note};
use mainstay::{Answer, Code, OutboxAnswer, OutboxCommand, RequestId, Transaction};

/// Both or none.
pub fn both_or_none(w: &mut World) {
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
pub fn several_keep_their_order(w: &mut World) {
    let steps = ["c", "a", "b"].into_iter().map(put_command);
    w.db().execute(steps.fold(Transaction::new(), Transaction::step)).unwrap();
    assert_eq!(claimed(w), ["c", "a", "b"]);
}

/// Acknowledging one and putting the next is one step, as relays that pass messages on need it.
pub fn acknowledge_and_put(w: &mut World) {
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

/// A named request puts once, and a claim that is asked again gives the same messages.
pub fn repeated_gives_the_same_receipt(w: &mut World) {
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

/// In an interactive transaction messages wait for the commit, and never conflict.
pub fn interactive_puts_wait_for_the_commit(w: &mut World) {
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

/// Claims are not for interactive transactions, whose snapshots are old when they commit.
pub fn interactive_claims_are_refused(w: &mut World) {
    send(w, "a", None);
    let mut t = w.db().begin().unwrap();
    let claim = OutboxCommand::Claim { limit: 1, lease_ms: 1_000 };
    refused(t.run(claim), Code::InvalidArgument);
    drop(t);
    assert_eq!(claimed(w), ["a"]);
}
