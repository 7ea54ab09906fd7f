//! K-way merge of sources by logical time.
//!
//! ```text
//!   a   0.1      0.3               0.2  0.3  0.6        round * 2 + index: all are distinct
//!   b       0.1      0.3     -->   0.2  0.3  0.6  0.7
//! ```

use super::{MonotonicSource, Source, SourceItem};
use mainstay_model::{Code, Error, LogicalTime, Result};

/// Merges several sources of the same item type, by time, then by source index. Sources are sorted by name,
/// so the order in which they are added does not matter.
///
/// The order depends only on the times and not on the sources' speed. A source without an item is at its end.
/// If it later gives an item that is older than those of other sources, it is refused.
///
/// ```
/// use mainstay_streams::{Items, SourceMerger};
/// let mut merger = SourceMerger::default();
/// merger.add(Items::new("odd", [1, 3]))?;
/// merger.add(Items::new("even", [0, 2]))?;
/// let mut read = Vec::new();
/// while let Some(merged) = merger.next_item()? {
///     read.push((merged.item, merged.time.round));
/// }
/// assert_eq!(read, [(0, 0), (1, 1), (2, 2), (3, 3)]);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct SourceMerger<T> {
    inputs: Vec<MergeInput<T>>,
    last: Option<LogicalTime>,
}

/// A source with its next item, if known.
struct MergeInput<T> {
    source: MonotonicSource<Box<dyn Source<Item = T>>>,
    head: Option<SourceItem<T>>,
}

/// An item of one of several sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedItem<T> {
    /// The item.
    pub item: T,
    /// Its time, unique among all sources.
    pub time: LogicalTime,
    /// The index of its source.
    pub source: usize,
    /// The position after it in its source.
    pub position: u64,
}

impl<T> Default for SourceMerger<T> {
    fn default() -> SourceMerger<T> {
        SourceMerger { inputs: Vec::new(), last: None }
    }
}

impl<T> SourceMerger<T> {
    /// Adds a source, whose name must be unique.
    pub fn add(&mut self, source: impl Source<Item = T> + 'static) -> Result<()> {
        let index = self.inputs.binary_search_by(|input| input.source.name().cmp(source.name()));
        let Err(index) = index else {
            let message = format!("two sources are called `{}`: rename one", source.name());
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let source: Box<dyn Source<Item = T>> = Box::new(source);
        self.inputs.insert(index, MergeInput { source: MonotonicSource::new(source), head: None });
        Ok(())
    }

    /// The sources' names, sorted. An [`MergedItem`] refers to them by index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.source.name())
    }

    /// Moves all sources to their positions.
    pub fn seek(&mut self, position: impl Fn(&str) -> u64) -> Result<()> {
        self.last = None;
        for input in &mut self.inputs {
            input.head = None;
            let to = position(input.source.name());
            input.source.seek(to)?;
        }
        Ok(())
    }

    /// Returns the source index of the next item and the position after it; `None` if all sources are
    /// exhausted.
    pub fn peek(&mut self) -> Result<Option<(usize, u64)>> {
        let Some((_, source)) = self.min_head()? else { return Ok(None) };
        Ok(self.inputs[source].head.as_ref().map(|head| (source, head.position)))
    }

    /// The source whose next item has the lowest time.
    fn min_head(&mut self) -> Result<Option<(LogicalTime, usize)>> {
        for input in &mut self.inputs {
            if input.head.is_none() {
                input.head = input.source.next()?;
            }
        }
        let times = self.inputs.iter().enumerate();
        let heads = times.filter_map(|(n, input)| Some((input.head.as_ref()?.time, n)));
        Ok(heads.min())
    }

    /// Returns the item with the lowest time; `None` if all sources are exhausted.
    pub fn next_item(&mut self) -> Result<Option<MergedItem<T>>> {
        let Some((time, source)) = self.min_head()? else { return Ok(None) };
        let time = self.unique_time(time, source)?;
        self.check_increasing(time, source)?;
        self.last = Some(time);
        let head = self.inputs[source].head.take();
        Ok(head.map(|SourceItem { item, position, .. }| MergedItem {
            item,
            time,
            source,
            position,
        }))
    }

