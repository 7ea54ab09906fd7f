//! Dropped futures, closed handles, and more requests than connections: other requests do not wait behind
//! them, and no resource leaks.

use crate::proxy::Proxy;
use crate::support::Ours;
use mainstay::remote::{AsyncDatabase, Dial, Limits, Options, Stream, Tcp};
use mainstay::{At, CellCommand, Code, MergeStrategy, Name, RequestId, Transaction};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Long enough to be noticed, and short enough for a failing test.
const LONG: Duration = Duration::from_secs(10);

/// Poll interval, and the number of polls, for something that has to happen soon.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: usize = 1_000;

fn set(name: &str, value: &str) -> Transaction {
    let id = RequestId::new(value).unwrap();
    Transaction::new().request(id).step(CellCommand::set(Name::new(name).unwrap(), value))
}

/// Polls a future once and drops it, even if it is ready.
fn begin_to(future: impl Future) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// Connects a client with a limit of connections. Two of them are in use, and one is kept for a dedicated
/// connection.
async fn world(connections: usize) -> (Ours, Proxy, AsyncDatabase) {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connections(connections).connect_async().await.unwrap();
    db.cells().set("a", 1).await.unwrap();
    db.begin().await.unwrap().commit().await.unwrap();
    assert_eq!(proxy.count(), 3);
    (server, proxy, db)
}

/// An unused dedicated connection goes to the next request, whichever of both was faster.
#[tokio::test]
async fn a_seat_that_nobody_takes_is_given_back() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connections(3).connect_async().await.unwrap();
    db.cells().set("a", 1).await.unwrap();
    {
        let mut begin = pin!(db.begin());
        let _ = begin.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        while proxy.count() < 3 {
            thread::yield_now();
        }
    }
    // Only one dedicated connection is possible: reused or opened again, but never lost.
    for _ in 0..4 {
        begin_to(db.begin());
        drop(db.begin().await.unwrap());
    }
}

#[tokio::test]
async fn nobody_waits_behind_a_question_that_was_given_up() {
    let (_server, proxy, db) = world(3).await;
    begin_to(db.wait_for(db.revision().await.unwrap() + 1, LONG));
    drop(db.begin().await.unwrap());
    assert_eq!(proxy.count(), 4, "on a connection of its own");
}

#[tokio::test]
async fn a_merge_that_nobody_waits_for_is_done_and_leaves_nothing_behind() {
    let (server, _proxy, db) = world(3).await;
    db.fork("dev", "main", At::Latest).await.unwrap();
    db.branch("dev").await.unwrap().cells().set("b", 1).await.unwrap();
    begin_to(db.merge("dev", "main", MergeStrategy::Strict));
    let mut looks = 0..LOOKS;
    while server.db.cells().get("b").unwrap().is_none() {
        looks.next().expect("the merge was sent, so it is done");
        thread::sleep(PAUSE);
    }
    while let Err(error) = db.begin().await.map(drop) {
        assert_eq!(error.code(), Code::QueueFull);
        looks.next().expect("its connection ends when it is done");
        thread::sleep(PAUSE);
    }
}

/// The two shared connections stay available, however many dedicated connections are requested.
#[test]
fn seats_leave_the_shared_connections_alone() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connections(3).connect().unwrap();
    let mut open = db.begin().unwrap();
    assert_eq!(db.begin().map(drop).unwrap_err().code(), Code::QueueFull);
    db.cells().set("a", 1).unwrap();
    open.set("b", 1).unwrap();
    open.commit().unwrap();
    drop(db.begin().unwrap());

    let none = proxy.options().connections(0).connect().unwrap();
    none.cells().set("a", 2).unwrap();
    assert_eq!(none.cells().get("a").unwrap(), Some(2.into()));
    assert_eq!(none.begin().map(drop).unwrap_err().code(), Code::QueueFull);
}

/// Reports each dial. From the second one on, waits for a message before it continues.
#[derive(Debug)]
struct Slowly(Mutex<(usize, Sender<()>, Receiver<()>)>);

impl Dial for Slowly {
    fn dial(&self, address: &str, limits: Limits) -> io::Result<Stream> {
        let mut state = self.0.lock().unwrap();
        state.0 += 1;
        if state.0 > 1 {
            state.1.send(()).unwrap();
            let _ = state.2.recv_timeout(LONG);
        }
        Tcp.dial(address, limits)
    }
}

#[test]
fn nothing_is_sent_behind_the_end() {
    let server = Ours::start();
    let ((dials, dialed), (goes_on, told)) = (channel(), channel());
    let slowly = Arc::new(Slowly(Mutex::new((0, dials, told))));
    let db = Options::new(&server.address.to_string()).dial(slowly).connect().unwrap();
    let ticket = db.submit(set("a", "late"));
    dialed.recv_timeout(LONG).unwrap();
    db.close().unwrap();
    goes_on.send(()).unwrap();
    assert_eq!(ticket.wait().unwrap_err().code(), Code::Closed);
    assert_eq!(server.db.cells().get("a").unwrap(), None);
    let mut looks = 0..LOOKS;
    // The only connection left is the one that asks.
    let mut client = server.client();
    while !client.line("INFO").contains(r"connected_clients:1\r\n") {
        looks.next().expect("no connection is left over");
        thread::sleep(PAUSE);
    }
}

/// A waker that blocks the waking thread until it gets a message.
struct Stubborn(Mutex<(Sender<()>, Receiver<()>)>);

impl Wake for Stubborn {
    fn wake(self: Arc<Stubborn>) {
        let state = self.0.lock().unwrap();
        state.0.send(()).unwrap();
        let _ = state.1.recv_timeout(LONG);
    }
}

/// A request of a thread that has seen a connection break must run after the requests sent on that
/// connection.
#[test]
fn what_is_sent_again_is_not_overtaken() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    db.cells().set("a", "first").unwrap();
    proxy.deafen();
    let older = db.submit(set("a", "older"));
    proxy.wait_until_swallowed();
    let incr = CellCommand::Incr { name: Name::new("n").unwrap(), by: 1.into() };
    let mut lost = pin!(db.submit(Transaction::new().step(incr)));
    let ((wakes, woken), (goes_on, told)) = (channel(), channel());
    let waker = Waker::from(Arc::new(Stubborn(Mutex::new((wakes, told)))));
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    proxy.cut();
    woken.recv_timeout(LONG).unwrap();
    db.execute(set("a", "newer")).unwrap();
    goes_on.send(()).unwrap();
    assert!(!older.wait().unwrap().repeated);
    assert_eq!(server.db.cells().get("a").unwrap(), Some("newer".into()));
}
