use crate::world::World;
use mainstay::{CellCommand, ManualClock, Name, NewEvent, Options, RunCommand, Transaction};
use mainstay_server::http::Settings;
use serde_json::json;
use std::time::Duration;

#[test]
fn every_change_is_sent_once_in_order_with_its_kind() {
    let w = World::new();
    let mut feed = w.follow("/v1/feed", &[]);
    w.put("/v1/cells/a", r#"{"$bytes":"AA=="}"#).ok();
    w.delete("/v1/cells/a").ok();
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    let set = feed.next().unwrap();
    assert_eq!((set.id.as_deref(), set.event.as_str()), (Some("1"), "set"));
    let stamp = w.db.stamp_of(1).unwrap();
    let data = json!({
        "revision": 1, "stamp": stamp, "branch": "main", "contract": "cells", "key": "a",
        "kind": "set", "value": {"$bytes": "AA=="}, "counter": 1,
    });
    assert_eq!(set.data, data);
    let deleted = feed.next().unwrap();
    assert_eq!((deleted.id.as_deref(), deleted.event.as_str()), (Some("2"), "deleted"));
    assert_eq!(deleted.data.get("value"), None);
    let forked = feed.next().unwrap();
    assert_eq!((forked.event.as_str(), &forked.data["contract"]), ("forked", &json!("branches")));
}

#[test]
fn a_reader_resumes_behind_its_last_event() {
    let w = World::new();
    for i in 0..10 {
        w.db.cells().set("n", i).unwrap();
    }
    let mut first = w.follow("/v1/feed?after=0", &[]);
    for _ in 0..4 {
        first.next().unwrap();
    }
    let id = first.id.clone().unwrap();
    drop(first);
    let mut second = w.follow("/v1/feed?after=0", &[("last-event-id", &id)]);
    let seen: Vec<_> = (0..6).map(|_| second.next().unwrap().data["value"].clone()).collect();
    assert_eq!(seen, [4, 5, 6, 7, 8, 9]);
}

#[test]
fn only_the_last_event_of_a_transaction_has_an_id() {
    let w = World::new();
    let mut feed = w.follow("/v1/feed?prefix=a", &[]);
    let body = r#"{"commands":[{"set":{"name":"a1","value":1}},{"set":{"name":"a2","value":1}},{"set":{"name":"b","value":1}}]}"#;
    w.post("/v1/transactions", body).ok();
    let first = feed.next().unwrap();
    let second = feed.next().unwrap();
    assert_eq!((first.id, second.id.as_deref()), (None, Some("1")));
    assert_eq!((&first.data["key"], &second.data["key"]), (&json!("a1"), &json!("a2")));
}

#[test]
fn a_filter_lets_through_its_branch_and_prefix() {
    let w = World::new();
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    let mut feed = w.follow("/v1/feed?branch=side&prefix=jobs/", &[]);
    w.put("/v1/cells/jobs/1", "1").ok();
    w.put("/v1/cells/other?branch=side", "1").ok();
    w.put("/v1/cells/jobs/2?branch=side", "1").ok();
    assert_eq!(feed.next().unwrap().data["key"], "jobs/2");
}

#[test]
fn a_quiet_feed_shows_signs_of_life_and_how_far_it_came() {
    let w = World::with(Settings { keep_alive_ms: 20, ..Settings::default() });
    let mut feed = w.follow("/v1/feed?prefix=never", &[]);
    for i in 0..5 {
        w.db.cells().set("n", i).unwrap();
    }
    while feed.id.as_deref() != Some("5") {
        let block = feed.block().unwrap();
        assert_eq!(block.event, "", "a sign of life is no event");
    }
    assert_eq!(feed.block().unwrap().id, None, "said once, it is a comment again");
}

#[test]
fn many_readers_all_see_everything_while_writers_write() {
    let w = World::new();
    let readers = 40;
    let followers: Vec<_> = (0..readers).map(|_| w.follow("/v1/feed?after=0", &[])).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..500 {
                w.db.cells().set("n", i).unwrap();
            }
        });
        for mut follower in followers {
            for i in 0..500 {
                assert_eq!(follower.next().unwrap().data["value"], i);
            }
        }
    });
}

