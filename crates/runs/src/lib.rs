//! What is built on runs: the relay that sends what the outbox holds, the archive, reducers of users, and a projector
//! for stores that show gaps.
//!
//! ```text
//!   transaction { event, message } --> outbox --Relay--> Transport: a file, memory, or what a user writes
//!                     |
//!                    run --ended, old enough--> Archive: written, read back, deleted --import--> run
//!
//!   dyn RunStore --events--> Projector --> snapshots, alerts, figures     for stores that show gaps
//!        |
//!        '--events--> Reducer --> Reduced: states, kept by a StateKeeper  for what a user makes of events
//!                                    ^
//!                              Reprojection: all runs anew, for a reducer of a new version
//! ```
//!
//! [`GappyStore`] is a store in memory that shows what distributed ones do: numbers that nobody gets, and events that
//! appear behind later ones.
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
//! // The second event is not to be seen yet: the projection waits for it, and says so.
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
