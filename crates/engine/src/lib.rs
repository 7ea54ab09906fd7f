//! Mainstay, an embeddable, transactional state store: named cells with compare-and-swap, records, event
//! logs, keyed stream state, sessions, full history, branches and time travel.
//!
//! ```
//! use mainstay::{At, Database, MergeStrategy};
//!
//! let db = Database::memory()?; // or Database::open("./data")?
//! let cells = db.cells();
//!
//! // Compare-and-swap: of two writers that saw counter 1, one succeeds.
//! assert_eq!(cells.set("job", "pending")?, 1);
//! assert_eq!(cells.cas("job", Some(1), "claimed by A")?, Some(2));
//! assert_eq!(cells.cas("job", Some(1), "claimed by B")?, None);
//!
//! // A transaction: all or nothing, retried on a conflict.
//! let before = db.revision();
//! db.transaction(|t| {
//!     t.set("job", "done")?;
//!     t.incr("finished", 1)?;
//!     Ok(())
//! })?;
//!
//! // Time travel: old revisions stay readable.
//! let then = cells.at(At::Revision(before))?;
//! assert_eq!(then.get("job")?, Some("claimed by A".into()));
//!
//! // A fork costs the same for ten keys and ten million. Merge it back, or drop it.
//! db.fork("try", "main", At::Latest)?;
//! db.branch("try")?.cells().set("job", "reopened")?;
//! assert_eq!(cells.get("job")?, Some("done".into()));
//! db.merge("try", "main", MergeStrategy::Strict)?;
//! assert_eq!(cells.get("job")?, Some("reopened".into()));
//! # Ok::<(), mainstay::Error>(())
//! ```
//!
//! ```text
//!   handles: Cells, InteractiveTransaction, Connection, Branch
//!        |  Transaction { guards, steps, otherwise }          the narrow waist
//!   sequencer: execute (one writer, whole batches) -> log (one fsync per group) -> publish
//!        |  effects
//!   index: current values, write buffers, an LSM tree per retention class
//!        |
//!   readers at any retained revision      feed: every change, from the log
//! ```
//!
//! All calls block and all handles are thread-safe: clone them freely. [`Database::submit_with`] completes by
//! callback, for callers that must not block. ARCHITECTURE.md in the repository has the code map.

mod apply;
mod base;
mod commit;
mod feed;
mod fs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod handle;
mod key;
mod lifecycle;
mod log;
mod mvcc;
mod read;
pub mod remote;
mod storage;
mod tools;
pub mod wire;

pub use crate::lifecycle::engine::OpenReport;
pub use base::clock::{Clock, ManualClock, SystemClock};
#[cfg(feature = "planted")]
#[doc(hidden)]
pub use base::fault_points;
pub use base::metrics::{BackgroundStats, Buckets, Counter, DURATION_BOUNDS_US, Histogram};
pub use base::work::until_stopped;
pub use commit::ticket::Ticket;
pub use fs::atomic_file::AtomicFile;
pub use fs::disk_reserve::DiskReserve;
pub use fs::durable_dir::create_dir_all_durable;
pub use handle::branch::{Branch, BranchInfo, Difference, DifferenceKind, TagInfo};
pub use handle::cells::{Cells, CellsAt};
pub use handle::connection::Connection;
pub use handle::database::{Database, Reached};
pub use handle::feed::Feed;
pub use handle::files::WithReserve;
pub use handle::keyed::{Keyed, KeyedAt};
pub use handle::outbox::Outbox;
pub use handle::records::{Records, RecordsAt};
pub use handle::runs::{Restoring, RunTail, Runs, RunsAt};
pub use handle::sessions::{Session, SessionOptions, Sessions};
pub use handle::stats::{
    KeyedFigures, OutboxFigures, RecordFigures, RunFigures, SessionFigures, Stats, WroteFigures,
};
pub use handle::transaction::InteractiveTransaction;
pub use lifecycle::options::Options;
pub use log::{DatabaseId, File, Files, MemoryFiles};
pub use mainstay_model::*;
pub use read::read_view::ReadView;
pub use tools::backup::{
    BackupHead, BackupReport, Kind as BackupKind, backup_head, restore_backup, verify_backup,
    verify_chain,
};
/// Checks a database that may be damaged, and salvages its readable data.
pub use tools::doctor;
pub use tools::export::{ExportContents, ExportReport, ImportReport, Progress, verify_export};
