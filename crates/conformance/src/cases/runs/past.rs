//! Time travel in runs: at a revision, at a timestamp, before their deletion.

use super::{note, of_run, tell};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, RunFilter, RunStatus};

/// Every revision shows the events, snapshot, info and list of that revision.
pub fn every_revision_shows_its_state(w: &mut TestDb) {
    let start = w.db().revision();
    tell(w, "r", &["RunStarted", "StepStarted", "StepCompleted", "RunCompleted"]);
    let expected =
        [RunStatus::Running, RunStatus::Running, RunStatus::Running, RunStatus::Completed];
    for (place, status) in expected.into_iter().enumerate() {
        let seq = place as u64 + 1;
        let then = w.runs().at(At::Revision(start + seq)).unwrap();
        assert_eq!(then.fetch("r", 0, 9).unwrap().len() as u64, seq);
        let snapshot = then.snapshot("r").unwrap().unwrap();
        let info = then.get("r").unwrap().unwrap();
        assert_eq!((snapshot.status, snapshot.last_event_seq), (status, seq));
        assert_eq!((info.status, info.last_event_seq), (status, seq));
        assert_eq!(Some(snapshot), w.runs().snapshot_at("r", seq).unwrap());
        let listed = then.list(&RunFilter::default().status(status), None, 9).unwrap();
        assert_eq!(listed.runs.len(), 1, "at {seq}");
    }
}

/// Before its first event a run is absent.
pub fn before_the_first_is_absent(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let then = w.db().revision();
    w.runs().append(note("r", 1)).unwrap();
    let past = w.runs().at(At::Revision(then)).unwrap();
    assert!(past.get("r").unwrap().is_none() && past.snapshot("r").unwrap().is_none());
    assert!(past.fetch("r", 0, 9).unwrap().is_empty());
    assert!(past.list(&RunFilter::default(), None, 9).unwrap().runs.is_empty());
}

/// A timestamp selects the newest revision that is not later.
pub fn at_a_stamp(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let stamp = w.wall_us();
    w.pass_ms(5);
    w.runs().append(note("r", 2)).unwrap();
    let count = |stamp| w.runs().at(At::Stamp(stamp)).unwrap().fetch("r", 0, 9).unwrap().len();
    assert_eq!(
        (count(stamp - 1), count(stamp), count(stamp + 4_999), count(w.wall_us())),
        (0, 1, 1, 2)
    );
}

/// A run deleted later is visible in the past.
pub fn deleted_later_is_there(w: &mut TestDb) {
    w.runs().bootstrap("r", "about", vec![of_run("r", "RunStarted")]).unwrap();
    let then = w.db().revision();
    w.runs().delete("r").unwrap();
    let past = w.runs().at(At::Revision(then)).unwrap();
    assert_eq!(past.get("r").unwrap().unwrap().metadata, Some("about".into()));
    assert_eq!(past.fetch("r", 0, 9).unwrap().len(), 1);
    assert_eq!(past.snapshot("r").unwrap().unwrap().status, RunStatus::Running);
    let gone = w.runs().at(At::Latest).unwrap();
    assert!(gone.get("r").unwrap().is_none());
}

/// A view keeps its revision.
pub fn view_stays_where_it_is(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let view = w.runs().at(At::Latest).unwrap();
    w.runs().append(note("r", 2)).unwrap();
    w.runs().delete("r").unwrap();
    assert_eq!((view.fetch("r", 0, 9).unwrap().len(), view.revision()), (1, w.db().revision() - 2));
}

/// A future revision is refused.
pub fn future_is_refused(w: &mut TestDb) {
    let ahead = At::Revision(w.db().revision() + 1);
    refused(w.runs().at(ahead).map(drop), Code::FutureRevision);
}

/// The revision of an event is that of its transaction, so a fork can start there.
pub fn revision_of_an_event(w: &mut TestDb) {
    let mut revisions = Vec::new();
    for number in 1..=3 {
        w.runs().append(note("r", number)).unwrap();
        revisions.push(Some(w.db().revision()));
    }
    w.runs().append_batch(vec![note("r", 4), note("r", 5)]).unwrap();
    let last = Some(w.db().revision());
    let told: Vec<_> = (1..=6).map(|seq| w.runs().revision_of("r", seq).unwrap()).collect();
    assert_eq!(told[..3], revisions);
    assert_eq!(told[3..], [last, last, None]);
    assert_eq!(w.runs().revision_of("r", 0).unwrap(), None);
    assert_eq!(w.runs().revision_of("absent", 1).unwrap(), None);
}

/// A list at a past revision shows the runs of that revision.
pub fn list_of_then(w: &mut TestDb) {
    w.runs().append(note("a", 1)).unwrap();
    w.runs().append(note("b", 1)).unwrap();
    let then = w.db().revision();
    w.runs().delete("a").unwrap();
    w.runs().append(note("c", 1)).unwrap();
    let past = w.runs().at(At::Revision(then)).unwrap();
    let names = |page: mainstay::RunPage| -> Vec<String> {
        page.runs.into_iter().map(|run| run.run_id).collect()
    };
    assert_eq!(names(past.list(&RunFilter::default(), None, 9).unwrap()), ["a", "b"]);
    assert_eq!(names(w.runs().list(&RunFilter::default(), None, 9).unwrap()), ["b", "c"]);
}
