//! Secondary indexes over records: an index scan returns the same as a full scan, on every branch and at
//! every retained revision, whenever the index was declared.

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
    Index(usize, usize, bool),
    Drop(u32),
    Fill,
    Pass,
    Flush,
}

fn act() -> impl Strategy<Value = Act> {
    let branch = 0..BRANCHES.len();
    let key = 0..6_u8;
    let of = 0..FIELDS.len();
    let value = 0..VALUES.len();
    prop_oneof![
        12 => (branch.clone(), key.clone(), of.clone(), value).prop_map(|(b, k, f, v)| Act::Set(b, k, f, v)),
        2 => (branch.clone(), key.clone(), of.clone()).prop_map(|(b, k, f)| Act::Clear(b, k, f)),
        2 => (branch.clone(), key.clone()).prop_map(|(b, k)| Act::Delete(b, k)),
        2 => (branch.clone(), key).prop_map(|(b, k)| Act::Fade(b, k)),
        2 => (branch.clone(), branch.clone()).prop_map(|(a, b)| Act::Merge(a, b)),
        1 => (branch.clone(), branch).prop_map(|(a, b)| Act::Fork(a, b)),
        2 => (of.clone(), of, any::<bool>()).prop_map(|(a, b, all)| Act::Index(a, b, all)),
        1 => (1..4_u32).prop_map(Act::Drop),
        2 => Just(Act::Fill),
        1 => Just(Act::Pass),
        1 => Just(Act::Flush),
    ]
}

impl Act {
    /// Runs the action. Errors are ignored.
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
            Act::Index(a, b, _) if a == b => {
                drop(db.records().add_index(if a == 0 { "" } else { "k1/" }, &[FIELDS[a]]));
            }
            Act::Index(a, b, all) => {
                let fields = [FIELDS[a], FIELDS[b], FIELDS[3 - a - b]];
                drop(db.records().add_index("", if all { &fields } else { &fields[..2] }));
            }
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

/// Returns the expected result of a scan, by filtering all records.
fn expected(all: &RecordPage, filters: &[Where]) -> Vec<(String, Record)> {
    all.records
        .iter()
        .filter(|(_, record)| filters.iter().all(|f| f.passes(&record.fields)))
        .cloned()
        .collect()
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
                    let after = if prefix.is_empty() { "k0/2" } else { "k1/2" };
                    let page = records.scan(prefix, filters, Some(after), 2).unwrap();
                    let rest: Vec<_> = expected.iter().filter(|(key, _)| key.as_str() > after).cloned().collect();
                    prop_assert_eq!(page.next.is_some(), rest.len() > 2);
                    prop_assert_eq!(&page.records[..], &rest[..rest.len().min(2)]);
                }
            }
        }
    }

    /// Writes and deletions of an open transaction must be visible to its own searches.
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
    // Revisions from before the index are scanned.
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

/// A layer that the index does not cover is scanned by its own records. A record that a fork overwrote has
/// its own index entry, even if its indexed fields did not change.
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

/// The sets of indexes with which picks are compared.
const INDEXES: [&[&[&str]]; 6] = [
    &[&["x", "y"]],
    &[&["x", "y", "z"]],
    &[&["x"], &["x", "y", "z"]],
    &[&["x"]],
    &[&["z"], &["x", "z"], &["x", "y"]],
    &[&["y"], &["y", "x"], &["x", "z", "y"]],
];

/// An action in the comparison of picks.
#[derive(Clone, Debug)]
enum Deed {
    Put(u8, usize, Option<usize>, usize),
    Delete(u8),
    Fade(u8),
    Pick { either: bool, by: Option<usize>, under: bool },
}

fn deed() -> impl Strategy<Value = Deed> {
    let value = || 0..VALUES.len();
    let put = (0..8_u8, 0..2_usize, prop::option::of(value()), value());
    let pick = (any::<bool>(), prop::option::of(1..FIELDS.len()), any::<bool>());
    prop_oneof![
        6 => put.prop_map(|(k, x, y, z)| Deed::Put(k, x, y, z)),
        1 => (0..8_u8).prop_map(Deed::Delete),
        1 => (0..8_u8).prop_map(Deed::Fade),
        6 => pick.prop_map(|(either, by, under)| Deed::Pick { either, by, under }),
    ]
}

