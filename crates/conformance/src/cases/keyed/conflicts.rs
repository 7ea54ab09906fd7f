//! Conflict detection for interactive transactions on keyed state.
//!
//! A commit conflicts if a read or an answer has become invalid.

use super::{held, look, ordered, put, scan, snapshot_of, space, write};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Code, ErrorKind, InteractiveTransaction, KeyedState, LogicalTime, SpaceOptions,
    StateAnswer, StateCommand, StateWrite, Wrote,
};

#[track_caller]
fn survives(
    w: &TestDb,
    inside: impl FnOnce(&mut InteractiveTransaction),
    meanwhile: impl FnOnce(),
) -> bool {
    let mut t = w.db().begin().unwrap();
    inside(&mut t);
    t.set("result", 1).unwrap();
    meanwhile();
    let before = w.db().revision();
    match t.commit() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert_eq!(w.db().revision(), before, "a conflict writes nothing");
            false
        }
    }
}

fn wrote(answer: Answer) -> Vec<Wrote> {
    let Answer::State(answer) = answer else { panic!("{answer:?}") };
    let StateAnswer::Wrote(wrote) = *answer else { panic!("{answer:?}") };
    wrote
}

fn items(key: &str) -> StateCommand {
    StateCommand::Items { space: name("s"), key: key.into(), after: None, limit: 9 }
}

fn list(prefix: &str) -> StateCommand {
    StateCommand::List { space: name("s"), prefix: prefix.into(), after: None, limit: 9 }
}

fn positions() -> StateCommand {
    StateCommand::Positions { space: name("s") }
}

fn filled(w: &TestDb) {
    let writes = vec![
        StateWrite::put("a/1", "1", 5),
        StateWrite::put("a/2", "1", 5),
        StateWrite::put("b", "1", 5),
        StateWrite::append("log", "1", "x"),
        StateWrite::advance("in", 3),
    ];
    space(w).write(writes).unwrap();
}

/// Each kind of read conflicts with a write to the read data.
pub fn read_then_written(w: &mut TestDb) {
    filled(w);
    type Change = (StateCommand, StateWrite);
    let changes: [Change; 8] = [
        (look(&["b"]), StateWrite::put("b", "2", 6)),
        (look(&["absent"]), StateWrite::put("absent", "2", 1)),
        (look(&["a/1"]), StateWrite::delete("a/1", 6)),
        (scan("a/", 9), StateWrite::put("a/9", "2", 6)),
        (list("a/"), StateWrite::put("a/8", "2", 6)),
        (items("log"), StateWrite::append("log", "2", "x")),
        (positions(), StateWrite::advance("in", 9)),
        (positions(), StateWrite::advance("other", 9)),
    ];
    for (read, change) in changes {
        let meanwhile = || done(space(w).write(vec![change.clone()]).unwrap());
        assert!(!survives(w, |t| done(t.run(read.clone()).unwrap()), meanwhile), "{read:?}");
    }
    let dump = StateCommand::Dump { space: name("s"), after: None, limit_bytes: 1 << 20 };
    let meanwhile = || done(space(w).put("zzz", "1", 1).unwrap());
    assert!(!survives(w, |t| done(t.run(dump).unwrap()), meanwhile));
}

/// Writes to other keys, to other spaces or after the read page do not conflict, and neither do stale
/// writes.
pub fn others_do_not_conflict(w: &mut TestDb) {
    filled(w);
    let others = || {
        space(w).put("c", "1", 1).unwrap();
        space(w).put("b", "older", 4).unwrap();
        space(w).append_unique("b", "1", "x").unwrap();
        space(w).write(vec![StateWrite::advance("in", 2), StateWrite::advance("b", 2)]).unwrap();
        w.db().keyed("other").unwrap().put("b", "1", 9).unwrap();
        w.cells().set("b", 1).unwrap();
    };
    assert!(survives(w, |t| done(t.run(look(&["b"])).unwrap()), others));
    let page = |t: &mut InteractiveTransaction| done(t.run(scan("", 1)).unwrap());
    assert!(survives(w, page, || done(space(w).put("a/2", "2", 9).unwrap())), "behind the page");
    assert!(!survives(w, page, || done(space(w).put("a/0", "2", 9).unwrap())), "before its end");
    assert!(survives(
        w,
        |t| done(t.run(items("lo")).unwrap()),
        || { done(space(w).append_unique("log", "9", "x").unwrap()) }
    ));
}

/// Restoring or dropping a space conflicts with every read of it, even if the restored content is equal.
pub fn restored_meanwhile(w: &mut TestDb) {
    let same = snapshot_of(&[("a/1", "1", 5), ("b", "1", 5)]);
    for read in [look(&["b"]), look(&["absent"]), scan("x", 9), items("log"), positions()] {
        filled(w);
        let meanwhile = || done(space(w).restore(&same).unwrap());
        assert!(!survives(w, |t| done(t.run(read.clone()).unwrap()), meanwhile), "{read:?}");
        let meanwhile = || assert!(space(w).clear().unwrap());
        assert!(!survives(w, |t| done(t.run(read.clone()).unwrap()), meanwhile), "{read:?}");
    }
}

