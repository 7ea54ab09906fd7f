//! The file transport.

use crate::world::{World, now};
use mainstay::Code;
use mainstay_runs::relay::{FileTransport, RelaySettings};
use serde_json::Value;
use std::io::Write;

#[test]
fn lines_are_whole_whatever_a_crash_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("messages.jsonl");
    let world = World::new();
    world.put("first", Some("r"));
    let deliver = || {
        let transport = FileTransport::open(&path).unwrap();
        now(world.relay(transport, RelaySettings::default()).round()).unwrap()
    };
    assert_eq!(deliver(), 1);
    // A crash in the middle of a line that is longer than a search piece.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(format!("{{\"id\":2,\"payload\":\"{}", "x".repeat(200_000)).as_bytes()).unwrap();
    drop(file);
    world.db.outbox().put("second", b"\xff\x00".to_vec(), None).unwrap();
    assert_eq!(deliver(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["id"], &lines[0]["run"], &lines[0]["payload"]),
        (&1.into(), &"r".into(), &"first".into())
    );
    assert_eq!(
        (&lines[1]["subject"], &lines[1]["payload"]["$bytes"]),
        (&"second".into(), &"/wA=".into())
    );
}

#[test]
fn a_file_has_one_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("messages.jsonl");
    let first = FileTransport::open(&path).unwrap();
    assert_eq!(FileTransport::open(&path).err().unwrap().code(), Code::Io);
    drop(first);
    FileTransport::open(&path).unwrap();
    assert!(FileTransport::open(directory.path().join("none/at/all")).is_err());
}
