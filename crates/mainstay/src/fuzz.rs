//! Fuzz targets: feed arbitrary bytes to every reader of files and frames. A target must not panic and must
//! not allocate far more memory than the input has bytes. Input that is accepted must survive a round trip.
//!
//! ```text
//!   bytes --unchanged----------------> reader
//!         --checksums recomputed-----> reader     so that changes get past the checksums
//! ```

#[cfg(test)]
#[path = "../../../fuzz/feeding.rs"]
mod feeding;
mod files;
mod replies;
#[cfg(test)]
mod seeding;
mod sessions;
mod stored;
mod values;

pub use files::files;
pub use replies::replies;
pub use sessions::sessions;
pub use stored::stored;
pub use values::values;

use crate::keyed;
use crate::{BranchInfo, Difference, Filter, Options, Pin, Stats, TagInfo};
use mainstay_engine::fs::checksummed_file::mend_hash;
use mainstay_engine::log::{self, DatabaseId, FrameVerifier, Transactions};
use mainstay_engine::tools::backup;
use mainstay_engine::tools::export;
use mainstay_model::wire::{
    AdminRequest, FeedReply, FeedRequest, ReadReply, ReadRequest, StateSince, TransactionReply,
    TransactionRequest, decode, encode,
};
use mainstay_model::{
    CanonicalEvent, EntryRef, IndexInfo, Instant, KeyedState, Receipt, Result, RunAnswer,
    RunSnapshot, SnapshotHead, SnapshotReader, SnapshotSummary, SnapshotWriter, SpaceEntry,
    Transaction, peek_event,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// Parses log frames and the transactions in them.
pub fn frames(bytes: &[u8]) {
    let id = DatabaseId([7; 16]);
    follow(bytes, &id);
    let mut mended = bytes.to_vec();
    let mut at = 0;
    let mut chain = 0;
    let mut next = 1;
    while let Some((size, crc, behind)) = log::mend(&mut mended[at..], &id, chain, next) {
        at += size;
        chain = crc;
        next = behind;
    }
    follow(&mended, &id);
    if let Some((count, payload)) = bytes.split_first() {
        walk(Transactions::new(1, u32::from(*count), payload));
    }
}

fn follow(mut bytes: &[u8], id: &DatabaseId) {
    let mut follower = FrameVerifier::new(id, 0, 1);
    while let Some(head) = bytes.first_chunk() {
        let Ok(size) = follower.size_of(head) else { return };
        let Some((frame, rest)) = bytes.split_at_checked(size) else { return };
        let Ok(frame) = follower.follow(frame) else { return };
        walk(frame.transactions());
        bytes = rest;
    }
}

fn walk(transactions: Transactions<'_>) {
    for transaction in transactions {
        let Ok(transaction) = transaction else { return };
        let count = transaction.effects.len();
        assert_eq!(transaction.effects.count(), count, "as many effects as it says");
    }
}

/// Verifies the bytes as a full or incremental backup. Uses `scratch` as the file to write to.
pub fn backup(bytes: &[u8], scratch: &Path) {
    let mut mended = bytes.to_vec();
    backup::mend(&mut mended);
    for bytes in [bytes, &mended] {
        if std::fs::write(scratch, bytes).is_err() {
            return;
        }
        let Ok(report) = backup::verify_backup(scratch) else { continue };
        let head = backup::backup_head(scratch).expect("what is whole has a head");
        assert_eq!((head.kind, head.revision), (report.kind, report.revision));
        assert_eq!(backup::verify_backup(scratch).as_ref(), Ok(&report));
        assert_eq!(report.bytes, bytes.len() as u64);
    }
}

/// Verifies the bytes as an export of a branch and imports it. Uses `scratch` as the file to write to.
pub fn export(bytes: &[u8], scratch: &Path) {
    let mut mended = bytes.to_vec();
    mend_hash(&mut mended);
    for bytes in [bytes, &mended] {
        if std::fs::write(scratch, bytes).is_err() {
            return;
        }
        let Ok(contents) = export::verify_export(scratch, &mut |_| {}) else { continue };
        assert_eq!(contents.bytes, bytes.len() as u64);
        assert!(contents.versions <= contents.bytes, "a version takes some bytes");
        import(scratch);
    }
}

/// Imports a verified export, unless the import is refused. Then reads, watches, writes and exports the new
/// branch.
fn import(scratch: &Path) {
    let db = Options::new().background(false).memory().expect("a database in memory");
    if db.import(scratch, "again", &mut |_| {}).is_err() {
        return;
    }
    let branch = db.branch("again").expect("what was imported is there");
    for name in branch.cells().list("", None, 9).expect("cells").names {
        let _ = branch.cells().get(&name).expect("a cell");
        let _ = branch.cells().set(&name, 1);
    }
    for (key, _) in branch.records().scan("", &[], None, 9).expect("records").records {
        let _ = branch.records().set_field(&key, "f", "v");
    }
    let _ = db
        .watch(Filter::default(), 0)
        .map(|mut feed| while feed.next(Duration::ZERO).is_ok_and(|it| it.is_some()) {});
    db.export_hash("again").expect("what was imported has a hash");
    let again = scratch.with_extension("again");
    let _ = std::fs::remove_file(&again);
    db.export("again", &again, &mut |_| {}).expect("what was imported can be exported");
    export::verify_export(&again, &mut |_| {}).expect("what was exported is whole");
}

/// Decodes run events, run snapshots and outbox messages, and checks that each survives a round trip.
pub fn runs(bytes: &[u8]) {
    let _ = mainstay_engine::apply::outbox::told(b"m\0\0\0\0\0\0\0\x01", bytes);
    if let Ok(event) = CanonicalEvent::decode(bytes, "r", 3, 7) {
        let peeked = peek_event(bytes).expect("what is read can be peeked at");
        assert_eq!(peeked.event_type, event.event_type);
        assert_eq!(peeked.step.as_deref(), event.step_id.as_deref());
        assert_eq!(peeked.attempt.as_deref(), event.logical_attempt_id.as_deref());
        let mut written = Vec::new();
        event.encode(&Instant::of_us(7), &mut written).expect("what was read can be written");
        assert_eq!(CanonicalEvent::decode(&written, "r", 3, 7).as_ref(), Ok(&event));
    }
    let _ = peek_event(bytes);
    if let Ok(snapshot) = RunSnapshot::decode(bytes, "r") {
        let mut written = Vec::new();
        snapshot.encode(&mut written);
        assert_eq!(RunSnapshot::decode(&written, "r").as_ref(), Ok(&snapshot));
    }
}

/// Parses a snapshot of keyed state, rewrites it entry by entry, and checks that the result is the same.
pub fn keyed(bytes: &[u8]) {
    let mut mended = bytes.to_vec();
    keyed::mend(&mut mended);
    for bytes in [bytes, &mended] {
        let Ok((head, entries, summary)) = read_snapshot(bytes) else { continue };
        assert_eq!(summary.bytes, bytes.len() as u64);
        assert_eq!(summary.entries, entries.len() as u64);
        let written = write_snapshot(&head, &entries).expect("what was read can be written");
        // Block boundaries may differ. Everything else must be the same.
        let again = read_snapshot(&written).expect("what was written can be read");
        assert_eq!((again.0, &again.1, &again.2.positions), (head, &entries, &summary.positions));
        assert_eq!(write_snapshot(&head, &again.1).as_ref(), Ok(&written));
        restore(bytes, &written);
    }
}

/// Restores a snapshot into a space and checks that the space's own snapshot restores to the same state.
fn restore(bytes: &[u8], written: &[u8]) {
    let db = Options::new().background(false).memory().expect("a database in memory");
    let space = db.keyed("s").expect("a name");
    if space.restore(bytes).is_ok() {
        let again = space.snapshot().expect("what was restored is there");
        let other = db.keyed("other").expect("a name");
        other.restore(&again).expect("what was written can be restored");
        assert_eq!(other.snapshot().as_ref(), Ok(&again));
        assert!(again.len() <= written.len(), "what is below the frontier goes, nothing comes");
    }
}

fn read_snapshot(bytes: &[u8]) -> Result<(SnapshotHead, Vec<SpaceEntry>, SnapshotSummary)> {
    let mut reader = SnapshotReader::new(bytes)?;
    let head = *reader.head();
    let mut entries = Vec::new();
    while let Some(block) = reader.next_block()? {
        for entry in &block {
            let (place, payload) = entry?;
            let read =
                EntryRef::from_parts(place, payload, head.space.options.versions)?.to_owned();
            assert_eq!(read.place().as_slice(), place, "an entry stands where it says");
            entries.push(read);
        }
    }
    let summary = reader.summary().expect("its end was seen").clone();
    Ok((head, entries, summary))
}

fn write_snapshot(head: &SnapshotHead, entries: &[SpaceEntry]) -> Result<Vec<u8>> {
    let mut writer = SnapshotWriter::new(Vec::new(), head)?;
    for entry in entries {
        let mut payload = Vec::new();
        entry.put_payload(&mut payload);
        writer.push(&entry.place(), (!entry.is_removal()).then_some(&payload[..]))?;
    }
    Ok(writer.finish()?.1)
}

/// Decodes the frames that servers and clients exchange, and checks that each survives a round trip.
pub fn wire(bytes: &[u8]) {
    again::<Transaction>(bytes);
    again::<ReadRequest>(bytes);
    again::<TransactionRequest>(bytes);
    again::<FeedRequest>(bytes);
    again::<AdminRequest>(bytes);
    again::<Result<Receipt>>(bytes);
    again::<Result<ReadReply>>(bytes);
    again::<Result<TransactionReply>>(bytes);
    again::<Result<FeedReply>>(bytes);
    // Replies to admin requests.
    again::<Result<u64>>(bytes);
    again::<Result<Option<u64>>>(bytes);
    again::<Result<bool>>(bytes);
    again::<Result<String>>(bytes);
    again::<Result<[u8; 32]>>(bytes);
    again::<Result<Vec<BranchInfo>>>(bytes);
    again::<Result<Vec<TagInfo>>>(bytes);
    again::<Result<Vec<Difference>>>(bytes);
    again::<Result<Vec<Pin>>>(bytes);
    again::<Result<Vec<IndexInfo>>>(bytes);
    again::<Result<Stats>>(bytes);
    again::<Result<RunAnswer>>(bytes);
    again::<Result<StateSince>>(bytes);
}

fn again<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(first) = decode::<T>(bytes) else { return };
    let written = encode(&first).expect("what was read can be written");
    let second: T = decode(&written).expect("what was written can be read");
    assert_eq!(encode(&second).as_ref(), Ok(&written));
}

