//! `pick`: finds a record and writes it in one atomic step.
//!
//! Requires: Picks.

use super::TestRecords;
use crate::assertions::{fields, filter};
use mainstay_model::{Code, RecordPick, Test, Ttl};

fn claim() -> RecordPick {
    let pending = filter("state", Test::Eq, "pending");
    RecordPick::under("t.", vec![pending]).set("state", "claimed").unwrap()
}

fn task(s: &TestRecords<'_>, key: &str, rank: &str) {
    s.ok(s.put(key, &fields(&[("state", "pending"), ("rank", rank)]), None));
}

fn picked(s: &TestRecords<'_>, pick: RecordPick) -> Option<String> {
    s.ok(s.pick(pick)).map(|(key, _)| key)
}

/// Each pick takes the first matching key, until none is left.
pub fn first_key_that_passes(s: &TestRecords<'_>) {
    s.ok(s.put("t.0", &fields(&[("state", "done")]), None));
    task(s, "t.2", "1");
    task(s, "t.1", "2");
    task(s, "u.1", "0");
    let (key, record) = s.ok(s.pick(claim())).unwrap();
    assert_eq!((key.as_str(), record.fields.text("state")), ("t.1", Some("claimed")));
    assert_eq!(s.ok(s.get("t.1")), Some(record), "it tells what the record became");
    assert_eq!(picked(s, claim()).as_deref(), Some("t.2"));
    assert_eq!(picked(s, claim()), None);
    s.holds("u.1", &[("rank", "0"), ("state", "pending")]);
}

/// Records can be picked by the order of a field: numbers by value, records without the field first.
pub fn first_by_a_field(s: &TestRecords<'_>) {
    task(s, "t.1", "20");
    task(s, "t.2", "3");
    task(s, "t.3", "x");
    s.ok(s.put("t.4", &fields(&[("state", "pending")]), None));
    let order: Vec<String> =
        std::iter::from_fn(|| picked(s, claim().by("rank").unwrap())).collect();
    assert_eq!(order, ["t.4", "t.2", "t.1", "t.3"]);
}

/// A pick that writes nothing is refused.
pub fn of_nothing_is_refused(s: &TestRecords<'_>) {
    task(s, "t.1", "1");
    s.refused(s.pick(RecordPick::under("t.", vec![])), Code::InvalidField);
    let twice = claim().set("state", "x").unwrap();
    s.refused(s.pick(twice), Code::InvalidField);
    s.holds("t.1", &[("rank", "1"), ("state", "pending")]);
}

/// Concurrent callers never pick the same record.
pub fn each_is_picked_once(s: &TestRecords<'_>) {
    for n in 0..40 {
        task(s, &format!("t.{n:02}"), "1");
    }
    let mut all =
        s.together(|_| std::iter::from_fn(|| picked(s, claim())).collect::<Vec<String>>()).concat();
    all.sort();
    assert_eq!(all, (0..40).map(|n| format!("t.{n:02}")).collect::<Vec<String>>());
}

/// An invalid time to live is refused even if no record matches.
/// Requires: Ttl.
pub fn bad_time_to_live_is_refused(s: &TestRecords<'_>) {
    let mut pick = RecordPick::under("nothing.", vec![]).set("a", "1").unwrap();
    pick.ttl = Ttl::Millis(0);
    s.refused(s.pick(pick), Code::InvalidTtl);
}
