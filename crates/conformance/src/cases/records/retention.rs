//! Retention of record history: 24 hours by default, independent of the retention of cells.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Revision};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Writes 1 to the cell and record `key`, then 2 a minute later. Returns the revision of the first
/// write.
fn shadowed(w: &TestDb, key: &str) -> Revision {
    w.cells().set(key, "1").unwrap();
    w.records().set_field(key, "a", "1").unwrap();
    let then = w.db().revision();
    w.pass(MINUTE);
    w.cells().set(key, "2").unwrap();
    w.records().set_field(key, "a", "2").unwrap();
    w.pass(MINUTE);
    then
}

fn time_goes_by(w: &TestDb, time: Duration) {
    w.pass(time);
    for n in ["1", "2"] {
        w.cells().set("later", n).unwrap();
        w.records().set_field("later", "a", n).unwrap();
        w.pass(MINUTE);
    }
    w.db().trim().unwrap();
}

fn record_at(w: &TestDb, at: Revision, key: &str) -> mainstay::Result<Option<String>> {
    let seen = w.records().at(At::Revision(at))?.get(key)?;
    Ok(seen.map(|record| record.fields.text("a").unwrap().to_owned()))
}

fn one() -> Option<String> {
    Some("1".to_owned())
}

/// By default records keep 24 hours of history, and cells have their own retention.
pub fn default_is_a_day(w: &mut TestDb) {
    let then = shadowed(w, "k");
    time_goes_by(w, HOUR * 22);
    assert_eq!(record_at(w, then, "k").unwrap(), one());
    assert_eq!(w.records().history("k", 9, None).unwrap().len(), 2);
    time_goes_by(w, HOUR * 3);
    refused(record_at(w, then, "k"), Code::HistoryTrimmed);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), Some("1".into()));
}

/// Scans and counts of a trimmed revision fail with `HistoryTrimmed` and never return a wrong result.
pub fn trimmed_scans_say_so(w: &mut TestDb) {
    let then = shadowed(w, "k");
    time_goes_by(w, HOUR * 30);
    let view = || w.records().at(At::Revision(then));
    refused(view().and_then(|view| view.scan("", &[], None, 9)), Code::HistoryTrimmed);
    refused(view().and_then(|view| view.count("", &[])), Code::HistoryTrimmed);
    refused(view().and_then(|view| view.history("k", 9, None)), Code::HistoryTrimmed);
    refused(w.db().fork("old", "main", At::Revision(then)), Code::HistoryTrimmed);
}

/// Trimming does not affect the current state.
pub fn present_is_untouched(w: &mut TestDb) {
    shadowed(w, "k");
    time_goes_by(w, HOUR * 30);
    holds(&w.records(), "k", &[("a", "2")]);
    assert_eq!(found(&w.records(), "", &[]), ["k", "later"]);
    assert_eq!(w.records().set_field("k", "a", "3").unwrap(), 3);
}

/// Records can have a longer or shorter retention than cells.
pub fn records_have_their_own(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10).record_retention(Some(HOUR * 5)));
    let then = shadowed(w, "k");
    time_goes_by(w, HOUR);
    assert_eq!(record_at(w, then, "k").unwrap(), one());
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
}

/// Record history can be kept forever.
pub fn all_can_be_kept(w: &mut TestDb) {
    w.configure(|options| options.record_retention(None));
    let then = shadowed(w, "k");
    time_goes_by(w, HOUR * 24 * 30);
    assert_eq!(record_at(w, then, "k").unwrap(), one());
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
}

/// Records under a prefix can have their own retention, and cells of the prefix are not affected.
pub fn classes_have_their_own(w: &mut TestDb) {
    w.configure(|options| {
        options
            .record_retention_class("audit/", None)
            .record_retention_class("tmp/", Some(MINUTE * 10))
    });
    let thens = ["audit/k", "tmp/k", "k"].map(|key| shadowed(w, key));
    time_goes_by(w, HOUR);
    refused(record_at(w, thens[1], "tmp/k"), Code::HistoryTrimmed);
    assert_eq!(record_at(w, thens[2], "k").unwrap(), one());
    assert_eq!(read_at(&w.cells(), At::Revision(thens[1]), "tmp/k").unwrap(), Some("1".into()));
    time_goes_by(w, HOUR * 30);
    refused(record_at(w, thens[2], "k"), Code::HistoryTrimmed);
    assert_eq!(record_at(w, thens[0], "audit/k").unwrap(), one());
    assert_eq!(w.records().history("audit/k", 9, None).unwrap().len(), 2);
}

/// A retention class for cells does not affect records.
pub fn classes_of_cells_are_theirs(w: &mut TestDb) {
    w.configure(|options| options.retention_class("audit/", None));
    let then = shadowed(w, "audit/k");
    time_goes_by(w, HOUR * 24 * 10);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "audit/k").unwrap(), Some("1".into()));
    refused(record_at(w, then, "audit/k"), Code::HistoryTrimmed);
}

/// Tags and branches keep the record versions that they show.
pub fn pins_keep_what_they_show(w: &mut TestDb) {
    let then = shadowed(w, "k");
    w.db().tag("v1", "main", At::Revision(then)).unwrap();
    w.db().fork("old", "main", At::Revision(then)).unwrap();
    w.records().delete("k").unwrap();
    time_goes_by(w, HOUR * 24 * 3);
    assert_eq!(record_at(w, then, "k").unwrap(), one());
    holds(&w.records_on("old"), "k", &[("a", "1")]);
    assert_eq!(found(&w.records_on("old"), "", &[]), ["k"]);
}

/// The counter of a live record outlives the retention; the counter of a deleted record lasts as long as
/// the retention.
pub fn counters_live_for_the_retention(w: &mut TestDb) {
    shadowed(w, "live");
    shadowed(w, "dead");
    w.records().delete("dead").unwrap();
    time_goes_by(w, HOUR * 12);
    assert_eq!(w.records().set_field("dead", "a", "1").unwrap(), 4);
    time_goes_by(w, HOUR * 24 * 9);
    assert_eq!(record_counter(&w.records(), "live"), Some(2));
    assert_eq!(record_counter(&w.records(), "dead"), Some(4));
}
