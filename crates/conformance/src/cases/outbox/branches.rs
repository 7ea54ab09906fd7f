//! The outbox and client requests on branches: messages are branch state, but only `main` delivers them.

use super::{BACK_OFF, LEASE, claim, claimed, send, subjects};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, At, Code, Contract, DifferenceKind, MergeStrategy, MergeStrategy::*, NewEvent,
    OutboxCommand, RunCommand, SessionAnswer, SessionCommand, SessionOptions, Transaction, Value,
};

fn fork(w: &TestDb, name: &str, from: &str) {
    w.db().fork(name, from, At::Latest).unwrap();
}

fn put(w: &TestDb, branch: &str, subject: &str, run: Option<&str>) -> u64 {
    w.db().branch(branch).unwrap().outbox().put(subject, subject, run).unwrap()
}

fn merge(w: &TestDb, from: &str, into: &str, strategy: MergeStrategy) {
    w.db().merge(from, into, strategy).unwrap();
}

fn pending(w: &TestDb, branch: &str) -> u64 {
    w.db().branch(branch).unwrap().outbox().state().unwrap().pending
}

/// The messages and requests that differ between two branches: key and kind of difference.
fn differences(w: &TestDb, a: &str, b: &str) -> Vec<(String, DifferenceKind)> {
    let all = w.db().diff(a, b).unwrap().into_iter();
    let sent = all.filter(|one| matches!(one.contract, Contract::Outbox | Contract::Sessions));
    sent.map(|one| (one.key, one.kind)).collect()
}

/// Sends a request to a client on a branch.
fn request(w: &TestDb, branch: &str, session: &str, payload: &str) -> SessionAnswer {
    let command = SessionCommand::Send { session: name(session), payload: payload.into() };
    let receipt = w.db().execute(Transaction::on(branch).step(command)).unwrap();
    match receipt.answers.into_iter().next() {
        Some(Answer::Session(answer)) => *answer,
        other => panic!("{other:?}"),
    }
}

