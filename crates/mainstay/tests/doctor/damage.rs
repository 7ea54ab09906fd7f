//! Damage to the log.

use super::*;
use mainstay::Code;
use mainstay::doctor::{IndexState, LogReport, StoreReport};

/// Returns the file of the segment at `at`, and an offset in the middle of its frames.
fn middle_of(log: &LogReport, at: usize) -> (String, u64) {
    let segment = &log.segments[at];
    (segment.file.clone(), 64 + (segment.bytes - 64) / 2)
}

/// Asserts that opening is refused with this code and these words, and changes nothing.
#[track_caller]
fn assert_refused(directory: &Path, code: Code, what: &[&str]) {
    let before = contents(directory);
    let error = options().open(directory).err().expect("opening should be refused");
    assert_eq!(error.code(), code, "{error}");
    for what in what {
        assert!(error.message().contains(what), "{error} does not say {what}");
    }
    assert!(contents(directory) == before, "refusing changed something: {error}");
}

#[test]
fn a_healthy_database_is_left_alone() {
    let directory = database(200, 300);
    let report = assert_verdict(directory.path(), Verdict::Healthy);
    assert_eq!(report.log.last_revision(), Some(300));
    assert!(report.log.segments.len() > 2, "{report}");
    assert_eq!(report.index.state, IndexState::Sound(200));
    // Only cells and internal data exist. No records and no runs were written.
    let filled = |store: &&StoreReport| store.tables > 0;
    assert_eq!(report.index.stores.iter().filter(filled).count(), 2);
    assert!(report.index.stores.iter().all(|store| store.problem.is_none()));
    assert!(report.can_rebuild() && !report.in_use);
    let before = contents(directory.path());
    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert!(salvaged.done.is_empty() && salvaged.kept == 300);
    assert!(contents(directory.path()) == before);
}

#[test]
fn an_open_database_can_be_looked_at_but_not_salvaged() {
    let directory = database(0, 5);
    let db = options().open(directory.path()).unwrap();
    assert!(inspect(directory.path()).in_use);
    assert_eq!(doctor::salvage(directory.path()).unwrap_err().code(), Code::Locked);
    write(&db.cells(), 6..=7);
    assert_holds(&db, 7);
}

