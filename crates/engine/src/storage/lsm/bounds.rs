//! Normalization of range bounds for the underlying maps and tables.

use std::ops::Bound;

use super::version::KEY_LIMIT_BYTES;

/// Start and end of a range.
pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Converts a range to bounds that tables and maps accept; `None` if no key can lie in it.
pub(super) fn normalise<'a>(from: Bound<&'a [u8]>, to: Bound<&'a [u8]>) -> Option<Bounds<'a>> {
    let from = lower(from);
    let to = upper(to);
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

/// No key is longer than the limit. A stored key that shares the prefix of an overlong bound is shorter, so
/// it sorts before the bound.
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
