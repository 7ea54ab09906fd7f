//! Jobs, a sweeper and locks on the records of a Mainstay database.
//!
//! ```
//! use mainstay::Database;
//! use mainstay_jobs::{Jobs, Retry, Settings, State, Submission};
//!
//! let jobs = Jobs::open(&Database::memory()?, Settings::default())?;
//! jobs.submit(&Submission::new("email", "1").params("to: a@b.c"))?;
//! jobs.submit(&Submission::new("report", "1").depends_on_job("email", "1"))?;
//!
//! // Of any number of workers one gets it, with a token that fences all who had it before.
//! let claimed = jobs.claim("email", "worker 1", None)?.expect("there is one");
//! assert_eq!(jobs.params(&claimed.job)?.as_deref(), Some(&b"to: a@b.c"[..]));
//! jobs.step(&claimed.grant, 1, Some(2))?;
//! assert_eq!(jobs.complete(&claimed.grant, Some(b"sent"))?, State::Completed);
//!
//! // What waited for it can run now.
//! let claimed = jobs.claim("report", "worker 1", None)?.expect("it is pending");
//! assert_eq!(jobs.fail(&claimed.grant, "no paper", Retry::Now)?, State::Pending);
//! # Ok::<(), mainstay::Error>(())
//! ```
//!
//! ```text
//!   Submission --submit--> blocked --dependencies--> pending --claim--> claimed, running --> completed
//!                                                       ^                     |
//!                                                       '-- fail, sweep ------'------------> failed
//! ```
//!
//! A job is a record under `{namespace}state.tasks.{type}.{id}`; its fields are in [`field`]. Everything here is
//! made of transactions on the public interface of the database, so records, history and feed show all of it.
//!
//! Whoever writes such a record by hand gives it `task_type`, `task_id`, `state` and a `rank`, its place in the queue; one
//! without a rank is never claimed:
//!
//! ```
//! # use mainstay::{Database, Fields};
//! # use mainstay_jobs::{Jobs, Settings};
//! # let db = Database::memory()?;
//! let jobs = Jobs::open(&db, Settings::default())?;
//! let fields = [("task_type", "email"), ("task_id", "2"), ("state", "pending"), ("rank", "0")];
//! db.records().put("mainstay.state.tasks.email.2", &Fields::of(fields)?, None)?;
//! assert!(jobs.claim("email", "worker 1", None)?.is_some());
//! # Ok::<(), mainstay::Error>(())
//! ```
//!
//! Three rules hold:
//!
//! - A grant's **token** is the revision of the claim. Every write of a holder is fenced by it: once the job was
//!   taken away, its old holder gets `Fenced`, always.
//! - A call whose **reply was lost** can be repeated: completing or failing twice by the same token answers the
//!   same and does nothing twice.
//! - A **lease** ends when the sweeper takes the job away, not by itself: a late heartbeat before that keeps it.

mod asynchronous;
mod bell;
mod claim;
mod failure;
mod figures;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod graph;
mod hand;
mod holder;
mod job;
mod jobs;
mod lock;
mod locks;
mod manage;
mod name;
mod objects;
mod operations;
mod port;
mod rank;
mod settings;
mod state;
mod submit;
mod sweeper;
mod tidy;
mod version;
mod wait;
mod within;

pub use asynchronous::{AsyncJobs, AsyncLocks};
pub use claim::{Claimed, Grant};
pub use figures::JobFigures;
pub use holder::Retry;
pub use job::{Job, field};
pub use jobs::Jobs;
pub use lock::LockHolder;
pub use locks::Locks;
pub use name::{JobName, NAME_LIMIT_BYTES};
pub use operations::JobPage;
pub use settings::{INLINE_LIMIT_BYTES, Serve, Settings, TypeSettings};
pub use state::{STATES, State};
pub use submit::Submission;
pub use sweeper::{Sweep, SweepReport, Sweeper, SweeperFigures};
pub use tidy::TidyReport;
pub use version::JobVersion;
pub use within::{ClaimedIn, JobsIn, LocksIn, TokenIn};