/// The requests in a client's mailbox, with their numbers.
fn mailbox(w: &TestDb, session: &str) -> Vec<(u64, String)> {
    let command = SessionCommand::Pending { session: name(session), after: 0, limit: 99, epoch: 0 };
    let receipt = w.db().execute(Transaction::new().step(command)).unwrap();
    match receipt.answers.into_iter().next() {
        Some(Answer::Session(answer)) => match *answer {
            SessionAnswer::Pending { requests, .. } => requests
                .into_iter()
                .map(|(number, payload)| (number, String::from_utf8(payload).unwrap()))
                .collect(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn open(w: &TestDb, session: &str) {
    w.db().sessions().open(SessionOptions::new().name(session)).unwrap();
}

/// A fork inherits neither pending nor dead messages and has its own outbox.
pub fn a_fork_inherits_nothing(w: &mut TestDb) {
    let dead = send(w, "dead", None);
    claim(w);
    w.db().outbox().fail(dead, "no", BACK_OFF, 1).unwrap();
    send(w, "of main", Some("r"));
    fork(w, "dev", "main");
    let dev = w.db().branch("dev").unwrap().outbox();
    assert!(dev.dead(0, 9).unwrap().is_empty());
    assert_eq!((dev.state().unwrap().pending, dev.state().unwrap().dead), (0, 0));
    put(w, "dev", "of dev", Some("r"));
    assert_eq!((pending(w, "dev"), pending(w, "main")), (1, 1));
    assert_eq!(claimed(w), ["of main"]);
}

/// Messages cannot be claimed, acknowledged, failed or replayed on a branch other than `main`.
pub fn nothing_is_delivered_from_a_branch(w: &mut TestDb) {
    let own = send(w, "of main", None);
    fork(w, "dev", "main");
    let dev = w.db().branch("dev").unwrap().outbox();
    let id = dev.put("of dev", "", None).unwrap();
    writes_nothing(w.db(), || {
        refused(dev.claim(9, LEASE), Code::Unsupported);
        refused(dev.ack(&[id, own]), Code::Unsupported);
        refused(dev.ack_held(1, &[id]), Code::Unsupported);
        refused(dev.fail(id, "no", BACK_OFF, 1), Code::Unsupported);
        refused(dev.fail_held(1, id, "no", BACK_OFF, 1), Code::Unsupported);
        refused(dev.replay(id), Code::Unsupported);
    });
    let error = dev.claim(9, LEASE).unwrap_err();
    assert!(error.message().contains("serve_branches"), "{error}");
    let mut open = w.db().branch("dev").unwrap().begin().unwrap();
    refused(open.run(OutboxCommand::Ack { ids: vec![id] }), Code::Unsupported);
    assert_eq!(claimed(w), ["of main"]);
    assert_eq!(pending(w, "dev"), 1);
}

/// With `serve_branches`, each branch delivers its own messages.
pub fn served_branches_deliver_their_own(w: &mut TestDb) {
    w.configure(|options| options.serve_branches(true));
    fork(w, "dev", "main");
    let dev = w.db().branch("dev").unwrap().outbox();
    for subject in ["delivered", "dead", "waits"] {
        dev.put(subject, "", None).unwrap();
    }
    assert_eq!(subjects(&dev.claim(2, LEASE).unwrap()), ["delivered", "dead"]);
    assert_eq!(dev.ack(&[1]).unwrap(), 1);
    dev.fail(2, "no", BACK_OFF, 1).unwrap();
    open(w, "c");
    assert_eq!(request(w, "dev", "c", "now"), SessionAnswer::Sent(Some(1)));
    merge(w, "dev", "main", Strict);
    assert_eq!(claimed(w), ["waits"], "what was delivered there is not delivered again");
    let dead = w.db().outbox().dead(0, 9).unwrap();
    assert_eq!(
        (subjects(&dead), dead[0].failure.as_deref()),
        (vec!["dead".to_owned()], Some("no"))
    );
    assert_eq!(mailbox(w, "c"), [(1, "now".to_owned())]);
}

/// A merge into `main` appends the branch's messages in order, unchanged except for their IDs.
pub fn a_merge_brings_messages_in_order(w: &mut TestDb) {
    send(w, "before", None);
    fork(w, "dev", "main");
    send(w, "meanwhile", Some("r"));
    for (subject, run) in [("a", Some("r")), ("b", None), ("c", Some("r"))] {
        put(w, "dev", subject, run);
    }
    writes_once(w.db(), || merge(w, "dev", "main", Strict));
    assert_eq!(w.db().outbox().state().unwrap().pending, 5);
    let first = claim(w);
    assert_eq!(
        subjects(&first),
        ["before", "meanwhile", "b"],
        "those of a run wait for each other"
    );
    assert_eq!((first[2].id, first[2].payload.as_slice(), first[2].tries), (4, &b"b"[..], 1));
    for (expected, id) in [("a", 2), ("c", 3)] {
        w.db().outbox().ack(&[id]).unwrap();
        let next = claim(w);
        assert_eq!(subjects(&next), [expected]);
        assert_eq!(next[0].run.as_deref(), Some("r"));
        w.db().outbox().ack(&[next[0].id]).unwrap();
    }
}

/// A merged message is not merged again, even if it was delivered meanwhile.
pub fn each_message_is_brought_once(w: &mut TestDb) {
    fork(w, "dev", "main");
    put(w, "dev", "1", None);
    send(w, "own", None);
    for strategy in [Strict, Theirs, Ours] {
        merge(w, "dev", "main", strategy);
        assert_eq!(w.db().outbox().state().unwrap().last_id, 2);
    }
    let delivered: Vec<u64> = claim(w).iter().map(|message| message.id).collect();
    assert_eq!(w.db().outbox().ack(&delivered).unwrap(), 2);
    put(w, "dev", "2", None);
    merge(w, "dev", "main", Strict);
    merge(w, "dev", "main", Theirs);
    assert_eq!(claimed(w), ["2"]);
    merge(w, "main", "dev", Strict);
    merge(w, "dev", "main", Strict);
    assert_eq!((pending(w, "dev"), pending(w, "main")), (2, 1), "`main` keeps its own");
}

/// A message that reaches `main` through several branches is delivered once, and only by `main`.
pub fn once_by_any_way(w: &mut TestDb) {
    for name in ["a", "b"] {
        fork(w, name, "main");
    }
    put(w, "a", "of a", None);
    merge(w, "a", "b", Strict);
    assert_eq!((pending(w, "b"), pending(w, "main")), (1, 0), "it waits there as well");
    merge(w, "b", "a", Strict);
    assert_eq!(pending(w, "a"), 1, "it does not come back");
    put(w, "b", "of b", None);
    merge(w, "b", "main", Strict);
    merge(w, "a", "main", Strict);
    merge(w, "b", "main", Strict);
    assert_eq!(claimed(w), ["of a", "of b"]);
}

/// A merge of a fork's fork also brings the messages it inherited, and a later merge of the parent does
/// not repeat them.
pub fn what_a_fork_inherits_travels_with_it(w: &mut TestDb) {
    fork(w, "dev", "main");
    put(w, "dev", "1", Some("r"));
    fork(w, "deep", "dev");
    put(w, "dev", "2", Some("r"));
    put(w, "deep", "3", Some("r"));
    merge(w, "dev", "deep", Strict);
    assert_eq!(pending(w, "deep"), 2, "what was there at the fork is not brought");
    merge(w, "deep", "main", Strict);
    merge(w, "dev", "main", Strict);
    assert_eq!(sent(w), ["1", "3", "2"]);
    assert_eq!(pending(w, "main"), 0);
}

/// Claims and acknowledges messages until none is left. Returns their subjects.
fn sent(w: &TestDb) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let messages = claim(w);
        if messages.is_empty() {
            return seen;
        }
        let ids: Vec<u64> = messages.iter().map(|message| message.id).collect();
        w.db().outbox().ack(&ids).unwrap();
        seen.extend(super::subjects(&messages));
    }
}

/// A fork at a past revision does not have messages that were put later.
pub fn a_fork_of_the_past_lacks_what_came_later(w: &mut TestDb) {
    fork(w, "dev", "main");
    put(w, "dev", "1", None);
    let then = w.db().revision();
    put(w, "dev", "2", None);
    w.db().fork("then", "dev", At::Revision(then)).unwrap();
    merge(w, "then", "main", Strict);
    assert_eq!(claimed(w), ["1"]);
    merge(w, "dev", "main", Strict);
    assert_eq!(claimed(w), ["2"]);
}

/// An event and its message are merged together or not at all.
pub fn an_event_and_its_message_travel_together(w: &mut TestDb) {
    fork(w, "dev", "main");
    let event = NewEvent::new("r", "RunStarted").plan("1");
    let put = OutboxCommand::Put {
        subject: "started".into(),
        payload: b"r".to_vec(),
        run: Some(name("r")),
    };
    let both = Transaction::on("dev")
        .step(RunCommand::Append { event: Box::new(event), expected: None })
        .step(put);
    w.db().execute(both).unwrap();
    w.on("dev").set("c", 1).unwrap();
    w.cells().set("c", 2).unwrap();
    refused(w.db().merge("dev", "main", Strict), Code::MergeConflict);
    assert!(w.runs().get("r").unwrap().is_none() && claimed(w).is_empty());
    merge(w, "dev", "main", Ours);
    assert_eq!(w.runs().fetch("r", 0, 9).unwrap().len(), 1);
    assert_eq!(claimed(w), ["started"]);
}

/// A message without an event is merged even if `ours` keeps the target's run.
pub fn ours_brings_messages_without_an_event(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    fork(w, "dev", "main");
    w.runs_on("dev").append(super::noted("r", 2)).unwrap();
    put(w, "dev", "of r", Some("r"));
    put(w, "dev", "of none", None);
    w.runs().append(super::noted("r", 3)).unwrap();
    merge(w, "dev", "main", Ours);
    assert_eq!(claimed(w), ["of r", "of none"]);
    assert_eq!(differences(w, "dev", "main"), []);
    merge(w, "dev", "main", Theirs);
    assert_eq!(pending(w, "main"), 2);
}

/// If both branches have an event with a message each, the merged event has exactly one message.
pub fn an_event_that_both_have_sends_one_message(w: &mut TestDb) {
    fork(w, "dev", "main");
    fork(w, "other", "main");
    let noted = |subject: &str| super::noted("r", 1).message(subject, "1");
    w.runs_on("dev").append(noted("of dev")).unwrap();
    w.runs_on("other").append(noted("of other")).unwrap();
    assert_eq!(differences(w, "dev", "main"), [("1".to_owned(), DifferenceKind::OnlyA)]);
    w.runs().append(noted("of main")).unwrap();
    assert_eq!(differences(w, "dev", "main"), []);
    merge(w, "dev", "other", Theirs);
    assert_eq!(pending(w, "other"), 1);
    for branch in ["dev", "other", "dev"] {
        merge(w, branch, "main", Theirs);
    }
    assert_eq!(w.runs().fetch("r", 0, 9).unwrap().len(), 1);
    assert_eq!(pending(w, "main"), 1);
    assert_eq!(claimed(w), ["of main"]);
}

/// Events and messages of a run that `ours` left out are merged together later, once and in order.
pub fn messages_that_were_left_come_with_their_events(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    fork(w, "dev", "main");
    w.runs_on("dev").append(super::noted("r", 2).message("of 2", "2")).unwrap();
    put(w, "dev", "of r", Some("r"));
    put(w, "dev", "of none", None);
    w.runs().append(super::noted("r", 3)).unwrap();
    merge(w, "dev", "main", Ours);
    assert_eq!(claimed(w), ["of r", "of none"]);
    assert_eq!(differences(w, "dev", "main"), []);
    merge(w, "dev", "main", Theirs);
    assert_eq!(claimed(w), [""; 0], "the run has not changed since");
    w.runs_on("dev").append(super::noted("r", 4).message("of 4", "4")).unwrap();
    let shown = ["1", "4"].map(|id| (id.to_owned(), DifferenceKind::OnlyA));
    assert_eq!(differences(w, "dev", "main"), shown);
    fork(w, "mid", "main");
    merge(w, "dev", "mid", Theirs);
    assert_eq!(pending(w, "mid"), 2, "a fork of `main` lacks what `main` left");
    for (from, strategy) in [("mid", Strict), ("dev", Theirs), ("mid", Theirs)] {
        merge(w, from, "main", strategy);
    }
    let keys = w.runs().fetch("r", 0, 9).unwrap().into_iter().map(|event| event.idempotency_key);
    assert_eq!(keys.collect::<Vec<_>>(), ["note-1", "note-3", "note-2", "note-4"]);
    let ids: Vec<u64> = (1..=w.db().outbox().state().unwrap().last_id).collect();
    assert_eq!(ids.len(), 4);
    w.db().outbox().ack(&ids).unwrap();
    assert_eq!(sent(w), ["of 2", "of 4"]);
}

/// A message is merged to branches that lack its event, even if a branch on the way already had the
/// event.
pub fn a_message_that_one_branch_did_not_need_comes_to_others(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    for name in ["dev", "other"] {
        fork(w, name, "main");
    }
    w.runs_on("dev").append(super::noted("r", 2).message("of dev", "")).unwrap();
    w.runs_on("other").append(super::noted("r", 2)).unwrap();
    w.runs().append(super::noted("r", 3)).unwrap();
    merge(w, "dev", "other", Theirs);
    assert_eq!(pending(w, "other"), 0, "it has the event");
    merge(w, "other", "main", Ours);
    w.runs_on("dev").append(super::noted("r", 4)).unwrap();
    merge(w, "dev", "main", Theirs);
    merge(w, "other", "main", Theirs);
    assert_eq!(claimed(w), ["of dev"]);
}

/// A message left out by `ours` is merged later from any branch that has it.
pub fn a_message_that_was_left_comes_by_any_way(w: &mut TestDb) {
    for name in ["c", "d", "e"] {
        fork(w, name, "main");
    }
    w.runs_on("c").append(super::noted("r", 1).message("of 1", "")).unwrap();
    merge(w, "c", "d", Strict);
    merge(w, "d", "e", Strict);
    w.runs().append(super::noted("r", 9)).unwrap();
    merge(w, "e", "main", Ours);
    w.runs_on("d").append(super::noted("r", 2)).unwrap();
    merge(w, "d", "main", Theirs);
    assert_eq!(w.runs().fetch("r", 0, 9).unwrap().len(), 3);
    assert_eq!(claimed(w), ["of 1"]);
    for from in ["c", "d", "e"] {
        merge(w, from, "main", Theirs);
    }
    assert_eq!(w.db().outbox().state().unwrap().last_id, 1, "and once");
}

fn rewind(w: &TestDb, branch: &str) {
    w.db().branch(branch).unwrap().runs().rewind("r", 1).unwrap();
}

/// Appends event 2 of run `r` with a message.
fn second(w: &TestDb, branch: &str, subject: &str) {
    w.runs_on(branch).append(super::noted("r", 2).message(subject, "")).unwrap();
}

fn third(w: &TestDb, branch: &str) {
    w.runs_on(branch).append(super::noted("r", 3)).unwrap();
}

/// If an event is appended again after a rewind, only its last message on that branch counts.
pub fn a_message_that_was_replaced_never_comes(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    for name in ["dev", "other"] {
        fork(w, name, "main");
    }
    second(w, "dev", "old");
    fork(w, "deep", "dev");
    rewind(w, "deep");
    second(w, "deep", "new");
    merge(w, "deep", "other", Strict);
    rewind(w, "other");
    third(w, "deep");
    merge(w, "deep", "other", Theirs);
    assert_eq!(pending(w, "other"), 1, "it came before");
    merge(w, "other", "main", Strict);
    assert_eq!(sent(w), ["new"]);
}

/// A message replaced on one branch is still merged to branches that get its event from another branch.
pub fn a_message_that_was_replaced_elsewhere_comes(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    for name in ["dev", "other"] {
        fork(w, name, "main");
    }
    second(w, "dev", "of dev");
    merge(w, "dev", "other", Strict);
    rewind(w, "other");
    second(w, "other", "of other");
    w.runs().append(super::noted("r", 9)).unwrap();
    merge(w, "other", "main", Ours);
    third(w, "dev");
    merge(w, "dev", "main", Theirs);
    assert_eq!(sent(w), ["of dev"]);
}

/// An event that is appended again without a message has no message, whether it is appended or merged.
pub fn an_event_that_comes_again_without_a_message_has_none(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    for name in ["dev", "other", "third"] {
        fork(w, name, "main");
    }
    second(w, "dev", "of dev");
    rewind(w, "dev");
    w.runs_on("dev").append(super::noted("r", 2)).unwrap();
    second(w, "other", "of other");
    rewind(w, "other");
    w.runs_on("third").append(super::noted("r", 2)).unwrap();
    merge(w, "third", "other", Strict);
    for from in ["dev", "other"] {
        merge(w, from, "main", Theirs);
    }
    assert_eq!(w.runs().fetch("r", 0, 9).unwrap().len(), 2);
    assert_eq!(sent(w), [""; 0]);
}

/// Messages of a run are delivered in the order of their events in the target, even if they arrived on
/// the branch in another order.
pub fn messages_come_in_the_order_of_their_events(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    for name in ["dev", "other"] {
        fork(w, name, "main");
    }
    second(w, "dev", "of 2");
    merge(w, "dev", "other", Strict);
    rewind(w, "other");
    w.runs_on("other").append(super::noted("r", 3).message("of 3", "")).unwrap();
    w.runs_on("dev").append(super::noted("r", 4)).unwrap();
    merge(w, "dev", "other", Theirs);
    merge(w, "other", "main", Strict);
    let keys = w.runs().fetch("r", 0, 9).unwrap().into_iter().map(|event| event.idempotency_key);
    assert_eq!(keys.collect::<Vec<_>>(), ["note-1", "note-3", "note-2", "note-4"]);
    assert_eq!(sent(w), ["of 3", "of 2"]);
}

/// A rewind removes the messages of the rewound events. An event appended again has its new message.
pub fn a_rewound_event_takes_its_message_along(w: &mut TestDb) {
    fork(w, "dev", "main");
    let dev = w.runs_on("dev");
    dev.append(super::noted("r", 1).message("of 1", "")).unwrap();
    for number in [2, 3] {
        dev.append(super::noted("r", number).message(&format!("first of {number}"), "")).unwrap();
    }
    w.db().branch("dev").unwrap().runs().rewind("r", 1).unwrap();
    w.runs_on("dev").append(super::noted("r", 2).message("second of 2", "")).unwrap();
    merge(w, "dev", "main", Strict);
    assert_eq!(sent(w), ["of 1", "second of 2"]);
}

/// Deleting a run on a branch removes the unmerged messages of its events. Messages of `main` are
/// already being delivered and stay.
pub fn a_deleted_run_takes_its_messages_along(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1).message("of main", "")).unwrap();
    fork(w, "dev", "main");
    second(w, "dev", "of dev");
    put(w, "dev", "of no event", Some("r"));
    w.runs_on("dev").delete("r").unwrap();
    assert_eq!(differences(w, "dev", "main"), [("2".to_owned(), DifferenceKind::OnlyA)]);
    for _ in 0..2 {
        merge(w, "dev", "main", Strict);
    }
    assert!(w.runs().get("r").unwrap().is_none());
    assert_eq!(sent(w), ["of main", "of no event"]);
}