#[cfg(test)]
mod tests {
    use super::feeding::{changes, check_targets, feed, seeds};
    use super::*;
    use crate::{
        At, CellCommand, Code, Condition, Database, Field, FieldValue, Fields, Guard, HashCommand,
        KeySelection, LogicalTime, Name, NewEvent, RecordCommand, RecordWrite, SpaceInfo,
        SpaceOptions, StateWrite, Test, Ttl, Value, VersionKind, Where, backup_head,
    };
    use mainstay_model::wire::ReadOp;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::fs;

    fn from_json(text: &str) -> Value {
        Value::from_json(text).unwrap()
    }

    /// Returns a small database with some data of each kind.
    fn furnished() -> Database {
        let db = Database::memory().unwrap();
        db.cells().set("a", 1).unwrap();
        db.cells().set_with("b", "short", Ttl::Millis(60_000)).unwrap();
        let fields = Fields::of([("state", &b"pending"[..]), ("blob", b"\x00\xff")]).unwrap();
        db.records().put("job", &fields, Some(Ttl::Millis(60_000))).unwrap();
        db.records().set_field("gone", "f", "v").unwrap();
        db.records().delete("gone").unwrap();
        db.fork("side", "main", At::Latest).unwrap();
        db.branch("side").unwrap().cells().delete("a").unwrap();
        db.tag("t", "main", At::Latest).unwrap();
        db
    }

