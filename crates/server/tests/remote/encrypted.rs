//! The remote client over TLS.

use crate::papers::{Authority, Pair};
use crate::proxy::Proxy;
use crate::support::Ours;
use crate::world::{PASSWORD, settings};
use mainstay::remote::{Options, Tls};
use mainstay::{
    Answer, CellCommand, Code, Database, Error, ErrorKind, Filter, Name, RequestId, Result,
    Transaction, Value,
};
use mainstay_server::resp::{self, Shared};
use mainstay_server::security::Security;
use mainstay_server::tls;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const THREADS: u8 = 16;
const ROUNDS: u8 = 3;
const LARGE_BYTES: usize = 1 << 20;

fn serve(settings: &tls::Settings) -> Ours {
    let tls = tls::Tls::open(settings).unwrap();
    Ours::with_tls(resp::Settings::default(), tls)
}

/// Creates an authority, and a server with a certificate signed by it.
fn world() -> (Authority, Ours) {
    let authority = Authority::new();
    let server = serve(&authority.sign("server").settings());
    (authority, server)
}

/// Starts a server that requires client certificates of its authority.
fn asking_world() -> (Authority, Ours) {
    let authority = Authority::new();
    let mut settings = authority.sign("server").settings();
    settings.client_ca = Some(authority.path());
    (authority, serve(&settings))
}

fn believing(authority: &Authority) -> Tls {
    Tls::new().authorities(authority.path())
}

fn showing(authority: &Authority, pair: &Pair) -> Tls {
    believing(authority).certificate(&pair.certificate, &pair.key)
}

fn options(address: SocketAddr, tls: Tls) -> Options {
    Options::new(&address.to_string()).tls(tls)
}

