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

mod backend;
mod branch;
mod cells;
mod connection;
mod database;
mod feed;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod keyed;
mod options;
mod outbox;
mod read;
mod records;
pub mod remote;
mod runs;
mod sessions;
mod ticket;
mod transaction;

// Handles: a database, and the kinds of state in it.
pub use branch::Branch;
pub use cells::{Cells, CellsAt};
pub use connection::Connection;
pub use database::{Database, Reached};
pub use feed::Feed;
pub use files::WithReserve;
pub use keyed::{Keyed, KeyedAt};
pub use options::Options;
pub use outbox::Outbox;
pub use records::{Records, RecordsAt};
pub use runs::{Restoring, RunTail, Runs, RunsAt};
pub use sessions::{Session, Sessions};
pub use ticket::Ticket;
pub use transaction::InteractiveTransaction;

// Files and tools of an embedded database: opening, backups, exports, the doctor, and its seam to the disk.
#[cfg(feature = "planted")]
#[doc(hidden)]
pub use mainstay_engine::base::fault_points;
pub use mainstay_engine::base::metrics::{Buckets, Counter, DURATION_BOUNDS_US};
pub use mainstay_engine::base::work::until_stopped;
pub use mainstay_engine::fs::atomic_file::AtomicFile;
pub use mainstay_engine::fs::disk_reserve::DiskReserve;
pub use mainstay_engine::fs::durable_dir::create_dir_all_durable;
pub use mainstay_engine::lifecycle::engine::OpenReport;
pub use mainstay_engine::log::{DatabaseId, File, Files, MemoryFiles};
pub use mainstay_engine::read::read_view::ReadView;
pub use mainstay_engine::tools::backup::{
    BackupHead, BackupReport, Kind as BackupKind, backup_head, restore_backup, verify_backup,
    verify_chain,
};
/// Examines a damaged database and salvages its data.
pub use mainstay_engine::tools::doctor;
pub use mainstay_engine::tools::export::{
    ExportContents, ExportReport, ImportReport, Progress, verify_export,
};

// Answers of commands, and the receipt of a transaction.
pub use mainstay_model::{Answer, HistoryEntry, Page, Receipt, Versioned};
// Branches, tags, and differences between branches.
pub use mainstay_model::{BranchInfo, Difference, DifferenceKind, TagInfo};
// Options of a session.
pub use mainstay_model::SessionOptions;
// Clocks: the machine's own, or one for tests.
pub use mainstay_model::{Clock, ManualClock, SystemClock};
// Commands of cells, of branches and of the system.
pub use mainstay_model::{
    BranchCommand, CellCommand, Command, KeyCommand, MergeStrategy, Number, SystemCommand, Ttl,
};
// Short strings, which most names are.
pub use mainstay_model::CompactString;
// The kinds of state.
pub use mainstay_model::Contract;
// The error type: a code says what happened, a kind what to do.
pub use mainstay_model::{Code, Error, ErrorKind, Result};
// Events of the change feed, and filters.
pub use mainstay_model::{ChangeKind, Event, Filter, Glance};
// Keyed stream state.
pub use mainstay_model::{
    Entries, EntryBlock, EntryKind, EntryParts, EntryPlace, EntryRef, GROUPS_DEFAULT, GROUPS_LIMIT,
    Item, Kept, KeySelection, KeyedCapabilities, KeyedState, LogicalTime, MergeFunction, Merging,
    STATE_KEY_LIMIT_BYTES, SnapshotHead, SnapshotMark, SnapshotReader, SnapshotSummary,
    SnapshotTaken, SnapshotWriter, SpaceEntry, SpaceInfo, SpaceOptions, State, StateAnswer,
    StateCommand, StateKey, StatePage, StatePlace, StateWrite, Version, VersionKind, WaitingEntry,
    Wrote, key_group, put_state, take_state,
};
// Names.
pub use mainstay_model::{NAME_LIMIT_BYTES, Name, RESERVED_PREFIX, check_name};
// The transactional outbox.
pub use mainstay_model::{
    CLAIM_LIMIT, Claimed, EventMessage, FAILURE_LIMIT_BYTES, Failed, LEASE_LIMIT_MS, Message,
    OutboxAnswer, OutboxCommand, OutboxState, SUBJECT_LIMIT_BYTES, TRIES_LIMIT,
};
// Pins, which keep history from being trimmed.
pub use mainstay_model::{Pin, PinSummary};
// Records, their indexes, and Redis hashes.
pub use mainstay_model::{
    Answering, Capabilities, Change, Changed, Condition, Conditions, Counters, Decimal,
    FIELD_LIMIT_BYTES, Field, FieldValue, Fields, Found, HashCommand, IndexCommand, IndexInfo,
    Lifetimes, Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordPick, RecordStore,
    RecordWrite, Scans, Test, Where, check_scan,
};
// Runs: event logs with snapshots.
pub use mainstay_model::{
    Appended, AttemptSnapshot, CONTRACT_VERSION, CanonicalEvent, EventHeader, EventKey,
    FetchOptions, Instant, Judgement, KeptState, Listings, NewEvent, PageSize, RunAlert, RunAnswer,
    RunCapabilities, RunCommand, RunFilter, RunInfo, RunPage, RunSnapshot, RunStatus, RunStore,
    StepSnapshot, StepStatus, event_id, peek_event, put_text, reduce, reduce_parts, signal_key,
    take_text,
};
// Limits on the answers of one transaction.
pub use mainstay_model::Scales;
// Sessions: client commands executed exactly once.
pub use mainstay_model::{
    CAPABILITIES_LIMIT_BYTES, CAPABILITY_LIMIT, CAPABILITY_LIMIT_BYTES, FORMER_KEPT_US, Former,
    Hold, KEPT_LIMIT, KEPT_LIMIT_BYTES, KeptLimits, LETTER_LIMIT_BYTES, LETTERS_LIMIT, Ledger,
    Letter, MAILBOX_LIMIT, MAILBOX_LIMIT_BYTES, Mailbox, REQUEST_LIMIT, REQUESTS_AHEAD_LIMIT,
    Retries, SESSION_LEASE_LIMIT_MS, SESSION_LEASE_MS, SESSION_LIMIT, SessionAnswer,
    SessionCommand, SessionInfo, SessionPage, SessionRequest, Verdict, Weighed, check_number,
    check_session_open,
};
// Lists that are nearly always short.
pub use mainstay_model::{SmallVec, smallvec};
// Statistics.
pub use mainstay_model::{
    BackgroundStats, Histogram, KeyedFigures, OutboxFigures, RecordFigures, RunFigures,
    SessionFigures, Stats, WroteFigures,
};
// Redis strings, on cells.
pub use mainstay_model::{ExpireOnly, Only, StringCommand};
// Points in time, and durability.
pub use mainstay_model::{At, Durability, Revision, Stamp};
// Transactions: the one way to write.
pub use mainstay_model::{Demand, Guard, MAIN, Request, RequestId, Step, Transaction};
// Values.
pub use mainstay_model::{Value, codec, from_value, to_value};

// All fixed limits, canonical bytes of transactions, the encoding of values, and the binary protocol.
pub use mainstay_model::{canonical, limits, wire};
