//! `run` of any command inside an interactive transaction, and conversion of interactive transactions into values.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, At, BranchCommand, Code, Command, Durability, ErrorKind, InteractiveTransaction, Only,
    Receipt, Result, StringCommand, Transaction, Ttl, Value,
};

fn append(cell: &str, text: &str) -> StringCommand {
    StringCommand::Append { name: name(cell), text: text.as_bytes().to_vec() }
}

fn all(cells: &[&str], only_absent: bool) -> StringCommand {
    let pairs = cells.iter().map(|cell| (name(cell), Value::Int(1))).collect();
    StringCommand::SetAll { pairs, only_absent }
}

/// Commits the transaction as a value, in one batch with another transaction.
fn commit_as_value(w: &TestDb, t: InteractiveTransaction) -> Result<Receipt> {
    let beside = Transaction::new().step(get("beside"));
    let transaction = t.into_transaction()?;
    w.db().execute_all(vec![beside, transaction]).pop().unwrap()
}

/// Reads see the snapshot and own writes; the commit contains all commands.
pub fn reads_and_writes(w: &mut TestDb) {
    w.cells().set("k", "a").unwrap();
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.run(append("k", "b")).unwrap(), Answer::Count(2));
    let old = Some(Value::from("ab"));
    let set = string_set("k", 5, Only::Always, Ttl::Clear);
    assert_eq!(t.run(set).unwrap(), Answer::Replaced { did: true, old });
    let Answer::Cell(Some(seen)) = t.run(get("k")).unwrap() else { panic!("nothing there") };
    assert_eq!((seen.value, seen.counter), (Value::Int(5), 3));
    t.run(crate::assertions::set("l", 1)).unwrap();
    let Answer::Names(page) = t.run(list("")).unwrap() else { panic!("no page") };
    assert_eq!(page.names, ["k", "l"]);
    assert_eq!(w.cells().get("k").unwrap(), Some("a".into()));
    writes_once(w.db(), || t.commit().unwrap());
    assert_eq!(w.cells().get("k").unwrap(), int(5));
}

/// A failed command leaves the transaction open and has no effect.
pub fn failed_command_leaves_it_open(w: &mut TestDb) {
    w.cells().set("k", "text").unwrap();
    let mut t = w.db().begin().unwrap();
    refused(t.run(StringCommand::Add { name: name("k"), by: 1 }), Code::NotANumber);
    t.run(append("k", "!")).unwrap();
    t.commit().unwrap();
    assert_eq!(w.cells().get("k").unwrap(), Some("text!".into()));
}

/// Branch commands are refused in interactive transactions.
pub fn branch_commands_are_refused(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    let fork = BranchCommand::Fork { name: name("dev"), from: name("main"), at: None };
    refused(t.run(fork), Code::InvalidArgument);
    t.set("a", 1).unwrap();
    t.commit().unwrap();
}

/// Returns whether a command conflicts with a concurrent write of the cell.
fn conflicts(w: &TestDb, command: impl Into<Command>, as_value: bool) -> bool {
    w.cells().set("k", "1").unwrap();
    let mut t = w.db().begin().unwrap();
    t.run(command).unwrap();
    t.set("own", 1).unwrap();
    w.cells().set("k", "2").unwrap();
    let outcome = if as_value { commit_as_value(w, t) } else { t.commit() };
    outcome.as_ref().err().is_some_and(|error| {
        assert!(is_conflict(error), "{error}");
        true
    })
}

fn is_conflict(error: &mainstay::Error) -> bool {
    error.kind() == ErrorKind::Conflict
}

/// A command whose answer depends on the cell counts as a read.
pub fn what_tells_something_is_a_read(w: &mut TestDb) {
    let k = || name("k");
    let reads: [Command; 9] = [
        get("k").into(),
        list("").into(),
        string_set("k", 1, Only::Always, Ttl::Clear).into(),
        all(&["a", "k"], true).into(),
        StringCommand::Take { name: k() }.into(),
        StringCommand::Touch { name: k(), ttl: Ttl::Keep }.into(),
        append("k", "x").into(),
        StringCommand::Add { name: k(), by: 1 }.into(),
        StringCommand::Persist { name: k() }.into(),
    ];
    for command in reads {
        assert!(conflicts(w, command.clone(), false), "{command:?}");
        assert!(conflicts(w, command.clone(), true), "{command:?}");
    }
}

/// A blind write does not conflict.
pub fn blind_writes_do_not_conflict(w: &mut TestDb) {
    let blind: [Command; 2] = [set("k", 1).into(), all(&["a", "k"], false).into()];
    for command in blind {
        assert!(!conflicts(w, command.clone(), false), "{command:?}");
        assert!(!conflicts(w, command, true));
        assert_eq!(w.cells().get("k").unwrap(), int(1));
    }
}

/// Committed as a value, the transaction has the same receipt.
pub fn as_a_value_it_commits(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    t.durability(Durability::Sync);
    assert_eq!(t.get("k").unwrap(), int(1));
    t.set("k", 2).unwrap();
    let receipt = writes_once(w.db(), || commit_as_value(w, t).unwrap());
    assert_eq!((receipt.revision, &receipt.answers[0]), (w.db().revision(), &Answer::Counter(2)));
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A read-only transaction converted to a value never fails, even if its branch was deleted.
pub fn as_a_value_reading_never_fails(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut t = w.db().branch("dev").unwrap().begin().unwrap();
    assert_eq!(t.get("k").unwrap(), None);
    w.on("dev").set("k", 1).unwrap();
    w.db().delete_branch("dev").unwrap();
    let receipt = writes_nothing(w.db(), || commit_as_value(w, t).unwrap());
    assert!(receipt.answers.is_empty());
}

/// As a value, a transaction conflicts if its branch was deleted and recreated.
pub fn as_a_value_of_another_branch(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut t = w.db().branch("dev").unwrap().begin().unwrap();
    t.set("k", 1).unwrap();
    w.db().delete_branch("dev").unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    assert!(is_conflict(&commit_as_value(w, t).unwrap_err()));
    assert_eq!(w.on("dev").get("k").unwrap(), None);
}

/// Converting an expired transaction to a value fails.
pub fn as_a_value_idle_too_long(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.set("k", 1).unwrap();
    w.pass(std::time::Duration::from_secs(31));
    refused(t.into_transaction(), Code::TransactionExpired);
}

/// `read_text` passes the text of a cell to a closure, on `main` and on branches. Expired cells are
/// absent.
pub fn texts_are_read_in_place(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    for cells in [w.cells(), w.on("dev")] {
        let read = |cell: &str| cells.read_text(cell, <[u8]>::to_vec).unwrap();
        assert_eq!(read("k"), None);
        let cases: [(Value, &[u8]); 4] = [
            ("text".into(), b"text"),
            (Value::Bytes(vec![0xff, 0]), &[0xff, 0]),
            (Value::Int(-5), b"-5"),
            (Value::Array(vec![Value::Null]), b"[null]"),
        ];
        for (value, expected) in cases {
            cells.set("k", value).unwrap();
            assert_eq!(read("k").as_deref(), Some(expected));
        }
        cells.set_with("k", "short", Ttl::Millis(10)).unwrap();
        assert_eq!(read("k").as_deref(), Some(&b"short"[..]));
        w.pass_ms(11);
        assert_eq!(read("k"), None);
        cells.delete("k").unwrap();
        assert_eq!(read("k"), None);
        refused(cells.read_text("", |_| ()), Code::InvalidName);
    }
}
