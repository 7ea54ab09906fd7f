//! Order-preserving encoding of field values, for the keys of secondary indexes.
//!
//! ```text
//!   missing   01
//!   number    02 | 01 | length of the whole part u16 BE | digits | 00      zero or positive; no digits if
//!                                                                          the length does not fit into a u16
//!             02 | 00 | the same, with every bit inverted                  negative
//!   text      03 | bytes, 00 as 00 ff | 00 01
//! ```
//!
//! Long values are truncated, so two different values may have the same encoding. A reader that finds an
//! index entry must check the record itself.

use mainstay_model::Decimal;

const MISSING: u8 = 1;
const NUMBER: u8 = 2;
const TEXT: u8 = 3;

/// Number of bytes of a text that are encoded.
const TEXT_BYTES: usize = 48;
/// Number of digits of a number that are encoded.
const DIGITS: usize = 32;
/// Largest encoding of one value: a text of zero bytes.
pub(crate) const LIMIT_BYTES: usize = 3 + 2 * TEXT_BYTES;

/// Appends the encoding of a field's value, or of a missing field.
pub(crate) fn put(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.push(MISSING),
        Some(value) => match Decimal::of(value) {
            Some(number) => put_number(&number, out),
            None => put_text(value, out),
        },
    }
}

/// Returns the first byte of the encodings of all values of this kind.
pub(crate) fn kind(value: &[u8]) -> u8 {
    if Decimal::of(value).is_some() { NUMBER } else { TEXT }
}

fn put_number(number: &Decimal<'_>, out: &mut Vec<u8>) {
    out.push(NUMBER);
    let start = out.len();
    out.push(1);
    let length = u16::try_from(number.whole.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    // Lengths of `u16::MAX` and more encode alike, so comparing their digits would give a wrong order.
    let digits = if length < u16::MAX { DIGITS } else { 0 };
    out.extend(number.whole.iter().chain(number.fraction).take(digits));
    out.push(0);
    if number.negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        out[start] = 0;
    }
}

fn put_text(value: &[u8], out: &mut Vec<u8>) {
    out.push(TEXT);
    for &byte in value.iter().take(TEXT_BYTES) {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

/// Returns the bytes that follow an encoded value, or `None` if the bytes are not valid.
pub(crate) fn behind(bytes: &[u8]) -> Option<&[u8]> {
    let (&kind, rest) = bytes.split_first()?;
    match kind {
        MISSING => Some(rest),
        NUMBER => {
            let (&sign, rest) = rest.split_first()?;
            let end = if sign == 0 { 0xff } else { 0 };
            // The two length bytes are skipped, because one of them may equal the terminator.
            let digits = rest.get(2..)?;
            let place = digits.iter().position(|&byte| byte == end)?;
            digits.get(place + 1..)
        }
        TEXT => {
            let place = rest.windows(2).position(|pair| pair == [0, 1])?;
            rest.get(place + 2..)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::Test;
    use proptest::prelude::*;

    fn bytes(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(Some(value), &mut out);
        out
    }

    fn any_value() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "-?[0-9]{1,3}(\\.[0-9]{1,3})?".prop_map(String::into_bytes),
            "-?[0-9]{1,40}".prop_map(String::into_bytes),
            prop::collection::vec(0..3_u8, 0..5),
            "[ab]{0,60}".prop_map(String::into_bytes),
            any::<Vec<u8>>(),
        ]
    }

    proptest! {
        #[test]
        fn bytes_are_in_the_order_of_values(a in any_value(), b in any_value()) {
            let (x, y) = (bytes(&a), bytes(&b));
            if Test::Lt(b.clone()).passes(&a) {
                prop_assert!(x <= y, "{a:?} < {b:?}");
            }
            if Test::Gt(b.clone()).passes(&a) {
                prop_assert!(x >= y, "{a:?} > {b:?}");
            }
            if a == b {
                prop_assert_eq!(&x, &y);
            }
        }

        #[test]
        fn a_value_ends_where_it_ends(value in any_value(), key in any::<Vec<u8>>()) {
            let all = [bytes(&value), key.clone()].concat();
            prop_assert_eq!(behind(&all), Some(&key[..]));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in any::<Vec<u8>>()) {
            let _ = behind(&bytes);
        }
    }

    #[test]
    fn numbers_too_long_to_tell_apart_are_not_told_apart() {
        let ones = |count: usize| bytes("1".repeat(count).as_bytes());
        let nines = |count: usize| bytes("9".repeat(count).as_bytes());
        assert!(nines(65_534) < ones(65_535));
        assert_eq!((nines(65_535), nines(65_535)), (ones(65_536), ones(70_000)));
        let below = bytes(format!("-{}", "1".repeat(70_000)).as_bytes());
        assert!(below < bytes(format!("-{}", "9".repeat(65_534)).as_bytes()));
        assert_eq!(behind(&below), Some(&b""[..]));
    }

    #[test]
    fn what_is_missing_stands_first_and_numbers_before_text() {
        let mut missing = Vec::new();
        put(None, &mut missing);
        let order = [missing, bytes(b"-5"), bytes(b"0"), bytes(b"10"), bytes(b""), bytes(b"a")];
        assert!(order.is_sorted());
    }
}
