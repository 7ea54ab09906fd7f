//! Handshakes that fail or never end.

use crate::papers::Authority;
use crate::support::{Client, Ours, connect};
use crate::world::{Caller, resp_face, resp_with};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Reads until the server closes the connection, which it has to do.
fn all_said(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("still open"),
        // A connection reset counts as an end too.
        _ => said,
    }
}

/// Returns the first bytes of a handshake.
fn hello(caller: &Caller) -> Vec<u8> {
    let mut bytes = Vec::new();
    let name = "localhost".try_into().unwrap();
    let mut tls = rustls::ClientConnection::new(caller.config.clone(), name).unwrap();
    tls.write_tls(&mut bytes).unwrap();
    bytes
}

fn hasty_face() -> (Authority, Ours) {
    let authority = Authority::new();
    let mut settings = authority.sign("server").settings();
    settings.handshake_limit_ms = 300;
    let ours = resp_with(&settings);
    (authority, ours)
}

#[test]
fn a_handshake_that_does_not_go_on_is_closed() {
    let (authority, ours) = hasty_face();
    let caller = Caller::of(&authority);
    let mut done = caller.client(ours.address);
    assert_eq!(done.line("PING"), r"+PONG\r\n");
    let hello = hello(&caller);
    for part in [0, 1, hello.len() / 2, hello.len()] {
        let mut stream = connect(ours.address);
        stream.write_all(&hello[..part]).unwrap();
        all_said(stream);
    }
    assert_eq!(done.line("PING"), r"+PONG\r\n", "whoever is done in time stays");
    let listed = done.line("CLIENT LIST");
    assert_eq!(listed.matches("addr=").count(), 1, "{listed}");
}

#[test]
fn whoever_does_not_speak_tls_is_told_so() {
    let (_authority, ours) = resp_face();
    let mut client: Client = ours.client();
    assert!(client.line("PING").starts_with("-ERR this port speaks TLS"));
    assert!(client.is_closed());
}

#[test]
fn garbage_is_refused() {
    let (authority, ours) = resp_face();
    for garbage in [&[0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9][..], &[0x16; 5_000], &[0xff; 100_000]] {
        let mut stream = connect(ours.address);
        // The server may have closed the connection before it has read all.
        let _ = stream.write_all(garbage);
        all_said(stream);
    }
    assert_eq!(Caller::of(&authority).client(ours.address).line("PING"), r"+PONG\r\n");
}

#[test]
fn half_handshakes_hold_up_neither_others_nor_the_end() {
    let (authority, mut ours) = resp_face();
    let caller = Caller::of(&authority);
    let hello = hello(&caller);
    let halves: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = connect(ours.address);
            stream.write_all(&hello[..100]).unwrap();
            stream
        })
        .collect();
    assert_eq!(caller.client(ours.address).line("PING"), r"+PONG\r\n");
    ours.stop();
    halves.into_iter().for_each(|stream| drop(all_said(stream)));
}

#[test]
fn a_certificate_is_demanded_of_clients() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let mut settings = authority.sign("server").settings();
    settings.client_ca = Some(authority.path());
    let ours = resp_with(&settings);
    for version in rustls::ALL_VERSIONS {
        let call = |shown| Caller::with(&authority, &[version], shown);
        let known = authority.sign("known");
        assert_eq!(call(Some(&known)).client(ours.address).line("PING"), r"+PONG\r\n");
        call(None).refusal(ours.address);
        call(Some(&stranger.sign("unknown"))).refusal(ours.address);
    }
}

#[test]
fn a_client_that_believes_somebody_else_goes_away() {
    let (authority, ours) = resp_face();
    let refusal = Caller::of(&Authority::new()).refusal(ours.address).to_string();
    assert!(refusal.contains("invalid peer certificate"), "{refusal}");
    assert_eq!(Caller::of(&authority).client(ours.address).line("PING"), r"+PONG\r\n");
}

#[test]
fn more_connections_than_allowed_are_closed() {
    let authority = Authority::new();
    let tls = crate::world::tls(&authority.sign("server").settings());
    let face = mainstay_server::resp::Settings { connections: 1, ..Default::default() };
    let ours = Ours::with_tls(face, Some(tls));
    let caller = Caller::of(&authority);
    let mut first = caller.client(ours.address);
    assert_eq!(first.line("PING"), r"+PONG\r\n");
    caller.refusal(ours.address);
    assert_eq!(first.line("PING"), r"+PONG\r\n");
}
