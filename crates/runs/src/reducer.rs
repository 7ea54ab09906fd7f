//! Reducers: what a user makes of the events of a run.
//!
//! ```text
//!   Reducer: a state of its own type, one event at a time      what users write
//!      |
//!   AnyReducer: states as values, a page at a time             what workers and keepers use; panics are errors here
//! ```

use mainstay_model::{
    CanonicalEvent, Code, Error, Result, RunSnapshot, Value, from_value, reduce, to_value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is made of events. It is pure: the same events give the same state, whoever folds them and however
/// often. Whoever changes what it makes gives it the next version, and all runs are projected anew.
///
/// ```
/// use mainstay_model::CanonicalEvent;
/// use mainstay_runs::Reducer;
/// /// Counts the tries that failed.
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
    /// What it makes.
    type State: Serialize + DeserializeOwned;

    /// What it is called; its states are kept under this name.
    fn name(&self) -> &str;

    /// Its version; states of another one are not used.
    fn version(&self) -> u64;

    /// The state of a run without events.
    fn initial(&self, run: &str) -> Self::State;

    /// Adds an event to a state.
    fn apply(&self, state: &mut Self::State, event: &CanonicalEvent);
}

/// A reducer of any kind: what it makes are values.
pub trait AnyReducer: Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> u64;

    /// The state of a run without events.
    fn initial(&self, run: &str) -> Result<Value>;

    /// Adds events to a state. A panic is an error that names the event; the state is lost then, the log is not
    /// touched.
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
        let made = catch_unwind(AssertUnwindSafe(|| Reducer::initial(self, run)));
        let state =
            made.map_err(|panic| panicked(self, &format!("beginning run `{run}`"), &*panic));
        to_value(&state?)
    }

    fn fold(&self, state: Value, events: &[CanonicalEvent]) -> Result<Value> {
        let mut state: R::State = from_value(state)?;
        for event in events {
            // What a panic leaves behind is not looked at.
            let applied = catch_unwind(AssertUnwindSafe(|| self.apply(&mut state, event)));
            applied.map_err(|panic| panicked(self, &place(event), &*panic))?;
        }
        to_value(&state)
    }
}

fn place(event: &CanonicalEvent) -> String {
    let CanonicalEvent { run_seq, event_id, run_id, event_type, .. } = event;
    format!("at event {run_seq} ({event_type}, `{event_id}`) of run `{run_id}`")
}

#[cold]
fn panicked<R: Reducer + ?Sized>(reducer: &R, place: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let said = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!(
        "reducer `{}`, version {}, panicked {place}: {}; the log is untouched: mend the reducer and give it the \
         next version",
        reducer.name(),
        reducer.version(),
        said.unwrap_or("no message")
    );
    Error::new(Code::InvalidArgument, message)
}

/// The reducer that all runs have, as one among others: states of the run and of its steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultReducer;

impl Reducer for DefaultReducer {
    type State = RunSnapshot;

    fn name(&self) -> &str {
        "run"
    }

    /// The second one looks at the attempts that events name.
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
