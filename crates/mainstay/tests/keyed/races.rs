//! Concurrency of keyed state: each version is applied once, and a restore is atomic.

use mainstay::{Code, Database, Keyed, KeyedState, StateWrite, Wrote};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const THREADS: u64 = 4;

fn filled(db: &Database, space: &str, value: &str) -> Keyed {
    let keyed = db.keyed(space).unwrap();
    let writes = (0..50).map(|n| StateWrite::put(format!("k{n}"), value, 1));
    keyed.write(writes.collect()).unwrap();
    keyed
}

/// All threads put the same versions. Each key ends with the newest one, and each version is applied at most
/// once.
#[test]
fn the_same_told_by_many_is_applied_once() {
    let db = Database::memory().unwrap();
    let tell = || {
        let keyed = db.keyed("s").unwrap();
        let puts = (1..=200_u64).map(|version| keyed.put("k", version.to_string(), version));
        puts.map(|wrote| (wrote.unwrap() == Wrote::Applied) as u64).collect::<Vec<_>>()
    };
    let applied: Vec<Vec<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(tell)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for version in 0..200 {
        assert!(applied.iter().map(|of| of[version]).sum::<u64>() <= 1, "version {version}");
    }
    assert_eq!(db.keyed("s").unwrap().get("k").unwrap().unwrap().version, 200.into());
}

/// A reader during the replacement of a space sees either the old or the new contents, complete.
#[test]
fn readers_never_see_half_a_restore() {
    let db = Database::memory().unwrap();
    let one = filled(&db, "one", "1");
    let other = filled(&db, "other", "2");
    let snapshots = [one.snapshot().unwrap(), other.snapshot().unwrap()];
    let keyed = filled(&db, "s", "1");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            while !done.load(Ordering::Relaxed) {
                let states = keyed.scan(b"", None, 100).unwrap().states;
                assert_eq!(states.len(), 50);
                assert!(states.iter().all(|(_, state)| state.value == states[0].1.value));
                let seen = keyed.snapshot().unwrap();
                assert!(snapshots.contains(&seen));
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        for round in 0..40 {
            keyed.restore(&snapshots[round % 2]).unwrap();
            db.reap().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// Of several concurrent restores some are fenced. The final contents are those of one restore.
#[test]
fn several_restores_leave_one_of_them() {
    let db = Database::memory().unwrap();
    let snapshots: Vec<Vec<u8>> = (0..THREADS)
        .map(|n| {
            let keyed = db.keyed(&format!("from {n}")).unwrap();
            // More data than one batch holds.
            for key in 0..4 {
                keyed.put([key], vec![n as u8; 1 << 20], 1).unwrap();
            }
            keyed.snapshot().unwrap()
        })
        .collect();
    let keyed = filled(&db, "s", "1");
    let outcomes: Vec<_> = thread::scope(|scope| {
        let restore = |snapshot| {
            let keyed = keyed.clone();
            scope.spawn(move || keyed.restore(snapshot))
        };
        let threads: Vec<_> = snapshots.iter().map(Vec::as_slice).map(restore).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(outcomes.iter().any(Result::is_ok));
    let fenced = |outcome: &Result<u64, mainstay::Error>| {
        outcome.as_ref().is_err_and(|error| error.code() == Code::Fenced)
    };
    assert!(outcomes.iter().all(|outcome| outcome.is_ok() || fenced(outcome)));
    let left = keyed.snapshot().unwrap();
    assert!(snapshots.contains(&left));
    db.reap().unwrap();
    assert_eq!(keyed.snapshot().unwrap(), left);
}
