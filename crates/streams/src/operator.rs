//! Operators: what becomes of a key's state with each item, and what leaves.
//!
//! ```text
//!   item --key--> (state of the key, item, time) --apply--> new state, outputs
//!                                                    |
//!                        a time that is not newer than the key's: applied before, and passed over
//! ```
//!
//! An operator only computes. Who reads its state, writes it and hands on its outputs is the
//! [`Pipeline`](crate::Pipeline).

mod stateful;

pub use stateful::StatefulOperator;

use mainstay_model::{LogicalTime, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A function that gives an item's key.
pub(crate) type KeyOf<I> = dyn Fn(&I) -> Vec<u8> + Send + Sync;

/// What becomes of a key's state with each item.
///
/// All of it is a function of its arguments: no clock, no chance, no memory of its own. What it is told again it
/// answers again with the same.
pub trait Operator: Send {
    /// What comes in.
    type Item;
    /// What is kept by key; in the store it is JSON. A type whose JSON is not always the same, such as a `HashMap`, makes
    /// equal states look different.
    type State: Serialize + DeserializeOwned;
    /// What goes out.
    type Out;

    /// What it is called: part of its outputs' ids, so it never changes.
    fn name(&self) -> &str;

    /// Refuses settings that make no sense.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The key that an item belongs to, 1 to 1,024 bytes.
    fn key(&self, item: &Self::Item) -> Vec<u8>;

    /// What an item makes of its key's state.
    fn apply(
        &self,
        state: Option<Self::State>,
        item: &Self::Item,
        moment: Moment,
    ) -> Result<Applied<Self::State, Self::Out>>;

    /// What it does when event time passes; nothing unless it has to do with that.
    fn event_time(&self) -> Option<&dyn EventTime<Self::Item, Self::State, Self::Out>> {
        None
    }
}

/// When an item is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The item's time, which becomes the version of its key's state.
    pub time: LogicalTime,
    /// How far event time has come with this item; 0 where there is none.
    pub watermark_ms: u64,
}

/// What an item made of its key's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied<S, O> {
    /// The state from there on; nothing: the key has none any more.
    pub state: Option<S>,
    /// What goes out, in order.
    pub outputs: Vec<O>,
    /// Whether the item came too late and was dropped.
    pub late: bool,
}

/// What an operator does when event time passes. A key's state says itself when something is due, so that nothing about
/// it has to be remembered elsewhere.
pub trait EventTime<I, S, O> {
    /// How late items may be, in milliseconds.
    fn lateness_ms(&self) -> u64;

    /// When an item happened, in milliseconds.
    fn event_ms(&self, item: &I) -> Result<u64>;

    /// When something of a state is due for the first time after a time, which is behind 0. A state with nothing due any
    /// more is over: it is deleted, with its key's next item or some other.
    fn next_end_ms(&self, state: &S, after_ms: u64) -> Option<u64>;

    /// What goes out of a state at exactly that time, each with its version.
    fn fire(&self, state: &S, end_ms: u64) -> Result<Vec<(LogicalTime, O)>>;
}
