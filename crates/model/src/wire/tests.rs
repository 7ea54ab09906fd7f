//! The exact bytes of frames, and malformed frames.

use super::*;
use crate::value::samples::{any_value, nested_arrays};
use crate::{
    Answer, At, BranchCommand, CellCommand, Command, Condition, Contract, Demand, Durability,
    ExpireOnly, Field, FieldValue, Fields, Guard, HashCommand, MergeStrategy, Name, Number, Only,
    Page, Receipt, Record, RecordCommand, RecordPage, RecordWrite, RequestId, SmallVec, Step,
    StringCommand, SystemCommand, Test, Transaction, Ttl, Value, Versioned, Where, smallvec,
};
use proptest::prelude::*;

fn k() -> Name {
    Name::new("k").unwrap()
}

/// Every command with its bytes after the version. The lists pin the version: a changed line needs a new
/// version.
fn commands() -> Vec<(Command, &'static str)> {
    let null = || Value::Null;
    let name = k();
    let from = k();
    let into = k();
    let to = k();
    let set = |only| StringCommand::Set { name: k(), value: Value::Int(1), only, ttl: Ttl::Keep };
    let expire = |only| StringCommand::Expire { name: k(), ttl: Ttl::Millis(5), only };
    let pairs = vec![(k(), null())];
    let text = b"ab".to_vec();
    vec![
        (CellCommand::Init { name: k(), value: null() }.into(), "0000016b0101"),
        (CellCommand::set(k(), null()).into(), "0001016b010100"),
        (
            CellCommand::Set { name: k(), value: null(), ttl: Ttl::Until(300) }.into(),
            "0001016b010103ac02",
        ),
        (
            CellCommand::Cas { name: k(), expected: Some(2), value: null() }.into(),
            "0002016b01020101",
        ),
        (CellCommand::Delete { name: k(), counter: None }.into(), "0003016b00"),
        (CellCommand::Incr { name: k(), by: Number::Int(-1) }.into(), "0004016b0001"),
        (
            CellCommand::Incr { name: k(), by: Number::Float(0.5) }.into(),
            "0004016b01000000000000e03f",
        ),
        (CellCommand::Expire { name: k(), ttl: Ttl::Millis(5) }.into(), "0005016b0205"),
        (
            CellCommand::Restore { name: k(), value: Some(null()), counter: 3, expires: None }
                .into(),
            "0006016b0101010300",
        ),
        (CellCommand::Get { name: k() }.into(), "0007016b"),
        (
            CellCommand::List { prefix: "p".into(), after: Some("a".into()), limit: 9 }.into(),
            "0008017001016109",
        ),
        (set(Only::Always).into(), "0100016b090401000000000000000001"),
        (set(Only::Equals(null())).into(), "0100016b0904010000000000000003010101"),
        (set(Only::Differs(null())).into(), "0100016b0904010000000000000004010101"),
        (StringCommand::SetAll { pairs, only_absent: true }.into(), "010101016b010101"),
        (StringCommand::Take { name: k() }.into(), "0102016b"),
        (StringCommand::Touch { name: k(), ttl: Ttl::Clear }.into(), "0103016b00"),
        (StringCommand::Append { name: k(), text }.into(), "0104016b026162"),
        (StringCommand::Add { name: k(), by: -1 }.into(), "0105016b01"),
        (StringCommand::AddFloat { name: k(), by: "0.5".into() }.into(), "0106016b03302e35"),
        (expire(ExpireOnly::EarlierThanThere).into(), "0107016b020505"),
        (StringCommand::Persist { name: k() }.into(), "0108016b"),
        (StringCommand::Put { name: k(), value: null(), ttl: Ttl::Keep }.into(), "0109016b010101"),
        (StringCommand::Get { name: k() }.into(), "010a016b"),
        (
            StringCommand::Swap { name: k(), value: null(), only: Only::Absent, ttl: Ttl::Clear }
                .into(),
            "010b016b01010100",
        ),
        (BranchCommand::Fork { name: k(), from: k(), at: Some(7) }.into(), "0200016b016b0107"),
        (BranchCommand::Create { name: k() }.into(), "0201016b"),
        (BranchCommand::Import { name: k() }.into(), "0202016b"),
        (BranchCommand::Finish { name: k(), tags: vec![(k(), 4)] }.into(), "0203016b01016b04"),
        (BranchCommand::Delete { name: k() }.into(), "0204016b"),
        (BranchCommand::Rename { name, to }.into(), "0205016b016b"),
        (
            BranchCommand::Merge { from, into, strategy: MergeStrategy::Ours }.into(),
            "0206016b016b02",
        ),
        (BranchCommand::Tag { name: k(), branch: k(), at: None }.into(), "0207016b016b00"),
        (BranchCommand::Untag { name: k() }.into(), "0208016b"),
        (SystemCommand::Sweep { limit: 1000 }.into(), "0300e807"),
    ]
}

