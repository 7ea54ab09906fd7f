//! `mainstay record`.

use crate::program::{Program, field};
use crate::served::Served;
use mainstay::Value;

fn record(program: &Program, words: &[&str]) -> crate::program::Done {
    program.data(&[&["record"], words].concat())
}

fn put(program: &Program, words: &[&str]) -> String {
    record(program, &[&["put"], words].concat()).ok()
}

#[test]
fn fields_are_put_and_read() {
    let program = Program::new();
    assert_eq!(
        put(&program, &["j/1", "state=pending", "n=1"]),
        "{\"key\":\"j/1\",\"counter\":1}\n"
    );
    assert_eq!(put(&program, &["j/1", "state=a=b"]), "{\"key\":\"j/1\",\"counter\":2}\n");
    assert_eq!(
        record(&program, &["get", "j/1"]).ok(),
        "{\"key\":\"j/1\",\"fields\":{\"n\":\"1\",\"state\":\"a=b\"},\"counter\":2,\"ttl_ms\":null}\n"
    );
    assert_eq!(
        record(&program, &["get", "j/1", "n"]).ok(),
        "{\"key\":\"j/1\",\"field\":\"n\",\"value\":\"1\"}\n"
    );
    assert_eq!(record(&program, &["get", "j/1", "n", "-o", "raw"]).ok(), "1");
    assert_eq!(record(&program, &["get", "j/1", "-o", "raw"]).ok(), "n\t1\nstate\ta=b\n");
    let table = record(&program, &["get", "j/1", "-o", "table"]).ok();
    assert!(table.contains("state") && table.contains("counter 2, ttl_ms -"), "{table}");
    let past = record(&program, &["get", "j/1", "state", "--rev", "1", "-o", "raw"]).ok();
    assert_eq!(past, "pending");
}

#[test]
fn what_is_not_there_is_said_and_ends_with_one() {
    let program = Program::new();
    put(&program, &["a", "x=1"]);
    program.data(&["cell", "set", "cell", "1"]).ok();
    for words in [
        &["get", "b"][..],
        &["get", "a", "y"],
        &["get", "cell"],
        &["get", "a", "--rev", "0"],
        &["put", "a", "x=2", "--if", "7"],
        &["replace", "a", "x=2", "--if", "7"],
        &["unset", "a", "y"],
        &["cas", "a", "x", "2", "--is", "0"],
        &["cas", "a", "x", "2", "--absent"],
        &["delete", "b"],
        &["delete", "cell"],
        &["delete", "a", "--if", "7"],
        &["history", "b"],
        &["ttl", "b"],
        &["ttl", "b", "5s"],
        &["ttl", "a", "--clear"],
    ] {
        let said = record(&program, words).not_held();
        assert!(said.starts_with("mainstay: "), "{words:?}: {said}");
    }
    assert_eq!(record(&program, &["get", "a", "x", "-o", "raw"]).ok(), "1");
    assert_eq!(program.data(&["cell", "get", "cell", "-o", "raw"]).ok(), "1");
}

