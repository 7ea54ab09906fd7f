//! Helpers for conformance cases: short constructors for commands and assertions on results.

use mainstay::{
    Answer, At, CellCommand, Cells, Code, Command, Contract, Database, ErrorKind, Event, Feed,
    Field, Fields, Guard, Name, Number, Only, RecordCommand, RecordPage, RecordWrite, Records,
    Result, Revision, StringCommand, Test, Transaction, Ttl, Value, Where,
};
use std::time::Duration;

/// Maximum wait for an event that must come. Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Builds a valid name; panics on an invalid one.
pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Discards the return value of a closure that is run for its side effect.
pub fn done<T>(_: T) {}

/// Asserts that an operation failed with this code.
#[track_caller]
pub fn refused<T>(result: Result<T>, code: Code) {
    match result {
        Ok(_) => panic!("expected {code:?}, but it was accepted"),
        Err(error) => assert_eq!(error.code(), code, "{error}"),
    }
}

/// Asserts that an operation failed with an error of kind `Invalid`.
#[track_caller]
pub fn invalid<T>(result: Result<T>) {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
    }
}

/// Asserts that an operation failed with `Unsupported` and that the error names the missing capability.
#[track_caller]
pub fn unsupported<T>(result: Result<T>, capability: &str) {
    match result {
        Ok(_) => panic!("`{capability}` is lacking, and yet it was taken"),
        Err(error) => {
            assert_eq!(error.code(), Code::Unsupported, "{error}");
            assert!(error.message().contains(&format!("`{capability}`")), "{error}");
        }
    }
}

/// Asserts that an operation failed with this code at this position in the transaction.
#[track_caller]
pub fn refused_at<T>(result: Result<T>, code: Code, position: usize) {
    match result {
        Ok(_) => panic!("expected {code:?} at {position}, but it was accepted"),
        Err(error) => {
            assert_eq!(error.code(), code, "{error}");
            assert_eq!(error.position(), Some(position), "{error}");
        }
    }
}

/// Runs `body` and asserts that the revision did not change.
#[track_caller]
pub fn writes_nothing<T>(db: &Database, body: impl FnOnce() -> T) -> T {
    let before = db.revision();
    let out = body();
    assert_eq!(db.revision(), before, "something was written");
    out
}

/// Runs `body` and asserts that the revision rose by exactly one.
#[track_caller]
pub fn writes_once<T>(db: &Database, body: impl FnOnce() -> T) -> T {
    let before = db.revision();
    let out = body();
    assert_eq!(db.revision(), before + 1, "exactly one transaction was expected");
    out
}

/// The counter of a live cell.
pub fn counter(cells: &Cells, name: &str) -> Option<u64> {
    cells.get_versioned(name).unwrap().map(|seen| seen.counter)
}

/// Reads a cell at a point in time.
pub fn read_at(cells: &Cells, at: At, name: &str) -> Result<Option<Value>> {
    cells.at(at)?.get(name)
}

/// Lists the names of all cells with a prefix (one page of at most 1,000).
pub fn names(cells: &Cells, prefix: &str) -> Vec<String> {
    cells.list(prefix, None, 1_000).unwrap().names
}

/// An integer value.
pub fn int(n: i64) -> Option<Value> {
    Some(Value::Int(n))
}

/// The command that sets a cell.
pub fn set(cell: &str, value: impl Into<Value>) -> CellCommand {
    CellCommand::set(name(cell), value)
}

/// The command that sets a cell with a time to live.
pub fn set_with(cell: &str, value: impl Into<Value>, ttl: Ttl) -> CellCommand {
    CellCommand::Set { name: name(cell), value: value.into(), ttl }
}

/// The string command that sets a cell, with its condition and time to live.
pub fn string_set(cell: &str, value: impl Into<Value>, only: Only, ttl: Ttl) -> StringCommand {
    StringCommand::Set { name: name(cell), value: value.into(), only, ttl }
}

/// Runs one string command as a transaction on `main`.
pub fn text(db: &Database, command: StringCommand) -> Result<Answer> {
    let receipt = db.execute(Transaction::new().step(command))?;
    Ok(receipt.answers[0].clone())
}

/// The command that initialises a cell.
pub fn init(cell: &str, value: impl Into<Value>) -> CellCommand {
    CellCommand::Init { name: name(cell), value: value.into() }
}

/// The command that compares and swaps a cell.
pub fn cas(cell: &str, expected: Option<u64>, value: impl Into<Value>) -> CellCommand {
    CellCommand::Cas { name: name(cell), expected, value: value.into() }
}

/// The command that deletes a cell.
pub fn delete(cell: &str) -> CellCommand {
    CellCommand::Delete { name: name(cell), counter: None }
}

/// The command that adds to a cell.
pub fn incr(cell: &str, by: impl Into<Number>) -> CellCommand {
    CellCommand::Incr { name: name(cell), by: by.into() }
}

/// The command that changes a time to live.
pub fn expire(cell: &str, ttl: Ttl) -> CellCommand {
    CellCommand::Expire { name: name(cell), ttl }
}

