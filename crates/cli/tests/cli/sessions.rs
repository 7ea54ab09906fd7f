//! `mainstay session`.

use crate::program::{Done, Program, field};
use crate::served::Served;
use crate::support::Ours;
use mainstay::{CAPABILITIES_LIMIT_BYTES, CAPABILITY_LIMIT, SessionOptions, Transaction, Value};

fn session(program: &Program, words: &[&str]) -> Done {
    program.data(&[&["session"], words].concat())
}

#[test]
fn a_session_is_opened_listed_looked_at_and_closed() {
    let program = Program::new();
    let open = ["open", "b", "--lease", "10m", "--cap", "lang=rust", "--cap", "os=a=b"];
    let opened = session(&program, &open).objects().remove(0);
    assert_eq!(field(&opened, "session"), &"b".into());
    assert_eq!(session(&program, &["open", "a", "-o", "raw"]).ok(), "a\n");
    let info = session(&program, &["info", "b"]).objects().remove(0);
    assert_eq!(field(&info, "lease_ms"), &600_000.into());
    assert_eq!(field(field(&info, "capabilities"), "os"), &"a=b".into());
    assert_eq!(field(&info, "next_request"), &1.into());
    let all = session(&program, &["list"]).objects();
    let names: Vec<&Value> = all.iter().map(|one| field(one, "session")).collect();
    assert_eq!(names, [&Value::from("a"), &Value::from("b")]);
    assert_eq!(session(&program, &["list", "--limit", "1"]).objects().len(), 1);
    let rest = session(&program, &["list", "--after", "a"]).objects();
    assert_eq!((rest.len(), field(&rest[0], "session")), (1, &"b".into()));
    let table = session(&program, &["list", "-o", "table"]).ok();
    assert!(table.contains("next request") && table.contains("600000"), "{table}");
    let alive = session(&program, &["keep-alive", "b", "--lowest", "3"]).objects().remove(0);
    assert_eq!(field(&alive, "alive"), &Value::Bool(true));
    let info = session(&program, &["info", "b"]).objects().remove(0);
    assert_eq!(field(&info, "next_request"), &3.into());
    session(&program, &["close", "b"]).ok();
    assert!(session(&program, &["close", "b"]).not_held().contains("session list"));
    assert!(session(&program, &["info", "b"]).not_held().contains("there is no session b"));
    assert!(session(&program, &["keep-alive", "b"]).not_held().contains("SESSIONEXPIRED"));
}

/// Session info can be long, so a page can end early by its size. The list must continue after such a page.
#[test]
fn a_list_goes_on_behind_a_page_that_is_cut_short() {
    let ours = Ours::start();
    let program = Program::new();
    let server = ours.address.to_string();
    // The most capabilities that a session may have.
    let long = "x".repeat(CAPABILITIES_LIMIT_BYTES / CAPABILITY_LIMIT - 2);
    let open = |number| {
        let named = SessionOptions::new().name(&format!("s{number:03}"));
        let able = (0..CAPABILITY_LIMIT)
            .fold(named, |options, place| options.capability(&place.to_string(), &long));
        Transaction::new().step(able.command().unwrap())
    };
    let opened = ours.db.execute_all((0..950).map(open).collect());
    opened.into_iter().for_each(|opened| drop(opened.unwrap()));
    let list = |words: &[&str]| {
        let all = [&["--server", &server, "session", "list"][..], words].concat();
        program.run(&all).objects().len()
    };
    assert_eq!(list(&[]), 950);
    assert_eq!(list(&["--after", "s009"]), 940);
    assert_eq!(list(&["--limit", "949"]), 949);
    assert_eq!(list(&["--limit", "1"]), 1);
}

