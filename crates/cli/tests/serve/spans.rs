use crate::child::Server;
use crate::collector::{Collector, Posted};
use mainstay_server::telemetry::{Export, Log};
use std::net::TcpListener;

/// An interval so long that nothing is sent before the end.
const LATE_MS: u64 = 3_600_000;

fn export(collector: &Collector, sample_ratio: f64) -> Export {
    Export {
        otlp_endpoint: Some(collector.url()),
        service_name: "a-service-of-tests".to_owned(),
        sample_ratio,
        headers: vec!["x-token: of tests".to_owned()],
        interval_ms: LATE_MS,
        ..Export::default()
    }
}

fn trace(server: &Server, id: &str, sampled: bool) {
    let parent = format!("00-{id}-b7ad6b7169203331-0{}", u8::from(sampled));
    let url = format!("http://{}/v1/cells/a", server.http);
    let asked = ureq::get(url).header("traceparent", parent).config().http_status_as_error(false);
    asked.build().call().unwrap();
}

fn bytes_of(id: &str) -> Vec<u8> {
    (0..id.len()).step_by(2).map(|i| u8::from_str_radix(&id[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn spans_of_both_faces_arrive_at_the_end_at_the_latest() {
    let collector = Collector::start();
    let server = Server::start(&Log::default(), &export(&collector, 1.0));
    let mut client = server.client();
    client.line("SET a 1");
    client.line("KEYS *");
    server.get("/healthz");
    let id = "0af7651916cd43dd8448eb211c80319c";
    trace(&server, id, true);
    server.end();
    let posted = collector.posted();
    let any = |bytes: &[u8]| posted.iter().any(|posted| posted.has(bytes));
    assert!(!posted.is_empty());
    for Posted { path, .. } in &posted {
        assert_eq!(path, "/v1/traces");
    }
    let first = &posted[0];
    assert_eq!(first.header("content-type"), "application/x-protobuf");
    assert_eq!(first.header("x-token"), "of tests");
    assert!(first.has("service.name") && first.has("a-service-of-tests"));
    for name in
        ["resp.batch", "resp.work", "resp.slow set", "GET /healthz", "GET /v1/cells/{*name}"]
    {
        assert!(any(name.as_bytes()), "{name}");
    }
    assert!(any(&bytes_of(id)), "the request is part of the caller's trace");
}

#[test]
fn what_is_not_sampled_is_not_sent_but_a_sampled_trace_goes_on() {
    let collector = Collector::start();
    let server = Server::start(&Log::default(), &export(&collector, 0.0));
    server.client().line("SET a 1");
    server.get("/healthz");
    let yes = "0af7651916cd43dd8448eb211c80319c";
    let no = "1bf7651916cd43dd8448eb211c80319c";
    trace(&server, yes, true);
    trace(&server, no, false);
    server.end();
    let posted = collector.posted();
    let any = |bytes: &[u8]| posted.iter().any(|posted| posted.has(bytes));
    assert!(any(&bytes_of(yes)));
    assert!(!any(&bytes_of(no)) && !any(b"resp.batch") && !any(b"GET /healthz"));
}

#[test]
fn without_an_endpoint_nobody_is_called() {
    let collector = Collector::start();
    let nobody = Export { otlp_endpoint: None, ..export(&collector, 1.0) };
    let server = Server::start(&Log::default(), &nobody);
    server.client().line("SET a 1");
    server.end();
    assert!(collector.posted().is_empty());
}

#[test]
fn a_collector_that_is_gone_or_silent_holds_nobody_up() {
    // Nothing listens at the first address. The second accepts connections and never answers.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let export = Export {
            otlp_endpoint: Some(format!("http://{address}")),
            sample_ratio: 1.0,
            interval_ms: 1,
            timeout_ms: 500,
            ..Export::default()
        };
        let server = Server::start(&Log::default(), &export);
        let mut client = server.client();
        // Far more than the capacity of the queue.
        for _ in 0..3_000 {
            assert_eq!(client.line("SET a 1"), r"+OK\r\n");
        }
        let said = server.end();
        let told = said.stderr.matches("spans are not taken").count();
        assert!(told <= 1, "once is enough: {}", said.stderr);
        if address == gone {
            assert_eq!(told, 1, "{}", said.stderr);
        }
    }
}
