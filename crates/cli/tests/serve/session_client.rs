//! The session client on a server that is killed. Every request is executed once.

use crate::process::Process;
use crate::session_fixture::{Teller, quick, wait_until};
use mainstay::remote::{self, AsyncDatabase, Dial, Limits, Stream, Tcp, wait};
use mainstay_sessions::{Client, ClientStats, Served};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

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

fn connect(moving: &Arc<Moving>) -> AsyncDatabase {
    let patience = Duration::from_millis(200);
    let options = remote::Options::new("wherever:1").patience(patience).dial(moving.clone());
    wait(options.connect_async()).unwrap()
}
