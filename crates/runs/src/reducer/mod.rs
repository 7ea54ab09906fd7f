//! User-defined reducers: pure folds over the events of a run.
//!
//! ```text
//!   Reducer: a state of its own type, one event at a time      user code
//!      |
//!   AnyReducer: states as values, a page at a time             used by views; panics become errors
//! ```

mod reducer_state_store;
mod reducer_view;
mod reproject;

pub use reducer_state_store::{EngineStateStore, MemoryStateStore, ReducerStateStore};
pub use reducer_view::{ReducerView, STORE_AFTER_EVENTS};
pub use reproject::{Failure, Progress, Reprojection};

use mainstay_model::{
    CanonicalEvent, Code, Error, Result, RunSnapshot, Value, from_value, reduce, to_value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A user-defined fold over events. It must be pure: equal events give equal states in every replay. A change
/// of the result needs a new version, and then all runs are projected again.
///
/// ```
/// use mainstay_model::CanonicalEvent;
/// use mainstay_runs::Reducer;
/// /// Counts the failed attempts.
/// struct Failures;
/// impl Reducer for Failures {
///     type State = u64;
///     fn name(&self) -> &str {
///         "failures"
///     }
///     fn version(&self) -> u64 {
///         1
///     }
///     fn initial(&self, _run: &str) -> u64 {
///         0
///     }
///     fn apply(&self, state: &mut u64, event: &CanonicalEvent) {
///         *state += u64::from(event.event_type == "StepFailed");
///     }
/// }
/// ```
pub trait Reducer: Send + Sync {
    /// The state.
    type State: Serialize + DeserializeOwned;

    /// The reducer's name, under which its states are stored.
    fn name(&self) -> &str;

    /// The reducer's version. States of another version are not used.
    fn version(&self) -> u64;

    /// The state of a run without events.
    fn initial(&self, run: &str) -> Self::State;

    /// Applies an event to the state.
    fn apply(&self, state: &mut Self::State, event: &CanonicalEvent);
}

/// A type-erased reducer whose states are values.
pub trait AnyReducer: Send + Sync {
    /// The reducer's name.
    fn name(&self) -> &str;

    /// The reducer's version.
    fn version(&self) -> u64;

    /// The state of a run without events.
    fn initial(&self, run: &str) -> Result<Value>;

    /// Applies events to a state. A panic becomes an error that names the event. The state is lost then, but
    /// the log is not affected.
    fn fold(&self, state: Value, events: &[CanonicalEvent]) -> Result<Value>;
}

impl<R: Reducer> AnyReducer for R {
    fn name(&self) -> &str {
        Reducer::name(self)
    }

    fn version(&self) -> u64 {
        Reducer::version(self)
    }

    fn initial(&self, run: &str) -> Result<Value> {
        let result = catch_unwind(AssertUnwindSafe(|| Reducer::initial(self, run)));
        let state =
            result.map_err(|panic| panic_error(self, &format!("beginning run `{run}`"), &*panic));
        to_value(&state?)
    }

    fn fold(&self, state: Value, events: &[CanonicalEvent]) -> Result<Value> {
        let mut state: R::State = from_value(state)?;
        for event in events {
            // `AssertUnwindSafe` is correct: the state is not used after a panic.
            let result = catch_unwind(AssertUnwindSafe(|| self.apply(&mut state, event)));
            result.map_err(|panic| panic_error(self, &event_label(event), &*panic))?;
        }
        to_value(&state)
    }
}

fn event_label(event: &CanonicalEvent) -> String {
    let CanonicalEvent { run_seq, event_id, run_id, event_type, .. } = event;
    format!("at event {run_seq} ({event_type}, `{event_id}`) of run `{run_id}`")
}

#[cold]
fn panic_error<R: Reducer + ?Sized>(reducer: &R, place: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let message_text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!(
        "reducer `{}`, version {}, panicked {place}: {}; the log is untouched: mend the reducer and give it the \
         next version",
        reducer.name(),
        reducer.version(),
        message_text.unwrap_or("no message")
    );
    Error::new(Code::InvalidArgument, message)
}

/// The default reducer: the states of the run and of its steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultReducer;

impl Reducer for DefaultReducer {
    type State = RunSnapshot;

    fn name(&self) -> &str {
        "run"
    }

    /// Version 2 takes the attempts of events into account.
    fn version(&self) -> u64 {
        2
    }

    fn initial(&self, run: &str) -> RunSnapshot {
        RunSnapshot::new(run)
    }

    fn apply(&self, state: &mut RunSnapshot, event: &CanonicalEvent) {
        reduce(state, event);
    }
}
