//! Checks that a source's times strictly increase.

use super::{Source, SourceItem};
use mainstay_model::{Code, Error, LogicalTime, Result};

/// Checks a source: its times must strictly increase and its positions must not decrease. Otherwise new items
/// would look like already applied ones and be lost silently.
///
/// ```
/// use mainstay_model::{ErrorKind, LogicalTime};
/// use mainstay_streams::{Items, MonotonicSource, Source};
/// let time = |round| LogicalTime::new(0, round);
/// let mut source = MonotonicSource::new(Items::with_times("clicks", [(time(7), "a"), (time(7), "b")]));
/// source.next()?;
/// assert_eq!(source.next().unwrap_err().kind(), ErrorKind::Invalid);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MonotonicSource<S> {
    source: S,
    last: Option<(LogicalTime, u64)>,
}

impl<S: Source> MonotonicSource<S> {
    /// Wraps a source.
    pub fn new(source: S) -> MonotonicSource<S> {
        MonotonicSource { source, last: None }
    }

    fn check_increasing(&self, item: &SourceItem<S::Item>) -> Result<()> {
        let Some((time, position)) = self.last else { return Ok(()) };
        if item.time > time && item.position >= position {
            return Ok(());
        }
        let name = self.source.name();
        let message = if item.time <= time {
            format!(
                "source `{name}` gives time {} after time {time}: times of a source have to rise, each item having its own",
                item.time
            )
        } else {
            format!(
                "source `{name}` gives position {} after position {position}: positions do not go back",
                item.position
            )
        };
        Err(Error::new(Code::InvalidVersion, message))
    }
}

impl<S: Source> Source for MonotonicSource<S> {
    type Item = S::Item;

    fn name(&self) -> &str {
        self.source.name()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        // Items that are read again have the same times as before.
        self.last = None;
        self.source.seek(position)
    }

    fn next(&mut self) -> Result<Option<SourceItem<S::Item>>> {
        let next = self.source.next()?;
        if let Some(item) = &next {
            self.check_increasing(item)?;
            self.last = Some((item.time, item.position));
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Items;

    fn source(rounds: &[u64]) -> MonotonicSource<Items<()>> {
        MonotonicSource::new(Items::with_times(
            "s",
            rounds.iter().map(|round| (LogicalTime::new(1, *round), ())),
        ))
    }

    #[test]
    fn a_source_that_goes_back_is_refused_with_both_times() {
        let mut source = source(&[5, 4]);
        source.next().unwrap();
        let error = source.next().unwrap_err();
        assert_eq!(error.code(), Code::InvalidVersion);
        assert!(error.message().starts_with("source `s` gives time 1.4 after time 1.5"), "{error}");
    }

    #[test]
    fn going_back_by_seeking_is_no_fault() {
        let mut source = source(&[4, 5]);
        source.next().unwrap();
        source.next().unwrap();
        source.seek(0).unwrap();
        assert_eq!(source.next().unwrap().unwrap().time, LogicalTime::new(1, 4));
    }
}