    /// Maps a source's time to one that no other source has.
    fn unique_time(&self, time: LogicalTime, source: usize) -> Result<LogicalTime> {
        let round = time.round.checked_mul(self.inputs.len() as u64);
        let round = round.and_then(|round| round.checked_add(source as u64));
        let round = round.ok_or_else(|| {
            let name = self.inputs[source].source.name();
            let message = format!(
                "source `{name}` gives time {time}, which is too large to be one of {} sources: begin a new epoch",
                self.inputs.len()
            );
            Error::new(Code::Overflow, message)
        })?;
        Ok(LogicalTime::new(time.epoch, round))
    }

    fn check_increasing(&self, time: LogicalTime, source: usize) -> Result<()> {
        match self.last {
            Some(last) if time <= last => {
                let name = self.inputs[source].source.name();
                let message = format!(
                    "source `{name}` had ended, and gives time {time} now that another has given {last}: sources that are merged do not pause"
                );
                Err(Error::new(Code::InvalidVersion, message))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Items;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn source(name: &str, rounds: impl IntoIterator<Item = u64>) -> Items<u64> {
        let rounds = rounds.into_iter();
        Items::with_times(name, rounds.map(|round| (LogicalTime::new(1, round), round)))
    }

    fn all<T>(merged: &mut SourceMerger<T>) -> Vec<MergedItem<T>> {
        std::iter::from_fn(|| merged.next_item().unwrap()).collect()
    }

    #[test]
    fn two_sources_of_one_name_are_refused() {
        let mut merged = SourceMerger::default();
        merged.add(source("a", [])).unwrap();
        assert_eq!(merged.add(source("a", [])).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_time_that_cannot_be_told_from_others_is_refused() {
        let mut merged = SourceMerger::default();
        merged.add(source("a", [u64::MAX])).unwrap();
        assert_eq!(all(&mut merged).len(), 1, "one source keeps its times");
        merged.add(source("b", [])).unwrap();
        merged.seek(|_| 0).unwrap();
        assert_eq!(merged.next_item().unwrap_err().code(), Code::Overflow);
    }

    proptest! {
        #[test]
        fn merging_sorts_by_time_and_goes_on_at_any_place(
            rounds in proptest::collection::vec(proptest::collection::btree_set(0_u64..50, 0..20), 1..4),
            is_reversed in any::<bool>(),
        ) {
            let names = ["a", "b", "c", "d"];
            let mut named_rounds: Vec<_> = names.iter().zip(&rounds).collect();
            if is_reversed {
                named_rounds.reverse();
            }
            let mut merged = SourceMerger::default();
            for (name, rounds) in named_rounds {
                merged.add(source(name, rounds.iter().copied())).unwrap();
            }
            let expected_items = all(&mut merged);
            let expected: BTreeSet<(u64, usize)> =
                rounds.iter().enumerate().flat_map(|(n, set)| set.iter().map(move |r| (*r, n))).collect();
            let actual: Vec<(u64, usize)> = expected_items.iter().map(|one| (one.item, one.source)).collect();
            prop_assert_eq!(&actual, &expected.into_iter().collect::<Vec<_>>());
            prop_assert!(expected_items.windows(2).all(|pair| pair[0].time < pair[1].time));

            let mut positions = vec![0; rounds.len()];
            for cut in 0..=expected_items.len() {
                // Items that were read ahead are discarded.
                merged.seek(|_| 0).unwrap();
                merged.next_item().unwrap();
                merged.seek(|name| positions[names.iter().position(|one| *one == name).unwrap()]).unwrap();
                prop_assert_eq!(&all(&mut merged)[..], &expected_items[cut..]);
                if let Some(one) = expected_items.get(cut) {
                    positions[one.source] = one.position;
                }
            }
        }
    }
}
