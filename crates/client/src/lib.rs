//! The network client of a Mainstay server: connections, the binary protocol, TLS, and async handles.
//!
//! Programs use it through `mainstay::remote`, which also has the blocking handles.
//!
//! ```text
//!   handles --requests--> frames --RESP--> mainstay serve
//! ```

mod asynchronous;
mod call;
mod callback_thread;
mod connection_pool;
mod dedicated;
mod dial;
mod failure;
mod in_flight_limit;
mod oneshot;
mod reconnect;
mod resp;
mod settings;
mod socket;
#[cfg(feature = "tls")]
pub mod tls;

pub use asynchronous::{
    AsyncBranch, AsyncCells, AsyncCellsAt, AsyncDatabase, AsyncFeed, AsyncInteractive, AsyncKeyed,
    AsyncKeyedAt, AsyncOutbox, AsyncRecords, AsyncRecordsAt, AsyncRuns, AsyncRunsAt, AsyncSession,
    AsyncSessions,
};
pub use dial::{Dial, Limits, Stream, Tcp};
pub use resp::{Reply, decode, encode};
pub use settings::Settings;
#[cfg(feature = "tls")]
pub use tls::Tls;

pub use connection_pool::{ConnectionPool, SubmittedRequest};
pub use oneshot::{Oneshot, wait};

use mainstay_model::Result;
use socket::WriteTurn;
use std::sync::Arc;

/// Connects for callers that block. Fails at once with `Io` if no server is reached.
pub fn connect(settings: Settings) -> Result<Arc<ConnectionPool>> {
    let pool = ConnectionPool::start(settings, WriteTurn::Callers)?;
    pool.connect_now()?;
    wait(pool.greet())?;
    Ok(pool)
}

/// Connects without blocking the thread.
pub async fn connect_async(settings: Settings) -> Result<AsyncDatabase> {
    let pool = ConnectionPool::start(settings, WriteTurn::Thread)?;
    pool.greet().await?;
    Ok(AsyncDatabase::new(pool))
}
