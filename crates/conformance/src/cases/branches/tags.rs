//! Tags: names for a revision of a branch.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code};

/// A tag names the newest revision and does not move with later writes.
pub fn names_the_newest_revision(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let then = w.db().revision();
    assert_eq!(w.db().tag("v1", "main", At::Latest).unwrap(), then);
    w.cells().set("k", 2).unwrap();
    let tags = w.db().tags();
    assert_eq!(tags.len(), 1);
    assert_eq!((tags[0].name.as_str(), tags[0].branch.as_str()), ("v1", "main"));
    assert_eq!(tags[0].revision, then);
    assert_eq!(read_at(&w.cells(), At::Revision(tags[0].revision), "k").unwrap(), int(1));
}

/// A tag can name a past revision, given as a revision or as a timestamp.
pub fn names_the_past(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let then = w.db().revision();
    let stamp = w.wall_us();
    w.pass_ms(5);
    w.cells().set("k", 2).unwrap();
    assert_eq!(w.db().tag("r", "main", At::Revision(then)).unwrap(), then);
    assert_eq!(w.db().tag("s", "main", At::Stamp(stamp + 1)).unwrap(), then);
}

/// A tag on a future revision is refused.
pub fn future_is_refused(w: &mut TestDb) {
    let future = At::Revision(w.db().revision() + 10);
    writes_nothing(w.db(), || refused(w.db().tag("v", "main", future), Code::FutureRevision));
}

/// Tagging with an existing name is refused, and that tag keeps its revision.
pub fn existing_name_is_refused(w: &mut TestDb) {
    let first = w.db().tag("v", "main", At::Latest).unwrap();
    w.cells().set("k", 1).unwrap();
    writes_nothing(w.db(), || refused(w.db().tag("v", "main", At::Latest), Code::TagExists));
    assert_eq!(w.db().tags()[0].revision, first);
}

/// An unknown branch is refused.
pub fn unknown_branch_is_refused(w: &mut TestDb) {
    writes_nothing(w.db(), || refused(w.db().tag("v", "x", At::Latest), Code::BranchNotFound));
}

/// A removed tag no longer exists, and removing it again returns false.
pub fn removed_is_gone(w: &mut TestDb) {
    w.db().tag("v", "main", At::Latest).unwrap();
    assert!(w.db().untag("v").unwrap());
    assert!(w.db().tags().is_empty());
    assert!(!writes_nothing(w.db(), || w.db().untag("v").unwrap()));
}

/// A fork can start at a tag.
pub fn fork_starts_at_a_tag(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let tagged = w.db().tag("v", "main", At::Latest).unwrap();
    w.cells().set("k", 2).unwrap();
    w.db().fork("fix", "main", At::Revision(tagged)).unwrap();
    assert_eq!(w.on("fix").get("k").unwrap(), int(1));
}

/// After a branch is renamed, its tags show the new branch name.
pub fn follows_its_branch(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.db().tag("v", "dev", At::Latest).unwrap();
    w.db().rename_branch("dev", "next").unwrap();
    assert_eq!(w.db().tags()[0].branch, "next");
}
