//! PostgreSQL with a table of events, as it is built without us.
//!
//! ```text
//!   install, process   initdb and postgres in a directory of this run, on a socket of its own, ended by its id
//!   schema             the table and the append: the sequence under an advisory lock, or a bigserial
//!   lane, appending    64 connections on two threads, prepared statements
//!   session            one connection: many events at once before anything is measured, pages, sizes
//! ```

mod appending;
mod install;
mod lane;
mod process;
mod schema;
mod session;
mod types;

pub use appending::Appending;
pub use process::Postgres;
pub use schema::Form;
pub use session::Session;
