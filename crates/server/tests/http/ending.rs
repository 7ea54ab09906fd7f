use crate::seam::FaultyFiles;
use crate::world::{World, until};
use mainstay::Options;
use mainstay_server::http::Settings;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn a_write_under_way_is_answered_before_the_end() {
    let (files, faults) = FaultyFiles::new();
    let mut w = World::of(Options::new().files(files).memory().unwrap(), Settings::default());
    let before = faults.syncs.came();
    faults.syncs.hold();
    let mut stream = w.connect();
    stream
        .write_all(b"PUT /v1/cells/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n7")
        .unwrap();
    faults.syncs.wait_for_more_than(before);
    w.stop.trigger();
    until("nobody to be accepted", || TcpStream::connect(w.address).is_err());
    faults.syncs.let_go();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    w.end();
    assert_eq!(w.db.cells().get("a").unwrap(), Some(7.into()));
}

#[test]
fn feeds_and_idle_connections_do_not_hold_up_the_end() {
    let mut w = World::new();
    let mut feed = w.follow("/v1/feed", &[]);
    let mut idle = w.connect();
    w.put("/v1/cells/a", "1").ok();
    assert_eq!(feed.next().unwrap().event, "set");
    w.end();
    assert_eq!(feed.next(), None, "the stream ends, and nothing is said to be wrong");
    assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn a_waiting_page_is_answered_at_the_end() {
    let mut w = World::new();
    let mut stream = w.connect();
    stream
        .write_all(b"GET /v1/feed/page?wait_ms=60000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    w.wait_for_metric("mainstay_feed_readers 1");
    w.end();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200") && said.contains(r#""events":[]"#), "{said}");
}

#[test]
fn a_request_that_never_ends_is_cut_after_the_limit() {
    let mut w = World::with(Settings { drain_limit_ms: 100, ..Settings::default() });
    let mut stream = w.connect();
    stream
        .write_all(b"PUT /v1/cells/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n1")
        .unwrap();
    w.wait_for_metric("mainstay_http_connections 2");
    w.end();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn the_database_is_free_when_the_server_and_its_face_are_gone() {
    let root = tempfile::tempdir().unwrap();
    let open = || Options::new().open(root.path());
    let mut w = World::of(open().unwrap(), Settings::default());
    w.put("/v1/cells/a", "1").ok();
    w.end();
    drop(w);
    assert_eq!(open().unwrap().cells().get("a").unwrap(), Some(1.into()));
}