    type Body<'b> = Box<dyn Fn(&[u8]) + 'b>;

    /// All targets with their functions.
    fn targets(scratch: &Path) -> Vec<(&'static str, Body<'_>)> {
        vec![
            ("backup", Box::new(|bytes: &[u8]| backup(bytes, scratch))),
            ("export", Box::new(|bytes: &[u8]| export(bytes, scratch))),
            ("files", Box::new(files)),
            ("frames", Box::new(frames)),
            ("keyed", Box::new(keyed)),
            ("replies", Box::new(replies)),
            ("runs", Box::new(runs)),
            ("sessions", Box::new(sessions)),
            ("stored", Box::new(stored)),
            ("values", Box::new(values)),
            ("wire", Box::new(wire)),
        ]
    }

    #[test]
    fn all_seeds_are_taken_without_a_panic() {
        let root = tempfile::tempdir().unwrap();
        let scratch = root.path().join("scratch");
        let targets = targets(&scratch);
        check_targets("mainstay::fuzz", &targets.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (name, body) in &targets {
            feed(name, body);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        /// Runs a short fuzzing round with every test run.
        #[test]
        fn changed_seeds_are_taken_without_a_panic(change in changes()) {
            let root = tempfile::tempdir().unwrap();
            let scratch = root.path().join("scratch");
            for (name, body) in targets(&scratch) {
                feed(name, |bytes| body(&change.of(bytes)));
            }
        }
    }

    proptest! {
        /// Arbitrary bytes must not cause a panic. Few bytes suffice to resemble a header or a block.
        #[test]
        fn any_bytes_are_no_snapshot(bytes in vec(any::<u8>(), 0..256)) {
            keyed(&bytes);
            keyed(&[b"MSTKEYS1", &bytes[..]].concat());
        }

        /// A changed snapshot must be refused. With recomputed checksums it could be a valid snapshot of
        /// other data.
        #[test]
        fn changed_snapshots_are_refused(at in any::<Index>(), byte in 1..=255_u8) {
            let mut seen = 0;
            feed("keyed", |bytes| {
                let mut bytes = bytes.to_vec();
                *at.get_mut(&mut bytes) ^= byte;
                assert!(read_snapshot(&bytes).is_err(), "byte {} was changed", at.index(bytes.len()));
                seen += 1;
            });
            prop_assert!(seen > 2);
        }
    }

    #[test]
    fn mended_snapshots_get_past_the_checksums() {
        feed("keyed", |whole| {
            let mut mended = whole.to_vec();
            keyed::mend(&mut mended);
            assert!(mended == whole, "what is whole stays as it is");
            let (head, entries, _) = read_snapshot(whole).unwrap();
            // The number of groups is a plain number, so any value parses.
            mended[8 + 9 + 2] ^= 1;
            assert!(read_snapshot(&mended).is_err());
            keyed::mend(&mut mended);
            let (changed, same, _) = read_snapshot(&mended).unwrap();
            assert_ne!(changed.space.options.groups, head.space.options.groups);
            assert_eq!(same, entries);
        });
    }

    /// A flipped byte with recomputed checksums must reach the code behind the checksum test.
    #[test]
    fn mended_files_get_past_the_checksums() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let db = furnished();
        db.backup(&path("full"), &mut |_| {}).unwrap();
        db.backup_since(0, &path("more"), &mut |_| {}).unwrap();
        for name in ["full", "more"] {
            let whole = fs::read(path(name)).unwrap();
            let mut mended = whole.clone();
            backup::mend(&mut mended);
            assert!(mended == whole, "what is whole stays as it is");
            // The database id is plain bytes, so any value is valid.
            mended[12] ^= 1;
            backup::mend(&mut mended);
            fs::write(path("mended"), &mended).unwrap();
            backup::verify_backup(&path("mended")).unwrap();
            assert_ne!(backup_head(&path("mended")).unwrap().database, db.id().unwrap());
        }
    }

    #[test]
    fn files_of_a_format_that_there_never_was_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let scratch = root.path().join("scratch");
        for name in ["full", "increment"] {
            let mut bytes = fs::read(seeds("backup").join(name)).unwrap();
            bytes[8..12].fill(0);
            backup::mend(&mut bytes);
            fs::write(&scratch, &bytes).unwrap();
            assert_eq!(backup::verify_backup(&scratch).unwrap_err().code(), Code::CorruptData);
        }
        let mut bytes = fs::read(seeds("export").join("main")).unwrap();
        let format = b"format\x04\x01";
        let at = bytes.windows(format.len()).position(|part| part == format).unwrap();
        bytes[at + format.len() - 1] = 0;
        mend_hash(&mut bytes);
        fs::write(&scratch, &bytes).unwrap();
        let refused = export::verify_export(&scratch, &mut |_| {}).unwrap_err();
        assert_eq!(refused.code(), Code::CorruptData);
    }