/// A restore in progress does not conflict before it is published.
pub fn filling_does_not_conflict(w: &mut TestDb) {
    filled(w);
    let begin = || {
        let info = space(w).info().unwrap().unwrap();
        let block = mainstay::EntryBlock::default();
        let begin =
            StateCommand::Restore { space: name("s"), info, block, begun: None, ends: false };
        run(w.db(), begin).unwrap();
    };
    assert!(survives(w, |t| done(t.run(look(&["b"])).unwrap()), begin));
}

/// Two transactions that both create a space: one commits, the other conflicts and is retried.
pub fn two_first_puts(w: &mut TestDb) {
    let first = |t: &mut InteractiveTransaction| {
        assert_eq!(wrote(t.run(put("a", "mine", 1)).unwrap()), [Wrote::Applied])
    };
    assert!(!survives(w, first, || done(space(w).put("a", "theirs", 1).unwrap())));
    assert_eq!(held(&space(w), "a").unwrap(), "theirs@1");
    let mut tries = 0;
    w.db()
        .transaction(|t| {
            tries += 1;
            let is = wrote(t.run(put("x", "mine", 1))?);
            if tries == 1 {
                space(w).put("x", "theirs", 1)?;
            }
            t.set("told", is[0] == Wrote::Stale).map(drop)
        })
        .unwrap();
    assert_eq!((tries, w.cells().get("told").unwrap()), (2, Some(true.into())));
}

/// Writes to different keys of an existing space never conflict.
pub fn puts_to_other_keys_never_conflict(w: &mut TestDb) {
    filled(w);
    let inside = |t: &mut InteractiveTransaction| done(t.run(put("mine", "1", 9)).unwrap());
    assert!(survives(w, inside, || done(space(w).put("theirs", "1", 9).unwrap())));
    assert_eq!(
        (held(&space(w), "mine"), held(&space(w), "theirs")),
        (Some("1@9".into()), Some("1@9".into()))
    );
}

/// The answer to a `put` still holds at commit. If its version was sealed meanwhile, the commit
/// conflicts.
pub fn put_is_as_told(w: &mut TestDb) {
    filled(w);
    let inside = |version| {
        move |t: &mut InteractiveTransaction| {
            assert_eq!(wrote(t.run(put("k", "1", version)).unwrap()), [Wrote::Applied]);
        }
    };
    assert!(survives(w, inside(20), || done(space(w).seal(15).unwrap())));
    assert!(!survives(w, inside(21), || done(space(w).seal(30).unwrap())), "it would be stale now");
    let stale = |t: &mut InteractiveTransaction| {
        assert_eq!(wrote(t.run(put("late", "1", 29)).unwrap()), [Wrote::Stale]);
    };
    assert!(survives(w, stale, || done(space(w).seal(40).unwrap())), "what is stale stays so");
}

/// If another writer fixes a different version kind meanwhile, the commit conflicts. The retry is then
/// refused.
pub fn kinds_that_are_fixed_meanwhile(w: &mut TestDb) {
    space(w).declare(SpaceOptions::default()).unwrap();
    let inside = |t: &mut InteractiveTransaction| {
        assert_eq!(wrote(t.run(put("mine", "1", 7)).unwrap()), [Wrote::Applied]);
    };
    assert!(survives(w, inside, || done(space(w).append_unique("log", "1", "x").unwrap())));
    space(w).clear().unwrap();
    space(w).declare(SpaceOptions::default()).unwrap();
    let theirs = || done(space(w).put("theirs", "1", LogicalTime::new(1, 0)).unwrap());
    assert!(!survives(w, inside, theirs));
    // A refused command leaves the transaction unchanged.
    let mut again = w.db().begin().unwrap();
    refused(again.run(put("mine", "1", 7)), Code::InvalidVersion);
    let writes = vec![StateWrite::put("mine", "1", LogicalTime::new(2, 0))];
    assert_eq!(wrote(again.run(write(writes)).unwrap()), [Wrote::Applied]);
    again.commit().unwrap();
}

/// The same for waiting writes: the first write of a key and version wins.
pub fn waiting_is_as_told(w: &mut TestDb) {
    ordered(w);
    let inside = |t: &mut InteractiveTransaction| {
        assert_eq!(wrote(t.run(put("k", "mine", 5)).unwrap()), [Wrote::Waiting]);
    };
    assert!(survives(w, inside, || done(space(w).put("kk", "theirs", 5).unwrap())));
    let inside = |t: &mut InteractiveTransaction| {
        assert_eq!(wrote(t.run(put("k", "mine", 6)).unwrap()), [Wrote::Waiting]);
    };
    assert!(!survives(w, inside, || done(space(w).put("k", "theirs", 6).unwrap())));
    assert_eq!(space(w).waiting(None, 9).unwrap().len(), 3);
}