/// An import keeps the link between a message and its event.
pub fn an_import_keeps_events_and_messages_together(w: &mut TestDb) {
    let noted = |number| super::noted("r", number).message(&format!("of {number}"), "");
    w.runs().append(noted(1)).unwrap();
    let path = w.file("main.export");
    w.beside().export("main", &path, &mut |_| {}).unwrap();
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    w.runs_on("copy").append(noted(2)).unwrap();
    assert_eq!(pending(w, "copy"), 2);
    merge(w, "copy", "main", Theirs);
    assert_eq!(pending(w, "main"), 2, "the first one was there");
}

/// All messages of `main` are being delivered, including those of an event that was deleted with its run
/// and appended again. An import keeps them all.
pub fn an_import_keeps_messages_of_events_that_came_again(w: &mut TestDb) {
    w.runs().append(super::noted("r", 1)).unwrap();
    let first = w.runs().fetch("r", 0, 1).unwrap();
    second(w, "main", "first of 2");
    w.runs().delete("r").unwrap();
    w.runs().restore("r", None, None, first).unwrap();
    second(w, "main", "second of 2");
    assert_eq!(pending(w, "main"), 2);
    let path = w.file("main.export");
    w.beside().export("main", &path, &mut |_| {}).unwrap();
    let other = if w.is_on_disk() { TestDb::disk() } else { TestDb::memory() };
    other.beside().import(&path, "copy", &mut |_| {}).unwrap();
    assert_eq!(pending(&other, "copy"), 2);
    merge(&other, "copy", "main", Strict);
    assert_eq!(sent(&other), ["first of 2", "second of 2"]);
}

