//! Conditional appends on the expected last sequence number.

use super::{all, note};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, ErrorKind, RunCommand, Transaction};

fn expecting(number: u64, expected: u64) -> RunCommand {
    RunCommand::Append { event: Box::new(note("r", number)), expected: Some(expected) }
}

/// The current sequence number appends; it is 0 for a run without events and for a missing run.
pub fn right_sequence_appends(w: &mut TestDb) {
    for seq in 0..5 {
        assert_eq!(w.runs().append_expecting(note("r", seq), seq).unwrap().run_seq, seq + 1);
    }
    w.runs().bootstrap("s", 1, vec![]).unwrap();
    assert_eq!(w.runs().append_expecting(note("s", 1), 0).unwrap().run_seq, 1);
}

/// Any other sequence number is refused and writes nothing.
pub fn other_sequence_is_refused(w: &mut TestDb) {
    w.runs().append_batch(vec![note("r", 1), note("r", 2)]).unwrap();
    for wrong in [0, 1, 3, u64::MAX] {
        let moved =
            writes_nothing(w.db(), || w.runs().append_expecting(note("r", 3), wrong)).unwrap_err();
        assert_eq!((moved.code(), moved.kind()), (Code::SequenceMoved, ErrorKind::Conflict));
    }
    refused(w.runs().append_expecting(note("new", 1), 1), Code::SequenceMoved);
    assert!(w.runs().get("new").unwrap().is_none());
}

/// A retry of an existing event succeeds, even though the run has moved on.
pub fn a_retry_is_found(w: &mut TestDb) {
    w.runs().append_expecting(note("r", 1), 0).unwrap();
    w.runs().append_expecting(note("r", 2), 1).unwrap();
    let again = w.runs().append_expecting(note("r", 1), 0).unwrap();
    assert_eq!((again.run_seq, again.idempotent), (1, true));
}

/// Within a transaction, the condition sees earlier steps, and a failure aborts the transaction.
pub fn within_a_transaction(w: &mut TestDb) {
    let good = Transaction::new().step(expecting(1, 0)).step(expecting(2, 1));
    w.db().execute(good).unwrap();
    let bad = Transaction::new().step(expecting(3, 2)).step(set("c", 1)).step(expecting(4, 2));
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::SequenceMoved, 2);
    assert_eq!((all(&w.runs(), "r").len(), w.cells().get("c").unwrap()), (2, None));
}

/// Of several producers that expect the same sequence number, exactly one wins.
pub fn one_of_many_wins(w: &mut TestDb) {
    let race = |number: u64| {
        let runs = w.runs();
        move || runs.append_expecting(note("r", number), 0).is_ok()
    };
    let threads: Vec<_> = (0..8).map(|number| std::thread::spawn(race(number))).collect();
    let won = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(won.filter(|won| *won).count(), 1);
    assert_eq!(all(&w.runs(), "r").len(), 1);
}