/// Reads inside a transaction see its own writes. Other readers do not see them.
pub fn reads_its_own_writes(w: &mut TestDb) {
    filled(w);
    let mut t = w.db().begin().unwrap();
    let writes = vec![
        StateWrite::put("a/3", "own", 7),
        StateWrite::delete("a/1", 7),
        StateWrite::append("log", "2", "y"),
        StateWrite::advance("in", 4),
    ];
    t.run(write(writes)).unwrap();
    let state = |answer: Answer| {
        let Answer::State(answer) = answer else { panic!("{answer:?}") };
        *answer
    };
    let StateAnswer::Kept(kept) = state(t.run(look(&["a/3", "a/1", "b"])).unwrap()) else {
        panic!()
    };
    let values: Vec<_> = kept.into_iter().map(|kept| kept.unwrap().value).collect();
    assert_eq!(values, [Some(b"own".to_vec()), None, Some(b"1".to_vec())]);
    let StateAnswer::States(page) = state(t.run(scan("a/", 9)).unwrap()) else { panic!() };
    let keys: Vec<_> = page.states.iter().map(|(key, _)| key.as_slice()).collect();
    assert_eq!(keys, [&b"a/2"[..], b"a/3"]);
    let StateAnswer::Keys { keys, next } = state(t.run(list("a/")).unwrap()) else { panic!() };
    assert_eq!((keys.len(), next), (2, None));
    let StateAnswer::Items(found) = state(t.run(items("log")).unwrap()) else { panic!() };
    assert_eq!(found.len(), 2);
    let StateAnswer::Positions(found) = state(t.run(positions()).unwrap()) else { panic!() };
    assert_eq!(found, [("in".to_owned(), 4)]);
    assert_eq!(held(&space(w), "a/3"), None, "nobody else sees them");
    t.rollback();
    assert_eq!(held(&space(w), "a/1").unwrap(), "1@5");
}

/// Reads inside a transaction see the effect of its own restore or drop.
pub fn sees_what_it_replaced(w: &mut TestDb) {
    filled(w);
    let mut t = w.db().begin().unwrap();
    t.run(StateCommand::Drop { space: name("s") }).unwrap();
    assert!(
        matches!(t.run(positions()).unwrap(), Answer::State(answer) if *answer == StateAnswer::Positions(vec![]))
    );
    t.run(put("new", "1", 1)).unwrap();
    let Answer::State(answer) = t.run(scan("", 9)).unwrap() else { panic!() };
    let StateAnswer::States(page) = *answer else { panic!() };
    assert_eq!(page.states.len(), 1);
    t.commit().unwrap();
    assert_eq!((held(&space(w), "new").unwrap(), held(&space(w), "b")), ("1@1".into(), None));
}

/// Dropping a space also drops its frontier, so a later `put` in the same transaction may use a version
/// below it. This does not conflict, even on a retry.
pub fn what_it_replaced_is_its_own(w: &mut TestDb) {
    filled(w);
    space(w).seal(20).unwrap();
    let inside = |t: &mut InteractiveTransaction| {
        t.run(StateCommand::Drop { space: name("s") }).unwrap();
        assert_eq!(wrote(t.run(put("b", "own", 3)).unwrap()), [Wrote::Applied]);
    };
    assert!(survives(w, inside, || done(w.cells().set("b", 1).unwrap())));
    assert_eq!(held(&space(w), "b").unwrap(), "own@3");
    assert!(
        !survives(w, inside, || done(space(w).clear().unwrap())),
        "there is none to be dropped"
    );
}

/// If two transactions each read a key that the other writes, one of them conflicts.
pub fn write_skew_cannot_happen(w: &mut TestDb) {
    filled(w);
    let mut one = w.db().begin().unwrap();
    let mut other = w.db().begin().unwrap();
    one.run(look(&["a/1"])).unwrap();
    other.run(look(&["a/2"])).unwrap();
    one.run(put("a/2", "one", 9)).unwrap();
    other.run(put("a/1", "other", 9)).unwrap();
    one.commit().unwrap();
    assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// Spaces created inside a listed range conflict with the list.
pub fn phantom_among_spaces(w: &mut TestDb) {
    filled(w);
    let spaces = |t: &mut InteractiveTransaction| {
        let command = StateCommand::Spaces { prefix: "s".into(), after: None, limit: 9 };
        done(t.run(command).unwrap());
    };
    assert!(survives(w, spaces, || done(w.db().keyed("t").unwrap().put("a", "1", 1).unwrap())));
    assert!(
        survives(w, spaces, || done(space(w).put("b", "1", 77).unwrap())),
        "the space is as it was"
    );
    assert!(!survives(w, spaces, || done(w.db().keyed("s2").unwrap().put("a", "1", 1).unwrap())));
}
