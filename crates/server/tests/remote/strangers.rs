//! Servers that speak another protocol, and clients that send incomplete requests.

use crate::support::Ours;
use mainstay::{Code, ErrorKind, remote, wire};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

/// Starts a server that answers each request with the next of these byte strings, and then stays silent.
fn stranger(answers: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut asked = [0; 1024];
            for answer in answers {
                let _ = client.read(&mut asked);
                let _ = client.write_all(answer);
            }
            // Reads the rest without answering, until the client closes.
            while let Ok(1..) = client.read(&mut asked) {}
        }
    });
    address
}

fn connect(address: SocketAddr) -> mainstay::Result<mainstay::Database> {
    let short = Duration::from_millis(100);
    remote::Options::new(&address.to_string()).patience(short).timeout(short).connect()
}

#[test]
fn nobody_there_is_told_at_once() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = remote::connect(&address.to_string()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("nobody listens"), "{error}");
    assert!(remote::connect("no address").is_err());
}

#[test]
fn junk_is_no_answer() {
    let junk: [&[&[u8]]; 10] = [
        &[b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        &[b"\x00\x01\x02\x03"],
        &[b"$-5\r\n"],
        &[b"$99999999999999\r\n"],
        &[b"*1000000000\r\n"],
        &[b"+OK\r\n", b"$3\r\nabc\r\n"],
        &[b"+OK\r\n", b"$0\r\n\r\n"],
        &[b"+OK\r\n", b":7\r\n"],
        &[b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n"],
        &[b""],
    ];
    for answers in junk {
        let error = connect(stranger(answers)).map(drop).unwrap_err();
        let kinds = [ErrorKind::Unavailable, ErrorKind::Corrupt];
        assert!(kinds.contains(&error.kind()), "{error} of {answers:?}");
    }
}

#[test]
fn another_server_is_told_apart() {
    let redis: &[&[u8]] =
        &[b"%1\r\n+server\r\n+redis\r\n", b"-ERR unknown command 'WIRE.ASK', with args\r\n"];
    let error = connect(stranger(redis)).map(drop).unwrap_err();
    assert_eq!(error.code(), Code::Unsupported, "{error}");
    let refusing: &[&[u8]] = &[b"-WRONGPASS invalid username-password pair\r\n"];
    let error = connect(stranger(refusing)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
}

#[test]
fn half_an_answer_is_none() {
    let half: &[&[u8]] = &[b"+OK\r\n", b"$4\r\n\x01\x00"];
    let error = connect(stranger(half)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[test]
fn half_a_request_is_none() {
    let server = Ours::start();
    let name = mainstay::Name::new("a").unwrap();
    let set = mainstay::Transaction::new().step(mainstay::CellCommand::set(name, 1));
    let frame = wire::encode(&set).unwrap();
    let whole = crate::support::encode(&[b"WIRE.EXECUTE".as_slice(), &frame]);
    for length in [1, 10, whole.len() / 2, whole.len() - 1] {
        let mut client = server.client();
        client.send_bytes(&whole[..length]);
        drop(client);
    }
    assert_eq!(server.db.cells().get("a").unwrap(), None);
    let mut client = server.client();
    client.send_bytes(&whole[..10]);
    client.send_bytes(&whole[10..]);
    assert!(client.receive().starts_with('$'));
    assert_eq!(server.db.cells().get("a").unwrap(), Some(1.into()));
}

#[test]
fn frames_that_make_no_sense_are_refused_and_the_connection_goes_on() {
    let server = Ours::start();
    let mut client = server.client();
    for command in ["WIRE.EXECUTE", "WIRE.READ", "WIRE.RUN", "WIRE.FEED", "WIRE.ASK"] {
        for frame in [&b""[..], b"\x01", b"\x02\x00", b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f"] {
            let reply = client.call(&[command.as_bytes(), frame]);
            assert!(reply.starts_with('$'), "{reply}");
            assert!(reply.contains("InvalidArgument") || reply.contains("NewerFormat"), "{reply}");
        }
    }
    assert_eq!(client.call(&["PING"]), r"+PONG\r\n");
}

#[test]
fn what_needs_the_files_says_where_it_is_done() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    let path = std::env::temp_dir().join("never written");
    let nothing = &mut |_| {};
    for error in [
        db.backup(&path, nothing).map(drop).unwrap_err(),
        db.export("main", &path, nothing).map(drop).unwrap_err(),
        db.import(&path, "copy", nothing).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.message().contains("HTTP"), "{error}");
    }
    assert_eq!(*db.open_report(), mainstay::OpenReport::default());
}