/// The command that reads a cell.
pub fn get(cell: &str) -> CellCommand {
    CellCommand::Get { name: name(cell) }
}

/// The command that lists cells.
pub fn list(prefix: &str) -> CellCommand {
    CellCommand::List { prefix: prefix.to_owned(), after: None, limit: 1_000 }
}

/// The guard that a cell has a counter.
pub fn counter_is(cell: &str, is: Option<u64>) -> Guard {
    Guard::Counter { name: name(cell), is }
}

/// The guard that a cell has a value.
pub fn value_is(cell: &str, is: Option<Value>) -> Guard {
    Guard::Value { name: name(cell), is }
}

/// The guard that a cell has not been written after revision `since`.
pub fn unchanged(cell: &str, since: Revision) -> Guard {
    Guard::Unchanged { contract: Contract::Cells, name: name(cell), since, expires: None }
}

/// The guard that no cell of a prefix has been written after revision `since`.
pub fn range_unchanged(prefix: &str, since: Revision) -> Guard {
    Guard::RangeUnchanged {
        contract: Contract::Cells,
        prefix: prefix.to_owned(),
        after: None,
        upto: None,
        since,
        expires: None,
    }
}

/// Runs one command of any kind as a transaction on `main`.
pub fn run(db: &Database, command: impl Into<Command>) -> Result<Answer> {
    let receipt = db.execute(Transaction::new().step(command))?;
    Ok(receipt.answers[0].clone())
}

/// Builds a valid field name; panics on an invalid one.
pub fn field(text: &str) -> Field {
    Field::new(text).unwrap()
}

/// Builds fields from pairs of names and values.
pub fn fields(pairs: &[(&str, &str)]) -> Fields {
    Fields::of(pairs.iter().copied()).unwrap()
}

/// The fields of a live record as pairs of strings; `None` if the record is absent.
pub fn shown(records: &Records, key: &str) -> Option<Vec<(String, String)>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let record = records.get(key).unwrap()?;
    let pairs = record.fields.iter().map(|(name, value)| (text(name.as_bytes()), text(value)));
    Some(pairs.collect())
}

/// Asserts that a record has exactly these fields.
#[track_caller]
pub fn holds(records: &Records, key: &str, pairs: &[(&str, &str)]) {
    let pairs: Vec<(String, String)> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(shown(records, key), Some(pairs), "{key}");
}

/// Asserts that a record is absent.
#[track_caller]
pub fn is_gone(records: &Records, key: &str) {
    assert_eq!(shown(records, key), None, "{key}");
}

/// The counter of a live record.
pub fn record_counter(records: &Records, key: &str) -> Option<u64> {
    records.get(key).unwrap().map(|record| record.counter)
}

/// A write that sets these fields.
pub fn write(key: &str, pairs: &[(&str, &str)]) -> RecordWrite {
    let write = RecordWrite::to(key).unwrap();
    pairs.iter().fold(write, |write, (name, value)| write.set(name, value).unwrap())
}

/// The command that deletes a record.
pub fn delete_record(key: &str) -> RecordCommand {
    RecordCommand::Delete { key: name(key), when: Vec::new() }
}

/// The command that reads a record.
pub fn get_record(key: &str) -> RecordCommand {
    RecordCommand::Get { key: name(key), fields: None }
}

/// The command that scans the records of a prefix.
pub fn scan(prefix: &str, filters: Vec<Where>) -> RecordCommand {
    RecordCommand::Scan { prefix: prefix.to_owned(), filters, after: None, limit: 1_000 }
}

/// The command that counts the records of a prefix.
pub fn count(prefix: &str, filters: Vec<Where>) -> RecordCommand {
    RecordCommand::Count { prefix: prefix.to_owned(), filters }
}

/// A filter on a field; the test is one of `Test`, such as `Test::Lt`.
pub fn filter(name: &str, test: fn(Vec<u8>) -> Test, bound: &str) -> Where {
    Where { field: field(name), test: test(bound.as_bytes().to_vec()) }
}

/// The keys of a page of records.
pub fn keys_of(page: &RecordPage) -> Vec<&str> {
    page.records.iter().map(|(key, _)| key.as_str()).collect()
}

/// The keys of all records that match the filters (one page of at most 1,000).
pub fn found(records: &Records, prefix: &str, filters: &[Where]) -> Vec<String> {
    let page = records.scan(prefix, filters, None, 1_000).unwrap();
    keys_of(&page).into_iter().map(str::to_owned).collect()
}

/// Reads exactly `count` events from a feed.
#[track_caller]
pub fn events(feed: &mut Feed, count: usize) -> Vec<Event> {
    (0..count).map(|_| feed.next(PATIENCE).unwrap().expect("the feed ended too early")).collect()
}

/// Reads exactly `count` events from a feed and returns their keys.
#[track_caller]
pub fn keys(feed: &mut Feed, count: usize) -> Vec<String> {
    events(feed, count).into_iter().map(|event| event.key).collect()
}
