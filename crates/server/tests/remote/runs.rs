//! Runs and the outbox through the remote client: the answers equal those of an embedded database.

use crate::proxy::Proxy;
use crate::support::Ours;
use mainstay::remote::{self, AsyncInteractive};
use mainstay::{At, Code, Database, Failed, NewEvent, RunFilter, RunStatus, Value};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(3600);

fn connect(server: &Ours) -> Database {
    remote::connect(&server.address.to_string()).unwrap()
}

fn event(kind: &str, step: Option<&str>) -> NewEvent {
    let event = NewEvent::new("r", kind).plan("1");
    step.into_iter().fold(event, |event, step| event.step(step))
}

fn note(number: i64) -> NewEvent {
    NewEvent::new("r", "Noted").with_key(&format!("note-{number}")).value(number)
}

/// Runs some of every operation. Returns the answers as text, without times and without names derived from
/// them.
fn everything(db: &Database) -> Vec<String> {
    let runs = db.runs();
    let mut said = Vec::new();
    let mut say =
        |what: &str, answer: &dyn std::fmt::Debug| said.push(format!("{what} {answer:?}"));
    let plain =
        |one: mainstay::Appended| (one.run_seq, one.idempotent, one.persisted, one.conflict);
    let all = |all: Vec<mainstay::Appended>| all.into_iter().map(plain).collect::<Vec<_>>();
    let brief = |events: Vec<mainstay::CanonicalEvent>| {
        events
            .into_iter()
            .map(|event| (event.run_seq, event.event_type, event.event_data))
            .collect::<Vec<_>>()
    };
    say("bootstrap", &runs.bootstrap("r", 7, vec![event("RunStarted", None)]).map(all));
    say("bootstrap", &runs.bootstrap("r", 7, vec![]).map_err(|error| error.code()));
    say("append", &runs.append(event("StepStarted", Some("a"))).map(plain));
    say("append", &runs.append(event("StepStarted", Some("a"))).map(plain));
    say("append", &runs.append(event("StepStarted", Some("a")).value("else")).map(plain));
    say("append", &runs.append(event("StepStarted", None)).map_err(|error| error.code()));
    let wrong = runs.append_expecting(event("StepFailed", Some("a")), 1);
    say("expecting", &wrong.map_err(|error| error.code()));
    say("expecting", &runs.append_expecting(event("StepFailed", Some("a")), 2).map(plain));
    say("batch", &runs.append_batch(vec![note(1), note(2), note(1)]).map(all));
    say("batch", &runs.append_batch(vec![]).map(all));
    let wrong = runs.append_batch(vec![note(9), event("StepFailed", None)]);
    say("batch", &wrong.map_err(|error| (error.code(), error.position())));
    let bytes = Value::from(&b"\xff\x00"[..]);
    say("bytes", &runs.append(note(3).value(bytes)).map(plain));
    say("illegal", &runs.append(event("StepCompleted", Some("b"))).map(plain));
    say("fetch", &runs.fetch("r", 0, 3).map(brief));
    say("fetch", &runs.fetch("r", 3, 99).map(brief));
    say("fetch", &runs.fetch("none", 0, 9).map(brief));
    say("fetch", &runs.fetch("r", 0, 0).map_err(|error| error.code()));
    say("snapshot", &runs.snapshot("r"));
    say("snapshot", &runs.snapshot_at("r", 2));
    say("snapshot", &runs.snapshot_at("r", 99));
    say("project", &runs.project("r").map(|it| it.map(|it| it.hash())));
    let alerts = |all: Vec<mainstay::RunAlert>| {
        all.into_iter().map(|alert| (alert.run_seq, alert.message)).collect::<Vec<_>>()
    };
    say("alerts", &runs.alerts("r", 0, 9).map(alerts));
    let info = |info: mainstay::RunInfo| {
        (info.status, info.last_event_seq, info.inconsistent, info.metadata)
    };
    say("get", &runs.get("r").map(|it| it.map(info)));
    say("get", &runs.get("none").map(|it| it.map(info)));
    runs.append(NewEvent::new("s", "RunFailed").plan("1")).unwrap();
    let names = |page: mainstay::RunPage| {
        (page.runs.into_iter().map(|run| run.run_id).collect::<Vec<_>>(), page.next)
    };
    say("list", &runs.list(&RunFilter::default(), None, 1).map(names));
    say("list", &runs.list(&RunFilter::default(), Some("r"), 9).map(names));
    say("list", &runs.list(&RunFilter::of("").status(RunStatus::Failed), None, 9).map(names));
    say("keep", &runs.keep("r", "mine", 1, 2, Value::from("state")));
    say("kept", &runs.kept("r", "mine", 1));
    say("kept", &runs.kept("r", "mine", 2));
    let second = runs.revision_of("r", 2).unwrap().unwrap();
    say("revision", &second);
    say("revision", &runs.revision_of("r", 99));
    let then = runs.at(At::Revision(second)).unwrap();
    say("then", &then.revision());
    say("then", &then.get("r").map(|it| it.map(info)));
    say("then", &then.fetch("r", 0, 9).map(brief));
    say("then", &then.snapshot("r"));
    say("then", &then.list(&RunFilter::default(), None, 9).map(names));
    db.fork("side", "main", At::Revision(second)).unwrap();
    let side = db.branch("side").unwrap().runs();
    say("side", &side.append(event("StepCompleted", Some("a"))).map(plain));
    say("side", &side.snapshot("r").map(|it| it.map(|it| it.steps)));
    let kept = runs.fetch("s", 0, 9).unwrap();
    say("delete", &runs.delete("s"));
    say("delete", &runs.delete("s"));
    say("append", &runs.append(NewEvent::new("s", "T").plan("1")).map_err(|error| error.code()));
    say("restore", &runs.restore("s", None, None, kept.clone()));
    say("restored", &runs.fetch("s", 0, 9).map(|events| events == kept));
    let outbox = db.outbox();
    say("put", &outbox.put("a", b"1", Some("r")));
    say("put", &outbox.put("a", b"2", Some("r")));
    say("put", &outbox.put("", b"2", None).map_err(|error| error.code()));
    let messages = |all: Vec<mainstay::Message>| {
        all.into_iter()
            .map(|it| (it.id, it.subject, it.payload, it.run, it.tries, it.failure))
            .collect::<Vec<_>>()
    };
    say("claim", &outbox.claim(9, LEASE).map(messages));
    say("claim", &outbox.claim(9, LEASE).map(messages));
    let fail = |tries| outbox.fail(1, "no", Duration::from_secs(1), tries);
    say("fail", &fail(2).map(|failed| matches!(failed, Failed::Waits(_))));
    say("fail", &outbox.fail(9, "no", Duration::from_secs(1), 2));
    say("put", &outbox.put("b", b"3", None));
    say("claim", &outbox.claim(9, LEASE).map(messages));
    say("fail", &outbox.fail(3, "no", Duration::from_secs(1), 1));
    say("dead", &outbox.dead(0, 9).map(messages));
    say("replay", &outbox.replay(3));
    say("replay", &outbox.replay(3));
    say("claim", &outbox.claim(9, LEASE).map(|all| all.len()));
    say("ack", &outbox.ack(&[3, 9]));
    say("state", &outbox.state().map(|state| (state.pending, state.dead, state.last_id)));
    said
}

