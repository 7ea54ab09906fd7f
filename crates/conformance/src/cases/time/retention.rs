//! Retention: old versions are trimmed after their time.
//!
//! Reading a trimmed revision is an error, never a wrong result. Branches, tags and open readers keep
//! the versions they need.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Revision};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Sets `k` to 1 and, a minute later, to 2. Returns the revision of the first write.
fn shadowed_long_ago(w: &TestDb) -> Revision {
    w.cells().set("k", 1).unwrap();
    let then = w.db().revision();
    w.pass(MINUTE);
    w.cells().set("k", 2).unwrap();
    w.pass(MINUTE);
    then
}

fn a_day_goes_by(w: &TestDb) {
    w.pass(DAY);
    w.cells().set("later", 1).unwrap();
    w.pass(MINUTE);
    w.cells().set("later", 2).unwrap();
    w.db().trim().unwrap();
}

/// A read, fork or tag at a trimmed revision fails with `HistoryTrimmed`.
pub fn trimmed_says_so(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    let then = shadowed_long_ago(w);
    let stamp = w.db().stamp_of(then).unwrap();
    a_day_goes_by(w);
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
    refused(read_at(&w.cells(), At::Stamp(stamp), "k"), Code::HistoryTrimmed);
    refused(w.db().fork("old", "main", At::Revision(then)), Code::HistoryTrimmed);
    refused(w.db().tag("old", "main", At::Revision(then)), Code::HistoryTrimmed);
}

/// Trimming does not affect current values, counters and names.
pub fn present_is_untouched(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    shadowed_long_ago(w);
    a_day_goes_by(w);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
    assert_eq!(counter(&w.cells(), "k"), Some(2));
    assert_eq!(names(&w.cells(), ""), ["k", "later"]);
    assert_eq!(w.cells().set("k", 3).unwrap(), 3);
}

/// Within the retention, all versions are kept by a trim.
pub fn within_the_retention_all_is_there(w: &mut TestDb) {
    w.configure(|options| options.retention(DAY * 7));
    let then = shadowed_long_ago(w);
    a_day_goes_by(w);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
    assert_eq!(w.cells().history("k", 9, None).unwrap().len(), 2);
}

/// The default retention of cells is seven days.
pub fn default_is_seven_days(w: &mut TestDb) {
    let then = shadowed_long_ago(w);
    w.pass(DAY * 5);
    a_day_goes_by(w);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
    w.pass(DAY);
    a_day_goes_by(w);
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
}

/// All versions can be kept forever.
pub fn all_can_be_kept(w: &mut TestDb) {
    w.configure(|options| options.retention_all());
    let then = shadowed_long_ago(w);
    w.pass(DAY * 400);
    a_day_goes_by(w);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
}

/// Names with a prefix can have their own retention.
pub fn classes_have_their_own(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10).retention_class("audit/", None));
    w.cells().set("audit/k", 1).unwrap();
    let then = shadowed_long_ago(w);
    w.cells().set("audit/k", 2).unwrap();
    a_day_goes_by(w);
    assert_eq!(w.cells().history("audit/k", 9, None).unwrap().len(), 2);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "audit/k").unwrap(), int(1));
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
}

/// Every revision either shows its correct state or fails with `HistoryTrimmed`.
pub fn never_a_wrong_answer(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    let mut truth = Vec::new();
    for n in 0..40 {
        w.cells().set("k", n).unwrap();
        truth.push((w.db().revision(), n));
        w.pass(MINUTE);
        if n % 7 == 0 {
            w.db().trim().unwrap();
        }
    }
    w.db().trim().unwrap();
    let mut kept = 0;
    for (revision, n) in truth {
        match read_at(&w.cells(), At::Revision(revision), "k") {
            Ok(seen) => {
                assert_eq!(seen, int(n));
                kept += 1;
            }
            Err(error) => assert_eq!(error.code(), Code::HistoryTrimmed, "{error}"),
        }
    }
    assert!((10..40).contains(&kept), "{kept} are kept, ten minutes' worth is due");
}

/// A tag keeps its revision readable until it is removed.
pub fn tag_keeps_its_revision(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    let then = shadowed_long_ago(w);
    w.db().tag("keep", "main", At::Revision(then)).unwrap();
    a_day_goes_by(w);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
    assert!(!w.db().pins().is_empty());
    w.db().untag("keep").unwrap();
    a_day_goes_by(w);
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
}

/// A branch keeps the versions that it shows.
pub fn branch_keeps_what_it_shows(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    let then = shadowed_long_ago(w);
    w.db().fork("dev", "main", At::Revision(then)).unwrap();
    a_day_goes_by(w);
    assert_eq!(w.on("dev").get("k").unwrap(), int(1));
    assert_eq!(names(&w.on("dev"), ""), ["k"]);
    assert_eq!(w.on("dev").set("k", 9).unwrap(), 2);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A branch keeps values that its parent deleted.
pub fn branch_keeps_what_its_parent_deleted(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    w.cells().set("gone", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.cells().delete("gone").unwrap();
    a_day_goes_by(w);
    assert_eq!(w.on("dev").get("gone").unwrap(), int(1));
    assert_eq!(w.cells().get("gone").unwrap(), None);
}

/// The merge base is kept while both branches exist.
pub fn base_of_a_merge_is_kept(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    w.cells().set("k", 0).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("k", 1).unwrap();
    w.on("dev").set("k", 0).unwrap();
    w.cells().set("k", 2).unwrap();
    w.cells().set("k", 3).unwrap();
    a_day_goes_by(w);
    w.db().merge("dev", "main", mainstay::MergeStrategy::Strict).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(3), "dev changed nothing");
}

/// An open reader keeps the versions that it sees.
pub fn open_reader_keeps_what_it_sees(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE));
    let then = shadowed_long_ago(w);
    let reader = w.cells().at(At::Revision(then)).unwrap();
    w.pass(MINUTE * 20);
    w.cells().set("later", 1).unwrap();
    w.db().trim().unwrap();
    assert_eq!(reader.get("k").unwrap(), int(1));
    assert_eq!(reader.list("", None, 9).unwrap().names, ["k"]);
}

/// A reader that is open for more than an hour loses its protection, and its reads fail with
/// `HistoryTrimmed`.
pub fn old_reader_is_cut(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE));
    let then = shadowed_long_ago(w);
    let reader = w.cells().at(At::Revision(then)).unwrap();
    w.pass(MINUTE * 90);
    a_day_goes_by(w);
    refused(reader.get("k"), Code::HistoryTrimmed);
}

/// A live cell keeps its counter forever.
pub fn live_counters_outlive_retention(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE));
    for n in 0..10 {
        w.cells().set("k", n).unwrap();
    }
    a_day_goes_by(w);
    a_day_goes_by(w);
    assert_eq!(w.cells().cas("k", Some(10), 0).unwrap(), Some(11));
}

/// A deleted cell keeps its counter within the retention.
pub fn deleted_counters_live_for_the_retention(w: &mut TestDb) {
    w.configure(|options| options.retention(DAY * 7));
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    a_day_goes_by(w);
    assert_eq!(w.cells().set("k", 2).unwrap(), 3);
}

/// (Disk.) A trimmed revision stays trimmed after a reopen, and the current state is unchanged.
/// Requires: Disk.
pub fn trimmed_stays_trimmed_over_a_reopen(w: &mut TestDb) {
    w.configure(|options| options.retention(MINUTE * 10));
    let then = shadowed_long_ago(w);
    a_day_goes_by(w);
    w.reopen();
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
    assert_eq!(counter(&w.cells(), "k"), Some(2));
}
