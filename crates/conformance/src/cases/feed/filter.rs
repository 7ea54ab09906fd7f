//! Feed filters: by branch, contract, prefix or single key.

use crate::TestDb;
use mainstay::{At, Contract, Filter};

/// Writes on two branches, then returns the events that pass the filter.
fn through(w: &TestDb, filter: Filter) -> Vec<String> {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut feed = w.db().watch(filter, w.db().revision()).unwrap();
    for (branch, cell) in [
        ("main", "a/1"),
        ("dev", "a/1"),
        ("main", "b"),
        ("main", "a/2"),
        ("dev", "a"),
        ("main", "a"),
    ] {
        w.on(branch).set(cell, 1).unwrap();
    }
    w.db().fork("later", "main", At::Latest).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = feed.next(std::time::Duration::from_millis(20)).unwrap() {
        seen.push(format!("{}:{}", event.branch, event.key));
    }
    seen
}

/// A branch filter passes only events of that branch.
pub fn by_branch(w: &mut TestDb) {
    let filter =
        Filter { branch: Some("dev".into()), contract: Some(Contract::Cells), ..Filter::default() };
    assert_eq!(through(w, filter), ["dev:a/1", "dev:a"]);
}

/// A prefix filter passes only keys with that prefix.
pub fn by_prefix(w: &mut TestDb) {
    let filter =
        Filter { prefix: Some("a/".into()), contract: Some(Contract::Cells), ..Filter::default() };
    assert_eq!(through(w, filter), ["main:a/1", "dev:a/1", "main:a/2"]);
}

/// A key filter passes only that exact key.
pub fn by_key(w: &mut TestDb) {
    let filter =
        Filter { key: Some("a".into()), contract: Some(Contract::Cells), ..Filter::default() };
    assert_eq!(through(w, filter), ["dev:a", "main:a"]);
}

/// A contract filter on cells passes only cell events.
pub fn by_contract(w: &mut TestDb) {
    let cells = Filter { contract: Some(Contract::Cells), ..Filter::default() };
    assert_eq!(through(w, cells).len(), 6);
}

/// A contract filter on branches passes only branch events.
pub fn by_the_contract_of_branches(w: &mut TestDb) {
    let branches = Filter { contract: Some(Contract::Branches), ..Filter::default() };
    assert_eq!(through(w, branches).len(), 1);
}

/// All filters combined must match.
pub fn all_at_once(w: &mut TestDb) {
    let filter = Filter {
        branch: Some("main".into()),
        contract: Some(Contract::Cells),
        prefix: Some("a".into()),
        key: Some("a/2".into()),
    };
    assert_eq!(through(w, filter), ["main:a/2"]);
}

/// Without a filter, every event passes.
pub fn without_everything_comes(w: &mut TestDb) {
    assert_eq!(through(w, Filter::default()).len(), 7);
}
