//! Varints and length-prefixed byte strings.

use mainstay_model::codec;

pub(super) use codec::get_varint as take;
pub(super) use codec::put_varint as put;

/// Appends a length-prefixed byte string.
#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes a length-prefixed byte string off the front; `None` if it is truncated.
#[inline]
pub(super) fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_went_in() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, number);
            let mut input = out.as_slice();
            assert_eq!(take(&mut input), Some(number));
            assert!(input.is_empty());
            let mut short = &out[..out.len() - 1];
            assert_eq!(take(&mut short), None);
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut input: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(take(&mut input), None);
        let mut length: &[u8] = &[5, 1, 2, 3];
        assert_eq!(take_bytes(&mut length), None);
    }
}
