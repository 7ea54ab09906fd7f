//! Linearizability: is there one order of all calls, true to time, in which every answer is right?
//!
//! ```text
//!   calls to one key ──search──> an order that the model agrees with
//!                        └─────> none: the shortest beginning of the history that has none, and a window of it
//! ```
//!
//! The search is Wing and Gong's with Lowe's memory of what was tried: what is done (a `Frontier`) and the state it led
//! to. Keys are checked one by one, which is enough, since linearizability is local.

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

/// A kind of thing that is called, as a pure machine.
pub trait Model {
    /// What it can be asked.
    type Asked: Debug;
    /// What it can answer.
    type Answered: Debug + PartialEq;
    /// What it is; at first the default.
    type State: Clone + Debug + Default + Eq + Hash;

    /// What it becomes, and what it answers.
    fn apply(state: &Self::State, asked: &Self::Asked) -> (Self::State, Self::Answered);
}

/// A call to a thing of this kind.
pub type CallTo<M> = Call<<M as Model>::Asked, <M as Model>::Answered>;

/// Checks all calls that were made to one key; gives how many of them ran beside another.
pub fn check<M: Model>(calls: &[CallTo<M>]) -> Result<u64, String> {
    match Search::<M>::new(calls, u64::MAX).run() {
        Found::Order => Ok(beside(calls)),
        Found::Nothing { .. } => Err(report::of::<M>(calls)),
        Found::TooMuch => Err(format!("{} calls have too many orders to decide on", calls.len())),
    }
}

/// How many calls ran beside another one.
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
