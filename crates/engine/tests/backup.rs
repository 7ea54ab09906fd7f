//! Backups: what is in them, what an index filled from one answers, and what is refused.

use mainstay::{
    At, BranchInfo, CellCommand, Code, Database, Durability, Filter, HistoryEntry, ManualClock,
    MergeStrategy, Name, Options, Receipt, RequestId, Revision, Stamp, TagInfo, Transaction, Ttl,
    Value, verify_backup,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);

fn clock() -> Arc<ManualClock> {
    ManualClock::new(1_700_000_000_000_000)
}

/// Small buffers and segments, and three classes that keep their history for different times.
fn options(clock: &Arc<ManualClock>) -> Options {
    Options::new()
        .durability(Durability::Memory)
        .clock(clock.clone())
        .sweep_interval(None)
        .write_buffer_bytes(64 << 10)
        .segment_bytes(16 << 10)
        .retention(7 * DAY)
        .retention_class("log/", None)
        .retention_class("tmp/", Some(10 * MINUTE))
        .feed_retention(Duration::ZERO, 0)
}

fn fill(db: &Database, clock: &ManualClock, rounds: i64) {
    for round in 0..rounds {
        clock.advance(Duration::from_secs(7));
        for name in ["plain", "log/a", "log/b", "tmp/x"] {
            db.cells().set(name, round).unwrap();
        }
    }
}

fn named() -> Transaction {
    let name = Name::new("by request").unwrap();
    let step = CellCommand::set(name, "once");
    Transaction::new().step(step).request(RequestId::new("request 1").unwrap())
}

/// Something of everything: history, deletions, expiries, branches, tags, merges, receipts.
fn furnish(db: &Database, clock: &ManualClock) -> Receipt {
    fill(db, clock, 60);
    let cells = db.cells();
    cells.set("gone", 1).unwrap();
    cells.delete("gone").unwrap();
    cells.set_with("short", "lived", Ttl::Millis(60_000)).unwrap();
    cells.set_with("long", "lived", Ttl::Millis(30 * 86_400_000)).unwrap();
    db.fork("side", "main", At::Revision(40)).unwrap();
    db.branch("side").unwrap().cells().set("plain", "on the side").unwrap();
    db.fork("merged", "main", At::Latest).unwrap();
    db.branch("merged").unwrap().cells().set("from merged", 1).unwrap();
    db.merge("merged", "main", MergeStrategy::Strict).unwrap();
    db.fork("dropped", "main", At::Latest).unwrap();
    db.branch("dropped").unwrap().cells().set("plain", "never seen again").unwrap();
    db.delete_branch("dropped").unwrap();
    db.tag("early", "main", At::Revision(50)).unwrap();
    db.tag("removed", "main", At::Latest).unwrap();
    db.untag("removed").unwrap();
    let receipt = db.execute(named()).unwrap();
    clock.advance(2 * MINUTE);
    db.sweep().unwrap();
    receipt
}

/// What a database answers to every question that is asked here.
#[derive(Debug, PartialEq)]
struct Answers {
    revision: Revision,
    branches: Vec<BranchInfo>,
    tags: Vec<TagInfo>,
    hashes: Vec<[u8; 32]>,
    histories: Vec<(String, Vec<HistoryEntry>)>,
    past: Vec<Vec<Result<Option<Value>, Code>>>,
    stamps: Vec<Result<Stamp, Code>>,
    by_stamp: Vec<Result<Revision, Code>>,
}

fn answers(db: &Database) -> Answers {
    let revision = db.revision();
    let branches = db.branches();
    let mut histories = Vec::new();
    for branch in &branches {
        let cells = db.branch(&branch.name).unwrap().cells();
        for name in ["plain", "log/a", "log/b", "tmp/x", "gone", "short", "long", "by request"] {
            histories.push((format!("{}: {name}", branch.name), history(&cells, name)));
        }
    }
    let past = |revision| {
        let cells = match db.cells().at(At::Revision(revision)) {
            Ok(cells) => cells,
            Err(error) => return vec![Err(error.code())],
        };
        let names = ["plain", "log/a", "tmp/x", "gone", "short", "long"];
        names.iter().map(|name| cells.get(name).map_err(|error| error.code())).collect()
    };
    let stamps = (0..=revision).map(|r| db.stamp_of(r).map_err(|error| error.code()));
    let stamps: Vec<_> = stamps.collect();
    let known = stamps.iter().flatten();
    Answers {
        revision,
        hashes: branches.iter().map(|b| db.export_hash(&b.name).unwrap()).collect(),
        branches,
        tags: db.tags(),
        histories,
        past: (0..=revision).map(past).collect(),
        by_stamp: known.map(|s| db.revision_at(*s).map_err(|error| error.code())).collect(),
        stamps,
    }
}

