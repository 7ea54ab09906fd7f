//! Exactly-once stream processing on keyed state.
//!
//! ```text
//!   sources --items with times--> operator --outputs with ids--> sinks
//!                                   |  ^
//!                     states and positions, atomically
//!                                   v  |
//!   dyn KeyedState --in memory--> MemoryState
//!        |
//!        '--with types--> TypedState<K, V, Ver>
//! ```
//!
//! [`Pipeline`] combines them and has an example. Three mechanisms make it exactly-once. An item's version is
//! its source's time, so an item that is read again is recognized. States and positions are written
//! atomically, so they agree after a crash. An output's id is derived from its cause, so an output that is
//! sent again is recognized.

mod checkpoint;
mod coordination;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod memory;
mod operator;
mod output;
mod pipeline;
mod position;
mod sink;
mod source;
mod state;
mod time;
mod worker;

pub use checkpoint::{
    CheckpointStore, Checkpoints, FilePart, Job, KeyGroupMove, Manifest, ShardPart, ShardReport,
    VersionName, divide,
};
pub use coordination::{
    CheckpointCoordinator, CheckpointStatus, CoordinationStore, CoordinatorState, Outcome, Phase,
    ShardStatus,
};
pub use memory::MemoryState;
pub use operator::{
    ApplyContext, ApplyResult, EventTime, Operator, StatefulOperator, Window, WindowOperator,
    WindowState, Windows,
};
pub use output::{Cause, Deduplicator, Output, OutputId, OutputIdSet};
pub use pipeline::{Barrier, Pipeline, PipelineBuilder, Progress};
pub use sink::{
    CommittedOutput, FileSink, IdempotentSink, MemorySink, OpenStatus, ShardId, Sink, SinkLag,
};
pub use source::{
    Items, JsonLines, LINE_LIMIT_BYTES, Lines, MergedItem, MonotonicSource, Source, SourceItem,
    SourceMerger, SourcePositions,
};
pub use state::{StateKeyCodec, TypedPage, TypedState};
pub use time::{Frontier, Watermark};
pub use worker::Worker;