/// Long texts are sent from the shared buffer, between the lines of their events.
#[test]
fn large_changes_are_whole_events() {
    let w = World::new();
    let mut live = w.follow("/v1/feed", &[]);
    let mut tail = w.follow("/v1/runs/r/tail", &[]);
    w.wait_for_metric("mainstay_feed_readers 2");
    let texts: Vec<_> = (0..20).map(|n| n.to_string().repeat(n * 5_000)).collect();
    for text in &texts {
        let cells =
            ["a", "b"].map(|name| CellCommand::set(Name::new(name).unwrap(), text.as_str()));
        let event = NewEvent {
            idempotency_key: Some(text.len().to_string()),
            ..NewEvent::new("r", "Noted")
        };
        let event = event.value(text.as_str());
        let [a, b] = cells;
        let append = RunCommand::Append { event: Box::new(event), expected: None };
        w.db.execute(Transaction::new().step(a).step(append).step(b)).unwrap();
    }
    let mut behind = w.follow("/v1/feed?after=0", &[]);
    for text in &texts {
        for feed in [&mut live, &mut behind] {
            let keys =
                [(); 3].map(|()| feed.next().unwrap()).map(|sent| match sent.event.as_str() {
                    "set" => (sent.data["value"] == *text, sent.id.is_some()),
                    _ => (sent.data["value"]["eventData"] == *text, sent.id.is_some()),
                });
            assert_eq!(keys, [(true, false), (true, false), (true, true)]);
        }
        assert_eq!(tail.next().unwrap().data["eventData"], *text);
    }
}

#[test]
fn a_reader_that_takes_nothing_is_told_and_cut() {
    let w = World::with(Settings { feed_stall_limit_ms: 50, ..Settings::default() });
    let mut feed = w.follow("/v1/feed", &[]);
    let text = "x".repeat(100_000);
    for _ in 0..200 {
        w.db.cells().set("big", text.as_str()).unwrap();
    }
    w.wait_for_metric("mainstay_feed_readers 0");
    let mut last = None;
    let mut count = 0;
    while let Some(sent) = feed.next() {
        count += 1;
        last = Some(sent);
    }
    let last = last.unwrap();
    assert_eq!((last.event.as_str(), &last.data["error"]["code"]), ("error", &json!("TimedOut")));
    assert!(count < 200, "it did not wait for the reader");
    let id = feed.id.unwrap();
    let mut again = w.follow("/v1/feed", &[("last-event-id", &id)]);
    let next: u64 = again.next().unwrap().id.unwrap().parse().unwrap();
    assert_eq!(next, id.parse::<u64>().unwrap() + 1, "and nothing is lost");
}

#[test]
fn a_reader_that_the_log_has_left_behind_is_told_and_cut() {
    let minute = Duration::from_secs(60);
    let clock = ManualClock::new(1_000_000_000);
    let options = Options::new().clock(clock.clone()).segment_bytes(1 << 20).sweep_interval(None);
    let db = options.retention(minute).feed_retention(minute, 1).memory().unwrap();
    let w = World::of(db, Settings::default());
    let mut feed = w.follow("/v1/feed", &[]);
    let text = "x".repeat(100_000);
    for _ in 0..400 {
        w.db.cells().set("big", text.as_str()).unwrap();
        clock.advance(Duration::from_secs(10));
    }
    w.db.trim().unwrap();
    let mut last = None;
    let mut count = 0;
    while let Some(sent) = feed.next() {
        last = Some(sent);
        count += 1;
    }
    let last = last.unwrap();
    let kind = &last.data["error"]["kind"];
    assert_eq!((last.event.as_str(), kind), ("error", &json!("HistoryTrimmed")));
    assert!(count < 400);
}

