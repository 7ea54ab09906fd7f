//! Spaces of keyed state on branches: inherited copy-on-write, written independently.

use super::{all, held, ordered, snapshot_of, space, space_on, whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, DifferenceKind, KeyedState, StateWrite, Wrote};

/// Writes six states, an item and a position, and forks the branch.
fn forked(w: &TestDb) {
    let mut writes: Vec<_> = (0..6).map(|n| StateWrite::put(format!("k{n}"), "base", 5)).collect();
    writes.push(StateWrite::append("log", "1", "x"));
    writes.push(StateWrite::advance("in", 5));
    space(w).write(writes).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

fn names(w: &TestDb) -> Vec<String> {
    let differences = w.db().diff("dev", "main").unwrap();
    differences.into_iter().map(|difference| difference.key).collect()
}

/// A fork inherits the whole space and commits one transaction, independent of the amount of data.
pub fn fork_inherits_everything(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    assert_eq!(whole(&dev), whole(&space(w)));
    assert_eq!(dev.items(b"log", None, 9).unwrap().len(), 1);
    assert_eq!(w.db().branch("dev").unwrap().spaces("", None, 9).unwrap().names, ["s"]);
    writes_once(w.db(), || w.db().fork("more", "dev", At::Latest).unwrap());
    assert_eq!(whole(&space_on(w, "more")), whole(&space(w)));
    assert_eq!(dev.put("k0", "late", 5).unwrap(), Wrote::Stale, "versions are inherited, too");
}

/// Writes on either branch are not visible on the other.
pub fn writes_stay_on_their_branch(w: &mut TestDb) {
    forked(w);
    let before = whole(&space(w));
    let dev = space_on(w, "dev");
    dev.put("k0", "dev", 6).unwrap();
    dev.delete("k1", 6).unwrap();
    dev.append_unique("log", "2", "y").unwrap();
    dev.write(vec![StateWrite::advance("in", 9)]).unwrap();
    dev.seal(20).unwrap();
    assert_eq!(whole(&space(w)), before);
    space(w).put("k0", "main", 7).unwrap();
    space(w).put("new", "main", 1).unwrap();
    assert_eq!(
        (held(&dev, "k0").unwrap(), held(&dev, "k1"), held(&dev, "new")),
        ("dev@6".into(), None, None)
    );
    assert_eq!(held(&space(w), "k0").unwrap(), "main@7");
}

/// Restoring or dropping a space on one branch does not affect the other, even after the reaper has
/// removed the old data.
pub fn restoring_is_of_one_branch(w: &mut TestDb) {
    forked(w);
    let before = whole(&space(w));
    let dev = space_on(w, "dev");
    dev.put("k0", "dev", 6).unwrap();
    dev.restore(&snapshot_of(&[("x", "restored", 1)])).unwrap();
    w.beside().reap().unwrap();
    assert_eq!((all(&dev), whole(&space(w)) == before), (vec!["x=restored@1".to_owned()], true));
    assert_eq!(dev.items(b"log", None, 9).unwrap().len(), 0);
    dev.clear().unwrap();
    w.beside().reap().unwrap();
    assert!(dev.info().unwrap().is_none());
    assert_eq!(whole(&space(w)), before);
    // The same in the other direction: restore and drop on the parent.
    w.db().fork("side", "main", At::Latest).unwrap();
    space(w).restore(&snapshot_of(&[("y", "2", 2)])).unwrap();
    w.beside().reap().unwrap();
    assert_eq!(whole(&space_on(w, "side")), before);
    space(w).clear().unwrap();
    w.beside().reap().unwrap();
    assert_eq!(whole(&space_on(w, "side")), before);
    assert_eq!(space_on(w, "side").put("k0", "side", 6).unwrap(), Wrote::Applied);
}

/// A fork does not inherit a restore in progress.
pub fn forked_while_restoring(w: &mut TestDb) {
    forked(w);
    let info = space(w).info().unwrap().unwrap();
    let block = mainstay::EntryBlock::default();
    let command =
        mainstay::StateCommand::Restore { space: name("s"), info, block, begun: None, ends: false };
    run(w.db(), command).unwrap();
    w.db().fork("side", "main", At::Latest).unwrap();
    let side = space_on(w, "side");
    assert_eq!(held(&side, "k0").unwrap(), "base@5");
    side.restore(&snapshot_of(&[("x", "1", 1)])).unwrap();
    w.beside().reap().unwrap();
    assert_eq!((all(&side).len(), held(&space(w), "k0").unwrap()), (1, "base@5".into()));
}

/// Differences name the space and the key. Equal states are no difference, even if timestamps differ.
pub fn differences_are_named(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    assert_eq!(names(w), Vec::<String>::new());
    dev.put("k0", "same", 6).unwrap();
    w.pass_ms(5);
    space(w).put("k0", "same", 6).unwrap();
    assert_eq!(names(w), Vec::<String>::new());
    dev.put("k1", "dev", 6).unwrap();
    dev.delete("k2", 6).unwrap();
    dev.append_unique("log", "2", "y").unwrap();
    dev.write(vec![StateWrite::advance("in", 9)]).unwrap();
    dev.put([0xff_u8], "bytes", 1).unwrap();
    space(w).put("k1", "main", 7).unwrap();
    assert_eq!(names(w), ["s/k1", "s/k2", "s/\\xff", "s/log#2", "s@in"]);
    let differences = w.db().diff("dev", "main").unwrap();
    assert_eq!(differences[0].kind, DifferenceKind::Both);
    assert_eq!(differences[1].kind, DifferenceKind::OnlyA);
    dev.seal(20).unwrap();
    assert_eq!(names(w)[0], "s");
}

/// After a restore, a diff lists each differing key once. Reaping old data does not change the diff.
pub fn difference_after_restoring(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    dev.put("k0", "passing", 6).unwrap();
    dev.restore(&whole(&space(w))).unwrap();
    assert_eq!(names(w), Vec::<String>::new());
    dev.restore(&snapshot_of(&[("k0", "base", 5), ("k1", "other", 6), ("x", "1", 1)])).unwrap();
    let expected = ["s/k1", "s/k2", "s/k3", "s/k4", "s/k5", "s/x", "s/log#1", "s@in"];
    assert_eq!(names(w), expected);
    w.beside().reap().unwrap();
    assert_eq!(names(w), expected);
    dev.clear().unwrap();
    assert_eq!(names(w).len(), 9, "the space, six states, an item and a position");
}

/// A key missing from the restored snapshot is a difference, although nothing was written for that key.
pub fn difference_in_what_was_not_restored(w: &mut TestDb) {
    forked(w);
    space_on(w, "dev").restore(&snapshot_of(&[("k0", "base", 5)])).unwrap();
    assert_eq!(names(w), ["s/k1", "s/k2", "s/k3", "s/k4", "s/k5", "s/log#1", "s@in"]);
}

/// Waiting writes are inherited and can be sealed on the fork alone.
pub fn waiting_is_inherited(w: &mut TestDb) {
    ordered(w);
    space(w).put("a", "1", 5).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = space_on(w, "dev");
    assert_eq!(dev.put("a", "2", 5).unwrap(), Wrote::Stale);
    assert_eq!(dev.seal(6).unwrap(), 1);
    assert_eq!((held(&dev, "a").unwrap(), held(&space(w), "a")), ("1@5".into(), None));
    assert_eq!(space(w).waiting(None, 9).unwrap().len(), 1);
}
