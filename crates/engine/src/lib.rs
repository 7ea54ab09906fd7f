//! Mainstay, the state engine: named cells with compare-and-swap, transactions, full history, branches
//! and time travel, in your process.
//!
//! ```
//! use mainstay::{At, Database, MergeStrategy};
//!
//! let db = Database::memory()?; // or Database::open("./data")?
//! let cells = db.cells();
//!
//! // Compare-and-swap: of two who saw counter 1, one wins.
//! assert_eq!(cells.set("job", "pending")?, 1);
//! assert_eq!(cells.cas("job", Some(1), "claimed by A")?, Some(2));
//! assert_eq!(cells.cas("job", Some(1), "claimed by B")?, None);
//!
//! // A transaction: all or nothing, retried while it conflicts.
//! let before = db.revision();
//! db.transaction(|t| {
//!     t.set("job", "done")?;
//!     t.incr("finished", 1)?;
//!     Ok(())
//! })?;
//!
//! // Time travel: what was, stays readable.
//! let then = cells.at(At::Revision(before))?;
//! assert_eq!(then.get("job")?, Some("claimed by A".into()));
//!
//! // A fork costs the same for ten keys and ten million; merge it back, or drop it.
//! db.fork("try", "main", At::Latest)?;
//! db.branch("try")?.cells().set("job", "reopened")?;
//! assert_eq!(cells.get("job")?, Some("done".into()));
//! db.merge("try", "main", MergeStrategy::Strict)?;
//! assert_eq!(cells.get("job")?, Some("reopened".into()));
//! # Ok::<(), mainstay::Error>(())
//! ```
//!
//! ```text
//!   handles: Cells, Interactive, Connection, Branch
//!        |  Transaction { guards, steps, otherwise }          the narrow waist
//!   sequencer: execute (one writer, whole batches) -> log (one sync per group) -> publish
//!        |  effects
//!   index: current values, write buffers, a store per retention class
//!        |
//!   readers at any kept revision          feed: every change, from the log
//! ```
//!
//! Everything is blocking and thread-safe; clone handles freely. [`Database::submit_with`] completes by
//! callback for those who must not block. ARCHITECTURE.md in the repository has the map.

mod apply;
mod backup;
mod bell;
mod branch;
mod candidates;
mod catalog;
mod cells;
mod classes;
mod clock;
mod compare;
mod connection;
mod core;
mod current;
mod db;
mod dead_names;
mod declared;
/// Looks at a database that may be damaged, and saves what can be saved.
pub mod doctor;
mod entry;
mod event;
mod executor;
mod export;
mod feed;
mod figures;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod graves;
mod hashed;
mod identity;
mod index;
mod interactive;
mod keyed;
mod known;
mod log;
mod maintenance;
mod mark;
mod memtable;
mod migrate;
mod moment;
mod open;
mod opening;
mod options;
mod outbox;
mod overlay;
mod part;
mod pinned;
mod pins;
mod place;
mod places;
#[cfg(not(feature = "planted"))]
mod planted;
#[cfg(feature = "planted")]
#[doc(hidden)]
pub mod planted;
mod pour;
mod prefetch;
mod priority;
mod purge;
mod receipts;
mod records;
pub mod remote;
mod runs;
mod scan;
mod sequencer;
mod session_slots;
mod session_table;
mod sessions;
mod snapshot;
mod sorter;
mod spaces;
mod spare;
mod stats;
mod store;
mod sync;
mod ticket;
mod times;
mod told;
mod trail;
mod version;
mod view;
mod way;
pub mod wire;
mod work;
mod written;
pub use crate::core::OpenReport;
pub use backup::{
    BackupHead, BackupReport, Kind as BackupKind, backup_head, restore_backup, verify_backup,
    verify_chain,
};
pub use branch::{Branch, BranchInfo, Difference, DifferenceKind, TagInfo};
pub use cells::{Cells, CellsAt};
pub use clock::{Clock, ManualClock, SystemClock};
pub use connection::Connection;
pub use db::{Database, Reached};
pub use event::{ChangeKind, Event};
pub use export::{ExportContents, ExportReport, ImportReport, Progress, verify_export};
pub use feed::{Feed, Filter, Glance};
pub use figures::{Buckets, Count, DURATION_BOUNDS_US, Histogram, WorkFigures};
pub use interactive::Interactive;
pub use keyed::{Keyed, KeyedAt};
pub use log::{DatabaseId, File, Files, MemoryFiles};
pub use mainstay_model::*;
pub use moment::Moment;
pub use options::Options;
pub use outbox::Outbox;
pub use part::PartFile;
pub use pins::{Pin, PinSummary};
pub use records::{Records, RecordsAt};
pub use runs::{Restoring, RunTail, Runs, RunsAt};
pub use sessions::{Session, SessionOptions, Sessions};
pub use spare::{Spare, Sparing};
pub use stats::{
    KeyedFigures, OutboxFigures, RecordFigures, RunFigures, SessionFigures, Stats, WroteFigures,
};
pub use ticket::Ticket;
pub use way::make_directory;
pub use work::until_stopped;
