//! The storage engine of Mainstay: write-ahead log, index, MVCC, transactions, branches, backup and doctor. No network and no
//! handles.
//!
//! Programs use the crate `mainstay`, whose handles stand on this one. Nothing here is a stable interface.
//!
//! ```text
//!   Engine: open, execute, read, feed
//!   sequencer: execute (one writer, whole batches) -> log (one sync per group) -> publish
//!        |  effects
//!   index: current values, write buffers, a store per retention class
//!        |
//!   readers at any kept revision          feed: every change, from the log
//! ```
//!
//! The folders are layers: each uses those above it in this list and none below.

// An inner crate: users read the documentation of `mainstay`, and public here often means "for the handles".
#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    clippy::len_without_is_empty,
    clippy::new_without_default,
    clippy::should_implement_trait
)]

pub mod apply;
pub mod base;
pub mod commit;
pub mod feed;
pub mod fs;
pub mod key;
pub mod lifecycle;
pub mod log;
pub mod mvcc;
pub mod read;
pub mod storage;
pub mod tools;
