//! Requests of pages of other origins, from a browser on this machine.

use crate::world::World;

const ELSEWHERE: (&str, &str) = ("origin", "https://elsewhere.test");

#[test]
fn a_page_of_elsewhere_changes_and_reads_nothing() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    let body = r#"{"commands":[{"delete":{"name":"a"}}]}"#;
    for (method, path, body) in [
        ("POST", "/v1/transactions", body),
        ("POST", "/v1/backup", ""),
        ("PUT", "/v1/cells/a", "2"),
        ("GET", "/v1/cells/a", ""),
        ("GET", "/metrics", ""),
    ] {
        let said = w.ask(method, path, &[ELSEWHERE, ("content-type", "text/plain")], body);
        assert_eq!(said.code(), (403, "Forbidden".into()), "{method} {path}");
        assert!(said.text.contains("elsewhere.test"), "{}", said.text);
    }
    assert_eq!(w.db.revision(), 1);
}

/// An image request has no `Origin`. The requested export could fill the disk.
#[test]
fn an_image_on_a_page_of_elsewhere_makes_nothing() {
    let w = World::new();
    for path in ["/v1/export/main", "/v1/cells", "/metrics"] {
        let said = w.ask("GET", path, &[("sec-fetch-site", "cross-site")], "");
        assert_eq!(said.code(), (403, "Forbidden".into()), "{path}");
        w.send("GET", path, &[("sec-fetch-site", "none")], b"");
    }
}

/// DNS rebinding: the page's name resolves to this machine at the second lookup.
#[test]
fn a_name_that_has_come_to_lead_here_is_refused() {
    let w = World::new();
    let said = w.raw(
        b"GET /v1/cells HTTP/1.1\r\nhost: elsewhere.test:7380\r\n\
          origin: http://elsewhere.test:7380\r\nconnection: close\r\n\r\n",
    );
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    let said =
        w.raw(b"GET /v1/cells HTTP/1.1\r\nhost: elsewhere.test\r\nconnection: close\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
}

#[test]
fn pages_of_this_machine_programs_and_load_balancers_go_on() {
    let w = World::new();
    let here = format!("http://{}", w.address);
    for origin in [here.as_str(), "http://localhost:3000"] {
        w.ask("PUT", "/v1/cells/a", &[("origin", origin)], "1").ok();
    }
    let said = w.raw(b"GET /v1/cells HTTP/1.0\r\n\r\n");
    assert!(said.contains(" 200 "), "{said}");
    let said = w.raw(b"GET /healthz HTTP/1.1\r\nhost: any.name\r\nconnection: close\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}
