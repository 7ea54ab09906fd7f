//! The fields of a record as bytes.
//!
//! ```text
//!   | count varint | name length varint | name | value length varint | value | ... |
//! ```
//!
//! Fields stand in byte order of their names, each name once. So equal records have equal bytes, and
//! whoever looks for one field stops where it would stand.

use super::Field;
use crate::{Code, Error, Result, codec};

/// Appends fields, which come in order.
pub fn encode<'f>(fields: impl ExactSizeIterator<Item = (&'f Field, &'f [u8])>, out: &mut Vec<u8>) {
    codec::put_varint(out, fields.len() as u64);
    for (field, value) in fields {
        put(field.as_bytes(), out);
        put(value, out);
    }
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    codec::put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The fields in order, where they are; what is no record gives an error and then nothing.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8])>> {
    let mut rest = bytes;
    let mut left = codec::get_varint(&mut rest);
    let mut before: Option<&[u8]> = None;
    std::iter::from_fn(move || {
        let more = match left {
            None => false,
            Some(0) if rest.is_empty() => return None,
            Some(0) => false,
            Some(_) => true,
        };
        let pair = if more { take(&mut rest).zip(take(&mut rest)) } else { None };
        // A name stands behind the one before it.
        let pair = pair.filter(|(name, _)| before.is_none_or(|before| before < *name));
        let Some((name, value)) = pair else {
            (left, rest) = (Some(0), &[]);
            return Some(Err(damaged()));
        };
        left = left.map(|left| left - 1);
        before = Some(name);
        Some(Ok((name, value)))
    })
}

/// How many fields there are.
pub fn count(mut bytes: &[u8]) -> Result<usize> {
    let count = codec::get_varint(&mut bytes).and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(damaged)
}

fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(codec::get_varint(rest)?).ok()?;
    let (bytes, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(bytes)
}

#[cold]
fn damaged() -> Error {
    Error::new(Code::CorruptData, "a stored record cannot be read: run `mainstay doctor`")
}

#[cfg(test)]
mod tests {
    use super::super::Fields;
    use super::*;

    #[test]
    fn a_record_comes_back_and_a_cut_one_does_not() {
        let fields = Fields::of([("b", &b"\x00\xff"[..]), ("", b""), ("a", b"1")]).unwrap();
        let mut bytes = Vec::new();
        fields.encode(&mut bytes).unwrap();
        assert_eq!(bytes, b"\x03\x00\x00\x01a\x011\x01b\x02\x00\xff");
        assert_eq!(Fields::decode(&bytes).unwrap(), fields);
        assert_eq!(count(&bytes).unwrap(), 3);
        for cut in 0..bytes.len() {
            assert!(Fields::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Fields::decode(&[&bytes[..], b"x"].concat()).is_err(), "too long");
        assert!(Fields::decode(b"\x02\x01b\x00\x01a\x00").is_err(), "out of order");
        assert!(Fields::decode(b"\x02\x01a\x00\x01a\x00").is_err(), "twice");
    }

    #[test]
    fn one_field_is_found_where_it_stands() {
        let fields = Fields::of([("a", "1"), ("c", "3")]).unwrap();
        let mut bytes = Vec::new();
        fields.encode(&mut bytes).unwrap();
        let find = |name: &str| Fields::find(&bytes, &Field::new(name).unwrap()).unwrap();
        assert_eq!([find("a"), find("b"), find("c")], [Some(&b"1"[..]), None, Some(b"3")]);
        let wanted = [Field::new("c").unwrap(), Field::new("x").unwrap()];
        let some = Fields::decode_some(&bytes, &wanted).unwrap();
        assert_eq!(some, Fields::of([("c", "3")]).unwrap());
    }

    #[test]
    fn some_fields_are_found_whatever_their_order() {
        let name = |n: u8| Field::new([n]).unwrap();
        let fields: Fields = (0..40).step_by(2).map(|n| (name(n), vec![n])).collect();
        let mut bytes = Vec::new();
        fields.encode(&mut bytes).unwrap();
        for wanted in [
            vec![],
            vec![0],
            vec![38],
            vec![39, 1, 0],
            vec![7, 6, 6, 5],
            vec![38, 2, 20, 3, 2],
            (0..50).rev().collect(),
        ] {
            let names: Vec<Field> = wanted.iter().copied().map(name).collect();
            let there = wanted.iter().filter(|n| **n < 40 && n.is_multiple_of(2));
            let expected: Fields = there.map(|n| (name(*n), vec![*n])).collect();
            assert_eq!(Fields::decode_some(&bytes, &names).unwrap(), expected, "{wanted:?}");
        }
        assert!(Fields::decode_some(&bytes[..bytes.len() - 1], &[name(38)]).is_err());
    }
}
