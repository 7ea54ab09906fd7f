//! Sessions through the remote client: the answers equal those of an embedded database, and the client
//! retries requests with lost answers.

use crate::proxy::Proxy;
use crate::support::Ours;
use crate::world::{PASSWORD, World, user};
use mainstay::remote::{self, wait};
use mainstay::{
    CellCommand, Code, Database, ErrorKind, KEPT_LIMIT_BYTES, LETTER_LIMIT_BYTES, Name, Receipt,
    Result, SessionCommand, SessionOptions, SessionRequest, Transaction, Value,
};
use std::thread;
use std::time::Duration;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn add(cell: &str) -> Transaction {
    Transaction::new().step(CellCommand::Incr { name: name(cell), by: 1.into() })
}

/// Formats a receipt without the parts that differ between two databases.
fn told(receipt: Result<Receipt>) -> String {
    match receipt {
        Ok(receipt) => {
            let Receipt { revision, held, repeated, answers, .. } = receipt;
            format!("{revision} {held} {repeated} {answers:?}")
        }
        Err(error) => format!("{:?} {:?} {error}", error.code(), error.position()),
    }
}

/// Runs some of every operation. Returns the answers as text.
fn everything(db: &Database) -> Vec<String> {
    let sessions = db.sessions();
    let mut said = Vec::new();
    let mut say =
        |what: &str, answer: &dyn std::fmt::Debug| said.push(format!("{what} {answer:?}"));
    let options = || SessionOptions::new().name("s").capability("lang", "rust");
    let session = sessions.open(options().lease(Duration::from_secs(300))).unwrap();
    say("new", &(session.name(), session.is_new(), session.info().lease_ms));
    say("new", &sessions.open(options()).map(|session| session.is_new()));
    say("bad", &sessions.open(options().lease(Duration::ZERO)).err().map(|error| error.code()));
    say("execute", &told(session.execute(1, 1, add("n"))));
    say("repeat", &told(session.execute(1, 1, add("n"))));
    say("other", &told(session.execute(1, 1, add("elsewhere"))));
    say("later", &told(session.execute(3, 1, add("n"))));
    let text = Transaction::new().step(CellCommand::set(name("n"), "text"));
    say("text", &told(session.execute(4, 1, text)));
    say("failing", &told(session.execute(5, 1, add("n"))));
    say("failing", &told(session.execute(5, 1, add("n"))));
    say("evicting", &told(session.execute(6, 4, add("m"))));
    say("evicted", &told(session.execute(1, 1, add("n"))));
    say("zero", &told(session.execute(0, 0, add("n"))));
    say("lowest", &told(session.execute(7, 8, add("n"))));
    db.cells().set("big", "x".repeat(KEPT_LIMIT_BYTES)).unwrap();
    let big = || Transaction::new().step(CellCommand::Get { name: name("big") });
    say("large", &told(session.execute(7, 1, big())));
    say("large", &told(session.execute(7, 1, big())));
    say("send", &sessions.send("s", "one"));
    say("send", &sessions.send("s", [0, 255]));
    say("send", &sessions.send("nobody", "x"));
    let letter = vec![0; LETTER_LIMIT_BYTES + 1];
    say("send", &sessions.send("s", letter).map_err(|error| error.code()));
    say("pending", &session.pending(0, 10));
    say("pending", &session.pending(1, 10));
    say("has", &(sessions.has_pending(1), sessions.has_pending(u64::MAX)));
    say("retry", &sessions.requests_for_retry(1, 10));
    say("retry", &sessions.requests_for_retry(u64::MAX, 1));
    say("ack", &(session.acknowledge(1), session.acknowledge(1), session.acknowledge(u64::MAX)));
    say("keep", &(session.keep_alive(0), session.keep_alive(5)));
    let known = sessions.info("s").unwrap().unwrap();
    say("info", &(known.next_request, known.mark, known.kept, known.last_sent, known.pending));
    say("info", &sessions.info("nobody"));
    sessions.open(SessionOptions::new().name("a")).unwrap();
    let page = sessions.list(None, 1).unwrap();
    say("list", &(page.sessions[0].session.clone(), page.next));
    say("close", &(session.close(), session.close(), sessions.close("a")));
    say("gone", &told(session.execute(8, 1, add("n"))));
    say("gone", &session.keep_alive(0).map_err(|error| error.kind()));
    say("gone", &session.pending(0, 1).map_err(|error| error.kind()));
    let close = Transaction::new().step(SessionCommand::Close { session: name("s"), epoch: 0 });
    say("alone", &db.execute(add("n").step(close.steps[0].clone().command)).map_err(|e| e.code()));
    said
}