#[test]
fn a_position_that_is_trimmed_or_in_the_future_is_refused() {
    let minute = Duration::from_secs(60);
    let clock = ManualClock::new(1_000_000_000);
    let options = Options::new().clock(clock.clone()).segment_bytes(4096).sweep_interval(None);
    let db = options.retention(minute).feed_retention(minute, 1).memory().unwrap();
    let w = World::of(db, Settings::default());
    for i in 0..200 {
        w.db.cells().set("n", "x".repeat(100 + i)).unwrap();
        clock.advance(Duration::from_secs(10));
    }
    w.db.trim().unwrap();
    assert!(w.db.stats().log_first > 10, "{:?}", w.db.stats());
    for path in ["/v1/feed?after=1", "/v1/feed/page?after=1"] {
        let said = w.get(path);
        assert_eq!(
            (said.code().0, said.json()["error"]["kind"].as_str()),
            (410, Some("HistoryTrimmed"))
        );
    }
    assert_eq!(w.get("/v1/feed?after=9999").code(), (400, "FutureRevision".into()));
    let said = w.ask("GET", "/v1/feed", &[("last-event-id", "x")], "");
    assert_eq!(said.code(), (400, "InvalidArgument".into()));
}

#[test]
fn there_are_only_so_many_readers() {
    let w = World::with(Settings { feed_readers: 1, ..Settings::default() });
    let first = w.follow("/v1/feed", &[]);
    assert_eq!(w.get("/v1/feed").code(), (503, "TooManyReaders".into()));
    assert_eq!(w.get("/v1/feed/page").code(), (503, "TooManyReaders".into()));
    drop(first);
    w.wait_for_metric("mainstay_feed_readers 0");
    w.follow("/v1/feed", &[]);
}

#[test]
fn pages_hold_whole_transactions_and_say_where_to_go_on() {
    let w = World::new();
    let body = r#"{"commands":[{"set":{"name":"a","value":1}},{"set":{"name":"b","value":1}}]}"#;
    w.post("/v1/transactions", body).ok();
    w.put("/v1/cells/c", "1").ok();
    let first = w.get("/v1/feed/page?after=0&limit=1").ok();
    let keys: Vec<_> = first["events"].as_array().unwrap().iter().map(|e| &e["key"]).collect();
    assert_eq!((keys, &first["next"]), (vec![&json!("a"), &json!("b")], &json!(1)));
    let second = w.get("/v1/feed/page?after=1").ok();
    assert_eq!((second["events"].as_array().unwrap().len(), &second["next"]), (1, &json!(2)));
    assert_eq!(w.get("/v1/feed/page?after=2").ok(), json!({"events": [], "next": 2}));
    let none = w.get("/v1/feed/page?after=0&prefix=z").ok();
    assert_eq!(none, json!({"events": [], "next": 2}), "what is not wanted is behind it, too");
    assert_eq!(w.get("/v1/feed/page?limit=0").code(), (400, "InvalidLimit".into()));
}

#[test]
fn a_page_waits_for_the_first_change() {
    let w = World::new();
    let page = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| w.get("/v1/feed/page?after=0&wait_ms=50000&prefix=a"));
        w.wait_for_metric("mainstay_feed_readers 1");
        w.put("/v1/cells/b", "1").ok();
        w.put("/v1/cells/a", "2").ok();
        waiting.join().unwrap().ok()
    });
    assert_eq!((page["events"][0]["key"].as_str(), &page["next"]), (Some("a"), &json!(2)));
    assert_eq!(w.get("/v1/feed/page?wait_ms=1").ok()["events"], json!([]));
}

#[test]
fn nobody_waits_longer_than_the_limit() {
    let w = World::with(Settings { feed_wait_limit_ms: 20, ..Settings::default() });
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let page = w.get("/v1/feed/page?after=0&wait_ms=86400000").ok();
        answer.send(page["events"].clone()).unwrap();
    });
    let limit = Duration::from_secs(60);
    assert_eq!(answered.recv_timeout(limit).expect("it does not wait a day"), json!([]));
}
