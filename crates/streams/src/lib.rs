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

mod board;
mod calendar;
mod checkpoint;
mod coordinator;
mod dedup;
mod files;
mod frontier;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod key;
mod memory;
mod operator;
mod outlet;
mod output;
mod pipeline;
mod position;
mod runner;
mod sink;
mod source;
mod typed;
mod watermark;
mod window;
mod worker;
mod working;

pub use board::{Board, Conductor, Order};
pub use checkpoint::{
    Checkpoints, FilePart, Job, Manifest, Move, ShardPart, ShardReport, Shelf, VersionName, divide,
};
pub use coordinator::{Coordinator, Outcome, Place, Said, Stage};
pub use dedup::{Deduplicating, Seen};
pub use frontier::Frontier;
pub use key::StateKeyCodec;
pub use memory::MemoryState;
pub use operator::{Applied, EventTime, Moment, Operator, StatefulOperator};
pub use outlet::Behind;
pub use output::{Cause, Output, OutputId};
pub use pipeline::{Barrier, Pipeline, PipelineBuilder, Progress};
pub use sink::{Committed, FileSink, IdempotentSink, MemorySink, Opened, Share, Sink};
pub use source::{
    Arrived, Items, JsonLines, LINE_LIMIT_BYTES, Lines, Merged, Rising, Source, Sourced,
};
pub use typed::{TypedPage, TypedState};
pub use watermark::Watermark;
pub use window::{Window, WindowState, Windowed, Windows};
pub use worker::Worker;
