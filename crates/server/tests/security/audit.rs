//! The contents of the audit log, and secrets that it never contains.

use crate::world::{PASSWORD, World, basic};
use mainstay::{At, CellCommand, Demand, Guard, KeyCommand, Name, Step, Transaction, wire};
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;

/// Returns user, command, names and outcome of each line.
fn lines(world: &World) -> Vec<String> {
    let line = |line: &Value| {
        let about: Vec<&str> =
            line["about"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        assert!(text("peer").starts_with("127.0.0.1:") && text("time").ends_with('Z'), "{line}");
        [text("user"), text("command"), about.join(","), text("outcome")].join(" ")
    };
    world.audit().iter().map(line).collect()
}

fn text(world: &World) -> String {
    std::fs::read_to_string(world.directory.path().join("audit.log")).unwrap()
}

#[test]
fn logins_and_administrative_commands_of_redis_clients_are_recorded() {
    let world = World::new();
    let mut client = world.stranger();
    client.call(&["AUTH", "default", "hunter2"]);
    client.call(&["AUTH", "hunter3", "x"]);
    client.call(&["AUTH", "default", PASSWORD]);
    for line in [
        "SET a secret-value",
        "BRANCH.FORK trial",
        "BRANCH.FORK trial",
        "BRANCH.RENAME trial attempt",
        "BRANCH.MERGE attempt main",
        "TAG.SET v1",
        "TAG.DEL v1",
        "BRANCH.DELETE attempt",
        "REC.INDEX ADD a state",
        "REC.INDEX DROP 1",
        "FLUSHDB",
        "CONFIG GET maxmemory",
        "CONFIG SET requirepass hunter4",
        "DURABILITY INTERVAL",
        "SLOWLOG GET",
        "SLOWLOG RESET",
        "ACL WHOAMI",
        "ACL users",
        "SESSION.OPEN ID s",
        "SESSION.DO s 1 LOWEST 1 BRANCH.FORK once",
        "SESSION.DO s 2 LOWEST 1 BRANCH.FORK once",
        "GET a",
    ] {
        client.line(line);
    }
    client.line("MULTI");
    client.line("CONFIG GET save");
    client.line("FLUSHDB");
    client.line("EXEC");
    for line in ["MULTI", "FLUSHDB", "JOB.SUBMIT t a", "EXEC"] {
        client.line(line);
    }
    client.line("WATCH a");
    world.db.cells().set("a", 2).unwrap();
    for line in ["MULTI", "FLUSHDB", "EXEC"] {
        client.line(line);
    }
    client.call(&["AUTH", "app", PASSWORD]);
    client.line("FLUSHDB");
    client.line("SLOWLOG RESET");
    client.line("ACL USERS");
    client.line("SESSION.DO app:s 1 LOWEST 1 BRANCH.FORK app:x");
    client.line("GET other");
    client.line("MULTI");
    client.line("FLUSHDB");
    client.line("DISCARD");
    let wanted = [
        "default auth  wrong",
        "- auth  wrong",
        "default auth  done",
        "default branch.fork trial,main done",
        "default branch.fork trial,main failed",
        "default branch.rename trial,attempt,main done",
        "default branch.merge attempt,main,main done",
        "default tag.set v1,main done",
        "default tag.del v1,main done",
        "default branch.delete attempt,main done",
        "default rec.index ADD,a,main done",
        "default rec.index DROP,1,main done",
        "default flushdb main done",
        "default config main done",
        "default config main failed",
        "default durability INTERVAL,main done",
        "default slowlog RESET,main done",
        "default acl users,main done",
        "default branch.fork once,main done",
        "default branch.fork once,main failed",
        "default config main done",
        "default flushdb  done",
        "default flushdb  done",
        "default flushdb  failed",
        "app auth  done",
        "app flushdb main denied",
        "app slowlog RESET,main done",
        "app acl USERS,main done",
        "app branch.fork app:x,main denied",
        "app flushdb main denied",
    ];
    assert_eq!(lines(&world), wanted);
    for secret in ["hunter", "secret-value", PASSWORD] {
        assert!(!text(&world).contains(secret), "{secret}");
    }
}

#[test]
fn a_command_that_fails_inside_exec_is_recorded_as_failed() {
    let world = World::new();
    for part in 0..101 {
        let set = |all: Transaction, i: usize| {
            all.step(CellCommand::set(Name::new(&format!("{part}/{i}")).unwrap(), 1))
        };
        world.db.execute((0..1_000).fold(Transaction::new(), set)).unwrap();
    }
    let mut client = world.client("default");
    for line in ["MULTI", "FLUSHDB", "EXEC", "MULTI", "FLUSHDB", "JOB.SUBMIT t a", "EXEC"] {
        client.line(line);
    }
    let wanted = ["default auth  done", "default flushdb  failed", "default flushdb  failed"];
    assert_eq!(lines(&world), wanted, "so many keys are not deleted at once");
}

#[test]
fn each_command_of_a_transaction_is_recorded_as_it_ended() {
    let world = World::new();
    world.db.cells().set("a", 1).unwrap();
    let mut client = world.client("default");
    let name = || Name::new("a").unwrap();
    let mut wired = |counter, steps: Vec<Step>, otherwise| {
        let guard = Guard::Counter { name: name(), is: Some(counter) };
        let transaction = Transaction::new().guard(guard).otherwise(otherwise);
        let wired = wire::encode(&Transaction { steps: steps.into(), ..transaction }).unwrap();
        client.call(&[b"WIRE.EXECUTE".to_vec(), wired]);
    };
    let get = || vec![CellCommand::Get { name: name() }.into()];
    let flush = |limit| {
        let clear = KeyCommand::Clear { limit, hidden: Vec::new() };
        vec![Step { command: clear.into(), demand: Demand::Nothing }]
    };
    // The guard holds for counter 1.
    wired(1, get(), flush(9));
    wired(2, flush(9), get());
    wired(1, flush(0), get());
    let root = basic("default", PASSWORD);
    for sides in [
        r#""commands":[{"sweep":{"limit":1}}],"otherwise":[]"#,
        r#""otherwise":[{"sweep":{"limit":1}}]"#,
    ] {
        for is in [1, 2] {
            let body = format!(r#"{{"guards":[{{"counter":{{"name":"a","is":{is}}}}}],{sides}}}"#);
            let answer =
                world.ask_as(Some(&root), "POST", "/v1/transactions", &[], body.as_bytes());
            assert_eq!(answer.0, 200, "{body}");
        }
    }
    wired(2, get(), flush(9));
    let wanted = [
        "default auth  done",
        "default flushdb  failed",
        "default flushdb  failed",
        "default sweep  done",
        "default sweep  failed",
        "default sweep  done",
        "default flushdb  done",
    ];
    assert_eq!(lines(&world), wanted);
}

#[test]
fn a_login_is_recorded_although_nobody_waited_for_it() {
    let world = World::new();
    let mut client = world.stranger();
    client.send(&["AUTH", "app", "wrong"]);
    drop(client);
    for _ in 0..1000 {
        if !world.audit().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(lines(&world), ["app auth  wrong"]);
}

#[test]
fn administrative_requests_over_http_are_recorded_alike() {
    let world = World::new();
    world.db.cells().set("a", "secret-value").unwrap();
    let root = basic("default", PASSWORD);
    let ask =
        |method: &str, path: &str, body: &[u8]| world.ask_as(Some(&root), method, path, &[], body);
    ask("POST", "/v1/branches", br#"{"name":"trial"}"#);
    ask("PUT", "/v1/tags/v1", b"");
    ask("POST", "/v1/merges", br#"{"from":"trial","into":"main"}"#);
    let untag = r#"{"commands":[{"untag":{"name":"v1"}}]}"#;
    assert_eq!(ask("POST", "/v1/transactions", untag.as_bytes()).0, 200);
    let sweep = r#"{"commands":[{"sweep":{"limit":10}}]}"#;
    assert_eq!(ask("POST", "/v1/transactions", sweep.as_bytes()).0, 200);
    let set = br#"{"commands":[{"set":{"name":"a","value":"secret-value"}}]}"#;
    assert_eq!(ask("POST", "/v1/transactions", set).0, 200);
    let (_, _, file) = ask("GET", "/v1/export/main", b"");
    assert_eq!(ask("POST", "/v1/import/copy", &file).0, 201);
    ask("POST", "/v1/import/copy", b"damaged");
    ask("POST", "/v1/backup", b"");
    ask("DELETE", "/v1/branches/nosuch", b"");
    ask("POST", "/v1/record-indexes", br#"{"prefix":"a","fields":["state"]}"#);
    ask("DELETE", "/v1/record-indexes/1", b"");
    ask("GET", "/v1/cells/a", b"");
    world.ask(Some("app"), "DELETE", "/v1/branches/copy", "");
    world.ask(Some("app"), "DELETE", "/v1/record-indexes/1", "");
    world.ask(Some("app"), "POST", "/v1/transactions", untag);
    world.ask(Some("app"), "POST", "/v1/transactions", sweep);
    world.ask_as(Some(&basic("hunter2", "hunter3")), "GET", "/v1/cells/a", &[], b"");
    let wanted = [
        "default auth  done",
        "default branch.fork trial,main done",
        "default tag.set v1,main done",
        "default branch.merge trial,main done",
        "default tag.del v1 done",
        "default sweep  done",
        "default export main done",
        "default import copy done",
        "default import copy failed",
        "default backup  done",
        "default branch.delete nosuch done",
        "default rec.index ADD,a done",
        "default rec.index DROP,1 done",
        "app auth  done",
        "app branch.delete copy denied",
        "app rec.index 1 denied",
        "app tag.del v1 denied",
        "app sweep  denied",
        "- auth  wrong",
    ];
    assert_eq!(lines(&world), wanted);
    for secret in ["hunter", "secret-value", PASSWORD] {
        assert!(!text(&world).contains(secret), "{secret}");
    }
}

#[test]
fn requests_whose_client_leaves_are_recorded() {
    let world = World::new();
    // The password is cached from here on.
    assert_eq!(world.ask(Some("default"), "GET", "/v1/branches", "").0, 200);
    let names: Vec<String> = (0..20).map(|n| format!("trial-{n}")).collect();
    for name in &names {
        world.db.fork(name, "main", At::Latest).unwrap();
    }
    for name in &names {
        let db = world.db.clone();
        let set = |all: Transaction, n: usize| {
            all.step(CellCommand::set(Name::new(&format!("c{n}")).unwrap(), 1))
        };
        // The request waits for this transaction while its client leaves.
        let writer =
            std::thread::spawn(move || db.execute((0..5_000).fold(Transaction::new(), set)));
        let authorization = basic("default", PASSWORD);
        let head = format!(
            "DELETE /v1/branches/{name} HTTP/1.1\r\nhost: h\r\nauthorization: {authorization}\r\n\r\n"
        );
        TcpStream::connect(world.http).unwrap().write_all(head.as_bytes()).unwrap();
        writer.join().unwrap().unwrap();
    }
    let gone = || names.iter().filter(|name| world.db.branch(name).is_err()).count();
    // All requests were sent. Those not started when their client left may be dropped, and count as
    // failures.
    let is_done = |line: &&String| line.contains("branch.delete") && line.ends_with(" done");
    let recorded = || lines(&world).iter().filter(is_done).count();
    let mut before = usize::MAX;
    let mut looks = 0;
    while looks < 200 && (gone() == 0 || before != gone() || recorded() != gone()) {
        before = gone();
        looks += 1;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(gone() > 0, "some were begun");
    assert_eq!(recorded(), gone());
}

/// A session number already used for another request: the receipt belongs to that request, and this command
/// was not executed.
#[test]
fn a_request_under_a_used_number_is_recorded_as_failed() {
    let world = World::new();
    let ask = |method: &str, path: &str, body: &str| {
        let headers = [("mainstay-session", "s"), ("idempotency-key", "1")];
        let user = basic("default", PASSWORD);
        world.ask_as(Some(&user), method, path, &headers, body.as_bytes()).0
    };
    let opened = world.ask(Some("default"), "POST", "/v1/sessions", r#"{"session":"s"}"#);
    assert_eq!(opened.0, 200, "{}", opened.1);
    assert_eq!(ask("POST", "/v1/incr/n", r#"{"by":1}"#), 200);
    world.db.fork("trial", "main", At::Latest).unwrap();
    assert_eq!(ask("POST", "/v1/merges", r#"{"from":"trial","into":"main"}"#), 422);
    let last = lines(&world).pop().unwrap();
    assert_eq!(last, "default branch.merge trial,main failed");
    let mut client = world.client("default");
    client.line("SESSION.DO s 2 LOWEST 1 SET a b");
    client.line("WATCH a");
    world.db.cells().set("a", 2).unwrap();
    let failed = ["MULTI", "SET a c", "SESSION.EXEC s 3 LOWEST 1"].map(|line| client.line(line));
    assert_eq!(failed[2], r"*-1\r\n");
    for number in 1..=2 {
        client.line("MULTI");
        client.line("FLUSHDB");
        let reply = client.line(&format!("SESSION.EXEC s {number} LOWEST 1"));
        assert!(reply.contains("was another command"), "{number}: {reply}");
        assert_eq!(lines(&world).pop().unwrap(), "default flushdb  failed");
    }
    let reply = client.line("SESSION.DO s 3 LOWEST 1 FLUSHDB");
    assert!(reply.contains("was another command"), "{reply}");
    assert_eq!(lines(&world).pop().unwrap(), "default flushdb main failed");
    assert!(client.line("SESSION.DO s 3 LOWEST 1 SET b 2").contains("was another command"));
    let again = ["MULTI", "SET a c", "SESSION.EXEC s 3 LOWEST 1"].map(|line| client.line(line));
    assert_eq!(again[2], r"*-1\r\n", "an honest repeat, without its WATCH");
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_commands_are_done() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let world = World::with(|settings| settings.audit_file = Some("/dev/full".into()));
    let mut client = world.client("default");
    assert_eq!(client.line("BRANCH.FORK trial"), r":0\r\n");
    assert!(client.line("INFO").contains("audit_failures:2"), "{}", client.line("INFO"));
}