#[test]
fn there_is_as_here() {
    let server = Ours::start();
    let here = everything(&Database::memory().unwrap());
    let there = everything(&connect(&server));
    assert_eq!(there, here);
    for line in
        ["expecting Err(SequenceMoved)", "bootstrap Err(RunExists)", "append Err(RunNotFound)"]
    {
        assert!(here.iter().any(|said| said == line), "{line}: {here:#?}");
    }
}

#[test]
fn a_tail_is_woken_by_an_append_and_holds_no_thread_of_the_server() {
    let server = Ours::start();
    let db = connect(&server);
    let tails: Vec<_> = (0..16)
        .map(|_| {
            let mut tail = connect(&server).runs().tail("r", 0).unwrap();
            std::thread::spawn(move || (tail.next(9, PATIENCE).unwrap().len(), tail.position()))
        })
        .collect();
    let mut client = server.client();
    while !client.line("INFO clients").contains(r"blocked_clients:16\r\n") {}
    // Long work still finds a free thread.
    assert_eq!(db.runs().project("none").unwrap(), None);
    db.runs().append(note(1)).unwrap();
    for tail in tails {
        assert_eq!(tail.join().unwrap(), (1, 1));
    }
    let mut tail = db.runs().tail("r", 1).unwrap();
    assert!(tail.next(9, Duration::from_millis(20)).unwrap().is_empty());
    assert_eq!(tail.next(0, PATIENCE).unwrap_err().code(), Code::InvalidLimit);
    for number in 2..50 {
        db.runs().append(note(number)).unwrap();
        let seen: Vec<u64> = tail.next(9, PATIENCE).unwrap().iter().map(|it| it.run_seq).collect();
        assert_eq!(seen, [number as u64]);
    }
}

#[test]
fn a_tail_is_asked_for_again_when_its_connection_breaks() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    let mut tail = db.runs().tail("r", 0).unwrap();
    for number in 1..4 {
        server.db.runs().append(note(number)).unwrap();
        proxy.cut();
        assert_eq!(tail.next(9, PATIENCE).unwrap()[0].run_seq, number as u64);
    }
}

