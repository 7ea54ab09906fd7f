//! Services on runs: the outbox relay, the cold archive, user reducers, and a projector for stores with gaps.
//!
//! ```text
//!   transaction { event, message } --> outbox --Relay--> Transport: a file, memory, or user code
//!                     |
//!                    run --ended, old enough--> Archive: written, read back, deleted --import--> run
//!
//!   dyn RunStore --events--> Projector --> snapshots, alerts, figures       for stores with gaps
//!        |
//!        '--events--> Reducer --> Reduced: states, stored by a StateKeeper  for user-defined states
//!                                    ^
//!                              Reprojection: recomputes all runs for a new reducer version
//! ```
//!
//! [`GappyStore`] is an in-memory store that imitates distributed ones: sequence numbers that no event gets,
//! and events that become visible after later ones.
//!
//! ```
//! use mainstay_model::{NewEvent, RunStatus, RunStore};
//! use mainstay_runs::{GappyStore, HandTime, Projector, Settings};
//! use std::sync::Arc;
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let time = HandTime::at_us(1_700_000_000_000_000);
//! let store = Arc::new(GappyStore::new(time.clone()));
//! let projector = Projector::new(store.clone(), time.clone(), Settings::default())?;
//! projector.follow("r")?;
//!
//! store.append_event(NewEvent::new("r", "RunStarted").plan("1")).await?;
//! store.hold_next("r");
//! store.append_event(NewEvent::new("r", "RunPaused").plan("1")).await?;
//! store.append_event(NewEvent::new("r", "RunResumed").plan("1")).await?;
//!
//! // The second event is not visible yet: the projection waits for it and is marked stale.
//! projector.poll("r").await?;
//! assert!(projector.is_stale("r") && projector.snapshot("r").unwrap().last_event_seq == 1);
//! store.show("r", 2);
//! projector.poll("r").await?;
//! assert!(!projector.is_stale("r") && projector.snapshot("r").unwrap().last_event_seq == 3);
//! # Ok::<(), mainstay_model::Error>(()) }).unwrap();
//! ```

mod alert;
pub mod archive;
mod figures;
mod gap;
mod gappy;
mod keeper;
mod projection;
mod projector;
mod reduced;
mod reducer;
pub mod relay;
mod reproject;
mod settings;
mod time;
mod worker;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use archive::fuzz;

pub use alert::{Alert, AlertKind, Severity};
pub use figures::{Counted, Figures, RunFigures};
pub use gap::Gap;
pub use gappy::{GappyStore, Habit};
pub use keeper::{EngineKeeper, MemoryKeeper, StateKeeper};
pub use projection::{Projection, ProjectionState};
pub use projector::{Projector, Resync};
pub use reduced::{KEEP_AFTER_EVENTS, Reduced};
pub use reducer::{AnyReducer, DefaultReducer, Reducer};
pub use reproject::{Failure, Progress, Reprojection};
pub use settings::Settings;
pub use time::{HandTime, Sleeping, Time, TokioTime};
