//! Indexes over records: a scan by an index gives what a walk gives, on every branch and at every kept
//! revision, whenever the index was declared.

use mainstay::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const BRANCHES: [&str; 3] = ["main", "side", "other"];
const VALUES: [&str; 8] = ["a", "b", "", "1", "10", "9", "-3", "1.5"];
const FIELDS: [&str; 3] = ["x", "y", "z"];

fn open(clock: &Arc<ManualClock>) -> Database {
    let options = Options::new().durability(Durability::Memory).clock(clock.clone());
    options.sweep_interval(None).write_buffer_bytes(64 << 10).memory().unwrap()
}

fn field(name: &str) -> Field {
    Field::new(name).unwrap()
}

#[derive(Clone, Debug)]
enum Act {
    Set(usize, u8, usize, usize),
    Clear(usize, u8, usize),
    Delete(usize, u8),
    Fade(usize, u8),
    Merge(usize, usize),
    Fork(usize, usize),
    Index(usize, usize),
    Drop(u32),
    Fill,
    Pass,
    Flush,
}

fn act() -> impl Strategy<Value = Act> {
    let (branch, key) = (0..BRANCHES.len(), 0..6_u8);
    let (of, value) = (0..FIELDS.len(), 0..VALUES.len());
    prop_oneof![
        12 => (branch.clone(), key.clone(), of.clone(), value).prop_map(|(b, k, f, v)| Act::Set(b, k, f, v)),
        2 => (branch.clone(), key.clone(), of.clone()).prop_map(|(b, k, f)| Act::Clear(b, k, f)),
        2 => (branch.clone(), key.clone()).prop_map(|(b, k)| Act::Delete(b, k)),
        2 => (branch.clone(), key).prop_map(|(b, k)| Act::Fade(b, k)),
        2 => (branch.clone(), branch.clone()).prop_map(|(a, b)| Act::Merge(a, b)),
        1 => (branch.clone(), branch).prop_map(|(a, b)| Act::Fork(a, b)),
        2 => (of.clone(), of).prop_map(|(a, b)| Act::Index(a, b)),
        1 => (1..4_u32).prop_map(Act::Drop),
        2 => Just(Act::Fill),
        1 => Just(Act::Pass),
        1 => Just(Act::Flush),
    ]
}

impl Act {
    /// Does it; what is refused is refused.
    fn run(&self, db: &Database, clock: &ManualClock) {
        clock.advance(Duration::from_millis(1));
        let records = |b: usize| db.branch(BRANCHES[b]).map(|branch| branch.records());
        let key = |k: u8| format!("k{}/{}", k % 2, k);
        match *self {
            Act::Set(b, k, f, v) => {
                drop(records(b).and_then(|r| r.set_field(&key(k), FIELDS[f], VALUES[v])));
            }
            Act::Clear(b, k, f) => drop(records(b).and_then(|r| r.clear_field(&key(k), FIELDS[f]))),
            Act::Delete(b, k) => drop(records(b).and_then(|r| r.delete(&key(k)))),
            Act::Fade(b, k) => drop(records(b).and_then(|r| r.expire(&key(k), Ttl::Millis(5)))),
            Act::Merge(a, b) => {
                drop(db.merge(BRANCHES[a], BRANCHES[b], MergeStrategy::Theirs));
            }
            Act::Fork(a, b) => {
                drop(db.delete_branch(BRANCHES[a]));
                drop(db.fork(BRANCHES[a], BRANCHES[b], At::Latest));
            }
            Act::Index(a, b) if a == b => {
                drop(db.records().add_index(if a == 0 { "" } else { "k1/" }, &[FIELDS[a]]));
            }
            Act::Index(a, b) => drop(db.records().add_index("", &[FIELDS[a], FIELDS[b]])),
            Act::Drop(id) => drop(db.records().drop_index(id)),
            Act::Fill => drop(db.fill_indexes().unwrap()),
            Act::Pass => clock.advance(Duration::from_millis(10)),
            Act::Flush => {
                db.sweep().unwrap();
                db.trim().unwrap();
            }
        }
    }
}

