//! Damage to the index.

use super::*;
use mainstay::doctor::IndexState;
use mainstay::{Code, Durability, NewEvent};
use std::time::Duration;

/// Returns the files in which a flipped bit is tried.
fn index_files(directory: &Path) -> Vec<PathBuf> {
    let files = contents(&directory.join("index")).into_iter().filter(|(_, bytes)| bytes.is_some());
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name == "MARK" || name == "current" || name.starts_with('v')
    };
    files.map(|(path, _)| path).filter(wanted).collect()
}

/// Returns a database whose log no longer reaches back to its beginning.
fn trimmed() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let db = options().feed_retention(Duration::ZERO, 0).open(directory.path()).unwrap();
    write(&db.cells(), 1..=300);
    db.trim().unwrap();
    assert!(db.stats().log_first > 1);
    db.close().unwrap();
    directory
}

#[test]
fn a_deleted_index_is_rebuilt_with_all_history() {
    let directory = database(200, 300);
    let db = options().open(directory.path()).unwrap();
    let before = histories(&db);
    drop(db);
    fs::remove_dir_all(directory.path().join("index")).unwrap();
    let report = assert_verdict(directory.path(), Verdict::Mends);
    assert_eq!(report.index.state, IndexState::Absent);
    let db = options().open(directory.path()).unwrap();
    assert!(db.open_report().rebuilt.is_some());
    assert_eq!(db.open_report().replayed, 300);
    assert_eq!(histories(&db), before);
    drop(db);
    let db = assert_opens_with(directory.path(), 300);
    assert_eq!(db.open_report().rebuilt, None);
}

#[test]
fn a_flipped_bit_in_the_index_leads_to_a_rebuild() {
    let directory = database(200, 300);
    let files = index_files(directory.path());
    assert!(files.len() >= 5, "{files:?}");
    let whole = contents(directory.path());
    for path in files {
        let middle = path.metadata().unwrap().len() / 2;
        flip(&path, middle);
        let report = assert_verdict(directory.path(), Verdict::Mends);
        assert!(matches!(report.index.state, IndexState::Damaged(_)), "{path:?}: {report}");
        let db = assert_opens_with(directory.path(), 300);
        assert!(db.open_report().rebuilt.is_some(), "{path:?}");
        drop(db);
        restore(directory.path(), &whole);
    }
}

#[test]
fn a_damaged_table_is_found_and_set_aside() {
    let directory = database(200, 300);
    let table = contents(&directory.path().join("index/cells/tables"))[0].0.clone();
    flip(&table, 100);
    let report = assert_verdict(directory.path(), Verdict::Salvage);
    assert!(report.to_string().contains("DAMAGED"), "{report}");
    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert_eq!(salvaged.aside, [directory.path().join("index.damaged-1")]);
    assert!(salvaged.aside[0].join("MARK").is_file());
    assert_eq!((salvaged.kept, salvaged.lost), (300, None));
    let db = assert_opens_with(directory.path(), 300);
    assert!(db.open_report().rebuilt.is_some());
}

