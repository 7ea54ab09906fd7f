//! Sealing in bounded steps: any number of entries, with writes between the steps.

use super::{held, ordered, space, whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Code, KeyedState, LogicalTime, StateAnswer, StateCommand, StateWrite, Version, Wrote,
};

/// Runs one step of a seal and returns whether it was the last.
fn piece(w: &TestDb, frontier: impl Into<Version>, limit: usize) -> bool {
    let seal = StateCommand::Seal { space: name("s"), frontier: frontier.into(), limit };
    let Answer::State(answer) = run(w.db(), seal).unwrap() else { panic!() };
    let StateAnswer::Sealed { done, .. } = *answer else { panic!() };
    done
}

/// Seals in steps of at most `limit` entries; panics if it does not finish.
fn in_pieces(w: &TestDb, frontier: impl Into<Version> + Copy, limit: usize) {
    let enough = 2_000;
    assert!((0..enough).any(|_| piece(w, frontier, limit)), "sealing does not come to an end");
}

fn filled(w: &TestDb, is_ordered: bool) {
    if is_ordered {
        ordered(w);
    }
    for n in 0..40_u64 {
        let key = format!("k{}", n % 7);
        let write = match n % 3 {
            0 => StateWrite::delete(key.as_str(), n / 2),
            _ => StateWrite::put(key.as_str(), n.to_string(), n / 2),
        };
        space(w).write(vec![write]).unwrap();
    }
}

/// Steps of any size give the same result as a single seal.
pub fn pieces_reach_what_one_does(w: &mut TestDb) {
    for is_ordered in [true, false] {
        for frontier in [1_u64, 7, 15, 100] {
            let one = TestDb::memory();
            filled(&one, is_ordered);
            space(&one).seal(frontier).unwrap();
            for limit in [1, 2, 3, 1_000] {
                let other = TestDb::memory();
                filled(&other, is_ordered);
                in_pieces(&other, frontier, limit);
                assert_eq!(whole(&space(&other)), whole(&space(&one)), "{frontier} by {limit}");
            }
        }
    }
    filled(w, true);
    in_pieces(w, 100, 1);
    assert_eq!(space(w).info().unwrap().unwrap().frontier, Some(100.into()));
    assert!(space(w).waiting(None, 9).unwrap().is_empty());
}

/// If more tombstones have one version than a step may process, they are discarded over several steps.
pub fn many_deletions_of_one_version(w: &mut TestDb) {
    for n in 0..50 {
        space(w).delete(format!("k{n}"), LogicalTime::new(3, u64::MAX)).unwrap();
    }
    let frontier = LogicalTime::new(4, 0);
    assert!(!piece(w, frontier, 7));
    // Writes at that version are stale, whether their tombstone is already discarded or not.
    for n in [0, 49] {
        let version = LogicalTime::new(3, u64::MAX);
        assert_eq!(space(w).put(format!("k{n}"), "late", version).unwrap(), Wrote::Stale);
    }
    in_pieces(w, frontier, 7);
    assert_eq!(space(w).look(&[b"k0", b"k49"]).unwrap(), [None, None]);
    let empty = TestDb::memory();
    space(&empty).seal(frontier).unwrap();
    assert_eq!(whole(&space(w)), whole(&space(&empty)));
    writes_nothing(w.db(), || assert!(piece(w, frontier, 7)));
}

/// Between two steps each version is either open or closed, and writes are accepted.
pub fn writes_between_pieces(w: &mut TestDb) {
    ordered(w);
    for n in 1..=9_u64 {
        space(w).put("a", n.to_string(), n).unwrap();
    }
    assert!(!piece(w, 10, 3));
    let frontier = space(w).info().unwrap().unwrap().frontier.unwrap();
    assert!(frontier < 10.into());
    let state = space(w).get("a").unwrap().unwrap();
    assert_eq!(space(w).put("a", "late", state.version).unwrap(), Wrote::Stale);
    space(w).put("b", "in time", 9).unwrap();
    in_pieces(w, 10, 3);
    assert_eq!(
        (held(&space(w), "a").unwrap(), held(&space(w), "b").unwrap()),
        ("9@9".into(), "in time@9".into())
    );
    assert_eq!(space(w).put("b", "late", 9).unwrap(), Wrote::Stale);
}

/// The frontier never falls, and repeating a seal writes nothing.
pub fn frontier_never_falls(w: &mut TestDb) {
    space(w).put("a", "1", 3).unwrap();
    space(w).seal(10).unwrap();
    writes_nothing(w.db(), || {
        space(w).seal(10).unwrap();
        space(w).seal(4).unwrap();
    });
    assert_eq!(space(w).info().unwrap().unwrap().frontier, Some(10.into()));
    refused(space(w).seal(LogicalTime::new(1, 1)), Code::InvalidVersion);
}

/// Waiting entries that a restore adds below the frontier are applied at once, and their tombstones are
/// discarded.
pub fn added_below_the_frontier(w: &mut TestDb) {
    ordered(w);
    space(w).put("a", "1", 1).unwrap();
    space(w).put("b", "1", 1).unwrap();
    space(w).seal(2).unwrap();
    let other = TestDb::memory();
    ordered(&other);
    for (key, value, version) in [("a", "3", 3), ("a", "2", 2), ("c", "5", 5), ("d", "12", 12)] {
        space(&other).put(key, value, version).unwrap();
    }
    space(&other).delete("b", 4).unwrap();
    let keys = space(&other).snapshot_keys(&mainstay::KeySelection::Prefix(Vec::new())).unwrap();
    space(w).seal(10).unwrap();
    space(w).restore_keys(&keys).unwrap();
    let there = ["a", "b", "c", "d"].map(|key| held(&space(w), key));
    assert_eq!(there, [Some("3@3".into()), None, Some("5@5".into()), None]);
    let waiting = space(w).waiting(None, 9).unwrap();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(space(w).look(&[b"b"]).unwrap(), [None], "forgotten");
    space(w).seal(20).unwrap();
    assert_eq!(held(&space(w), "d").unwrap(), "12@12");
}
