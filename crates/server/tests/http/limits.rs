use crate::world::{World, until};
use mainstay_server::http::Settings;
use std::io::{Read, Write};

const SOON_MS: u64 = 100;

#[test]
fn a_body_over_its_limit_is_413_announced_or_not() {
    let settings =
        Settings { value_limit_bytes: 100, transaction_limit_bytes: 200, ..Settings::default() };
    let w = World::with(settings);
    let value = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    w.put("/v1/cells/a", &value(100)).ok();
    assert_eq!(w.put("/v1/cells/a", &value(101)).code(), (413, "BodyTooLarge".into()));
    assert_eq!(w.post("/v1/transactions", &value(201)).code(), (413, "BodyTooLarge".into()));
    assert_eq!(w.post("/v1/transactions", &value(200)).code().0, 400);
    let head = "PUT /v1/cells/a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let announced = w.raw(format!("{head}content-length: 99999999999\r\n\r\n").as_bytes());
    assert!(announced.starts_with("HTTP/1.1 413"), "{announced}");
    let chunk = format!("65\r\n{}\r\n0\r\n\r\n", value(101));
    let said = w.raw(format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}").as_bytes());
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
}

#[test]
fn a_value_over_the_models_limit_is_413_too() {
    let w = World::new();
    let text = format!("\"{}\"", "x".repeat(16 << 20));
    assert_eq!(w.put("/v1/cells/a", &text).code(), (413, "ValueTooLarge".into()));
    let text = format!("\"{}\"", "x".repeat((16 << 20) - 100));
    w.put("/v1/cells/a", &text).ok();
}

