use crate::world::World;
use std::sync::Barrier;

#[test]
fn if_match_writes_only_over_its_counter() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    let won = w.ask("PUT", "/v1/cells/a", &[("if-match", "\"1\"")], "2");
    assert_eq!((won.status, won.header("etag")), (200, "\"2\""));
    let lost = w.ask("PUT", "/v1/cells/a", &[("if-match", "\"1\"")], "3");
    assert_eq!(lost.code(), (412, "PreconditionFailed".into()));
    assert_eq!(lost.header("etag"), "\"2\"", "what to try next");
    assert_eq!(w.get("/v1/cells/a").ok()["value"], 2);
    let absent = w.ask("PUT", "/v1/cells/none", &[("if-match", "\"1\"")], "3");
    assert_eq!((absent.code().0, absent.header("etag")), (412, ""));
}

#[test]
fn if_none_match_writes_only_where_nothing_is() {
    let w = World::new();
    let only_new = [("if-none-match", "*")];
    assert_eq!(w.ask("PUT", "/v1/cells/a", &only_new, "1").ok()["counter"], 1);
    assert_eq!(w.ask("PUT", "/v1/cells/a", &only_new, "2").code().0, 412);
    w.delete("/v1/cells/a").ok();
    assert_eq!(w.ask("PUT", "/v1/cells/a", &only_new, "3").ok()["counter"], 3);
}

#[test]
fn a_condition_and_a_time_to_live_go_together() {
    let w = World::new();
    let put = w.ask("PUT", "/v1/cells/a?ttl_ms=60000", &[("if-none-match", "*")], "1").ok();
    let expires = put["stamp"].as_u64().unwrap() + 60_000_000;
    assert_eq!(w.get("/v1/cells/a").ok()["expires"], expires);
}

#[test]
fn a_deletion_and_counting_have_conditions_too() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    assert_eq!(w.ask("DELETE", "/v1/cells/a", &[("if-match", "\"9\"")], "").code().0, 412);
    assert_eq!(w.ask("POST", "/v1/incr/a", &[("if-match", "\"9\"")], "").code().0, 412);
    assert_eq!(w.ask("POST", "/v1/incr/a", &[("if-match", "\"1\"")], "").ok()["value"], 2);
    assert_eq!(w.ask("DELETE", "/v1/cells/a", &[("if-match", "\"2\"")], "").ok()["deleted"], true);
}

#[test]
fn a_reader_who_has_the_version_is_told_so() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    let same = w.ask("GET", "/v1/cells/a", &[("if-none-match", "\"1\"")], "");
    assert_eq!((same.status, same.text.as_str(), same.header("etag")), (304, "", "\"1\""));
    w.put("/v1/cells/a", "2").ok();
    let newer = w.ask("GET", "/v1/cells/a", &[("if-none-match", "\"1\", \"7\"")], "");
    assert_eq!(newer.ok()["value"], 2);
}

#[test]
fn conditions_that_make_no_sense_are_refused_and_nothing_is_written() {
    let w = World::new();
    for headers in [
        &[("if-match", "1")][..],
        &[("if-match", "W/\"1\"")],
        &[("if-match", "*")],
        &[("if-match", "\"1\", \"2\"")],
        &[("if-none-match", "\"1\"")],
        &[("if-match", "\"1\""), ("if-none-match", "*")],
        &[("if-match", "\"1\""), ("if-match", "\"2\"")],
    ] {
        let said = w.ask("PUT", "/v1/cells/a", headers, "1");
        assert_eq!(said.code(), (400, "InvalidArgument".into()), "{headers:?}");
    }
    assert_eq!(w.db.revision(), 0);
}

#[test]
fn of_two_writers_who_saw_the_same_counter_one_wins() {
    let w = World::new();
    w.put("/v1/cells/a", "0").ok();
    for round in 1..=40 {
        let tag = format!("\"{round}\"");
        let barrier = Barrier::new(2);
        let write = |who: &str| {
            barrier.wait();
            w.ask("PUT", "/v1/cells/a", &[("if-match", &tag)], who).status
        };
        let mut both = std::thread::scope(|scope| {
            let other = scope.spawn(|| write("1"));
            [write("2"), other.join().unwrap()]
        });
        both.sort_unstable();
        assert_eq!(both, [200, 412], "round {round}");
    }
    assert_eq!(w.get("/v1/cells/a").ok()["counter"], 41);
}
