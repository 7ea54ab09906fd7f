//! Binary encoding of a record's fields, readable and editable in place.
//!
//! ```text
//!   | count varint | name length varint | name | value length varint | value | ... |
//! ```
//!
//! Fields are in byte order of their names, each name once. Therefore equal records have equal bytes, and a
//! lookup stops where the field would be.

use super::Field;
use crate::limits::{RECORD_LIMIT_FIELDS, VALUE_LIMIT_BYTES};
use crate::{Code, Error, Result, codec};
use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;

/// The encoding of a record without fields.
pub const EMPTY: &[u8] = &[0];

/// A field name with its new value; `None` removes the field.
pub type Change<'c> = (&'c [u8], Option<&'c [u8]>);

/// The result of applying changes to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The number of fields after the changes.
    pub count: usize,
    /// The number of new fields.
    pub added: usize,
    /// The number of removed fields.
    pub removed: usize,
}

/// Appends fields, which must be in order, to `out`.
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

/// Iterates over the borrowed fields in order. A malformed record yields an error and ends the iteration.
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
        // Names must be strictly ascending.
        let pair = pair.filter(|(name, _)| before.is_none_or(|before| before < *name));
        let Some((name, value)) = pair else {
            left = Some(0);
            rest = &[];
            return Some(Err(damaged()));
        };
        left = left.map(|left| left - 1);
        before = Some(name);
        Some(Ok((name, value)))
    })
}

/// Appends the record with changes applied, without decoding it: the bytes between two changes are copied as
/// they are. Changes must be in order of their names, each name once. Fails if the result exceeds the limits
/// of a record.
pub fn change(old: &[u8], changes: &[Change<'_>], out: &mut Vec<u8>) -> Result<Changed> {
    let mut pairs = Pairs::of(old)?;
    let mut changed = Changed { count: pairs.left, added: 0, removed: 0 };
    let start = out.len();
    codec::put_varint(out, pairs.left as u64);
    let place = start..out.len();
    // The unchanged bytes from here to the place of the next change.
    let mut kept = pairs.rest;
    for (name, value) in changes {
        let found = pairs.seek(name)?;
        out.extend_from_slice(&kept[..kept.len() - pairs.rest.len()]);
        changed.added += usize::from(value.is_some() && found.is_none());
        changed.removed += usize::from(value.is_none() && found.is_some());
        if let Some(found) = found {
            pairs.pass(&found);
        }
        kept = pairs.rest;
        if let Some(value) = value {
            put(name, out);
            put(value, out);
        }
    }
    out.extend_from_slice(kept);
    changed.count = changed.count + changed.added - changed.removed;
    set_count(changed.count, place, out);
    check(changed.count, start, out).map(|()| changed)
}

/// A forward-only cursor over fields. A caller that seeks several fields must do so in order.
struct Pairs<'b> {
    rest: &'b [u8],
    left: usize,
}

/// A field that was found: its value and the bytes after it.
struct Stood<'b> {
    value: &'b [u8],
    behind: &'b [u8],
}

impl<'b> Pairs<'b> {
    fn of(mut rest: &'b [u8]) -> Result<Pairs<'b>> {
        let left = codec::get_varint(&mut rest).and_then(|count| usize::try_from(count).ok());
        // Do not trust a damaged count: each field has at least two bytes.
        let left = left.filter(|left| *left <= rest.len() / 2).ok_or_else(damaged)?;
        Ok(Pairs { rest, left })
    }

    /// Advances to the place of a field, or to where it would be, without consuming it.
    fn seek(&mut self, wanted: &[u8]) -> Result<Option<Stood<'b>>> {
        while self.left > 0 {
            let mut behind = self.rest;
            let (name, value) = take(&mut behind).zip(take(&mut behind)).ok_or_else(damaged)?;
            match order(name, wanted) {
                Ordering::Less => self.pass(&Stood { value, behind }),
                Ordering::Equal => return Ok(Some(Stood { value, behind })),
                Ordering::Greater => return Ok(None),
            }
        }
        Ok(None)
    }

    fn pass(&mut self, stood: &Stood<'b>) {
        self.rest = stood.behind;
        self.left -= 1;
    }
}

/// Compares two names by their first bytes, because most names differ there.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first(), b.first()) {
        (Some(first), Some(other)) if first != other => first.cmp(other),
        _ => a.cmp(b),
    }
}

/// Overwrites the count, whose encoding may change its length.
fn set_count(count: usize, place: std::ops::Range<usize>, out: &mut Vec<u8>) {
    if let (Ok(byte @ 0..0x80), 1) = (u8::try_from(count), place.len()) {
        out[place.start] = byte;
        return;
    }
    let mut bytes = Vec::new();
    codec::put_varint(&mut bytes, count as u64);
    out.splice(place, bytes);
}