impl Deed {
    fn command(&self) -> Command {
        let key = |k: u8| Name::new(&format!("k{}/{k}", k % 2)).unwrap();
        match *self {
            Deed::Put(k, x, y, z) => {
                let write = RecordWrite::to(key(k).as_str()).unwrap().set("x", ["a", "b"][x]);
                let write = write.unwrap().set("z", VALUES[z]).unwrap();
                match y {
                    Some(y) => write.set("y", VALUES[y]).unwrap().into(),
                    None => write.into(),
                }
            }
            Deed::Delete(k) => RecordCommand::Delete { key: key(k), when: Vec::new() }.into(),
            Deed::Fade(k) => {
                let ttl = Ttl::Millis(3);
                let only = ExpireOnly::Always;
                RecordCommand::Expire { key: key(k), ttl, only }.into()
            }
            Deed::Pick { either, by, under } => {
                let both = Test::In(vec![b"b".to_vec(), b"a".to_vec()]);
                let test = if either { both } else { Test::Eq(b"a".to_vec()) };
                let filters = vec![Where { field: field("x"), test }];
                let pick = RecordPick::under(if under { "k1/" } else { "" }, filters);
                let pick = pick.set("x", "c").unwrap();
                by.map_or(pick.clone(), |by| pick.by(FIELDS[by]).unwrap()).into()
            }
        }
    }
}

/// Returns the picked records, of one transaction or of an open transaction.
fn picked(db: &Database, branch: &str, deeds: &[Deed], stays_open: bool) -> Vec<Option<String>> {
    let commands = deeds.iter().map(Deed::command);
    let answers: Vec<Answer> = if stays_open {
        let mut open = db.branch(branch).unwrap().begin().unwrap();
        let answers = commands.map(|command| open.run(command).unwrap()).collect();
        open.commit().unwrap();
        answers
    } else {
        let transaction = commands.fold(Transaction::on(branch), Transaction::step);
        db.execute(transaction).unwrap().answers.into_iter().collect()
    };
    let picked = |answer| match answer {
        Answer::Picked(picked) => Some(picked.map(|picked| picked.0)),
        _ => None,
    };
    answers.into_iter().filter_map(picked).collect()
}

proptest! {
    /// A pick takes the same record with an index and without one, whatever the transaction itself wrote.
    #[test]
    fn a_pick_takes_the_first(
        indexes in 0..INDEXES.len(),
        forked_before in any::<bool>(),
        rounds in prop::collection::vec(
            (prop::collection::vec(deed(), 1..5), 0..2_usize, any::<bool>()), 1..20),
    ) {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let [indexed, plain] = [open(&clock), open(&clock)];
        for db in [&indexed, &plain] {
            db.records().set_field("other", "x", "c").unwrap();
            if forked_before {
                db.fork("side", "main", At::Latest).unwrap();
            }
        }
        for fields in INDEXES[indexes] {
            indexed.records().add_index("", fields).unwrap();
        }
        indexed.fill_indexes().unwrap();
        for (place, (deeds, branch, stays_open)) in rounds.iter().enumerate() {
            clock.advance(Duration::from_millis(1));
            if place == 8 && !forked_before {
                for db in [&indexed, &plain] {
                    db.fork("side", "main", At::Latest).unwrap();
                }
            }
            let branch = if forked_before || place >= 8 { BRANCHES[*branch] } else { "main" };
            let [found, expected] = [&indexed, &plain].map(|db| picked(db, branch, deeds, *stays_open));
            prop_assert_eq!(found, expected, "round {} on {}", place, branch);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// With far more dead entries than a cached dead range needs, every record that comes back must be found.
    #[test]
    fn what_lives_among_the_dead_is_found(
        acts in prop::collection::vec((0..7_u8, 0..DEAD), 1..40),
    ) {
        let queue = Queue::new(DEAD);
        (0..DEAD).for_each(|i| queue.set(&format!("t.{i:03}"), "done"));
        let mut living = std::collections::BTreeSet::new();
        let mut views = Vec::new();
        for (act, i) in acts {
            match act {
                0 | 1 => {
                    queue.set(&format!("t.{i:03}"), "pending");
                    living.insert(i);
                }
                2 => prop_assert_eq!(queue.take(), living.pop_first().map(|i| format!("t.{i:03}"))),
                3 => {
                    let found = queue.0.records().count("t.", &from_rank(&i.to_string())).unwrap();
                    prop_assert_eq!(found, living.range(i..).count() as u64);
                }
                4 => views.push((queue.0.records().at(At::Latest).unwrap(), living.clone())),
                5 => queue.0.trim().unwrap(),
                _ => {
                    for (view, living) in &views {
                        let found = view.count("t.", &from_rank(&i.to_string())).unwrap();
                        prop_assert_eq!(found, living.range(i..).count() as u64);
                    }
                }
            }
            prop_assert_eq!(queue.count(), living.len() as u64);
        }
    }
}

/// Several times the number of entries from which dead ranges are cached.
const DEAD: usize = 300;

/// A pick of own records skips inherited ones, in any order, with an index and without one.
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

/// A queue whose front entries die all the time: picks and scans must find the live entries after them, and
/// entries that are put back.
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
            // An entry comes back within a dead range, and readers scan in between.
            assert_eq!(records.count("", &pending()).unwrap(), 999 - rank as u64);
            put(rank / 2);
            assert_eq!(records.count("", &pending()).unwrap(), 1_000 - rank as u64);
            assert_eq!(pick(), Some(format!("k{}", rank / 2)));
        }
    }
    assert_eq!(records.count("", &pending()).unwrap(), 100);
}

