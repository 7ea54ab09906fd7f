//! Numbers in as few bytes as they need: seven bits a byte, the lowest first.

/// Appends a number.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front; `None` when it is cut short or beyond 64 bits.
#[inline]
pub(super) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        if shift == 63 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Appends bytes behind their length.
#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes bytes with their length off the front; `None` when they are cut short.
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
