//! How fields of entries are written and read.

use crate::codec::{get_varint, put_varint};

/// Appends bytes with their length before them.
pub(super) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends numbers, one behind the other.
pub(super) fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| put_varint(out, *number));
}

/// Takes bytes off the front whose length stands before them.
pub(super) fn take_sized<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = take_size(rest)?;
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

/// Takes text off the front.
pub(super) fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    std::str::from_utf8(take_sized(rest)?).ok()
}

/// Takes a number of things off the front.
pub(super) fn take_size(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(get_varint(rest)?).ok()
}

/// Takes numbers off the front.
pub(super) fn take_numbers<const COUNT: usize>(rest: &mut &[u8]) -> Option<[u64; COUNT]> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = get_varint(rest)?;
    }
    Some(numbers)
}
