use crate::child::{Server, objects};
use mainstay_server::telemetry::{Export, Format, Log, Output};
use serde_json::Value;

fn json(level: &str) -> Log {
    Log { level: level.to_owned(), format: Format::Json, output: Output::Stderr }
}

fn find<'a>(lines: &'a [Value], message: &str) -> &'a Value {
    let found = lines.iter().find(|line| line["message"] == message);
    found.unwrap_or_else(|| panic!("no `{message}` in {lines:?}"))
}

#[test]
fn start_and_end_are_told_as_objects_and_the_welcome_stays_apart() {
    let server = Server::start(&json("info"), &Export::default());
    let resp = server.resp.to_string();
    let http = server.http.to_string();
    let said = server.end();
    let lines = said.objects();
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "{field} in {line}");
        }
    }
    let listening = find(&lines, "listening");
    assert_eq!(
        (listening["resp"].as_str(), listening["http"].as_str()),
        (Some(&*resp), Some(&*http))
    );
    for message in ["the database is open", "draining", "stopped"] {
        assert_eq!(find(&lines, message)["level"], "INFO");
    }
    assert!(!said.stdout.contains("listening"), "{}", said.stdout);
}

#[test]
fn connections_are_told_of_at_debug_level_and_only_there() {
    for (level, told) in [("info", false), ("info,mainstay_server::resp=debug", true)] {
        let server = Server::start(&json(level), &Export::default());
        let mut asked = server.client();
        asked.line("QUIT");
        assert!(asked.is_closed());
        let mut wrong = server.client();
        wrong.send_bytes(b"*1\r\n!\r\n");
        while wrong.receive_or_end().is_some() {}
        let lines = server.end().objects();
        let why = |why: &str| lines.iter().any(|line| line["why"] == why);
        assert_eq!((why("Asked"), why("Malformed")), (told, told), "{lines:?}");
    }
}

#[test]
fn a_file_is_appended_to_and_stderr_stays_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.log");
    std::fs::write(&path, "{\"message\":\"before\"}\n").unwrap();
    let log = Log { output: Output::File(path.clone()), ..json("info") };
    let said = Server::start(&log, &Export::default()).end();
    assert_eq!(said.stderr, "");
    let lines = objects(&std::fs::read_to_string(&path).unwrap());
    find(&lines, "before");
    find(&lines, "stopped");
}

#[test]
fn text_is_a_line_for_people() {
    let said = Server::start(&Log::default(), &Export::default()).end();
    let line = said.stderr.lines().find(|line| line.contains("listening")).unwrap();
    assert!(line.contains(" INFO ") && line.contains("resp=127.0.0.1:"), "{line}");
    assert!(!said.stderr.contains('\u{1b}'), "no colours in a file");
}

#[test]
fn neither_values_nor_passwords_are_logged_at_any_level() {
    let server = Server::start(&json("trace"), &Export::default());
    let mut client = server.client();
    for line in ["AUTH hunter2", "SET a hunter2", "HELLO 3 AUTH someone hunter2", "hunter2 a b"] {
        client.line(line);
    }
    let url = format!("http://{}/v1/cells/b", server.http);
    let put = ureq::put(url).header("authorization", "Bearer hunter2").send("\"hunter2\"");
    put.unwrap();
    let said = server.end();
    assert!(said.stderr.contains("a command was slow"), "{}", said.stderr);
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
}
