//! Tests of `mainstay_engine::apply::runs::fold` on whole databases.

use mainstay::{Database, NewEvent};

/// Returns the number of cached snapshots, and their memory.
fn remembered(db: &Database) -> (usize, usize) {
    let core = db.engine();
    core.sequencer.with_exec(|exec| {
        exec.with_folds(|folds| (folds.young.len() + folds.old.len(), folds.young_bytes))
    })
}

/// Snapshots of deleted runs once stayed until 64 MiB were full, and evicted those of live runs.
#[test]
fn what_is_remembered_of_a_run_goes_with_it() {
    let db = Database::memory().unwrap();
    let append = |number: u64| {
        db.runs().append(NewEvent::new(&format!("run/{number:02}"), "Noted").with_key("a")).unwrap()
    };
    (0..50).for_each(|number| drop(append(number)));
    let (count, bytes) = remembered(&db);
    assert!(count == 50 && bytes > 0);
    (1..50).for_each(|number| assert!(db.runs().delete(&format!("run/{number:02}")).unwrap()));
    assert_eq!(remembered(&db), (1, bytes / 50));
    assert!(!db.runs().delete("run/none").unwrap());
}
