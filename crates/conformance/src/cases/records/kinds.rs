//! Redis commands treat a name as one kind: `WrongType` wherever Redis reports it.
//!
//! Native commands do not check the kind.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Code, ErrorKind, HashCommand, Only, StringCommand, Transaction, Ttl, Value,
};

fn hash(w: &TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
}

fn replaced(did: bool, old: Option<Value>) -> Answer {
    Answer::Replaced { did, old }
}

fn every_hash_command(key: &str) -> Vec<HashCommand> {
    let key = name(key);
    let field = field("a");
    let pairs = vec![(field.clone(), b"1".to_vec())];
    vec![
        HashCommand::Set { key: key.clone(), pairs, only_absent: false },
        HashCommand::Delete { key: key.clone(), fields: vec![field.clone()] },
        HashCommand::Add { key: key.clone(), field: field.clone(), by: 1 },
        HashCommand::AddFloat { key: key.clone(), field, by: "1".into() },
        HashCommand::Get { key: key.clone(), fields: None },
        HashCommand::Count { key },
    ]
}

/// String commands that depend on the old value refuse a record.
pub fn strings_refuse_a_record(w: &mut TestDb) {
    hash(w);
    let k = || name("k");
    let value = Value::from("v");
    let only = Only::Always;
    let ttl = Ttl::Clear;
    let refusing = [
        StringCommand::Get { name: k() },
        StringCommand::Take { name: k() },
        StringCommand::Touch { name: k(), ttl: Ttl::Millis(5) },
        StringCommand::Append { name: k(), text: b"x".to_vec() },
        StringCommand::Add { name: k(), by: 1 },
        StringCommand::AddFloat { name: k(), by: "1".into() },
        StringCommand::Swap { name: k(), value: value.clone(), only, ttl },
        string_set("k", "v", Only::Equals(value.clone()), ttl),
        string_set("k", "v", Only::Differs(value), ttl),
    ];
    for command in refusing {
        let error = writes_nothing(w.db(), || text(w.db(), command.clone())).unwrap_err();
        assert_eq!(
            (error.code(), error.kind()),
            (Code::WrongType, ErrorKind::WrongType),
            "{command:?}"
        );
    }
    holds(&w.records(), "k", &[("a", "1")]);
}

/// `SET` overwrites a record with a cell.
pub fn set_overwrites_a_record(w: &mut TestDb) {
    for only in [Only::Always, Only::Present] {
        hash(w);
        let answer = text(w.db(), string_set("k", "v", only, Ttl::Clear)).unwrap();
        assert_eq!(answer, replaced(true, None));
        is_gone(&w.records(), "k");
        assert_eq!(w.cells().get("k").unwrap(), Some("v".into()));
        w.cells().delete("k").unwrap();
    }
}

/// `SET NX` treats a record as present.
pub fn set_absent_finds_a_record(w: &mut TestDb) {
    hash(w);
    let set = || text(w.db(), string_set("k", "v", Only::Absent, Ttl::Clear)).unwrap();
    assert_eq!(writes_nothing(w.db(), set), replaced(false, None));
    holds(&w.records(), "k", &[("a", "1")]);
}

/// `Put` overwrites a cell or record in one step.
pub fn put_overwrites_a_record(w: &mut TestDb) {
    hash(w);
    let put = StringCommand::Put { name: name("k"), value: "v".into(), ttl: Ttl::Clear };
    assert_eq!(writes_once(w.db(), || text(w.db(), put).unwrap()), Answer::Counter(1));
    is_gone(&w.records(), "k");
    assert_eq!(w.cells().get("k").unwrap(), Some("v".into()));
    assert_eq!(w.records().set_field("k", "a", "1").unwrap(), 3, "its counter goes on");
}

/// `MSET` overwrites records; `MSETNX` treats them as present.
pub fn several_overwrite_records(w: &mut TestDb) {
    hash(w);
    let pairs = || vec![(name("j"), Value::from("1")), (name("k"), Value::from("2"))];
    let only_absent = StringCommand::SetAll { pairs: pairs(), only_absent: true };
    assert_eq!(writes_nothing(w.db(), || text(w.db(), only_absent).unwrap()), Answer::Did(false));
    let all = StringCommand::SetAll { pairs: pairs(), only_absent: false };
    assert_eq!(writes_once(w.db(), || text(w.db(), all).unwrap()), Answer::Did(true));
    is_gone(&w.records(), "k");
    assert_eq!(w.cells().get("k").unwrap(), Some("2".into()));
}

