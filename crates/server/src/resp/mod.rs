//! The RESP face: every Redis client can talk to it.
//!
//! ```text
//!   socket -> request (words) -> table -> session -> plan -> transaction, in a batch
//!   socket <- reply  <-------------------- shape of the answers <- receipt <-'
//! ```
//!
//! - [`request`] and [`reply`] know bytes and nothing else.
//! - [`commands`] has a file for each group: it turns words into plans and answers into replies.
//! - [`session`] knows what a connection has said so far and decides how a plan runs.
//! - `stream` knows whether there is TLS, and nobody else does.
//! - `event_loop` knows sockets and batches, and no command.

pub mod arguments;
mod batches;
pub mod commands;
mod connection;
mod cursors;
mod deadlines;
mod event_loop;
pub(crate) mod execution;
mod feeds;
mod glob;
pub mod line;
mod login;
mod multi;
mod once;
mod orders;
pub mod plan;
mod record;
pub mod reply;
pub mod request;
pub mod rights;
mod room;
mod secured;
pub mod session;
mod settings;
mod shared;
pub mod slow_log;
mod stalls;
mod stream;
pub mod table;
pub mod tally;
mod tasks;
mod work;
mod workers;
mod write_queue;

pub use event_loop::{Handle, serve, serve_with};
pub use reply::Reply;
pub use session::Session;
pub use settings::Settings;
pub use shared::Shared;
