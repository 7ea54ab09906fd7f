//! Index selection: chooses the index for a scan and its key ranges.
//!
//! ```text
//!   filters  state IN (claimed, running), timeout_at < 17
//!   index    (state, timeout_at)  -->  two ranges: claimed up to 17, running up to 17
//! ```
//!
//! Selection is by rule, not by cost estimate. The criteria, in this order:
//!
//! 1. the most leading fields compared with `=` or `IN`,
//! 2. for a query for the first record by a field, that field right after them,
//! 3. a range comparison of the field after them,
//! 4. no further field after them,
//! 5. the oldest index.

use super::live_entries::Span;
use crate::key::keyspace;
use crate::key::order_preserving;
use crate::storage::index_def::{IndexDef, IndexDefs};
use mainstay_model::{Field, Test, Where};
use std::cmp::Ordering;
use std::ops::Bound;

/// Maximal number of ranges of one scan. The values of an `IN` multiply the ranges.
const RANGES_LIMIT: usize = 256;

/// A half-open range of index entry names.
pub(crate) type IndexRange = (Vec<u8>, Option<Vec<u8>>);

/// An index and the ranges of it that contain all candidates.
pub(crate) struct IndexSelection {
    pub index: IndexDef,
    pub ranges: Vec<IndexRange>,
    /// Number of leading fields that are compared with `=` or `IN`.
    equal: usize,
    /// Whether a range comparison follows them.
    ranged: bool,
}

/// Returns the best index for a scan of all matches, or of the first matches by a field. Returns `None` if no
/// index helps.
pub(crate) fn choose(
    all: &IndexDefs,
    prefix: &str,
    filters: &[Where],
    by: Option<&Field>,
) -> Option<IndexSelection> {
    let covering = all.iter().filter(|one| prefix.starts_with(&one.prefix));
    let choices = covering.filter_map(|one| IndexSelection::of(one, filters));
    // On equal ranks the first one wins, which is the oldest.
    choices.fold(None, |best, next| match best {
        Some(best) if best.rank(by) >= next.rank(by) => Some(best),
        _ => Some(next),
    })
}

impl IndexSelection {
    fn of(index: &IndexDef, filters: &[Where]) -> Option<IndexSelection> {
        let mut starts = vec![index.id.to_be_bytes().to_vec()];
        let mut equal = 0;
        for field in &index.fields {
            let Some(values) = equals(filters, field) else { break };
            if starts.len().saturating_mul(values.len()) > RANGES_LIMIT {
                break;
            }
            starts = starts.iter().flat_map(|start| extended(start, &values)).collect();
            equal += 1;
        }
        // Different texts can have the same encoding, and then they share one range.
        starts.sort_unstable();
        starts.dedup();
        let bounds = index.fields.get(equal).and_then(|field| bounds(filters, field));
        if equal == 0 && bounds.is_none() {
            return None;
        }
        let ranged = bounds.is_some();
        let range = |start: Vec<u8>| match &bounds {
            Some((low, high)) => ([&start[..], low].concat(), {
                keyspace::after_prefix(&[&start[..], high].concat())
            }),
            None => (start.clone(), keyspace::after_prefix(&start)),
        };
        let ranges = starts.into_iter().map(range).collect();
        Some(IndexSelection { index: index.clone(), ranges, equal, ranged })
    }

    fn rank(&self, by: Option<&Field>) -> (usize, usize, bool, bool) {
        let ordered = if by.is_some_and(|by| self.is_ordered_by(by)) {
            if self.is_rank_last() { 2 } else { 1 }
        } else {
            0
        };
        (self.equal, ordered, self.ranged, self.is_in_order_of_keys())
    }

    /// Returns whether each range is ordered by this field.
    pub fn is_ordered_by(&self, field: &Field) -> bool {
        self.index.fields.get(self.equal) == Some(field)
    }

    /// Returns whether each range is in key order, because all fields of the index are fixed.
    pub fn is_in_order_of_keys(&self) -> bool {
        self.equal == self.index.fields.len()
    }