#[test]
fn fields_are_set_unset_and_replaced() {
    let program = Program::new();
    let fields = || field(&record(&program, &["get", "a"]).objects()[0], "fields").to_json();
    record(&program, &["set", "a", "x", "-5"]).ok();
    record(&program, &["set", "a", "$bytes:/w==", "odd"]).ok();
    let bytes = b"\x00\xff\n";
    program.fed(&["--data", "d", "record", "set", "a", "y", "-"], bytes).ok();
    assert_eq!(fields(), r#"{"$bytes:/w==":"odd","x":"-5","y":{"$bytes":"AP8K"}}"#);
    let command = ["--data", "d", "record", "get", "a", "y", "-o", "raw"];
    assert_eq!(program.command(&command).output().unwrap().stdout, bytes);
    let gone = record(&program, &["unset", "a", "x", "none", "$bytes:/w=="]).ok();
    assert_eq!(gone, "{\"key\":\"a\",\"removed\":2}\n");
    let counter = record(&program, &["replace", "a", "only=1"]).ok();
    assert_eq!(counter, "{\"key\":\"a\",\"counter\":5}\n");
    assert_eq!(fields(), r#"{"only":"1"}"#);
    record(&program, &["unset", "a", "only"]).ok();
    record(&program, &["get", "a"]).not_held();
}

#[test]
fn a_claim_looks_at_several_fields_and_writes_several() {
    let program = Program::new();
    put(&program, &["j", "state=pending", "error=x"]);
    let claim = ["cas", "j", "state", "claimed", "--is", "pending", "--and-absent", "worker"];
    let claim = [&claim[..], &["--set", "worker=w1", "--unset", "error", "--ttl", "1h"]].concat();
    assert_eq!(record(&program, &claim).ok(), "{\"key\":\"j\",\"counter\":2}\n");
    record(&program, &claim).not_held();
    let job = &record(&program, &["get", "j"]).objects()[0];
    assert_eq!(field(job, "fields").to_json(), r#"{"state":"claimed","worker":"w1"}"#);
    assert!(field(job, "ttl_ms").as_i64().is_some_and(|ms| ms > 0));
    record(&program, &["cas", "j", "lease", "1", "--absent", "--and", "worker=w1"]).ok();
    record(&program, &["cas", "j", "lease", "2", "--is", "1", "--and", "worker=w2"]).not_held();
}

#[test]
fn a_deletion_takes_the_record_and_the_counter_goes_on() {
    let program = Program::new();
    put(&program, &["a", "x=1"]);
    record(&program, &["set", "a", "$bytes:/w==", "odd"]).ok();
    let gone = record(&program, &["delete", "a", "--if", "2"]).ok();
    assert_eq!(gone, "{\"key\":\"a\",\"deleted\":true}\n");
    assert_eq!(put(&program, &["a", "x=1"]), "{\"key\":\"a\",\"counter\":4}\n");
    // In a transaction of the repl, the deletion is rolled back with it.
    let lines = "TXN.BEGIN\nrecord delete a\nTXN.ROLLBACK\nrecord get a x\n";
    let said = program.data_fed(&["repl"], lines);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(record(&program, &["get", "a", "x", "-o", "raw"]).ok(), "1");
}

#[test]
fn records_are_listed_and_counted_with_filters() {
    let program = Program::new();
    put(&program, &["j/1", "state=pending", "n=9"]);
    put(&program, &["j/2", "state=done", "n=10"]);
    put(&program, &["j/3", "state=pending", "n=100"]);
    put(&program, &["k", "state=pending"]);
    let keys = |words: &[&str]| -> Vec<Value> {
        let rows = record(&program, &[&["list"], words].concat()).objects();
        rows.iter().map(|row| field(row, "key").clone()).collect()
    };
    assert_eq!(keys(&["j/"]), ["j/1".into(), "j/2".into(), "j/3".into()]);
    assert_eq!(keys(&["j/", "--where", "n < 100", "--where", "state=pending"]), ["j/1".into()]);
    assert_eq!(keys(&["--where", r#"state in ["done","x"]"#]), ["j/2".into()]);
    assert_eq!(keys(&["--where", "state!=done", "--after", "j/1", "--limit", "1"]), ["j/3".into()]);
    assert_eq!(keys(&["--rev", "1"]), ["j/1".into()]);
    let row = record(&program, &["list", "k"]).ok();
    assert_eq!(row, "{\"key\":\"k\",\"fields\":{\"state\":\"pending\"},\"counter\":1}\n");
    let count = record(&program, &["count", "j/", "--where", "n>9"]).ok();
    assert_eq!(count, "{\"count\":2}\n");
    assert_eq!(record(&program, &["count", "none", "-o", "raw"]).ok(), "0\n");
    assert!(
        record(&program, &["count", "--where", "state in pending"]).error().contains("INVALID")
    );
}

#[test]
fn more_than_a_page_is_one_list() {
    let program = Program::new();
    let lines: String = (0..2500).map(|n| format!("REC.SET k{n:04} FIELDS n {n}\n")).collect();
    program.data_fed(&["txn"], &lines).ok();
    let listed = record(&program, &["list"]).objects();
    assert_eq!(listed.len(), 2500);
    assert_eq!(field(&listed[2499], "key"), &"k2499".into());
    assert_eq!(record(&program, &["list", "--limit", "1001"]).objects().len(), 1001);
}

#[test]
fn history_and_times_to_live_are_shown() {
    let program = Program::new();
    put(&program, &["a", "x=1", "--ttl", "1h"]);
    record(&program, &["delete", "a"]).ok();
    put(&program, &["a", "x=2"]);
    let versions = record(&program, &["history", "a"]).objects();
    let seen: Vec<_> = versions.iter().map(|v| field(v, "fields").to_json()).collect();
    assert_eq!(seen, [r#"{"x":"2"}"#, "null", r#"{"x":"1"}"#]);
    assert_eq!(field(&versions[0], "counter"), &3.into());
    let before = record(&program, &["history", "a", "--before", "2"]).objects();
    assert_eq!(before.len(), 1);
    assert_eq!(record(&program, &["ttl", "a"]).ok(), "{\"key\":\"a\",\"ttl_ms\":null}\n");
    assert_eq!(record(&program, &["ttl", "a", "1h"]).ok(), "{\"key\":\"a\",\"changed\":true}\n");
    let left = field(&record(&program, &["ttl", "a"]).objects()[0], "ttl_ms").as_i64();
    assert!(left.is_some_and(|ms| ms > 0 && ms <= 3_600_000), "{left:?}");
    record(&program, &["ttl", "a", "--clear"]).ok();
    assert_eq!(record(&program, &["ttl", "a", "-o", "raw"]).ok(), "\n");
}

#[test]
fn indexes_are_declared_filled_explained_and_dropped() {
    let program = Program::new();
    for n in 0..3 {
        put(&program, &[&format!("j/{n}"), "state=pending", &format!("n={n}")]);
    }
    let explain = || record(&program, &["explain", "j/", "--where", "state=pending"]).ok();
    assert!(explain().contains("no index helps"), "{}", explain());
    let added = record(&program, &["index", "add", "j/", "state", "$bytes:/w==", "--wait"]).ok();
    assert_eq!(added, "{\"prefix\":\"j/\",\"id\":1}\n");
    assert_eq!(record(&program, &["index", "add", "", "n", "-o", "raw"]).ok(), "2\n");
    let all = record(&program, &["index", "list"]).objects();
    assert_eq!(field(&all[0], "fields").to_json(), r#"["state",{"$bytes":"/w=="}]"#);
    assert_eq!(field(&all[0], "filled"), &3.into());
    assert!(field(&all[0], "ready").as_i64().is_some_and(|ready| ready > 3), "{all:?}");
    assert_eq!((all.len(), field(&all[1], "prefix")), (2, &"".into()));
    assert!(explain().starts_with("{\"explanation\":\"index 1 over `j/`"), "{}", explain());
    assert_eq!(record(&program, &["index", "drop", "1"]).ok(), "{\"id\":1,\"dropped\":true}\n");
    assert!(record(&program, &["index", "drop", "1"]).not_held().contains("index list"));
    assert!(explain().contains("no index helps"), "{}", explain());
    assert!(record(&program, &["index", "add", "j/"]).error().contains("FIELDS"));
    assert!(record(&program, &["index", "add", "", "n"]).not_held().contains("EXISTS"));
}

#[test]
fn a_server_answers_as_a_directory_does() {
    let program = Program::new();
    let elsewhere = Program::new();
    let served = Served::start(&elsewhere, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    let address = format!("127.0.0.1:{}", served.port);
    for words in [
        &["put", "j/1", "state=pending", "n=1"][..],
        &["set", "j/2", "state", "done"],
        &["cas", "j/1", "state", "claimed", "--is", "pending"],
        &["cas", "j/1", "state", "claimed", "--is", "pending"],
        &["get", "j/1"],
        &["list", "--where", "state=done"],
        &["count"],
        &["unset", "j/1", "n"],
        &["delete", "j/2"],
        &["list"],
        &["explain", "j/", "--where", "state=done"],
        &["index", "add", "j/", "state", "--wait"],
        &["index", "add", "j/", "state"],
        &["index", "list"],
        &["explain", "j/", "--where", "state=done"],
        &["list", "--where", "state=claimed"],
        &["index", "drop", "1"],
        &["index", "drop", "1"],
    ] {
        let here = record(&program, words);
        let there = program.run(&[&["--server", &address, "record"], words].concat());
        assert_eq!(
            (here.code, here.out, here.err),
            (there.code, there.out, there.err),
            "{words:?}"
        );
    }
}

#[test]
fn the_noun_explains_itself_and_is_completed() {
    let program = Program::new();
    let help = program.run(&["record", "--help"]).ok();
    for verb in ["get", "put", "replace", "set", "unset", "cas", "delete", "list", "count", "ttl"] {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb}: {help}");
    }
    assert!(program.run(&["completions", "bash"]).ok().contains("mainstay__subcmd__record"));
    let said = program.data_fed(&["repl"], "help record cas\n").ok();
    assert!(said.contains("--and-absent"), "{said}");
    assert!(program.data(&["record", "put", "a", "x"]).error().contains("FIELD=VALUE"));
}
