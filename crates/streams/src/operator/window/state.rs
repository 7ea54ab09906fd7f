//! State of a key: its open windows.

use super::kind::Span;
use mainstay_model::{LogicalTime, Result};
use serde::{Deserialize, Serialize};

/// A window with its folded value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window<A> {
    /// The start, inclusive, in milliseconds.
    pub start_ms: u64,
    /// The end, exclusive, in milliseconds.
    pub end_ms: u64,
    /// The folded value of its items.
    pub value: A,
}

impl<A> Window<A> {
    /// The version of the window's output.
    pub fn version(&self) -> LogicalTime {
        LogicalTime::new(self.end_ms, self.start_ms)
    }

    pub(super) fn span(&self) -> Span {
        Span { start_ms: self.start_ms, end_ms: self.end_ms }
    }
}

/// The open windows of a key, by end, then by start. Windows that end at the watermark or before have already
/// fired.
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
    /// Drops the windows that the watermark has passed.
    pub(super) fn without_complete(mut self, watermark_ms: u64) -> WindowState<A> {
        self.windows.retain(|window| window.end_ms > watermark_ms);
        self
    }

    /// Returns the state, or `None` if it has no windows.
    pub(super) fn non_empty(self) -> Option<WindowState<A>> {
        Some(self).filter(|state| !state.windows.is_empty())
    }

    /// Removes matching windows, in order.
    pub(super) fn remove_matching(&mut self, is_match: impl Fn(Span) -> bool) -> Vec<Window<A>> {
        let all = std::mem::take(&mut self.windows);
        let (removed, retained) = all.into_iter().partition(|window| is_match(window.span()));
        self.windows = retained;
        removed
    }

    /// Inserts a window at its place.
    pub(super) fn insert(&mut self, span: Span, value: Result<A>) -> Result<()> {
        let window = Window { start_ms: span.start_ms, end_ms: span.end_ms, value: value? };
        let place = self.windows.partition_point(|other| other.version() < window.version());
        self.windows.insert(place, window);
        Ok(())
    }
}
