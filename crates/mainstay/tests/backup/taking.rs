//! Backups that run beside writes, trims and failures.

use super::*;

/// A backup shows the revision at which it began, whatever happens while it is written.
#[test]
fn writes_and_trims_meanwhile_are_not_in_it() {
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
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
            // Changes everything that the backup still has to read. Retention would now trim the old
            // versions.
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
    // The receipt of the named request has expired since, so the copy gets an earlier clock.
    let restored = options(&self::clock()).retention(MINUTE).base(&base);
    let restored = restored.open(root.path().join("copy")).unwrap();
    assert_same(&restored, &expected);
    assert!(restored.execute(named()).unwrap().repeated);
    assert!(!db.pins().iter().any(|pin| pin.holder == "backup"), "it is let go of");
}

/// Versions that are trimmed because a backup outlived its pin are missing from the backup, too. If its own
/// revision is trimmed, the backup fails.
#[test]
fn a_backup_that_outlives_its_pin_is_true_or_none() {
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = || options(&clock).retention_class("many/", None);
    let db = settings().memory().unwrap();
    for i in 0..2000 {
        db.cells().set(&format!("many/{i:04}"), i).unwrap();
    }
    fill(&db, &clock, 20);
    // Longer than a reader may hold back trimming, and longer than the retention of `tmp/`.
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
            let db = &db;
            let stop = &stop;
            scope.spawn(move || {
                let mut n = 0_i64;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let name = |i: i64| Name::new(&format!("cell/{:04}", i % 3000)).unwrap();
                    // Two cells in one transaction, so that a partial transaction would be visible.
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
fn a_backup_that_fails_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let error = db.backup(&root.path().join("no/such/directory"), &mut |_| {}).unwrap_err();
    assert_eq!(error.code(), Code::Io);
    db.close().unwrap();
    assert_eq!(db.backup(&root.path().join("a"), &mut |_| {}).unwrap_err().code(), Code::Closed);
    assert!(contents(root.path()).is_empty());
}

/// Timestamp blocks that only the log still needs may be trimmed while a backup is written.
#[test]
fn stamps_that_go_meanwhile_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
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
    let revision = db.revision();
    let floor = db.stats().floor;
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
