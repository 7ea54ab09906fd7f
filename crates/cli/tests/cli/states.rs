//! `mainstay state`.

use crate::program::{Done, Program, field};
use crate::served::Served;
use mainstay::Value;
use std::fs;

fn state(program: &Program, words: &[&str]) -> Done {
    program.data(&[&["state"], words].concat())
}

#[test]
fn a_state_is_written_once_by_its_version() {
    let program = Program::new();
    let put = |value, version| state(&program, &["put", "s", "a", value, "--version", version]);
    let first = put("one", "7").objects().remove(0);
    assert_eq!((field(&first, "space"), field(&first, "key")), (&"s".into(), &"a".into()));
    assert_eq!(field(&first, "applied"), &Value::Bool(true));
    assert!(put("two", "7").not_held().contains("not newer"));
    assert!(put("two", "1.2").error().contains("INVALID"));
    program.data_fed(&["state", "put", "s", "b", "-", "--version", "1"], "from the input").ok();
    let got = state(&program, &["get", "s", "a"]).objects().remove(0);
    assert_eq!((field(&got, "value"), field(&got, "version")), (&"one".into(), &"7".into()));
    assert_eq!(state(&program, &["get", "s", "b", "-o", "raw"]).ok(), "from the input");
    state(&program, &["del", "s", "a", "--version", "8"]).ok();
    assert!(state(&program, &["get", "s", "a"]).not_held().contains("no state"));
    assert_eq!(state(&program, &["get", "s", "a", "--rev", "1", "-o", "raw"]).ok(), "one");
    state(&program, &["put", "s", "$bytes:AP8=", "x", "--version", "1"]).ok();
    assert_eq!(state(&program, &["get", "s", "$bytes:AP8=", "-o", "raw"]).ok(), "x");
    let keys = state(&program, &["list", "s"]).objects();
    assert_eq!(field(&keys[0], "key"), &"$bytes:AP8=".into());
    assert_eq!((keys.len(), field(&keys[1], "key")), (2, &"b".into()));
}

#[test]
fn spaces_are_declared_listed_sealed_and_dropped() {
    let program = Program::new();
    let create = ["create", "s", "--versions", "time", "--ordered", "--groups", "16"];
    state(&program, &create).ok();
    assert!(state(&program, &create).not_held().contains("there already"));
    assert!(state(&program, &["create", "s"]).not_held().contains("EXISTS"));
    let info = state(&program, &["info", "s"]).objects().remove(0);
    assert_eq!((field(&info, "versions"), field(&info, "groups")), (&"time".into(), &16.into()));
    state(&program, &["put", "s", "a", "one", "--version", "1.1"]).ok();
    let waiting = state(&program, &["waiting", "s"]).objects();
    assert_eq!(field(&waiting[0], "version"), &"1.1".into());
    let sealed = state(&program, &["seal", "s", "2.0"]).objects().remove(0);
    assert_eq!(field(&sealed, "settled"), &1.into());
    assert_eq!(state(&program, &["get", "s", "a", "-o", "raw"]).ok(), "one");
    state(&program, &["append", "s", "a", "1", "first"]).ok();
    assert!(state(&program, &["append", "s", "a", "1", "else"]).not_held().contains("already"));
    assert_eq!(field(&state(&program, &["items", "s", "a"]).objects()[0], "item"), &"first".into());
    state(&program, &["advance", "s", "orders", "8"]).ok();
    state(&program, &["advance", "s", "orders", "8"]).not_held();
    let positions = state(&program, &["positions", "s"]).objects();
    assert_eq!(field(&positions[0], "position"), &8.into());
    assert_eq!(field(&state(&program, &["spaces"]).objects()[0], "space"), &"s".into());
    let table = state(&program, &["scan", "s", "-o", "table"]).ok();
    assert!(table.contains("KEY") || table.contains("key"), "{table}");
    assert!(table.contains("one") && table.contains("1.1"), "{table}");
    state(&program, &["drop", "s"]).ok();
    state(&program, &["drop", "s"]).not_held();
    assert!(state(&program, &["info", "s"]).not_held().contains("state spaces"));
}

