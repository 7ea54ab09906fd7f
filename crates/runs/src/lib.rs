//! Services on runs: the outbox relay, the cold archive, user reducers, and a projector for stores with gaps.
//!
//! ```text
//!   transaction { event, message } --> outbox --Relay--> Transport: a file, memory, or user code
//!                     |
//!                    run --ended, old enough--> Archive: written, read back, deleted --import--> run
//!
//!   dyn RunStore --events--> Projector --> snapshots, alerts, statistics    for stores with gaps
//!        |
//!        '--events--> Reducer --> ReducerView: states in a ReducerStateStore for user-defined states
//!                                    ^
//!                              Reprojection: recomputes all runs for a new reducer version
//! ```
//!
//! [`GappyStore`] is an in-memory store that imitates distributed ones: sequence numbers that no event gets,
//! and events that become visible after later ones.
//!
//! ```
//! use mainstay_model::{NewEvent, RunStatus, RunStore};
//! use mainstay_runs::{GappyStore, ManualClock, Projector, Settings};
//! use std::sync::Arc;
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let time = ManualClock::at_us(1_700_000_000_000_000);
//! let store = Arc::new(GappyStore::new(time.clone()));
//! let projector = Projector::new(store.clone(), time.clone(), Settings::default())?;
//! projector.follow("r")?;
//!
//! store.append_event(NewEvent::new("r", "RunStarted").plan("1")).await?;
//! store.hide_next("r");
//! store.append_event(NewEvent::new("r", "RunPaused").plan("1")).await?;
//! store.append_event(NewEvent::new("r", "RunResumed").plan("1")).await?;
//!
//! // The second event is not visible yet: the projection waits for it and is marked stale.
//! projector.poll("r").await?;
//! assert!(projector.is_stale("r") && projector.snapshot("r").unwrap().last_event_seq == 1);
//! store.make_visible("r", 2);
//! projector.poll("r").await?;
//! assert!(!projector.is_stale("r") && projector.snapshot("r").unwrap().last_event_seq == 3);
//! # Ok::<(), mainstay_model::Error>(()) }).unwrap();
//! ```

pub mod archive;
mod clock;
mod gappy_store;
mod projector;
mod reducer;
pub mod relay;
mod threads;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use archive::fuzz;

pub use clock::{AsyncClock, ManualClock, SleepFuture, TokioClock};
pub use gappy_store::{GapBehaviour, GappyStore};
pub use projector::{
    Alert, AlertKind, Gap, Projection, ProjectionState, Projector, ProjectorCounters,
    ProjectorStats, Resync, RunStats, Settings, Severity,
};
pub use reducer::{
    AnyReducer, DefaultReducer, EngineStateStore, Failure, MemoryStateStore, Progress, Reducer,
    ReducerStateStore, ReducerView, Reprojection, STORE_AFTER_EVENTS,
};
