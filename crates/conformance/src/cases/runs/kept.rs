//! Stored states of user-defined reducers.

use super::note;
use crate::TestDb;
use crate::assertions::*;
use mainstay::{RunAnswer, RunCommand, Value};

/// `kept` returns the last stored state of a reducer and version.
pub fn last_is_given(w: &mut TestDb) {
    w.runs().append_batch((1..=9).map(|number| note("r", number)).collect()).unwrap();
    assert!(w.runs().kept("r", "sum", 1).unwrap().is_none());
    assert!(w.runs().keep("r", "sum", 1, 4, Value::from(10)).unwrap());
    assert!(w.runs().keep("r", "sum", 1, 8, Value::from(36)).unwrap());
    let kept = w.runs().kept("r", "sum", 1).unwrap().unwrap();
    assert_eq!((kept.seq, kept.state), (8, Value::from(36)));
    assert!(w.runs().kept("r", "sum", 2).unwrap().is_none(), "another version");
    assert!(w.runs().kept("r", "count", 1).unwrap().is_none(), "another reducer");
}

/// A read up to a sequence number never returns a later state.
pub fn upto_an_event(w: &mut TestDb) {
    w.runs().append_batch((1..=9).map(|number| note("r", number)).collect()).unwrap();
    for seq in [3, 6, 9] {
        w.runs().keep("r", "sum", 1, seq, Value::from(seq as i64)).unwrap();
    }
    let upto = |seq| {
        let run = name("r");
        let reducer = "sum".to_owned();
        let command = RunCommand::Kept { run, reducer, version: 1, upto: Some(seq) };
        match w.runs().read(command).unwrap() {
            RunAnswer::Kept(kept) => kept.map(|kept| kept.seq),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((upto(2), upto(9), upto(100)), (None, Some(9), Some(9)));
    assert!(upto(8).is_none_or(|seq| seq <= 8));
}

/// A missing run stores no state, and deleting a run deletes its states.
pub fn goes_with_the_run(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.runs().keep("r", "sum", 1, 1, Value::Null).unwrap()));
    w.runs().append(note("r", 1)).unwrap();
    w.runs().keep("r", "sum", 1, 1, Value::from(1)).unwrap();
    w.runs().delete("r").unwrap();
    assert!(w.runs().kept("r", "sum", 1).unwrap().is_none());
}

/// Branches store independent states.
pub fn a_branch_keeps_its_own(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    w.runs().keep("r", "sum", 1, 1, Value::from(1)).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let state = |runs: mainstay::Runs| runs.kept("r", "sum", 1).unwrap().unwrap().state;
    assert_eq!(state(w.runs_on("dev")), Value::from(1));
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs_on("dev").keep("r", "sum", 1, 2, Value::from(3)).unwrap();
    assert_eq!((state(w.runs_on("dev")), state(w.runs())), (Value::from(3), Value::from(1)));
}
