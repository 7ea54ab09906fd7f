//! Records on branches: forks, diffs, time travel.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Contract, DifferenceKind, Test, Ttl};

fn forked(w: &TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "1")]), None).unwrap();
    w.records().put("l", &fields(&[("a", "1")]), None).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

/// A fork starts with its parent's records, and later writes on either branch are not visible on the
/// other.
pub fn fork_starts_as_its_parent(w: &mut TestDb) {
    forked(w);
    holds(&w.records_on("dev"), "k", &[("a", "1"), ("b", "1")]);
    assert_eq!(w.records_on("dev").set_field("k", "a", "2").unwrap(), 2, "counters continue");
    w.records().set_field("k", "b", "3").unwrap();
    holds(&w.records_on("dev"), "k", &[("a", "2"), ("b", "1")]);
    holds(&w.records(), "k", &[("a", "1"), ("b", "3")]);
    w.records_on("dev").delete("l").unwrap();
    holds(&w.records(), "l", &[("a", "1")]);
}

/// Scans and counts on a fork combine inherited records with the fork's own.
pub fn scans_read_through(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_field("j", "a", "2").unwrap();
    w.records_on("dev").set_field("k", "a", "2").unwrap();
    w.records_on("dev").delete("l").unwrap();
    w.records().set_field("m", "a", "2").unwrap();
    assert_eq!(found(&w.records_on("dev"), "", &[]), ["j", "k"]);
    let twos = [filter("a", Test::Eq, "2")];
    assert_eq!(found(&w.records_on("dev"), "", &twos), ["j", "k"]);
    assert_eq!(found(&w.records(), "", &twos), ["m"]);
    assert_eq!(w.records_on("dev").count("", &[]).unwrap(), 2);
}

/// The past of a fork continues through its fork point into the parent.
pub fn past_goes_through_the_fork(w: &mut TestDb) {
    w.records().set_field("k", "a", "0").unwrap();
    let then = w.db().revision();
    w.records().set_field("k", "a", "1").unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.records().set_field("k", "a", "main").unwrap();
    w.records_on("dev").set_field("k", "a", "dev").unwrap();
    let at = w.records_on("dev").at(At::Revision(then)).unwrap();
    assert_eq!(at.get("k").unwrap().unwrap().fields.text("a"), Some("0"));
    let history = w.records_on("dev").history("k", 9, None).unwrap();
    let values: Vec<_> =
        history.iter().map(|v| v.fields.as_ref().unwrap().text("a").unwrap()).collect();
    assert_eq!(values, ["dev", "1", "0"]);
}

/// A fork at a past revision shows the records of that revision.
pub fn fork_of_the_past(w: &mut TestDb) {
    w.records().set_field("k", "a", "0").unwrap();
    let then = w.db().revision();
    w.records().delete("k").unwrap();
    w.db().fork("old", "main", At::Revision(then)).unwrap();
    holds(&w.records_on("old"), "k", &[("a", "0")]);
    is_gone(&w.records(), "k");
}

/// An inherited time to live expires on the branch without an event or a write of its own.
pub fn inherited_expiry_is_lazy(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.pass_ms(6);
    is_gone(&w.records_on("dev"), "k");
    assert_eq!(w.records_on("dev").count("", &[]).unwrap(), 0);
    assert_eq!(w.db().sweep().unwrap(), 1, "only main has it");
    assert_eq!(w.records_on("dev").set_field("k", "b", "1").unwrap(), 3);
}

/// A difference contains contract, key, changed side, and the values at base and on both branches.
pub fn difference_tells_everything(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_field("k", "a", "2").unwrap();
    w.records().delete("l").unwrap();
    let seen = w.db().diff("dev", "main").unwrap();
    let told: Vec<_> = seen.iter().map(|d| (d.contract, d.key.as_str(), d.kind)).collect();
    let kinds = [
        (Contract::Records, "k", DifferenceKind::OnlyA),
        (Contract::Records, "l", DifferenceKind::OnlyB),
    ];
    assert_eq!(told, kinds);
    let value = |pairs: &[(&str, &str)]| Some(fields(pairs).to_value());
    assert_eq!(seen[0].base, value(&[("a", "1"), ("b", "1")]));
    assert_eq!(seen[0].a, value(&[("a", "2"), ("b", "1")]));
    assert_eq!((&seen[0].b, &seen[1].b), (&seen[0].base, &None));
}

/// Records with equal fields do not differ, even if counters do. A cell with the same name is a separate
/// key.
pub fn differences_go_by_meaning(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_field("k", "a", "2").unwrap();
    w.records_on("dev").set_field("k", "a", "1").unwrap();
    w.records_on("dev").set_field("l", "a", "7").unwrap();
    w.records().set_field("l", "a", "7").unwrap();
    assert_eq!(w.db().diff("dev", "main").unwrap(), []);
    w.cells().set("k", 1).unwrap();
    let seen = w.db().diff("dev", "main").unwrap();
    assert_eq!((seen.len(), seen[0].contract), (1, Contract::Cells));
}

/// A different expiry is a difference between records.
pub fn expiry_is_a_difference(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").expire("k", Ttl::Millis(50)).unwrap();
    let seen = w.db().diff("dev", "main").unwrap();
    assert_eq!((seen.len(), seen[0].kind), (1, DifferenceKind::OnlyA));
    w.records_on("dev").expire("k", Ttl::Clear).unwrap();
    assert_eq!(w.db().diff("dev", "main").unwrap(), []);
}

/// Operations on a deleted branch are refused.
pub fn deleted_branch_is_gone(w: &mut TestDb) {
    forked(w);
    let records = w.records_on("dev");
    w.db().delete_branch("dev").unwrap();
    refused(records.get("k"), Code::BranchNotFound);
    refused(records.set_field("k", "a", "1"), Code::BranchNotFound);
    refused(records.scan("", &[], None, 9), Code::BranchNotFound);
}
