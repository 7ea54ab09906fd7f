//! Linearizability checker: searches for a real-time order of all calls in which every response is correct.
//!
//! ```text
//!   calls to one key ──search──> an order that the model agrees with
//!                        └─────> none: the shortest prefix of the history without one, and a window of it
//! ```
//!
//! The search is Wing and Gong's with Lowe's memoization: it remembers each set of linearized calls (a
//! `Frontier`) with the resulting state. Checking each key separately is enough, because
//! linearizability is local.

mod cell;
mod frontier;
mod record;
mod report;
mod search;
#[cfg(test)]
mod tests;

pub use cell::{Cell, CellAnswered, CellAsked, CellState};
pub use record::{
    FIELDS, Put, Record, RecordAnswered, RecordAsked, RecordFields, RecordState, When, Write,
};

use super::call::Call;
use frontier::Frontier;
use search::{Found, Search};
use std::fmt::Debug;
use std::hash::Hash;

/// A sequential model of an object, as a pure state machine.
pub trait Model {
    /// The requests.
    type Asked: Debug;
    /// The responses.
    type Answered: Debug + PartialEq;
    /// The state; initially the default.
    type State: Clone + Debug + Default + Eq + Hash;

    /// Returns the next state and the response.
    fn apply(state: &Self::State, asked: &Self::Asked) -> (Self::State, Self::Answered);
}

/// A call to an object of this kind.
pub type CallTo<M> = Call<<M as Model>::Asked, <M as Model>::Answered>;

/// Checks all calls to one key. Returns how many of them were concurrent with another.
pub fn check<M: Model>(calls: &[CallTo<M>]) -> Result<u64, String> {
    match Search::<M>::new(calls, u64::MAX).run() {
        Found::Order => Ok(beside(calls)),
        Found::Nothing { .. } => Err(report::of::<M>(calls)),
        Found::TooMuch => Err(format!("{} calls have too many orders to decide on", calls.len())),
    }
}

/// Returns how many calls were concurrent with another one.
fn beside<A, R>(calls: &[Call<A, R>]) -> u64 {
    let mut spans: Vec<(u64, u64)> =
        calls.iter().map(|call| (call.invoked, call.returned())).collect();
    spans.sort_unstable();
    let mut last = 0;
    let mut count = 0;
    for (place, (invoked, returned)) in spans.iter().enumerate() {
        let next = spans.get(place + 1).map_or(u64::MAX, |next| next.0);
        count += u64::from(*invoked < last || next < *returned);
        last = last.max(*returned);
    }
    count
}
