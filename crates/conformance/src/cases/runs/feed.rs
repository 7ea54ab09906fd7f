//! Runs in the change feed: every event once, in order, and alerts and deletions.

use super::{append, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{ChangeKind, Contract, Feed, Filter, Transaction, Value};

fn watch(w: &TestDb) -> Feed {
    let wanted = Filter { contract: Some(Contract::Runs), ..Filter::default() };
    w.db().watch(wanted, w.db().revision()).unwrap()
}

fn told(feed: &mut Feed, count: usize) -> Vec<(String, ChangeKind, u64)> {
    events(feed, count).into_iter().map(|event| (event.key, event.kind, event.counter)).collect()
}

fn of(key: &str, kind: ChangeKind, seq: u64) -> (String, ChangeKind, u64) {
    (key.to_owned(), kind, seq)
}

/// An event of an append contains revision, timestamp, branch, contract, run, sequence number and the
/// event itself.
pub fn event_tells_everything(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let mut feed = watch(w);
    w.pass_ms(3);
    w.runs().append(note("r", 2)).unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!((event.revision, event.stamp), (w.db().revision(), w.wall_us()));
    assert_eq!((event.branch.as_str(), event.key.as_str()), ("main", "r"));
    assert_eq!((event.contract, event.kind), (Contract::Runs, ChangeKind::Appended));
    assert_eq!(event.counter, 2);
    let Some(Value::Object(value)) = event.value else { panic!("no event") };
    assert_eq!(value["runSeq"], Value::from(2));
    assert_eq!(value["idempotencyKey"], Value::from("note-2"));
    assert_eq!(value["eventData"], Value::from(2));
}

/// The events of one transaction are delivered individually, in the order of the run.
pub fn a_batch_is_told_one_by_one(w: &mut TestDb) {
    let mut feed = watch(w);
    w.runs().append_batch((1..=20).map(|number| note("r", number)).collect()).unwrap();
    let expected: Vec<_> = (1..=20).map(|seq| of("r", ChangeKind::Appended, seq)).collect();
    assert_eq!(told(&mut feed, 20), expected);
}

/// Repeated, refused and conflicting appends produce no feed event.
pub fn only_what_was_written(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let mut feed = watch(w);
    w.runs().append(note("r", 1)).unwrap();
    w.runs().append(note("r", 1).value("else")).unwrap();
    w.runs().append_expecting(note("r", 2), 7).unwrap_err();
    w.runs().delete("absent").unwrap();
    w.runs().append(note("end", 1)).unwrap();
    assert_eq!(told(&mut feed, 1), [of("end", ChangeKind::Appended, 1)]);
}

/// An alert is delivered once, after its event.
pub fn alerts_are_told_once(w: &mut TestDb) {
    let mut feed = watch(w);
    for kind in ["RunStarted", "RunResumed", "RunResumed"] {
        w.runs().append(of_run("r", kind)).unwrap();
        w.runs().project("r").unwrap();
    }
    w.runs().append(note("end", 1)).unwrap();
    use ChangeKind::{Alerted, Appended};
    let expected =
        [of("r", Appended, 1), of("r", Appended, 2), of("r", Alerted, 2), of("end", Appended, 1)];
    assert_eq!(told(&mut feed, 4), expected);
}

/// A deletion is one feed event, independent of the number of run events; reaping produces none.
pub fn a_deletion_is_one_change(w: &mut TestDb) {
    w.runs().append_batch((1..=20).map(|number| note("r", number)).collect()).unwrap();
    let mut feed = watch(w);
    w.runs().delete("r").unwrap();
    w.beside().reap().unwrap();
    w.runs().append(note("end", 1)).unwrap();
    let seen: Vec<_> = told(&mut feed, 2).into_iter().map(|(key, kind, _)| (key, kind)).collect();
    assert_eq!(seen, [("r".into(), ChangeKind::Deleted), ("end".into(), ChangeKind::Appended)]);
}

/// The feed can be filtered by contract, prefix, key and branch.
pub fn filters(w: &mut TestDb) {
    let start = w.db().revision();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let both = Transaction::new().step(set("a/1", 1)).step(append(note("a/1", 1)));
    w.db().execute(both).unwrap();
    w.runs().append(note("b", 1)).unwrap();
    w.runs_on("dev").append(note("a/2", 1)).unwrap();
    let see = |filter: Filter, count| {
        let contract = Some(Contract::Runs);
        let mut feed = w.db().watch(Filter { contract, ..filter }, start).unwrap();
        let seen = events(&mut feed, count).into_iter();
        seen.map(|event| format!("{} {}", event.branch, event.key)).collect::<Vec<_>>()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(see(Filter::default(), 3), ["main a/1", "main b", "dev a/2"]);
    assert_eq!(see(Filter { prefix: text("a/"), ..Filter::default() }, 2), ["main a/1", "dev a/2"]);
    assert_eq!(see(Filter { key: text("b"), ..Filter::default() }, 1), ["main b"]);
    assert_eq!(see(Filter { branch: text("dev"), ..Filter::default() }, 1), ["dev a/2"]);
}
