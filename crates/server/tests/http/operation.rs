use crate::seam::FaultyFiles;
use crate::world::{World, until};
use mainstay::Options;
use mainstay_server::http::{Settings, route_names};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

#[test]
fn health_and_readiness_are_200_on_a_sound_database() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    assert_eq!(w.get("/healthz").ok()["status"], "ok");
    assert_eq!(w.get("/readyz").ok()["revision"], 1);
}

#[test]
fn a_database_that_became_read_only_is_not_ready() {
    let (files, faults) = FaultyFiles::new();
    let w = World::of(Options::new().files(files).memory().unwrap(), Settings::default());
    w.put("/v1/cells/a", "1").ok();
    // Synchronizes with the `SeqCst` load that `FaultyFiles` makes at each sync.
    faults.sync_fails.store(true, Ordering::SeqCst);
    let failed = w.put("/v1/cells/a", "2");
    assert!(failed.status >= 500, "{failed:?}");
    let ready = w.get("/readyz");
    assert_eq!((ready.code().0, ready.json()["error"]["kind"].as_str()), (503, Some("ReadOnly")));
    assert_eq!(w.put("/v1/cells/a", "3").code(), (503, "SyncFailed".into()));
    assert_eq!(w.get("/v1/cells/a").ok()["value"], 1, "reads go on");
    assert_eq!(w.get("/healthz").status, 200);
    assert!(w.get("/metrics").text.contains("\nmainstay_read_only 1\n"));
}

#[test]
fn a_server_whose_disk_is_full_is_not_ready_until_there_is_space() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new().durability(mainstay::Durability::Memory);
    let db = options.write_buffer_bytes(64 << 10).open(directory.path()).unwrap();
    let w = World::of(db, Settings::default());
    assert_eq!(w.get("/readyz").status, 200);
    let full = directory.path().join("index/MARK.next");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let value = format!("{:?}", "x".repeat(1000));
    let put = |n: u32| w.put(&format!("/v1/cells/c{n}"), &value).status;
    let first = (0..10_000).find(|n| put(*n) != 200).unwrap();
    assert_eq!(put(first), 507);
    let ready = w.get("/readyz");
    assert_eq!((ready.code().0, ready.json()["error"]["kind"].as_str()), (503, Some("ReadOnly")));
    let why = ready.json()["error"]["message"].to_string();
    assert!(why.contains("space"), "{why}");
    assert_eq!(w.get("/v1/cells/c0").status, 200, "reads go on");
    std::fs::remove_file(&full).unwrap();
    until("it is ready", || w.get("/readyz").status == 200);
    assert_eq!(put(first), 200);
}

#[test]
fn a_draining_server_is_not_ready_but_answers() {
    let w = World::new();
    w.app.start_draining();
    assert_eq!(w.get("/readyz").code(), (503, "Draining".into()));
    assert_eq!(w.get("/healthz").status, 200);
    w.put("/v1/cells/a", "1").ok();
}

#[test]
fn metrics_count_requests_by_route_and_show_the_database() {
    let w = World::new();
    w.put("/v1/cells/a/b", "1").ok();
    w.get("/v1/cells/none");
    w.get("/made/up/by/a/client");
    let said = w.get("/metrics");
    assert!(said.header("content-type").starts_with("application/openmetrics-text"));
    for line in [
        r#"mainstay_http_requests_total{method="PUT",route="/v1/cells/{*name}",status="200"} 1"#,
        r#"mainstay_http_requests_total{method="GET",route="/v1/cells/{*name}",status="404"} 1"#,
        r#"mainstay_http_requests_total{method="GET",route="none",status="404"} 1"#,
        r#"mainstay_http_request_duration_seconds_count{method="PUT",route="/v1/cells/{*name}"} 1"#,
        "mainstay_revision 1",
        "mainstay_durable_revision 1",
        "mainstay_read_only 0",
        "mainstay_longest_stall_seconds 0.0",
        "# EOF",
    ] {
        assert!(said.text.lines().any(|found| found == line), "{line} in\n{}", said.text);
    }
    for name in ["mainstay_log_bytes ", "mainstay_buffer_bytes ", "mainstay_cache_bytes "] {
        assert!(said.text.lines().any(|found| found.starts_with(name)), "{name}");
    }
    assert!(!said.text.contains("made/up"), "clients make up no labels");
}

#[test]
fn the_openapi_document_lists_every_route_and_no_other() {
    let w = World::new();
    let document = w.get("/openapi.json").ok();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut listed = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path} says what it is for");
            listed.insert((method.to_uppercase(), path.clone()));
        }
    }
    let routes = route_names().into_iter().map(|(method, path)| (method.to_owned(), path));
    assert_eq!(listed, routes.collect());
}

#[test]
fn the_document_says_where_each_argument_stands_and_names_each_operation_once() {
    let w = World::new();
    let document = w.get("/openapi.json").ok();
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id), "{method} {path} has an id of its own");
            let empty = Vec::new();
            for argument in operation["parameters"].as_array().unwrap_or(&empty) {
                let name = argument["name"].as_str().unwrap();
                let in_path = path.contains(&format!("{{{name}}}"));
                assert_eq!(argument["in"] == "path", in_path, "{method} {path} {name}");
                let needed = in_path || path == "/v1/diff" || name == "token";
                assert_eq!(argument["required"] == true, needed, "{method} {path} {name}");
            }
        }
    }
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    let w = World::new();
    let document = w.get("/openapi.json").ok();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    assert!(schemas.contains_key("TransactionForm") && schemas.contains_key("StepForm"));
}

#[test]
fn every_route_of_the_table_is_served() {
    let w = World::new();
    for (method, path) in route_names() {
        // An invalid name: any error shows that the route exists.
        let path = path.replace("{name}", "_mainstay/x").replace("{space}", "_mainstay%2Fx");
        if ["/v1/feed", "/v1/runs/{run}/tail", "/v1/backup"].contains(&path.as_str()) {
            continue;
        }
        let said = w.ask(method, &path, &[], "");
        let lost = ["RouteNotFound", "MethodNotAllowed"];
        assert!(
            !lost.iter().any(|code| said.text.contains(code)),
            "{method} {path}: {}",
            said.text
        );
    }
}

#[test]
fn the_documentation_is_one_page_that_needs_nothing_else() {
    let w = World::new();
    let page = w.get("/docs");
    assert!(page.header("content-type").starts_with("text/html"));
    for (_, path) in route_names() {
        assert!(page.text.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for outside in ["http://", "https://", "src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.text.contains(outside), "{outside}");
    }
    assert!(page.text.contains("prefers-color-scheme: dark"));
    for link in page.text.split("href=\"#").skip(1) {
        let name = link.split('"').next().unwrap();
        assert!(page.text.contains(&format!("id=\"{name}\"")), "{name}");
    }
}