/// A queue of records, and a way to take one of them.
struct Queue(Database);

impl Queue {
    fn new(count: usize) -> Queue {
        let db = open(&ManualClock::new(1_700_000_000_000_000));
        db.records().add_index("t.", &["state", "rank"]).unwrap();
        for i in 0..count {
            let fields = [("state", "pending".to_owned()), ("rank", i.to_string())];
            db.records().put(&format!("t.{i:03}"), &Fields::of(fields).unwrap(), None).unwrap();
        }
        Queue(db)
    }

    fn set(&self, key: &str, state: &str) {
        self.0.records().set_field(key, "state", state).unwrap();
    }

    fn take(&self) -> Option<String> {
        let pick = RecordPick::under("t.", pending()).by("rank").unwrap();
        let pick = pick.set("state", "claimed").unwrap();
        self.0.records().pick(pick).unwrap().map(|(key, _)| key)
    }

    fn count(&self) -> u64 {
        self.0.records().count("t.", &pending()).unwrap()
    }
}

fn pending() -> Vec<Where> {
    vec![Where { field: field("state"), test: Test::Eq(b"pending".to_vec()) }]
}

fn from_rank(rank: &str) -> Vec<Where> {
    let from = Where { field: field("rank"), test: Test::Ge(rank.into()) };
    pending().into_iter().chain([from]).collect()
}

/// Takes and counts cache dead ranges of different shapes. Entries that come back within them must be found.
#[test]
fn a_record_that_comes_back_is_found_whoever_looked_where_before() {
    let queue = Queue::new(400);
    (0..400).for_each(|i| queue.set(&format!("t.{i:03}"), "done"));
    assert_eq!(queue.take(), None);
    assert_eq!(queue.0.records().count("t.", &from_rank("100")).unwrap(), 0);
    queue.set("t.200", "pending");
    assert_eq!(queue.count(), 1);
    assert_eq!(queue.take().as_deref(), Some("t.200"));
    assert_eq!((queue.take(), queue.count()), (None, 0));
}

#[test]
fn a_record_that_comes_back_is_found_though_an_older_view_looked_at_a_part() {
    let queue = Queue::new(400);
    (0..400).for_each(|i| queue.set(&format!("t.{i:03}"), "done"));
    let old = queue.0.records().at(At::Latest).unwrap();
    queue.0.records().set_field("other", "a", "b").unwrap();
    assert_eq!(queue.count(), 0);
    assert_eq!(old.count("t.", &from_rank("100")).unwrap(), 0);
    queue.set("t.200", "pending");
    assert_eq!(queue.count(), 1);
    assert_eq!(queue.0.records().count("t.", &from_rank("50")).unwrap(), 1);
    assert_eq!(old.count("t.", &pending()).unwrap(), 0);
}

