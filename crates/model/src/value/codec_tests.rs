use super::Value;
use super::codec::{decode, encode, get_varint, put_varint, text};
use super::samples::{any_value, nested_arrays, nested_objects};
use crate::Code;
use crate::limits::VALUE_LIMIT_BYTES;
use proptest::prelude::*;

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(value, &mut bytes).unwrap();
    bytes
}

#[track_caller]
fn refused(bytes: &[u8]) {
    assert_eq!(decode(bytes).unwrap_err().code(), Code::CorruptData, "{bytes:?}");
}

#[test]
fn the_bytes_are_the_documented_ones() {
    assert_eq!(encoded(&Value::Null), [1]);
    assert_eq!(encoded(&Value::Bool(false)), [2]);
    assert_eq!(encoded(&Value::Bool(true)), [3]);
    assert_eq!(encoded(&Value::Int(-2)), [4, 254, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(encoded(&Value::Float(-0.0)), [5, 0, 0, 0, 0, 0, 0, 0, 0x80]);
    assert_eq!(encoded(&Value::from("hi")), [6, 2, b'h', b'i']);
    assert_eq!(encoded(&Value::from(&[0u8, 255])), [7, 2, 0, 255]);
    assert_eq!(encoded(&Value::from(vec![Value::Null, true.into()])), [8, 2, 1, 3]);
    assert_eq!(encoded(&nested_objects(1)), [9, 1, 1, b'k', 4, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn encoding_appends() {
    let mut out = vec![42];
    encode(&Value::from("a"), &mut out).unwrap();
    assert_eq!(out, [42, 6, 1, b'a']);
}

#[test]
fn the_limit_of_depth_is_exact_both_ways() {
    for nested in [nested_arrays, nested_objects] {
        let bytes = encoded(&nested(128));
        assert_eq!(decode(&bytes).unwrap(), nested(128));

        let mut out = vec![7, 7];
        assert_eq!(encode(&nested(129), &mut out).unwrap_err().code(), Code::ValueTooDeep);
        assert_eq!(out, [7, 7]);
    }
    let mut deeper = [8, 1].repeat(129);
    deeper.push(1);
    refused(&deeper);
    assert!(decode(&deeper[2..]).is_ok());
}

#[test]
fn damage_that_nests_without_end_is_refused() {
    refused(&[8, 1].repeat(1 << 20));
}

#[test]
fn the_limit_of_size_is_exact() {
    // A tag and a four-byte length precede the content.
    let fits = Value::Bytes(vec![9; VALUE_LIMIT_BYTES - 5]);
    let bytes = encoded(&fits);
    assert_eq!(bytes.len(), VALUE_LIMIT_BYTES);
    assert!(decode(&bytes).unwrap() == fits);

    let over = Value::Bytes(vec![9; VALUE_LIMIT_BYTES - 4]);
    let mut out = vec![7, 7];
    assert_eq!(encode(&over, &mut out).unwrap_err().code(), Code::ValueTooLarge);
    assert_eq!(out, [7, 7]);

    let mut longer = vec![7];
    put_varint(&mut longer, VALUE_LIMIT_BYTES as u64 - 4);
    longer.resize(VALUE_LIMIT_BYTES + 1, 9);
    assert_eq!(decode(&longer).unwrap_err().code(), Code::CorruptData);
}

#[test]
fn the_limit_of_size_counts_the_whole_tree() {
    // Each half is within the limit. A tag and a one-byte count precede both.
    let half = |spare: usize| Value::from("s".repeat(VALUE_LIMIT_BYTES / 2 - 5 - spare));
    let fits = Value::Array(vec![half(1), half(1)]);
    assert_eq!(encoded(&fits).len(), VALUE_LIMIT_BYTES);
    let over = Value::Array(vec![half(1), half(0)]);
    let mut out = vec![7];
    assert_eq!(encode(&over, &mut out).unwrap_err().code(), Code::ValueTooLarge);
    assert_eq!(out, [7]);

    let over = Value::Array(vec![Value::Null; VALUE_LIMIT_BYTES - 4]);
    assert_eq!(encode(&over, &mut out).unwrap_err().code(), Code::ValueTooLarge);
    assert_eq!(out, [7]);
}

#[test]
fn the_limit_applies_to_the_value_and_not_to_the_buffer() {
    let mut out = vec![0; VALUE_LIMIT_BYTES + 1];
    encode(&Value::from("a"), &mut out).unwrap();
    assert_eq!(&out[VALUE_LIMIT_BYTES + 1..], [6, 1, b'a']);
}

#[test]
fn only_the_canonical_form_is_read() {
    refused(&[]);
    refused(&[0]);
    refused(&[10]);
    refused(&[1, 1]);
    refused(&[6, 0x81, 0x00, b'a']);
    refused(&[6, 0x80, 0x00]);
    refused(&[6, 1, 0xff]);
    // Duplicate names, and names out of order.
    refused(&[9, 2, 1, b'a', 1, 1, b'a', 1]);
    refused(&[9, 2, 1, b'b', 1, 1, b'a', 1]);
    assert!(decode(&[9, 2, 1, b'a', 1, 1, b'b', 1]).is_ok());
}

#[test]
fn huge_lengths_and_counts_are_refused() {
    for tag in 6..=9 {
        for n in [u64::MAX, u64::MAX >> 1, 1 << 32, 1 << 20] {
            let mut bytes = vec![tag];
            put_varint(&mut bytes, n);
            bytes.extend_from_slice(&[1; 16]);
            refused(&bytes);
        }
    }
}

#[test]
fn varints_have_one_form() {
    for n in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, n);
        for cut in 0..bytes.len() {
            assert_eq!(get_varint(&mut &bytes[..cut]), None);
        }
        bytes.push(99);
        let mut rest = &bytes[..];
        assert_eq!(get_varint(&mut rest), Some(n));
        assert_eq!(rest, [99]);
    }
    let overlong: [&[u8]; 4] = [
        &[0x80, 0],
        &[0xff, 0x80, 0],
        &[0xff; 11],
        &[255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
    ];
    for bytes in overlong {
        let mut rest = bytes;
        assert_eq!(get_varint(&mut rest), None, "{bytes:?}");
        assert_eq!(rest, bytes);
    }
}

proptest! {
    #[test]
    fn values_come_back(value in any_value()) {
        let bytes = encoded(&value);
        prop_assert_eq!(&decode(&bytes).unwrap(), &value);
        prop_assert_eq!(encoded(&value.clone()), bytes);
    }

    #[test]
    fn text_is_that_of_the_value(value in any_value()) {
        let bytes = encoded(&value);
        prop_assert_eq!(text(&bytes).unwrap(), value.as_text());
        let in_place = matches!(value, Value::String(_) | Value::Bytes(_));
        let borrowed = matches!(text(&bytes).unwrap(), std::borrow::Cow::Borrowed(_));
        prop_assert_eq!(borrowed, in_place);
        prop_assert!(text(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn equal_bytes_mean_equal_values(a in any_value(), b in any_value()) {
        prop_assert_eq!(a == b, encoded(&a) == encoded(&b));
    }

    #[test]
    fn every_truncation_is_refused(value in any_value()) {
        let bytes = encoded(&value);
        for cut in 0..bytes.len() {
            refused(&bytes[..cut]);
        }
    }

    #[test]
    fn whatever_is_read_is_canonical(bytes in random_bytes()) {
        match decode(&bytes) {
            Ok(value) => prop_assert_eq!(encoded(&value), bytes),
            Err(error) => prop_assert_eq!(error.code(), Code::CorruptData),
        }
    }

    #[test]
    fn a_changed_byte_never_reads_as_the_same(
        value in any_value(), at in any::<prop::sample::Index>(), flip in 1u8..,
    ) {
        let mut bytes = encoded(&value);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        match decode(&bytes) {
            Ok(other) => prop_assert_ne!(other, value),
            Err(error) => prop_assert_eq!(error.code(), Code::CorruptData),
        }
    }
}

/// Random bytes that often have a valid first tag.
fn random_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => 0u8..12, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..64)
}
