//! Canonical binary encoding of values: equal values have equal bytes.
//!
//! ```text
//!   null, false, true   tag
//!   int, float          tag | 8 bytes, little-endian
//!   string, bytes       tag | length | bytes           number (only in events): the same, its text
//!   array               tag | count  | values
//!   object              tag | count  | (length | name | value)*, names strictly ascending
//! ```
//!
//! Lengths and counts are LEB128 varints in their shortest form. Zero is not a tag, so zeroed storage never
//! decodes as a value.

use super::number::{self, is_number};
use super::{Value, beyond, too_deep, too_large};
use crate::limits::{VALUE_LIMIT_BYTES, VALUE_LIMIT_DEPTH};
use crate::{Code, Error, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;

const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const INT: u8 = 4;
const FLOAT: u8 = 5;
const STRING: u8 = 6;
const BYTES: u8 = 7;
const ARRAY: u8 = 8;
const OBJECT: u8 = 9;
const NUMBER: u8 = 10;

/// The most elements reserved before they are read, so that a damaged count allocates no memory.
const RESERVE_LIMIT: usize = 256;

/// Limits on the size and the nesting of a value.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The largest encoded size, in bytes.
    pub limit_bytes: usize,
    /// The deepest nesting of arrays and objects.
    pub limit_depth: usize,
}

/// The limits of users' values.
const USUAL: Bounds = Bounds { limit_bytes: VALUE_LIMIT_BYTES, limit_depth: VALUE_LIMIT_DEPTH };

/// Appends the encoded value to `out`. On an error `out` is unchanged.
///
/// Fails for a number that neither an `i64` nor an `f64` represents.
#[inline]
pub fn encode(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    encode_as::<false>(USUAL, value, out)
}

/// Like [`encode`], but for the content of events: numbers keep their text.
#[inline]
pub fn encode_exact(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    encode_as::<true>(USUAL, value, out)
}

/// Like [`encode_exact`], but with other limits, for containers of users' values.
#[inline]
pub fn encode_within(bounds: Bounds, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    encode_as::<true>(bounds, value, out)
}

#[inline]
fn encode_as<const EXACT: bool>(bounds: Bounds, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let end = start.saturating_add(bounds.limit_bytes);
    let written = put_value::<EXACT>(value, out, end, bounds.limit_depth);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Decodes the output of [`encode`]. Fails if bytes are left over.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<Value> {
    decode_within(USUAL, bytes)
}

/// Decodes the output of [`encode_within`]. Fails if bytes are left over.
#[inline]
pub fn decode_within(bounds: Bounds, bytes: &[u8]) -> Result<Value> {
    let mut rest = bytes;
    match take_value(&mut rest, bounds.limit_depth) {
        Ok(value) if rest.is_empty() && bytes.len() <= bounds.limit_bytes => Ok(value),
        Ok(_) if rest.is_empty() => Err(damaged(bytes, rest, "it is above the size limit")),
        Ok(_) => Err(damaged(bytes, rest, "more bytes follow its end")),
        Err(why) => Err(damaged(bytes, rest, why)),
    }
}

/// Returns the text of an encoded value, see [`Value::as_text`]. The text of a string or of bytes is
/// borrowed.
#[inline]
pub fn text(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    if let Some((&(STRING | BYTES), mut rest)) = bytes.split_first() {
        let length = get_varint(&mut rest);
        if length == Some(rest.len() as u64) {
            return Ok(Cow::Borrowed(rest));
        }
    }
    decode(bytes).map(|value| Cow::Owned(value.as_text().into_owned()))
}

/// Appends a number as a LEB128 varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Splits off a varint. Returns `None`, and leaves `bytes` unchanged, if it is truncated, overflows or is not
/// in its shortest form.
#[inline]
pub fn get_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    get_long_varint(bytes)
}

/// Decodes a varint of more than one byte.
fn get_long_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        // The tenth byte has room for only one more bit.
        if index == 9 && byte > 1 {
            return None;
        }
        n |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            // A last byte of zero is redundant: the number has a shorter form.
            if byte == 0 {
                return None;
            }
            *bytes = &bytes[index + 1..];
            return Some(n);
        }
    }
    None
}

/// The encoded size of a value without its elements, but with their names.
pub(super) fn own_bytes(value: &Value) -> usize {
    let counted = |n: usize| varint_bytes(n).saturating_add(n);
    1 + match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Int(_) | Value::Float(_) => 8,
        Value::String(text) => counted(text.len()),
        Value::Number(text) => counted(text.len()),
        Value::Bytes(bytes) => counted(bytes.len()),
        Value::Array(items) => varint_bytes(items.len()),
        Value::Object(fields) => {
            let names: usize = fields.keys().map(|name| counted(name.len())).sum();
            varint_bytes(fields.len()) + names
        }
    }
}

fn varint_bytes(n: usize) -> usize {
    let bits = (usize::BITS - n.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

#[inline]
fn put_value<const EXACT: bool>(
    value: &Value,
    out: &mut Vec<u8>,
    end: usize,
    levels: usize,
) -> Result<()> {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Value::Int(n) => put_word(INT, n.to_le_bytes(), out),
        Value::Float(n) => put_word(FLOAT, n.to_bits().to_le_bytes(), out),
        Value::String(text) => {
            out.push(STRING);
            put_run(text.as_bytes(), out, end)?;
        }
        Value::Bytes(bytes) => {
            out.push(BYTES);
            put_run(bytes, out, end)?;
        }
        Value::Array(_) | Value::Object(_) if levels == 0 => return Err(too_deep()),
        Value::Array(items) => put_array::<EXACT>(items, out, end, levels - 1)?,
        Value::Object(fields) => put_object::<EXACT>(fields, out, end, levels - 1)?,
        Value::Number(text) if EXACT => {
            out.push(NUMBER);
            put_run(text.as_bytes(), out, end)?;
        }
        Value::Number(text) => {
            let plain = number::plain(text).ok_or_else(|| beyond(text))?;
            put_value::<EXACT>(&plain, out, end, levels)?;
        }
    }
    check_end(out, end)
}

#[inline]
fn put_word(tag: u8, word: [u8; 8], out: &mut Vec<u8>) {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&word);
    out.extend_from_slice(&bytes);
}

