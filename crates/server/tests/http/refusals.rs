use crate::world::World;
use std::io::{Read, Write};

#[test]
fn an_unknown_path_is_404_and_a_wrong_method_405_in_the_same_form() {
    let w = World::new();
    for path in ["/", "/v1", "/v1/none", "/v1/cells/", "/v2/cells", "/docs/x"] {
        assert_eq!(w.get(path).code(), (404, "RouteNotFound".into()), "{path}");
    }
    let said = w.ask("PATCH", "/v1/cells/a", &[], "1");
    assert_eq!(said.code(), (405, "MethodNotAllowed".into()));
    let allowed = said.header("allow");
    assert!(["GET", "PUT", "DELETE"].iter().all(|method| allowed.contains(method)), "{allowed}");
    assert_eq!(w.post("/v1/diff", "").code(), (405, "MethodNotAllowed".into()));
    assert_eq!(w.delete("/healthz").code(), (405, "MethodNotAllowed".into()));
}

#[test]
fn a_body_that_is_no_json_is_400() {
    let w = World::new();
    for body in ["", "{", "nope", "1 2", "'a'", "[1,]", r#"{"$x":1}"#, "9223372036854775808"] {
        assert_eq!(w.put("/v1/cells/a", body).code(), (400, "InvalidValue".into()), "{body}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(w.put("/v1/cells/a", &deep).status, 400);
    let mut said = w.send("PUT", "/v1/cells/a", &[], b"\"\xff\"");
    assert_eq!(said.status().as_u16(), 400);
    assert!(said.body_mut().read_to_string().unwrap().contains("UTF-8"));
    for (path, body) in [("/v1/incr/a", "{\"bye\":1}"), ("/v1/merges", "{}"), ("/v1/branches", "1")]
    {
        assert_eq!(w.post(path, body).code(), (400, "InvalidArgument".into()), "{path}");
    }
    assert_eq!(w.db.revision(), 0);
}

#[test]
fn arguments_that_are_unknown_or_no_numbers_are_400() {
    let w = World::new();
    for path in [
        "/v1/cells/a?revision=1",
        "/v1/cells/a?rev=x",
        "/v1/cells/a?rev=-1",
        "/v1/cells/a?rev=1&rev=2",
        "/v1/cells?limit=1.5",
        "/v1/history/a?limit=ten",
        "/v1/feed?after=now",
        "/v1/feed/page?wait=1",
    ] {
        assert_eq!(w.get(path).code(), (400, "InvalidArgument".into()), "{path}");
    }
    assert_eq!(w.put("/v1/cells/a?ttl_ms=soon", "1").code().0, 400);
    assert_eq!(w.put("/v1/cells/a?ttl=5", "1").code().0, 400);
}

#[test]
fn names_that_may_not_be_are_400() {
    let w = World::new();
    let long = "n".repeat(1025);
    for name in ["_mainstay/x", "a%00b", &long, "%ff"] {
        for said in [w.get(&format!("/v1/cells/{name}")), w.put(&format!("/v1/cells/{name}"), "1")]
        {
            assert_eq!(said.code(), (400, "InvalidName".into()), "{name}");
        }
    }
}

#[test]
fn a_closed_database_is_503() {
    let w = World::new();
    w.db.close().unwrap();
    assert_eq!(w.get("/v1/cells/a").code(), (503, "Closed".into()));
    assert_eq!(w.put("/v1/cells/a", "1").code(), (503, "Closed".into()));
    assert_eq!(w.get("/v1/feed").code(), (503, "Closed".into()));
    assert_eq!(w.get("/readyz").code(), (503, "Closed".into()));
    assert_eq!(w.get("/healthz").status, 200, "the process still answers");
}

#[test]
fn a_refusal_arrives_although_the_body_comes_later() {
    let w = World::new();
    for head in ["PUT /v1/none", "PATCH /v1/cells/a", "PUT /v1/cells/_mainstay/x"] {
        let mut stream = w.connect();
        let length = 200_000;
        let head =
            format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        for _ in 0..20 {
            stream.write_all(&vec![b'1'; length / 20]).unwrap();
            std::thread::yield_now();
        }
        // The same connection still works, so it was not reset.
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 40") && said.contains("HTTP/1.1 200"), "{said}");
    }
}
