//! Single writer per database, whatever happens to the lock and the directory while a process has it open.

use super::*;
use mainstay::{Code, ErrorKind};

/// Writes until a write is refused. Returns the number of acknowledged writes, and the error.
fn write_on(db: &Database, from: u64) -> (u64, mainstay::Error) {
    for revision in from..from + 5_000 {
        let name = format!("cell {}", revision % CELLS);
        if let Err(error) = db.cells().set(&name, revision as i64) {
            return (revision - 1, error);
        }
    }
    panic!("it writes on as if nothing had happened");
}

#[test]
fn without_its_lock_file_a_database_is_not_opened_twice() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("db");
    let db = options().open(&directory).unwrap();
    write(&db.cells(), 1..=20);
    fs::remove_file(directory.join("LOCK")).unwrap();
    for _ in 0..2 {
        assert_eq!(options().open(&directory).err().unwrap().code(), Code::Locked);
        assert_eq!(doctor::salvage(&directory).err().unwrap().code(), Code::Locked);
    }
    let report = doctor::inspect(&directory).unwrap();
    assert_eq!((report.verdict, report.in_use), (Verdict::Contested, true), "{report}");
    assert!(report.findings.iter().any(|finding| finding.contains("LOCK")), "{report}");
}

/// Earlier versions of the program lock only `LOCK`.
#[test]
fn an_earlier_program_and_this_one_keep_each_other_out() {
    let directory = database(0, 3);
    let lock = || fs::File::open(directory.path().join("LOCK")).unwrap();
    let earlier = lock();
    earlier.try_lock().unwrap();
    assert_eq!(options().open(directory.path()).err().unwrap().code(), Code::Locked);
    drop(earlier);
    let db = options().open(directory.path()).unwrap();
    assert!(lock().try_lock().is_err());
    drop(db);
    lock().try_lock().unwrap();
}

#[test]
fn a_lost_lock_file_ends_writing_at_the_next_segment_and_nothing_acknowledged_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("db");
    let db = options().open(&directory).unwrap();
    write(&db.cells(), 1..=20);
    fs::remove_file(directory.join("LOCK")).unwrap();
    let (last, refused) = write_on(&db, 21);
    assert_eq!((refused.code(), refused.kind()), (Code::LockLost, ErrorKind::ReadOnly));
    assert!(refused.message().contains("LOCK in "), "{refused}");
    assert_eq!(db.cells().set("more", 1).unwrap_err().code(), Code::LockLost, "it stays so");
    assert_holds(&db, last);
    assert!(db.stats().read_only);
    db.close().unwrap();
    assert_opens_with(&directory, last);
}

#[test]
fn a_directory_that_was_replaced_gets_nothing_of_the_old_one() {
    let root = tempfile::tempdir().unwrap();
    let [directory, moved] = ["db", "moved"].map(|name| root.path().join(name));
    let db = options().open(&directory).unwrap();
    write(&db.cells(), 1..=20);
    fs::rename(&directory, &moved).unwrap();
    assert_eq!(options().open(&moved).err().unwrap().code(), Code::Locked, "it is the same one");
    // Another database takes the directory's name, and is open too.
    let other = options().open(&directory).unwrap();
    write(&other.cells(), 1..=7);
    let (last, refused) = write_on(&db, 21);
    assert_eq!(refused.code(), Code::LockLost, "{refused}");
    assert!(db.trim().is_err(), "the index goes by its name, too");
    assert_holds(&db, last);
    drop(db);
    assert_holds(&other, 7);
    other.close().unwrap();
    for (path, revisions) in [(&directory, 7), (&moved, last)] {
        let report = doctor::inspect(path).unwrap();
        assert!(report.is_healthy(), "{report}");
        assert_opens_with(path, revisions);
    }
}

#[test]
fn a_segment_of_another_writer_ends_writing() {
    let root = tempfile::tempdir().unwrap();
    let db = options().open(root.path()).unwrap();
    write(&db.cells(), 1..=20);
    let log = root.path().join("log");
    let own = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
    let own = own.filter(|path| path.extension().is_some_and(|end| end == "seg")).max().unwrap();
    fs::copy(own, log.join("log-00000000000000090000.seg")).unwrap();
    let (_, refused) = write_on(&db, 21);
    assert_eq!(refused.code(), Code::LockLost);
    assert!(refused.message().contains("log-00000000000000090000.seg"), "{refused}");
}

#[test]
fn segments_of_two_writers_in_turn_are_found_by_the_doctor() {
    let directory = database(0, 900);
    let report = doctor::inspect(directory.path()).unwrap();
    assert!(report.is_healthy(), "{report}");
    let owners: Vec<u64> = report.log.segments.iter().map(|segment| segment.owner).collect();
    assert!(owners.len() > 2 && owners.iter().all(|owner| *owner == owners[0] && *owner != 0));
    let path = directory.path().join("log").join(&report.log.segments[1].file);
    let mut bytes = fs::read(&path).unwrap();
    bytes[48] ^= 1;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let report = doctor::inspect(directory.path()).unwrap();
    assert_eq!(report.verdict, Verdict::Contested, "{report}");
    let third = &report.log.segments[2].file;
    assert!(report.findings.iter().any(|finding| finding.contains(third.as_str())), "{report}");
    assert_opens_with(directory.path(), 900);
}