#[test]
fn a_torn_tail_is_no_damage() {
    let directory = database(0, 20);
    let segment = inspect(directory.path()).log.segments[0].clone();
    flip(&directory.path().join("log").join(&segment.file), segment.bytes - 10);
    let report = assert_verdict(directory.path(), Verdict::Healthy);
    assert!(report.log.problem.as_ref().unwrap().torn, "{report}");
    assert!(report.to_string().contains("torn tail"), "{report}");
    let db = assert_opens_with(directory.path(), 19);
    assert!(db.open_report().cut.as_ref().unwrap().contains(&segment.file));
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_shown_and_salvaged() {
    let directory = database(0, 300);
    let (file, byte) = middle_of(&inspect(directory.path()).log, 1);
    let path = directory.path().join("log").join(&file);
    let whole = fs::read(&path).unwrap();
    flip(&path, byte);
    let damaged = fs::read(&path).unwrap();

    let report = assert_verdict(directory.path(), Verdict::Salvage);
    let problem = report.log.problem.clone().unwrap();
    assert_eq!(problem.file, file);
    assert!(problem.offset <= byte && byte - problem.offset < 300, "{problem}");
    assert!(report.to_string().contains(&format!("DAMAGE in {file} at byte {}", problem.offset)));
    let place = format!("at byte {}", problem.offset);
    assert_refused(directory.path(), Code::CorruptLog, &[&file, &place, "doctor"]);

    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert_eq!(salvaged.kept, problem.expected - 1);
    assert_eq!(salvaged.lost, Some((problem.expected, 300)), "{salvaged}");
    assert!(salvaged.to_string().contains("May be lost"), "{salvaged}");
    let aside = salvaged.aside.iter().find(|path| path.to_string_lossy().contains(&file));
    assert!(fs::read(aside.unwrap()).unwrap() == damaged);
    assert!(
        fs::read(&path).unwrap()[..problem.offset as usize] == whole[..problem.offset as usize]
    );
    drop(assert_opens_with(directory.path(), problem.expected - 1));
    assert_verdict(directory.path(), Verdict::Healthy);
}

#[test]
fn damage_behind_the_index_costs_only_what_lies_behind_it() {
    let directory = database(100, 300);
    let log = inspect(directory.path()).log;
    let (file, byte) = middle_of(&log, log.segments.len() - 2);
    flip(&directory.path().join("log").join(&file), byte);
    let report = assert_verdict(directory.path(), Verdict::Salvage);
    let end = report.log.problem.as_ref().unwrap().expected - 1;
    assert!(end > 100, "{report}");
    assert_eq!(doctor::salvage(directory.path()).unwrap().kept, end);
    drop(assert_opens_with(directory.path(), end));
}

/// The index holds the data of the damaged segment, and the later segments are intact.
#[test]
fn damage_to_what_the_index_holds_loses_nothing() {
    let directory = database(250, 300);
    let (file, byte) = middle_of(&inspect(directory.path()).log, 0);
    flip(&directory.path().join("log").join(&file), byte);
    let before = assert_verdict(directory.path(), Verdict::Salvage);
    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert_eq!((salvaged.kept, salvaged.lost), (300, None), "{salvaged}");
    assert!(
        inspect(directory.path()).log.segments.len()
            < before.log.segments.len() + before.log.unchecked.len()
    );
    let db = assert_opens_with(directory.path(), 300);
    let versions: usize = histories(&db).iter().map(Vec::len).sum();
    assert_eq!(versions, 301);
    drop(db);
    assert_verdict(directory.path(), Verdict::Healthy);
}

/// Truncating the log would lose data that the index still has.
#[test]
fn a_log_that_is_worse_than_the_index_is_started_anew() {
    let directory = database(300, 300);
    let log = inspect(directory.path()).log;
    let (file, byte) = middle_of(&log, log.segments.len() - 1);
    flip(&directory.path().join("log").join(&file), byte);
    assert_refused(directory.path(), Code::CorruptLog, &[&file, "doctor"]);
    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert_eq!((salvaged.kept, salvaged.lost), (300, None), "{salvaged}");
    assert_eq!(salvaged.aside.len(), log.segments.len());
    assert!(salvaged.aside.iter().all(|path| path.is_file()), "{salvaged}");
    let db = assert_opens_with(directory.path(), 300);
    assert_eq!(db.cells().history("cell 1", 100, None).unwrap().len(), 31);
    drop(db);
    assert_verdict(directory.path(), Verdict::Healthy);
    drop(assert_opens_with(directory.path(), 301));
}

#[test]
fn a_log_that_is_gone_is_refused_and_started_anew() {
    let directory = database(50, 50);
    fs::remove_dir_all(directory.path().join("log")).unwrap();
    assert_verdict(directory.path(), Verdict::Salvage);
    let error = options().open(directory.path()).err().unwrap();
    assert_eq!(error.code(), Code::CorruptLog);
    assert_eq!(doctor::salvage(directory.path()).unwrap().kept, 50);
    drop(assert_opens_with(directory.path(), 50));
}

#[test]
fn nothing_is_salvaged_where_nothing_would_be_left() {
    let directory = database(0, 5);
    let file = inspect(directory.path()).log.segments[0].file.clone();
    flip(&directory.path().join("log").join(file), 70);
    assert_verdict(directory.path(), Verdict::Beyond);
    let before = contents(directory.path());
    let error = doctor::salvage(directory.path()).unwrap_err();
    assert!(error.message().contains("Restore a backup"), "{error}");
    assert!(contents(directory.path()) == before);
}

/// Inspecting arbitrary bytes must neither panic nor change anything.
#[test]
fn garbage_is_looked_at_calmly() {
    let directory = database(100, 200);
    let files: Vec<_> = contents(directory.path())
        .into_iter()
        .filter_map(|(path, bytes)| Some((path, bytes?)))
        .collect();
    for (path, bytes) in &files {
        for garbage in [&b""[..], b"x", &[0xff; 5000], &bytes[..bytes.len() / 2]] {
            fs::write(path, garbage).unwrap();
            match doctor::inspect(directory.path()) {
                Ok(report) => assert!(!report.to_string().is_empty()),
                Err(error) => assert!(!error.message().is_empty()),
            }
        }
        fs::write(path, bytes).unwrap();
    }
    assert_verdict(directory.path(), Verdict::Healthy);
}
