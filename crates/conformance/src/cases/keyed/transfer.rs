//! Export and import of keyed state.

use super::{all, held, ordered, snapshot_of, space, space_on, whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    At, Code, EntryBlock, EntryKind, KeyedState, StateCommand, StateWrite, Transaction, Wrote,
};
use std::path::PathBuf;

/// Fills spaces with every kind of entry and some history.
fn filled(w: &TestDb) {
    ordered(w);
    let keyed = space(w);
    for n in 1..=20_u64 {
        keyed.put(format!("k{}", n % 5), n.to_string(), n).unwrap();
        if n % 6 == 0 {
            keyed.delete(format!("k{}", n % 4), n + 1).unwrap();
            keyed.seal(n - 2).unwrap();
        }
    }
    let rest = vec![
        StateWrite::append("l", "1", "x"),
        StateWrite::append("l", "2", "y"),
        StateWrite::advance("in", 20),
    ];
    keyed.write(rest).unwrap();
    let plain = w.db().keyed("plain").unwrap();
    plain.put("a", "1", 1).unwrap();
    plain.delete("a", 2).unwrap();
    plain.put("b", "1", 1).unwrap();
    w.db().keyed("gone").unwrap().put("a", "1", 1).unwrap();
    w.db().keyed("gone").unwrap().clear().unwrap();
}

fn exported(w: &TestDb, branch: &str) -> PathBuf {
    let path = w.file(&format!("{branch}.export"));
    w.beside().export(branch, &path, &mut |_| {}).unwrap();
    path
}

#[track_caller]
fn same(one: &TestDb, branch: &str, other: &TestDb, copy: &str) {
    let names = |w: &TestDb, branch: &str| {
        w.db().branch(branch).unwrap().spaces("", None, 99).unwrap().names
    };
    assert_eq!(names(one, branch), names(other, copy));
    for name in names(one, branch) {
        let of =
            |w: &TestDb, branch: &str| whole(&w.db().branch(branch).unwrap().keyed(&name).unwrap());
        assert_eq!(of(one, branch), of(other, copy), "{name}");
    }
}

/// States, tombstones, waiting writes, items, positions, frontiers and options round-trip. Dropped
/// spaces do not.
pub fn round_trip(w: &mut TestDb) {
    filled(w);
    let report = w.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    assert_eq!(report.spaces, 2);
    same(w, "main", w, "copy");
    let copy = space_on(w, "copy");
    assert_eq!(copy.put("k0", "late", 3).unwrap(), Wrote::Stale);
    for keyed in [&space(w), &copy] {
        keyed.put("k1", "behind", 40).unwrap();
        keyed.seal(100).unwrap();
    }
    same(w, "main", w, "copy");
    let plain = w.db().branch("copy").unwrap().keyed("plain").unwrap();
    assert_eq!(plain.put("a", "late", 2).unwrap(), Wrote::Stale);
    plain.seal(9).unwrap();
    assert_eq!(plain.look(&[b"a"]).unwrap(), [None], "what was deleted is found when it is sealed");
}

/// The import replays the history: each tag on the copy shows the same state as in the source.
pub fn past_is_replayed(w: &mut TestDb) {
    filled(w);
    let mut moments = Vec::new();
    let moment = |w: &TestDb, moments: &mut Vec<Vec<u8>>| {
        w.db().tag(&format!("v{}", moments.len()), "main", At::Latest).unwrap();
        moments.push(whole(&space(w)));
    };
    let keyed = space(w);
    moment(w, &mut moments);
    keyed.put("k0", "30", 30).unwrap();
    keyed.delete("k1", 31).unwrap();
    moment(w, &mut moments);
    keyed.seal(31).unwrap();
    moment(w, &mut moments);
    keyed.seal(32).unwrap();
    keyed.append_unique("l", "3", "z").unwrap();
    moment(w, &mut moments);
    keyed.put("k1", "40", 40).unwrap();
    keyed.write(vec![StateWrite::advance("in", 99)]).unwrap();
    keyed.seal(50).unwrap();
    moment(w, &mut moments);
    let other = TestDb::memory();
    other.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    for (number, moment) in moments.iter().enumerate() {
        let tag = format!("v{number}");
        let tags = other.db().tags();
        let revision = tags.iter().find(|found| found.name == tag).unwrap().revision;
        other.db().fork(&tag, "copy", At::Revision(revision)).unwrap();
        assert_eq!(&whole(&space_on(&other, &tag)), moment, "{tag}");
    }
    same(w, "main", &other, "copy");
}

