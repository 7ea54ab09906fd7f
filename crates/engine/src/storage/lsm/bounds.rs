//! Bounds of a range, made safe for the structures underneath.

use std::ops::Bound;

use super::version::KEY_LIMIT_BYTES;

/// Where a range starts and ends.
pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The same range in bounds that tables and maps accept, or `None` when no key lies in it.
pub(super) fn normalise<'a>(from: Bound<&'a [u8]>, to: Bound<&'a [u8]>) -> Option<Bounds<'a>> {
    let (from, to) = (lower(from), upper(to));
    let empty = match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
        _ => false,
    };
    (!empty).then_some((from, to))
}

/// No key is longer than the limit: one that starts like a longer bound is its prefix, below it.
fn lower(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_LIMIT_BYTES => {
            Bound::Excluded(&key[..KEY_LIMIT_BYTES])
        }
        bound => bound,
    }
}

fn upper(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_LIMIT_BYTES => {
            Bound::Included(&key[..KEY_LIMIT_BYTES])
        }
        bound => bound,
    }
}