/// Returns the connection error, which is the same for both kinds of handles.
fn refusal(options: &Options) -> Error {
    let error = options.clone().connect().map(drop).unwrap_err();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let awaited = runtime.block_on(options.clone().connect_async()).map(drop).unwrap_err();
    assert_eq!(error.code(), awaited.code(), "{error} {awaited}");
    error
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Writes a large value and reads it, in one request.
fn there_and_back(db: &Database, key: &str, byte: u8) {
    let large = Value::Bytes(vec![byte; LARGE_BYTES]);
    let set = CellCommand::set(name(key), large.clone());
    let both = Transaction::new().step(set).step(CellCommand::Get { name: name(key) });
    let receipt = db.execute(both).unwrap();
    let Answer::Cell(Some(cell)) = &receipt.answers[1] else { panic!("{:?}", receipt.answers) };
    assert!(cell.value == large, "another value than was written to {key}");
    assert!(db.cells().get(key).unwrap() == Some(large), "another value than was read of {key}");
}

#[test]
fn threads_with_large_values_both_ways() {
    let (authority, server) = world();
    let db = options(server.address, believing(&authority)).connect().unwrap();
    thread::scope(|scope| {
        for id in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    there_and_back(db, &format!("own/{id}"), id * ROUNDS + round);
                    db.cells().incr("all", 1).unwrap();
                }
            });
        }
    });
    assert_eq!(server.db.cells().get("all").unwrap(), Some(48.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_to_be_awaited() {
    let (authority, server) = world();
    let db = options(server.address, believing(&authority)).connect_async().await.unwrap();
    let tasks: Vec<_> = (0..THREADS)
        .map(|id| {
            let cells = db.cells();
            tokio::spawn(async move {
                let own = format!("own/{id}");
                let large = vec![id; LARGE_BYTES];
                let large = Value::Bytes(large);
                cells.set(&own, large.clone()).await?;
                Ok::<_, Error>(cells.get(&own).await? == Some(large))
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap().unwrap(), "its own value");
    }
}

#[test]
fn whoever_is_asked_for_a_certificate_shows_one() {
    let (authority, server) = asking_world();
    let known = showing(&authority, &authority.sign("known"));
    let db = options(server.address, known).connect().unwrap();
    db.cells().set("a", 1).unwrap();

    let stranger = Authority::new();
    for tls in [believing(&authority), showing(&authority, &stranger.sign("stranger"))] {
        let error = refusal(&options(server.address, tls));
        assert_eq!(error.code(), Code::Unauthenticated, "{error}");
        assert!(error.message().contains("Tls::certificate"), "{error}");
    }
}

#[test]
fn newer_files_need_no_new_client() {
    let (authority, server) = asking_world();
    let stranger = Authority::new();
    let used = stranger.sign("client");
    let options = options(server.address, showing(&authority, &used));
    assert_eq!(refusal(&options).code(), Code::Unauthenticated);
    used.become_like(&authority.sign("known"));
    options.connect().unwrap().cells().set("a", 1).unwrap();
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_talked_to() {
    let (_authority, server) = world();
    let stranger = Authority::new();
    let error = refusal(&options(server.address, believing(&stranger)));
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for said in ["invalid peer certificate", "Tls::authorities", &server.address.to_string()] {
        assert!(error.message().contains(said), "{error}");
    }
    let anybody = options(server.address, believing(&stranger).insecure());
    anybody.connect().unwrap().cells().set("a", 1).unwrap();
}

#[test]
fn a_name_that_the_certificate_does_not_carry_is_not_believed() {
    let (authority, server) = world();
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let elsewhere = listener.local_addr().unwrap();
    let there = server.address;
    drop(listener);
    let other = serve_again(elsewhere, &server.db, &authority);
    let error = refusal(&options(elsewhere, believing(&authority)));
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    options(there, believing(&authority)).connect().unwrap();
    other.stop();
}

#[test]
fn files_that_are_wrong_are_named() {
    let (authority, server) = world();
    let one = authority.sign("one");
    let other = authority.sign("other");
    let mixed = believing(&authority).certificate(&one.certificate, &other.key);
    for (tls, named) in [
        (Tls::new().authorities("no/such.pem"), "no/such.pem"),
        (Tls::new().authorities(&one.key), "one.key"),
        (mixed, "other.key"),
    ] {
        let error = options(server.address, tls).connect().map(drop).unwrap_err();
        assert!(error.message().contains(named), "{error}");
        assert!(!error.message().contains("no server was reached"), "{error}");
    }
}

#[test]
fn both_ends_have_to_speak_tls() {
    let (authority, server) = world();
    let error = Options::new(&server.address.to_string()).connect().map(drop).unwrap_err();
    assert!(error.message().contains("this port speaks TLS"), "{error}");
    let plain = Ours::start();
    let options =
        options(plain.address, believing(&authority)).patience(Duration::from_millis(200));
    let error = options.connect().map(drop).unwrap_err();
    assert!(error.message().contains("does it speak TLS?"), "{error}");
}

/// Serves a database with a certificate of this authority, at this address.
fn serve_again(address: SocketAddr, db: &Database, authority: &Authority) -> resp::Handle {
    let tls = tls::Tls::open(&authority.sign("server").settings()).unwrap();
    let listener = TcpListener::bind(address).unwrap();
    resp::serve_with(listener, tls, &Shared::new(db.clone(), resp::Settings::default())).unwrap()
}

fn named(id: &str) -> Transaction {
    let incr = CellCommand::Incr { name: name("n"), by: 1.into() };
    Transaction::new().request(RequestId::new(id).unwrap()).step(incr)
}

#[test]
fn connections_that_break_are_made_anew() {
    let (authority, server) = world();
    let proxy = Proxy::to(server.address);
    let db = options(proxy.address, believing(&authority)).connect().unwrap();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    for n in 0..10_i64 {
        proxy.cut();
        db.execute(named(&n.to_string())).unwrap();
        assert_eq!(db.cells().get("n").unwrap(), Some((n + 1).into()), "done once");
        let event = feed.next(PATIENCE).unwrap().expect("the change");
        assert_eq!(event.value, Some((n + 1).into()));
    }
}

#[test]
fn a_server_that_hangs_up_and_comes_back_is_found() {
    let (authority, mut server) = world();
    let options = options(server.address, believing(&authority)).patience(PATIENCE);
    let db = options.connect().unwrap();
    db.cells().set("a", 1).unwrap();
    server.stop();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| db.cells().get("a"));
        let handle = serve_again(server.address, &server.db, &authority);
        assert_eq!(waiting.join().unwrap().unwrap(), Some(1.into()));
        assert_eq!(db.execute(named("r")).unwrap().answers.len(), 1);
        handle.stop();
    });
}

#[test]
fn a_silent_server_is_given_up() {
    let (authority, server) = world();
    let proxy = Proxy::to(server.address);
    let options = options(proxy.address, believing(&authority));
    let db = options.timeout(Duration::from_millis(200)).connect().unwrap();
    db.cells().set("a", 1).unwrap();
    proxy.swallow(true);
    assert_eq!(db.cells().get("a").unwrap_err().code(), Code::TimedOut);
    proxy.swallow(false);
    assert_eq!(db.cells().get("a").unwrap(), Some(1.into()));
}

/// Starts a server that completes the handshake and then neither sends, nor reads, nor closes.
fn frozen(authority: &Authority) -> (SocketAddr, mpsc::Sender<()>) {
    let tls = tls::Tls::open(&authority.sign("server").settings()).unwrap().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = mpsc::channel();
    thread::spawn(move || {
        let connection = rustls::ServerConnection::new(tls.config()).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, listener.accept().unwrap().0);
        assert!(stream.read(&mut [0; 64]).unwrap() > 0);
        stream.write_all(b"+OK\r\n").unwrap();
        let _ = ended.recv();
    });
    (address, end)
}

#[test]
fn hanging_up_ends_both_directions_whatever_the_other_end_does() {
    let authority = Authority::new();
    let (address, _end) = frozen(&authority);
    let options = options(address, believing(&authority)).timeout(Duration::from_millis(100));
    assert_eq!(options.connect().map(drop).unwrap_err().code(), Code::TimedOut);
}

/// Starts a server that announces a long TLS record and sends it byte by byte. Returns the counter of sent
/// bytes.
fn dripping() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(&[0x16, 3, 3, 0x3f, 0xff]).unwrap();
        while client.write_all(&[2]).is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(5));
        }
    });
    (address, sent)
}

