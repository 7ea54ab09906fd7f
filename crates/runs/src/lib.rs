//! What is built on runs: the relay that sends what the outbox holds, and the archive.
//!
//! ```text
//!   transaction { event, message } --> outbox --Relay--> Transport: a file, memory, or what a user writes
//!                     |
//!                    run --ended, old enough--> Archive: written, read back, deleted --import--> run
//! ```

pub mod archive;
pub mod relay;
mod worker;
