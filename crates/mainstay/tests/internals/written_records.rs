//! Tests of `mainstay_engine::feed::written_records` on whole databases.

use mainstay::Database;
use mainstay_model::{At, Fields, MAIN};

#[test]
fn records_are_told_and_branches_that_changed_are_not_hidden() {
    let db = Database::memory().unwrap();
    let told = |after| {
        let mut all = Vec::new();
        db.written_records(after, db.revision(), |branch, key| all.push(format!("{branch} {key}")))
            .unwrap()
            .then_some(all)
    };
    let fields = Fields::of([("a", "1")]).unwrap();
    let start = db.revision();
    db.cells().set("cell", 1).unwrap();
    db.records().put("one", &fields, None).unwrap();
    assert_eq!(told(start), Some(vec!["main one".to_owned()]));
    let before = db.revision();
    db.fork("try", MAIN, At::Latest).unwrap();
    assert_eq!(told(before), None, "a branch came");
    let before = db.revision();
    db.branch("try").unwrap().records().put("two", &fields, None).unwrap();
    assert_eq!(told(before), Some(vec!["try two".to_owned()]));
    let before = db.revision();
    db.delete_branch("try").unwrap();
    assert_eq!(told(before), None, "a branch went");
    assert_eq!(told(db.revision()), Some(vec![]));
}
