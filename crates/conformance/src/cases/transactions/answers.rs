//! Transactions as values: answers, revisions, errors with their position, `must`.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, At, BranchCommand, Code, ErrorKind, RecordWrite, Transaction, Ttl};

/// All steps of a transaction share one revision and one timestamp.
pub fn one_revision_and_stamp_for_all(w: &mut TestDb) {
    let receipt = writes_once(w.db(), || {
        w.db().execute(Transaction::new().step(set("a", 1)).step(set("b", 2))).unwrap()
    });
    for cell in ["a", "b"] {
        let seen = w.cells().get_versioned(cell).unwrap().unwrap();
        assert_eq!((seen.revision, seen.stamp), (receipt.revision, receipt.stamp));
    }
    assert_eq!(receipt.revision, w.db().revision());
    assert!(receipt.held && !receipt.repeated);
}

/// Revisions rise by one per committed transaction, over all branches.
pub fn revisions_rise_by_one_over_all_branches(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let start = w.db().revision();
    for (n, branch) in ["main", "dev", "main", "dev"].into_iter().enumerate() {
        let receipt = w.db().execute(Transaction::on(branch).step(set("k", 1))).unwrap();
        assert_eq!(receipt.revision, start + 1 + n as u64);
    }
}

/// Timestamps strictly increase even while the clock does not move.
pub fn stamps_increase_while_the_clock_stands_still(w: &mut TestDb) {
    let stamp = || w.db().execute(Transaction::new().step(set("k", 1))).unwrap().stamp;
    let stamps: Vec<u64> = (0..5).map(|_| stamp()).collect();
    assert!(stamps.windows(2).all(|two| two[0] < two[1]), "{stamps:?}");
    assert_eq!(stamps[0], w.wall_us());
}

/// Each command has one answer, in order, and sees the effects of earlier steps.
pub fn answers_see_earlier_steps(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(init("k", 1))
        .step(cas("k", Some(1), 2))
        .step(incr("k", 5))
        .step(cas("k", Some(1), 9))
        .step(get("k"))
        .step(delete("k"))
        .step(get("k"))
        .step(init("k", 3));
    let answers = w.db().execute(transaction).unwrap().answers;
    assert_eq!(answers.len(), 8);
    assert_eq!(answers[0], Answer::Counter(1));
    assert_eq!(answers[1], Answer::MaybeCounter(Some(2)));
    assert_eq!(answers[2], Answer::Number { value: 7.into(), counter: 3 });
    assert_eq!(answers[3], Answer::MaybeCounter(None));
    let Answer::Cell(Some(seen)) = &answers[4] else { panic!("{:?}", answers[4]) };
    assert_eq!((&seen.value, seen.counter), (&7.into(), 3));
    assert_eq!(answers[5], Answer::Did(true));
    assert_eq!(answers[6], Answer::Cell(None));
    assert_eq!(answers[7], Answer::Counter(5));
}

/// Lists inside a transaction see its own writes and deletions.
pub fn lists_see_earlier_steps(w: &mut TestDb) {
    w.cells().set("p/a", 1).unwrap();
    w.cells().set("p/b", 1).unwrap();
    let transaction = Transaction::new()
        .step(set("p/c", 1))
        .step(delete("p/a"))
        .step(set("p/d", 1))
        .step(delete("p/d"))
        .step(list("p/"));
    let answers = w.db().execute(transaction).unwrap().answers;
    let Answer::Names(page) = &answers[4] else { panic!("{:?}", answers[4]) };
    assert_eq!(page.names, ["p/b", "p/c"]);
}

/// A transaction that writes nothing takes no revision.
pub fn reading_takes_no_revision(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let seen = w.db().revision();
    let receipt = writes_nothing(w.db(), || {
        w.db().execute(Transaction::new().step(get("k")).step(delete("absent"))).unwrap()
    });
    assert_eq!(receipt.revision, seen);
}

/// An empty transaction succeeds and does nothing.
pub fn empty_does_nothing(w: &mut TestDb) {
    let receipt = writes_nothing(w.db(), || w.db().execute(Transaction::new()).unwrap());
    assert!(receipt.answers.is_empty());
}

/// An error aborts the transaction and reports its position.
pub fn error_aborts_all_and_names_its_position(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let transaction =
        Transaction::new().step(set("a", 1)).step(set("text", "y")).step(incr("text", 1));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::NotANumber, 2));
    assert_eq!(w.cells().get("a").unwrap(), None);
    assert_eq!(w.cells().get("text").unwrap(), Some("x".into()));
}