/// Flushes continue although compaction fails, as long as the index has room. Then writers get the error, and
/// no acknowledged write is lost.
#[test]
fn writers_go_on_over_a_table_that_cannot_be_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let small = || options().segment_bytes(1 << 20).write_buffer_bytes(64 << 10);
    let db = small().open(directory.path()).unwrap();
    for n in 0..300_u32 {
        let noise = (0..64).flat_map(|at| (n * 64 + at).wrapping_mul(2_654_435_761).to_le_bytes());
        db.cells().set(&format!("old {n}"), noise.collect::<Vec<_>>()).unwrap();
    }
    db.trim().unwrap();
    drop(db);
    // Opening reads only the first block of each table.
    let tables = contents(&directory.path().join("index/cells/tables"));
    tables.iter().for_each(|(table, bytes)| flip(table, bytes.as_ref().unwrap().len() as u64 / 2));
    let (done, is_done) = std::sync::mpsc::channel();
    let path = directory.path().to_owned();
    std::thread::spawn(move || {
        let db = small().open(&path).unwrap();
        let mut names = (0..).map(|n| format!("{} {n}", ["before", "zero"][n % 2]));
        let mut written = Vec::new();
        let refused = loop {
            // Chooses names around the existing ones, so that compaction has to read the damaged tables.
            let name = names.next().unwrap();
            match db.cells().set(&name, vec![7; 1024]) {
                Ok(_) => written.push(name),
                Err(error) => break error,
            }
        };
        let failure = db.trim().unwrap_err();
        drop(db);
        done.send((failure, refused, written)).unwrap();
    });
    // A writer that waits for room would wait forever. All other work is much faster than this limit.
    let told = is_done.recv_timeout(Duration::from_secs(300));
    let (failure, refused, written) = told.expect("writers go on, or are told why not");
    assert!(written.len() > 1500, "{} writes, {failure:?}", written.len());
    assert_eq!(refused.code(), Code::QueueFull, "{refused}");
    let why = failure.message();
    assert!(why.contains("layers of tables") && why.contains("compacting"), "{failure}");
    // The list of tables is intact, so all data is readable, but the index accepts no more.
    let db = small().open(directory.path()).unwrap();
    assert_eq!(db.open_report().rebuilt, None);
    for name in &written {
        assert_eq!(db.cells().get(name).unwrap(), Some(vec![7; 1024].into()), "{name}");
    }
    let more = (0..100).map(|n| db.cells().set(&format!("more {n}"), vec![7; 1024]));
    let refused = more.filter_map(Result::err).next();
    assert_eq!(refused.map(|error| error.code()), Some(Code::QueueFull));
    drop(db);
    assert_verdict(directory.path(), Verdict::Salvage);
    doctor::salvage(directory.path()).unwrap();
    let db = small().open(directory.path()).unwrap();
    for name in written {
        assert_eq!(db.cells().get(&name).unwrap(), Some(vec![7; 1024].into()), "{name}");
    }
}

/// Replay compacts the tables that it flushes, so the index opens again, whatever the length of the log.
#[test]
fn an_index_that_was_rebuilt_from_a_long_log_opens_again() {
    let directory = tempfile::tempdir().unwrap();
    let small = || options().segment_bytes(1 << 20).write_buffer_bytes(64 << 10);
    let db = small().durability(Durability::Memory).open(directory.path()).unwrap();
    for n in 0..3000_u32 {
        db.cells().set(&format!("{} {n}", n % 7), vec![7; 1024]).unwrap();
    }
    db.close().unwrap();
    fs::remove_dir_all(directory.path().join("index")).unwrap();
    // No compaction runs in the background.
    let open = || small().background(false).open(directory.path()).unwrap();
    assert!(open().open_report().rebuilt.is_some());
    let db = open();
    assert_eq!(db.open_report().rebuilt, None);
    assert_eq!(db.cells().get("4 2999").unwrap(), None);
    assert_eq!(db.cells().get("3 2999").unwrap(), Some(vec![7; 1024].into()));
}

/// An intact mark over a damaged store still tells which revisions were synced.
#[test]
fn a_damaged_index_does_not_make_a_torn_end_of_what_was_synced() {
    let directory = database(300, 300);
    let list = index_files(directory.path()).into_iter().find(|path| path.ends_with("current"));
    flip(&list.unwrap(), 4);
    assert_verdict(directory.path(), Verdict::Mends);
    let whole = contents(directory.path());
    let newest = inspect(directory.path()).log.segments.last().unwrap().clone();
    let path = directory.path().join("log").join(&newest.file);
    let bytes = fs::read(&path).unwrap();
    let torn = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let damages: [(&dyn Fn(), u64); 2] = [
        (&|| flip(&path, torn), 299),
        (&|| fs::remove_file(&path).unwrap(), newest.first_revision - 1),
    ];
    for (damage, kept) in damages {
        damage();
        let before = contents(directory.path());
        let error = options().open(directory.path()).err().unwrap();
        assert_eq!(error.code(), Code::CorruptLog, "{error}");
        assert!(contents(directory.path()) == before);
        let report = assert_verdict(directory.path(), Verdict::Salvage);
        assert!(!report.can_rebuild(), "{report}");
        let salvaged = doctor::salvage(directory.path()).unwrap();
        assert_eq!((salvaged.kept, salvaged.lost), (kept, Some((kept + 1, 300))));
        drop(assert_opens_with(directory.path(), kept));
        restore(directory.path(), &whole);
    }
}