#[test]
fn a_transaction_sees_its_own_events_and_conflicts_with_those_of_others() {
    let server = Ours::start();
    for db in [Database::memory().unwrap(), connect(&server)] {
        let runs = db.runs();
        runs.append(event("RunStarted", None)).unwrap();
        let mut t = db.begin().unwrap();
        assert_eq!(t.append(note(1)).unwrap().run_seq, 2);
        assert_eq!(t.append_expecting(note(2), 2).unwrap().run_seq, 3);
        assert_eq!(t.append_expecting(note(3), 2).unwrap_err().code(), Code::SequenceMoved);
        assert_eq!(t.fetch_events("r", 1, 9).unwrap().len(), 2);
        assert_eq!(t.run_snapshot("r").unwrap().unwrap().last_event_seq, 3);
        t.put_message("s", b"p".to_vec(), Some("r")).unwrap();
        t.set("cell", 1).unwrap();
        assert_eq!(runs.fetch("r", 1, 9).unwrap().len(), 0, "nobody else sees them");
        t.commit().unwrap();
        assert_eq!(
            (runs.fetch("r", 1, 9).unwrap().len(), db.outbox().state().unwrap().pending),
            (2, 1)
        );

        let mut t = db.begin().unwrap();
        assert_eq!(t.run_snapshot("r").unwrap().unwrap().last_event_seq, 3);
        t.set("cell", 2).unwrap();
        runs.append(note(4)).unwrap();
        assert_eq!(t.commit().unwrap_err().code(), Code::Conflict);
        let mut t = db.begin().unwrap();
        assert!(t.delete_run("r").unwrap());
        t.commit().unwrap();
        assert_eq!(runs.get("r").unwrap(), None);
    }
}

#[tokio::test]
async fn the_handles_to_be_awaited_have_the_same_methods() {
    let server = Ours::start();
    let db = remote::connect_async(&server.address.to_string()).await.unwrap();
    let runs = db.runs();
    let made = runs.bootstrap("r", 7, vec![event("RunStarted", None)]).await.unwrap();
    assert_eq!(made[0].run_seq, 1);
    assert_eq!(runs.append(note(1)).await.unwrap().run_seq, 2);
    assert_eq!(runs.append_expecting(note(2), 2).await.unwrap().run_seq, 3);
    assert_eq!(runs.append_batch(vec![note(3), note(4)]).await.unwrap()[1].run_seq, 5);
    assert!(runs.append_batch(vec![]).await.unwrap().is_empty());
    assert_eq!(runs.get("r").await.unwrap().unwrap().metadata, Some(Value::Int(7)));
    let events = runs.fetch("r", 0, 9).await.unwrap();
    assert_eq!(events.len(), 5);
    let run = mainstay::Name::new("r").unwrap();
    assert_eq!(runs.wait_for(&run, 4, 9, PATIENCE).await.unwrap(), events[4..]);
    let snapshot = runs.snapshot("r").await.unwrap().unwrap();
    assert_eq!(runs.project("r").await.unwrap().unwrap().hash(), snapshot.hash());
    assert_eq!(runs.snapshot_at("r", 1).await.unwrap().unwrap().last_event_seq, 1);
    assert_eq!(runs.list(&RunFilter::default(), None, 9).await.unwrap().runs.len(), 1);
    assert!(runs.alerts("r", 0, 9).await.unwrap().is_empty());
    assert!(runs.keep("r", "mine", 1, 2, Value::Int(1)).await.unwrap());
    assert_eq!(runs.kept("r", "mine", 1).await.unwrap().unwrap().seq, 2);
    let second = runs.revision_of("r", 2).await.unwrap().unwrap();
    let then = runs.at(At::Revision(second)).await.unwrap();
    assert_eq!(then.revision(), second);
    assert_eq!(then.get("r").await.unwrap().unwrap().last_event_seq, 2);
    assert_eq!(then.fetch("r", 0, 9).await.unwrap(), events[..2]);
    assert_eq!(then.snapshot("r").await.unwrap().unwrap().last_event_seq, 2);
    assert_eq!(then.list(&RunFilter::default(), None, 9).await.unwrap().runs.len(), 1);
    assert!(runs.delete("r").await.unwrap());
    assert_eq!(runs.restore("r", None, None, events.clone()).await.unwrap(), 5);
    assert_eq!(runs.fetch("r", 0, 9).await.unwrap(), events);

    let outbox = db.outbox();
    assert_eq!(outbox.put("s", b"p".to_vec(), None).await.unwrap(), 1);
    assert_eq!(outbox.claim(9, LEASE).await.unwrap()[0].payload, b"p");
    assert_eq!(outbox.fail(1, "no", PATIENCE, 1).await.unwrap(), Failed::Dead);
    assert_eq!(outbox.dead(0, 9).await.unwrap()[0].failure.as_deref(), Some("no"));
    assert!(outbox.replay(1).await.unwrap());
    assert_eq!(outbox.state().await.unwrap().pending, 1);
    assert_eq!(outbox.claim(9, LEASE).await.unwrap().len(), 1);
    assert_eq!(outbox.ack(&[1]).await.unwrap(), 1);
    let add = async |t: &mut AsyncInteractive| {
        assert_eq!(t.append(note(5)).await?.run_seq, 6);
        assert_eq!(t.append_expecting(note(6), 6).await?.run_seq, 7);
        assert_eq!(t.fetch_events("r", 5, 9).await?.len(), 2);
        assert_eq!(t.run_snapshot("r").await?.map(|it| it.last_event_seq), Some(7));
        t.put_message("s", b"p".to_vec(), Some("r")).await.map(drop)
    };
    db.transaction(add).await.unwrap();
    assert_eq!(runs.fetch("r", 5, 9).await.unwrap().len(), 2);
    assert_eq!(outbox.state().await.unwrap().pending, 1);
}