#[test]
fn headers_that_never_end_are_cut() {
    let w = World::with(Settings { header_limit_ms: SOON_MS, ..Settings::default() });
    let said = w.raw(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n");
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
}

#[test]
fn an_upload_that_pauses_is_cut() {
    let w = World::with(Settings { upload_pause_limit_ms: SOON_MS, ..Settings::default() });
    for path in ["PUT /v1/cells/a", "POST /v1/import/b", "POST /v1/transactions"] {
        let head = format!("{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n");
        let said = w.raw(format!("{head}\"x").as_bytes());
        assert!(said.starts_with("HTTP/1.1 408") && said.contains("BodyTimedOut"), "{said}");
    }
    assert_eq!(w.db.revision(), 0);
}

#[test]
fn an_upload_that_trickles_without_end_is_cut() {
    let w = World::with(Settings { upload_limit_ms: SOON_MS, ..Settings::default() });
    let mut stream = w.connect();
    stream
        .write_all(
            b"PUT /v1/cells/a HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .unwrap();
    // The write fails because the server closes the connection, not because of a timeout in the client.
    until("the cut", || stream.write_all(b"1\r\n1\r\n").is_err());
    assert_eq!(w.db.revision(), 0);
}

#[test]
fn an_import_that_trickles_without_end_is_cut_and_only_so_many_come_at_once() {
    let settings = Settings { import_limit_ms: SOON_MS, imports: 1, ..Settings::default() };
    let w = World::with(settings);
    let head =
        b"POST /v1/import/a HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stream = w.connect();
    stream.write_all(head).unwrap();
    until("the cut", || stream.write_all(b"1\r\n1\r\n").is_err());
    let w = World::with(Settings { imports: 1, ..Settings::default() });
    let mut first = w.connect();
    let expect = String::from_utf8_lossy(head)
        .replace("host: localhost", "host: localhost\r\nexpect: 100-continue");
    first.write_all(expect.as_bytes()).unwrap();
    // `100 Continue` is sent once the import has its slot.
    let mut go_on = [0; 12];
    first.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100");
    assert_eq!(w.post("/v1/import/b", "x").code(), (503, "Busy".into()));
    assert_eq!(w.db.branches().len(), 1);
}

#[test]
fn a_body_that_ends_too_early_writes_nothing() {
    let w = World::new();
    let mut stream = w.connect();
    stream
        .write_all(b"PUT /v1/cells/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n1")
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
    assert_eq!(w.db.revision(), 0);
}

#[test]
fn a_connection_too_many_is_told_so_and_the_others_go_on() {
    let w = World::with(Settings { connections: 2, ..Settings::default() });
    let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut seated: Vec<_> = (0..2).map(|_| w.connect()).collect();
    let mut answer = [0; 12];
    for stream in &mut seated {
        stream.write_all(ask).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    let said = w.raw(ask);
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("TooManyConnections"), "{said}");
    drop(seated.pop());
    let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    until("a seat", || w.raw(ask).contains(" 200 "));
}

#[test]
fn a_client_that_takes_no_answer_is_cut() {
    let w = World::with(Settings { write_limit_ms: SOON_MS, ..Settings::default() });
    w.db.cells().set("big", "x".repeat(15 << 20)).unwrap();
    let mut stream = w.connect();
    stream.write_all(b"GET /v1/cells/big HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    w.wait_for_metric(
        r#"mainstay_http_requests_total{method="GET",route="/v1/cells/{*name}",status="200"} 1"#,
    );
    // The cut connection is closed; the one left is that of the metrics request.
    w.wait_for_metric("mainstay_http_connections 1");
    let mut taken = Vec::new();
    // The bytes that were already in the buffers, then the end of the stream.
    let _ = stream.read_to_end(&mut taken);
    assert!(taken.len() < 15 << 20, "{}", taken.len());
}

/// A head of exactly the limit is accepted, and one of one byte more is refused.
#[test]
fn a_head_of_more_than_64_kib_is_431() {
    let w = World::new();
    let head = |bytes: usize| {
        let first = "GET /healthz HTTP/1.1\r\nconnection: close\r\na: ";
        let last = "\r\n\r\n";
        format!("{first}{}{last}", "x".repeat(bytes - first.len() - last.len()))
    };
    let said = w.raw(head(64 << 10).as_bytes());
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    for bytes in [(64 << 10) + 1, 100_000, 200_000] {
        let mut stream = w.connect();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(head(bytes).as_bytes());
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{bytes}: {said}");
    }
}

/// Begins a write of unknown length, and waits for `100 Continue`.
fn begin_unannounced(w: &World) -> std::net::TcpStream {
    let mut stream = w.connect();
    let head = "PUT /v1/cells/a HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n";
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

fn send_chunk(stream: &mut std::net::TcpStream, bytes: usize) {
    let chunk = format!("{bytes:x}\r\n{}\r\n", "1".repeat(bytes));
    stream.write_all(chunk.as_bytes()).unwrap();
}

#[test]
fn a_body_that_announces_nothing_and_sends_little_holds_little() {
    let w = World::with(Settings { bodies_limit_bytes: 1 << 20, ..Settings::default() });
    let mut trickling: Vec<_> = (0..4).map(|_| begin_unannounced(&w)).collect();
    trickling.iter_mut().for_each(|stream| send_chunk(stream, 1));
    w.put("/v1/cells/b", &format!("\"{}\"", "x".repeat(1_000_000))).ok();
    w.wait_for_metric(r#"mainstay_http_seats_taken{seats="bodies_kib"} 0"#);
    send_chunk(&mut trickling[0], 100_000);
    w.wait_for_metric(r#"mainstay_http_seats_taken{seats="bodies_kib"} 256"#);
}

#[test]
fn a_body_that_grows_beyond_the_room_there_is_is_busy() {
    let settings = Settings {
        bodies_limit_bytes: 1 << 20,
        upload_pause_limit_ms: 10 * SOON_MS,
        ..Settings::default()
    };
    let w = World::with(settings);
    let mut first = begin_unannounced(&w);
    let mut second = begin_unannounced(&w);
    send_chunk(&mut first, 700_000);
    w.wait_for_metric(r#"mainstay_http_seats_taken{seats="bodies_kib"} 768"#);
    send_chunk(&mut second, 700_000);
    let mut said = [0; 12];
    second.set_read_timeout(Some(std::time::Duration::from_millis(SOON_MS))).unwrap();
    // The first upload continues, so the second fails for lack of memory and not by a timeout of the first.
    until("the refusal", || {
        send_chunk(&mut first, 1);
        second.read_exact(&mut said).is_ok()
    });
    assert_eq!(&said, b"HTTP/1.1 503");
}

#[test]
fn large_bodies_share_their_memory_and_all_are_served() {
    let w = World::with(Settings { bodies_limit_bytes: 1 << 20, ..Settings::default() });
    let text = format!("\"{}\"", "x".repeat(900_000));
    std::thread::scope(|scope| {
        for i in 0..8 {
            let w = &w;
            let text = &text;
            scope.spawn(move || w.put(&format!("/v1/cells/{i}"), text).ok());
        }
    });
    assert_eq!(w.get("/v1/cells").ok()["names"].as_array().unwrap().len(), 8);
}