/// The same for damage to the index that opening would not notice, and for a log that does not reach back.
#[test]
fn an_end_that_is_gone_is_told_with_every_damage_to_the_index() {
    let remove_newest = |directory: &Path| {
        let newest = inspect(directory).log.segments.last().unwrap().clone();
        fs::remove_file(directory.join("log").join(&newest.file)).unwrap();
    };
    let flip_table =
        |directory: &Path| flip(&contents(&directory.join("index/cells/tables"))[0].0, 100);
    let flip_list = |directory: &Path| flip(&directory.join("index/cells/current"), 4);
    let whole = database(300, 300);
    flip_table(whole.path());
    let one_segment = trimmed();
    flip_list(one_segment.path());
    let lean = trimmed();
    let db = options().open(lean.path()).unwrap();
    write(&db.cells(), 301..=500);
    db.trim().unwrap();
    db.close().unwrap();
    drop(db);
    flip_list(lean.path());
    let cases =
        [(whole, Verdict::Salvage), (one_segment, Verdict::Beyond), (lean, Verdict::Beyond)];
    for (directory, verdict) in cases {
        remove_newest(directory.path());
        let report = assert_verdict(directory.path(), verdict);
        assert!(report.findings.iter().any(|finding| finding.contains("is gone.")), "{report}");
        assert!(!report.to_string().contains("may open"), "{report}");
        assert!(!report.to_string().contains("loses nothing"), "{report}");
        let error = options().open(directory.path()).err().unwrap();
        assert!([Code::CorruptLog, Code::CorruptIndex].contains(&error.code()), "{error}");
    }
}

/// The store of runs and the outbox is checked like the store of cells, and set aside with it.
#[test]
fn a_damaged_table_of_runs_is_found_and_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let db = options().open(directory.path()).unwrap();
    let note = |n: u64| NewEvent::new("r", "Noted").with_key(&n.to_string()).value(n as i64);
    db.runs().append_batch((1..=300).map(note).collect()).unwrap();
    db.outbox().put("s", "p", Some("r")).unwrap();
    db.trim().unwrap();
    let before = db.runs().fetch("r", 0, 1_000).unwrap();
    db.close().unwrap();
    drop(db);
    assert_verdict(directory.path(), Verdict::Healthy);
    let stores = inspect(directory.path()).index.stores;
    let store = stores.iter().find(|store| store.name.contains("runs") && store.tables > 0);
    let tables = directory.path().join("index").join(&store.unwrap().name).join("tables");
    flip(&contents(&tables)[0].0, 100);
    assert_verdict(directory.path(), Verdict::Salvage);
    doctor::salvage(directory.path()).unwrap();
    let db = options().open(directory.path()).unwrap();
    assert!(db.open_report().rebuilt.is_some());
    assert_eq!(db.runs().fetch("r", 0, 1_000).unwrap(), before);
    assert!(db.runs().append(note(7)).unwrap().idempotent);
    assert_eq!(db.runs().snapshot("r").unwrap(), db.runs().project("r").unwrap());
    assert_eq!(db.outbox().state().unwrap().pending, 1);
}

#[test]
fn a_damaged_index_over_a_trimmed_log_is_refused() {
    let directory = trimmed();
    assert_verdict(directory.path(), Verdict::Healthy);
    flip(&directory.path().join("index/MARK"), 20);
    let report = assert_verdict(directory.path(), Verdict::Beyond);
    assert!(report.advice.contains("Restore a backup"), "{report}");
    let before = contents(directory.path());
    let error = options().open(directory.path()).err().unwrap();
    assert_eq!(error.code(), Code::CorruptIndex);
    assert!(error.message().contains("restore a backup"), "{error}");
    let error = doctor::salvage(directory.path()).unwrap_err();
    assert_eq!(error.code(), Code::CorruptIndex);
    assert!(error.message().contains("Nothing was changed"), "{error}");
    assert!(contents(directory.path()) == before);
}

