use crate::world::World;
use mainstay::{Database, Options};
use mainstay_server::http::Settings;
use std::path::Path;

fn bytes(w: &World, method: &str, path: &str) -> (u64, Vec<u8>) {
    let mut response = w.send(method, path, &[], b"");
    assert_eq!(response.status().as_u16(), 200);
    let revision = response.headers()["mainstay-revision"].to_str().unwrap().parse().unwrap();
    (revision, response.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap())
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn a_branch_goes_out_and_comes_back_elsewhere_with_its_history() {
    let scratch = tempfile::tempdir().unwrap();
    let settings = Settings { scratch: Some(scratch.path().into()), ..Settings::default() };
    let from = World::with(settings.clone());
    let to = World::with(settings);
    for i in 0..300 {
        from.db.cells().set("big", "x".repeat(4000 + i)).unwrap();
    }
    from.put("/v1/tags/t", "").ok();
    let (revision, file) = bytes(&from, "GET", "/v1/export/main");
    assert_eq!(revision, from.db.revision());
    let import = to.send("POST", "/v1/import/team/copy", &[], &file);
    assert_eq!(import.status().as_u16(), 201);
    let history = to.get("/v1/history/big?branch=team/copy").ok();
    assert_eq!(history["versions"].as_array().unwrap().len(), 300);
    assert_eq!(to.get("/v1/tags").ok()["tags"][0]["name"], "t");
    assert!(is_empty(scratch.path()), "nothing is left lying about");
}

#[test]
fn a_damaged_upload_changes_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let w = World::with(Settings { scratch: Some(scratch.path().into()), ..Settings::default() });
    w.put("/v1/cells/a", "1").ok();
    let (_, mut file) = bytes(&w, "GET", "/v1/export/main");
    let middle = file.len() / 2;
    file[middle] ^= 1;
    for body in [&file[..], &file[..middle], b"", b"not a file of ours"] {
        let mut said = w.send("POST", "/v1/import/copy", &[], body);
        assert_eq!(said.status().as_u16(), 400, "{}", said.body_mut().read_to_string().unwrap());
    }
    assert_eq!(w.db.branches().len(), 1);
    assert!(is_empty(scratch.path()));
}

#[test]
fn an_import_over_a_branch_or_an_export_of_none_is_refused() {
    let w = World::new();
    let (_, file) = bytes(&w, "GET", "/v1/export/main");
    let said = w.send("POST", "/v1/import/main", &[], &file);
    assert_eq!(said.status().as_u16(), 409);
    assert_eq!(w.get("/v1/export/none").code(), (404, "BranchNotFound".into()));
}

#[test]
fn a_backup_opens_as_a_database() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    w.put("/v1/cells/a?branch=side", "2").ok();
    let (revision, file) = bytes(&w, "POST", "/v1/backup");
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("backup"), file).unwrap();
    let base = root.path().join("backup");
    let copy: Database = Options::new().base(base).open(root.path().join("copy")).unwrap();
    assert_eq!(copy.revision(), revision);
    assert_eq!(copy.branch("side").unwrap().cells().get("a").unwrap(), Some(2.into()));
}

#[test]
fn an_increment_goes_on_from_a_backup() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    let (revision, full) = bytes(&w, "POST", "/v1/backup");
    w.put("/v1/cells/a", "2").ok();
    let (last, more) = bytes(&w, "POST", &format!("/v1/backup?since={revision}"));
    assert_eq!((revision + 1, w.db.revision()), (last, last));
    let root = tempfile::tempdir().unwrap();
    let files = ["full", "more"].map(|name| root.path().join(name));
    std::fs::write(&files[0], full).unwrap();
    std::fs::write(&files[1], more).unwrap();
    let copy = root.path().join("copy");
    mainstay::restore_backup(&copy, &files, &mut |_| {}).unwrap();
    assert_eq!(Database::open(&copy).unwrap().cells().get("a").unwrap(), Some(2.into()));
    let id = w.db.id().unwrap();
    let asked = |query: &str| w.post(&format!("/v1/backup?{query}"), "");
    assert_eq!(bytes(&w, "POST", &format!("/v1/backup?since={last}&database={id}")).0, last);
    assert_eq!(asked("since=999").code(), (400, "FutureRevision".into()));
    assert_eq!(asked("sinse=1").code(), (400, "InvalidArgument".into()));
    assert_eq!(asked("database=0").code(), (400, "InvalidArgument".into()));
}

/// If the scratch directory is missing, the server reports it and continues to serve.
#[test]
fn a_backup_without_a_place_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let scratch = Some(root.path().join("none"));
    let w = World::with(Settings { scratch, ..Settings::default() });
    let said = w.post("/v1/backup", "");
    assert!(said.text.contains("make room for scratch files"), "{}", said.text);
    w.put("/v1/cells/a", "1").ok();
}

/// A file that would use the disk reserve is refused, and its scratch file is removed.
#[test]
fn a_disk_without_much_to_spare_takes_no_files() {
    let from = World::new();
    from.put("/v1/cells/a", "1").ok();
    let (_, file) = bytes(&from, "GET", "/v1/export/main");
    let place = tempfile::tempdir().unwrap();
    let scratch = Some(place.path().into());
    let w =
        World::with(Settings { scratch, scratch_reserve_bytes: 1 << 50, ..Settings::default() });
    w.put("/v1/cells/a", "1").ok();
    for (method, path) in
        [("GET", "/v1/export/main"), ("POST", "/v1/backup"), ("POST", "/v1/backup?since=0")]
    {
        let said = w.ask(method, path, &[], "");
        assert_eq!(said.code(), (507, "DiskFull".into()), "{method} {path}");
        assert!(said.text.contains("http.scratch"), "{}", said.text);
    }
    assert_eq!(w.send("POST", "/v1/import/copy", &[], &file).status().as_u16(), 507);
    assert!(is_empty(place.path()));
    w.put("/v1/cells/a", "2").ok();
}

#[test]
fn an_upload_over_the_limit_is_cut() {
    let w = World::with(Settings { import_limit_bytes: 1000, ..Settings::default() });
    let head = "POST /v1/import/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let chunk = format!("{:x}\r\n{}\r\n", 2000, "y".repeat(2000));
    let said = w.raw(format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}").as_bytes());
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
    assert!(said.contains("BodyTooLarge"), "{said}");
}
