//! K-way merge of sources by logical time.
//!
//! ```text
//!   a   0.1      0.3               0.2  0.3  0.6        round * 2 + index: all are distinct
//!   b       0.1      0.3     -->   0.2  0.3  0.6  0.7
//! ```

use super::{Rising, Source, Sourced};
use mainstay_model::{Code, Error, LogicalTime, Result};

/// Merges several sources of the same item type, by time, then by source index. Sources are sorted by name,
/// so the order in which they are added does not matter.
///
/// The order depends only on the times and not on the sources' speed. A source without an item is at its end.
/// If it later gives an item that is older than those of other sources, it is refused.
///
/// ```
/// use mainstay_streams::{Items, Merged};
/// let mut both = Merged::default();
/// both.add(Items::new("odd", [1, 3]))?;
/// both.add(Items::new("even", [0, 2]))?;
/// let mut read = Vec::new();
/// while let Some(arrived) = both.arrive()? {
///     read.push((arrived.item, arrived.time.round));
/// }
/// assert_eq!(read, [(0, 0), (1, 1), (2, 2), (3, 3)]);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct Merged<T> {
    inlets: Vec<Inlet<T>>,
    last: Option<LogicalTime>,
}

/// A source with its next item, if known.
struct Inlet<T> {
    source: Rising<Box<dyn Source<Item = T>>>,
    head: Option<Sourced<T>>,
}

/// An item of one of several sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived<T> {
    /// The item.
    pub item: T,
    /// Its time, unique among all sources.
    pub time: LogicalTime,
    /// The index of its source.
    pub source: usize,
    /// The position after it in its source.
    pub position: u64,
}

impl<T> Default for Merged<T> {
    fn default() -> Merged<T> {
        Merged { inlets: Vec::new(), last: None }
    }
}

impl<T> Merged<T> {
    /// Adds a source, whose name must be unique.
    pub fn add(&mut self, source: impl Source<Item = T> + 'static) -> Result<()> {
        let place = self.inlets.binary_search_by(|inlet| inlet.source.name().cmp(source.name()));
        let Err(place) = place else {
            let message = format!("two sources are called `{}`: rename one", source.name());
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let source: Box<dyn Source<Item = T>> = Box::new(source);
        self.inlets.insert(place, Inlet { source: Rising::new(source), head: None });
        Ok(())
    }

    /// The sources' names, sorted. An [`Arrived`] refers to them by index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inlets.iter().map(|inlet| inlet.source.name())
    }

    /// Moves all sources to their positions.
    pub fn seek(&mut self, position: impl Fn(&str) -> u64) -> Result<()> {
        self.last = None;
        for inlet in &mut self.inlets {
            inlet.head = None;
            let to = position(inlet.source.name());
            inlet.source.seek(to)?;
        }
        Ok(())
    }

    /// Returns the source index of the next item and the position after it; `None` if all sources are
    /// exhausted.
    pub fn peek(&mut self) -> Result<Option<(usize, u64)>> {
        let Some((_, source)) = self.lowest()? else { return Ok(None) };
        Ok(self.inlets[source].head.as_ref().map(|head| (source, head.position)))
    }

    /// The source whose next item has the lowest time.
    fn lowest(&mut self) -> Result<Option<(LogicalTime, usize)>> {
        for inlet in &mut self.inlets {
            if inlet.head.is_none() {
                inlet.head = inlet.source.next()?;
            }
        }
        let times = self.inlets.iter().enumerate();
        let heads = times.filter_map(|(n, inlet)| Some((inlet.head.as_ref()?.time, n)));
        Ok(heads.min())
    }

    /// Returns the item with the lowest time; `None` if all sources are exhausted.
    pub fn arrive(&mut self) -> Result<Option<Arrived<T>>> {
        let Some((time, source)) = self.lowest()? else { return Ok(None) };
        let time = self.distinct(time, source)?;
        self.check(time, source)?;
        self.last = Some(time);
        let taken = self.inlets[source].head.take();
        Ok(taken.map(|Sourced { item, position, .. }| Arrived { item, time, source, position }))
    }

    /// Maps a source's time to one that no other source has.
    fn distinct(&self, time: LogicalTime, source: usize) -> Result<LogicalTime> {
        let round = time.round.checked_mul(self.inlets.len() as u64);
        let round = round.and_then(|round| round.checked_add(source as u64));
        let round = round.ok_or_else(|| {
            let name = self.inlets[source].source.name();
            let message = format!(
                "source `{name}` gives time {time}, which is too large to be one of {} sources: begin a new epoch",
                self.inlets.len()
            );
            Error::new(Code::Overflow, message)
        })?;
        Ok(LogicalTime::new(time.epoch, round))
    }

    fn check(&self, time: LogicalTime, source: usize) -> Result<()> {
        match self.last {
            Some(last) if time <= last => {
                let name = self.inlets[source].source.name();
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
        Items::timed(name, rounds.map(|round| (LogicalTime::new(1, round), round)))
    }

    fn all<T>(merged: &mut Merged<T>) -> Vec<Arrived<T>> {
        std::iter::from_fn(|| merged.arrive().unwrap()).collect()
    }

    #[test]
    fn two_sources_of_one_name_are_refused() {
        let mut merged = Merged::default();
        merged.add(source("a", [])).unwrap();
        assert_eq!(merged.add(source("a", [])).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_time_that_cannot_be_told_from_others_is_refused() {
        let mut merged = Merged::default();
        merged.add(source("a", [u64::MAX])).unwrap();
        assert_eq!(all(&mut merged).len(), 1, "one source keeps its times");
        merged.add(source("b", [])).unwrap();
        merged.seek(|_| 0).unwrap();
        assert_eq!(merged.arrive().unwrap_err().code(), Code::Overflow);
    }

    proptest! {
        #[test]
        fn merging_sorts_by_time_and_goes_on_at_any_place(
            rounds in proptest::collection::vec(proptest::collection::btree_set(0_u64..50, 0..20), 1..4),
            backwards in any::<bool>(),
        ) {
            let names = ["a", "b", "c", "d"];
            let mut given: Vec<_> = names.iter().zip(&rounds).collect();
            if backwards {
                given.reverse();
            }
            let mut merged = Merged::default();
            for (name, rounds) in given {
                merged.add(source(name, rounds.iter().copied())).unwrap();
            }
            let whole = all(&mut merged);
            let expected: BTreeSet<(u64, usize)> =
                rounds.iter().enumerate().flat_map(|(n, set)| set.iter().map(move |r| (*r, n))).collect();
            let got: Vec<(u64, usize)> = whole.iter().map(|one| (one.item, one.source)).collect();
            prop_assert_eq!(&got, &expected.into_iter().collect::<Vec<_>>());
            prop_assert!(whole.windows(2).all(|pair| pair[0].time < pair[1].time));

            let mut positions = vec![0; rounds.len()];
            for cut in 0..=whole.len() {
                // Items that were read ahead are discarded.
                merged.seek(|_| 0).unwrap();
                merged.arrive().unwrap();
                merged.seek(|name| positions[names.iter().position(|one| *one == name).unwrap()]).unwrap();
                prop_assert_eq!(&all(&mut merged)[..], &whole[cut..]);
                if let Some(one) = whole.get(cut) {
                    positions[one.source] = one.position;
                }
            }
        }
    }
}
