//! A database that somebody serves, with the same handles as one in this process.
//!
//! ```no_run
//! use mainstay::{Database, Result, remote};
//!
//! fn count_up(db: &Database) -> Result<()> {
//!     db.cells().incr("visits", 1)?;
//!     Ok(())
//! }
//!
//! count_up(&Database::open("./data")?)?; // here
//! count_up(&remote::connect("127.0.0.1:7379")?)?; // there
//! # Ok::<(), mainstay::Error>(())
//! ```
//!
//! ```text
//!   handles --Transaction, Read, Question--> frames --RESP--> mainstay serve
//! ```
//!
//! - Requests of all threads share two connections and are pipelined; open transactions, views of the
//!   past and feeds have a connection each.
//! - Connections that break are made anew. Reads, and writes with a request id or of a session, are
//!   sent again, and such a write is done once. Another write whose answer did not come is `UnknownOutcome`.
//! - What needs the files of the database (backup, export, import) is `Unsupported`: the server's HTTP
//!   face and the command line do that.
//! - `Options::tls`, with the feature `tls`, talks to the server over TLS; [`Options::login`] says who asks.
//! - [`connect_async`] gives handles to be awaited, on any runtime or none.

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

/// Connects to the server at this address, `HOST:PORT`, with the default settings.
pub fn connect(address: &str) -> Result<Database> {
    Options::new(address).connect()
}

/// Connects to the server at this address, for those who must not block.
pub async fn connect_async(address: &str) -> Result<AsyncDatabase> {
    Options::new(address).connect_async().await
}
