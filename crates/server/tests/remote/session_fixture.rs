//! Clients of sessions that count what they do.

use mainstay::{CellCommand, Database, Name, SessionCommand, SessionOptions, Transaction};
use mainstay_sessions::{Client, Listener, ServerMessage, Session, Settings};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn add(cell: &str) -> CellCommand {
    CellCommand::Incr { name: Name::new(cell).unwrap(), by: 1.into() }
}

fn value(db: &Database, cell: &str) -> i64 {
    db.cells().get(cell).unwrap().and_then(|value| value.as_i64()).unwrap_or(0)
}

pub fn quick() -> Settings {
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
pub struct Teller {
    pub session: Session,
    letters: Arc<Mutex<Vec<u64>>>,
    _listener: Listener,
}

impl Teller {
    pub fn open(client: &Client, name: &str) -> Teller {
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

    pub fn work(&self, requests: usize) {
        for _ in 0..requests {
            self.session.execute(request(self.session.name().as_str())).unwrap();
        }
    }

    /// Checks that every request was executed once, and that every message was handled once, in order.
    pub fn check(&self, db: &Database, requests: usize) {
        let name = self.session.name().as_str();
        assert_eq!(value(db, &format!("count/{name}")), requests as i64);
        wait_until(|| self.letters.lock().unwrap().len() >= requests);
        assert_eq!(*self.letters.lock().unwrap(), (1..=requests as u64).collect::<Vec<_>>());
    }
}

/// Waits until a condition holds; hangs if it never does.
pub fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}