/// Every hash command refuses a cell.
pub fn hashes_refuse_a_cell(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    for command in every_hash_command("k") {
        let asked = writes_nothing(w.db(), || run(w.db(), command));
        refused(asked, Code::WrongType);
    }
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    is_gone(&w.records(), "k");
}

/// An expired name has no kind.
pub fn expired_is_of_no_kind(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.cells().set_with("c", 1, Ttl::Millis(5)).unwrap();
    w.pass_ms(6);
    let append = StringCommand::Append { name: name("k"), text: b"x".to_vec() };
    assert_eq!(text(w.db(), append).unwrap(), Answer::Count(1));
    for command in every_hash_command("c") {
        assert!(run(w.db(), command).is_ok());
    }
}

/// Native commands do not check the kind, so a name can be both a cell and a record.
pub fn own_commands_do_not_look(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    hash(w);
    assert_eq!(w.cells().set("k", 2).unwrap(), 2);
    holds(&w.records(), "k", &[("a", "1")]);
    assert_eq!(w.cells().incr("k", 1).unwrap().0, 3.into());
}

/// Redis commands treat a name that is both as a cell.
pub fn both_is_a_cell(w: &mut TestDb) {
    w.cells().set("k", "1").unwrap();
    hash(w);
    let add = StringCommand::Add { name: name("k"), by: 1 };
    assert!(matches!(text(w.db(), add).unwrap(), Answer::Number { .. }));
    let equals = string_set("k", "3", Only::Equals("x".into()), Ttl::Clear);
    assert_eq!(text(w.db(), equals).unwrap(), replaced(false, Some("2".into())));
    refused(run(w.db(), every_hash_command("k").remove(4)), Code::WrongType);
    let take = StringCommand::Take { name: name("k") };
    assert_eq!(text(w.db(), take).unwrap(), replaced(true, Some("2".into())));
    holds(&w.records(), "k", &[("a", "1")]);
}

/// In a transaction the kind depends on earlier steps.
pub fn kind_of_earlier_steps(w: &mut TestDb) {
    let get = || every_hash_command("k").remove(4);
    let put = StringCommand::Put { name: name("k"), value: "v".into(), ttl: Ttl::Clear };
    let turned = Transaction::new().step(write("k", &[("a", "1")])).step(put).step(get());
    refused_at(writes_nothing(w.db(), || w.db().execute(turned)), Code::WrongType, 2);
    let add = StringCommand::Add { name: name("k"), by: 1 };
    let hashed = Transaction::new().step(write("k", &[("a", "1")])).step(add);
    refused_at(writes_nothing(w.db(), || w.db().execute(hashed)), Code::WrongType, 1);
}

/// On a branch an inherited record counts, and one deleted there does not.
pub fn kinds_on_branches(w: &mut TestDb) {
    hash(w);
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let add = || StringCommand::Add { name: name("k"), by: 1 };
    refused(w.db().execute(Transaction::on("dev").step(add())), Code::WrongType);
    w.records_on("dev").delete("k").unwrap();
    w.db().execute(Transaction::on("dev").step(add())).unwrap();
    refused(w.db().execute(Transaction::new().step(add())), Code::WrongType);
}

/// An `attempt` with the wrong kind fails alone.
pub fn attempts_fail_alone(w: &mut TestDb) {
    w.cells().set("c", 1).unwrap();
    let mut transaction = Transaction::new().step(write("k", &[("a", "1")]));
    for command in every_hash_command("c") {
        transaction = transaction.attempt(command);
    }
    let receipt = w.db().execute(transaction).unwrap();
    let failed = |answer: &Answer| matches!(answer, Answer::Failed(error) if error.code() == Code::WrongType);
    assert!(receipt.answers[1..].iter().all(failed), "{:?}", receipt.answers);
    holds(&w.records(), "k", &[("a", "1")]);
}