fn history(cells: &mainstay::Cells, name: &str) -> Vec<HistoryEntry> {
    cells.history(name, 100_000, None).unwrap()
}

#[track_caller]
fn assert_same(db: &Database, expected: &Answers) {
    let found = answers(db);
    assert_eq!(found.revision, expected.revision);
    assert_eq!(found.branches, expected.branches);
    for (found, expected) in found.histories.iter().zip(&expected.histories) {
        assert!(found == expected, "{}: {:#?}", found.0, (found.1.len(), expected.1.len()));
    }
    assert!(found == *expected, "the same cells, but not the same in all");
}

fn backup(db: &Database, path: &Path) -> mainstay::BackupReport {
    db.backup(path, &mut |_| {}).unwrap()
}

/// Every file and directory below a directory, with its bytes.
fn contents(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => {
                all.extend(contents(&path));
                all.push((path, None));
            }
            false => all.push((path.clone(), Some(fs::read(&path).unwrap()))),
        }
    }
    all.sort();
    all
}

/// A directory with a database `db` whose log is trimmed, a backup `base` of it, and what it
/// answered when it was closed, some revisions later.
struct Case {
    root: TempDir,
    clock: Arc<ManualClock>,
    report: mainstay::BackupReport,
    expected: Answers,
    receipt: Receipt,
}

impl Case {
    fn new() -> Case {
        let (root, clock) = (tempfile::tempdir().unwrap(), clock());
        let db = options(&clock).open(root.path().join("db")).unwrap();
        let receipt = furnish(&db, &clock);
        clock.advance(MINUTE);
        fill(&db, &clock, 3);
        db.trim().unwrap();
        assert!(db.stats().log_first > 1, "the log is trimmed: {:?}", db.stats());
        fill(&db, &clock, 2);
        let report = backup(&db, &root.path().join("base"));
        fill(&db, &clock, 2);
        db.branch("side").unwrap().cells().delete("plain").unwrap();
        let expected = answers(&db);
        db.close().unwrap();
        Case { root, clock, report, expected, receipt }
    }

    fn db(&self) -> PathBuf {
        self.root.path().join("db")
    }

    fn base(&self) -> PathBuf {
        self.root.path().join("base")
    }

    fn options(&self) -> Options {
        options(&self.clock)
    }

    fn lose_index(&self) {
        fs::remove_dir_all(self.db().join("index")).unwrap();
    }

    /// Opening with a base is refused, and leaves everything as it was.
    #[track_caller]
    fn assert_refused(&self, base: &Path, code: Code, words: &[&str]) {
        let before = contents(&self.db());
        let error = self.options().base(base).open(self.db()).err().expect("it is refused");
        assert_eq!(error.code(), code, "{error}");
        for word in words.iter().chain(&[base.file_name().unwrap().to_str().unwrap()]) {
            assert!(error.message().contains(word), "{error} does not say {word}");
        }
        assert!(contents(&self.db()) == before, "refusing changed something");
    }
}