#[test]
fn a_served_database_answers_what_one_in_this_process_answers() {
    let server = Ours::start();
    let here = everything(&Database::memory().unwrap());
    let there = everything(&remote::connect(&server.address.to_string()).unwrap());
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(here, there);
    }
    assert_eq!(here.len(), there.len());
}

#[test]
fn the_handles_to_be_awaited_do_the_same() {
    let server = Ours::start();
    wait(async {
        let db = remote::connect_async(&server.address.to_string()).await.unwrap();
        let sessions = db.sessions();
        let options = SessionOptions::new().name("s").lease(Duration::from_secs(300));
        let session = sessions.open(options).await.unwrap();
        assert!(session.is_new() && session.name().as_str() == "s");
        assert_eq!(session.info().next_request, 1);
        let first = session.execute(1, 1, add("n")).await.unwrap();
        let again = session.execute(1, 1, add("n")).await.unwrap();
        assert_eq!((&first.answers, again.repeated), (&again.answers, true));
        let error = session.execute(0, 0, add("n")).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(sessions.send("s", "one").await.unwrap(), Some(1));
        assert_eq!(sessions.send("nobody", "one").await.unwrap(), None);
        assert_eq!(session.pending(0, 10).await.unwrap(), [(1, b"one".to_vec())]);
        assert!(sessions.has_pending(u64::MAX).await.unwrap());
        let retried = sessions.requests_for_retry(u64::MAX, 10).await.unwrap();
        assert_eq!(retried, [(name("s"), 1, b"one".to_vec())]);
        assert_eq!(session.acknowledge(1).await.unwrap(), 1);
        session.keep_alive(2).await.unwrap();
        let info = sessions.info("s").await.unwrap().unwrap();
        assert_eq!((info.mark, info.kept, info.pending), (2, 0, 0));
        assert_eq!(sessions.list(None, 10).await.unwrap().sessions.len(), 1);
        let error = session.execute(1, 1, add("n")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseEvicted);
        assert!(session.close().await.unwrap());
        assert!(!sessions.close("s").await.unwrap());
        assert_eq!(
            session.execute(2, 2, add("n")).await.unwrap_err().kind(),
            ErrorKind::SessionExpired
        );
    });
    assert_eq!(server.db.cells().get("n").unwrap(), Some(1.into()));
}

/// Runs `work` with its answers dropped, and cuts its connections once the server has executed it.
fn cut_before_the_answer<T: Send>(
    db: &Database,
    proxy: &Proxy,
    work: impl FnOnce() -> T + Send,
) -> T {
    cut_after(db, proxy, || (), work)
}

/// Does the same, and runs `meanwhile` before the retry.
fn cut_after<T: Send>(
    db: &Database,
    proxy: &Proxy,
    meanwhile: impl FnOnce(),
    work: impl FnOnce() -> T + Send,
) -> T {
    // All connections are open and used first, so that only the answer is dropped.
    for round in 0..4 {
        // Outside a session, a request on a connection that was just cut may have been sent, so the client
        // does not retry it.
        while let Err(error) = db.cells().set("warm", round) {
            assert_eq!(error.kind(), ErrorKind::UnknownOutcome);
        }
        db.cells().get("warm").unwrap();
    }
    proxy.swallow(true);
    thread::scope(|scope| {
        let working = scope.spawn(work);
        proxy.wait_until_swallowed();
        meanwhile();
        proxy.mute();
        proxy.swallow(false);
        proxy.cut();
        working.join().unwrap()
    })
}