fn filters() -> impl Strategy<Value = Vec<Where>> {
    let value = || (0..VALUES.len()).prop_map(|v| VALUES[v].as_bytes().to_vec());
    let test = prop_oneof![
        3 => value().prop_map(Test::Eq),
        1 => value().prop_map(Test::Ne),
        1 => value().prop_map(Test::Lt),
        1 => value().prop_map(Test::Le),
        1 => value().prop_map(Test::Gt),
        1 => value().prop_map(Test::Ge),
        1 => prop::collection::vec(value(), 0..3).prop_map(Test::In),
    ];
    let one =
        ((0..FIELDS.len()), test).prop_map(|(f, test)| Where { field: field(FIELDS[f]), test });
    prop::collection::vec(one, 0..4)
}

/// What a scan has to give, out of all records.
fn expected(all: &RecordPage, filters: &[Where]) -> Vec<(String, Record)> {
    let passes = |(_, record): &&(String, Record)| filters.iter().all(|f| f.passes(&record.fields));
    all.records.iter().filter(passes).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_scan_gives_what_a_walk_gives(
        acts in prop::collection::vec(act(), 0..60),
        queries in prop::collection::vec((filters(), 0..2_usize), 1..6),
        back in 0..20_u64,
    ) {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let db = open(&clock);
        for branch in &BRANCHES[1..] {
            db.fork(branch, "main", At::Latest).unwrap();
        }
        acts.iter().for_each(|act| act.run(&db, &clock));
        let past = At::Revision(db.revision().saturating_sub(back));
        for branch in BRANCHES {
            let Ok(branch) = db.branch(branch) else { continue };
            for at in [At::Latest, past] {
                let Ok(records) = branch.records().at(at) else { continue };
                for (filters, prefix) in &queries {
                    let prefix = ["", "k1/"][*prefix];
                    let Ok(all) = records.scan(prefix, &[], None, 1_000) else { continue };
                    let expected = expected(&all, filters);
                    let found = records.scan(prefix, filters, None, 1_000).unwrap();
                    prop_assert_eq!(&found.records, &expected, "{} at {:?}", branch.name(), at);
                    prop_assert_eq!(records.count(prefix, filters).unwrap(), expected.len() as u64);
                    let page = records.scan(prefix, filters, Some("k0/2"), 2).unwrap();
                    let rest: Vec<_> = expected.iter().filter(|(key, _)| key.as_str() > "k0/2").cloned().collect();
                    prop_assert_eq!(page.next.is_some(), rest.len() > 2);
                    prop_assert_eq!(&page.records[..], &rest[..rest.len().min(2)]);
                }
            }
        }
    }

    /// What an open transaction wrote is found as well, and so is what it has taken away.
    #[test]
    fn own_writes_are_found(
        before in prop::collection::vec(act(), 0..20),
        own in prop::collection::vec((0..6_u8, 0..FIELDS.len(), 0..VALUES.len()), 0..8),
        filters in filters(),
    ) {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let db = open(&clock);
        db.records().add_index("", &["x", "y"]).unwrap();
        before.iter().for_each(|act| act.run(&db, &clock));
        let mut open = db.begin().unwrap();
        for (k, f, v) in own {
            let write = RecordWrite::to(&format!("k{}/{k}", k % 2)).unwrap().set(FIELDS[f], VALUES[v]).unwrap();
            open.run(write).unwrap();
        }
        let scan = |filters: Vec<Where>| RecordCommand::Scan { prefix: String::new(), filters, after: None, limit: 1_000 };
        let Answer::Records(all) = open.run(scan(Vec::new())).unwrap() else { panic!("no page") };
        let Answer::Records(found) = open.run(scan(filters.clone())).unwrap() else { panic!("no page") };
        prop_assert_eq!(found.records, expected(&all, &filters));
    }
}

fn running(limit: &str) -> [Where; 2] {
    [
        Where { field: field("state"), test: Test::Eq(b"running".to_vec()) },
        Where { field: field("timeout_at"), test: Test::Lt(limit.into()) },
    ]
}

fn fill(db: &Database, count: usize) {
    for i in 0..count {
        let fields = [("state", "running".to_owned()), ("timeout_at", (i * 10).to_string())];
        db.records().put(&format!("tasks.{i:05}"), &Fields::of(fields).unwrap(), None).unwrap();
    }
}

