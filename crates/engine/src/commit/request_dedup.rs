//! Request deduplication by idempotency key: a retry returns the stored receipt of the first execution.
//!
//! A receipt is stored as a value under the request's id, in the same transaction as the effects. A
//! fingerprint of the transaction beside it detects an id that is reused for another transaction.

use crate::key::keyspace::{self, Key};
use mainstay_model::limits::{RECEIPT_LIMIT_BYTES, VALUE_LIMIT_DEPTH};
use mainstay_model::{
    Answer, Code, Error, Fields, Page, Receipt, Record, RecordPage, RequestId, Result, SmallVec,
    Transaction, Value, Versioned, canonical, codec, wire,
};

/// How long receipts are kept, in microseconds.
pub(crate) const KEPT_US: u64 = 24 * 3_600_000_000;

/// A receipt contains answers, which contain values. So it is three levels deeper than the deepest
/// value, and larger than all values together.
const BOUNDS: codec::Bounds =
    codec::Bounds { limit_bytes: RECEIPT_LIMIT_BYTES, limit_depth: VALUE_LIMIT_DEPTH + 3 };

/// The key of a request's receipt.
pub(crate) fn key(id: &RequestId) -> Key {
    keyspace::key(keyspace::RECEIPTS, keyspace::MAIN_ID, id.as_bytes())
}

/// Returns a hash of the transaction. It stays the same across versions of this program, because a
/// retry may reach a newer version.
pub(crate) fn fingerprint(transaction: &Transaction) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    canonical::transaction(transaction, &mut |bytes| hasher.update(bytes));
    hasher.digest()
}

/// Encodes the stored part of a receipt.
pub fn encode(fingerprint: u64, receipt: &Receipt, out: &mut Vec<u8>) -> Result<()> {
    let fields = vec![
        int(fingerprint),
        int(receipt.revision),
        int(receipt.stamp),
        Value::Bool(receipt.held),
        Value::Array(receipt.answers.iter().map(answer_to_value).collect::<Result<_>>()?),
    ];
    codec::encode_within(BOUNDS, &Value::Array(fields), out).map_err(|_| too_large())
}

/// Decodes a stored receipt. Fails if the id was used for another transaction.
pub fn decode(payload: &[u8], fingerprint: u64) -> Result<Receipt> {
    let Value::Array(fields) = codec::decode_within(BOUNDS, payload)? else {
        return Err(damaged());
    };
    let [Value::Int(kept), Value::Int(revision), Value::Int(stamp), Value::Bool(held), answers] =
        fields.as_slice()
    else {
        return Err(damaged());
    };
    if *kept as u64 != fingerprint {
        let message = "this request id was used for another transaction: choose a new one";
        return Err(Error::new(Code::RequestReused, message));
    }
    let Value::Array(answers) = answers else { return Err(damaged()) };
    let answers: Option<SmallVec<[Answer; 1]>> = answers.iter().map(answer_from_value).collect();
    Ok(Receipt {
        revision: *revision as u64,
        stamp: *stamp as u64,
        held: *held,
        repeated: true,
        answers: answers.ok_or_else(damaged)?,
    })
}

fn int(n: u64) -> Value {
    Value::Int(n as i64)
}

fn maybe(n: Option<u64>) -> Value {
    n.map_or(Value::Null, int)
}

fn tagged(tag: &str, fields: impl IntoIterator<Item = Value>) -> Value {
    Value::Array([Value::from(tag)].into_iter().chain(fields).collect())
}