/// On the copy, entries staged by a restore are hidden until it completed and visible from then on.
pub fn restored_spaces(w: &mut TestDb) {
    space(w).put("a", "before", 5).unwrap();
    let piece = |key: &str, begun, ends| {
        let mut payload = Vec::new();
        mainstay::put_state(1.into(), (key != "d").then_some(&b"new"[..]), &mut payload);
        let mut block = EntryBlock::default();
        block.push(&EntryKind::state(key.as_bytes()), Some(&payload));
        let info = space(w).info().unwrap().unwrap();
        run(w.db(), StateCommand::Restore { space: name("s"), info, block, begun, ends }).unwrap();
        w.db().revision()
    };
    let begun = piece("b", None, false);
    space(w).put("a", "meanwhile", 6).unwrap();
    piece("c", Some(begun), false);
    piece("d", Some(begun), true);
    space(w).put("b", "behind", 2).unwrap();
    w.beside().reap().unwrap();
    w.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    same(w, "main", w, "copy");
    assert_eq!(all(&space_on(w, "copy")), ["b=behind@2", "c=new@1"]);
    space_on(w, "copy").seal(9).unwrap();
    assert_eq!(space_on(w, "copy").look(&[b"d"]).unwrap(), [None]);
    // A space with an unfinished restore is not exported.
    let other = w.db().keyed("half").unwrap();
    let info = space(w).info().unwrap().unwrap();
    let block = EntryBlock::default();
    run(
        w.db(),
        StateCommand::Restore { space: name("half"), info, block, begun: None, ends: false },
    )
    .unwrap();
    let path = w.file("again.export");
    let report = w.beside().export("main", &path, &mut |_| {}).unwrap();
    assert_eq!((report.spaces, other.info().unwrap()), (1, None));
}

/// A fork exports its visible state, and another database can import it.
pub fn fork_into_another_database(w: &mut TestDb) {
    filled(w);
    w.db().fork("dev", "main", At::Latest).unwrap();
    space_on(w, "dev").put("own", "1", 40).unwrap();
    space_on(w, "dev").seal(50).unwrap();
    w.db()
        .branch("dev")
        .unwrap()
        .keyed("plain")
        .unwrap()
        .restore(&snapshot_of(&[("x", "1", 1)]))
        .unwrap();
    space(w).put("later", "1", 60).unwrap();
    let path = exported(w, "dev");
    let other = if w.is_on_disk() { TestDb::disk() } else { TestDb::memory() };
    other.beside().import(&path, "copy", &mut |_| {}).unwrap();
    same(w, "dev", &other, "copy");
}

