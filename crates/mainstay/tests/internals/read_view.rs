//! Tests of `mainstay_engine::read::read_view` on whole databases.

use mainstay::{Database, Durability, KeyCommand, Options, Transaction};
use mainstay_engine::read::read_view::*;
use mainstay_model::{At, CellCommand, Code, Contract, Name};
use std::collections::BTreeMap;
use std::collections::BTreeSet;

const KINDS: [Contract; 2] = [Contract::Cells, Contract::Records];

fn filled(count: usize) -> Database {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    let set = |all: Transaction, i: usize| {
        all.step(CellCommand::set(Name::new(&format!("user:{i:06}")).unwrap(), 1))
    };
    db.execute((0..count).fold(Transaction::new(), set)).unwrap();
    db
}

fn deleted(db: &Database, places: std::ops::Range<usize>) {
    let delete = |all: Transaction, i: usize| {
        let name = Name::new(&format!("user:{i:06}")).unwrap();
        all.step(CellCommand::Delete { name, counter: None })
    };
    db.execute(places.fold(Transaction::new(), delete)).unwrap();
}

fn moment(db: &Database) -> ReadView {
    db.moment("main", At::Latest).unwrap()
}

/// Pseudo-random numbers, the same in every run.
fn random() -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

#[test]
fn a_step_over_dead_names_looks_at_a_bounded_number_of_them() {
    let db = filled(5_000);
    deleted(&db, 0..4_990);
    let moment = moment(&db);
    let mut after = None;
    let mut steps = 0;
    let mut names = Vec::new();
    loop {
        let page = moment.names_within(&KINDS, "", after.as_deref(), 10, 100).unwrap();
        steps += 1;
        after = page.next;
        names.extend(page.names);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((names.len(), steps > 40, steps < 60), (10, true, true), "{steps}");
}

#[test]
fn dead_names_are_walked_over_once() {
    let db = filled(5_000);
    deleted(&db, 0..4_990);
    let look = |db: &Database| moment(db).merged(&KINDS, (b"", None), (5, usize::MAX)).unwrap();
    assert!(look(&db).looked >= 4_990);
    let again = look(&db);
    assert_eq!((again.names.len(), again.looked < 20), (5, true), "{}", again.looked);
    // A new name among them is found, and only its stretch is walked again.
    db.cells().set("user:000100", 2).unwrap();
    assert_eq!(look(&db).names[0], b"user:000100");
}

#[test]
fn names_of_both_kinds_come_in_one_order_however_few_are_looked_at() {
    let db = filled(50);
    for i in 0..50 {
        let write = mainstay::RecordWrite::to(&format!("user:{i:06}x")).unwrap();
        db.execute(Transaction::new().step(write.set("f", "1").unwrap())).unwrap();
    }
    deleted(&db, 10..30);
    let whole = moment(&db).names(&KINDS, "", None, 1_000).unwrap().names;
    for looks in [1, 3, 7, 100] {
        let mut after = None;
        let mut names = Vec::new();
        loop {
            let page = moment(&db).names_within(&KINDS, "", after.as_deref(), 4, looks).unwrap();
            names.extend(page.names);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(names, whole, "{looks}");
    }
}

#[test]
fn few_prefixes_are_hidden_and_not_one_more() {
    let db = filled(3);
    let count = |hidden: Vec<String>| {
        let kinds = KINDS.to_vec();
        let count = KeyCommand::Count { kinds, limit: 10, hidden };
        db.execute(Transaction::new().step(count)).map_err(|error| error.code())
    };
    assert!(count(vec!["x".to_owned(); 16]).is_ok());
    assert_eq!(count(vec!["x".to_owned(); 17]).unwrap_err(), Code::InvalidArgument);
    assert_eq!(count(vec![String::new()]).unwrap_err(), Code::InvalidArgument);
}

#[test]
fn a_random_name_is_any_of_few() {
    let db = filled(100);
    let moment = moment(&db);
    let mut random = random();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..2_000 {
        let page = moment.random_name(&KINDS, &mut random, 4_096).unwrap();
        *seen.entry(page.names[0].clone()).or_default() += 1;
    }
    assert_eq!(seen.len(), 100);
    assert!(seen.values().all(|count| (2..=60).contains(count)), "{seen:?}");
}

#[test]
fn a_random_name_is_any_of_many_that_share_their_beginning() {
    let db = filled(5_000);
    let moment = moment(&db);
    let mut random = random();
    let seen: BTreeSet<String> = (0..1_000)
        .map(|_| moment.random_name(&KINDS, &mut random, 4_096).unwrap().names.remove(0))
        .collect();
    assert!(seen.len() > 700, "{} of 5,000 in 1,000 calls", seen.len());
    let thousands: BTreeSet<&str> = seen.iter().map(|name| &name[..8]).collect();
    assert_eq!(thousands.len(), 5, "of all parts");
}

#[test]
fn a_random_name_is_found_behind_dead_ones_in_bounded_steps() {
    let db = filled(5_000);
    deleted(&db, 0..4_990);
    let moment = moment(&db);
    let first = moment.random_name(&KINDS, random(), 1_000).unwrap();
    assert_eq!((first.names.len(), first.next.is_some()), (0, true), "it gave up in time");
    let found = moment.random_name(&KINDS, random(), usize::MAX).unwrap();
    assert!(found.names[0].as_str() >= "user:004990", "{found:?}");
    let now = moment.random_name(&KINDS, random(), 1_000).unwrap();
    assert_eq!(now.names.len(), 1, "the dead are passed by");
    deleted(&db, 4_990..5_000);
    assert!(self::moment(&db).random_name(&KINDS, random(), usize::MAX).unwrap().names.is_empty());
}