fn answer_to_value(answer: &Answer) -> Result<Value> {
    Ok(match answer {
        Answer::Counter(n) => tagged("counter", [int(*n)]),
        Answer::MaybeCounter(n) => tagged("maybe", [maybe(*n)]),
        Answer::Did(did) => tagged("did", [Value::Bool(*did)]),
        Answer::Number { value, counter } => tagged("number", [value.clone(), int(*counter)]),
        Answer::Cell(None) => tagged("cell", []),
        Answer::Cell(Some(cell)) => {
            let Versioned { value, counter, stamp, revision, expires } = cell;
            let rest = [int(*counter), int(*stamp), int(*revision), maybe(*expires)];
            tagged("cell", [value.clone()].into_iter().chain(rest))
        }
        Answer::Names(page) => {
            let names = page.names.iter().map(|name| Value::from(name.as_str())).collect();
            let next = page.next.as_deref().map_or(Value::Null, Value::from);
            tagged("names", [next, Value::Array(names)])
        }
        Answer::Revision(n) => tagged("revision", [int(*n)]),
        Answer::Count(n) => tagged("count", [int(*n)]),
        Answer::Replaced { did, old: None } => tagged("replaced", [Value::Bool(*did)]),
        Answer::Replaced { did, old: Some(old) } => {
            tagged("replaced", [Value::Bool(*did), old.clone()])
        }
        Answer::Failed(error) => {
            tagged("failed", [Value::from(error.code().name()), Value::from(error.message())])
        }
        Answer::Record(None) => tagged("record", []),
        Answer::Record(Some(record)) => tagged("record", record_to_values(record)?),
        Answer::Records(page) => {
            let next = page.next.as_deref().map_or(Value::Null, Value::from);
            let one = |(key, record): &(String, Record)| {
                record_to_values(record).map(|fields| tagged(key, fields))
            };
            let records = page.records.iter().map(one).collect::<Result<_>>()?;
            tagged("records", [next, Value::Array(records)])
        }
        Answer::Picked(None) => tagged("picked", []),
        Answer::Picked(Some(picked)) => {
            let (key, record) = &**picked;
            tagged("picked", [tagged(key, record_to_values(record)?)])
        }
        Answer::Sum(sum) => tagged("sum", [Value::from(sum.as_str())]),
        // These are frames of the wire, which carry their version.
        Answer::Run(answer) => tagged("run", [Value::Bytes(wire::encode(answer)?)]),
        Answer::Outbox(answer) => tagged("outbox", [Value::Bytes(wire::encode(answer)?)]),
        Answer::State(answer) => tagged("state", [Value::Bytes(wire::encode(answer)?)]),
        Answer::Session(answer) => tagged("session", [Value::Bytes(wire::encode(answer)?)]),
        Answer::History(versions) => tagged("history", [Value::Bytes(wire::encode(versions)?)]),
        Answer::RecordHistory(versions) => {
            tagged("record_history", [Value::Bytes(wire::encode(versions)?)])
        }
        // An answer that cannot be returned again must not be accepted for storage.
        _ => {
            return Err(Error::new(
                Code::Unsupported,
                "this answer is not kept under a request id",
            ));
        }
    })
}

fn record_to_values(record: &Record) -> Result<[Value; 5]> {
    let Record { fields, counter, stamp, revision, expires } = record;
    let mut bytes = Vec::new();
    fields.encode(&mut bytes)?;
    Ok([Value::Bytes(bytes), int(*counter), int(*stamp), int(*revision), maybe(*expires)])
}

fn record_from_values(values: &[Value]) -> Option<Record> {
    let [Value::Bytes(bytes), counter, stamp, revision, expires] = values else { return None };
    let fields = Fields::decode(bytes).ok()?;
    let n = |value: &Value| value.as_i64().map(|n| n as u64);
    let counter = n(counter)?;
    let stamp = n(stamp)?;
    let revision = n(revision)?;
    Some(Record { fields, counter, stamp, revision, expires: n(expires) })
}

fn keyed_from_value(value: &Value) -> Option<(String, Record)> {
    let Value::Array(fields) = value else { return None };
    let (key, rest) = fields.split_first()?;
    Some((key.as_str()?.to_owned(), record_from_values(rest)?))
}