#[test]
fn a_restored_database_answers_like_the_one_backed_up() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let db = options(&clock).open(root.path().join("db")).unwrap();
    let receipt = furnish(&db, &clock);
    db.trim().unwrap();
    fill(&db, &clock, 3);
    let base = root.path().join("base");
    let report = backup(&db, &base);
    assert_eq!(report.revision, db.revision());
    assert_eq!(report.bytes, base.metadata().unwrap().len());
    assert_eq!(verify_backup(&base).unwrap(), report);
    assert_eq!(contents(root.path()).iter().filter(|(path, _)| path.is_file()).count(), {
        contents(&root.path().join("db")).iter().filter(|(path, _)| path.is_file()).count() + 1
    });
    let expected = answers(&db);

    let copy = root.path().join("copy");
    for round in 0..2 {
        let db = options(&clock).base(&base).open(&copy).unwrap();
        assert_eq!(db.open_report().base, (round == 0).then_some(report.revision));
        assert_eq!(db.open_report().rebuilt, None);
        assert_same(&db, &expected);
        let past = db.watch(Filter::default(), report.revision - 1).err().unwrap();
        assert_eq!(past.code(), Code::HistoryTrimmed);
        assert!(db.watch(Filter::default(), report.revision).is_ok());
    }
    let restored = options(&clock).open(&copy).unwrap();
    let repeated = restored.execute(named()).unwrap();
    assert_eq!(repeated, Receipt { repeated: true, ..receipt });
    assert_eq!(restored.revision(), report.revision, "nothing was done twice");

    // Both go on alike: revisions, counters, expiries, merges.
    for db in [&db, &restored] {
        db.branch("side").unwrap().cells().set("plain", "later").unwrap();
        db.merge("side", "main", MergeStrategy::Theirs).unwrap();
        assert_eq!(db.cells().get("long").unwrap(), Some("lived".into()));
    }
    clock.advance(31 * DAY);
    for db in [&db, &restored] {
        assert_eq!(db.cells().get("long").unwrap(), None);
        assert!(db.sweep().unwrap() > 0);
        db.trim().unwrap();
    }
    assert_eq!(
        restored.cells().list("", None, 100).unwrap(),
        db.cells().list("", None, 100).unwrap()
    );
    assert_eq!(restored.revision(), db.revision());
    let events = |db: &Database| {
        let mut feed = db.watch(Filter::default(), db.stats().log_first).unwrap();
        std::iter::from_fn(|| feed.next(Duration::ZERO).unwrap()).count()
    };
    assert!(events(&restored) <= events(&db));
    assert_eq!(
        restored.diff("main", "side").unwrap().len(),
        db.diff("main", "side").unwrap().len()
    );
}

#[test]
fn other_classes_and_an_empty_database_are_restored_too() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let db = options(&clock).memory().unwrap();
    let empty = root.path().join("empty");
    assert_eq!(backup(&db, &empty).revision, 0);
    let restored = options(&clock).base(&empty).open(root.path().join("a")).unwrap();
    assert_eq!(restored.revision(), 0);
    restored.cells().set("a", 1).unwrap();
    assert_eq!(restored.revision(), 1);

    furnish(&db, &clock);
    let base = root.path().join("base");
    backup(&db, &base);
    let other = Options::new().clock(clock.clone()).retention_class("p", None).base(&base);
    let restored = other.open(root.path().join("b")).unwrap();
    assert_eq!(restored.export_hash("main").unwrap(), db.export_hash("main").unwrap());
    assert_eq!(restored.export_hash("side").unwrap(), db.export_hash("side").unwrap());
    let exists = db.backup(&base, &mut |_| {}).unwrap_err();
    assert_eq!(exists.code(), Code::InvalidArgument);
    let in_memory = Options::new().base(&base).memory().err().unwrap();
    assert_eq!(in_memory.code(), Code::InvalidOption);
}

/// Whatever happens while a backup is written, it shows the revision that it began with.
#[test]
fn writes_and_trims_meanwhile_are_not_in_it() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let settings = options(&clock).retention(MINUTE).reader_limit(7 * DAY);
    let db = settings.open(root.path().join("db")).unwrap();
    furnish(&db, &clock);
    for i in 0..2000 {
        db.cells().set(&format!("many/{i:04}"), i).unwrap();
    }
    let expected = answers(&db);
    let base = root.path().join("base");
    let mut calls = 0;
    let report = db
        .backup(&base, &mut |_| {
            calls += 1;
            if calls > 1 {
                return;
            }
            // All that the backup still has to read changes, and retention wants the old of it.
            fill(&db, &clock, 20);
            for i in 0..2000 {
                db.cells().set(&format!("many/{i:04}"), "later").unwrap();
            }
            db.untag("early").unwrap();
            db.tag("late", "main", At::Latest).unwrap();
            db.rename_branch("side", "elsewhere").unwrap();
            db.delete_branch("merged").unwrap();
            clock.advance(2 * DAY);
            db.sweep().unwrap();
            db.trim().unwrap();
            let pins = db.pins();
            assert!(pins.iter().any(|pin| pin.holder == "backup"), "{pins:?}");
        })
        .unwrap();
    assert!(calls > 1);
    assert_eq!(report.revision, expected.revision);
    // The receipt of the named request has expired since, so time goes back for the copy.
    let restored = options(&self::clock()).retention(MINUTE).base(&base);
    let restored = restored.open(root.path().join("copy")).unwrap();
    assert_same(&restored, &expected);
    assert!(restored.execute(named()).unwrap().repeated);
    assert!(!db.pins().iter().any(|pin| pin.holder == "backup"), "it is let go of");
}

