use crate::world::World;
use serde_json::json;

/// A world where `main` has a = 1, and `side` was forked from it.
fn forked() -> World {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    let fork = w.post("/v1/branches", r#"{"name":"side","from":"main"}"#);
    assert_eq!(fork.status, 201);
    assert_eq!(fork.json()["fork_revision"], 1);
    w
}

#[test]
fn branches_are_listed_looked_at_and_deleted() {
    let w = forked();
    let list = w.get("/v1/branches").ok();
    let names: Vec<_> = list["branches"].as_array().unwrap().iter().map(|b| &b["name"]).collect();
    assert_eq!(names, ["main", "side"]);
    let side = w.get("/v1/branches/side").ok();
    assert_eq!(
        (&side["parent"], &side["fork_revision"], &side["depth"]),
        (&json!("main"), &json!(1), &json!(1))
    );
    assert_eq!(w.delete("/v1/branches/side").ok()["deleted"], true);
    assert_eq!(w.delete("/v1/branches/side").ok()["deleted"], false);
    assert_eq!(w.get("/v1/branches/side").code(), (404, "BranchNotFound".into()));
    assert_eq!(w.delete("/v1/branches/main").code(), (409, "BranchInUse".into()));
}

#[test]
fn a_fork_starts_in_the_past_by_revision_or_stamp() {
    let w = World::new();
    let first = w.put("/v1/cells/a", "1").ok();
    w.put("/v1/cells/a", "2").ok();
    w.post("/v1/branches", r#"{"name":"team/by rev","rev":1}"#).ok();
    w.post("/v1/branches", &json!({"name": "by-stamp", "at": first["stamp"]}).to_string()).ok();
    assert_eq!(w.get("/v1/cells/a?branch=team/by%20rev").ok()["value"], 1);
    assert_eq!(w.get("/v1/cells/a?branch=by-stamp").ok()["value"], 1);
    assert_eq!(w.get("/v1/branches/team/by%20rev").ok()["fork_revision"], 1);
}

#[test]
fn a_fork_that_cannot_be_is_refused() {
    let w = forked();
    assert_eq!(w.post("/v1/branches", r#"{"name":"side"}"#).code(), (409, "BranchExists".into()));
    let from_none = r#"{"name":"b","from":"none"}"#;
    assert_eq!(w.post("/v1/branches", from_none).code(), (404, "BranchNotFound".into()));
    assert_eq!(
        w.post("/v1/branches", r#"{"name":"b","rev":9}"#).code(),
        (400, "FutureRevision".into())
    );
    assert_eq!(w.post("/v1/branches", r#"{"name":"b","rev":1,"at":1}"#).code().0, 400);
    assert_eq!(w.post("/v1/branches", r#"{"name":""}"#).code(), (400, "InvalidName".into()));
    assert_eq!(w.post("/v1/branches", r#"{"nam":"b"}"#).code(), (400, "InvalidArgument".into()));
}

#[test]
fn a_difference_shows_all_three_sides() {
    let w = forked();
    w.put("/v1/cells/a", "2").ok();
    w.put("/v1/cells/a?branch=side", "3").ok();
    w.put("/v1/cells/b?branch=side", "null").ok();
    let diff = w.get("/v1/diff?a=main&b=side").ok();
    let wanted = json!([
        {"contract": "cells", "key": "a", "kind": "both", "base": 1, "a": 2, "b": 3},
        {"contract": "cells", "key": "b", "kind": "only_b", "b": null},
    ]);
    assert_eq!(diff["differences"], wanted);
    assert_eq!(w.get("/v1/diff?a=main&b=none").code(), (404, "BranchNotFound".into()));
    assert_eq!(w.get("/v1/diff?a=main").code(), (400, "InvalidArgument".into()));
}

#[test]
fn a_merge_brings_changes_and_a_strict_one_names_the_conflicting_keys() {
    let w = forked();
    w.put("/v1/cells/a", "2").ok();
    w.put("/v1/cells/a?branch=side", "3").ok();
    let strict = w.post("/v1/merges", r#"{"from":"side","into":"main"}"#);
    assert_eq!(strict.code(), (409, "MergeConflict".into()));
    assert_eq!(strict.json()["error"]["keys"], json!(["a"]));
    assert_eq!(w.get("/v1/cells/a").ok()["value"], 2, "nothing was changed");
    let theirs = w.post("/v1/merges", r#"{"from":"side","into":"main","strategy":"theirs"}"#).ok();
    assert_eq!(theirs["revision"], w.db.revision());
    assert_eq!(w.get("/v1/cells/a").ok()["value"], 3);
    let odd = w.post("/v1/merges", r#"{"from":"side","into":"main","strategy":"mine"}"#);
    assert_eq!(odd.code(), (400, "InvalidArgument".into()));
}

#[test]
fn tags_are_set_listed_and_removed() {
    let w = forked();
    w.put("/v1/cells/a", "2").ok();
    assert_eq!(w.put("/v1/tags/release/1", r#"{"rev":1}"#).ok()["revision"], 1);
    let newest = w.db.revision();
    assert_eq!(w.put("/v1/tags/now", "").ok()["revision"], newest);
    assert_eq!(w.put("/v1/tags/now", "").code(), (409, "TagExists".into()));
    let tags = json!([
        {"name": "now", "branch": "main", "revision": newest},
        {"name": "release/1", "branch": "main", "revision": 1},
    ]);
    assert_eq!(w.get("/v1/tags").ok()["tags"], tags);
    assert_eq!(w.delete("/v1/tags/release/1").ok()["deleted"], true);
    assert_eq!(w.delete("/v1/tags/release/1").ok()["deleted"], false);
    assert_eq!(w.put("/v1/tags/x", r#"{"branch":"none"}"#).code(), (404, "BranchNotFound".into()));
}
