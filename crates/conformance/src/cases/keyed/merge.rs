//! Merging branches with keyed state: the newer version wins.

use super::{all, held, ordered, snapshot_of, space, space_on, whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::MergeStrategy::{self, Ours, Strict, Theirs};
use mainstay::{
    At, ChangeKind, Code, Contract, Filter, KeyedState, Result, Revision, SpaceOptions, StateWrite,
    VersionKind, Wrote,
};

/// Writes three states on `main` and forks it to `dev`.
fn forked(w: &TestDb) {
    let writes = ["a", "b", "c"].map(|key| StateWrite::put(key, "base", 5));
    space(w).write(writes.to_vec()).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

fn merge(w: &TestDb, strategy: MergeStrategy) -> Result<Revision> {
    w.db().merge("dev", "main", strategy)
}

#[track_caller]
fn conflicts(w: &TestDb, keys: &[&str]) {
    let error = writes_nothing(w.db(), || merge(w, Strict)).unwrap_err();
    assert_eq!(
        (error.code(), error.keys()),
        (Code::MergeConflict, &keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()[..])
    );
}

/// Of two versions the newer one wins on either branch, with every strategy.
pub fn newer_version_wins(w: &mut TestDb) {
    for (strategy, number) in [(Strict, 1), (Theirs, 2), (Ours, 3)] {
        let w = &mut *w;
        w.configure(|options| options);
        forked(w);
        let dev = space_on(w, "dev");
        dev.put("a", "dev", 7).unwrap();
        space(w).put("a", "main", 6).unwrap();
        dev.put("b", "dev", 6).unwrap();
        space(w).put("b", "main", 7).unwrap();
        dev.delete("c", 8).unwrap();
        space(w).put("c", "main", 7).unwrap();
        dev.put("new", "dev", 1).unwrap();
        merge(w, strategy).unwrap();
        assert_eq!(all(&space(w)), ["a=dev@7", "b=main@7", "new=dev@1"], "{number}");
        assert_eq!(space(w).put("c", "late", 8).unwrap(), Wrote::Stale, "its version travelled");
        assert_eq!(space(w).put("c", "again", 9).unwrap(), Wrote::Applied);
    }
}

/// Equal versions with different contents conflict: `strict` lists them; `theirs` and `ours` resolve
/// them.
pub fn equal_versions_conflict(w: &mut TestDb) {
    for (strategy, a, b, item) in
        [(Theirs, Some("dev@6"), None, "dev"), (Ours, Some("main@6"), Some("main@6"), "main")]
    {
        let w = &mut *w;
        w.configure(|options| options);
        forked(w);
        for (keyed, own) in [(space_on(w, "dev"), "dev"), (space(w), "main")] {
            keyed.put("a", own, 6).unwrap();
            keyed.put("c", "same", 6).unwrap();
            keyed.append_unique("log", "1", own).unwrap();
            keyed.append_unique("log", "2", "same").unwrap();
        }
        space_on(w, "dev").delete("b", 6).unwrap();
        space(w).put("b", "main", 6).unwrap();
        conflicts(w, &["s/a", "s/b", "s/log#1"]);
        merge(w, strategy).unwrap();
        let text = |text: Option<&str>| text.map(str::to_owned);
        assert_eq!((held(&space(w), "a"), held(&space(w), "b")), (text(a), text(b)));
        assert_eq!(space(w).items(b"log", None, 9).unwrap()[0].item, item.as_bytes());
        assert_eq!(space(w).put("b", "late", 6).unwrap(), Wrote::Stale);
        merge(w, Strict).unwrap();
        space(w).seal(20).unwrap();
        assert_eq!(
            space(w).look(&[b"b"]).unwrap()[0].is_some(),
            b.is_some(),
            "forgotten when sealed"
        );
    }
}

/// Items missing from the target are added, and each position becomes the greater of the two.
pub fn items_and_positions_travel(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    dev.append_unique("log", "2", "dev").unwrap();
    space(w).append_unique("log", "1", "main").unwrap();
    dev.write(vec![StateWrite::advance("x", 9), StateWrite::advance("y", 3)]).unwrap();
    space(w).write(vec![StateWrite::advance("x", 4), StateWrite::advance("y", 7)]).unwrap();
    merge(w, Strict).unwrap();
    let ids: Vec<_> =
        space(w).items(b"log", None, 9).unwrap().into_iter().map(|item| item.id).collect();
    assert_eq!(ids, [b"1", b"2"]);
    assert_eq!(space(w).positions().unwrap(), [("x".to_owned(), 9), ("y".to_owned(), 7)]);
}

/// The frontier is merged, and the target applies waiting writes below it.
pub fn frontier_and_waiting_travel(w: &mut TestDb) {
    ordered(w);
    space(w).put("a", "base", 5).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = space_on(w, "dev");
    dev.put("b", "dev", 6).unwrap();
    dev.put("c", "dev", 15).unwrap();
    space(w).put("d", "main", 7).unwrap();
    space(w).put("e", "main", 20).unwrap();
    dev.seal(10).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(all(&space(w)), ["a=base@5", "b=dev@6", "d=main@7"]);
    let waiting: Vec<_> =
        space(w).waiting(None, 9).unwrap().into_iter().map(|one| one.key).collect();
    assert_eq!(waiting, [b"c", b"e"]);
    assert_eq!(space(w).info().unwrap().unwrap().frontier, Some(10.into()));
    assert_eq!(space(w).put("z", "late", 9).unwrap(), Wrote::Stale);
    // A higher frontier in the target is kept, and merged writes below it are applied at once.
    space(w).seal(18).unwrap();
    dev.put("f", "dev", 17).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(held(&space(w), "f").unwrap(), "dev@17");
    assert_eq!(space(w).info().unwrap().unwrap().frontier, Some(18.into()));
}

/// Waiting writes of the same key and version conflict if their values differ.
pub fn waiting_writes_conflict(w: &mut TestDb) {
    ordered(w);
    w.db().fork("dev", "main", At::Latest).unwrap();
    space_on(w, "dev").put("a", "dev", 5).unwrap();
    space(w).put("a", "main", 5).unwrap();
    conflicts(w, &["s/a?5"]);
    merge(w, Theirs).unwrap();
    space(w).seal(6).unwrap();
    assert_eq!(held(&space(w), "a").unwrap(), "dev@5");
}

/// A deletion is merged even after the source has discarded its tombstone below the frontier.
pub fn forgotten_deletions_travel(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    dev.delete("a", 6).unwrap();
    dev.delete("b", 6).unwrap();
    dev.delete("c", 6).unwrap();
    space(w).put("b", "newer", 12).unwrap();
    dev.seal(10).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(all(&space(w)), ["b=newer@12"]);
    assert_eq!(space(w).look(&[b"a"]).unwrap(), [None]);
}

/// If the target wrote a version below that frontier, the newer of the two is unknown, so this
/// conflicts.
pub fn forgotten_against_written(w: &mut TestDb) {
    for (strategy, left) in [(Theirs, None), (Ours, Some("main@7".to_owned()))] {
        w.configure(|options| options);
        forked(w);
        space_on(w, "dev").delete("a", 6).unwrap();
        space_on(w, "dev").seal(10).unwrap();
        space(w).put("a", "main", 7).unwrap();
        conflicts(w, &["s/a"]);
        merge(w, strategy).unwrap();
        assert_eq!(held(&space(w), "a"), left);
        w.configure(|options| options);
        // The same in the other direction: the target has discarded the tombstone.
        forked(w);
        space(w).delete("a", 6).unwrap();
        space(w).delete("c", 6).unwrap();
        space(w).seal(10).unwrap();
        space_on(w, "dev").put("a", "dev", 7).unwrap();
        space_on(w, "dev").put("b", "dev", 11).unwrap();
        space_on(w, "dev").delete("c", 7).unwrap();
        conflicts(w, &["s/a", "s/c"]);
        merge(w, strategy).unwrap();
        assert_eq!(held(&space(w), "a").is_some(), strategy == Theirs);
        assert_eq!(held(&space(w), "b").unwrap(), "dev@11");
        assert_eq!(space(w).look(&[b"c"]).unwrap(), [None], "a sealed version has no tombstone");
    }
}

/// A space that only the source replaced is replaced in the target too, with a single feed event.
pub fn replaced_travels(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    dev.put("a", "before", 9).unwrap();
    dev.restore(&snapshot_of(&[("b", "old", 1), ("x", "new", 2)])).unwrap();
    dev.delete("x", 3).unwrap();
    dev.put("y", "behind", 4).unwrap();
    let wanted = Filter { contract: Some(Contract::Keyed), ..Filter::default() };
    let mut feed = w.db().watch(wanted, w.db().revision()).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(whole(&space(w)), whole(&dev));
    w.beside().reap().unwrap();
    assert_eq!(all(&space(w)), ["b=old@1", "y=behind@4"]);
    assert_eq!(w.db().diff("dev", "main").unwrap(), []);
    space(w).put("end", "1", 1).unwrap();
    let told: Vec<_> =
        events(&mut feed, 2).into_iter().map(|event| (event.key, event.kind)).collect();
    assert_eq!(
        told,
        [("s".to_owned(), ChangeKind::Restored), ("s/end".to_owned(), ChangeKind::Set)]
    );
    // Both branches continue and can be merged in both directions.
    dev.put("b", "dev", 5).unwrap();
    merge(w, Strict).unwrap();
    space(w).put("b", "main", 6).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!(whole(&space(w)), whole(&dev));
    space(w).seal(10).unwrap();
    assert_eq!(
        space(w).look(&[b"x"]).unwrap(),
        [None],
        "what was deleted is found when it is sealed"
    );
}

/// A space replaced on one branch and changed on the other conflicts as a whole.
pub fn replaced_against_changed(w: &mut TestDb) {
    for strategy in [Theirs, Ours] {
        w.configure(|options| options);
        forked(w);
        space_on(w, "dev").restore(&snapshot_of(&[("x", "dev", 1)])).unwrap();
        space(w).put("a", "main", 6).unwrap();
        conflicts(w, &["s"]);
        merge(w, strategy).unwrap();
        let expected: &[&str] =
            if strategy == Theirs { &["x=dev@1"] } else { &["a=main@6", "b=base@5", "c=base@5"] };
        assert_eq!(all(&space(w)), expected);
        w.beside().reap().unwrap();
        assert_eq!(all(&space(w)), expected);
    }
    w.configure(|options| options);
    forked(w);
    space_on(w, "dev").restore(&snapshot_of(&[("x", "dev", 1)])).unwrap();
    space(w).seal(3).unwrap();
    conflicts(w, &["s"]);
}

/// Later writes of the source to a space that the target has replaced are merged by version.
pub fn changed_against_replaced(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    space(w).restore(&snapshot_of(&[("a", "restored", 9), ("b", "restored", 1)])).unwrap();
    dev.put("a", "dev", 6).unwrap();
    dev.put("b", "dev", 6).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(all(&space(w)), ["a=restored@9", "b=dev@6"]);
}

/// The drop of a space is merged. Against a change on the other branch it conflicts, in both directions.
pub fn removal_travels(w: &mut TestDb) {
    forked(w);
    space_on(w, "dev").clear().unwrap();
    merge(w, Strict).unwrap();
    assert!(space(w).info().unwrap().is_none());
    for strategy in [Theirs, Ours] {
        w.configure(|options| options);
        forked(w);
        space_on(w, "dev").clear().unwrap();
        space(w).put("a", "main", 6).unwrap();
        conflicts(w, &["s"]);
        merge(w, strategy).unwrap();
        assert_eq!(space(w).info().unwrap().is_none(), strategy == Theirs);
        w.configure(|options| options);
        forked(w);
        space_on(w, "dev").put("a", "dev", 6).unwrap();
        space_on(w, "dev").put("b", "dev", 6).unwrap();
        space(w).clear().unwrap();
        conflicts(w, &["s"]);
        merge(w, strategy).unwrap();
        let expected: &[&str] =
            if strategy == Theirs { &["a=dev@6", "b=dev@6", "c=base@5"] } else { &[] };
        assert_eq!(all(&space(w)), expected);
    }
}

/// The reaper does not remove data that a branch dropped and a merge restored.
pub fn brought_back_is_not_reaped(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    dev.put("a", "passing", 6).unwrap();
    dev.clear().unwrap();
    space(w).put("b", "main", 6).unwrap();
    space(w).seal(2).unwrap();
    w.db().merge("main", "dev", Theirs).unwrap();
    assert_eq!(whole(&dev), whole(&space(w)));
    w.beside().reap().unwrap();
    assert_eq!(whole(&dev), whole(&space(w)));
    assert_eq!(all(&dev), ["a=base@5", "b=main@6", "c=base@5"]);
}

/// A space created on both branches is merged into one, and later merges treat it as the same space.
pub fn made_on_both_sides(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = space_on(w, "dev");
    dev.put("a", "dev", 1).unwrap();
    dev.put("both", "dev", 2).unwrap();
    space(w).put("b", "main", 1).unwrap();
    space(w).put("both", "main", 1).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(all(&space(w)), ["a=dev@1", "b=main@1", "both=dev@2"]);
    dev.put("a", "dev", 2).unwrap();
    space(w).put("b", "main", 2).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!(all(&dev), ["a=dev@2", "b=main@2", "both=dev@2"]);
    merge(w, Strict).unwrap();
    assert_eq!(whole(&space(w)), whole(&dev));
    assert_eq!(w.db().diff("dev", "main").unwrap(), []);
}

/// Keys removed by a restore on one branch are removed where it is merged, even if an intermediate merge
/// relates the branches.
pub fn replaced_before_they_met(w: &mut TestDb) {
    forked(w);
    w.db().fork("side", "dev", At::Latest).unwrap();
    space_on(w, "side").restore(&snapshot_of(&[("b", "base", 5)])).unwrap();
    space_on(w, "dev").put("c", "dev", 9).unwrap();
    w.db().merge("dev", "side", Ours).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    w.db().merge("side", "main", Strict).unwrap();
    assert_eq!(whole(&space(w)), whole(&space_on(w, "side")));
    assert_eq!(held(&space(w), "a"), None);
}

/// Spaces declared with different options conflict as a whole.
pub fn declared_differently(w: &mut TestDb) {
    for strategy in [Theirs, Ours] {
        w.configure(|options| options);
        w.db().fork("dev", "main", At::Latest).unwrap();
        space_on(w, "dev").declare(SpaceOptions::default().groups(7)).unwrap();
        space_on(w, "dev").put("a", "dev", 1).unwrap();
        space(w).put("b", "main", 1).unwrap();
        conflicts(w, &["s"]);
        merge(w, strategy).unwrap();
        let expected = if strategy == Theirs { "a=dev@1" } else { "b=main@1" };
        assert_eq!(all(&space(w)), [expected]);
    }
    // Different version kinds conflict too, even if one branch has not seen the new kind.
    w.configure(|options| options);
    forked(w);
    let times = TestDb::memory();
    space(&times).put("t", "1", mainstay::LogicalTime::new(1, 1)).unwrap();
    space(w).restore(&whole(&space(&times))).unwrap();
    space_on(w, "dev").put("a", "dev", 6).unwrap();
    conflicts(w, &["s"]);
}

/// A space without a version kind takes the kind of the other branch.
pub fn kind_of_versions_travels(w: &mut TestDb) {
    space(w).declare(SpaceOptions::default()).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    space_on(w, "dev").declare(SpaceOptions::default().versions(VersionKind::Time)).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(space(w).info().unwrap().unwrap().options.versions, Some(VersionKind::Time));
    refused(space(w).put("a", "1", 1), Code::InvalidVersion);
}

/// The last merge is the base of the next one, in both directions.
pub fn last_merge_is_the_next_base(w: &mut TestDb) {
    forked(w);
    let dev = space_on(w, "dev");
    for version in 6..12 {
        dev.put("a", "dev", version).unwrap();
        merge(w, Strict).unwrap();
        assert_eq!(w.db().diff("dev", "main").unwrap(), []);
    }
    space(w).put("a", "main", 20).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!(whole(&dev), whole(&space(w)));
}

/// A merge of several kinds of state is one transaction, and its changes are in the feed.
pub fn all_kinds_in_one_transaction(w: &mut TestDb) {
    forked(w);
    space_on(w, "dev").put("a", "dev", 6).unwrap();
    w.on("dev").set("c", 1).unwrap();
    let wanted = Filter { contract: Some(Contract::Keyed), ..Filter::default() };
    let mut feed = w.db().watch(wanted, w.db().revision()).unwrap();
    let revision = writes_once(w.db(), || merge(w, Strict).unwrap());
    let event = events(&mut feed, 1).remove(0);
    assert_eq!(
        (event.revision, event.branch.as_str(), event.key.as_str()),
        (revision, "main", "s/a")
    );
    assert_eq!(w.cells().get("c").unwrap(), int(1));
}