/// A diff shows the messages that a merge would bring.
pub fn a_difference_shows_messages(w: &mut TestDb) {
    send(w, "of main", None);
    fork(w, "dev", "main");
    put(w, "dev", "of dev", Some("r"));
    fork(w, "deep", "dev");
    put(w, "deep", "of deep", None);
    send(w, "of main, later", None);
    let all = w.db().diff("dev", "main").unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].contract, all[0].key.as_str()), (Contract::Outbox, "1"));
    assert_eq!((all[0].kind, &all[0].base, &all[0].b), (DifferenceKind::OnlyA, &None, &None));
    let Some(Value::Object(told)) = &all[0].a else { panic!("{:?}", all[0].a) };
    assert_eq!(told["subject"], "of dev".into());
    assert_eq!(told["payload"], Value::Bytes(b"of dev".to_vec()));
    assert_eq!(told["run"], "r".into());
    let of = |key: &str, kind| (key.to_owned(), kind);
    assert_eq!(differences(w, "main", "dev"), [of("1", DifferenceKind::OnlyB)]);
    assert_eq!(differences(w, "dev", "deep"), [of("1", DifferenceKind::OnlyB)]);
    let both = [of("dev/1", DifferenceKind::OnlyA), of("1", DifferenceKind::OnlyA)];
    assert_eq!(differences(w, "deep", "main"), both);
    merge(w, "deep", "main", Strict);
    assert_eq!(differences(w, "deep", "main"), []);
    assert_eq!(differences(w, "dev", "main"), []);
}

