//! Tests of the reference model against examples worked out by hand, so that it does not just mirror the engine.

use super::{ChangedOn, Open, Oracle};
use crate::assertions::*;
use mainstay_model::{Answer, At, Code, MergeStrategy, StringCommand, Transaction, Ttl, Value};

fn oracle() -> Oracle {
    Oracle::new(0, 1_000_000)
}

fn run(oracle: &mut Oracle, branch: &str, command: mainstay_model::CellCommand) -> Answer {
    oracle.execute(&Transaction::on(branch).step(command)).unwrap().answers[0].clone()
}

fn now(oracle: &Oracle, branch: &str, cell: &str) -> Option<(Value, u64)> {
    let seen = oracle.get(branch, cell, oracle.latest()).unwrap();
    seen.map(|seen| (seen.value, seen.counter))
}

#[test]
fn stamps_are_the_clock_or_one_more_than_the_last() {
    let mut o = oracle();
    let stamp = |o: &mut Oracle| o.execute(&Transaction::new().step(set("k", 1))).unwrap().stamp;
    assert_eq!((stamp(&mut o), stamp(&mut o)), (1_000_000, 1_000_001));
    o.wall += 50;
    assert_eq!(stamp(&mut o), 1_000_050);
}

#[test]
fn an_expired_cell_of_counter_five_is_set_to_seven() {
    let mut o = oracle();
    (0..4)
        .for_each(|n| assert_eq!(run(&mut o, "main", set("k", n)), Answer::Counter(n as u64 + 1)));
    run(&mut o, "main", set_with("k", 5, Ttl::Millis(10)));
    o.wall += 10_010;
    assert_eq!(now(&o, "main", "k"), None);
    assert_eq!(run(&mut o, "main", cas("k", Some(5), 6)), Answer::MaybeCounter(None));
    assert_eq!(run(&mut o, "main", set("k", 7)), Answer::Counter(7));
    let versions = o.history("main", "k", 2, None, o.latest()).unwrap();
    assert_eq!((versions[0].writes, versions[1].counter), (2, 5));
}

#[test]
fn a_failed_transaction_leaves_nothing() {
    let mut o = oracle();
    let error = o.execute(&Transaction::new().step(set("a", 1)).must(delete("b"))).unwrap_err();
    assert_eq!((error.code(), error.position()), (Code::MustFailed, Some(1)));
    assert_eq!((o.revision(), now(&o, "main", "a")), (0, None));
}

#[test]
fn what_was_read_conflicts_and_what_was_not_does_not() {
    let mut o = oracle();
    for (cell, conflicts) in [("read", true), ("other", false)] {
        let mut open = Open::begin(&o, "main").unwrap();
        open.get(&name("read"));
        open.command(set("blind", 1)).unwrap();
        run(&mut o, "main", set(cell, 1));
        run(&mut o, "main", set("blind", 2));
        assert_eq!(open.commit(&mut o).is_err(), conflicts, "{cell}");
    }
    assert_eq!(now(&o, "main", "blind"), Some((Value::Int(1), 3)));
}

#[test]
fn a_phantom_conflicts() {
    let mut o = oracle();
    let mut open = Open::begin(&o, "main").unwrap();
    assert!(open.list("p/", None, 10).unwrap().names.is_empty());
    open.command(set("x", 1)).unwrap();
    run(&mut o, "main", set("p/new", 1));
    assert_eq!(open.commit(&mut o).unwrap_err().code(), Code::Conflict);
}

#[test]
fn a_merge_is_the_next_base_and_lowers_no_counter() {
    let mut o = oracle();
    run(&mut o, "main", set("k", 0));
    o.fork("dev", "main", None).unwrap();
    (1..4).for_each(|n| assert!(run(&mut o, "dev", set("k", n)).took_effect()));
    o.merge("dev", "main", MergeStrategy::Strict).unwrap();
    assert_eq!(now(&o, "main", "k"), Some((Value::Int(3), 4)));
    run(&mut o, "main", set("k", 9));
    let seen = o.diff("main", "dev").unwrap();
    assert_eq!((seen.len(), seen[0].on, seen[0].base.clone()), (1, ChangedOn::A, int(3)));
    run(&mut o, "dev", set("k", 8));
    let error = o.merge("dev", "main", MergeStrategy::Strict).unwrap_err();
    assert_eq!(error.keys(), ["k"]);
}

#[test]
fn the_past_stays_as_it_was() {
    let mut o = oracle();
    run(&mut o, "main", set_with("k", 1, Ttl::Millis(10)));
    o.wall += 20_000;
    run(&mut o, "main", set("other", 1));
    let at = |at| o.get("main", "k", o.moment(at).unwrap()).unwrap().map(|seen| seen.value);
    assert_eq!(
        (at(At::Revision(0)), at(At::Revision(1)), at(At::Revision(2))),
        (None, int(1), None)
    );
    assert_eq!((at(At::Stamp(1_009_999)), at(At::Stamp(1_010_000))), (int(1), None));
}

#[test]
fn texts_add_as_they_are_written_by_hand() {
    let add = |cell: &str, by: &str| StringCommand::AddFloat { name: name(cell), by: by.into() };
    let mut o = oracle();
    let mut sum = |command: StringCommand| {
        let receipt = o.execute(&Transaction::new().attempt(command)).unwrap();
        match receipt.answers[0].clone() {
            Answer::Number { value, .. } => String::from_utf8(value.as_text().to_vec()).unwrap(),
            Answer::Failed(error) => format!("{:?}", error.code()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sum(add("k", "0.1")), "0.1");
    assert_eq!(sum(add("k", "0.2")), "0.3");
    assert_eq!(sum(add("k", "-1.25")), "-0.95");
    assert_eq!(sum(add("k", "5.0e3")), "4999.05");
    assert_eq!(sum(add("k", "x")), "NotANumber");
    assert_eq!(sum(add("k", "inf")), "Overflow");
    assert_eq!(sum(StringCommand::Add { name: name("k"), by: 1 }), "NotANumber");
    assert_eq!(sum(StringCommand::Add { name: name("n"), by: 1 }), "1");
    assert_eq!(sum(StringCommand::Add { name: name("n"), by: i64::MAX }), "Overflow");
}
