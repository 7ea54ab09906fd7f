//! Which windows there are.

use mainstay_model::{Code, Error, Result};

/// The latest event time, and the longest window, in milliseconds: the end of a window is always a number.
pub(super) const EVENT_LIMIT_MS: u64 = i64::MAX as u64;
/// The most windows that one item is in.
const OVERLAP_LIMIT: u64 = 1_024;

/// Which windows there are. A window has its start and ends right before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Windows {
    /// One behind the other, all of one size, from 0 on.
    Tumbling {
        /// The size.
        size_ms: u64,
    },
    /// All of one size, one beginning with each slide, from 0 on: an item is in several.
    Sliding {
        /// The size.
        size_ms: u64,
        /// From one's start to the next one's.
        slide_ms: u64,
    },
    /// As long as a key's items are less than a gap apart; the window ends a gap behind the last.
    Session {
        /// The gap.
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

    pub(super) fn with(self, other: Span) -> Span {
        Span { start_ms: self.start_ms.min(other.start_ms), end_ms: self.end_ms.max(other.end_ms) }
    }
}

impl Windows {
    /// Windows one behind the other.
    pub fn tumbling(size_ms: u64) -> Windows {
        Windows::Tumbling { size_ms }
    }

    /// Windows that overlap.
    pub fn sliding(size_ms: u64, slide_ms: u64) -> Windows {
        Windows::Sliding { size_ms, slide_ms }
    }

    /// Windows that are as long as something happens.
    pub fn session(gap_ms: u64) -> Windows {
        Windows::Session { gap_ms }
    }

    /// Refuses sizes that make no sense.
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

    /// The windows that something is in which happens at a time; for a session, the one it has if there is nothing else.
    pub(super) fn spans(self, event_ms: u64) -> Vec<Span> {
        let of = |start_ms, size_ms| Span { start_ms, end_ms: start_ms + size_ms };
        match self {
            Windows::Tumbling { size_ms } => vec![of(event_ms - event_ms % size_ms, size_ms)],
            Windows::Session { gap_ms } => vec![of(event_ms, gap_ms)],
            Windows::Sliding { size_ms, slide_ms } => {
                let last = event_ms / slide_ms;
                let starts = (0..=last).rev().map(|n| n * slide_ms);
                let mut spans: Vec<Span> = starts
                    .map(|start_ms| of(start_ms, size_ms))
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
