//! Cost of searches: it must not depend on the number of records.

use mainstay::{
    At, Command, Database, Durability, Field, Fields, Options, RecordPick, RecordWrite, Test,
    Transaction, Where,
};

/// Number of records: far more than any of these searches may scan.
const MANY: usize = 3_000;
/// Maximal number of scanned rows: some keys are fetched at once, and dead entries are skipped.
const FEW: u64 = 200;

fn open(indexes: &[&[&str]]) -> Database {
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let db = options.memory().unwrap();
    for fields in indexes {
        db.records().add_index("t.", fields).unwrap();
    }
    for i in 0..MANY {
        let fields = [("state", "pending".to_owned()), ("rank", (i / 2).to_string())];
        db.records().put(&format!("t.{i:05}"), &Fields::of(fields).unwrap(), None).unwrap();
    }
    db
}

fn is(name: &str, value: &str) -> Where {
    Where { field: Field::new(name).unwrap(), test: Test::Eq(value.into()) }
}

fn by_rank() -> RecordPick {
    by_key().by("rank").unwrap()
}

fn by_key() -> RecordPick {
    RecordPick::under("t.", vec![is("state", "pending")]).set("state", "claimed").unwrap()
}

/// Runs a search, and returns the number of entries and records that it scanned.
fn work<T>(db: &Database, search: impl FnOnce() -> T) -> (T, u64) {
    let passed = || db.engine().index().searches.passed();
    let before = passed();
    let found = search();
    (found, passed() - before)
}

fn assert_picks(db: &Database, what: &str, key: &str, pick: impl FnOnce() -> Option<String>) {
    let (picked, work) = work(db, pick);
    assert_eq!(picked.as_deref(), Some(key), "{what}");
    assert!(work <= FEW, "{what} came by {work} entries and records");
}

#[test]
fn a_pick_looks_at_the_first_ones_only() {
    let indexes: [&[&str]; 4] = [&["state"], &["rank"], &["state", "kind"], &["state", "rank"]];
    let db = open(&indexes);
    let pick = |branch: &str, pick: RecordPick| {
        let records = db.branch(branch).unwrap().records();
        records.pick(pick).unwrap().map(|(key, _)| key)
    };
    assert_picks(&db, "older indexes", "t.00000", || pick("main", by_rank()));
    assert_picks(&db, "no field", "t.00001", || pick("main", by_key()));
    db.fork("side", "main", At::Latest).unwrap();
    assert_picks(&db, "a fork", "t.00002", || pick("side", by_rank()));
    assert_picks(&db, "a fork that has records", "t.00003", || pick("side", by_rank()));
    assert_picks(&db, "no field on a fork", "t.00004", || pick("side", by_key()));
    assert_picks(&db, "the parent", "t.00002", || pick("main", by_rank()));
}

#[test]
fn a_pick_behind_own_writes_looks_at_the_first_ones_only() {
    let db = open(&[&["state", "rank"], &["state"]]);
    let other = || RecordWrite::to("t.9").unwrap().set("state", "pending").unwrap();
    let first = || other().set("rank", "-1").unwrap();
    let run = |write: RecordWrite, pick: RecordPick| {
        let steps = [Command::from(write), pick.clone().into(), pick.into()];
        let transaction = steps.into_iter().fold(Transaction::new(), Transaction::step);
        let receipt = db.execute(transaction).unwrap();
        match receipt.answers.last().unwrap() {
            mainstay::Answer::Picked(picked) => picked.as_ref().map(|picked| picked.0.clone()),
            _ => None,
        }
    };
    assert_picks(&db, "own records", "t.00000", || run(first(), by_rank()));
    assert_picks(&db, "own records by key", "t.00002", || run(other(), by_key()));
    let open = || {
        let mut open = db.begin().unwrap();
        open.run(first()).unwrap();
        let keys = [by_rank(), by_rank(), by_key()].map(|pick| match open.run(pick).unwrap() {
            mainstay::Answer::Picked(picked) => picked.map(|picked| picked.0),
            _ => None,
        });
        open.commit().unwrap();
        assert_eq!(keys[..2], [Some("t.9".to_owned()), Some("t.00003".to_owned())]);
        keys[2].clone()
    };
    assert_picks(&db, "an open transaction", "t.00004", open);
}

#[test]
fn a_page_begins_where_the_last_one_ended() {
    let db = open(&[&["state", "rank"], &["state"]]);
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap().records();
    side.set_field("t.01502", "state", "done").unwrap();
    let either = Test::In(vec![b"pending".to_vec(), b"done".to_vec()]);
    let either = Where { field: Field::new("state").unwrap(), test: either };
    for (records, filter) in [(db.records(), is("state", "pending")), (side, either)] {
        let page =
            || records.scan("t.", std::slice::from_ref(&filter), Some("t.01499"), 10).unwrap();
        let (page, work) = work(&db, page);
        let keys: Vec<String> = page.records.into_iter().map(|(key, _)| key).collect();
        let expected: Vec<String> = (1_500..1_510).map(|i| format!("t.{i:05}")).collect();
        assert_eq!(keys, expected);
        assert!(work <= FEW, "{work}");
    }
}

#[test]
fn a_count_comes_by_each_candidate_once() {
    let db = open(&[&["state", "rank"]]);
    let count = || db.records().count("t.", &[is("state", "pending")]).unwrap();
    assert_eq!(work(&db, count), (MANY as u64, MANY as u64));
}

#[test]
fn an_index_is_filled_from_its_prefix_on() {
    let db = open(&[]);
    for branch in ["side", "other"] {
        db.fork(branch, "main", At::Latest).unwrap();
        let records = db.branch(branch).unwrap().records();
        for key in ["a", "s.9", "t.1", "u.1", "v"] {
            records.put(key, &Fields::of([("state", "pending")]).unwrap(), None).unwrap();
        }
    }
    for prefix in ["s.", "u."] {
        db.records().add_index(prefix, &["state"]).unwrap();
    }
    db.fill_indexes().unwrap();
    assert!(db.records().indexes().unwrap().iter().all(|index| index.filled < 10));
    for (branch, prefix, count) in [("main", "s.", 0), ("side", "s.", 1), ("other", "u.", 1)] {
        let records = db.branch(branch).unwrap().records();
        assert_eq!(records.count(prefix, &[is("state", "pending")]).unwrap(), count);
    }
}
