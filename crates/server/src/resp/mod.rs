//! The RESP front end: a server for the Redis protocol, so every Redis client can talk to the database.
//!
//! ```text
//!   socket -> request (words) -> table -> session -> plan -> transaction, in a batch
//!   socket <- reply  <----------- reply function over the answers <- receipt <-'
//! ```
//!
//! - [`request`] and [`reply`] parse and encode bytes and know nothing else.
//! - [`commands`] has one file per command group. It turns words into plans and answers into replies.
//! - [`session`] holds the state of one connection and decides how a plan runs.
//! - `stream` is the only module that knows whether a connection uses TLS.
//! - `event_loop` handles sockets and batches. It knows no command.

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
