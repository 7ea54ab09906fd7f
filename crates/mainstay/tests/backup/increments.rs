//! Incremental backups: the result of a full backup with a chain of increments, and chains that are refused.

use super::*;
use mainstay::{BackupKind, BackupReport, backup_head, restore_backup, verify_chain};

/// Options that retain the log, in segments that hold little each.
fn kept(clock: &Arc<ManualClock>) -> Options {
    options(clock).feed_retention(DAY, 1 << 30)
}

fn take(db: &Database, since: Revision, path: &Path) -> BackupReport {
    db.backup_since(since, path, &mut |_| {}).unwrap()
}

fn restore(directory: &Path, files: &[PathBuf]) -> mainstay::Result<Vec<BackupReport>> {
    restore_backup(directory, files, &mut |_| {})
}

/// Returns all events of the feed as text.
fn told(db: &Database, after: Revision) -> Vec<String> {
    let mut feed = db.watch(Filter::default(), after).unwrap();
    std::iter::from_fn(|| feed.next(Duration::ZERO).unwrap().map(|e| format!("{e:?}"))).collect()
}

/// A database, a full backup and three increments, with the database's answers at the end of each.
struct Chained {
    root: TempDir,
    clock: Arc<ManualClock>,
    db: Database,
    files: Vec<PathBuf>,
    reports: Vec<BackupReport>,
    answers: Vec<Answers>,
    receipt: Receipt,
}

