//! Client for a served database, with the same handles as an embedded one.
//!
//! ```no_run
//! use mainstay::{Database, Result, remote};
//!
//! fn count_up(db: &Database) -> Result<()> {
//!     db.cells().incr("visits", 1)?;
//!     Ok(())
//! }
//!
//! count_up(&Database::open("./data")?)?; // embedded
//! count_up(&remote::connect("127.0.0.1:7379")?)?; // served
//! # Ok::<(), mainstay::Error>(())
//! ```
//!
//! ```text
//!   handles --requests--> frames --RESP--> mainstay serve
//! ```
//!
//! - Requests of all threads share two connections and are pipelined. Each open transaction, view of the past and feed
//!   has a dedicated connection.
//! - Broken connections are replaced. Reads are sent again, and so are writes with a request id or of a session, which
//!   are executed once. Any other write whose answer did not arrive fails with `UnknownOutcome`.
//! - Operations that need the database files (backup, export, import) fail with `Unsupported`. Use the server's HTTP
//!   API or the command line instead.
//! - `Options::tls`, with the feature `tls`, encrypts the connection. [`Options::login`] sets the user and password.
//! - [`connect_async`] returns handles with async methods, which run on any runtime or none.

mod asynchronous;
mod call;
mod callback_thread;
mod connection_pool;
mod dedicated;
mod dial;
mod failure;
mod in_flight_limit;
mod oneshot;
mod options;
mod reconnect;
mod resp;
mod socket;
#[cfg(feature = "tls")]
pub mod tls;

pub use asynchronous::{
    AsyncBranch, AsyncCells, AsyncCellsAt, AsyncDatabase, AsyncFeed, AsyncInteractive, AsyncKeyed,
    AsyncKeyedAt, AsyncOutbox, AsyncRecords, AsyncRecordsAt, AsyncRuns, AsyncRunsAt, AsyncSession,
    AsyncSessions,
};
pub use dial::{Dial, Limits, Stream, Tcp};
pub use options::Options;
pub use resp::{Reply, decode, encode};
#[cfg(feature = "tls")]
pub use tls::Tls;

pub(crate) use connection_pool::{ConnectionPool, SubmittedRequest};
pub(crate) use oneshot::Oneshot;
pub use oneshot::wait;

use crate::handle::database::Database;
use mainstay_model::Result;

/// Connects to the server at `address` (`HOST:PORT`) with the default settings. Blocks until connected, and
/// fails with `Io` if no server is reached.
pub fn connect(address: &str) -> Result<Database> {
    Options::new(address).connect()
}

/// Connects to the server at `address` (`HOST:PORT`) without blocking the thread, and returns async
/// handles.
pub async fn connect_async(address: &str) -> Result<AsyncDatabase> {
    Options::new(address).connect_async().await
}
