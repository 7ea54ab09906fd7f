//! Servers that stop reading in the middle of a request.

use crate::papers::Authority;
use crate::proxy::Proxy;
use crate::support::Ours;
use mainstay::remote::{Options, Tls};
use mainstay::{CellCommand, Code, Database, Error, Name, RequestId, Transaction, Value};
use mainstay_server::{resp, tls};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const SILENCE: Duration = Duration::from_secs(1);
/// Long enough for every operation that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than the system buffers for a socket whose peer does not read.
const LARGE_BYTES: usize = 15 << 20;

/// Returns a write that cannot be sent completely unless the server reads a part of it.
fn large() -> Transaction {
    let set = |n| CellCommand::set(Name::new(n).unwrap(), Value::Bytes(vec![7; LARGE_BYTES]));
    Transaction::new().step(set("a")).step(set("b")).step(set("c"))
}

/// Returns the error of a write that hangs. The test fails if the write never ends.
fn told(db: &Database, transaction: Transaction) -> Error {
    let (done, told) = channel();
    let db = db.clone();
    thread::spawn(move || done.send(db.execute(transaction)));
    told.recv_timeout(PATIENCE).expect("the client hangs").unwrap_err()
}

fn assert_given_up(error: &Error) {
    assert_eq!(error.code(), Code::UnknownOutcome, "{error}");
    assert!(error.message().contains("did not answer in time"), "{error}");
}

fn check(proxy: &Proxy, options: Options) {
    let db = options.timeout(SILENCE).connect().unwrap();
    proxy.freeze(true);
    // This is the first write. The thread that would notice the silence is the one that writes.
    assert_given_up(&told(&db, large()));
    assert_given_up(&told(&db, large().request(RequestId::new("r").unwrap())));
    db.cells().set("small", 1).unwrap();
    // Now the calling thread writes.
    assert_given_up(&told(&db, large()));
    assert_eq!(db.cells().get("small").unwrap(), Some(1.into()), "others go on");
    proxy.freeze(false);
    db.cells().set("small", 2).unwrap();
}

#[test]
fn a_server_that_takes_nothing_is_given_up() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    check(&proxy, proxy.options());
}

#[test]
fn a_server_with_tls_that_takes_nothing_is_given_up() {
    let authority = Authority::new();
    let papers = tls::Tls::open(&authority.sign("server").settings()).unwrap();
    let server = Ours::with_tls(resp::Settings::default(), papers);
    let proxy = Proxy::to(server.address);
    check(&proxy, proxy.options().tls(Tls::new().authorities(authority.path())));
}
