//! Job queue with dependencies, leases and retries, and locks, on the records of a Mainstay database.
//!
//! ```
//! use mainstay::Database;
//! use mainstay_jobs::{Jobs, Retry, Settings, State, Submission};
//!
//! let jobs = Jobs::open(&Database::memory()?, Settings::default())?;
//! jobs.submit(&Submission::new("email", "1").params("to: a@b.c"))?;
//! jobs.submit(&Submission::new("report", "1").depends_on_job("email", "1"))?;
//!
//! // Of any number of workers one gets the job, with a token that fences all earlier holders.
//! let claimed = jobs.claim("email", "worker 1", None)?.expect("there is one");
//! assert_eq!(jobs.params(&claimed.job)?.as_deref(), Some(&b"to: a@b.c"[..]));
//! jobs.step(&claimed.grant, 1, Some(2))?;
//! assert_eq!(jobs.complete(&claimed.grant, Some(b"sent"))?, State::Completed);
//!
//! // The dependent job can run now.
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
//! A job is a record under `{namespace}state.tasks.{type}.{id}`. Its fields are in [`field`]. All
//! operations are transactions on the public API of the database, so records, history and feed show all of
//! them.
//!
//! A record written by hand needs `task_type`, `task_id`, `state` and a `rank`, its position in the queue.
//! A record without a rank is never claimed:
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
//! - A grant's **token** is the revision of the claim, and fences every write of the holder. Once the job was taken
//!   away, every write of its old holder fails with `Fenced`.
//! - A call whose **reply was lost** can be repeated: completing or failing twice with the same token returns the same
//!   result and has no further effect.
//! - A **lease** ends when the sweeper takes the job away, not by itself: a late heartbeat before that still keeps it.

mod backend;
mod dispatch;
mod failure;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod handles;
mod maintenance;
mod model;
mod objects;
mod operations;
mod settings;
mod stats;

pub use handles::asynchronous::{AsyncJobs, AsyncLocks};
pub use handles::in_transaction::{JobsTx, LocksTx, UncommittedClaim, UncommittedToken};
pub use handles::jobs::Jobs;
pub use handles::locks::Locks;
pub use maintenance::gc::GcReport;
pub use maintenance::sweep::SweepReport;
pub use maintenance::sweeper::{Sweep, Sweeper, SweeperStats};
pub use model::job::{Job, field};
pub use model::name::{JobName, NAME_LIMIT_BYTES};
pub use model::state::{STATES, State};
pub use model::version::JobVersion;
pub use operations::JobPage;
pub use operations::claim::{ClaimedJob, Grant};
pub use operations::lock::LockHolder;
pub use operations::submit::Submission;
pub use operations::worker_ops::Retry;
pub use settings::{INLINE_LIMIT_BYTES, ServedBranches, Settings, TypeSettings};
pub use stats::JobStats;
