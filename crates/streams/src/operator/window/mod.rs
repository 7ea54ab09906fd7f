//! Event-time windows: tumbling, sliding and session windows, folded per key and emitted when complete.
//!
//! ```text
//!   item e=61s, key a --> state of a:  [0s, 60s) 4   [60s, 120s) 1     a key's windows are in its state
//!         |
//!   watermark = highest e - lateness, of all keys, stored with the states
//!         |
//!   reaches 60s --> a [0s, 60s) 4 fires, then b [0s, 60s) 7 ...        by end, then by key: output (key, version 60s.0s)
//!         |
//!   written atomically: the watermark, the sinks' positions, states changed by items
//! ```
//!
//! The fired windows depend only on the items up to the one that raised the watermark, and neither on batch
//! boundaries nor on a clock. The watermark records that a window has fired, and not the window's state.
//! Therefore firing writes no states and needs no item
//! ([`Pipeline::advance_to`](crate::Pipeline::advance_to)). Fired windows leave a state with the next item of
//! its key. A key whose windows have all fired is deleted when items of other keys arrive, two keys per item.
//!
//! The version of a window's output is the window: end, then start. A key's windows fire in this order, each
//! once. Its id is therefore the same however often the input is read, and a sink that keeps the newest
//! output per key keeps the last window.

mod kind;
mod state;
mod window_operator;

pub use kind::Windows;
pub use state::{Window, WindowState};
pub use window_operator::WindowOperator;