#[test]
fn a_record_that_comes_back_is_found_behind_a_compaction_half_way() {
    let queue = Queue::new(1_000);
    (0..500).for_each(|_| drop(queue.take().unwrap()));
    let view = queue.0.records().at(At::Latest).unwrap();
    (0..500).for_each(|_| drop(queue.take().unwrap()));
    assert_eq!(queue.take(), None);
    queue.0.trim().unwrap();
    assert_eq!((queue.count(), view.count("t.", &pending()).unwrap()), (0, 500));
    queue.set("t.700", "pending");
    assert_eq!(queue.take().as_deref(), Some("t.700"));
    assert_eq!((queue.take(), queue.count()), (None, 0));
    assert_eq!(view.count("t.", &pending()).unwrap(), 500);
}

/// Of records with the same rank, the one with the first key is picked, even if an index has them in another
/// order.
#[test]
fn ties_go_by_key_whatever_stands_behind_the_rank() {
    for index in [&["x", "y"][..], &["x", "y", "z"], &[]] {
        let db = open(&ManualClock::new(1_700_000_000_000_000));
        if !index.is_empty() {
            db.records().add_index("", index).unwrap();
        }
        for (key, z) in [("k1", "9"), ("k2", "1"), ("k3", "5")] {
            let fields = Fields::of([("x", "a"), ("y", "1"), ("z", z)]).unwrap();
            db.records().put(key, &fields, None).unwrap();
        }
        let filters = vec![Where { field: field("x"), test: Test::Eq(b"a".to_vec()) }];
        let pick = RecordPick::under("", filters).by("y").unwrap().set("x", "b").unwrap();
        let picked = db.records().pick(pick).unwrap().map(|(key, _)| key);
        assert_eq!(picked.as_deref(), Some("k1"), "{index:?}");
    }
}

/// An open transaction with a pick conflicts with records that would come first, and not with later ones.
#[test]
fn an_open_pick_minds_what_could_come_first() {
    let committed = |by: Option<&str>, other: &str| {
        let queue = Queue::new(10);
        queue.set("t.000", "done");
        let pick = RecordPick::under("t.", pending()).set("state", "claimed").unwrap();
        let mut open = queue.0.begin().unwrap();
        let picked = open.run(by.map_or(pick.clone(), |by| pick.by(by).unwrap())).unwrap();
        assert!(matches!(picked, Answer::Picked(Some(picked)) if picked.0 == "t.001"));
        queue.set(other, "pending");
        open.commit().map(drop).map_err(|error| error.code())
    };
    assert_eq!(committed(None, "t.000"), Err(Code::Conflict));
    assert_eq!(committed(None, "t.001"), Err(Code::Conflict));
    assert_eq!(committed(None, "t.002"), Ok(()));
    assert_eq!(committed(Some("rank"), "t.000"), Err(Code::Conflict));
    assert_eq!(committed(Some("rank"), "t.020"), Err(Code::Conflict));
    assert_eq!(committed(Some("rank"), "u.000"), Ok(()));
}

#[test]
fn indexes_go_with_an_exported_branch() {
    let from = open(&ManualClock::new(1_700_000_000_000_000));
    let to = Database::memory().unwrap();
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

#[test]
fn entries_have_a_limit_of_their_own() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let db = open(&clock);
    let mut names: Vec<String> = (0..8).map(|number| format!("f{number}")).collect();
    for number in 0..64 {
        let fields: Vec<&str> = names.iter().map(String::as_str).collect();
        db.records().add_index(&"k".repeat(number / 8), &fields).unwrap();
        names.rotate_left(1);
    }
    // Records are small, but their index entries take a hundred times as many bytes.
    let write = |number: usize| {
        let key = format!("{}{number}", "k".repeat(1000));
        let write = RecordWrite::to(&key).unwrap();
        names.iter().fold(write, |write, name| write.set(name, "v".repeat(48)).unwrap())
    };
    let all = |count: usize| (0..count).fold(Transaction::new(), |all, n| all.step(write(n)));
    db.execute(all(20)).unwrap();
    let before = db.revision();
    let refusal = db.execute(all(1_500)).unwrap_err();
    assert_eq!(refusal.code(), Code::TransactionTooLarge);
    assert!(refusal.to_string().contains("drop an index"), "{refusal}");
    assert_eq!((db.revision(), db.records().count("", &[]).unwrap()), (before, 20));
}
