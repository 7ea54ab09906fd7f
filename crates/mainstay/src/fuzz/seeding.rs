//! Generates fuzz seeds from a database with data of every kind, and from texts. Run with `--ignored` when a
//! format changes.

use super::feeding::seeds;
use crate::{
    At, CellCommand, Database, MergeStrategy, Name, NewEvent, OutboxCommand, RequestId,
    SessionOptions, SpaceOptions, StateWrite, Transaction, VersionKind,
};
use mainstay_engine::commit::request_dedup;
use mainstay_engine::key::entry;
use mainstay_engine::key::keyspace;
use mainstay_engine::lifecycle::database_file;
use mainstay_engine::log::{DatabaseId, FrameVerifier};
use mainstay_engine::storage::flush_mark::FlushMark;
use mainstay_model::wire::{AdminRequest, encode};
use std::collections::BTreeMap;
use std::fs;

fn write(target: &str, name: &str, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(seeds(target)).unwrap();
    fs::write(seeds(target).join(name), bytes).unwrap();
}

/// Returns a database with an entry in every key space of the index.
fn everything() -> Database {
    let db = Database::memory().unwrap();
    let set = |name: &str| CellCommand::set(Name::new(name).unwrap(), 1);
    db.cells().set("a", 1).unwrap();
    db.records().add_index("job", &["state"]).unwrap();
    db.records().set_field("job-1", "state", "done").unwrap();
    db.runs().append(NewEvent::new("r", "RunStarted").plan("1")).unwrap();
    db.runs().append(NewEvent::new("r", "RunCompleted").plan("1")).unwrap();
    let put = OutboxCommand::Put {
        subject: "orders".into(),
        payload: b"{}".to_vec(),
        run: Some(Name::new("r").unwrap()),
    };
    db.execute(Transaction::new().step(put)).unwrap();
    let space = db.keyed("s").unwrap();
    space.declare(SpaceOptions::default().versions(VersionKind::U64)).unwrap();
    space.write(vec![StateWrite::put("k", "state", 3), StateWrite::advance("orders", 7)]).unwrap();
    space.append_unique("log", "1", "item").unwrap();
    db.fork("side", "main", At::Latest).unwrap();
    db.branch("side").unwrap().cells().set("b", 2).unwrap();
    db.merge("side", "main", MergeStrategy::Theirs).unwrap();
    db.tag("t", "main", At::Latest).unwrap();
    let id = RequestId::new(b"once").unwrap();
    db.execute(Transaction::new().request(id).step(set("c"))).unwrap();
    let session = db.sessions().open(SessionOptions::new().name("till-7")).unwrap();
    session.execute(1, 1, Transaction::new().step(set("d"))).unwrap();
    db
}

/// Returns one effect of each key space, taken from frames of a log.
fn effects(mut frames: &[u8], id: &DatabaseId) -> BTreeMap<u8, (Vec<u8>, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut follower = FrameVerifier::new(id, 0, 1);
    while let Some(head) = frames.first_chunk() {
        let size = follower.size_of(head).unwrap();
        let (frame, rest) = frames.split_at(size);
        for transaction in follower.follow(frame).unwrap().transactions() {
            for (key, entry) in transaction.unwrap().effects {
                found.insert(key[0], (key.to_vec(), entry.to_vec()));
            }
        }
        frames = rest;
    }
    found
}

#[test]
#[ignore = "writes into the repository"]
fn write_seeds_of_everything() {
    let db = everything();
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    db.backup_since(0, &path, &mut |_| {}).unwrap();
    let whole = fs::read(&path).unwrap();
    let id = DatabaseId(std::array::from_fn(|i| whole[12 + i]));
    let found = effects(&whole[68..whole.len() - 32], &id);
    for (space, (key, value)) in &found {
        let length = u8::try_from(key.len()).unwrap();
        write("stored", &format!("effect-{space:02x}"), [&[length], &key[..], &value[..]].concat());
        let payload = entry::parse(value).unwrap().1;
        if !payload.is_empty() && *space != keyspace::RECEIPTS {
            write("stored", &format!("payload-{space:02x}"), payload);
        }
    }
    let mut kept = Vec::new();
    let receipt =
        db.execute(Transaction::new().step(CellCommand::Get { name: Name::new("a").unwrap() }));
    request_dedup::encode(7, &receipt.unwrap(), &mut kept).unwrap();
    write("stored", "receipt", kept);
    write(
        "stored",
        "times",
        mainstay_engine::storage::timestamp_index::block(&[(1, 1_000), (300, 5_000_000)], 400),
    );
    fs::remove_file(&path).unwrap();
    db.export("main", &path, &mut |_| {}).unwrap();
    write("export", "everything", fs::read(&path).unwrap());
    fs::remove_file(&path).unwrap();
    db.backup(&path, &mut |_| {}).unwrap();
    write("backup", "everything", fs::read(&path).unwrap());
    answers(&db);
}

