//! The watermark: how far event time has come.
//!
//! ```text
//!   event times   3   9   7   12        the highest so far - lateness = watermark
//!   lateness 4    0   5   5    8        a window is over when the watermark has reached its end
//! ```

/// How far event time has come: what happened earlier may be left out. It only rises.
///
/// It follows from the items alone, never from a clock, so that an input that is read again gives the same.
///
/// ```
/// use mainstay_streams::Watermark;
/// let mut watermark = Watermark::new(1_000);
/// watermark.observe(5_000);
/// watermark.observe(4_200);
/// assert_eq!(watermark.at_ms(), 4_000);
/// assert!(watermark.has_passed(4_000) && !watermark.has_passed(4_001));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    lateness_ms: u64,
    at_ms: u64,
}

impl Watermark {
    /// A watermark that stays so far behind the highest event time.
    pub fn new(lateness_ms: u64) -> Watermark {
        Watermark { lateness_ms, at_ms: 0 }
    }

    /// Where it is: a window that ends here or earlier is over.
    pub fn at_ms(self) -> u64 {
        self.at_ms
    }

    /// Where an event would bring it.
    pub fn after(self, event_ms: u64) -> u64 {
        self.at_ms.max(event_ms.saturating_sub(self.lateness_ms))
    }

    /// Sees an event.
    pub fn observe(&mut self, event_ms: u64) {
        self.at_ms = self.after(event_ms);
    }

    /// Rises to a time, whatever was seen; a time that is not further does nothing.
    pub fn advance_to(&mut self, at_ms: u64) {
        self.at_ms = self.at_ms.max(at_ms);
    }

    /// Whether what ends at a time is over.
    pub fn has_passed(self, end_ms: u64) -> bool {
        end_ms <= self.at_ms
    }
}