/// The first error is reported.
pub fn first_error_counts(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    w.cells().set("max", i64::MAX).unwrap();
    let transaction = Transaction::new().step(get("a")).step(incr("max", 1)).step(incr("text", 1));
    refused_at(w.db().execute(transaction), Code::Overflow, 1);
}

/// An invalid time to live aborts the transaction.
pub fn bad_ttl_aborts(w: &mut TestDb) {
    let transaction = Transaction::new().step(set("a", 1)).step(set_with("b", 1, Ttl::Millis(0)));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::InvalidTtl, 1));
}

/// An invalid page limit aborts the transaction.
pub fn bad_limit_aborts(w: &mut TestDb) {
    let bad = mainstay::CellCommand::List { prefix: String::new(), after: None, limit: 0 };
    let transaction = Transaction::new().step(set("a", 1)).step(bad);
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::InvalidLimit, 1));
}

/// A failed compare-and-swap is a normal answer, and the other steps take effect.
pub fn lost_cas_does_not_abort(w: &mut TestDb) {
    let transaction = Transaction::new().step(cas("k", Some(1), 1)).step(set("a", 1));
    let receipt = w.db().execute(transaction).unwrap();
    assert_eq!(receipt.answers[0], Answer::MaybeCounter(None));
    assert_eq!(w.cells().get("a").unwrap(), int(1));
}

/// Under `must`, a failed compare-and-swap aborts the transaction and reports its position.
pub fn must_cas_aborts(w: &mut TestDb) {
    let transaction = Transaction::new().step(set("a", 1)).must(cas("k", Some(1), 1));
    writes_nothing(w.db(), || {
        let error = w.db().execute(transaction).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!((error.code(), error.position()), (Code::MustFailed, Some(1)));
    });
    assert_eq!(w.cells().get("a").unwrap(), None);
}

/// Under `must`, a deletion of an absent cell aborts the transaction.
pub fn must_delete_aborts(w: &mut TestDb) {
    let transaction = Transaction::new().must(delete("k")).step(set("a", 1));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::MustFailed, 0));
}

/// Under `must`, an expiry of an absent cell aborts the transaction.
pub fn must_expire_aborts(w: &mut TestDb) {
    let transaction = Transaction::new().step(set("a", 1)).must(expire("k", Ttl::Millis(5)));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::MustFailed, 1));
}

/// Under `must`, a step that takes effect has its usual answer.
pub fn must_that_holds_changes_nothing(w: &mut TestDb) {
    let transaction = Transaction::new().must(cas("k", None, 1)).must(delete("k"));
    let receipt = w.db().execute(transaction).unwrap();
    assert_eq!(receipt.answers[0], Answer::MaybeCounter(Some(1)));
    assert_eq!(receipt.answers[1], Answer::Did(true));
}

/// An unknown branch is refused.
pub fn unknown_branch_is_refused(w: &mut TestDb) {
    let transaction = Transaction::on("nowhere").step(set("a", 1));
    writes_nothing(w.db(), || refused(w.db().execute(transaction), Code::BranchNotFound));
}

/// A transaction can require the branch ID, so it fails if the branch was deleted and recreated.
pub fn branch_number_must_match(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let id = w.db().branch_info("dev").unwrap().id;
    let insisting = || Transaction { branch_id: Some(id), ..Transaction::on("dev") };
    w.db().execute(insisting().step(set("a", 1))).unwrap();
    w.db().delete_branch("dev").unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let error = writes_nothing(w.db(), || w.db().execute(insisting().step(set("a", 2))));
    assert!(error.is_err());
    assert_eq!(w.on("dev").get("a").unwrap(), None);
}

/// The counter rises with every write of a transaction, including deletions.
pub fn counter_rises_per_write_within(w: &mut TestDb) {
    let transaction = Transaction::new().step(set("k", 1)).step(delete("k")).step(set("k", 2));
    let answers = w.db().execute(transaction).unwrap().answers;
    assert_eq!(answers[2], Answer::Counter(3));
    assert_eq!(counter(&w.cells(), "k"), Some(3));
}

/// A branch command must be the only step of its transaction.
pub fn branch_command_stands_alone(w: &mut TestDb) {
    let fork = BranchCommand::Fork { name: name("dev"), from: name("main"), at: None };
    let mixed = Transaction::new().step(set("a", 1)).step(fork.clone());
    writes_nothing(w.db(), || refused(w.db().execute(mixed), Code::InvalidArgument));
    let guarded = Transaction::new().step(fork.clone()).guard(counter_is("a", None));
    writes_nothing(w.db(), || refused(w.db().execute(guarded), Code::InvalidArgument));
    w.db().execute(Transaction::new().step(fork)).unwrap();
    assert!(w.db().branch("dev").is_ok());
}