/// Also in separate processes that open the directory: stored responses survive.
#[test]
fn a_command_is_done_once() {
    let program = Program::new();
    session(&program, &["open", "s"]).ok();
    let request = |words: &[&str]| session(&program, &[&["do", "s"], words].concat());
    for _ in 0..3 {
        assert_eq!(request(&["1", "--", "INCR", "n"]).ok(), "1\n");
    }
    assert_eq!(request(&["2", "--", "INCR", "n"]).ok(), "2\n");
    let got = request(&["3", "--", "CELL.GETV", "n"]).objects().remove(0);
    assert_eq!((field(&got, "value"), field(&got, "counter")), (&"2".into(), &2.into()));
    assert_eq!(request(&["4", "--lowest", "4", "-o", "raw", "--", "GET", "n"]).ok().trim(), "2");
    assert!(request(&["1", "--", "INCR", "n"]).not_held().contains("EVICTED"));
    assert!(request(&["5", "--", "INCR"]).error().contains("wrong number of arguments"));
    assert!(request(&["5", "--", "PING"]).error().contains("SESSION.DO"));
    assert!(request(&["0", "--", "INCR", "n"]).error().contains("INVALID"));
    assert!(request(&["5", "--lowest", "6", "--", "INCR", "n"]).error().contains("INVALID"));
    let nobody = session(&program, &["do", "nobody", "1", "--", "INCR", "n"]);
    assert!(nobody.not_held().contains("SESSIONEXPIRED"));
    assert_eq!(program.data(&["cell", "get", "n", "-o", "raw"]).ok(), "2");
    program.data(&["branch", "fork", "side"]).ok();
    assert_eq!(request(&["6", "-b", "side", "--", "INCR", "n"]).ok(), "3\n");
    assert_eq!(program.data(&["cell", "get", "n", "-o", "raw"]).ok(), "2");
}

#[test]
fn what_is_sent_waits_until_it_is_acknowledged() {
    let program = Program::new();
    session(&program, &["open", "s", "--lease", "1h"]).ok();
    let sent = session(&program, &["send", "s", "-x"]).objects().remove(0);
    assert_eq!((field(&sent, "session"), field(&sent, "number")), (&"s".into(), &1.into()));
    program.data_fed(&["session", "send", "s", "-"], "from the input").ok();
    assert!(session(&program, &["send", "nobody", "x"]).not_held().contains("session list"));
    let pending = session(&program, &["pending", "s"]).objects();
    assert_eq!(field(&pending[0], "payload"), &"-x".into());
    assert_eq!((field(&pending[1], "number"), pending.len()), (&2.into(), 2));
    assert_eq!(session(&program, &["pending", "s", "--after", "1"]).objects().len(), 1);
    assert_eq!(session(&program, &["pending", "s", "--limit", "1"]).objects().len(), 1);
    assert!(session(&program, &["retry", "1h ago"]).objects().is_empty());
    let again = session(&program, &["retry", "2100-01-01T00:00:00Z", "--limit", "1"]).objects();
    assert_eq!((field(&again[0], "session"), again.len()), (&"s".into(), 1));
    let done = session(&program, &["ack", "s", "1"]).objects().remove(0);
    assert_eq!(field(&done, "acknowledged"), &1.into());
    assert_eq!(session(&program, &["pending", "s"]).objects().len(), 1);
    assert!(session(&program, &["pending", "nobody"]).not_held().contains("SESSIONEXPIRED"));
}

#[test]
fn it_works_on_a_server_and_in_the_repl() {
    let program = Program::new();
    let served = Served::start(&program, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    let server = format!("127.0.0.1:{}", served.port);
    let lines = "session open s\nsession do s 1 -- INCR n\nSESSION.DO s 1 LOWEST 0 INCR n\nmulti\nINCR n\n\
                 SESSION.EXEC s 2 LOWEST 1\nsession do s 3 -- CELL.GETV n\n";
    let done = program.fed(&["--server", &server, "-o", "json", "repl"], lines.as_bytes());
    let said = done.ok();
    let told: Vec<&str> = said.lines().collect();
    assert_eq!(&told[..3], [r#"{"session":"s"}"#, "1", "1"], "{said}");
    assert!(told[5..].concat().contains(r#""counter":2"#), "{said}");
    let listed = program.run(&["--server", &server, "session", "list"]).objects();
    assert_eq!(field(&listed[0], "next_request"), &4.into());
}

#[test]
fn help_has_examples() {
    let program = Program::new();
    let help = program.run(&["session", "--help"]).ok();
    assert!(help.contains("mainstay session do till-7 1 -- INCR sold"), "{help}");
    let help = program.run(&["session", "do", "--help"]).ok();
    assert!(help.contains("--lowest") && help.contains("Examples:"), "{help}");
}