#[test]
fn an_index_over_records_of_before_is_filled_in_pieces_and_then_serves() {
    let db = open(&ManualClock::new(1_700_000_000_000_000));
    fill(&db, 2_500);
    let id = db.records().add_index("tasks.", &["state", "timeout_at"]).unwrap();
    let info = || db.records().indexes().unwrap().remove(0);
    assert_eq!((info().id, info().ready, info().filled), (id, None, 0));
    let explained = db.records().explain("tasks.", &running("50")).unwrap();
    assert!(explained.contains("is being filled"), "{explained}");
    assert_eq!(db.records().count("tasks.", &running("50")).unwrap(), 5);
    let before = db.revision();
    assert_eq!(db.fill_indexes().unwrap(), 1);
    assert_eq!((info().ready, info().filled), (Some(db.revision()), 2_500));
    assert_eq!(db.revision() - before, 3, "a thousand at a time");
    let explained = db.records().explain("tasks.", &running("50")).unwrap();
    assert!(explained.contains("branch `main`: by the index"), "{explained}");
    assert_eq!(db.records().count("tasks.", &running("50")).unwrap(), 5);
    // What was read before it was there is walked.
    let past = db.records().at(At::Revision(before)).unwrap();
    assert_eq!(past.count("tasks.", &running("50")).unwrap(), 5);
}

#[test]
fn declarations_survive_and_what_makes_no_sense_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Options::new().sweep_interval(None).open(directory.path()).unwrap();
    let db = open();
    fill(&db, 10);
    let records = db.records();
    let code = |result: Result<u32>| result.unwrap_err().code();
    assert_eq!(code(records.add_index("", &[""; 0])), Code::InvalidArgument);
    assert_eq!(code(records.add_index("", &["a", "a"])), Code::InvalidArgument);
    assert_eq!(records.add_index("tasks.", &["state"]).unwrap(), 1);
    assert_eq!(code(records.add_index("tasks.", &["state"])), Code::IndexExists);
    assert_eq!(records.add_index("tasks.", &["timeout_at"]).unwrap(), 2);
    assert!(records.drop_index(1).unwrap() && !records.drop_index(1).unwrap());
    db.fill_indexes().unwrap();
    let listed = records.indexes().unwrap();
    assert_eq!((listed.len(), listed[0].id), (1, 2));
    drop((records, db));
    let db = open();
    assert_eq!(db.records().indexes().unwrap(), listed);
    assert_eq!(db.records().add_index("", &["state"]).unwrap(), 3, "no number is given twice");
    let filters = [Where { field: field("timeout_at"), test: Test::Ge(b"80".to_vec()) }];
    assert!(db.records().explain("tasks.", &filters).unwrap().starts_with("index 2"));
    assert_eq!(db.records().count("tasks.", &filters).unwrap(), 2);
}

/// A layer that the index does not serve is walked by what stands there: what a fork wrote over it has an
/// entry of its own, also where its indexed fields are as they were.
#[test]
fn a_fork_older_than_the_index_is_searched_right() {
    let db = open(&ManualClock::new(1_700_000_000_000_000));
    db.records().put("a", &Fields::of([("x", "1"), ("y", "1")]).unwrap(), None).unwrap();
    db.fork("side", "main", At::Latest).unwrap();
    db.records().add_index("", &["x"]).unwrap();
    db.fill_indexes().unwrap();
    let side = db.branch("side").unwrap().records();
    side.set_field("a", "y", "2").unwrap();
    let is = |name: &str, value: &str| Where { field: field(name), test: Test::Eq(value.into()) };
    let explained = side.explain("", &[is("x", "1")]).unwrap();
    assert!(explained.contains("branch `main`: walked"), "{explained}");
    assert_eq!(side.count("", &[is("x", "1"), is("y", "2")]).unwrap(), 1);
    assert_eq!(side.count("", &[is("x", "1"), is("y", "1")]).unwrap(), 0);
}

proptest! {
    /// Picking gives the same record by an index and without one.
    #[test]
    fn a_pick_takes_the_first(
        records in prop::collection::vec((0..6_u8, prop::option::of(0..VALUES.len()), 0..2_usize), 0..12),
        gone in prop::collection::vec(0..6_u8, 0..3),
    ) {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let [indexed, plain] = [open(&clock), open(&clock)];
        indexed.records().add_index("", &["x", "y"]).unwrap();
        for db in [&indexed, &plain] {
            for (k, y, x) in &records {
                let x = [("x", ["a", "b"][*x])];
                let y = y.map(|v| ("y", VALUES[v]));
                db.records().replace(&format!("k{k}"), &Fields::of(x.into_iter().chain(y)).unwrap(), None).unwrap();
            }
            for k in &gone {
                db.records().delete(&format!("k{k}")).unwrap();
            }
        }
        let is = |test| Where { field: field("x"), test };
        for test in [Test::Eq(b"a".to_vec()), Test::In(vec![b"a".to_vec(), b"b".to_vec()])] {
            let pick = RecordPick::under("", vec![is(test)]).by("y").unwrap().set("x", "c").unwrap();
            loop {
                let [found, expected] = [&indexed, &plain].map(|db| db.records().pick(pick.clone()).unwrap());
                let key = |picked: &Option<(String, Record)>| picked.as_ref().map(|(key, record)| (key.clone(), record.fields.clone()));
                prop_assert_eq!(key(&found), key(&expected));
                if found.is_none() {
                    break;
                }
            }
        }
    }
}

