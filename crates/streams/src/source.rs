//! Sources: where items come from, each with its time and the position behind it.
//!
//! ```text
//!   Items, Lines, JsonLines --Rising: time must rise--.
//!   Items, Lines, JsonLines --Rising------------------+--Merged: by time, then by name--> pipeline
//!                                  seek(position) <---'                 positions, one per source
//! ```
//!
//! An item's time comes from its source, never from its arrival: what is read again has the time that it had, and
//! that is what makes applying it a second time harmless.

mod items;
mod json;
mod lines;
mod merged;
mod rising;

pub use items::Items;
pub use json::JsonLines;
pub use lines::{LINE_LIMIT_BYTES, Lines};
pub use merged::{Arrived, Merged};
pub use rising::Rising;

use mainstay_model::{LogicalTime, Result};

/// Where items come from.
///
/// A source gives the same items with the same times and positions whenever it is read, and its times rise strictly.
pub trait Source: Send {
    /// What it gives.
    type Item;

    /// What it is called; its position is kept under this name.
    fn name(&self) -> &str;

    /// Goes to a position: the next item is the one behind it. Position 0 is the beginning. A source that can only go
    /// to an earlier place does that: what it gives again is known by its time.
    fn seek(&mut self, position: u64) -> Result<()>;

    /// The next item; nothing where there is none (any more, or yet).
    fn next(&mut self) -> Result<Option<Sourced<Self::Item>>>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    type Item = S::Item;

    fn name(&self) -> &str {
        (**self).name()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        (**self).seek(position)
    }

    fn next(&mut self) -> Result<Option<Sourced<S::Item>>> {
        (**self).next()
    }
}

/// An item of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The item.
    pub item: T,
    /// When it is, in its source's own time.
    pub time: LogicalTime,
    /// The position behind it: whoever goes there gets the next one.
    pub position: u64,
}