    /// Returns whether the field that orders the ranges is the last field of the index, so that only the key
    /// follows.
    fn is_rank_last(&self) -> bool {
        self.equal + 1 == self.index.fields.len()
    }

    /// Returns whether all names from `name` on are at or after the given rank and key, in a range that is
    /// ordered by rank.
    pub fn is_behind(&self, name: &[u8], (rank, key): &(Vec<u8>, Vec<u8>)) -> bool {
        let Some(own) = self.index.value_in(name, self.equal) else { return false };
        match own.cmp(rank) {
            Ordering::Equal if self.is_rank_last() => {
                self.index.key_in(name).is_some_and(|own| own >= key.as_slice())
            }
            order => order == Ordering::Greater,
        }
    }

    /// Returns the ranges. If they are in key order, narrows them to keys with a prefix and after `after`.
    pub fn spans(&self, prefix: &[u8], after: Option<&[u8]>) -> impl Iterator<Item = Span> {
        self.ranges.iter().map(move |(low, high)| {
            if !self.is_in_order_of_keys() {
                return (Bound::Included(low.clone()), high.clone());
            }
            let under = [low, prefix].concat();
            let end = keyspace::after_prefix(&under);
            match after.filter(|after| *after >= prefix) {
                Some(after) => (Bound::Excluded([low, after].concat()), end),
                None => (Bound::Included(under), end),
            }
        })
    }

    /// Returns a description for people.
    pub fn describe(&self) -> String {
        let fields: Vec<String> = self.index.fields.iter().map(Field::to_string).collect();
        let ranges = match self.ranges.len() {
            1 => "one range".to_owned(),
            count => format!("{count} ranges"),
        };
        let id = self.index.id;
        let prefix = &self.index.prefix;
        format!("index {id} over `{prefix}` ({}), {ranges}", fields.join(", "))
    }
}

/// Returns the values that the filters allow for a field, if an `=` or `IN` limits them.
fn equals<'f>(filters: &'f [Where], field: &Field) -> Option<Vec<&'f [u8]>> {
    filters.iter().filter(|filter| filter.field == *field).find_map(|filter| match &filter.test {
        Test::Eq(value) => Some(vec![value.as_slice()]),
        Test::In(values) => {
            let mut values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            values.sort_unstable();
            values.dedup();
            Some(values)
        }
        _ => None,
    })
}

fn extended(start: &[u8], values: &[&[u8]]) -> Vec<Vec<u8>> {
    let one = |value: &&[u8]| {
        let mut start = start.to_vec();
        order_preserving::put(Some(value), &mut start);
        start
    };
    values.iter().map(one).collect()
}

/// Returns the inclusive bounds that the filters set for a field.
fn bounds(filters: &[Where], field: &Field) -> Option<(Vec<u8>, Vec<u8>)> {
    let written = |value: &[u8]| {
        let mut bytes = Vec::new();
        order_preserving::put(Some(value), &mut bytes);
        bytes
    };
    let mut low: Option<Vec<u8>> = None;
    let mut high: Option<Vec<u8>> = None;
    for filter in filters.iter().filter(|filter| filter.field == *field) {
        let (value, is_low) = match &filter.test {
            Test::Gt(value) | Test::Ge(value) => (value, true),
            Test::Lt(value) | Test::Le(value) => (value, false),
            _ => continue,
        };
        let kind = vec![order_preserving::kind(value)];
        let (least, most) = if is_low { (written(value), kind) } else { (kind, written(value)) };
        low = low.max(Some(least));
        high = match high {
            // As bytes, a bare kind byte is smaller than any value of that kind, but as an upper bound it is
            // the weaker one.
            Some(high) if high.len() == 1 && most.starts_with(&high) => Some(most),
            Some(high) if most.len() == 1 && high.starts_with(&most) => Some(high),
            Some(high) => Some(high.min(most)),
            None => Some(most),
        };
    }
    low.zip(high)
}