#[test]
fn a_request_whose_answer_is_lost_is_sent_again_and_done_once() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    let session = db.sessions().open(SessionOptions::new().name("s")).unwrap();
    for number in 1..=3 {
        let receipt =
            cut_before_the_answer(&db, &proxy, || session.execute(number, number, add("n")))
                .unwrap();
        assert!(receipt.repeated, "the first answer was lost");
    }
    assert_eq!(server.db.cells().get("n").unwrap(), Some(Value::Int(3)));
    // Keep-alives and reads may be executed twice.
    cut_before_the_answer(&db, &proxy, || session.keep_alive(2)).unwrap();
    let known = cut_before_the_answer(&db, &proxy, || db.sessions().info("s")).unwrap().unwrap();
    assert_eq!((known.mark, known.next_request), (3, 4));
    // Outside a session, the request may have been executed.
    let send = || db.sessions().send("s", "x");
    let error = cut_before_the_answer(&db, &proxy, send).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome);
    let send = SessionCommand::Send { session: name("s"), payload: b"y".to_vec() };
    let send = Transaction::new().step(send);
    cut_before_the_answer(&db, &proxy, || session.execute(4, 4, send)).unwrap();
    let pending = session.pending(0, 10).unwrap();
    assert_eq!(pending, [(1, b"x".to_vec()), (2, b"y".to_vec())], "each of them once");
}

/// An error that means "not executed" would make the client send the request with a new number in a new
/// session.
#[test]
fn a_request_that_is_sent_again_into_a_session_that_is_gone_may_have_been_executed() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    let session = db.sessions().open(SessionOptions::new().name("s")).unwrap();
    let told = cut_after(
        &db,
        &proxy,
        || assert!(server.db.sessions().close("s").unwrap()),
        || session.execute(1, 1, add("n")),
    );
    assert_eq!(told.unwrap_err().kind(), ErrorKind::UnknownOutcome);
    assert_eq!(server.db.cells().get("n").unwrap(), Some(Value::Int(1)), "it was executed");
    // A request that was sent only once was not executed.
    let told = session.execute(2, 2, add("n"));
    assert_eq!(told.unwrap_err().kind(), ErrorKind::SessionExpired);

    let short = SessionOptions::new().name("short").lease(Duration::from_secs(1));
    let session = db.sessions().open(short).unwrap();
    let expire = || {
        while server.db.sessions().info("short").unwrap().is_some() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    let told = cut_after(&db, &proxy, expire, || session.execute(1, 1, add("n")));
    assert_eq!(told.unwrap_err().kind(), ErrorKind::UnknownOutcome);
    assert_eq!(server.db.cells().get("n").unwrap(), Some(Value::Int(2)));
}

#[test]
fn requests_of_a_session_can_be_under_way_together() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    db.sessions().open(SessionOptions::new().name("s")).unwrap();
    let twice: Vec<Transaction> = (1..=50)
        .chain(1..=50)
        .map(|number| add("n").in_session(SessionRequest::new(name("s"), number, 1)))
        .collect();
    let answers = db.execute_all(twice);
    let sums: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().answers).collect();
    assert_eq!(sums[..50], sums[50..]);
    assert_eq!(server.db.cells().get("n").unwrap(), Some(Value::Int(50)));
}

/// A user has only the sessions with its prefix, and cannot get the answers stored in others.
#[test]
fn a_user_has_its_own_sessions() {
    let world = World::with(|settings| {
        settings.users.push(user("looker", &["sessions:read", "cells"], &["app:"]));
    });
    let connect = |user: &str| {
        remote::Options::new(&world.resp.to_string()).login(user, PASSWORD).connect().unwrap()
    };
    let all = connect("default");
    let app = connect("app");
    let looker = connect("looker");
    let mine = app.sessions().open(SessionOptions::new().name("app:s")).unwrap();
    mine.execute(1, 1, add("app:n")).unwrap();
    let theirs = all.sessions().open(SessionOptions::new().name("s")).unwrap();
    theirs.execute(1, 1, add("n")).unwrap();
    let forbidden = |result: Result<()>| assert_eq!(result.unwrap_err().code(), Code::Forbidden);
    let request = |session: &str| add("app:n").in_session(SessionRequest::new(name(session), 1, 1));
    forbidden(app.execute(request("s")).map(drop));
    forbidden(app.sessions().open(SessionOptions::new().name("s")).map(drop));
    forbidden(app.sessions().send("s", "x").map(drop));
    forbidden(app.sessions().list(None, 10).map(drop));
    forbidden(app.sessions().has_pending(1).map(drop));
    forbidden(app.sessions().requests_for_retry(1, 1).map(drop));
    forbidden(looker.execute(request("app:s")).map(drop));
    assert!(looker.sessions().info("app:s").unwrap().is_some());
    assert_eq!(world.db.cells().get("app:n").unwrap(), Some(Value::Int(1)));
}
