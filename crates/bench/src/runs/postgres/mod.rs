//! PostgreSQL with an events table, as applications usually build it.
//!
//! ```text
//!   install, process   initdb and postgres in a directory of this run, on its own socket, ended by its id
//!   schema             the table and the append: the sequence under an advisory lock, or a bigserial
//!   lane, appending    64 connections on two threads, prepared statements
//!   session            one connection: bulk inserts before the measurement, pages, sizes
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
