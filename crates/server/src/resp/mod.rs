//! The RESP front end: a server for the Redis protocol, so every Redis client can talk to the database.
//!
//! ```text
//!   socket -> request (words) -> table -> session -> plan -> transaction, in a batch
//!   socket <- reply  <----------- reply function over the answers <- receipt <-'
//! ```
//!
//! - [`request`] and [`reply`] parse and encode bytes and know nothing else.
//! - [`commands`] has one file per command group. It turns words into plans and answers into replies.
//! - [`connection_state`] holds the state of one connection and decides how a plan runs.
//! - `stream` is the only module that knows whether a connection uses TLS.
//! - `event_loop` handles sockets and batches. It knows no command.

pub mod arguments;
mod audit;
mod batches;
mod blocking_reads;
pub mod commands;
mod connection;
pub mod connection_state;
pub mod counters;
mod cursors;
mod deadlines;
mod event_loop;
pub(crate) mod execution;
mod glob;
pub mod inline_command;
mod login;
mod memory_budget;
mod multi;
mod multi_jobs;
pub mod permissions;
pub mod plan;
pub mod reply;
pub mod request;
mod session_request;
mod settings;
mod shared;
pub mod slow_log;
mod stalls;
mod stream;
pub mod table;
mod tasks;
mod tls_stream;
mod worker_metrics;
mod workers;
mod write_queue;

pub use connection_state::ConnectionState;
pub use event_loop::{Handle, serve, serve_with};
pub use reply::Reply;
pub use settings::Settings;
pub use shared::Shared;