/// What is trimmed because a backup outlived its pin is trimmed in it as well; when that is more
/// than its own past, there is no backup.
#[test]
fn a_backup_that_outlives_its_pin_is_true_or_none() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let settings = || options(&clock).retention_class("many/", None);
    let db = settings().memory().unwrap();
    for i in 0..2000 {
        db.cells().set(&format!("many/{i:04}"), i).unwrap();
    }
    fill(&db, &clock, 20);
    // Longer than a reader may hold history back, and than `tmp/` is kept.
    let late = 120 * MINUTE;
    let outlive = |name: &str, before: Duration, after: Duration| {
        let mut left = 1;
        db.backup(&root.path().join(name), &mut |_| {
            if std::mem::take(&mut left) > 0 {
                clock.advance(before);
                fill(&db, &clock, 1);
                clock.advance(after);
                db.trim().unwrap();
            }
        })
    };
    let report = outlive("base", late, Duration::ZERO).unwrap();
    let then = db.cells().at(At::Revision(report.revision)).unwrap();
    let copy = settings().base(root.path().join("base")).open(root.path().join("copy")).unwrap();
    for name in ["plain", "tmp/x", "log/a", "many/1999"] {
        assert_eq!(copy.cells().get(name).unwrap(), then.get(name).unwrap(), "{name}");
    }
    assert_eq!(history(&copy.cells(), "tmp/x").len(), 1);
    let past = copy.cells().at(At::Revision(report.revision - 1)).unwrap();
    assert_eq!(past.get("tmp/x").unwrap_err().code(), Code::HistoryTrimmed);

    let error = outlive("none", Duration::ZERO, late).unwrap_err();
    assert_eq!(error.code(), Code::HistoryTrimmed);
    assert!(error.message().contains("reader_limit"), "{error}");
    assert!(
        !fs::read_dir(root.path())
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_str().unwrap().starts_with("none") })
    );
}

