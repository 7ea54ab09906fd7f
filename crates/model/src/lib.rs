//! Data model of Mainstay: values, names, commands, transactions, errors and their encodings. No I/O.

mod answer;
/// Checksummed blocks, of which snapshots are made.
pub mod blocks;
mod branch;
/// Builds commands from the arguments of handles, for embedded and served databases alike.
pub mod build;
/// Canonical bytes of transactions, for request fingerprints.
pub mod canonical;
mod clock;
mod command;
mod contract;
mod error;
mod feed;
mod keyed;
/// All fixed limits.
pub mod limits;
mod name;
mod outbox;
mod pin;
mod record;
mod run;
mod scales;
mod session;
mod stats;
mod strings;
mod time;
mod transaction;
mod value;
/// Wire encoding of transactions, answers and errors, for clients in other processes.
pub mod wire;

pub use answer::{Answer, HistoryEntry, Page, Receipt, Versioned};
pub use branch::{BranchInfo, Difference, DifferenceKind, TagInfo};
pub use build::SessionOptions;
pub use clock::{Clock, ManualClock, SystemClock};
pub use command::{
    BranchCommand, CellCommand, Command, KeyCommand, MergeStrategy, Number, SystemCommand, Ttl,
};
pub use compact_str::CompactString;
pub use contract::Contract;
pub use error::{Code, Error, ErrorKind, Result};
pub use feed::{ChangeKind, Event, Filter, Glance};
pub use keyed::{
    Entries, EntryBlock, EntryKind, EntryParts, EntryPlace, EntryRef, GROUPS_DEFAULT, GROUPS_LIMIT,
    Item, Kept, KeySelection, KeyedCapabilities, KeyedState, LogicalTime, MergeFunction, Merging,
    STATE_KEY_LIMIT_BYTES, SnapshotHead, SnapshotMark, SnapshotReader, SnapshotSummary,
    SnapshotTaken, SnapshotWriter, SpaceEntry, SpaceInfo, SpaceOptions, State, StateAnswer,
    StateCommand, StateKey, StatePage, StatePlace, StateWrite, Version, VersionKind, WaitingEntry,
    Wrote, key_group, put_state, take_state,
};
pub use name::{NAME_LIMIT_BYTES, Name, RESERVED_PREFIX, check_name};
pub use outbox::{
    CLAIM_LIMIT, Claimed, EventMessage, FAILURE_LIMIT_BYTES, Failed, LEASE_LIMIT_MS, Message,
    OutboxAnswer, OutboxCommand, OutboxState, SUBJECT_LIMIT_BYTES, TRIES_LIMIT,
};
pub use pin::{Pin, PinSummary};
pub use record::{
    Answering, Capabilities, Change, Changed, Condition, Conditions, Counters, Decimal,
    FIELD_LIMIT_BYTES, Field, FieldValue, Fields, Found, HashCommand, IndexCommand, IndexInfo,
    Lifetimes, Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordPick, RecordStore,
    RecordWrite, Scans, Test, Where, check_scan,
};
pub use run::{
    Appended, AttemptSnapshot, CONTRACT_VERSION, CanonicalEvent, EventHeader, EventKey,
    FetchOptions, Instant, Judgement, KeptState, Listings, NewEvent, PageSize, RunAlert, RunAnswer,
    RunCapabilities, RunCommand, RunFilter, RunInfo, RunPage, RunSnapshot, RunStatus, RunStore,
    StepSnapshot, StepStatus, event_id, peek_event, put_text, reduce, reduce_parts, signal_key,
    take_text,
};
pub use scales::Scales;
pub use session::{
    CAPABILITIES_LIMIT_BYTES, CAPABILITY_LIMIT, CAPABILITY_LIMIT_BYTES, FORMER_KEPT_US, Former,
    Hold, KEPT_LIMIT, KEPT_LIMIT_BYTES, KeptLimits, LETTER_LIMIT_BYTES, LETTERS_LIMIT, Ledger,
    Letter, MAILBOX_LIMIT, MAILBOX_LIMIT_BYTES, Mailbox, REQUEST_LIMIT, REQUESTS_AHEAD_LIMIT,
    Retries, SESSION_LEASE_LIMIT_MS, SESSION_LEASE_MS, SESSION_LIMIT, SessionAnswer,
    SessionCommand, SessionInfo, SessionPage, SessionRequest, Verdict, Weighed, check_number,
    check_session_open,
};
pub use smallvec::{SmallVec, smallvec};
pub use stats::{
    BackgroundStats, Histogram, KeyedFigures, OutboxFigures, RecordFigures, RunFigures,
    SessionFigures, Stats, WroteFigures,
};
pub use strings::{ExpireOnly, Only, StringCommand};
pub use time::{At, Durability, Revision, Stamp};
pub use transaction::{Demand, Guard, MAIN, Request, RequestId, Step, Transaction};
pub use value::{Value, codec, from_value, to_value};
