//! Deletion of whole runs; single events cannot be deleted.

use super::{all, keys_of_run, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, ErrorKind, RunFilter, Transaction};

/// A deleted run is absent from every read.
pub fn deleted_is_gone(w: &mut TestDb) {
    w.runs()
        .bootstrap("r", 1, vec![of_run("r", "RunStarted"), of_run("r", "RunApproved")])
        .unwrap();
    assert!(writes_once(w.db(), || w.runs().delete("r").unwrap()));
    assert!(w.runs().get("r").unwrap().is_none());
    assert!(w.runs().fetch("r", 0, 9).unwrap().is_empty());
    assert!(w.runs().snapshot("r").unwrap().is_none() && w.runs().project("r").unwrap().is_none());
    assert!(w.runs().snapshot_at("r", 1).unwrap().is_none());
    assert!(w.runs().alerts("r", 0, 9).unwrap().is_empty());
    assert!(w.runs().list(&RunFilter::default(), None, 9).unwrap().runs.is_empty());
    assert_eq!(w.runs().revision_of("r", 1).unwrap(), None);
}

/// A deleted run refuses all events, even those it had.
pub fn deleted_takes_no_events(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    w.runs().delete("r").unwrap();
    for number in [1, 2] {
        let refusal = writes_nothing(w.db(), || w.runs().append(note("r", number))).unwrap_err();
        assert_eq!((refusal.code(), refusal.kind()), (Code::RunNotFound, ErrorKind::NotFound));
    }
    refused(w.runs().append_expecting(note("r", 1), 0), Code::RunNotFound);
}

/// Deleting a missing run returns false and writes nothing.
pub fn absent_answers_false(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.runs().delete("r").unwrap()));
    w.runs().append(note("r", 1)).unwrap();
    assert!(w.runs().delete("r").unwrap());
    assert!(!writes_nothing(w.db(), || w.runs().delete("r").unwrap()));
    assert_eq!(w.runs().append(note("s", 1)).unwrap().run_seq, 1, "an absent one can be made");
}

/// Other runs are not deleted, even if their names have the same prefix.
pub fn others_stay(w: &mut TestDb) {
    for run in ["r", "r\u{1}", "ra"] {
        w.runs().append(note(run, 1)).unwrap();
    }
    w.runs().delete("r").unwrap();
    w.beside().reap().unwrap();
    for run in ["r\u{1}", "ra"] {
        assert_eq!(keys_of_run(&w.runs(), run), ["note-1"]);
        assert!(w.runs().append(note(run, 1)).unwrap().idempotent);
    }
}

/// Reaping the data of a deleted run has no visible effect.
pub fn reaping_is_not_seen(w: &mut TestDb) {
    w.runs().append_batch((0..50).map(|number| note("r", number)).collect()).unwrap();
    w.runs().delete("r").unwrap();
    assert!(w.beside().reap().unwrap() >= 100);
    assert_eq!(w.beside().reap().unwrap(), 0);
    refused(w.runs().append(note("r", 1)), Code::RunNotFound);
    assert!(!w.runs().delete("r").unwrap());
}

/// Within a transaction, later steps see the run as deleted.
pub fn within_a_transaction(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let delete = || mainstay::RunCommand::Delete { run: name("r") };
    let bad = Transaction::new().step(delete()).step(super::append(note("r", 2)));
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::RunNotFound, 1);
    assert_eq!(all(&w.runs(), "r").len(), 1);
    let again = Transaction::new().must(delete()).must(delete());
    refused_at(w.db().execute(again), Code::MustFailed, 1);
}

/// A run cannot be created and deleted in one transaction, because a run created next would reuse its
/// storage keys.
pub fn made_in_the_same_transaction_is_refused(w: &mut TestDb) {
    let gone = mainstay::RunCommand::Delete { run: name("r") };
    let bad = Transaction::new().step(super::append(note("r", 1))).step(gone);
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::InvalidArgument, 1);
    assert!(w.runs().get("r").unwrap().is_none());
    assert_eq!(w.runs().append(note("r", 1)).unwrap().run_seq, 1);
}
