//! The versions of a record, newest first.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Transaction, Ttl};

fn entries(w: &TestDb, limit: usize, before: Option<u64>) -> Vec<(u64, Option<String>)> {
    let entries = w.records().history("k", limit, before).unwrap().into_iter();
    let text = |fields: mainstay::Fields| fields.text("a").unwrap().to_owned();
    entries.map(|entry| (entry.counter, entry.fields.map(text))).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Versions are ordered newest first, with counter, fields, timestamp, revision and expiry.
pub fn newest_first_with_everything(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    w.pass_ms(2);
    w.records().put("k", &fields(&[("b", "2")]), Some(Ttl::Millis(50))).unwrap();
    let seen = w.records().history("k", 9, None).unwrap();
    assert_eq!((seen.len(), seen[0].counter, seen[1].counter), (2, 2, 1));
    assert_eq!(seen[0].fields, Some(fields(&[("a", "1"), ("b", "2")])));
    assert_eq!((seen[0].revision, seen[0].stamp), (w.db().revision(), w.wall_us()));
    assert_eq!((seen[0].expires, seen[1].expires), (Some(w.wall_us() + 50_000), None));
}

/// Deletions are entries.
pub fn deletions_are_entries(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    w.records().delete("k").unwrap();
    w.records().set_field("k", "a", "3").unwrap();
    assert_eq!(entries(w, 9, None), [(3, some("3")), (2, None), (1, some("1"))]);
}

/// Paging by counter returns every version once.
pub fn pages_give_everything_once(w: &mut TestDb) {
    (1..=7).for_each(|n| done(w.records().set_field("k", "a", n.to_string()).unwrap()));
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = entries(w, 3, before);
        let Some((last, _)) = page.last() else { break };
        before = Some(*last);
        seen.extend(page.into_iter().map(|(counter, _)| counter));
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

/// A missing record has no history, and invalid limits are refused.
pub fn limits_are_checked(w: &mut TestDb) {
    assert_eq!(entries(w, 9, None), []);
    refused(w.records().history("k", 0, None), Code::InvalidLimit);
    refused(w.records().history("k", 100_001, None), Code::InvalidLimit);
}

/// A transaction creates one version, which records its number of writes.
pub fn one_version_per_transaction(w: &mut TestDb) {
    let twice = Transaction::new().step(write("k", &[("a", "1")])).step(write("k", &[("a", "2")]));
    w.db().execute(twice).unwrap();
    let seen = w.records().history("k", 9, None).unwrap();
    assert_eq!((seen.len(), seen[0].counter, seen[0].writes), (1, 2, 2));
}

/// Counters have no gaps: each version's counter is the previous counter plus its number of writes.
pub fn counters_have_no_gaps(w: &mut TestDb) {
    for n in 0..6 {
        w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
        w.pass_ms(if n % 2 == 0 { 6 } else { 1 });
        if n % 3 == 0 {
            w.records().delete("k").unwrap();
        }
    }
    let seen = w.records().history("k", 99, None).unwrap();
    let gaps = seen.windows(2).all(|two| two[0].counter == two[1].counter + two[0].writes);
    assert!(gaps && seen.last().unwrap().counter == seen.last().unwrap().writes, "{seen:?}");
}

/// Every revision shows the record's state at that revision.
pub fn every_revision_shows_its_state(w: &mut TestDb) {
    let mut truth = Vec::new();
    for n in 0..6 {
        if n == 3 {
            w.records().delete("k").unwrap();
        } else {
            w.records().set_field("k", "a", n.to_string()).unwrap();
        }
        truth.push((w.db().revision(), (n != 3).then(|| n.to_string())));
    }
    for (revision, value) in truth {
        let past = w.records().at(At::Revision(revision)).unwrap();
        let seen = past.get("k").unwrap();
        assert_eq!(seen.map(|seen| seen.fields.text("a").unwrap().to_owned()), value);
        let count = u64::from(value.is_some());
        assert_eq!(past.count("", &[]).unwrap(), count);
        assert_eq!(past.scan("k", &[], None, 9).unwrap().records.len() as u64, count);
        assert_eq!(past.history("k", 1, None).unwrap()[0].revision, revision);
    }
}

/// A view keeps its revision, and a future revision is refused.
pub fn view_stays_where_it_is(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let view = w.records().at(At::Latest).unwrap();
    w.records().set_field("k", "a", "2").unwrap();
    w.records().set_field("l", "a", "2").unwrap();
    assert_eq!(view.get("k").unwrap().unwrap().fields.text("a"), Some("1"));
    assert_eq!(view.count("", &[]).unwrap(), 1);
    refused(w.records().at(At::Revision(w.db().revision() + 1)).map(drop), Code::FutureRevision);
}
