//! The windows of a key.

use super::kind::Span;
use mainstay_model::{LogicalTime, Result};
use serde::{Deserialize, Serialize};

/// A window, and what its items were folded to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window<A> {
    /// When it starts.
    pub start_ms: u64,
    /// When it is over: the first millisecond behind it.
    pub end_ms: u64,
    /// What its items were folded to.
    pub value: A,
}

impl<A> Window<A> {
    /// The version of its output.
    pub fn version(&self) -> LogicalTime {
        LogicalTime::new(self.end_ms, self.start_ms)
    }

    pub(super) fn span(&self) -> Span {
        Span { start_ms: self.start_ms, end_ms: self.end_ms }
    }
}

/// The windows of a key that are open, by end, then by start. Some may have fired already: those that end at the
/// watermark or before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowState<A> {
    /// The windows.
    pub windows: Vec<Window<A>>,
}

impl<A> Default for WindowState<A> {
    fn default() -> WindowState<A> {
        WindowState { windows: Vec::new() }
    }
}

impl<A> WindowState<A> {
    /// Without what the watermark has passed.
    pub(super) fn without(mut self, watermark_ms: u64) -> WindowState<A> {
        self.windows.retain(|window| window.end_ms > watermark_ms);
        self
    }

    /// Itself, unless it is empty.
    pub(super) fn if_any(self) -> Option<WindowState<A>> {
        Some(self).filter(|state| !state.windows.is_empty())
    }

    /// Takes out windows in order.
    pub(super) fn take(&mut self, which: impl Fn(Span) -> bool) -> Vec<Window<A>> {
        let all = std::mem::take(&mut self.windows);
        let (taken, kept) = all.into_iter().partition(|window| which(window.span()));
        self.windows = kept;
        taken
    }

    /// Puts a window in its place.
    pub(super) fn put(&mut self, span: Span, value: Result<A>) -> Result<()> {
        let window = Window { start_ms: span.start_ms, end_ms: span.end_ms, value: value? };
        let place = self.windows.partition_point(|other| other.version() < window.version());
        self.windows.insert(place, window);
        Ok(())
    }
}
