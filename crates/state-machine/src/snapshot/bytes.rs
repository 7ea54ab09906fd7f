//! Encoding helpers for fields of snapshot entries.

use mainstay_model::codec::{get_varint, put_varint};

/// Appends a length and bytes.
pub(super) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends varints.
pub(super) fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| put_varint(out, *number));
}

/// Splits off bytes with a preceding length.
pub(super) fn take_sized<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = take_size(rest)?;
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

/// Splits off text with a preceding length.
pub(super) fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    std::str::from_utf8(take_sized(rest)?).ok()
}

/// Splits off a size.
pub(super) fn take_size(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(get_varint(rest)?).ok()
}

/// Splits off varints.
pub(super) fn take_numbers<const COUNT: usize>(rest: &mut &[u8]) -> Option<[u64; COUNT]> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = get_varint(rest)?;
    }
    Some(numbers)
}
