//! A backup as the base of an index: cases where it is accepted, and where it is refused.

use super::*;

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
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
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

/// Returns the byte at which an error reports a damaged file.
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
        // A flipped byte of the format number may turn it into a newer format.
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
    let first = db.stats().log_first;
    let last = db.revision();
    assert!(first > case.report.revision + 1);
    let early = contents(&case.db().join("log"));
    fill(&db, &case.clock, 1);
    let late = case.root.path().join("late");
    let late_revision = backup(&db, &late).revision;
    drop(db);
    case.lose_index();
    let missing = format!("revisions {} to {} are missing", case.report.revision + 1, first - 1);
    case.assert_refused(&case.base(), Code::CorruptIndex, &[&missing]);

    // The log loses its end. A base ahead of the log does not make up for that.
    fs::remove_dir_all(case.db().join("log")).unwrap();
    fs::create_dir(case.db().join("log")).unwrap();
    for (path, bytes) in &early {
        fs::write(path, bytes.as_ref().unwrap()).unwrap();
    }
    let missing = format!("revisions {} to {late_revision} are missing", last + 1);
    case.assert_refused(&late, Code::CorruptIndex, &[&missing]);
}

/// A frame holds many transactions, so the feed must resume within a frame, and an index may end within one.
#[test]
fn places_within_a_frame_are_found_again() {
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
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

/// A restored copy has the same database id, but its later history differs.
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
