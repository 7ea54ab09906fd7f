//! Kinds of windows, and the assignment of items to windows.

use mainstay_model::{Code, Error, Result};

/// The latest event time and the longest window, in milliseconds. The end of a window then always fits a
/// `u64`.
pub(super) const EVENT_LIMIT_MS: u64 = i64::MAX as u64;
/// The most windows that one item belongs to.
const OVERLAP_LIMIT: u64 = 1_024;

/// A kind of windows. A window includes its start and excludes its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Windows {
    /// Consecutive windows of equal size, starting at 0.
    Tumbling {
        /// The size, in milliseconds.
        size_ms: u64,
    },
    /// Overlapping windows of equal size, one starting with each slide, from 0 on. An item belongs to several
    /// windows.
    Sliding {
        /// The size, in milliseconds.
        size_ms: u64,
        /// The distance between two starts, in milliseconds.
        slide_ms: u64,
    },
    /// A window lasts while a key's items are less than a gap apart. It ends one gap after the last item.
    Session {
        /// The gap, in milliseconds.
        gap_ms: u64,
    },
}

/// A span of event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
}

impl Span {
    pub(super) fn overlaps(self, other: Span) -> bool {
        self.start_ms < other.end_ms && other.start_ms < self.end_ms
    }

    pub(super) fn union(self, other: Span) -> Span {
        Span { start_ms: self.start_ms.min(other.start_ms), end_ms: self.end_ms.max(other.end_ms) }
    }
}

impl Windows {
    /// Consecutive windows.
    pub fn tumbling(size_ms: u64) -> Windows {
        Windows::Tumbling { size_ms }
    }

    /// Overlapping windows.
    pub fn sliding(size_ms: u64, slide_ms: u64) -> Windows {
        Windows::Sliding { size_ms, slide_ms }
    }

    /// Session windows.
    pub fn session(gap_ms: u64) -> Windows {
        Windows::Session { gap_ms }
    }

    /// Rejects invalid sizes.
    pub fn check(self) -> Result<()> {
        let (size_ms, slide_ms) = match self {
            Windows::Tumbling { size_ms } => (size_ms, size_ms),
            Windows::Sliding { size_ms, slide_ms } => (size_ms, slide_ms),
            Windows::Session { gap_ms } => (gap_ms, gap_ms),
        };
        let is_size = (1..=EVENT_LIMIT_MS).contains(&size_ms);
        let is_slide = (1..=size_ms).contains(&slide_ms);
        if is_size && is_slide && size_ms.div_ceil(slide_ms) <= OVERLAP_LIMIT {
            return Ok(());
        }
        let message = format!(
            "{self:?}: a size or gap is at least 1 ms, a slide is at least 1 ms and not more than the size, and an item is in at most {OVERLAP_LIMIT} windows"
        );
        Err(Error::new(Code::InvalidOption, message))
    }

    /// The windows of an item at an event time. For a session, the window of the item alone.
    pub(super) fn spans(self, event_ms: u64) -> Vec<Span> {
        let span = |start_ms, size_ms| Span { start_ms, end_ms: start_ms + size_ms };
        match self {
            Windows::Tumbling { size_ms } => vec![span(event_ms - event_ms % size_ms, size_ms)],
            Windows::Session { gap_ms } => vec![span(event_ms, gap_ms)],
            Windows::Sliding { size_ms, slide_ms } => {
                let last = event_ms / slide_ms;
                let starts = (0..=last).rev().map(|n| n * slide_ms);
                let mut spans: Vec<Span> = starts
                    .map(|start_ms| span(start_ms, size_ms))
                    .take_while(|span| span.end_ms > event_ms)
                    .collect();
                spans.reverse();
                spans
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_in_these_windows() {
        let spans = |windows: Windows, event_ms| -> Vec<(u64, u64)> {
            let spans = windows.spans(event_ms).into_iter();
            spans.map(|span| (span.start_ms, span.end_ms)).collect()
        };
        assert_eq!(spans(Windows::tumbling(10), 9), [(0, 10)]);
        assert_eq!(spans(Windows::tumbling(10), 10), [(10, 20)]);
        assert_eq!(spans(Windows::sliding(10, 5), 12), [(5, 15), (10, 20)]);
        assert_eq!(spans(Windows::sliding(10, 5), 3), [(0, 10)]);
        assert_eq!(spans(Windows::sliding(10, 4), 11), [(4, 14), (8, 18)]);
        assert_eq!(spans(Windows::session(10), 3), [(3, 13)]);
        let last = spans(Windows::tumbling(EVENT_LIMIT_MS), EVENT_LIMIT_MS);
        assert_eq!(last, [(EVENT_LIMIT_MS, 2 * EVENT_LIMIT_MS)]);
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let refused = [
            Windows::tumbling(0),
            Windows::tumbling(u64::MAX),
            Windows::sliding(10, 0),
            Windows::sliding(10, 11),
            Windows::sliding(1_000_000, 1),
            Windows::session(0),
        ];
        for windows in refused {
            assert_eq!(windows.check().unwrap_err().code(), Code::InvalidOption, "{windows:?}");
        }
    }
}
