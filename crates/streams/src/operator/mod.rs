//! Operators: pure functions from a key's state and an item to a new state and outputs.
//!
//! ```text
//!   item --key--> (state of the key, item, time) --apply--> new state, outputs
//!                                                    |
//!                        a time that is not newer than the key's: already applied, skipped
//! ```
//!
//! An operator only computes. The [`Pipeline`](crate::Pipeline) reads and writes its state and delivers its
//! outputs.

mod stateful;
mod window;

pub use stateful::StatefulOperator;
pub use window::{Window, WindowOperator, WindowState, Windows};

use mainstay_model::{LogicalTime, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Extracts an item's key.
pub(crate) type KeyFn<I> = dyn Fn(&I) -> Vec<u8> + Send + Sync;

/// A keyed, stateful operator.
///
/// Its functions are pure: they use no clock, no randomness and no memory of their own. Equal arguments give
/// equal results.
pub trait Operator: Send {
    /// The type of input items.
    type Item;
    /// The state per key, stored as JSON. A type with nondeterministic JSON, such as a `HashMap`, makes equal
    /// states look different.
    type State: Serialize + DeserializeOwned;
    /// The type of outputs.
    type Out;

    /// The operator's name. It is part of its outputs' ids, so it must never change.
    fn name(&self) -> &str;

    /// Rejects invalid settings.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The key of an item, 1 to 1,024 bytes.
    fn key(&self, item: &Self::Item) -> Vec<u8>;

    /// Applies an item to its key's state.
    fn apply(
        &self,
        state: Option<Self::State>,
        item: &Self::Item,
        context: ApplyContext,
    ) -> Result<ApplyResult<Self::State, Self::Out>>;

    /// The event-time behaviour; `None` for an operator without event time.
    fn event_time(&self) -> Option<&dyn EventTime<Self::Item, Self::State, Self::Out>> {
        None
    }
}

/// The time at which an item is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyContext {
    /// The item's logical time, which becomes the version of its key's state.
    pub time: LogicalTime,
    /// The watermark including this item, in milliseconds; 0 for an operator without event time.
    pub watermark_ms: u64,
}

/// The result of applying an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyResult<S, O> {
    /// The new state; `None` deletes the key.
    pub state: Option<S>,
    /// The outputs, in order.
    pub outputs: Vec<O>,
    /// True if the item was late and dropped.
    pub late: bool,
}

/// The event-time behaviour of an operator. Due times are derived from a key's state, so no separate timers
/// are stored.
pub trait EventTime<I, S, O> {
    /// The allowed lateness, in milliseconds.
    fn lateness_ms(&self) -> u64;

    /// The event time of an item, in milliseconds.
    fn event_ms(&self, item: &I) -> Result<u64>;

    /// The first due time of a state after `after_ms`, above 0. A state without a due time has expired and is
    /// deleted with the key's next item or with another item.
    fn next_end_ms(&self, state: &S, after_ms: u64) -> Option<u64>;

    /// The outputs of a state at exactly this due time, each with its version.
    fn fire(&self, state: &S, end_ms: u64) -> Result<Vec<(LogicalTime, O)>>;
}