/// Writes replies to admin requests as seeds.
fn answers(db: &Database) {
    let frame = |name: &str, frame: crate::Result<Vec<u8>>| write("wire", name, frame.unwrap());
    frame("branches", encode(&db.try_branches()));
    frame("tags", encode(&db.try_tags()));
    frame("pins", encode(&db.try_pins()));
    frame("stats", encode(&db.try_stats()));
    frame("diff", encode(&db.diff("main", "side")));
    frame("indexes", encode(&db.records().indexes()));
    frame("hash", encode(&db.export_hash("main")));
    frame("since", encode(&db.keyed("s").unwrap().changes_since(None)));
    frame("sync", encode(&AdminRequest::Sync));
}

#[test]
#[ignore = "writes into the repository"]
fn write_seeds_of_small_files() {
    write("files", "DATABASE", database_file::encode(&[7; 16]));
    let classes = vec![(String::new(), 3), ("\0records".into(), 0)];
    write("files", "MARK", FlushMark { database: [7; 16], revision: 9, classes }.encode());
    let mut header = [0; 64];
    header[..12].copy_from_slice(b"MAINSTAY\x01\0\0\0");
    mainstay_engine::log::mend_header(&mut header);
    write("files", "segment", header);
    write("files", "segment-name", "log-00000000000000000001.seg");
    write("files", "current", [7; 24].iter().chain(&[0]).copied().collect::<Vec<u8>>());
    let table = [&[1, 1, 1, 0, 0, 0][..], &[3; 33]].concat();
    write("files", "tables", table);
    write(
        "replies",
        "kinds",
        b"+OK\r\n:-7\r\n,1.5\r\n#t\r\n_\r\n$-1\r\n*-1\r\n=7\r\ntxt:abc\r\n(99\r\n",
    );
    write("replies", "nested", b"%1\r\n+a\r\n*2\r\n$3\r\na\r\n\r\n~1\r\n:1\r\n");
    write("replies", "errors", b"-ERR no\r\n!5\r\nSYNTA\r\n");
    write("replies", "pushes", b">1\r\n+news\r\n|1\r\n+a\r\n+b\r\n:4\r\n");
}

#[test]
#[ignore = "writes into the repository"]
fn write_seeds_of_values() {
    let text = r#"{"a":[1,-2.5e10,null,true,"\u00e9"],"b":{"$bytes":"/w=="},"c":{"$float":"NaN"},"d":{"$object":{"$bytes":1}}}"#;
    write("values", "json", text);
    let mut bytes = Vec::new();
    crate::codec::encode(&crate::Value::from_json(text).unwrap(), &mut bytes).unwrap();
    write("values", "value", bytes);
    let fields = crate::Fields::of([("state", &b"pending"[..]), ("blob", b"\x00\xff")]).unwrap();
    let mut bytes = Vec::new();
    fields.encode(&mut bytes).unwrap();
    write("values", "fields", bytes);
    write("values", "field", "$bytes:AP8=");
    write("values", "version", "3.17");
    write("values", "version-bytes", [0, 0, 0, 0, 0, 0, 0, 9]);
    write("values", "moment", "2026-02-11T09:30:00.250+01:00");
    write("values", "status", "failed");
    let db = everything();
    let event = db.runs().fetch("r", 0, 1).unwrap().remove(0);
    write("values", "event", event.to_json());
    write(
        "values",
        "events",
        r#"[{"eventType":"StepStarted","stepId":"s","planVersion":"1","eventData":{"n":1},"tenant":7}]"#,
    );
}
