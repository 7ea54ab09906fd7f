//! Names of records and fields, and size limits of records.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, ErrorKind, Field, FieldValue, Fields, HashCommand, RecordWrite};

/// Record keys follow the same rules as cell names.
pub fn keys_are_named_alike(w: &mut TestDb) {
    let long = "n".repeat(1025);
    for bad in ["", "a\0b", "_mainstay/x", long.as_str()] {
        refused(w.records().set_field(bad, "a", "1"), Code::InvalidName);
        refused(w.records().get(bad), Code::InvalidName);
        refused(w.records().delete(bad), Code::InvalidName);
    }
    assert_eq!(w.records().set_field(&long[1..], "a", "1").unwrap(), 1);
}

/// A field name has at most 1024 bytes, of any value.
pub fn field_names_have_a_limit(w: &mut TestDb) {
    let longest = "f".repeat(1024);
    assert_eq!(w.records().set_field("k", &longest, "1").unwrap(), 1);
    assert_eq!(w.records().get_field("k", &longest).unwrap(), Some(b"1".to_vec()));
    let longer = "f".repeat(1025);
    refused(w.records().set_field("k", &longer, "1"), Code::InvalidField);
    refused(w.records().get_field("k", &longer), Code::InvalidField);
    refused(w.records().clear_field("k", &longer), Code::InvalidField);
    assert!(Field::new([0xff, 0x00]).is_ok());
}

/// A write that changes nothing is refused.
pub fn empty_writes_are_refused(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    for write in [RecordWrite::to("k").unwrap(), RecordWrite::to("k").unwrap().replace()] {
        let write = write.when_counter(Some(1));
        refused(writes_nothing(w.db(), || w.records().write(write)), Code::InvalidField);
    }
}

/// A field that occurs twice in a write is refused, whether it is set twice or set and cleared.
pub fn field_twice_is_refused(w: &mut TestDb) {
    let twice = write("k", &[("a", "1"), ("b", "1"), ("a", "2")]);
    refused(writes_nothing(w.db(), || w.records().write(twice)), Code::InvalidField);
    let both = write("k", &[("b", "1"), ("a", "1")]).clear("a").unwrap();
    refused(writes_nothing(w.db(), || w.records().write(both)), Code::InvalidField);
}

/// Invalid input is refused regardless of the stored state, even if a condition fails.
pub fn bad_writes_are_refused_whatever_is_there(w: &mut TestDb) {
    let twice = write("k", &[("a", "1"), ("a", "2")]).when_counter(Some(7));
    refused(w.records().write(twice), Code::InvalidField);
}

fn many(count: usize) -> Fields {
    Fields::of((0..count).map(|n| (format!("f{n}"), ""))).unwrap()
}

/// A record has at most 65,536 fields.
pub fn fields_of_a_record(w: &mut TestDb) {
    assert_eq!(w.records().put("k", &many(65_536), None).unwrap(), 1);
    let error = writes_nothing(w.db(), || w.records().set_field("k", "one more", "")).unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::ValueTooLarge, ErrorKind::TooLarge));
    assert_eq!(w.records().set_field("k", "f7", "x").unwrap(), 2, "there it is one of them");
    let swap = RecordWrite::to("k").unwrap().clear("f7").unwrap().set("g", "").unwrap();
    assert_eq!(w.records().write(swap).unwrap(), Some(3));
    refused(w.records().put("l", &many(65_537), None), Code::ValueTooLarge);
    is_gone(&w.records(), "l");
}

/// A record has at most 16 MiB, including names and lengths.
pub fn bytes_of_a_record(w: &mut TestDb) {
    // The overhead is a count, a length and a one-byte name, and a length of four bytes.
    let most = (16 << 20) - 1 - 2 - 4;
    let value = vec![b'x'; most + 1];
    refused(
        writes_nothing(w.db(), || w.records().set_field("k", "a", &value)),
        Code::ValueTooLarge,
    );
    assert_eq!(w.records().set_field("k", "a", &value[1..]).unwrap(), 1);
    refused(writes_nothing(w.db(), || w.records().set_field("k", "b", "")), Code::ValueTooLarge);
    assert_eq!(w.records().get_field("k", "a").unwrap().map(|value| value.len()), Some(most));
}

/// Hashes have the same limits.
pub fn limits_hold_for_hashes(w: &mut TestDb) {
    w.records().put("k", &many(65_536), None).unwrap();
    let pairs = vec![(field("one more"), Vec::new())];
    let set = HashCommand::Set { key: name("k"), pairs, only_absent: false };
    refused(writes_nothing(w.db(), || run(w.db(), set)), Code::ValueTooLarge);
    let add = HashCommand::Add { key: name("k"), field: field("one more"), by: 1 };
    refused(writes_nothing(w.db(), || run(w.db(), add)), Code::ValueTooLarge);
    let none = HashCommand::Set { key: name("l"), pairs: vec![], only_absent: false };
    refused(writes_nothing(w.db(), || run(w.db(), none)), Code::InvalidField);
    is_gone(&w.records(), "l");
}

/// A write that makes a record too large leaves it unchanged.
pub fn too_large_leaves_what_was(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let large = FieldValue::Bytes(vec![0; 16 << 20]);
    refused(w.records().set_field("k", "b", large), Code::ValueTooLarge);
    holds(&w.records(), "k", &[("a", "1")]);
    assert_eq!(w.records().set_field("k", "b", "2").unwrap(), 2);
}