fn f() -> Field {
    field("f")
}

fn field(name: &str) -> Field {
    Field::new(name).unwrap()
}

/// The commands on records and hashes, likewise.
fn commands_on_records() -> Vec<(Command, &'static str)> {
    let v = || b"v".to_vec();
    let nine = || b"9".to_vec();
    let write = RecordWrite {
        key: k(),
        when: vec![
            Condition::Counter { is: Some(2) },
            Condition::Exists,
            Condition::Field { field: f(), is: Some(v()) },
            Condition::Field { field: f(), is: None },
            Condition::Fence { field: f(), is: v() },
        ],
        replace: true,
        set: vec![
            (f(), FieldValue::Bytes(v())),
            (field("g"), FieldValue::Revision),
            (field("h"), FieldValue::Millis { plus: -1 }),
            (field("i"), FieldValue::Sum { by: 3 }),
            (field("j"), FieldValue::Copy { of: f() }),
        ],
        clear: vec![field("x")],
        ttl: Ttl::Millis(5),
    };
    let fields = Some(Fields::of([("f", "v")]).unwrap());
    let tests = [Test::Eq, Test::Ne, Test::Lt, Test::Le, Test::Gt, Test::Ge].map(|of| of(nine()));
    let tests = tests.into_iter().chain([Test::In(vec![nine()])]);
    let filters: Vec<Where> = tests.map(|test| Where { field: f(), test }).collect();
    vec![
        (
            write.into(),
            "0400016b050001020102016601017602016600030166017601050166000176016701016802010169030601\
             6a04016601017802\
             05",
        ),
        (RecordCommand::Delete { key: k(), when: vec![Condition::Exists] }.into(), "0401016b0101"),
        (
            RecordCommand::Expire { key: k(), ttl: Ttl::Clear, only: ExpireOnly::Later }.into(),
            "0402016b0003",
        ),
        (
            RecordCommand::Restore { key: k(), fields, counter: 3, expires: None }.into(),
            "0403016b010501016601760300",
        ),
        (RecordCommand::Get { key: k(), fields: Some(vec![f()]) }.into(), "0404016b01010166"),
        (
            RecordCommand::Scan {
                prefix: "p".into(),
                filters: filters[2..3].to_vec(),
                after: Some("a".into()),
                limit: 9,
            }
            .into(),
            "0405017001016602013901016109",
        ),
        (
            RecordCommand::Count { prefix: "p".into(), filters }.into(),
            "0406017007016600013901660101390166020139016603013901660401390166050139016606010139",
        ),
        (
            HashCommand::Set { key: k(), pairs: vec![(f(), v())], only_absent: true }.into(),
            "0500016b010166017601",
        ),
        (HashCommand::Delete { key: k(), fields: vec![f()] }.into(), "0501016b010166"),
        (HashCommand::Add { key: k(), field: f(), by: -1 }.into(), "0502016b016601"),
        (
            HashCommand::AddFloat { key: k(), field: f(), by: "0.5".into() }.into(),
            "0503016b016603302e35",
        ),
        (HashCommand::Get { key: k(), fields: None }.into(), "0504016b00"),
        (HashCommand::Count { key: k() }.into(), "0505016b"),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn is<T>(what: &T, expected: &str)
where
    T: Serialize + for<'f> Deserialize<'f> + PartialEq + std::fmt::Debug,
{
    let frame = encode(what).unwrap();
    assert_eq!(frame[0], VERSION);
    assert_eq!(hex(&frame[1..]), expected, "{what:?}");
    assert_eq!(decode::<T>(&frame).unwrap(), *what);
}

#[test]
fn the_bytes_of_commands_are_these() {
    for (command, expected) in commands().into_iter().chain(commands_on_records()) {
        is(&command, expected);
    }
}

/// A transaction that uses every field.
fn full() -> Transaction {
    let get = || CellCommand::Get { name: k() };
    let mut transaction = Transaction::on("dev")
        .request(RequestId::new("r1").unwrap())
        .guard(Guard::Counter { name: k(), is: Some(1) })
        .guard(Guard::Value { name: k(), is: Some(true.into()) })
        .guard(Guard::Unchanged {
            contract: Contract::Cells,
            name: k(),
            since: 2,
            expires: Some(3),
        })
        .guard(Guard::RangeUnchanged {
            contract: Contract::Records,
            prefix: "p".into(),
            after: None,
            upto: Some("q".into()),
            since: 4,
            expires: None,
        })
        .guard(Guard::Record { key: k(), is: Some(2) })
        .guard(Guard::Field { key: k(), field: f(), is: Some(b"v".to_vec()) })
        .must(get())
        .attempt(get())
        .otherwise(vec![Step { command: get().into(), demand: Demand::Success }])
        .durability(Durability::Interval);
    transaction.branch_id = Some(6);
    transaction
}

fn answers() -> Vec<Answer> {
    let value = Value::from("v");
    let cell = Versioned { value: value.clone(), counter: 1, stamp: 2, revision: 3, expires: None };
    let error = crate::Error::new(Code::MergeConflict, "no").with_keys(vec!["a".into()]);
    let fields = Fields::of([("f", "v")]).unwrap();
    let record = Record { fields, counter: 1, stamp: 2, revision: 3, expires: Some(4) };
    let records = vec![("k".into(), record.clone())];
    vec![
        Answer::Counter(1),
        Answer::MaybeCounter(None),
        Answer::Did(true),
        Answer::Number { value: value.clone(), counter: 2 },
        Answer::Cell(Some(cell)),
        Answer::Names(Page { names: vec!["a".into()], next: None }),
        Answer::Revision(300),
        Answer::Count(4),
        Answer::Replaced { did: false, old: Some(value) },
        Answer::Failed(error.at_position(5)),
        Answer::Record(Some(record)),
        Answer::Records(RecordPage { records, next: Some("k".into()) }),
        Answer::Sum("7".into()),
    ]
}

#[test]
fn the_bytes_of_transactions_and_receipts_are_these() {
    is(&Transaction::new(), "00046d61696e0000000000");
    is(
        &full(),
        "010272310364657601060600016b010101016b0101030200016b020103030201700001017104000\
         4016b010205016b0166010176020007016b020007016b0001010007016b010101",
    );
    let receipt = |answers: Vec<Answer>| Receipt {
        revision: 1,
        stamp: 300,
        held: true,
        repeated: false,
        answers: answers.into_iter().collect(),
    };
    is(
        &crate::Result::Ok(receipt(answers())),
        "0001ac0201000d00010100020103030601760204010306017601020300050101610006ac02070408000103060176090d4d65726765436f6e666c696374026e6f0105010161\
         0a0105010166017601020301040b01016b050101660176010203010401016b0c0137",
    );
    is(
        &crate::Result::<Receipt>::Err(crate::Error::new(Code::Closed, "over")),
        "0106436c6f736564046f7665720000",
    );
    is(&[At::Latest, At::Revision(1), At::Stamp(2)], "0001010202");
    let one: SmallVec<[Answer; 1]> = smallvec![Answer::Did(true)];
    assert_eq!(receipt(vec![Answer::Did(true)]).answers, one);
}

#[test]
fn an_error_comes_back_with_everything() {
    let error = crate::Error::new(Code::MergeConflict, "no").with_keys(vec!["a".into()]);
    let back: crate::Error = decode(&encode(&error.clone().at_position(7)).unwrap()).unwrap();
    assert_eq!(back, error.at_position(7));
}

#[test]
fn a_code_of_a_newer_program_is_told_by_its_name() {
    let newer = ("Sunk", "the ship is gone", None::<usize>, Vec::<&str>::new());
    let error: crate::Error = decode(&encode(&newer).unwrap()).unwrap();
    assert_eq!(error.code(), Code::Unsupported);
    assert_eq!(error.message(), "Sunk: the ship is gone");
}

#[test]
fn every_byte_of_a_frame_is_its_own() {
    let frame = encode(&full()).unwrap();
    for length in 0..frame.len() {
        assert!(decode::<Transaction>(&frame[..length]).is_err(), "cut at {length}");
    }
    let longer = [&frame[..], &[0]].concat();
    assert_eq!(decode::<Transaction>(&longer).unwrap_err().code(), Code::InvalidArgument);
    let newer = [&[VERSION + 1], &frame[1..]].concat();
    assert_eq!(decode::<Transaction>(&newer).unwrap_err().code(), Code::NewerFormat);
}

#[test]
fn what_may_not_be_stored_can_be_sent_and_what_is_far_too_deep_cannot() {
    let nested = |depth| Transaction::new().step(CellCommand::set(k(), nested_arrays(depth)));
    let deep = nested(crate::limits::VALUE_LIMIT_DEPTH + 1);
    assert_eq!(decode::<Transaction>(&encode(&deep).unwrap()).unwrap(), deep);
    assert!(encode(&nested(VALUE_DEPTH)).is_ok());
    let error = encode(&nested(VALUE_DEPTH + 1)).unwrap_err();
    assert_eq!(error.code(), Code::ValueTooDeep);
}

#[test]
fn a_count_alone_takes_no_memory_and_lists_have_a_limit() {
    // The count is as high as possible, and no element follows.
    let promised = [VERSION, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    #[derive(Debug, Deserialize)]
    struct Names(#[serde(with = "fields::list")] Vec<String>);
    assert!(decode::<Names>(&promised).is_err());
    let names = |count| encode(&vec![""; count]).unwrap();
    assert_eq!(decode::<Names>(&names(LIST_LIMIT)).unwrap().0.len(), LIST_LIMIT);
    assert!(decode::<Names>(&names(LIST_LIMIT + 1)).is_err());
}

#[test]
fn names_and_ids_are_checked_when_they_are_read() {
    for bad in ["", "a\0b", "_mainstay/x"] {
        assert!(decode::<Name>(&encode(bad).unwrap()).is_err(), "{bad:?}");
    }
    assert!(decode::<RequestId>(&encode(&[0_u8; 0][..]).unwrap()).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let frame = [&[VERSION], &bytes[..]].concat();
        if let Ok(transaction) = decode::<Transaction>(&frame) {
            let again = decode::<Transaction>(&encode(&transaction).unwrap()).unwrap();
            prop_assert_eq!(again, transaction);
        }
        let _ = decode::<crate::Result<Receipt>>(&frame);
    }

    #[test]
    fn a_damaged_frame_is_read_or_refused(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut frame = encode(&full()).unwrap();
        let at = at.index(frame.len());
        frame[at] = to;
        let _ = decode::<Transaction>(&frame);
        let mut frame = encode(&answers()).unwrap();
        let at = at % frame.len();
        frame[at] = to;
        let _ = decode::<Vec<Answer>>(&frame);
    }

    #[test]
    fn values_come_back_bit_by_bit(value in any_value()) {
        let set = Transaction::new().step(CellCommand::set(k(), value));
        let frame = encode(&set).unwrap();
        prop_assert_eq!(encode(&decode::<Transaction>(&frame).unwrap()).unwrap(), frame);
    }
}
