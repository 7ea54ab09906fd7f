//! Server messages: each is handled once, in order, despite failures.

use super::*;
use mainstay::{Answering, Code, Command, Error, SessionCommand};
use mainstay_sessions::{
    Client, ClientFault, Local, MessageWaker, ServerMessage, Session, Transport,
};
use parking_lot::Mutex;
// SeqCst in these tests: the counters and flags synchronize with other threads, and speed does not matter.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

fn open(db: &Database) -> Session {
    Client::with(Local::new(db).unwrap(), quick()).unwrap().open(named("s")).unwrap()
}

fn send(db: &Database, payloads: impl IntoIterator<Item = i64>) {
    for payload in payloads {
        assert!(db.sessions().send("s", payload.to_string()).unwrap().is_some());
    }
}

fn text(message: &ServerMessage) -> i64 {
    String::from_utf8(message.payload.to_vec()).unwrap().parse().unwrap()
}

fn take(receiver: &Receiver<i64>, count: usize) -> Vec<i64> {
    (0..count).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect()
}

fn pending(db: &Database) -> u64 {
    db.sessions().info("s").unwrap().unwrap().pending
}

/// Waits until no server message is pending.
fn wait_for_acknowledgements(db: &Database) {
    // Hangs if the acknowledgement never arrives.
    while pending(db) > 0 {
        thread::sleep(ms(1));
    }
}

#[test]
fn letters_of_before_and_after_arrive_in_order() {
    let db = Database::memory().unwrap();
    let session = open(&db);
    send(&db, 1..=250);
    let (sender, receiver) = channel();
    let listener = session
        .listen(move |message| {
            sender.send(text(&message)).unwrap();
            Ok(())
        })
        .unwrap();
    assert_eq!(take(&receiver, 250), (1..=250).collect::<Vec<_>>());
    send(&db, 251..=300);
    assert_eq!(take(&receiver, 50), (251..=300).collect::<Vec<_>>());
    wait_for_acknowledgements(&db);
    drop(listener);
    assert_eq!(session.stats().messages, 300);
}

#[test]
fn a_handler_that_fails_or_panics_gets_its_letter_again_and_the_others_wait() {
    let db = Database::memory().unwrap();
    let session = open(&db);
    let (sender, receiver) = channel();
    let seen = db.clone();
    let mut left = 3;
    let _listener = session
        .listen(move |message| {
            sender.send(text(&message)).unwrap();
            if text(&message) == 2 && left > 0 {
                left -= 1;
                assert_eq!(pending(&seen), 2, "neither is acknowledged");
                assert!(left != 1, "a panic is a failure");
                return Err(Error::new(Code::Io, "not now"));
            }
            Ok(())
        })
        .unwrap();
    send(&db, 1..=1);
    wait_for_acknowledgements(&db);
    db.execute([2, 3].iter().fold(Transaction::new(), |all, payload| {
        let payload = payload.to_string().into_bytes();
        all.step(SessionCommand::Send { session: name("s"), payload })
    }))
    .unwrap();
    assert_eq!(take(&receiver, 6), [1, 2, 2, 2, 2, 3]);
    wait_for_acknowledgements(&db);
    assert_eq!((session.stats().messages, session.stats().messages_failed), (3, 3));
}

#[test]
fn one_listens_at_a_time() {
    let db = Database::memory().unwrap();
    let session = open(&db);
    let listener = session.listen(|_| Ok(())).unwrap();
    let refused = session.listen(|_| Ok(())).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    drop(listener);
    drop(session.listen(|_| Ok(())).unwrap());
}

/// A transport that can drop acknowledgements.
struct Unacknowledged {
    inner: Arc<Local>,
    is_on: AtomicBool,
}

impl Transport for Unacknowledged {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        let is_acknowledgement = transaction.steps.iter().any(|step| {
            matches!(step.command, Command::Session(SessionCommand::Acknowledge { .. }))
        });
        if is_acknowledgement && self.is_on.load(Ordering::SeqCst) {
            Box::pin(async { Err(Error::new(Code::UnknownOutcome, "lost")) })
        } else {
            self.inner.execute(transaction)
        }
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        self.inner.watch(session)
    }
}

