//! The session client on a server: broken connections and a killed server. Every request is executed once.

use crate::proxy::Proxy;
use crate::support::Ours;
use crate::support::process::Process;
use mainstay::remote::{self, AsyncDatabase, Dial, Limits, Stream, Tcp, wait};
use mainstay::{CellCommand, Database, Name, SessionCommand, SessionOptions, Transaction};
use mainstay_sessions::{
    Client, ClientStats, Faults, Faulty, Listener, Served, ServerMessage, Session, Settings,
};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn add(cell: &str) -> CellCommand {
    CellCommand::Incr { name: Name::new(cell).unwrap(), by: 1.into() }
}

fn value(db: &Database, cell: &str) -> i64 {
    db.cells().get(cell).unwrap().and_then(|value| value.as_i64()).unwrap_or(0)
}

fn quick() -> Settings {
    let first_pause = Duration::from_micros(100);
    Settings { first_pause, longest_pause: Duration::from_millis(20), ..Settings::default() }
}

/// Adds to a cell of the client and sends a message to its own session, atomically.
fn request(session: &str) -> Transaction {
    let letter =
        SessionCommand::Send { session: Name::new(session).unwrap(), payload: b"x".into() };
    Transaction::new().step(add(&format!("count/{session}"))).step(letter)
}

/// A client, and the messages that it has received.
struct Teller {
    session: Session,
    letters: Arc<Mutex<Vec<u64>>>,
    _listener: Listener,
}

impl Teller {
    fn open(client: &Client, name: &str) -> Teller {
        let session = client.open(SessionOptions::new().name(name)).unwrap();
        let letters: Arc<Mutex<Vec<u64>>> = Arc::default();
        let own = letters.clone();
        let handle = move |letter: ServerMessage| {
            own.lock().unwrap().push(letter.number);
            Ok(())
        };
        let listener = session.listen(handle).unwrap();
        Teller { session, letters, _listener: listener }
    }

    fn work(&self, requests: usize) {
        for _ in 0..requests {
            self.session.execute(request(self.session.name().as_str())).unwrap();
        }
    }

    /// Checks that every request was executed once, and that every message was handled once, in order.
    fn check(&self, db: &Database, requests: usize) {
        let name = self.session.name().as_str();
        assert_eq!(value(db, &format!("count/{name}")), requests as i64);
        wait_until(|| self.letters.lock().unwrap().len() >= requests);
        assert_eq!(*self.letters.lock().unwrap(), (1..=requests as u64).collect::<Vec<_>>());
    }
}

#[test]
fn requests_and_letters_go_over_the_wire() {
    let server = Ours::start();
    let db = wait(remote::connect_async(&server.address.to_string())).unwrap();
    let teller = Teller::open(&Client::served(&db).unwrap(), "a");
    teller.work(20);
    teller.check(&server.db, 20);
    assert_eq!(teller.session.stats().retries, 0);
    assert!(teller.session.close().unwrap());
}

#[test]
fn connections_that_break_change_nothing() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = wait(proxy.options().connect_async()).unwrap();
    let way = Faulty::new(Served::new(&db), Faults::many(17));
    let client = Client::with(way.clone(), quick()).unwrap();
    let tellers = ["a", "b", "c"].map(|name| Teller::open(&client, name));
    thread::scope(|scope| {
        let working = tellers.each_ref().map(|teller| scope.spawn(|| teller.work(40)));
        while !working.iter().all(|one| one.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            proxy.cut();
        }
    });
    wait(way.deliver_delayed());
    tellers.iter().for_each(|teller| teller.check(&server.db, 40));
}

/// Connects to the server at its present address.
#[derive(Debug)]
struct Moving(Mutex<SocketAddr>);

impl Dial for Moving {
    fn dial(&self, _: &str, limits: Limits) -> io::Result<Stream> {
        let address = *self.0.lock().unwrap();
        Tcp.dial(&address.to_string(), limits)
    }
}

const CLIENTS: usize = 6;
const REQUESTS: usize = 60;
const KILLS: usize = 3;

#[test]
fn a_server_that_is_killed_under_its_clients_executes_everything_once() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut server = Process::serve(&data);
    let moving = Arc::new(Moving(Mutex::new(server.address)));
    let client = Client::with(Served::new(&connect(&moving)), quick()).unwrap();
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("client-{number}")).collect();
    let tellers: Vec<Teller> = names.iter().map(|name| Teller::open(&client, name)).collect();
    thread::scope(|scope| {
        let working: Vec<_> =
            tellers.iter().map(|teller| scope.spawn(|| teller.work(REQUESTS))).collect();
        for kill in 1..=KILLS {
            let enough = (kill * CLIENTS * REQUESTS / (KILLS + 1)) as u64;
            wait_until(|| total(&tellers, |figures| figures.answered) >= enough);
            let retries = total(&tellers, |figures| figures.retries);
            server.kill();
            // Longer than the client waits for a connection, so sessions have to retry themselves.
            wait_until(|| total(&tellers, |figures| figures.retries) > retries);
            let next = Process::serve(&data);
            *moving.0.lock().unwrap() = next.address;
            assert!(!std::mem::replace(&mut server, next).ended().success());
        }
        working.into_iter().for_each(|one| one.join().unwrap());
    });
    let db = remote::connect(&server.address.to_string()).unwrap();
    tellers.iter().for_each(|teller| teller.check(&db, REQUESTS));
}

fn total(tellers: &[Teller], figure: impl Fn(ClientStats) -> u64) -> u64 {
    tellers.iter().map(|teller| figure(teller.session.stats())).sum()
}

/// Waits until a condition holds; hangs if it never does.
fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn connect(moving: &Arc<Moving>) -> AsyncDatabase {
    let patience = Duration::from_millis(200);
    let options = remote::Options::new("wherever:1").patience(patience).dial(moving.clone());
    wait(options.connect_async()).unwrap()
}
