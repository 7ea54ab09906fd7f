//! The HTTP front end over TLS.

use crate::papers::Authority;
use crate::support::connect;
use crate::world::{Caller, tls};
use mainstay::Options;
use mainstay_server::http::{Http, Serving, Settings, Stop, serve_with};
use mainstay_server::tls;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

struct Face {
    address: SocketAddr,
    stop: Stop,
    serving: Option<Serving>,
}

impl Face {
    fn with(tls_settings: &tls::Settings, settings: Settings) -> Face {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let app = Http::new(Options::new().memory().unwrap(), settings).unwrap();
        let stop = Stop::new();
        let serving = serve_with(listener, Some(tls(tls_settings)), app, stop.clone()).unwrap();
        Face { address, stop, serving: Some(serving) }
    }

    fn of(authority: &Authority) -> Face {
        Face::with(&authority.sign("server").settings(), Settings::default())
    }

    fn end(&mut self) {
        self.stop.trigger();
        if let Some(serving) = self.serving.take() {
            serving.wait().unwrap();
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        self.end();
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a request on a new connection. Returns its status and its body.
fn ask(caller: &Caller, face: &Face, request: &str) -> (u16, String) {
    let mut stream = caller.connect(face.address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // The end of the stream without a TLS close message is an error here.
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn a_round_trip() {
    let authority = Authority::new();
    let face = Face::of(&authority);
    let caller = Caller::of(&authority);
    let (status, body) = ask(&caller, &face, &request("PUT", "/v1/cells/a", r#"{"value":1}"#));
    assert!(status < 300, "{status} {body}");
    let (status, body) = ask(&caller, &face, &request("GET", "/v1/cells/a", ""));
    assert_eq!(status, 200, "{body}");
    assert!(body.contains('1'), "{body}");
}

#[test]
fn the_largest_value_goes_both_ways() {
    let authority = Authority::new();
    let face = Face::of(&authority);
    let caller = Caller::of(&authority);
    let value = "0123456789abcdef".repeat((1 << 20) - 64);
    let body = format!(r#"{{"value":"{value}"}}"#);
    let (status, body) = ask(&caller, &face, &request("PUT", "/v1/cells/large", &body));
    assert!(status < 300, "{status} {body}");
    let (status, body) = ask(&caller, &face, &request("GET", "/v1/cells/large", ""));
    assert!(status == 200 && body.contains(&value), "{status}");
}

#[test]
fn whoever_asks_without_tls_is_told_so() {
    let authority = Authority::new();
    let face = Face::of(&authority);
    let mut stream = connect(face.address);
    stream.write_all(request("GET", "/v1/cells/a", "").as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("https://"), "{answer}");
}

#[test]
fn a_handshake_that_does_not_go_on_leaves_its_seat() {
    let authority = Authority::new();
    let mut tls = authority.sign("server").settings();
    tls.handshake_limit_ms = 300;
    let face = Face::with(&tls, Settings { connections: 1, ..Settings::default() });
    let caller = Caller::of(&authority);
    let mut half = connect(face.address);
    half.write_all(&[tls::FIRST_BYTE, 3, 1]).unwrap();
    assert!(matches!(half.read(&mut [0; 64]), Ok(0) | Err(_)));
    assert_eq!(ask(&caller, &face, &request("GET", "/v1/cells", "")).0, 200);
}

#[test]
fn half_a_handshake_does_not_hold_up_the_end() {
    let authority = Authority::new();
    let mut tls = authority.sign("server").settings();
    // Longer than any test runs.
    tls.handshake_limit_ms = 3_600_000;
    let patient = Settings { drain_limit_ms: 3_600_000, ..Settings::default() };
    let mut face = Face::with(&tls, patient);
    let mut half = connect(face.address);
    half.write_all(&[tls::FIRST_BYTE, 3, 1]).unwrap();
    assert_eq!(ask(&Caller::of(&authority), &face, &request("GET", "/v1/cells", "")).0, 200);
    face.end();
}

#[test]
fn a_certificate_is_demanded_of_clients() {
    let authority = Authority::new();
    let mut tls = authority.sign("server").settings();
    tls.client_ca = Some(authority.path());
    let face = Face::with(&tls, Settings::default());
    let known = authority.sign("known");
    let caller = Caller::with(&authority, rustls::ALL_VERSIONS, Some(&known));
    assert_eq!(ask(&caller, &face, &request("GET", "/v1/cells", "")).0, 200);
    Caller::of(&authority).refusal(face.address);
}
