//! Connections that break at any moment: nothing is executed twice, and no answer is wrong.

use crate::proxy::Proxy;
use crate::support::Ours;
use mainstay::{
    CellCommand, Code, Database, ErrorKind, Filter, Name, RequestId, Transaction, Value, remote,
};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

fn incr(name: &str) -> Transaction {
    Transaction::new().step(CellCommand::Incr { name: Name::new(name).unwrap(), by: 1.into() })
}

fn named(name: &str, id: &str) -> Transaction {
    incr(name).request(RequestId::new(id).unwrap())
}

/// Starts a server with a proxy in front of it, and a client that has used all its connections.
fn world() -> (Ours, Proxy, Database) {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    db.cells().set("a", 1).unwrap();
    assert_eq!(db.cells().get("a").unwrap(), Some(1.into()));
    (server, proxy, db)
}

/// Runs `work`, and cuts its connections once the server has executed it.
fn cut_before_the_answer<T: Send>(proxy: &Proxy, work: impl FnOnce() -> T + Send) -> T {
    cut_when(proxy, || proxy.wait_until_swallowed(), work)
}

/// Runs `work` with all answers dropped, and cuts its connections when `wait` returns.
fn cut_when<T: Send>(proxy: &Proxy, wait: impl FnOnce(), work: impl FnOnce() -> T + Send) -> T {
    proxy.swallow(true);
    thread::scope(|scope| {
        let working = scope.spawn(work);
        wait();
        // Answers still in transit on these connections are dropped, but answers on new connections are
        // not.
        proxy.mute();
        proxy.swallow(false);
        proxy.cut();
        working.join().unwrap()
    })
}

#[test]
fn a_write_whose_answer_is_lost_has_an_unknown_outcome() {
    let (server, proxy, db) = world();
    let error = cut_before_the_answer(&proxy, || db.cells().incr("n", 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{error}");
    assert_eq!(server.db.cells().get("n").unwrap(), Some(1.into()), "and it was done once");
    assert_eq!(db.cells().get("n").unwrap(), Some(1.into()), "the next request connects anew");
}

#[test]
fn a_write_with_an_id_is_sent_again_and_done_once() {
    let (server, proxy, db) = world();
    let receipt = cut_before_the_answer(&proxy, || db.execute(named("n", "r"))).unwrap();
    assert!(receipt.repeated);
    assert_eq!(server.db.cells().get("n").unwrap(), Some(1.into()));
}

#[test]
fn tickets_and_callbacks_are_told_as_well() {
    let (server, proxy, db) = world();
    let (done, called) = std::sync::mpsc::channel();
    // Waits for all of them, because a request that was not sent yet would be sent again.
    let all_done = || {
        let cell = |name: &str| server.db.cells().get(name).unwrap();
        while cell("n") != Some(2.into()) || cell("m") != Some(1.into()) {
            thread::yield_now();
        }
    };
    let (lost, again) = cut_when(&proxy, all_done, || {
        let tickets = (db.submit(incr("n")), db.submit(named("m", "r")));
        db.submit_with(incr("n"), move |result| done.send(result).unwrap());
        (tickets.0.wait(), tickets.1.wait())
    });
    assert_eq!(lost.unwrap_err().code(), Code::UnknownOutcome);
    assert!(again.is_ok());
    let told = called.recv_timeout(PATIENCE).unwrap();
    assert_eq!(told.unwrap_err().code(), Code::UnknownOutcome);
    assert_eq!(server.db.cells().get("m").unwrap(), Some(1.into()));
}

#[test]
fn a_read_is_asked_again() {
    let (_server, proxy, db) = world();
    let read = cut_before_the_answer(&proxy, || db.cells().get("a"));
    assert_eq!(read.unwrap(), Some(1.into()));
    let branches = cut_before_the_answer(&proxy, || db.try_branches()).unwrap();
    assert_eq!(branches[0].name, "main");
    let diff = cut_before_the_answer(&proxy, || db.diff("main", "main"));
    assert_eq!(diff.unwrap(), []);
}

#[test]
fn an_open_transaction_goes_with_its_connection() {
    let (server, proxy, db) = world();
    let mut open = db.begin().unwrap();
    open.set("b", 1).unwrap();
    proxy.cut();
    assert_eq!(open.set("c", 1).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(open.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(server.db.cells().get("b").unwrap(), None);

    let mut tries = 0;
    db.transaction(|t| {
        tries += 1;
        t.incr("n", 1)?;
        if tries == 1 {
            proxy.cut();
        }
        t.get("n").map(drop)
    })
    .unwrap();
    assert_eq!(tries, 2, "the closure runs again");
    assert_eq!(server.db.cells().get("n").unwrap(), Some(1.into()));
}

#[test]
fn a_commit_whose_answer_is_lost_has_an_unknown_outcome() {
    let (server, proxy, db) = world();
    let mut open = db.begin().unwrap();
    open.set("b", 1).unwrap();
    let error = cut_before_the_answer(&proxy, || open.commit()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome);
    assert_eq!(server.db.cells().get("b").unwrap(), Some(1.into()));
}

#[test]
fn a_view_goes_with_its_connection() {
    let (_server, proxy, db) = world();
    let view = db.cells().at(mainstay::At::Latest).unwrap();
    assert_eq!(view.get("a").unwrap(), Some(1.into()));
    proxy.cut();
    assert!(view.get("a").is_err());
    let view = db.cells().at(mainstay::At::Latest).unwrap();
    assert_eq!(view.get("a").unwrap(), Some(1.into()));
}

#[test]
fn a_feed_goes_on_behind_what_was_seen() {
    let (_server, proxy, db) = world();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    for n in 0..50 {
        db.cells().set("k", n).unwrap();
        if n % 7 == 0 {
            proxy.cut();
        }
        let event = feed.next(PATIENCE).unwrap().expect("the change");
        assert_eq!(event.value, Some(Value::Int(n)));
    }
    assert_eq!(feed.next(Duration::from_millis(20)).unwrap(), None);
}

#[test]
fn a_feed_that_waits_is_told_over_a_broken_connection() {
    let (server, proxy, db) = world();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || feed.next(PATIENCE));
        proxy.cut();
        server.db.cells().set("k", 1).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap().expect("the change").key, "k");
    });
}

