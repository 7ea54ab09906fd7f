//! Tests of `mainstay_engine::base::work` on whole databases.

use mainstay::{CellCommand, Database, Name, Transaction};
use mainstay_engine::base::work::*;
use mainstay_model::Code;
use std::cell::Cell;
use std::rc::Rc;

const CELLS: usize = 20_000;

fn filled() -> Database {
    let db = Database::memory().unwrap();
    let set = |all: Transaction, i: usize| {
        all.step(CellCommand::set(Name::new(&format!("c{i:05}")).unwrap(), 1))
    };
    db.execute((0..CELLS).fold(Transaction::new(), set)).unwrap();
    db
}

/// Returns true at the third call, and counts the calls.
fn third() -> (Rc<Cell<usize>>, impl Fn() -> bool + 'static) {
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    let stop = move || {
        count.set(count.get() + 1);
        count.get() >= 3
    };
    (asked, stop)
}

#[test]
fn a_transaction_that_writes_has_so_many_commands_and_not_one_more() {
    let db = mainstay::Options::new().transaction_commands(10).memory().unwrap();
    let get = || CellCommand::Get { name: Name::new("x").unwrap() };
    let set = || CellCommand::set(Name::new("x").unwrap(), 1);
    let gets = |n: usize| (0..n).fold(Transaction::new(), |all, _| all.step(get()));
    db.execute(gets(9).step(set())).unwrap();
    db.execute(gets(20)).unwrap();
    let error = db.execute(gets(10).step(set())).unwrap_err();
    assert_eq!(error.code(), Code::TransactionTooLarge);
    assert!(error.to_string().contains("database.transaction_commands"), "{error}");
    let mut open = db.begin().unwrap();
    (0..11).try_for_each(|i| open.set("x", i).map(drop)).unwrap();
    assert_eq!(open.commit().unwrap_err().code(), Code::TransactionTooLarge);
}

#[test]
fn reads_end_where_they_are_told_to() {
    let db = filled();
    let (asked, stop) = third();
    let listed = until_stopped(stop, || db.cells().list("", None, CELLS));
    assert_eq!(listed.unwrap_err().code(), Code::Cancelled);
    assert_eq!(asked.get(), 3, "it looked at three parts of five");
    assert_eq!(db.cells().list("", None, CELLS).unwrap().names.len(), CELLS, "only there");
    let (_, stop) = third();
    let mut open = db.begin().unwrap();
    let listed = until_stopped(stop, || open.list("", None, CELLS));
    assert_eq!(listed.unwrap_err().code(), Code::Cancelled);
}

#[test]
fn transactions_are_stopped_before_the_writer_and_not_in_it() {
    let db = filled();
    let list = |limit| CellCommand::List { prefix: String::new(), after: None, limit };
    let set = || CellCommand::set(Name::new("x").unwrap(), 1);
    let (_, stop) = third();
    let long = Transaction::new().step(set()).step(list(CELLS));
    let stopped = until_stopped(stop, || db.execute(long));
    assert_eq!(stopped.unwrap_err().code(), Code::Cancelled);
    assert_eq!(db.cells().get("x").unwrap(), None, "nothing was written");
    let short = (0..10).fold(Transaction::new().step(set()), |all, _| all.step(list(10)));
    until_stopped(|| true, || db.execute(short)).unwrap();
}
