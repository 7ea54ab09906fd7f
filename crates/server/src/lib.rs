//! The server of the Mainstay state engine: its RESP and HTTP front ends.
//!
//! The program `mainstay` is another crate. It uses `config` and `serve` for the server, `embedded`,
//! `resp::table` and `resp::line` for commands, `security` for passwords, and `histogram`.

pub mod archive;
pub mod config;
pub mod crew;
pub mod embedded;
mod fair_queue;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod histogram;
pub mod http;
pub mod jobs;
pub mod memory;
pub mod outbox;
mod process;
mod repeats;
pub mod resp;
pub mod security;
pub mod serve;
pub mod sessions;
pub mod telemetry;
pub mod tls;