/// A session whose first listener could not acknowledge the server message it handled.
struct Unheard {
    db: Database,
    transport: Arc<Unacknowledged>,
    settings: Settings,
    session: Session,
    seen: Arc<Mutex<Vec<i64>>>,
}

impl Unheard {
    fn new(injected_fault: Option<ClientFault>) -> Unheard {
        let db = Database::memory().unwrap();
        let inner = Local::new(&db).unwrap();
        let transport = Arc::new(Unacknowledged { inner, is_on: AtomicBool::new(true) });
        let settings = Settings { attempt: ms(20), injected_fault, ..quick() };
        let client = Client::with(transport.clone(), settings.clone()).unwrap();
        let session = client.open(named("s")).unwrap();
        let unheard = Unheard { db, transport, settings, session, seen: Arc::default() };
        send(&unheard.db, [1]);
        unheard.listen(&unheard.session, 1);
        unheard.transport.is_on.store(false, Ordering::SeqCst);
        unheard
    }

    /// Listens until this server message was handled.
    fn listen(&self, session: &Session, last: i64) {
        let (seen, (sender, receiver)) = (self.seen.clone(), channel());
        let handle = move |message: ServerMessage| {
            seen.lock().push(text(&message));
            let _ = sender.send(text(&message));
            Ok(())
        };
        let _listener = session.listen(handle).unwrap();
        while receiver.recv_timeout(PATIENCE).unwrap() != last {}
    }
}

#[test]
fn what_was_handled_is_not_brought_again_by_another_listener_of_the_same_client() {
    for (injected_fault, seen) in
        [(None, vec![1, 2]), (Some(ClientFault::HandledForgotten), vec![1, 1, 2])]
    {
        let unheard = Unheard::new(injected_fault);
        send(&unheard.db, [2]);
        unheard.listen(&unheard.session, 2);
        assert_eq!(*unheard.seen.lock(), seen, "{injected_fault:?}");
    }
}

#[test]
fn what_was_not_acknowledged_is_brought_to_the_next_client_of_the_session() {
    let unheard = Unheard::new(None);
    let client = Client::with(unheard.transport.clone(), unheard.settings.clone()).unwrap();
    let next = client.open(named("s")).unwrap();
    send(&unheard.db, [2]);
    unheard.listen(&next, 2);
    assert_eq!(*unheard.seen.lock(), [1, 1, 2]);
    wait_for_acknowledgements(&unheard.db);
    drop(next);
    let third = client.open(named("s")).unwrap();
    send(&unheard.db, [3]);
    unheard.listen(&third, 3);
    assert_eq!(*unheard.seen.lock(), [1, 1, 2, 3]);
}

#[test]
fn closing_the_session_ends_its_listener() {
    let db = Database::memory().unwrap();
    let session = open(&db);
    let (sender, receiver) = channel();
    let own = session.clone();
    let listener = session
        .listen(move |message| {
            sender.send(text(&message)).unwrap();
            own.close().map(drop)
        })
        .unwrap();
    send(&db, [1]);
    assert_eq!(take(&receiver, 1), [1]);
    drop(listener);
    assert_eq!(db.sessions().info("s").unwrap(), None);
}

#[test]
fn who_listens_goes_on_with_the_session_that_is_opened_anew() {
    let clock = ManualClock::new(simulation::START_US);
    let shared: Arc<dyn Clock> = clock.clone();
    let db = Options::new().clock(shared).sweep_interval(None).memory().unwrap();
    let session = open(&db);
    let (sender, receiver) = channel();
    let _listener = session
        .listen(move |message| {
            sender.send(text(&message)).unwrap();
            Ok(())
        })
        .unwrap();
    send(&db, [1]);
    assert_eq!(take(&receiver, 1), [1]);
    wait_for_acknowledgements(&db);
    clock.advance(secs(61));
    assert_eq!(db.sessions().send("s", "lost").unwrap(), None);
    assert!(session.keep_alive().is_err());
    session.reopen().unwrap();
    send(&db, [2, 3]);
    assert_eq!(take(&receiver, 2), [2, 3]);
}