/// What a branch inherited is not its own, whatever the order; by an index and without one.
#[test]
fn a_pick_of_own_records_passes_over_what_is_inherited() {
    for is_indexed in [false, true] {
        let db = open(&ManualClock::new(1_700_000_000_000_000));
        if is_indexed {
            db.records().add_index("", &["x", "y"]).unwrap();
            db.fill_indexes().unwrap();
        }
        let one = |y: &str| Fields::of([("x", "a"), ("y", y)]).unwrap();
        db.records().put("inherited", &one("1"), None).unwrap();
        db.records().put("touched", &one("5"), None).unwrap();
        db.fork("side", "main", At::Latest).unwrap();
        let side = db.branch("side").unwrap().records();
        side.put("new", &one("3"), None).unwrap();
        side.set_field("touched", "y", "2").unwrap();
        let is = Where { field: field("x"), test: Test::Eq(b"a".to_vec()) };
        let pick = RecordPick::under("", vec![is]).by("y").unwrap().set("x", "c").unwrap().own();
        let key = || side.pick(pick.clone()).unwrap().map(|(key, _)| key);
        assert_eq!([key(), key(), key()], [Some("touched".into()), Some("new".into()), None]);
        let of_main = db.records().pick(pick.clone()).unwrap().map(|(key, _)| key);
        assert_eq!(of_main.as_deref(), Some("inherited"), "all of main is its own");
    }
}

/// A queue whose front dies all the time: picks and scans find what lives behind it, whatever is put back.
#[test]
fn what_died_at_the_front_is_passed_over_and_what_comes_back_is_found() {
    let db = open(&ManualClock::new(1_700_000_000_000_000));
    let records = db.records();
    records.add_index("", &["state", "rank"]).unwrap();
    let put = |rank: usize| {
        let fields = [("state", "pending".to_owned()), ("rank", rank.to_string())];
        records.put(&format!("k{rank}"), &Fields::of(fields).unwrap(), None).unwrap()
    };
    for rank in 0..1_000 {
        put(rank);
    }
    let pending = || vec![Where { field: field("state"), test: Test::Eq(b"pending".to_vec()) }];
    let next =
        RecordPick::under("", pending()).by("rank").unwrap().set("state", "claimed").unwrap();
    let pick = || records.pick(next.clone()).unwrap().map(|(key, _)| key);
    for rank in 0..900 {
        assert_eq!(pick(), Some(format!("k{rank}")));
        if rank % 100 == 50 {
            // Something comes back to where all were dead; readers look in between.
            assert_eq!(records.count("", &pending()).unwrap(), 999 - rank as u64);
            put(rank / 2);
            assert_eq!(records.count("", &pending()).unwrap(), 1_000 - rank as u64);
            assert_eq!(pick(), Some(format!("k{}", rank / 2)));
        }
    }
    assert_eq!(records.count("", &pending()).unwrap(), 100);
}

#[test]
fn indexes_go_with_an_exported_branch() {
    let (from, to) = (open(&ManualClock::new(1_700_000_000_000_000)), Database::memory().unwrap());
    from.records().add_index("tasks.", &["state", "timeout_at"]).unwrap();
    fill(&from, 20);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    from.export("main", &file, &mut |_| {}).unwrap();
    for branch in ["one", "two"] {
        to.import(&file, branch, &mut |_| {}).unwrap();
    }
    let listed = to.records().indexes().unwrap();
    assert_eq!((listed.len(), listed[0].fields.len()), (1, 2), "the second one was there");
    let one = to.branch("one").unwrap().records();
    assert_eq!(one.count("tasks.", &running("50")).unwrap(), 5);
}