#[test]
fn long_lists_come_whole_and_no_longer_than_asked_for() {
    let program = Program::new();
    let lines: String = (0..2500).fold("multi\n".to_owned(), |mut lines, n| {
        lines.push_str(&format!("STATE.PUT s k{n:04} v VERSION 1\n"));
        lines
    });
    program.fed(&["--data", "d", "repl"], format!("{lines}exec\n").as_bytes());
    assert_eq!(state(&program, &["list", "s"]).objects().len(), 2500);
    let scanned = state(&program, &["scan", "s", "k1", "--limit", "1500"]).objects();
    assert_eq!(scanned.len(), 1000);
    let some = state(&program, &["scan", "s", "--limit", "1200", "--after", "k0999"]).objects();
    assert_eq!((some.len(), field(&some[0], "key")), (1200, &"k1000".into()));
}

fn flip_a_bit(program: &Program, name: &str) {
    let mut bytes = fs::read(program.path(name)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(program.path(name), bytes).unwrap();
}

/// The same test on a directory and on a server.
fn there_and_back(program: &Program, place: &[&str]) {
    let run = |words: &[&str]| program.run(&[place, &["state"], words].concat());
    for n in 0..20 {
        let key = format!("k{n}");
        let value = "v".repeat(1000);
        run(&["put", "team/s", &key, &value, "--version", "3.1"]).ok();
    }
    run(&["advance", "team/s", "orders", "8"]).ok();
    let taken = run(&["snapshot", "team/s", "file"]).objects().remove(0);
    assert_eq!(field(&taken, "entries"), &21.into());
    let length = fs::metadata(program.path("file")).unwrap().len() as i64;
    assert_eq!(field(&taken, "bytes"), &length.into());
    assert!(run(&["snapshot", "team/s", "file"]).error().contains("exists already"));
    run(&["put", "copy", "gone", "x", "--version", "1"]).ok();
    let restored = run(&["restore", "copy", "file"]).objects().remove(0);
    assert_eq!(field(&restored, "entries"), &21.into());
    run(&["get", "copy", "gone"]).not_held();
    let again = run(&["snapshot", "copy", "again"]).objects().remove(0);
    assert_eq!(field(&again, "hash"), field(&taken, "hash"));
    assert_eq!(fs::read(program.path("again")).unwrap(), fs::read(program.path("file")).unwrap());
    flip_a_bit(program, "again");
    run(&["restore", "copy", "again"]).error();
    assert_eq!(run(&["list", "copy"]).objects().len(), 20, "it is as it was");
    run(&["restore", "copy", "none"]).error();
    let revision = field(&taken, "revision").to_string();
    run(&["drop", "team/s"]).ok();
    assert!(run(&["snapshot", "team/s", "never"]).err.contains("no space"));
    run(&["snapshot", "team/s", "then", "--rev", &revision]).ok();
    assert_eq!(fs::read(program.path("then")).unwrap(), fs::read(program.path("file")).unwrap());
}

#[test]
fn a_space_goes_through_a_file_of_a_directory() {
    there_and_back(&Program::new(), &["--data", "d"]);
}

#[test]
fn a_space_goes_through_a_file_of_a_server() {
    let program = Program::new();
    let served = Served::start(&program, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    there_and_back(&program, &["--server", &format!("127.0.0.1:{}", served.port)]);
}

#[test]
fn the_repl_knows_the_noun_and_the_commands() {
    let program = Program::new();
    let lines = "state put s a one --version 1\nSTATE.GET s a\nhelp STATE.SEAL\nstate list s\n";
    let done = program.fed(&["--data", "d", "repl"], lines.as_bytes());
    assert!(done.out.contains("one") && done.out.contains("frontier"), "{done:?}");
}

/// Takes checkpoints of a space, lists, restores, rescales and damages them.
fn checkpoints(program: &Program, place: &[&str]) {
    let at = |words: &[&str]| program.run(&[place, words].concat());
    let put = |key: &str, version: &str| {
        at(&["state", "put", "s", key, "v", "--version", version]).ok();
    };
    let check = |words: &[&str]| at(&[&["checkpoint"], words].concat());
    assert!(check(&["ls"]).error().contains("no checkpoints"));
    if cfg!(not(feature = "s3")) {
        assert!(check(&["ls", "--shelf", "s3://bucket"]).error().contains("--features s3"));
    }
    put("a", "1");
    at(&["state", "advance", "s", "source/orders", "7"]).ok();
    let first = check(&["take", "job", "s"]).objects().remove(0);
    assert_eq!((field(&first, "checkpoint"), field(&first, "kind")), (&1.into(), &"full".into()));
    assert_eq!(field(&first, "positions"), &"orders=7".into());
    put("b", "2");
    check(&["take", "job", "s"]).ok();
    assert!(check(&["take", "job", "s", "--operator", "x"]).error().contains("of operator s"));
    // A typing error must not make a checkpoint of another space, of a missing space, or of a job that is
    // stored elsewhere.
    check(&["take", "job", "typo"]).not_held();
    at(&["state", "put", "other", "a", "v", "--version", "1"]).ok();
    assert!(check(&["take", "job", "other"]).error().contains("--operator s"));
    let shelf = program.path("mainstay-checkpoints");
    fs::create_dir_all(shelf.join("copy/manifests")).unwrap();
    let manifest = |job: &str, id: u64| shelf.join(format!("{job}/manifests/{id:020}"));
    fs::copy(manifest("job", 1), manifest("copy", 1)).unwrap();
    assert!(check(&["restore", "copy", "1", "--space", "then"]).error().contains("of job job"));
    // A damaged checkpoint does not hide the others.
    let whole = fs::read(manifest("job", 2)).unwrap();
    fs::write(manifest("job", 2), &whole[..whole.len() / 2]).unwrap();
    check(&["verify", "job", "1"]).ok();
    assert_eq!(check(&["ls", "job"]).objects().len(), 2);
    assert_eq!(check(&["ls"]).objects().len(), 2);
    assert!(check(&["verify", "job", "2"]).error().contains("use another checkpoint"));
    fs::write(manifest("job", 2), whole).unwrap();
    fs::remove_dir_all(shelf.join("copy")).unwrap();
    let all = check(&["ls", "job"]).objects();
    assert_eq!(all.len(), 2);
    assert_eq!(field(&check(&["ls"]).objects()[0], "newest"), &2.into());
    check(&["verify", "job", "1"]).ok();
    check(&["verify", "job", "9"]).not_held();
    check(&["verify", "nobody"]).not_held();
    check(&["restore", "job", "1", "--space", "then"]).ok();
    assert_eq!(at(&["state", "list", "then"]).objects().len(), 1);
    check(&["restore", "job", "1", "--space", "then", "--shard", "3"]).error();
    let divided = check(&["rescale", "job", "3"]).objects().remove(0);
    assert_eq!((field(&divided, "shards"), field(&divided, "epoch")), (&3.into(), &1.into()));
    assert!(check(&["take", "job", "s"]).error().contains("3 shards"));
    check(&["verify", "job"]).ok();
    let data = fs::read_dir(program.path("mainstay-checkpoints/job/data")).unwrap();
    let names = data.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.into_iter().find(|name| name.starts_with("00000000000000000003-1-")).unwrap();
    flip_a_bit(program, &format!("mainstay-checkpoints/job/data/{name}"));
    assert!(check(&["verify", "job"]).error().contains("use another checkpoint"));
    check(&["restore", "job", "--space", "then", "--shard", "1"]).error();
    assert_eq!(at(&["state", "list", "then"]).objects().len(), 1, "it is as it was");
}

#[test]
fn checkpoints_of_a_directory_go_there_and_back() {
    checkpoints(&Program::new(), &["--data", "d"]);
}

#[test]
fn checkpoints_of_a_server_go_there_and_back() {
    let program = Program::new();
    let served = Served::start(&program, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    checkpoints(&program, &["--server", &format!("127.0.0.1:{}", served.port)]);
}