/// An export after a merge that replaced whole spaces round-trips.
pub fn after_a_merge(w: &mut TestDb) {
    space(w).put("a", "1", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    space_on(w, "dev").restore(&snapshot_of(&[("x", "1", 1), ("y", "2", 2)])).unwrap();
    space_on(w, "dev").delete("x", 4).unwrap();
    w.db().branch("dev").unwrap().keyed("new").unwrap().put("a", "1", 1).unwrap();
    w.db().merge("dev", "main", mainstay::MergeStrategy::Strict).unwrap();
    space(w).put("z", "3", 3).unwrap();
    w.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    same(w, "main", w, "copy");
}

/// A transaction with more entries than the command limit round-trips.
pub fn large_transactions(w: &mut TestDb) {
    let writes = |from: u32| {
        (from..from + 60_000).map(|n| StateWrite::put(n.to_be_bytes(), "1", 1)).collect()
    };
    let both = mainstay::Transaction::new()
        .step(StateCommand::Write { space: name("s"), writes: writes(0) })
        .step(StateCommand::Write { space: name("s"), writes: writes(60_000) });
    w.db().execute(both).unwrap();
    w.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    same(w, "main", w, "copy");
}

/// The export report counts spaces, and verifying the file gives the same count.
pub fn report_counts_spaces(w: &mut TestDb) {
    filled(w);
    let path = w.file("main.export");
    let report = w.beside().export("main", &path, &mut |_| {}).unwrap();
    assert_eq!((report.spaces, report.cells), (2, 0));
    let contents = mainstay::verify_export(&path, &mut |_| {}).unwrap();
    assert_eq!((contents.spaces, contents.versions), (2, report.versions));
}

/// Equal histories have equal hashes, and different states have different hashes.
pub fn hash_knows_spaces(w: &mut TestDb) {
    filled(w);
    let hash = |w: &TestDb| w.beside().export_hash("main").unwrap();
    let before = hash(w);
    let other = TestDb::memory();
    filled(&other);
    assert_eq!(hash(&other), before);
    space(&other).put("k0", "late", 1).unwrap();
    assert_eq!(hash(&other), before, "what was stale is nothing");
    space(&other).put("k0", "newer", 99).unwrap();
    assert_ne!(hash(&other), before);
}

/// Importing a damaged file fails and writes nothing.
pub fn damage_is_refused(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    let bytes = std::fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let broken = w.file("broken.export");
        std::fs::write(&broken, &damaged).unwrap();
        let before = w.db().revision();
        let error = w.beside().import(&broken, "copy", &mut |_| {}).unwrap_err();
        assert!(matches!(error.code(), Code::CorruptData | Code::NewerFormat), "{error}");
        assert_eq!(w.db().revision(), before, "byte {at}");
    }
}

/// An imported branch can be written, sealed, forked, merged, restored and cleared.
pub fn imported_branch_lives_on(w: &mut TestDb) {
    filled(w);
    w.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    w.db().fork("dev", "copy", At::Latest).unwrap();
    space_on(w, "dev").put("own", "1", 40).unwrap();
    w.db().merge("dev", "copy", mainstay::MergeStrategy::Strict).unwrap();
    space_on(w, "copy").seal(50).unwrap();
    assert_eq!(held(&space_on(w, "copy"), "own").unwrap(), "1@40");
    space_on(w, "copy").restore(&whole(&space(w))).unwrap();
    same(w, "main", w, "copy");
    assert!(space_on(w, "copy").clear().unwrap());
    w.beside().reap().unwrap();
    assert!(space(w).info().unwrap().is_some());
}

/// Only an import may use the `Replay` command, because it can lower a version.
pub fn only_imports_replay(w: &mut TestDb) {
    space(w).put("a", "newer", 5).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut block = EntryBlock::default();
    let mut older = Vec::new();
    mainstay::put_state(4.into(), Some(b"older"), &mut older);
    block.push(&EntryKind::state(b"a"), Some(&older));
    let info = space(w).info().unwrap().unwrap();
    for (block, shows) in [(block, false), (EntryBlock::default(), true)] {
        let command = StateCommand::Replay { space: name("s"), info, block, hidden: false, shows };
        refused(run(w.db(), command.clone()), Code::Unsupported);
        let on_dev = Transaction::on("dev").step(command.clone());
        refused(w.db().execute(on_dev), Code::Unsupported);
        refused(w.db().begin().unwrap().run(command), Code::Unsupported);
    }
    for keyed in [space(w), space_on(w, "dev")] {
        assert_eq!(held(&keyed, "a").unwrap(), "newer@5");
    }
}