fn answer_from_value(value: &Value) -> Option<Answer> {
    let Value::Array(fields) = value else { return None };
    let (Value::String(tag), rest) = fields.split_first()? else { return None };
    let n = |value: &Value| value.as_i64().map(|n| n as u64);
    Some(match (tag.as_str(), rest) {
        ("counter", [counter]) => Answer::Counter(n(counter)?),
        ("maybe", [counter]) => Answer::MaybeCounter(n(counter)),
        ("did", [Value::Bool(did)]) => Answer::Did(*did),
        ("number", [value, counter]) => {
            Answer::Number { value: value.clone(), counter: n(counter)? }
        }
        ("cell", []) => Answer::Cell(None),
        ("cell", [value, counter, stamp, revision, expires]) => Answer::Cell(Some(Versioned {
            value: value.clone(),
            counter: n(counter)?,
            stamp: n(stamp)?,
            revision: n(revision)?,
            expires: n(expires),
        })),
        ("names", [next, Value::Array(names)]) => {
            let name = |value: &Value| value.as_str().map(str::to_owned);
            let names = names.iter().map(name).collect::<Option<Vec<_>>>()?;
            Answer::Names(Page { names, next: name(next) })
        }
        ("revision", [revision]) => Answer::Revision(n(revision)?),
        ("count", [count]) => Answer::Count(n(count)?),
        ("replaced", [Value::Bool(did)]) => Answer::Replaced { did: *did, old: None },
        ("replaced", [Value::Bool(did), old]) => {
            Answer::Replaced { did: *did, old: Some(old.clone()) }
        }
        ("record", []) => Answer::Record(None),
        ("record", fields) => Answer::Record(Some(record_from_values(fields)?)),
        ("records", [next, Value::Array(records)]) => {
            let records = records.iter().map(keyed_from_value).collect::<Option<Vec<_>>>()?;
            Answer::Records(RecordPage { records, next: next.as_str().map(str::to_owned) })
        }
        ("picked", []) => Answer::Picked(None),
        ("picked", [keyed]) => Answer::Picked(Some(Box::new(keyed_from_value(keyed)?))),
        ("sum", [Value::String(sum)]) => Answer::Sum(sum.clone()),
        ("run", [Value::Bytes(frame)]) => Answer::Run(wire::decode(frame).ok()?),
        ("outbox", [Value::Bytes(frame)]) => Answer::Outbox(wire::decode(frame).ok()?),
        ("state", [Value::Bytes(frame)]) => Answer::State(wire::decode(frame).ok()?),
        ("session", [Value::Bytes(frame)]) => Answer::Session(wire::decode(frame).ok()?),
        ("history", [Value::Bytes(frame)]) => Answer::History(wire::decode(frame).ok()?),
        ("record_history", [Value::Bytes(frame)]) => {
            Answer::RecordHistory(wire::decode(frame).ok()?)
        }
        ("failed", [Value::String(code), Value::String(message)]) => {
            Answer::Failed(Error::new(Code::from_name(code)?, message.as_str()))
        }
        _ => return None,
    })
}

#[cold]
fn too_large() -> Error {
    let message = "the answers of this request take more than 128 MiB, which is the most that is \
                   kept under a request id: ask in several requests, or without an id";
    Error::new(Code::TransactionTooLarge, message)
}