#[test]
fn a_backup_under_way_shows_one_revision() {
    let root = tempfile::tempdir().unwrap();
    let settings = || Options::new().durability(Durability::Memory).write_buffer_bytes(256 << 10);
    let db = settings().open(root.path().join("db")).unwrap();
    for i in 0..3000 {
        db.cells().set(&format!("cell/{i:04}"), 0).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut n = 0_i64;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let name = |i: i64| Name::new(&format!("cell/{:04}", i % 3000)).unwrap();
                    // Two cells of one transaction: half of it would be seen.
                    let both = Transaction::new()
                        .step(CellCommand::set(name(n * 7 + thread), n))
                        .step(CellCommand::set(name(n * 11 + 1500), n));
                    db.execute(both).unwrap();
                }
            });
        }
        for round in 0..4 {
            let base = root.path().join(format!("base {round}"));
            let report = backup(&db, &base);
            let copy = root.path().join(format!("copy {round}"));
            let restored = settings().base(&base).open(copy).unwrap();
            let then = format!("then {round}");
            db.fork(&then, "main", At::Revision(report.revision)).unwrap();
            assert_eq!(restored.revision(), report.revision);
            assert_eq!(restored.export_hash("main").unwrap(), db.export_hash(&then).unwrap());
            let at = db.cells().at(At::Revision(report.revision)).unwrap();
            for i in (0..3000).step_by(97) {
                let name = format!("cell/{i:04}");
                assert_eq!(
                    history(&restored.cells(), &name),
                    at.history(&name, 100_000, None).unwrap()
                );
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_lost_index_over_a_trimmed_log_comes_back_from_a_base() {
    let case = Case::new();
    let whole = contents(&case.db());
    let lose: [&dyn Fn(); 2] = [&|| case.lose_index(), &|| {
        let mark = case.db().join("index/MARK");
        let mut bytes = fs::read(&mark).unwrap();
        bytes[20] ^= 1;
        fs::write(&mark, bytes).unwrap();
    }];
    for lose in lose {
        fs::remove_dir_all(case.db()).unwrap();
        for (path, bytes) in &whole {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match bytes {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::create_dir_all(path).unwrap(),
            }
        }
        lose();
        let before = contents(&case.db());
        let error = case.options().open(case.db()).err().expect("the log alone does not suffice");
        assert_eq!(error.code(), Code::CorruptIndex);
        assert!(error.message().contains("Options::base"), "{error}");
        assert!(contents(&case.db()) == before);
        let db = case.options().base(case.base()).open(case.db()).unwrap();
        let report = db.open_report().clone();
        assert_eq!(report.base, Some(case.report.revision));
        assert_eq!(report.replayed, case.expected.revision - case.report.revision);
        assert!(report.rebuilt.is_some());
        assert_same(&db, &case.expected);
        assert_eq!(
            db.execute(named()).unwrap(),
            Receipt { repeated: true, ..case.receipt.clone() }
        );
        drop(db);
        let db = case.options().base("no such file").open(case.db()).unwrap();
        assert_eq!(db.open_report().base, None, "with an index, no base is asked for");
        assert_same(&db, &case.expected);
        fill(&db, &case.clock, 1);
        db.trim().unwrap();
    }
}

#[test]
fn the_log_alone_is_preferred_where_it_reaches() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let settings = || options(&clock).feed_retention(DAY, 1 << 30);
    let db = settings().open(root.path().join("db")).unwrap();
    furnish(&db, &clock);
    let base = root.path().join("base");
    backup(&db, &base);
    let expected = answers(&db);
    drop(db);
    fs::remove_dir_all(root.path().join("db/index")).unwrap();
    let db = settings().base(&base).open(root.path().join("db")).unwrap();
    assert_eq!(db.open_report().base, None);
    assert_same(&db, &expected);
}

#[test]
fn a_base_of_the_last_revision_suffices() {
    let case = Case::new();
    let base = case.root.path().join("last");
    let db = case.options().open(case.db()).unwrap();
    assert_eq!(backup(&db, &base).revision, case.expected.revision);
    drop(db);
    case.lose_index();
    let db = case.options().base(&base).open(case.db()).unwrap();
    assert_eq!(db.open_report().replayed, 0);
    assert_same(&db, &case.expected);
}

/// Where an error says that a file is damaged.
fn named_byte(error: &mainstay::Error) -> usize {
    let (_, rest) = error.message().split_once("at byte ").expect("it names the place");
    rest.split(':').next().unwrap().parse().unwrap()
}

#[test]
fn every_flipped_byte_is_refused() {
    let case = Case::new();
    case.lose_index();
    let whole = fs::read(case.base()).unwrap();
    let damaged = case.root.path().join("damaged base");
    let refused = |bytes: &[u8], at: usize| {
        fs::write(&damaged, bytes).unwrap();
        let error = verify_backup(&damaged).err().unwrap_or_else(|| panic!("byte {at} was missed"));
        // The format may have become a newer one.
        let newer = (8..12).contains(&at) && error.code() == Code::NewerFormat;
        assert!(newer || error.code() == Code::CorruptData, "byte {at}: {error}");
        assert!(error.message().contains("damaged base"), "byte {at}: {error}");
        error
    };
    for at in (0..whole.len()).filter(|at| *at < 64 || at % 7 == 0 || *at + 64 > whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let error = refused(&bytes, at);
        if (40..whole.len() - 32).contains(&at) {
            assert!(named_byte(&error) <= at, "byte {at}: {error} does not name its block");
        }
        if at % (7 * 64) == 0 {
            case.assert_refused(&damaged, error.code(), &["damaged"]);
            let copy = case.root.path().join("copy");
            let again = case.options().base(&damaged).open(&copy).err().expect("it is refused");
            assert_eq!(again.code(), error.code());
            assert!(!copy.exists(), "nothing was made");
        }
    }
    for cut in [0, 7, 39, 40, 47, whole.len() / 2, whole.len() - 33, whole.len() - 1] {
        let error = refused(&whole[..cut], cut);
        assert_eq!(error.code(), Code::CorruptData);
        assert!(error.message().contains("at byte"), "cut at {cut}: {error}");
    }
    refused(&[&whole[..], b"x"].concat(), whole.len());
    case.assert_refused(&damaged, Code::CorruptData, &["checksum", "nothing was changed"]);
    let db = case.options().base(case.base()).open(case.db()).unwrap();
    assert_same(&db, &case.expected);
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let case = Case::new();
    case.lose_index();
    let mut bytes = fs::read(case.base()).unwrap();
    bytes[8] = 9;
    let newer = case.root.path().join("newer");
    fs::write(&newer, bytes).unwrap();
    case.assert_refused(&newer, Code::NewerFormat, &["format 9", "use a newer one"]);
    let export = case.root.path().join("export");
    fs::write(&export, [b'x'; 100]).unwrap();
    case.assert_refused(&export, Code::CorruptData, &["is not a backup"]);
    case.assert_refused(&case.root.path().join("none"), Code::Io, &["open"]);
}

#[test]
fn a_base_of_another_database_is_refused() {
    let case = Case::new();
    case.lose_index();
    let other = case.options().memory().unwrap();
    fill(&other, &case.clock, 80);
    let base = case.root.path().join("other");
    let report = backup(&other, &base);
    let words = ["backup of database", &report.database.to_string()];
    case.assert_refused(&base, Code::InvalidArgument, &words);
}

#[test]
fn a_base_that_the_log_does_not_go_on_from_is_refused() {
    let case = Case::new();
    let db = case.options().open(case.db()).unwrap();
    fill(&db, &case.clock, 400);
    db.trim().unwrap();
    let (first, last) = (db.stats().log_first, db.revision());
    assert!(first > case.report.revision + 1);
    let early = contents(&case.db().join("log"));
    fill(&db, &case.clock, 1);
    let late = case.root.path().join("late");
    let late_revision = backup(&db, &late).revision;
    drop(db);
    case.lose_index();
    let missing = format!("revisions {} to {} are missing", case.report.revision + 1, first - 1);
    case.assert_refused(&case.base(), Code::CorruptIndex, &[&missing]);

    // The log loses its end: a base that is ahead of it does not make up for that.
    fs::remove_dir_all(case.db().join("log")).unwrap();
    fs::create_dir(case.db().join("log")).unwrap();
    for (path, bytes) in &early {
        fs::write(path, bytes.as_ref().unwrap()).unwrap();
    }
    let missing = format!("revisions {} to {late_revision} are missing", last + 1);
    case.assert_refused(&late, Code::CorruptIndex, &[&missing]);
}

#[test]
fn a_restore_that_was_cut_short_is_begun_again() {
    let case = Case::new();
    let copy = case.root.path().join("copy");
    let restore = || case.options().base(case.base()).open(&copy);
    let expected = answers(&restore().unwrap());
    // The header file is what makes it a database, and the last to be written.
    fs::remove_file(copy.join("DATABASE")).unwrap();
    let before = contents(&copy);
    let error = case.options().open(&copy).err().expect("half a restore is no database");
    assert_eq!(error.code(), Code::ForeignDirectory);
    assert!(error.message().contains("cut short"), "{error}");
    assert!(contents(&copy) == before);
    assert_same(&restore().unwrap(), &expected);

    fs::remove_file(copy.join("DATABASE")).unwrap();
    fs::remove_dir_all(copy.join("log")).unwrap();
    assert_same(&restore().unwrap(), &expected);

    // A log that holds something is not what a restore leaves.
    let db = restore().unwrap();
    db.cells().set("plain", "written since").unwrap();
    drop(db);
    fs::remove_file(copy.join("DATABASE")).unwrap();
    let before = contents(&copy);
    assert_eq!(restore().err().unwrap().code(), Code::ForeignDirectory);
    assert!(contents(&copy) == before);
}

#[test]
fn a_restore_leaves_what_is_not_ours_alone() {
    let case = Case::new();
    let foreign = case.root.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.txt"), "chapter one").unwrap();
    let error = case.options().base(case.base()).open(&foreign).err().unwrap();
    assert_eq!(error.code(), Code::ForeignDirectory);
    assert_eq!(contents(&foreign).len(), 1);
}

#[test]
fn a_backup_that_fails_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let error = db.backup(&root.path().join("no/such/directory"), &mut |_| {}).unwrap_err();
    assert_eq!(error.code(), Code::Io);
    db.close().unwrap();
    assert_eq!(db.backup(&root.path().join("a"), &mut |_| {}).unwrap_err().code(), Code::Closed);
    assert!(contents(root.path()).is_empty());
}

