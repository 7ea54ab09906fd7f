//! Windows in event time: what happened within a span of time, folded by key, told when the span is over.
//!
//! ```text
//!   item e=61s, key a --> state of a:  [0s, 60s) 4   [60s, 120s) 1     windows of a key lie with its state
//!         |
//!   watermark = highest e - lateness, of all keys, kept beside the states
//!         |
//!   reaches 60s --> a [0s, 60s) 4 fires, then b [0s, 60s) 7 ...        by end, then by key: output (key, version 60s.0s)
//!         |
//!   written at once: the watermark, sinks' positions, states that items changed
//! ```
//!
//! What fires follows from the items up to the one that raised the watermark, and from nothing else: neither from where
//! batches end nor from a clock. That a window has fired is said by the watermark, not by its state. So firing
//! writes no states, and works the same with no item at hand ([`Pipeline::advance_to`](crate::Pipeline::advance_to)).
//! Fired windows leave a state with the next item of its key. A key all of whose windows have fired is deleted when items of
//! other keys come, two with each.
//!
//! A window's output has the window for its version: end, then start. A key's windows fire in that order, each once, so
//! its id is the same however the input is read again, and a sink that keeps the newest by key keeps the last window.

mod kind;
mod state;
mod windowed;

pub use kind::Windows;
pub use state::{Window, WindowState};
pub use windowed::Windowed;