#[cold]
fn damaged() -> Error {
    Error::new(Code::CorruptData, "a kept receipt cannot be read: run `mainstay doctor`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::{
        Appended, BranchCommand, CellCommand, Guard, HistoryEntry, Instant, Name, OutboxAnswer,
        RecordHistoryEntry, RunAnswer, RunSnapshot, StateAnswer, Wrote,
    };

    /// Stored receipts outlive the program version that wrote them, so these numbers must never change.
    #[test]
    fn fingerprints_stay_what_they_are() {
        let name = |name: &str| Name::new(name).unwrap();
        let set = CellCommand::set(name("k"), Value::from("v"));
        let cas = CellCommand::Cas { name: name("c"), expected: Some(7), value: Value::Null };
        let guard = Guard::Counter { name: name("g"), is: None };
        let fork = BranchCommand::Fork { name: name("b"), from: name("main"), at: Some(9) };
        let mixed = Transaction::on("side").guard(guard).must(cas).otherwise(vec![]);
        assert_eq!(fingerprint(&Transaction::new()), 0x32fb_2bd6_bfec_c3ab);
        assert_eq!(fingerprint(&Transaction::new().step(set)), 0xeaa0_e12b_5e28_7ce2);
        assert_eq!(fingerprint(&mixed), 0x97ac_0d67_342a_d58a);
        assert_eq!(fingerprint(&Transaction::new().step(fork)), 0x2680_8b19_5cc8_1216);
        let id = RequestId::new("r").unwrap();
        assert_eq!(fingerprint(&mixed.clone().request(id)), fingerprint(&mixed));
    }

    fn appended() -> Appended {
        Appended {
            run_seq: 1,
            idempotent: true,
            persisted: false,
            conflict: true,
            event_id: "e".into(),
            persisted_at: Instant::of_us(5),
        }
    }

    fn record(expires: Option<u64>) -> Record {
        let fields = Fields::of([("f", "v")]).unwrap();
        Record { fields, counter: 1, stamp: 2, revision: 3, expires }
    }

    /// The fields are specified in formats.md: receipts of earlier versions must stay readable.
    #[test]
    fn kept_answers_are_read_as_they_are_written_down() {
        let text = Value::from;
        let fields = Value::Bytes(b"\x01\x01f\x01v".to_vec());
        let written = vec![fields, Value::Int(1), Value::Int(2), Value::Int(3), Value::Null];
        let record = record(None);
        let cases = [
            (vec![text("counter"), Value::Int(3)], Answer::Counter(3)),
            (vec![text("maybe"), Value::Null], Answer::MaybeCounter(None)),
            (vec![text("did"), Value::Bool(true)], Answer::Did(true)),
            (vec![text("count"), Value::Int(4)], Answer::Count(4)),
            (vec![text("cell")], Answer::Cell(None)),
            (
                vec![text("replaced"), Value::Bool(true), Value::Null],
                Answer::Replaced { did: true, old: Some(Value::Null) },
            ),
            (
                vec![text("failed"), text("Overflow"), text("too large")],
                Answer::Failed(Error::new(Code::Overflow, "too large")),
            ),
            (vec![text("record")], Answer::Record(None)),
            (vec![text("sum"), text("7")], Answer::Sum("7".into())),
            (
                [vec![text("record")], written.clone()].concat(),
                Answer::Record(Some(record.clone())),
            ),
            (
                vec![
                    text("records"),
                    text("k"),
                    Value::Array(vec![Value::Array([vec![text("k")], written].concat())]),
                ],
                Answer::Records(RecordPage {
                    records: vec![("k".into(), record)],
                    next: Some("k".into()),
                }),
            ),
        ];
        let (fields, answers): (Vec<Value>, Vec<Answer>) =
            cases.into_iter().map(|(fields, answer)| (Value::Array(fields), answer)).unzip();
        let head = [Value::Int(9), Value::Int(7), Value::Int(8), Value::Bool(true)];
        let kept = Value::Array(head.into_iter().chain([Value::Array(fields)]).collect());
        let mut bytes = Vec::new();
        codec::encode(&kept, &mut bytes).unwrap();
        assert_eq!(decode(&bytes, 9).unwrap().answers.into_vec(), answers);
    }

    #[test]
    fn every_answer_comes_back() {
        let cell = Versioned {
            value: Value::Float(f64::NAN),
            counter: 3,
            stamp: 4,
            revision: 5,
            expires: Some(6),
        };
        let page = Page { names: vec!["a".into()], next: None };
        let counter = 3;
        let writes = 2;
        let stamp = 4;
        let revision = 5;
        let expires = Some(6);
        let version =
            HistoryEntry { counter, writes, value: Some(Value::Null), stamp, revision, expires };
        let record_version =
            RecordHistoryEntry { counter, writes, fields: None, stamp, revision, expires };
        let answers = SmallVec::from_vec(vec![
            Answer::Counter(1),
            Answer::MaybeCounter(None),
            Answer::MaybeCounter(Some(2)),
            Answer::Did(true),
            Answer::Number { value: Value::Int(-1), counter: 9 },
            Answer::Cell(None),
            Answer::Cell(Some(cell)),
            Answer::Names(page),
            Answer::Revision(8),
            Answer::Count(0),
            Answer::Replaced { did: true, old: None },
            Answer::Replaced { did: false, old: Some(Value::Null) },
            Answer::Failed(Error::new(Code::NotANumber, "`k` holds text")),
            Answer::Record(None),
            Answer::Record(Some(record(Some(9)))),
            Answer::Records(RecordPage::default()),
            Answer::Records(RecordPage {
                records: vec![("counter".into(), record(None)), ("k".into(), record(Some(0)))],
                next: Some("k".into()),
            }),
            Answer::Picked(None),
            Answer::Picked(Some(Box::new(("k".into(), record(None))))),
            Answer::Sum("-1.5".into()),
            Answer::Run(Box::new(RunAnswer::Appended(appended()))),
            Answer::Run(Box::new(RunAnswer::AppendedAll(vec![appended(), appended()]))),
            Answer::Run(Box::new(RunAnswer::Snapshot(Some(RunSnapshot::new("r"))))),
            Answer::Outbox(Box::new(OutboxAnswer::Put(7))),
            Answer::State(Box::new(StateAnswer::Wrote(vec![Wrote::Applied, Wrote::Stale]))),
            Answer::State(Box::new(StateAnswer::Sealed { settled: 3, done: false })),
            Answer::Run(Box::new(RunAnswer::Revision(Some(4)))),
            Answer::History(vec![version]),
            Answer::RecordHistory(vec![record_version]),
        ]);
        let receipt = Receipt { revision: 7, stamp: 8, held: false, repeated: false, answers };
        let mut bytes = Vec::new();
        encode(u64::MAX, &receipt, &mut bytes).unwrap();
        let kept = decode(&bytes, u64::MAX).unwrap();
        assert_eq!(kept, Receipt { repeated: true, ..receipt });
        assert_eq!(decode(&bytes, 1).unwrap_err().code(), Code::RequestReused);
    }
}
