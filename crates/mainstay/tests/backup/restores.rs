//! Restore of a backup into an empty directory.

use super::*;

/// Asserts that an incomplete restore is refused without its base, and is not changed.
fn assert_cut_short(case: &Case, copy: &Path) {
    let before = contents(copy);
    let error = case.options().open(copy).err().expect("half a restore is no database");
    assert_eq!(error.code(), Code::ForeignDirectory);
    assert!(error.message().contains("cut short"), "{error}");
    assert!(contents(copy) == before);
}

#[test]
fn a_restored_database_answers_like_the_one_backed_up() {
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
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

    // Both databases continue alike: revisions, counters, expiries, merges.
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
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
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

#[test]
fn a_restore_that_was_cut_short_is_begun_again() {
    let case = Case::new();
    let copy = case.root.path().join("copy");
    let restore = || case.options().base(case.base()).open(&copy);
    let expected = answers(&restore().unwrap());
    // The header file makes the directory a database, and it is written last.
    fs::remove_file(copy.join("DATABASE")).unwrap();
    assert_cut_short(&case, &copy);
    assert_same(&restore().unwrap(), &expected);

    fs::remove_file(copy.join("DATABASE")).unwrap();
    fs::remove_dir_all(copy.join("log")).unwrap();
    assert_same(&restore().unwrap(), &expected);

    // A restore leaves an empty log, so a log with data is refused.
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

/// A restore with other retention classes rewrites the index, and may be interrupted in the middle.
#[test]
fn a_restore_that_was_cut_short_between_classes_is_begun_again() {
    let case = Case::new();
    let copy = case.root.path().join("copy");
    let restore = || case.options().retention_class("other/", None).base(case.base()).open(&copy);
    let expected = answers(&restore().unwrap());
    fs::remove_file(copy.join("DATABASE")).unwrap();
    fs::remove_dir_all(copy.join("log")).unwrap();
    fs::rename(copy.join("index"), copy.join("index.old")).unwrap();
    assert_cut_short(&case, &copy);
    assert_same(&restore().unwrap(), &expected);
}
