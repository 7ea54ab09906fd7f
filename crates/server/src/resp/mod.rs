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
//! - `event_loop` knows sockets and batches, and no command.

pub mod arguments;
pub mod commands;
mod connection;
mod cursors;
mod event_loop;
mod feeds;
mod glob;
mod multi;
pub mod plan;
pub mod reply;
pub mod request;
pub mod session;
mod shared;
pub mod slow_log;
pub mod table;
pub mod tally;
mod work;
mod workers;

pub use event_loop::{Handle, serve};
pub use reply::Reply;
pub use session::Session;
pub use shared::{Settings, Shared};