/// Checks the limits of a record. Truncates `out` back to `start` if they are exceeded.
pub fn check(count: usize, start: usize, out: &mut Vec<u8>) -> Result<()> {
    let message = if count > RECORD_LIMIT_FIELDS {
        format!("the record has {count} fields: {RECORD_LIMIT_FIELDS} is the most")
    } else if out.len() - start > VALUE_LIMIT_BYTES {
        "the record is larger than 16 MiB".to_owned()
    } else {
        return Ok(());
    };
    out.truncate(start);
    Err(Error::new(Code::ValueTooLarge, message))
}

/// Finds one field without decoding the record.
pub fn find<'b>(bytes: &'b [u8], wanted: &[u8]) -> Result<Option<&'b [u8]>> {
    Ok(Pairs::of(bytes)?.seek(wanted)?.map(|stood| stood.value))
}

/// The values of several fields, in the order requested.
pub type Found<'b> = SmallVec<[Option<&'b [u8]>; 8]>;

/// Finds several fields in one pass, whatever their order.
pub fn find_all<'b>(bytes: &'b [u8], wanted: &[&[u8]]) -> Result<Found<'b>> {
    let mut found: Found<'b> = smallvec![None; wanted.len()];
    let mut places: SmallVec<[usize; 8]> = (0..wanted.len()).collect();
    places.sort_unstable_by_key(|&place| wanted[place]);
    let mut pairs = Pairs::of(bytes)?;
    for place in places {
        found[place] = pairs.seek(wanted[place])?.map(|stood| stood.value);
    }
    Ok(found)
}

/// Returns the number of fields.
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
    fn changes_leave_what_taking_apart_and_putting_together_leaves() {
        let names: Vec<String> = (0..200).map(|number| format!("f{number:03}")).collect();
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % limit
        };
        let mut fields = Fields::default();
        let mut bytes = EMPTY.to_vec();
        for round in 0..2_000_u64 {
            // Records grow beyond a one-byte count, then become empty again.
            let bias = if round / 200 % 2 == 0 { 3 } else { 1 };
            let mut changes: Vec<Change<'_>> = Vec::new();
            for name in names.iter().map(String::as_bytes) {
                if below(40) == 0 {
                    changes.push((name, (below(4) < bias).then_some(&name[..2])));
                }
            }
            let mut out = b"before".to_vec();
            let changed = change(&bytes, &changes, &mut out).unwrap();
            let mut added = 0;
            let mut removed = 0;
            for (name, value) in changes {
                let field = Field::new(name).unwrap();
                match value {
                    Some(value) => {
                        added += usize::from(fields.insert(field, value.into()).is_none())
                    }
                    None => removed += usize::from(fields.remove(&field).is_some()),
                }
            }
            assert_eq!(changed, Changed { count: fields.len(), added, removed });
            bytes = out.split_off(b"before".len());
            assert_eq!(Fields::decode(&bytes).unwrap(), fields, "round {round}");
        }
    }

    #[test]
    fn a_cut_record_is_not_changed() {
        let mut bytes = Vec::new();
        Fields::of([("a", "1"), ("b", "22")]).unwrap().encode(&mut bytes).unwrap();
        for cut in 0..bytes.len() {
            let mut out = Vec::new();
            assert!(
                change(&bytes[..cut], &[(b"c", Some(b"3"))], &mut out).is_err(),
                "cut at {cut}"
            );
            assert!(find(&bytes[..cut], b"c").is_err(), "cut at {cut}");
        }
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
    fn a_count_that_is_not_true_is_damage() {
        for count in [3_u64, 127, 1 << 20, u64::MAX] {
            let mut bytes = Vec::new();
            codec::put_varint(&mut bytes, count);
            bytes.extend_from_slice(b"\x01a\x011\x01b\x00");
            let changed = change(&bytes, &[(b"c", Some(b"3"))], &mut Vec::new());
            assert_eq!(changed.unwrap_err().code(), Code::CorruptData, "{count}");
            assert_eq!(find(&bytes, b"c").unwrap_err().code(), Code::CorruptData, "{count}");
        }
    }

    #[test]
    fn several_fields_are_found_in_one_pass() {
        let names: Vec<String> = (0..500).map(|number| format!("f{number:03}")).collect();
        let mut bytes = Vec::new();
        let even = names.iter().step_by(2);
        Fields::of(even.map(|name| (name, name))).unwrap().encode(&mut bytes).unwrap();
        // From the last to the first, and each twice.
        let wanted: Vec<&[u8]> = names.iter().rev().chain(&names).map(String::as_bytes).collect();
        let found = find_all(&bytes, &wanted).unwrap();
        for (name, found) in wanted.iter().zip(found) {
            assert_eq!(found, find(&bytes, name).unwrap());
        }
        let mut pairs = Pairs::of(&bytes).unwrap();
        for (place, name) in names.iter().enumerate() {
            pairs.seek(name.as_bytes()).unwrap();
            assert_eq!(pairs.left, 250 - place.div_ceil(2), "no field is passed twice");
        }
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
