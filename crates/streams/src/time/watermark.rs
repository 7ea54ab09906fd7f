//! Watermark: the progress of event time.
//!
//! ```text
//!   event times   3   9   7   12        the highest so far - lateness = watermark
//!   lateness 4    0   5   5    8        a window is complete when the watermark has reached its end
//! ```

/// The progress of event time: items with earlier event times may be dropped as late. It never decreases.
///
/// It depends only on the items and never on a clock, so that the same input always gives the same watermark.
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
    /// A watermark that stays this far behind the highest event time.
    pub fn new(lateness_ms: u64) -> Watermark {
        Watermark { lateness_ms, at_ms: 0 }
    }

    /// The current value. A window that ends here or earlier is complete.
    pub fn at_ms(self) -> u64 {
        self.at_ms
    }

    /// The value after an item with this event time.
    pub fn after(self, event_ms: u64) -> u64 {
        self.at_ms.max(event_ms.saturating_sub(self.lateness_ms))
    }

    /// Processes an item's event time.
    pub fn observe(&mut self, event_ms: u64) {
        self.at_ms = self.after(event_ms);
    }

    /// Raises the watermark to a time, independent of items. A lower time is a no-op.
    pub fn advance_to(&mut self, at_ms: u64) {
        self.at_ms = self.at_ms.max(at_ms);
    }

    /// Returns whether a window that ends at this time is complete.
    pub fn has_passed(self, end_ms: u64) -> bool {
        end_ms <= self.at_ms
    }
}