#[test]
fn a_server_that_comes_back_is_found() {
    let mut server = Ours::start();
    let address = server.address;
    let db = remote::Options::new(&address.to_string()).patience(PATIENCE).connect().unwrap();
    db.cells().set("a", 1).unwrap();
    server.stop();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| db.cells().get("a"));
        let handle = crate::support::serve_at(address, &server.db);
        assert_eq!(waiting.join().unwrap().unwrap(), Some(1.into()));
        // With a request id, because the client may not know yet that its old connection is closed.
        assert!(!db.execute(named("n", "r")).unwrap().repeated);
        handle.stop();
    });
}

#[test]
fn a_server_that_stays_away_is_unavailable() {
    let mut server = Ours::start();
    let options = remote::Options::new(&server.address.to_string());
    let db = options.patience(Duration::from_millis(50)).connect().unwrap();
    db.cells().set("a", 1).unwrap();
    let revision = db.revision();
    server.stop();
    for error in [
        db.cells().get("a").map(drop).unwrap_err(),
        db.cells().set("a", 2).map(drop).unwrap_err(),
        db.begin().map(drop).unwrap_err(),
        db.try_tags().map(drop).unwrap_err(),
    ] {
        // A request in progress when the server stopped may have been executed. An unsent one was not.
        let kinds = [ErrorKind::Unavailable, ErrorKind::UnknownOutcome];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    let error = db.cells().set("a", 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "never sent: {error}");
    assert_eq!(db.revision(), revision, "the newest that was heard of");
}

#[test]
fn a_silent_server_is_given_up() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let silence = Duration::from_millis(200);
    let patience = Duration::from_millis(500);
    let db = proxy.options().timeout(silence).patience(patience).connect().unwrap();
    db.cells().set("a", 1).unwrap();
    proxy.swallow(true);
    assert_eq!(db.cells().get("a").unwrap_err().code(), Code::TimedOut);
    assert_eq!(db.cells().set("a", 2).unwrap_err().code(), Code::UnknownOutcome);
    let error = db.execute(named("n", "r")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "never sent: {error}");
    proxy.swallow(false);
    assert_eq!(db.cells().get("a").unwrap(), Some(2.into()), "and then it is asked anew");
}

#[test]
fn waiting_is_not_silence() {
    let server = Ours::start();
    let options = remote::Options::new(&server.address.to_string());
    let db = options.timeout(Duration::from_millis(100)).connect().unwrap();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    assert_eq!(feed.next(Duration::from_millis(400)).unwrap(), None);
    let late = db.wait_for(db.revision() + 1, Duration::from_millis(400));
    assert_eq!(late.unwrap_err().code(), Code::TimedOut);
}

#[test]
fn closing_ends_what_waits() {
    let (_server, _proxy, db) = world();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    let other = db.clone();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || feed.next(PATIENCE));
        other.close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err().code(), Code::Closed);
    });
    assert_eq!(db.cells().get("a").unwrap_err().code(), Code::Closed);
    assert_eq!(db.cells().set("a", 2).unwrap_err().code(), Code::Closed);
    assert_eq!(db.begin().map(drop).unwrap_err().code(), Code::Closed);
}
