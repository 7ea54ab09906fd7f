//! Deleting and renaming branches.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code};

/// A deleted branch no longer exists, and neither do its writes.
pub fn deleted_is_gone(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("a", 1).unwrap();
    assert!(w.db().delete_branch("dev").unwrap());
    refused(w.db().branch("dev").map(drop), Code::BranchNotFound);
    refused(w.db().branch_info("dev"), Code::BranchNotFound);
    assert_eq!(w.db().branches().len(), 1);
    assert!(names(&w.cells(), "").is_empty());
}

/// Operations on a handle of a deleted branch are refused.
pub fn handles_of_a_deleted_branch_are_refused(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = w.on("dev");
    dev.set("a", 1).unwrap();
    w.db().delete_branch("dev").unwrap();
    refused(dev.get("a"), Code::BranchNotFound);
    refused(dev.set("a", 1), Code::BranchNotFound);
}

/// The sweep finds no expired keys of a deleted branch.
pub fn deleted_is_not_swept(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set_with("a", 1, mainstay::Ttl::Millis(5)).unwrap();
    w.db().delete_branch("dev").unwrap();
    w.pass_ms(10);
    assert_eq!(writes_nothing(w.db(), || w.db().sweep().unwrap()), 0);
}

/// Deleting an unknown branch returns false.
pub fn unknown_answers_false(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.db().delete_branch("nowhere").unwrap()));
}

/// `main` cannot be deleted.
pub fn main_stays(w: &mut TestDb) {
    writes_nothing(w.db(), || refused(w.db().delete_branch("main"), Code::BranchInUse));
}

/// A branch with children cannot be deleted until its children are deleted.
pub fn parents_stay(w: &mut TestDb) {
    w.db().fork("b1", "main", At::Latest).unwrap();
    w.db().fork("b2", "b1", At::Latest).unwrap();
    writes_nothing(w.db(), || refused(w.db().delete_branch("b1"), Code::BranchInUse));
    assert!(w.db().delete_branch("b2").unwrap());
    assert!(w.db().delete_branch("b1").unwrap());
}

/// A tagged branch cannot be deleted until its tag is removed.
pub fn tagged_stays(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.db().tag("v", "dev", At::Latest).unwrap();
    writes_nothing(w.db(), || refused(w.db().delete_branch("dev"), Code::BranchInUse));
    w.db().untag("v").unwrap();
    assert!(w.db().delete_branch("dev").unwrap());
}

/// `main` cannot be renamed.
pub fn main_keeps_its_name(w: &mut TestDb) {
    writes_nothing(w.db(), || refused(w.db().rename_branch("main", "x"), Code::BranchInUse));
}

/// A branch created again under a deleted name has none of the deleted branch's state.
pub fn recreated_starts_anew(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let first = w.db().branch_info("dev").unwrap().id;
    w.on("dev").set("a", 2).unwrap();
    w.on("dev").set("b", 2).unwrap();
    w.db().delete_branch("dev").unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    assert_eq!(names(&w.on("dev"), ""), ["a"]);
    assert_eq!(w.on("dev").get("a").unwrap(), int(1));
    assert_eq!(w.on("dev").history("a", 9, None).unwrap().len(), 1);
    assert_ne!(w.db().branch_info("dev").unwrap().id, first);
}

/// A renamed branch keeps everything but its name.
pub fn renamed_keeps_everything(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("a", 2).unwrap();
    let id = w.db().branch_info("dev").unwrap().id;
    w.db().rename_branch("dev", "next").unwrap();
    refused(w.db().branch("dev").map(drop), Code::BranchNotFound);
    assert_eq!(w.on("next").get("a").unwrap(), int(2));
    assert_eq!(w.on("next").history("a", 9, None).unwrap().len(), 2);
    assert_eq!(w.db().branch_info("next").unwrap().id, id);
}

/// Branch info of children shows their parent's new name.
pub fn children_follow_the_name(w: &mut TestDb) {
    w.db().fork("b1", "main", At::Latest).unwrap();
    w.db().fork("b2", "b1", At::Latest).unwrap();
    w.db().rename_branch("b1", "other").unwrap();
    assert_eq!(w.db().branch_info("b2").unwrap().parent.as_deref(), Some("other"));
}

/// Renaming to an existing or invalid name is refused, and so is renaming an unknown branch.
pub fn bad_renames_are_refused(w: &mut TestDb) {
    w.db().fork("b1", "main", At::Latest).unwrap();
    w.db().fork("b2", "main", At::Latest).unwrap();
    writes_nothing(w.db(), || {
        refused(w.db().rename_branch("b1", "b2"), Code::BranchExists);
        refused(w.db().rename_branch("b1", "main"), Code::BranchExists);
        refused(w.db().rename_branch("nowhere", "b3"), Code::BranchNotFound);
        refused(w.db().rename_branch("b1", ""), Code::InvalidName);
    });
}

/// After a rename, the old name can be used for another branch.
pub fn old_name_is_free_again(w: &mut TestDb) {
    w.db().fork("b1", "main", At::Latest).unwrap();
    w.on("b1").set("a", 1).unwrap();
    w.db().rename_branch("b1", "b2").unwrap();
    w.db().fork("b1", "main", At::Latest).unwrap();
    assert!(names(&w.on("b1"), "").is_empty());
    assert_eq!(names(&w.on("b2"), ""), ["a"]);
}