#[test]
fn a_damaged_table_over_a_trimmed_log_is_left_for_reading() {
    let directory = trimmed();
    flip(&contents(&directory.path().join("index/cells/tables"))[0].0, 100);
    let report = assert_verdict(directory.path(), Verdict::Beyond);
    assert!(report.advice.contains("export what can still be read"), "{report}");
    let before = contents(directory.path());
    assert_eq!(doctor::salvage(directory.path()).unwrap_err().code(), Code::CorruptIndex);
    assert!(contents(directory.path()) == before);
}

#[test]
fn a_trimmed_log_that_is_damaged_does_not_cost_the_index() {
    let directory = trimmed();
    let segment = inspect(directory.path()).log.segments[0].clone();
    flip(&directory.path().join("log").join(&segment.file), 80);
    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert_eq!((salvaged.kept, salvaged.lost), (300, None), "{salvaged}");
    drop(assert_opens_with(directory.path(), 300));
}

#[test]
fn damage_to_both_keeps_what_the_log_holds() {
    let directory = database(200, 300);
    let log = inspect(directory.path()).log;
    let segment = &log.segments[1];
    flip(&directory.path().join("log").join(&segment.file), segment.bytes / 2);
    flip(&directory.path().join("index/MARK"), 20);
    let report = assert_verdict(directory.path(), Verdict::Salvage);
    let end = report.log.last_revision().unwrap();
    assert_eq!(doctor::salvage(directory.path()).unwrap().kept, end);
    assert!(directory.path().join("index.damaged-1").is_dir());
    drop(assert_opens_with(directory.path(), end));
}

fn restore(directory: &Path, whole: &[(PathBuf, Option<Vec<u8>>)]) {
    for name in ["index", "log"] {
        fs::remove_dir_all(directory.join(name)).unwrap();
    }
    for (path, bytes) in whole {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => fs::create_dir_all(path).unwrap(),
        }
    }
}

/// Files with their bytes, and directories.
type Contents = Vec<(PathBuf, Option<Vec<u8>>)>;

/// Simulates a process that was killed after a flush reached the stores but before the mark was written, and
/// then a log that lost its end. Also returns the log from before that loss.
fn flushed_ahead() -> (TempDir, Contents) {
    let directory = tempfile::tempdir().unwrap();
    let quiet = || options().background(false).feed_retention(Duration::ZERO, 0);
    let db = quiet().open(directory.path()).unwrap();
    write(&db.cells(), 1..=300);
    db.trim().unwrap();
    drop(db);
    let before = contents(directory.path());
    let db = quiet().open(directory.path()).unwrap();
    write(&db.cells(), 301..=310);
    let log = contents(&directory.path().join("log"));
    db.trim().unwrap();
    drop(db);
    let after = contents(directory.path());
    let is_late = |path: &Path| path.components().any(|part| part.as_os_str() == "index");
    let is_early = |path: &Path| !is_late(path) || path.ends_with("MARK");
    let early = before.into_iter().filter(|(path, _)| is_early(path));
    let late = after.into_iter().filter(|(path, _)| !is_early(path));
    restore(directory.path(), &early.chain(late).collect::<Vec<_>>());
    (directory, log)
}

/// Returns the newest segment of a log, and the offset of its last non-zero byte.
fn last_byte(log: &Contents) -> (&Path, u64) {
    let is_segment = |path: &Path| path.extension().is_some_and(|of| of == "seg");
    let (path, bytes) = log.iter().rfind(|(path, _)| is_segment(path)).unwrap();
    let used = bytes.as_ref().unwrap().iter().rposition(|byte| *byte != 0);
    (path, used.unwrap() as u64)
}

