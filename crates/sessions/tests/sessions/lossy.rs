//! Many clients with many threads over a transport that loses, repeats, delays and reorders: the totals
//! must be exact.

use super::*;
use mainstay::{Fields, NewEvent, RecordCommand, RecordWrite, RunCommand, SessionCommand};
use mainstay_sessions::{
    Client, ClientStats, Faults, Faulty, Listener, Local, ServerMessage, Session,
};
use parking_lot::Mutex;
use std::thread;

const CLIENTS: i64 = 6;
const THREADS: i64 = 4;
const TRANSFERS: i64 = 25;
const ACCOUNTS: i64 = 10;
const EACH: i64 = 1_000;

/// A bank: accounts, and the server messages that each teller received.
pub struct Bank {
    pub db: Mutex<Database>,
    sessions: Vec<Session>,
    inboxes: Vec<Arc<Mutex<Vec<ServerMessage>>>>,
    listeners: Mutex<Vec<Listener>>,
}

fn teller(client: i64) -> String {
    format!("teller-{client}")
}

fn account(number: i64) -> String {
    format!("account/{}", number.rem_euclid(ACCOUNTS))
}

/// Moves money, records it and sends a server message to the next teller, atomically.
fn transfer(client: i64, id: i64) -> Transaction {
    let from = account(id);
    let to = account(id * 7 + 1);
    let amount = id % 13 + 1;
    let fields = Fields::of([("amount", amount.to_string())]).unwrap();
    let record = RecordWrite::of(&format!("transfer/{id}"), &fields, None).unwrap();
    let event = Box::new(NewEvent::new("bank", "Transferred").with_key(&id.to_string()));
    let session = name(&teller((client + 1) % CLIENTS));
    let message = SessionCommand::Send { session, payload: id.to_string().into_bytes() };
    add(&from, -amount)
        .step(CellCommand::Incr { name: name(&to), by: amount.into() })
        .step(CellCommand::Incr { name: name(&format!("times/{id}")), by: id.into() })
        .step(RecordCommand::Write(Box::new(record)))
        .step(RunCommand::Append { event, expected: None })
        .step(message)
}

impl Bank {
    pub fn open(db: &Database, client: &Client) -> Bank {
        for number in 0..ACCOUNTS {
            db.cells().set(&account(number), EACH).unwrap();
        }
        let sessions: Vec<Session> =
            (0..CLIENTS).map(|number| client.open(named(&teller(number))).unwrap()).collect();
        let inboxes: Vec<Arc<Mutex<Vec<ServerMessage>>>> =
            sessions.iter().map(|_| Arc::default()).collect();
        let listen = |(session, inbox): (&Session, &Arc<Mutex<Vec<ServerMessage>>>)| {
            let inbox = inbox.clone();
            let mut calls = 0;
            let handle = move |message| {
                calls += 1;
                if calls % 5 == 0 {
                    return Err(mainstay::Error::new(mainstay::Code::Io, "on purpose"));
                }
                inbox.lock().push(message);
                Ok(())
            };
            session.listen(handle).unwrap()
        };
        let listeners = Mutex::new(sessions.iter().zip(&inboxes).map(listen).collect());
        Bank { db: Mutex::new(db.clone()), sessions, inboxes, listeners }
    }

    /// Executes all transfers of all tellers.
    pub fn work(&self) {
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                for one in 0..THREADS {
                    scope.spawn(move || self.work_of(client, one));
                }
            }
        });
    }

    fn work_of(&self, client: i64, thread: i64) {
        let session = &self.sessions[client as usize];
        for one in 0..TRANSFERS {
            let id = (client * THREADS + thread) * TRANSFERS + one + 1;
            let receipt = session.execute(transfer(client, id)).unwrap();
            assert_eq!(number(&receipt.answers[2]), id, "the answer is that of this transfer");
        }
    }

    /// Waits until all server messages are handled.
    pub fn wait_for_letters(&self) {
        let transfers = CLIENTS * THREADS * TRANSFERS;
        // Hangs if server messages are lost.
        while self.inboxes.iter().map(|inbox| inbox.lock().len() as i64).sum::<i64>() < transfers {
            thread::sleep(ms(1));
        }
    }

    pub fn check(&self) {
        self.listeners.lock().clear();
        let db = self.db.lock();
        let total: i64 = (0..ACCOUNTS).map(|number| value(&db, &account(number))).sum();
        assert_eq!(total, ACCOUNTS * EACH);
        let transfers = CLIENTS * THREADS * TRANSFERS;
        for id in 1..=transfers {
            assert_eq!(value(&db, &format!("times/{id}")) / id, 1, "transfer {id}");
        }
        assert_eq!(db.records().count("transfer/", &[]).unwrap(), transfers as u64);
        assert_eq!(db.runs().fetch("bank", 0, 10_000).unwrap().len() as i64, transfers);
        self.check_letters();
    }

    /// Checks that each server message was handled once, in order, and none is missing.
    fn check_letters(&self) {
        let mut all: Vec<i64> = Vec::new();
        for inbox in &self.inboxes {
            let inbox = inbox.lock();
            let numbers: Vec<u64> = inbox.iter().map(|message| message.number).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
            let text =
                |message: &ServerMessage| String::from_utf8(message.payload.to_vec()).unwrap();
            all.extend(inbox.iter().map(|message| text(message).parse::<i64>().unwrap()));
        }
        all.sort_unstable();
        assert_eq!(all, (1..=CLIENTS * THREADS * TRANSFERS).collect::<Vec<_>>());
    }

    pub fn stats(&self) -> ClientStats {
        let stats = self.sessions.iter().map(|session| session.stats());
        stats.fold(ClientStats::default(), |one, other| one + other)
    }
}

#[test]
fn every_transfer_is_executed_once_on_a_bad_way() {
    let db = Database::memory().unwrap();
    let transport = Faulty::new(Local::new(&db).unwrap(), Faults::many(3));
    let bank = Bank::open(&db, &Client::with(transport.clone(), quick()).unwrap());
    bank.work();
    bank.wait_for_letters();
    // Late copies still arrive, and must change nothing.
    mainstay::remote::wait(transport.deliver_delayed());
    bank.check();
    let fault_counts = transport.fault_counts();
    let stats = bank.stats();
    assert!(
        fault_counts.requests > 100 && fault_counts.answers > 100 && fault_counts.late > 20,
        "{fault_counts:?}"
    );
    assert!(stats.repeated > 50 && stats.retries > 300, "{stats:?}");
    assert_eq!(stats.answered, (CLIENTS * THREADS * TRANSFERS) as u64);
}

#[test]
fn a_good_way_needs_one_attempt_each() {
    let db = Database::memory().unwrap();
    let bank = Bank::open(&db, &Client::here(&db).unwrap());
    bank.work();
    bank.wait_for_letters();
    bank.check();
    let stats = bank.stats();
    assert_eq!((stats.retries, stats.unknown, stats.repeated), (0, 0, 0));
}
