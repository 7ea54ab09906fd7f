//! Sources: inputs of items with times and positions.
//!
//! ```text
//!   Items, Lines, JsonLines --Rising: time must rise--.
//!   Items, Lines, JsonLines --Rising------------------+--Merged: by time, then by name--> pipeline
//!                                  seek(position) <---'                 positions, one per source
//! ```
//!
//! An item's time comes from its source and not from its arrival. An item that is read again has the same
//! time, which makes a repeated application harmless.

mod items;
mod json;
mod lines;
mod merge;
mod monotonic;

pub use items::Items;
pub use json::JsonLines;
pub use lines::{LINE_LIMIT_BYTES, Lines};
pub use merge::{MergedItem, SourceMerger};
pub use monotonic::MonotonicSource;

use mainstay_model::{LogicalTime, Result};
use std::collections::BTreeMap;

/// A place in the stream: the position of each source.
pub type SourcePositions = BTreeMap<String, u64>;

/// An input of items.
///
/// A source must always give the same items with the same times and positions. Its times must strictly
/// increase.
pub trait Source: Send {
    /// The type of items.
    type Item;

    /// The source's name, under which its position is stored.
    fn name(&self) -> &str;

    /// Goes to a position: the next item is the one after it. Position 0 is the beginning. A source may go to
    /// an earlier place instead, because repeated items are recognized by their times.
    fn seek(&mut self, position: u64) -> Result<()>;

    /// Returns the next item; `None` if none is available now.
    fn next(&mut self) -> Result<Option<SourceItem<Self::Item>>>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    type Item = S::Item;

    fn name(&self) -> &str {
        (**self).name()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        (**self).seek(position)
    }

    fn next(&mut self) -> Result<Option<SourceItem<S::Item>>> {
        (**self).next()
    }
}

/// An item of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceItem<T> {
    /// The item.
    pub item: T,
    /// Its logical time in the source.
    pub time: LogicalTime,
    /// The position after it: seeking there gives the next item.
    pub position: u64,
}
