//! A simulated disk that can compute the files that survive a power failure at any point.
//!
//! ```text
//!   database ── kernel ── mount (FUSE) ─┐
//!   its log, in one process ──── files ─┴─> volume ──> tree: the files as they are
//!                           ┌──────────────────┘
//!                           └──> tape: every change, every sync, and the writers' journal, in order
//!                                  │ replayed up to a cut
//!                                  v
//!                                platter: durable state, and pending changes
//!                                  │ a model decides which pending changes survive
//!                                  v
//!                                image: the files after the cut
//! ```

mod event;
mod fault;
mod files;
mod homes;
mod image;
mod model;
mod mount;
mod platter;
mod tree;
mod volume;

#[cfg(test)]
mod tests;

pub use event::{Event, Ino, Kind, ROOT, Tape};
pub use fault::{Action, Fault, Faults};
pub use files::LogFiles;
pub use homes::Homes;
pub use image::{Image, Node};
pub use model::Model;
pub use mount::Mount;
pub use platter::Platter;
pub use tree::Tree;
pub use volume::{Refusal, Volume};
