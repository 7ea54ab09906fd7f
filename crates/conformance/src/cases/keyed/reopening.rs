//! Recovery of keyed state after a reopen (disk only).
//!
//! Acknowledged writes are kept, and unfinished restores stay hidden.
//!
//! Requires: Disk.

use super::{all, held, ordered, snapshot_of, space, space_on, whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, At, Code, Durability, EntryBlock, EntryKind, KeyedState, SpaceInfo, StateAnswer,
    StateCommand, StateWrite, Wrote,
};

fn filled(w: &TestDb) {
    ordered(w);
    let writes = (1..=9).map(|n| StateWrite::put(format!("k{}", n % 4), n.to_string(), n as u64));
    space(w).write(writes.collect()).unwrap();
    space(w).write(vec![StateWrite::append("l", "1", "x"), StateWrite::advance("in", 4)]).unwrap();
    space(w).seal(5).unwrap();
    space(w).delete("k1", 12).unwrap();
}

/// States, waiting writes, items, positions and the frontier are unchanged after a reopen.
pub fn everything_is_there(w: &mut TestDb) {
    filled(w);
    let before = whole(&space(w));
    for _ in 0..2 {
        w.reopen();
        assert_eq!(whole(&space(w)), before);
        assert_eq!(space(w).put("k1", "late", 4).unwrap(), Wrote::Stale);
    }
    space(w).seal(20).unwrap();
    assert_eq!(held(&space(w), "k1"), None);
}

/// Replaying the log alone rebuilds the spaces.
pub fn the_log_alone_gives_them(w: &mut TestDb) {
    filled(w);
    space(w).restore(&snapshot_of(&[("x", "1", 1)])).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    space_on(w, "dev").put("x", "2", 2).unwrap();
    w.beside().reap().unwrap();
    w.reopen_after(|directory| std::fs::remove_dir_all(directory.join("index")).unwrap());
    assert_eq!(
        (all(&space(w)), all(&space_on(w, "dev"))),
        (vec!["x=1@1".to_owned()], vec!["x=2@2".to_owned()])
    );
}

fn info(w: &TestDb) -> SpaceInfo {
    space(w).info().unwrap().unwrap()
}

/// A crash during a restore leaves the space unchanged. The staged entries are reaped once another
/// restore begins.
pub fn restore_that_a_crash_ended(w: &mut TestDb) {
    filled(w);
    let before = whole(&space(w));
    let mut block = EntryBlock::default();
    (0..100_u64)
        .for_each(|n| block.push(&EntryKind::position(&format!("p{n}")), Some(&n.to_be_bytes())));
    let begin =
        StateCommand::Restore { space: name("s"), info: info(w), block, begun: None, ends: false };
    run(w.db(), begin).unwrap();
    let begun = w.db().revision();
    w.drop_and_reopen();
    assert_eq!(whole(&space(w)), before);
    assert_eq!(w.beside().reap().unwrap(), 0, "it may go on still");
    space(w).restore(&before).unwrap();
    let late = StateCommand::Restore {
        space: name("s"),
        info: info(w),
        block: EntryBlock::default(),
        begun: Some(begun),
        ends: true,
    };
    refused(run(w.db(), late), Code::Fenced);
    assert!(w.beside().reap().unwrap() > 100);
    assert_eq!(whole(&space(w)), before);
    w.reopen();
    assert_eq!(whole(&space(w)), before);
}

/// A client that knows the begin revision can continue the restore after a crash.
pub fn restore_goes_on_after_a_crash(w: &mut TestDb) {
    filled(w);
    let block = |n: u64| {
        let mut block = EntryBlock::default();
        block.push(&EntryKind::position(&format!("p{n}")), Some(&n.to_be_bytes()));
        block
    };
    let info = info(w);
    let piece = |n, begun, ends| StateCommand::Restore {
        space: name("s"),
        info,
        block: block(n),
        begun,
        ends,
    };
    run(w.db(), piece(1, None, false)).unwrap();
    let begun = Some(w.db().revision());
    w.drop_and_reopen();
    run(w.db(), piece(2, begun, true)).unwrap();
    assert_eq!(space(w).positions().unwrap().len(), 2);
}

/// A crash between two steps of a seal leaves a lower frontier, and repeating the seal completes it.
pub fn sealing_that_a_crash_ended(w: &mut TestDb) {
    let other = TestDb::memory();
    filled(&other);
    filled(w);
    other.db().keyed("s").unwrap().seal(30).unwrap();
    let seal = || StateCommand::Seal { space: name("s"), frontier: 30.into(), limit: 2 };
    for _ in 0..100 {
        let Answer::State(answer) = run(w.db(), seal()).unwrap() else { panic!() };
        w.drop_and_reopen();
        if matches!(*answer, StateAnswer::Sealed { done: true, .. }) {
            break;
        }
    }
    assert_eq!(whole(&space(w)), whole(&space(&other)));
}

/// Reaping continues after a reopen.
pub fn reaping_goes_on(w: &mut TestDb) {
    filled(w);
    space(w).restore(&snapshot_of(&[("x", "1", 1)])).unwrap();
    w.drop_and_reopen();
    assert!(w.beside().reap().unwrap() > 9);
    assert_eq!(all(&space(w)), ["x=1@1"]);
}

/// Incremental snapshots since a mark work after a reopen.
pub fn changes_are_known(w: &mut TestDb) {
    filled(w);
    let taken = space(w).snapshot_since(None, &mut Vec::new()).unwrap();
    space(w).durability(Durability::Memory).put("new", "1", 20).unwrap();
    let mut bytes = Vec::new();
    let changed = space(w).snapshot_since(taken.mark.as_ref(), &mut bytes).unwrap();
    assert_eq!((changed.is_full, changed.summary.entries), (false, 1), "it was made durable first");
    w.drop_and_reopen();
    let mut again = Vec::new();
    let changed = space(w).snapshot_since(taken.mark.as_ref(), &mut again).unwrap();
    assert_eq!((changed.is_full, again), (false, bytes));
}

/// If the log was trimmed after the mark, the snapshot is a full one and gives the reason.
pub fn trimmed_log_says_why(w: &mut TestDb) {
    w.configure(|options| {
        options.retention(std::time::Duration::from_secs(60)).segment_bytes(4 << 10)
    });
    space(w).put("a", "1", 1).unwrap();
    let mark = space(w).snapshot_since(None, &mut Vec::new()).unwrap().mark;
    for version in 2..200 {
        w.pass_ms(1_000);
        space(w).put("b", vec![1; 500], version).unwrap();
    }
    for _ in 0..3 {
        w.pass(std::time::Duration::from_secs(24 * 3600));
        w.cells().set("later", 1).unwrap();
        w.beside().trim().unwrap();
    }
    w.reopen();
    w.beside().trim().unwrap();
    let mut bytes = Vec::new();
    let taken = space(w).snapshot_since(mark.as_ref(), &mut bytes).unwrap();
    assert!(taken.is_full && taken.why.unwrap().contains("reaches back"), "{taken:?}");
    assert_eq!(bytes, whole(&space(w)));
}