/// Deleting a branch deletes its unmerged messages; merged ones stay.
pub fn messages_go_with_their_branch(w: &mut TestDb) {
    fork(w, "dev", "main");
    put(w, "dev", "brought", None);
    merge(w, "dev", "main", Strict);
    put(w, "dev", "not brought", None);
    open(w, "c");
    request(w, "dev", "c", "not sent");
    w.db().delete_branch("dev").unwrap();
    fork(w, "dev", "main");
    merge(w, "dev", "main", Strict);
    assert_eq!(claimed(w), ["brought"]);
    assert_eq!(mailbox(w, "c"), []);
}

/// An export contains the messages in order, with run and payload. On the imported branch they wait for
/// a merge.
pub fn messages_are_exported_with_their_branch(w: &mut TestDb) {
    send(w, "of main", None);
    fork(w, "dev", "main");
    put(w, "dev", "1", Some("r"));
    fork(w, "deep", "dev");
    put(w, "deep", "2", None);
    put(w, "deep", "3", Some("r"));
    open(w, "c");
    request(w, "deep", "c", "do");
    request(w, "deep", "c", "do more");
    let path = w.file("deep.export");
    w.beside().export("deep", &path, &mut |_| {}).unwrap();
    let other = if w.is_on_disk() { TestDb::disk() } else { TestDb::memory() };
    other.beside().import(&path, "copy", &mut |_| {}).unwrap();
    assert_eq!((pending(&other, "copy"), pending(&other, "main")), (3, 0));
    open(&other, "c");
    merge(&other, "copy", "main", Strict);
    let first = claim(&other);
    assert_eq!(subjects(&first), ["1", "2"]);
    other.db().outbox().ack(&[first[0].id]).unwrap();
    assert_eq!(claimed(&other), ["3"]);
    assert_eq!(mailbox(&other, "c"), [(1, "do".to_owned()), (2, "do more".to_owned())]);
}