/// Blocks of stamps that the log alone still needed may go while a backup is written.
#[test]
fn stamps_that_go_meanwhile_are_left_out() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let hours = |count: u32| count * 60 * MINUTE;
    let settings = || {
        let options = Options::new().durability(Durability::Memory).sweep_interval(None);
        let options = options.clock(clock.clone()).segment_bytes(16 << 10);
        options.retention(hours(1)).feed_retention(hours(5), u64::MAX).reader_limit(hours(24))
    };
    let db = settings().open(root.path().join("db")).unwrap();
    for i in 0..2000 {
        db.cells().set(&format!("many/{i:04}"), i).unwrap();
    }
    for round in 0..10 {
        clock.advance(25 * MINUTE);
        db.cells().set("plain", vec![round; 4000]).unwrap();
        db.trim().unwrap();
    }
    let (revision, floor) = (db.revision(), db.stats().floor);
    assert!(floor > 2000 && db.stats().log_first == 1, "{:?}", db.stats());
    let base = root.path().join("base");
    let mut calls = 0;
    let report = db.backup(&base, &mut |_| {
        calls += 1;
        if calls == 1 {
            for _ in 0..10 {
                clock.advance(hours(1));
                db.cells().set("plain", vec![9; 4000]).unwrap();
                db.trim().unwrap();
            }
            db.trim().unwrap();
            assert!(db.stats().log_first > 1, "{:?}", db.stats());
        }
    });
    assert_eq!(report.unwrap().revision, revision);
    let copy = settings().base(&base).open(root.path().join("copy")).unwrap();
    for revision in floor..=revision {
        assert_eq!(copy.stamp_of(revision).unwrap(), db.stamp_of(revision).unwrap());
    }
}