/// Appends a length and bytes. The size is checked first, so that nothing huge is copied in vain.
#[inline]
fn put_run(bytes: &[u8], out: &mut Vec<u8>, end: usize) -> Result<()> {
    if bytes.len() > end.saturating_sub(out.len()) {
        return Err(too_large());
    }
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_array<const EXACT: bool>(
    items: &[Value],
    out: &mut Vec<u8>,
    end: usize,
    levels: usize,
) -> Result<()> {
    out.push(ARRAY);
    put_varint(out, items.len() as u64);
    items.iter().try_for_each(|item| put_value::<EXACT>(item, out, end, levels))
}

fn put_object<const EXACT: bool>(
    fields: &BTreeMap<String, Value>,
    out: &mut Vec<u8>,
    end: usize,
    levels: usize,
) -> Result<()> {
    out.push(OBJECT);
    put_varint(out, fields.len() as u64);
    for (name, value) in fields {
        put_run(name.as_bytes(), out, end)?;
        put_value::<EXACT>(value, out, end, levels)?;
    }
    Ok(())
}

#[inline]
fn check_end(out: &[u8], end: usize) -> Result<()> {
    if out.len() > end { Err(too_large()) } else { Ok(()) }
}

/// A decoded item, or a description of the damage.
type Taken<T> = std::result::Result<T, &'static str>;

#[inline]
fn take_value(rest: &mut &[u8], levels: usize) -> Taken<Value> {
    let (&tag, tail) = rest.split_first().ok_or("it ends where a value should begin")?;
    *rest = tail;
    match tag {
        NULL => Ok(Value::Null),
        FALSE => Ok(Value::Bool(false)),
        TRUE => Ok(Value::Bool(true)),
        INT => Ok(Value::Int(i64::from_le_bytes(take_word(rest)?))),
        FLOAT => Ok(Value::Float(f64::from_bits(u64::from_le_bytes(take_word(rest)?)))),
        STRING => Ok(Value::String(take_text(rest)?)),
        BYTES => Ok(Value::Bytes(take_run(rest)?.to_vec())),
        ARRAY | OBJECT if levels == 0 => Err("it is nested too deep"),
        ARRAY => take_array(rest, levels - 1),
        OBJECT => take_object(rest, levels - 1),
        NUMBER => {
            let text = take_text(rest)?;
            let number = is_number(&text).then(|| Value::Number(text.into()));
            number.ok_or("a number is malformed")
        }
        _ => Err("its tag is unknown"),
    }
}

#[inline]
fn take_word(rest: &mut &[u8]) -> Taken<[u8; 8]> {
    let (word, tail) = rest.split_first_chunk().ok_or("a number is cut off")?;
    *rest = tail;
    Ok(*word)
}

#[inline]
fn take_run<'a>(rest: &mut &'a [u8]) -> Taken<&'a [u8]> {
    let length = get_varint(rest).ok_or("a length is malformed")?;
    let length = usize::try_from(length).map_err(|_| "a length is too large")?;
    let (run, tail) = rest.split_at_checked(length).ok_or("a string is cut off")?;
    *rest = tail;
    Ok(run)
}

#[inline]
fn take_text(rest: &mut &[u8]) -> Taken<String> {
    let text = simdutf8::basic::from_utf8(take_run(rest)?).map_err(|_| "a string is not UTF-8")?;
    Ok(text.to_owned())
}

/// Decodes a count of items that have at least `each_bytes` bytes. This bounds a damaged count.
fn take_count(rest: &mut &[u8], each_bytes: usize) -> Taken<usize> {
    let count = get_varint(rest).ok_or("a count is malformed")?;
    match usize::try_from(count) {
        Ok(count) if count <= rest.len() / each_bytes => Ok(count),
        _ => Err("a count is larger than what follows"),
    }
}

fn take_array(rest: &mut &[u8], levels: usize) -> Taken<Value> {
    let count = take_count(rest, 1)?;
    let mut items = Vec::with_capacity(count.min(RESERVE_LIMIT));
    for _ in 0..count {
        items.push(take_value(rest, levels)?);
    }
    Ok(Value::Array(items))
}

fn take_object(rest: &mut &[u8], levels: usize) -> Taken<Value> {
    let count = take_count(rest, 2)?;
    let mut fields: Vec<(String, Value)> = Vec::with_capacity(count.min(RESERVE_LIMIT));
    for _ in 0..count {
        let name = take_text(rest)?;
        if fields.last().is_some_and(|(last, _)| *last >= name) {
            return Err("the names of an object are not in order");
        }
        fields.push((name, take_value(rest, levels)?));
    }
    Ok(Value::Object(fields.into_iter().collect()))
}

#[cold]
fn damaged(bytes: &[u8], rest: &[u8], why: &str) -> Error {
    let at = bytes.len() - rest.len();
    let message = format!(
        "a stored value of {} bytes is damaged at byte {at}: {why}; restore it from a backup",
        bytes.len()
    );
    Error::new(Code::CorruptData, message)
}