/// An export of `main` contains its messages, including the dead ones. Importing it does not deliver a
/// message twice.
pub fn an_export_of_main_has_its_messages(w: &mut TestDb) {
    send(w, "dead", None);
    claim(w);
    w.db().outbox().fail(1, "nobody there", BACK_OFF, 1).unwrap();
    send(w, "delivered", None);
    claim(w);
    w.db().outbox().ack(&[2]).unwrap();
    send(w, "pending", None);
    let path = w.file("main.export");
    w.beside().export("main", &path, &mut |_| {}).unwrap();
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    let copy = w.db().branch("copy").unwrap().outbox();
    let state = copy.state().unwrap();
    assert_eq!((state.pending, state.dead), (1, 1));
    assert_eq!(copy.dead(0, 9).unwrap()[0].failure.as_deref(), Some("nobody there"));
    assert_eq!(claimed(w), ["pending"]);
}

/// A client request sent on a branch waits there and reaches the client when it is merged into `main`.
pub fn requests_to_clients_wait_for_the_merge(w: &mut TestDb) {
    open(w, "c");
    open(w, "ends");
    fork(w, "dev", "main");
    fork(w, "other", "main");
    assert_eq!(request(w, "dev", "c", "1"), SessionAnswer::Kept(1));
    assert_eq!(request(w, "dev", "ends", "nobody hears"), SessionAnswer::Kept(2));
    assert_eq!(request(w, "dev", "c", "2"), SessionAnswer::Kept(3));
    assert_eq!(request(w, "dev", "unknown", "3"), SessionAnswer::Sent(None));
    assert_eq!(mailbox(w, "c"), []);
    assert_eq!(w.db().sessions().requests_for_retry(u64::MAX, 9).unwrap(), []);
    let shown: Vec<String> =
        differences(w, "dev", "main").into_iter().map(|(key, _)| key).collect();
    assert_eq!(shown, ["c/1", "ends/2", "c/3"]);
    merge(w, "dev", "other", Strict);
    assert_eq!(mailbox(w, "c"), [], "from branch to branch it waits on");
    assert_eq!(request(w, "main", "c", "own"), SessionAnswer::Sent(Some(1)));
    w.db().sessions().close("ends").unwrap();
    merge(w, "other", "main", Strict);
    merge(w, "dev", "main", Theirs);
    let expected = [(1, "own"), (2, "1"), (3, "2")].map(|(number, text)| (number, text.to_owned()));
    assert_eq!(mailbox(w, "c"), expected);
    assert_eq!(differences(w, "dev", "main"), []);
}