#[test]
fn a_handshake_has_a_limit_however_little_comes_at_once() {
    let (authority, (address, sent)) = (Authority::new(), dripping());
    let options = options(address, believing(&authority)).patience(Duration::from_millis(100));
    let error = options.connect().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(sent.load(Ordering::SeqCst) < 0x3fff, "it waited for the whole record");
}

#[test]
fn closing_ends_what_waits() {
    let (authority, server) = world();
    let db = options(server.address, believing(&authority)).connect().unwrap();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    let other = db.clone();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || feed.next(PATIENCE));
        other.close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err().code(), Code::Closed);
    });
}

#[test]
fn users_say_who_they_are_inside() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let db = Database::memory().unwrap();
    let security = Security::new(&settings()).unwrap();
    let shared = Shared::with_security(db, resp::Settings::default(), security);
    let tls = tls::Tls::open(&authority.sign("server").settings()).unwrap();
    let handle = resp::serve_with(listener, tls, &shared).unwrap();
    let options = options(address, believing(&authority));
    let app = options.clone().login("app", PASSWORD).connect().unwrap();
    let work = || -> Result<()> {
        app.cells().set("app:a", 1)?;
        app.cells().set("other", 1).map(drop)
    };
    assert_eq!(work().unwrap_err().code(), Code::Forbidden);
    assert_eq!(refusal(&options.login("app", "wrong")).code(), Code::Unauthenticated);
    handle.stop();
}
