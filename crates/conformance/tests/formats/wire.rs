//! Wire compatibility of client-server frames.
//!
//! The fixture has one line per frame: a name and the bytes in hexadecimal.

use mainstay::wire::{
    AdminRequest, FeedRequest, ReadOp, ReadReply, ReadRequest, TransactionReply,
    TransactionRequest, WhyAll, decode, encode,
};
use mainstay::{
    Answer, At, BranchCommand, CellCommand, Code, Command, Contract, Durability, Error, FieldValue,
    Filter, Guard, MergeStrategy, Name, NewEvent, OutboxCommand, Receipt, RecordCommand,
    RecordWrite, RequestId, Result, RunCommand, SessionCommand, SessionRequest, StateCommand,
    StateWrite, Transaction, Ttl, Value, Versioned,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Encodes a frame for the fixture.
type Encode = Box<dyn Fn() -> Vec<u8>>;
type Check = Box<dyn Fn(&[u8])>;

struct Frame {
    name: &'static str,
    encode: Encode,
    check: Check,
}

fn frame<T>(name: &'static str, value: T) -> Frame
where
    T: Serialize + DeserializeOwned + PartialEq + Debug + Clone + 'static,
{
    let same = value.clone();
    Frame {
        name,
        encode: Box::new(move || encode(&value).unwrap()),
        check: Box::new(move |bytes| {
            assert_eq!(decode::<T>(bytes).unwrap(), same, "{name} is read");
            assert_eq!(encode(&same).unwrap(), bytes, "{name} is written");
        }),
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn commands() -> Vec<Command> {
    let event = NewEvent::new("run", "Paid").with_key("k").data(r#"{"n":1.50}"#).message("s", "p");
    vec![
        CellCommand::Set { name: name("a"), value: Value::from("b"), ttl: Ttl::Until(9) }.into(),
        RecordCommand::Write(Box::new(
            RecordWrite::to("r")
                .unwrap()
                .set("f", FieldValue::Revision)
                .unwrap()
                .clear("g")
                .unwrap(),
        ))
        .into(),
        RunCommand::Append { event: Box::new(event), expected: Some(3) }.into(),
        OutboxCommand::ack(vec![1, 2], Some(7)).into(),
        StateCommand::Write {
            space: name("s"),
            writes: vec![StateWrite::put("k", "v", 8), StateWrite::advance("o", 9)],
        }
        .into(),
        SessionCommand::Send { session: name("c"), payload: vec![0, 255] }.into(),
        BranchCommand::Merge {
            from: name("side"),
            into: name("main"),
            strategy: MergeStrategy::Theirs,
        }
        .into(),
    ]
}

fn frames() -> Vec<Frame> {
    let mut transaction = Transaction::on("side")
        .guard(Guard::Counter { name: name("a"), is: Some(4) })
        .request(RequestId::new("id").unwrap())
        .durability(Durability::Sync);
    for command in commands() {
        transaction = transaction.must(command);
    }
    let session = SessionRequest::new(name("c"), 5, 4);
    let versioned =
        Versioned { value: Value::Float(0.5), counter: 2, stamp: 3, revision: 4, expires: Some(5) };
    let receipt = Receipt {
        revision: 12,
        stamp: 13,
        held: true,
        repeated: false,
        answers: vec![Answer::Cell(Some(versioned.clone())), Answer::Did(true)].into(),
    };
    let refused: Result<Receipt> = Err(Error::new(Code::GuardFailed, "a: counter is 5, not 4"));
    let filter = Filter { prefix: Some("order:".into()), ..Filter::default() };
    vec![
        frame("transaction", transaction),
        frame("transaction in a session", Transaction::new().in_session(session)),
        frame("receipt", Result::<Receipt>::Ok(receipt.clone())),
        frame("refusal", refused),
        frame(
            "read",
            ReadRequest {
                branch: "main".into(),
                at: At::Stamp(9),
                read: ReadOp::Get { name: name("a") },
            },
        ),
        frame(
            "read record history",
            ReadOp::RecordHistory { key: name("r"), limit: 3, before: Some(2) },
        ),
        frame("answer of a read", Result::<ReadReply>::Ok(ReadReply::Cell(Some(versioned)))),
        frame("begin", TransactionRequest::Begin { branch: "main".into() }),
        frame("commit", TransactionRequest::Commit { durability: Some(Durability::Memory) }),
        frame("committed", Result::<TransactionReply>::Ok(TransactionReply::Committed(receipt))),
        frame("follow", FeedRequest { after: 7, filter, limit: 100, wait_ms: 500 }),
        frame("question", AdminRequest::WaitFor { revision: 3, wait_ms: 4 }),
        frame("question about differences", AdminRequest::Diff("a".into(), "b".into())),
        frame("why all", WhyAll::TooMuch),
        frame("contract", Contract::Sessions),
    ]
}

/// Formats the frames as lines of the fixture.
pub fn lines() -> String {
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    frames().iter().map(|frame| format!("{}: {}\n", frame.name, hex((frame.encode)()))).collect()
}

/// Checks that each line decodes to its value and that the value encodes to the same bytes.
pub fn verify(text: &str) {
    let lines: Vec<_> = text.lines().collect();
    let frames = frames();
    assert_eq!(lines.len(), frames.len());
    for (line, frame) in lines.into_iter().zip(&frames) {
        let (name, hex) = line.split_once(": ").unwrap();
        assert_eq!(name, frame.name);
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        (frame.check)(&bytes);
    }
}