#[test]
fn what_the_log_has_lost_does_not_come_back_from_the_index() {
    let (directory, _) = flushed_ahead();
    let Err(refused) = options().open(directory.path()) else { panic!("it opened") };
    assert_eq!(refused.code(), Code::CorruptLog, "{refused}");
    assert!(refused.message().contains("revision 310"), "{refused}");
    let report = assert_verdict(directory.path(), Verdict::Salvage);
    assert_eq!(report.index.reach, Some(310));
    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert_eq!(salvaged.kept, 300, "{salvaged:?}");
    assert!(salvaged.aside.iter().any(|kept| kept.join("MARK").exists()), "{salvaged:?}");
    let db = assert_opens_with(directory.path(), 300);
    let before = histories(&db);
    // New writes reuse the lost revisions. No old entry of the index must appear under them.
    for n in 0..20 {
        db.cells().set("elsewhere", n).unwrap();
    }
    assert_eq!(histories(&db), before);
    drop(db);
    assert_verdict(directory.path(), Verdict::Healthy);
}

#[test]
fn a_frame_that_the_index_has_something_of_is_no_torn_end() {
    let (directory, log) = flushed_ahead();
    fs::remove_dir_all(directory.path().join("log")).unwrap();
    fs::create_dir(directory.path().join("log")).unwrap();
    for (path, bytes) in &log {
        fs::write(path, bytes.as_ref().unwrap()).unwrap();
    }
    let (segment, place) = last_byte(&log);
    flip(segment, place);
    let damaged = fs::read(segment).unwrap();
    let Err(refused) = options().open(directory.path()) else { panic!("it opened") };
    assert_eq!(refused.code(), Code::CorruptLog, "{refused}");
    assert!(fs::read(segment).unwrap() == damaged, "it was cut");
    let report = assert_verdict(directory.path(), Verdict::Salvage);
    assert!(report.findings.iter().all(|finding| !finding.contains("cuts it")), "{report}");
    let salvaged = doctor::salvage(directory.path()).unwrap();
    assert_eq!(salvaged.kept, 309, "{salvaged:?}");
    let is_kept = |path: &PathBuf| path.is_file() && fs::read(path).unwrap() == damaged;
    assert!(salvaged.aside.iter().any(is_kept), "{salvaged:?}");
    drop(assert_opens_with(directory.path(), 309));
    assert_verdict(directory.path(), Verdict::Healthy);
}

#[test]
fn a_log_that_is_gone_before_the_first_mark_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let quiet = || options().background(false);
    drop(quiet().open(directory.path()).unwrap());
    let mark = fs::read(directory.path().join("index/MARK")).unwrap();
    let db = quiet().open(directory.path()).unwrap();
    write(&db.cells(), 1..=10);
    db.trim().unwrap();
    drop(db);
    fs::write(directory.path().join("index/MARK"), mark).unwrap();
    fs::remove_dir_all(directory.path().join("log")).unwrap();
    assert_verdict(directory.path(), Verdict::Beyond);
    let Err(refused) = options().open(directory.path()) else { panic!("it opened") };
    assert_eq!(refused.code(), Code::CorruptLog, "{refused}");
}

#[test]
fn an_index_that_was_set_back_is_kept_wherever_that_was_cut_short() {
    let (directory, _) = flushed_ahead();
    let [index, old, aside] =
        ["index", "index.old", "index.damaged-1"].map(|name| directory.path().join(name));
    let before = contents(&index.join("cells"));
    // Killed between the two renames: the index is back under its name.
    fs::rename(&index, &old).unwrap();
    assert_verdict(directory.path(), Verdict::Salvage);
    doctor::salvage(directory.path()).unwrap();
    let kept = |from: &Path| contents(&from.join("cells")).len() == before.len();
    assert!(kept(&aside) && !old.exists());
    // Killed before the last rename.
    fs::rename(&aside, &old).unwrap();
    drop(assert_opens_with(directory.path(), 300));
    assert!(kept(&aside) && !old.exists());
}

#[test]
fn between_two_names_of_an_index_nothing_is_wrong() {
    let directory = trimmed();
    let [index, old] = ["index", "index.old"].map(|name| directory.path().join(name));
    fs::rename(&index, &old).unwrap();
    let report = assert_verdict(directory.path(), Verdict::Healthy);
    assert!(report.runs.skipped.is_none(), "{report}");
    drop(assert_opens_with(directory.path(), 300));
    assert!(index.exists() && !old.exists());
}