/// A restore for other classes writes the index anew, and may be cut short in the middle of that.
#[test]
fn a_restore_that_was_cut_short_between_classes_is_begun_again() {
    let case = Case::new();
    let copy = case.root.path().join("copy");
    let restore = || case.options().retention_class("other/", None).base(case.base()).open(&copy);
    let expected = answers(&restore().unwrap());
    fs::remove_file(copy.join("DATABASE")).unwrap();
    fs::remove_dir_all(copy.join("log")).unwrap();
    fs::rename(copy.join("index"), copy.join("index.old")).unwrap();
    let before = contents(&copy);
    let error = case.options().open(&copy).err().expect("half a restore is no database");
    assert_eq!(error.code(), Code::ForeignDirectory);
    assert!(error.message().contains("cut short"), "{error}");
    assert!(contents(&copy) == before);
    assert_same(&restore().unwrap(), &expected);
}

/// Frames hold many transactions: the feed resumes within one, and an index may end within one.
#[test]
fn places_within_a_frame_are_found_again() {
    let (root, clock) = (tempfile::tempdir().unwrap(), clock());
    let settings = || {
        let options = Options::new().clock(clock.clone()).sweep_interval(None);
        options.write_buffer_bytes(64 << 10).segment_bytes(64 << 10)
    };
    let set = |i: i64| {
        let name = Name::new(&format!("k{:02}", i % 50)).unwrap();
        Transaction::new().step(CellCommand::set(name, i))
    };
    let follow = |db: &Database, after: Revision| {
        let mut feed = db.watch(Filter::default(), after).unwrap();
        let mut told = Vec::new();
        while let Some(event) = feed.next(Duration::ZERO).unwrap() {
            told.push((event.revision, event.value));
        }
        told
    };
    let expected = |after: i64| -> Vec<_> {
        (after + 1..=3000).map(|i| (i as Revision, Some(Value::Int(i)))).collect()
    };
    let db = settings().open(root.path().join("db")).unwrap();
    assert!(db.execute_all((1..=3000).map(set).collect()).iter().all(Result::is_ok));
    drop(db);
    for after in [0, 1, 511, 1023, 1024, 1500, 2999, 3000] {
        let db = settings().open(root.path().join("db")).unwrap();
        assert_eq!(follow(&db, after as Revision), expected(after), "after {after}");
        let then = db.cells().at(At::Revision(after as Revision)).unwrap();
        assert_eq!(then.get("k01").unwrap(), (1..=after).rfind(|i| i % 50 == 1).map(Value::Int));
        assert_eq!(db.revision(), 3000);
    }
}

/// A copy has the id of the database it was restored from, but goes a way of its own.
#[test]
fn a_base_of_a_copy_that_went_another_way_is_refused() {
    let case = Case::new();
    let copy = case.options().base(case.base()).open(case.root.path().join("copy")).unwrap();
    fill(&copy, &case.clock, 1);
    let base = case.root.path().join("of the copy");
    assert!(backup(&copy, &base).revision <= case.expected.revision);
    case.lose_index();
    case.assert_refused(&base, Code::CorruptIndex, &["another copy"]);
    assert_same(&case.options().base(case.base()).open(case.db()).unwrap(), &case.expected);
}
