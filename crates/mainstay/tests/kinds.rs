//! Names that may be cells, records or both, for Redis clients, which have one namespace.

use mainstay::{
    Answer, At, CellCommand, Code, Command, Contract, Database, Demand, Field, Fields, HashCommand,
    Name, RecordCommand, RecordWrite, StringCommand, Transaction, Ttl,
};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn one_field(text: &str) -> Fields {
    Fields::of([("f", text)]).unwrap()
}

fn hash_set(key: &str) -> HashCommand {
    let pairs = vec![(Field::new("f").unwrap(), b"1".to_vec())];
    HashCommand::Set { key: name(key), pairs, only_absent: false }
}

#[test]
fn commands_on_records_that_may_fail_fail_alone() {
    let db = Database::memory().unwrap();
    db.cells().set("cell", 1).unwrap();
    db.records().put("record", &one_field("text"), None).unwrap();
    let key = name("record");
    let field = Field::new("f").unwrap();
    let fenced = RecordWrite::to("record")
        .unwrap()
        .when(mainstay::Condition::Fence { field: field.clone(), is: b"other".to_vec() })
        .set("f", "x")
        .unwrap();
    let transaction = Transaction::new()
        .attempt(hash_set("cell"))
        .attempt(HashCommand::Add { key, field, by: 1 })
        .attempt(fenced)
        .attempt(hash_set("new"));
    assert!(transaction.steps.iter().all(|step| step.demand == Demand::Nothing));
    let answers = db.execute(transaction).unwrap().answers;
    let code = |answer: &Answer| match answer {
        Answer::Failed(error) => Some(error.code()),
        _ => None,
    };
    let codes: Vec<_> = answers.iter().map(code).collect();
    assert_eq!(codes[..2], [Some(Code::WrongType), Some(Code::NotANumber)]);
    assert_eq!((codes[2], &answers[3]), (Some(Code::Fenced), &Answer::Count(1)));
    assert_eq!(db.records().get("record").unwrap().unwrap().fields, one_field("text"));
}

#[test]
fn a_name_that_is_written_over_keeps_its_expiry_if_told_so() {
    let db = Database::memory().unwrap();
    let keep = Ttl::Keep;
    let value = || "text".into();
    let put = |ttl| StringCommand::Put { name: name("a"), value: value(), ttl };
    let set =
        StringCommand::Set { name: name("a"), value: value(), only: Default::default(), ttl: keep };
    for (command, keeps) in [(put(keep), true), (set, true), (put(Ttl::Clear), false)] {
        db.cells().delete("a").unwrap();
        db.records().put("a", &one_field("1"), Some(Ttl::Millis(100_000))).unwrap();
        let expires = db.records().get("a").unwrap().unwrap().expires;
        db.execute(Transaction::new().step(command)).unwrap();
        assert!(db.records().get("a").unwrap().is_none());
        let cell = db.cells().get_versioned("a").unwrap().unwrap();
        assert_eq!(cell.expires, expires.filter(|_| keeps));
    }
}

#[test]
fn an_open_transaction_that_only_reads_texts_and_hashes_has_nothing_to_commit() {
    let db = Database::memory().unwrap();
    db.cells().set("cell", "text").unwrap();
    db.records().put("record", &one_field("1"), None).unwrap();
    let get = |key: &str| StringCommand::Get { name: name(key) };
    let hash = |key: &str| HashCommand::Get { key: name(key), fields: None };
    let mut open = db.begin().unwrap();
    assert!(matches!(open.run(get("cell")).unwrap(), Answer::Cell(Some(_))));
    assert!(matches!(open.run(hash("record")).unwrap(), Answer::Record(Some(_))));
    assert_eq!(open.run(get("record")).unwrap_err().code(), Code::WrongType);
    assert_eq!(open.run(hash("cell")).unwrap_err().code(), Code::WrongType);
    assert!(!open.has_steps());
    assert_eq!(open.step_count(), Some(0));
    // A name that was found absent counts as read, for both kinds.
    assert_eq!(open.run(get("none")).unwrap(), Answer::Cell(None));
    open.set("other", 1).unwrap();
    assert_eq!(open.step_count(), Some(1), "its answer comes first in the receipt");
    db.records().put("none", &one_field("1"), None).unwrap();
    assert_eq!(open.commit().unwrap_err().code(), Code::Conflict);
}

#[test]
fn a_text_of_its_own_does_not_make_a_transaction_look_at_records() {
    let db = Database::memory().unwrap();
    let mut open = db.begin().unwrap();
    open.set("a", "mine").unwrap();
    let get = StringCommand::Get { name: name("a") };
    assert!(matches!(open.run(get).unwrap(), Answer::Cell(Some(_))));
    db.records().put("a", &one_field("1"), None).unwrap();
    open.commit().unwrap();
}

#[test]
fn a_look_answers_all_kinds_as_of_one_moment() {
    let db = Database::memory().unwrap();
    db.cells().set("a", "text").unwrap();
    db.records().put("b", &one_field("1"), None).unwrap();
    let commands: Vec<Command> = vec![
        StringCommand::Get { name: name("a") }.into(),
        HashCommand::Get { key: name("b"), fields: None }.into(),
        RecordCommand::Count { prefix: String::new(), filters: Vec::new() }.into(),
    ];
    let (answers, now) = db.look("main", &commands).unwrap();
    assert!(matches!(&answers[0], Answer::Cell(Some(_))) && now > 0);
    assert!(matches!(&answers[1], Answer::Record(Some(_))));
    assert_eq!(answers[2], Answer::Count(1));
    let before = db.moment("main", At::Revision(1)).unwrap();
    assert_eq!(before.answer(&commands[1]).unwrap(), Answer::Record(None));
    let write = CellCommand::set(name("a"), 1).into();
    assert_eq!(db.look("main", &[write]).unwrap_err().code(), Code::Unsupported);
}

#[test]
fn names_of_several_kinds_come_in_order_each_once() {
    let db = Database::memory().unwrap();
    for cell in ["a", "c", "d"] {
        db.cells().set(cell, 1).unwrap();
    }
    for record in ["b", "c", "e"] {
        db.records().put(record, &one_field("1"), None).unwrap();
    }
    let moment = db.moment("main", At::Latest).unwrap();
    let both = [Contract::Cells, Contract::Records];
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = moment.names(&both, "", after.as_deref(), 2).unwrap();
        assert!(page.names.len() <= 2);
        all.extend(page.names);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all, ["a", "b", "c", "d", "e"]);
    assert_eq!(moment.names(&both[1..], "c", None, 10).unwrap().names, ["c"]);
}

/// A scan that starts before its prefix must not read the names in between.
#[test]
fn dead_names_behind_a_prefix_hide_no_live_name_before_it() {
    let db = Database::memory().unwrap();
    let cells = db.cells();
    for n in 0..300 {
        cells.set(&format!("a{n:04}"), 1).unwrap();
        cells.set(&format!("user:{n:04}"), 1).unwrap();
    }
    cells.set("m1", 1).unwrap();
    for n in 0..300 {
        cells.delete(&format!("a{n:04}")).unwrap();
        cells.delete(&format!("user:{n:04}")).unwrap();
    }
    assert_eq!(cells.list("a", None, 10).unwrap().names, Vec::<String>::new());
    assert_eq!(cells.list("user:", Some("a0200"), 10).unwrap().names, Vec::<String>::new());
    assert_eq!(cells.list("", None, 10).unwrap().names, ["m1"]);
}
