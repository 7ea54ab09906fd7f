//! Which index a scan uses, and which part of it.
//!
//! ```text
//!   filters  state IN (claimed, running), timeout_at < 17
//!   index    (state, timeout_at)  -->  two ranges: claimed up to 17, running up to 17
//! ```
//!
//! A rule, not an estimate: the most leading fields compared with `=` or `IN`, then for who wants the first
//! by a field that field behind them, then a range behind them, then no field behind them, then the oldest.

use super::live_entries::Span;
use crate::key::keyspace;
use crate::key::order_preserving;
use crate::storage::index_def::{IndexDef, IndexDefs};
use mainstay_model::{Field, Test, Where};
use std::cmp::Ordering;
use std::ops::Bound;

/// The most ranges that one scan walks: every value of an `IN` makes further ones.
const RANGES_LIMIT: usize = 256;

/// Names from the first up to the second, which is not in it.
pub(crate) type IndexRange = (Vec<u8>, Option<Vec<u8>>);

/// An index and the parts of it that hold all candidates.
pub(crate) struct IndexSelection {
    pub index: IndexDef,
    pub ranges: Vec<IndexRange>,
    /// How many leading fields are compared with `=` or `IN`.
    equal: usize,
    /// Whether a range follows them.
    ranged: bool,
}

/// The index to use, for who wants all or the first by a field; nothing where none helps.
pub(crate) fn choose(
    all: &IndexDefs,
    prefix: &str,
    filters: &[Where],
    by: Option<&Field>,
) -> Option<IndexSelection> {
    let covering = all.iter().filter(|one| prefix.starts_with(&one.prefix));
    let choices = covering.filter_map(|one| IndexSelection::of(one, filters));
    // Of equals the first is taken, which is the oldest.
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
        // Values that are written in the same way have one range.
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
        let ordered = match by.is_some_and(|by| self.is_ordered_by(by)) {
            true if self.is_rank_last() => 2,
            true => 1,
            false => 0,
        };
        (self.equal, ordered, self.ranged, self.is_in_order_of_keys())
    }

    /// Whether each of its ranges is in the order of a field.
    pub fn is_ordered_by(&self, field: &Field) -> bool {
        self.index.fields.get(self.equal) == Some(field)
    }

    /// Whether each of its ranges is in the order of keys, as all that stands before them is the same.
    pub fn is_in_order_of_keys(&self) -> bool {
        self.equal == self.index.fields.len()
    }

    /// Whether nothing but the key stands behind the field that its ranges are in the order of.
    fn is_rank_last(&self) -> bool {
        self.equal + 1 == self.index.fields.len()
    }

    /// Whether nothing from this name on comes before a rank and a key, in a range in the order of ranks.
    pub fn is_behind(&self, name: &[u8], (rank, key): &(Vec<u8>, Vec<u8>)) -> bool {
        let Some(own) = self.index.value_in(name, self.equal) else { return false };
        match own.cmp(rank) {
            Ordering::Equal if self.is_rank_last() => {
                self.index.key_in(name).is_some_and(|own| own >= key.as_slice())
            }
            order => order == Ordering::Greater,
        }
    }

    /// Its ranges, or the parts of them that have keys under a prefix and behind one, where keys are in order.
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

    /// What it is, for people.
    pub fn describe(&self) -> String {
        let fields: Vec<String> = self.index.fields.iter().map(Field::to_string).collect();
        let ranges = match self.ranges.len() {
            1 => "one range".to_owned(),
            count => format!("{count} ranges"),
        };
        let (id, prefix) = (self.index.id, &self.index.prefix);
        format!("index {id} over `{prefix}` ({}), {ranges}", fields.join(", "))
    }
}

/// The values that a field can have, where that is said.
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

/// Between what a field's value lies, where that is said; both ends are in it.
fn bounds(filters: &[Where], field: &Field) -> Option<(Vec<u8>, Vec<u8>)> {
    let written = |value: &[u8]| {
        let mut bytes = Vec::new();
        order_preserving::put(Some(value), &mut bytes);
        bytes
    };
    let (mut low, mut high): (Option<Vec<u8>>, Option<Vec<u8>>) = (None, None);
    for filter in filters.iter().filter(|filter| filter.field == *field) {
        let (value, is_low) = match &filter.test {
            Test::Gt(value) | Test::Ge(value) => (value, true),
            Test::Lt(value) | Test::Le(value) => (value, false),
            _ => continue,
        };
        let kind = vec![order_preserving::kind(value)];
        let (least, most) = match is_low {
            true => (written(value), kind),
            false => (kind, written(value)),
        };
        low = low.max(Some(least));
        high = match high {
            // A bound that says only the kind of value says less than any value of it.
            Some(high) if high.len() == 1 && most.starts_with(&high) => Some(most),
            Some(high) if most.len() == 1 && high.starts_with(&most) => Some(high),
            Some(high) => Some(high.min(most)),
            None => Some(most),
        };
    }
    low.zip(high)
}