    /// Writes those seeds that are files of this database. Run with `--ignored` when their format changes.
    #[test]
    #[ignore = "writes into the repository"]
    fn write_seeds() {
        let db = furnished();
        let make = |target: &str, name: &str| {
            fs::create_dir_all(seeds(target)).unwrap();
            let path = seeds(target).join(name);
            // The file does not exist in the first run.
            let _ = fs::remove_file(&path);
            path
        };
        db.backup(&make("backup", "full"), &mut |_| {}).unwrap();
        let more = make("backup", "increment");
        db.backup_since(0, &more, &mut |_| {}).unwrap();
        db.export("main", &make("export", "main"), &mut |_| {}).unwrap();
        let whole = fs::read(more).unwrap();
        fs::write(make("frames", "log"), &whole[68..whole.len() - 32]).unwrap();
        let event = NewEvent::new("r", "StepCompleted")
            .step("s")
            .attempt(2)
            .plan("3")
            .data(r#"{"rows": [1]}"#);
        let event = event.stored(3, "e".into(), "k".into(), Instant::of_us(9_000));
        let mut bytes = Vec::new();
        let mut snapshot = RunSnapshot::new("r");
        event.encode(&Instant::of_us(7), &mut bytes).unwrap();
        fs::write(make("runs", "event"), &bytes).unwrap();
        for (seq, kind) in [(1, "RunStarted"), (2, "StepStarted"), (3, "RunStarted")] {
            mainstay_model::reduce_parts(&mut snapshot, seq, kind, Some("s"), Some("x"));
        }
        bytes.clear();
        snapshot.encode(&mut bytes);
        fs::write(make("runs", "snapshot"), &bytes).unwrap();
        for (name, snapshot) in snapshots() {
            fs::write(make("keyed", name), snapshot).unwrap();
        }
        let name = || Name::new("a").unwrap();
        let guard = Guard::Counter { name: name(), is: Some(1) };
        let value = from_json(r#"{"deep": [1, 2.5, null, {"$bytes": "/w=="}]}"#);
        let transaction =
            Transaction::on("side").guard(guard).step(CellCommand::set(name(), value));
        let receipt = db.execute(Transaction::new().step(CellCommand::Get { name: name() }));
        assert!(receipt.is_ok());
        let look = ReadRequest {
            branch: "main".into(),
            at: At::Revision(1),
            read: ReadOp::Get { name: name() },
        };
        let follow = FeedRequest { after: 1, filter: Filter::default(), limit: 9, wait_ms: 0 };
        let frame = |name: &str, frame: Result<Vec<u8>>| {
            fs::write(make("wire", name), frame.unwrap()).unwrap();
        };
        frame("transaction", encode(&transaction));
        frame("receipt", encode(&receipt));
        frame(
            "refusal",
            encode(&db.execute(
                transaction.must(CellCommand::Delete { name: name(), counter: Some(99) }),
            )),
        );
        frame("look", encode(&look));
        frame(
            "act",
            encode(&TransactionRequest::Run(
                CellCommand::Incr { name: name(), by: 1.into() }.into(),
            )),
        );
        frame("follow", encode(&follow));
        frame("question", encode(&AdminRequest::Diff("main".into(), "side".into())));
        frame("records", encode(&on_records()));
        frame("records-receipt", encode(&db.execute(on_records())));
        let scan =
            RecordCommand::Scan { prefix: "j".into(), filters: late(), after: None, limit: 9 };
        let look =
            ReadRequest { branch: "main".into(), at: At::Latest, read: ReadOp::Records(scan) };
        frame("records-look", encode(&look));
        let page = db.records().scan("", &[], None, 9).unwrap();
        frame("records-seen", encode(&Result::Ok(ReadReply::Records(page))));
        let history = db.records().history("gone", 9, None).unwrap();
        frame("records-history", encode(&Result::Ok(ReadReply::RecordHistory(history))));
    }

    /// Snapshots of all kinds: a full one, one of selected keys, and one of the changes.
    fn snapshots() -> [(&'static str, Vec<u8>); 3] {
        let db = Database::memory().unwrap();
        let space = db.keyed("s").unwrap();
        space.declare(SpaceOptions::default().versions(VersionKind::Time).ordered()).unwrap();
        let time = LogicalTime::new;
        space.put("a", "state", time(1, 0)).unwrap();
        space.put("b", "state", time(1, 1)).unwrap();
        space.seal(time(2, 0)).unwrap();
        space.put("a", "waits", time(2, 0)).unwrap();
        space.delete("b", time(2, 1)).unwrap();
        space.append_unique("log", "1", "item").unwrap();
        space.write(vec![StateWrite::advance("orders", 7)]).unwrap();
        let all = space.snapshot().unwrap();
        let keys = KeySelection::Keys(["a", "log"].map(|key| key.into()).into());
        let some = space.snapshot_keys(&keys).unwrap();
        let versions = Some(VersionKind::U64);
        let options = SpaceOptions { versions, ..SpaceOptions::default() };
        let info = SpaceInfo { options, frontier: Some(9.into()) };
        let changes = [
            SpaceEntry::State { key: b"a".to_vec(), version: 8.into(), value: None },
            SpaceEntry::NoState { key: b"b".to_vec() },
            SpaceEntry::NotWaiting { key: b"c".to_vec(), version: 8.into() },
        ];
        let changes = write_snapshot(&SnapshotHead::changes(info), &changes).unwrap();
        [("all", all), ("some", some), ("changes", changes)]
    }

    fn late() -> Vec<Where> {
        let among = Test::In(vec![b"pending".to_vec(), b"\xff".to_vec()]);
        let of = |field: &str, test| Where { field: Field::new(field).unwrap(), test };
        vec![of("state", among), of("blob", Test::Ne(b"1".to_vec()))]
    }

    /// Returns a transaction that uses every kind of command on records and hashes.
    fn on_records() -> Transaction {
        let key = || Name::new("job").unwrap();
        let state = Field::new("state").unwrap();
        let tries = Field::new("tries").unwrap();
        let write = RecordWrite::to("job").unwrap().when(Condition::Exists);
        let write = write.when_field("state", "pending").unwrap().set("state", "done").unwrap();
        let write = write.set("token", FieldValue::Revision).unwrap();
        let write = write.set("at", FieldValue::Millis { plus: 5 }).unwrap().clear("blob").unwrap();
        let pairs = vec![(state.clone(), b"x".to_vec())];
        let is = Some(b"pending".to_vec());
        Transaction::new()
            .guard(Guard::Record { key: key(), is: Some(1) })
            .guard(Guard::Field { key: key(), field: state.clone(), is })
            .step(write)
            .step(HashCommand::Set { key: key(), pairs, only_absent: true })
            .step(HashCommand::Add { key: key(), field: tries, by: 2 })
            .step(RecordCommand::Get { key: key(), fields: Some(vec![state]) })
            .step(RecordCommand::Scan {
                prefix: String::new(),
                filters: late(),
                after: None,
                limit: 3,
            })
            .step(RecordCommand::Delete { key: key(), when: vec![Condition::Exists] })
    }
}