impl Chained {
    fn new() -> Chained {
        let root = tempfile::tempdir().unwrap();
        let clock = clock();
        let db = kept(&clock).open(root.path().join("db")).unwrap();
        let path = |name: &str| root.path().join(name);
        fill(&db, &clock, 5);
        let mut reports = vec![backup(&db, &path("full"))];
        let mut known = vec![answers(&db)];
        let receipt = furnish(&db, &clock);
        for (at, name) in ["one", "two", "three"].into_iter().enumerate() {
            fill(&db, &clock, 5);
            db.tag(&format!("tag {at}"), "main", At::Latest).unwrap();
            reports.push(take(&db, reports[at].revision, &path(name)));
            known.push(answers(&db));
        }
        let files = ["full", "one", "two", "three"].map(path).to_vec();
        Chained { root, clock, db, files, reports, answers: known, receipt }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn open(&self, name: &str) -> Database {
        kept(&self.clock).open(self.path(name)).unwrap()
    }

    /// Asserts that a restore of these files is refused and creates nothing.
    #[track_caller]
    fn assert_refused(&self, files: &[PathBuf], code: Code, words: &[&str]) {
        let copy = self.path("refused");
        let error = restore(&copy, files).expect_err("it is refused");
        assert_eq!(error.code(), code, "{error}");
        for word in words {
            assert!(error.message().contains(word), "{error} does not say {word}");
        }
        assert!(!copy.exists(), "nothing was made");
    }
}

#[test]
fn a_chain_of_any_length_makes_the_database_as_it_was() {
    let case = Chained::new();
    for length in 1..=4 {
        let copy = case.path(&format!("copy {length}"));
        let reports = restore(&copy, &case.files[..length]).unwrap();
        assert_eq!(reports, case.reports[..length]);
        let db = kept(&case.clock).open(&copy).unwrap();
        assert_same(&db, &case.answers[length - 1]);
        let from = reports[0].revision;
        let upto = reports[length - 1].revision;
        let all = told(&case.db, from);
        assert_eq!(told(&db, from), all[..told(&db, from).len()], "the feed from {from} on");
        assert_eq!(told(&db, from).is_empty(), length == 1);
        assert_eq!(db.revision(), upto);
        if length > 1 {
            let repeated = db.execute(named()).unwrap();
            assert_eq!(repeated, Receipt { repeated: true, ..case.receipt.clone() });
        }
        db.cells().set("plain", "goes on").unwrap();
        assert_eq!(db.revision(), upto + 1);
        db.close().unwrap();
        assert_eq!(case.open(&format!("copy {length}")).revision(), upto + 1, "and opens again");
    }
}

#[test]
fn a_head_and_a_report_say_what_is_in_a_file() {
    let case = Chained::new();
    assert_eq!(verify_chain(&case.files, &mut |_| {}).unwrap(), case.reports);
    assert_eq!(verify_chain(&case.files[2..], &mut |_| {}).unwrap(), case.reports[2..]);
    for (at, (file, report)) in case.files.iter().zip(&case.reports).enumerate() {
        assert_eq!(verify_backup(file).unwrap(), *report);
        let head = backup_head(file).unwrap();
        assert_eq!((head.database, head.kind), (report.database, report.kind));
        assert_eq!(
            (head.revision, report.bytes),
            (report.revision, file.metadata().unwrap().len())
        );
        let since = at.checked_sub(1).map(|before| case.reports[before].revision);
        let kind = since.map_or(BackupKind::Full, |since| BackupKind::Increment { since });
        assert_eq!((report.kind, report.keys.is_some()), (kind, at == 0));
    }
    let mut calls = Vec::new();
    verify_chain(&case.files, &mut |progress| calls.push(progress.done)).unwrap();
    let total: u64 = case.reports.iter().map(|report| report.bytes).sum();
    assert!(calls.is_sorted() && *calls.last().unwrap() <= total, "{calls:?} of {total}");
}

#[test]
fn an_overlap_is_fine() {
    let case = Chained::new();
    let full = &case.reports[0];
    let wide = case.path("wide");
    take(&case.db, full.revision.saturating_sub(7), &wide);
    let mut files = case.files[..2].to_vec();
    files.push(wide);
    restore(&case.path("copy"), &files).unwrap();
    assert_same(&case.open("copy"), &case.answers[3]);
}

/// A frame holds many transactions, so an increment may begin within a frame.
#[test]
fn an_increment_may_begin_within_a_frame() {
    let root = tempfile::tempdir().unwrap();
    let clock = clock();
    let db = kept(&clock).open(root.path().join("db")).unwrap();
    let set = |i: i64| {
        let name = Name::new(&format!("k{:02}", i % 50)).unwrap();
        Transaction::new().step(CellCommand::set(name, i))
    };
    assert!(db.execute_all((1..=600).map(set).collect()).iter().all(Result::is_ok));
    let full = root.path().join("full");
    backup(&db, &full);
    assert!(db.execute_all((601..=1200).map(set).collect()).iter().all(Result::is_ok));
    let expected = answers(&db);
    let mut within = 0;
    for since in [0, 1, 300, 599, 600] {
        let more = root.path().join(format!("since {since}"));
        let versions = take(&db, since, &more).versions;
        within += usize::from(versions > 1200 - since);
        let copy = root.path().join(format!("copy {since}"));
        restore(&copy, &[full.clone(), more]).unwrap();
        assert_same(&kept(&clock).open(&copy).unwrap(), &expected);
    }
    assert!(within > 0, "no increment began within a frame");
}

#[test]
fn an_increment_of_nothing_joins_as_well() {
    let case = Chained::new();
    let nothing = case.path("nothing");
    let again = case.path("again");
    let last = case.reports[3].revision;
    assert_eq!(take(&case.db, last, &nothing).versions, 0);
    take(&case.db, last, &again);
    let mut files = case.files.clone();
    files.extend([nothing.clone(), again]);
    restore(&case.path("copy"), &files).unwrap();
    assert_same(&case.open("copy"), &case.answers[3]);
    // An empty log gives increments, too.
    restore(&case.path("other"), &case.files[..1]).unwrap();
    let other = case.open("other");
    assert_eq!(take(&other, other.revision(), &case.path("of other")).versions, 0);
}

#[test]
fn a_gap_and_a_wrong_order_are_refused() {
    let case = Chained::new();
    let [full, one, two, three] = &case.files[..] else { panic!() };
    let ends: Vec<String> =
        case.reports.iter().map(|report| format!("revision {}", report.revision)).collect();
    let refused = |files: &[&PathBuf], words: &[&str]| {
        let files: Vec<PathBuf> = files.iter().map(|file| (*file).clone()).collect();
        case.assert_refused(&files, Code::InvalidArgument, words);
    };
    refused(&[full, two], &[&ends[0], &ends[1], "are missing", "two"]);
    refused(&[full, one, three], &[&ends[1], &ends[2], "are missing"]);
    refused(&[full, two, one], &["are missing"]);
    refused(&[full, one, two, one], &["in the order"]);
    refused(&[one, two], &["begins with a full backup"]);
    refused(&[full, full], &["is a full backup"]);
    refused(&[], &["begins with a full backup"]);
    let error = case.db.backup_since(1_000_000, &case.path("future"), &mut |_| {}).unwrap_err();
    assert_eq!(error.code(), Code::FutureRevision);
    assert!(!case.path("future").exists());
    let error = Options::new().base(one).open(case.path("new")).err().unwrap();
    assert!(error.message().contains("is an increment"), "{error}");
}

#[test]
fn another_database_and_another_copy_are_refused() {
    let case = Chained::new();
    let other = kept(&case.clock).memory().unwrap();
    fill(&other, &case.clock, 200);
    let foreign = case.path("foreign");
    let report = take(&other, 0, &foreign);
    let files = [case.files[0].clone(), foreign];
    case.assert_refused(&files, Code::InvalidArgument, &[&report.database.to_string()]);

    // The copy has the same id and the same revisions, but its later history differs.
    restore(&case.path("copy"), &case.files[..1]).unwrap();
    let (copy, base) = (case.open("copy"), case.path("of the copy"));
    fill(&copy, &case.clock, 1);
    let met = backup(&copy, &base).revision;
    for (name, since) in [("joins there", met), ("overlaps", case.reports[0].revision)] {
        take(&case.db, since, &case.path(name));
        let files = [base.clone(), case.path(name)];
        case.assert_refused(&files, Code::InvalidArgument, &["two copies"]);
    }
}

#[test]
fn a_trimmed_log_asks_for_a_full_backup() {
    let case = Case::new();
    let db = case.options().open(case.db()).unwrap();
    let path = case.root.path().join("more");
    let error = db.backup_since(1, &path, &mut |_| {}).unwrap_err();
    assert_eq!(error.code(), Code::HistoryTrimmed);
    assert!(error.message().contains("take a full backup"), "{error}");
    assert!(!path.exists());
    take(&db, db.stats().log_first - 1, &path);
}

#[test]
fn every_flipped_byte_of_an_increment_is_refused() {
    let case = Chained::new();
    let whole = fs::read(&case.files[2]).unwrap();
    let damaged = case.path("damaged file");
    let refused = |bytes: &[u8], at: usize| {
        fs::write(&damaged, bytes).unwrap();
        let error = verify_backup(&damaged).err().unwrap_or_else(|| panic!("byte {at} was missed"));
        let newer = (8..12).contains(&at) && error.code() == Code::NewerFormat;
        assert!(newer || error.code() == Code::CorruptData, "byte {at}: {error}");
        assert!(error.message().contains("damaged file"), "byte {at}: {error}");
        error
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let error = refused(&bytes, at);
        if (68..whole.len() - 32).contains(&at) {
            let (_, rest) = error.message().split_once("at byte ").expect("it names the place");
            let named: usize = rest.split(':').next().unwrap().parse().unwrap();
            // Frames have a few hundred bytes, and the error names the start of the frame.
            assert!(named <= at && at < named + 1000, "byte {at}: {error}");
        }
        if at % 997 == 0 {
            let files = [case.files[0].clone(), case.files[1].clone(), damaged.clone()];
            case.assert_refused(&files, error.code(), &["damaged file"]);
        }
    }
    for cut in [0, 7, 8, 67, 68, 100, whole.len() / 2, whole.len() - 33, whole.len() - 1] {
        let error = refused(&whole[..cut], cut);
        assert!(error.message().contains("at byte"), "cut at {cut}: {error}");
    }
    refused(&[&whole[..], b"x"].concat(), whole.len());
}

#[test]
fn a_restore_of_a_chain_that_was_cut_short_is_no_database() {
    let case = Chained::new();
    let copy = case.path("copy");
    let restore = || restore(&copy, &case.files);
    restore().unwrap();
    // The restore writes the header file last. A directory with files but without it is left alone.
    fs::remove_file(copy.join("DATABASE")).unwrap();
    let before = contents(&copy);
    let error = kept(&case.clock).open(&copy).err().expect("half a restore is no database");
    assert_eq!(error.code(), Code::ForeignDirectory);
    assert_eq!(restore().err().unwrap().code(), Code::ForeignDirectory);
    assert!(contents(&copy) == before);

    // Until the log has its final name, a restore may start over.
    fs::rename(copy.join("log"), copy.join("log.next")).unwrap();
    let error = kept(&case.clock).open(&copy).err().expect("half a restore is no database");
    assert_eq!(error.code(), Code::ForeignDirectory);
    restore().unwrap();
    assert_same(&case.open("copy"), &case.answers[3]);
}

#[test]
fn damage_inside_a_restored_log_is_not_taken_for_a_torn_end() {
    let case = Chained::new();
    let copy = case.path("copy");
    restore(&copy, &case.files).unwrap();
    let log = fs::read_dir(copy.join("log")).unwrap();
    let segment = log.map(|entry| entry.unwrap().path()).min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let error = kept(&case.clock).open(&copy).err().expect("damage is refused");
    assert_eq!(error.code(), Code::CorruptLog, "{error}");
}