/// A ticket completes only after its write is visible.
pub fn ticket_completes_when_visible(w: &mut TestDb) {
    let ticket = w.db().submit(Transaction::new().step(set("k", 1)));
    let receipt = ticket.wait().unwrap();
    assert!(w.db().revision() >= receipt.revision);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// Tickets of one thread commit in submission order.
pub fn tickets_commit_in_order(w: &mut TestDb) {
    let tickets: Vec<_> =
        (0..20).map(|n| w.db().submit(Transaction::new().step(set("k", n)))).collect();
    let receipts: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert!(receipts.windows(2).all(|two| two[0].revision + 1 == two[1].revision));
    assert_eq!(w.cells().get("k").unwrap(), int(19));
}

/// A callback receives the same receipt.
pub fn callback_gets_the_receipt(w: &mut TestDb) {
    let (done, answer) = std::sync::mpsc::channel();
    let transaction = Transaction::new().step(set("k", 1));
    w.db().submit_with(transaction, move |result| drop(done.send(result)));
    let receipt = answer.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(receipt.answers[0], Answer::Counter(1));
}

/// `wait_for` waits until a revision is reached, with a timeout.
pub fn waiting_for_a_revision(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let now = w.db().revision();
    w.db().wait_for(now, PATIENCE).unwrap();
    refused(w.db().wait_for(now + 1, std::time::Duration::from_millis(20)), Code::TimedOut);
}

/// Reads of own writes show the revision and the timestamp of the transaction.
pub fn own_writes_have_their_revision(w: &mut TestDb) {
    let name = || mainstay::Name::new("k").unwrap();
    let history = mainstay::CellCommand::History { name: name(), limit: 10, before: None };
    let write = RecordWrite::to("k").unwrap().set("f", "v").unwrap();
    let record = mainstay::RecordCommand::Get { key: name(), fields: None };
    let transaction = Transaction::new().step(set("k", 1)).step(get("k")).step(history);
    let receipt = w.db().execute(transaction.step(write).step(record)).unwrap();
    let Answer::Cell(Some(cell)) = &receipt.answers[1] else { panic!("{receipt:?}") };
    assert_eq!((cell.revision, cell.stamp), (receipt.revision, receipt.stamp));
    let Answer::History(versions) = &receipt.answers[2] else { panic!("{receipt:?}") };
    assert_eq!(versions, &w.cells().history("k", 10, None).unwrap());
    let Answer::Record(record) = &receipt.answers[4] else { panic!("{receipt:?}") };
    assert_eq!(record, &w.records().get("k").unwrap());
}

/// Listing, counting and clearing names are ordinary steps that see earlier ones.
pub fn names_see_earlier_steps(w: &mut TestDb) {
    use mainstay::{Contract, KeyCommand};
    w.cells().set("a", 1).unwrap();
    w.records().set_field("b", "f", "1").unwrap();
    let kinds = || vec![Contract::Cells, Contract::Records];
    let names = || KeyCommand::Names {
        kinds: kinds(),
        prefix: String::new(),
        after: None,
        limit: 10,
        hidden: Vec::new(),
    };
    let count = || KeyCommand::Count { kinds: kinds(), limit: 10, hidden: Vec::new() };
    let transaction = Transaction::new().step(set("c", 1)).step(names()).step(count());
    let transaction =
        transaction.step(KeyCommand::Clear { limit: 10, hidden: Vec::new() }).step(set("d", 1));
    let answers = w.db().execute(transaction.step(names())).unwrap().answers;
    let page = |answer: &Answer| match answer {
        Answer::Names(page) => page.names.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(page(&answers[1]), ["a", "b", "c"]);
    assert_eq!((&answers[2], &answers[3]), (&Answer::Count(3), &Answer::Count(3)));
    assert_eq!(page(&answers[5]), ["d"]);
    w.cells().set("e", 1).unwrap();
    let clear = Transaction::new().step(KeyCommand::Clear { limit: 1, hidden: Vec::new() });
    refused(w.db().execute(clear), Code::TransactionTooLarge);
    assert_eq!(w.cells().list("", None, 10).unwrap().names, ["d", "e"], "nothing went");
}
