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

use crate::backend::Backend;
use crate::database::Database;
use mainstay_client::Settings;
pub use mainstay_client::{
    AsyncBranch, AsyncCells, AsyncCellsAt, AsyncDatabase, AsyncFeed, AsyncInteractive, AsyncKeyed,
    AsyncKeyedAt, AsyncOutbox, AsyncRecords, AsyncRecordsAt, AsyncRuns, AsyncRunsAt, AsyncSession,
    AsyncSessions, Dial, Limits, Reply, Stream, Tcp, decode, encode, wait,
};
#[cfg(feature = "tls")]
pub use mainstay_client::{Tls, tls};
use mainstay_model::Result;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Client options for connecting to a server.
///
/// ```no_run
/// use mainstay::remote;
/// use std::time::Duration;
/// let options = remote::Options::new("db.example:7379").timeout(Duration::from_secs(5));
/// let db = options.login("reader", "secret").connect()?;
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Options(Settings);

impl Options {
    /// The default options for the server at `address` (`HOST:PORT`).
    pub fn new(address: &str) -> Options {
        Options(Settings::new(address))
    }

    /// Sets the user name and password.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Options {
        self.0.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Sets how long the server may be silent, or accept no bytes, before the connection is given up.
    /// Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Options {
        self.0.timeout = timeout;
        self
    }

    /// Sets how long a request waits for a connection, including a reconnect. Default: 5 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Options {
        self.0.patience = patience;
        self
    }

    /// Sets the maximum number of connections. Two are shared by all requests. Each open transaction, merge
    /// in progress, view of the past and feed has a dedicated one. Default: 1,024.
    #[must_use]
    pub fn connections(mut self, limit: usize) -> Options {
        self.0.connections = limit;
        self
    }

    /// Encrypts the connection with TLS.
    ///
    /// ```no_run
    /// use mainstay::remote::{Options, Tls};
    /// let tls = Tls::new().authorities("authority.pem");
    /// let db = Options::new("db.example:7379").tls(tls).connect()?;
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self, tls: Tls) -> Options {
        self.dial(Arc::new(tls))
    }

    /// Sets another transport than plain TCP.
    #[must_use]
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> Options {
        self.0.dial = dial;
        self
    }

    /// Connects and returns blocking handles. Fails at once with `Io` if no server is reached.
    pub fn connect(self) -> Result<Database> {
        Ok(Database { place: Backend::Remote(mainstay_client::connect(self.0)?) })
    }

    /// Connects without blocking the thread and returns async handles.
    pub async fn connect_async(self) -> Result<AsyncDatabase> {
        mainstay_client::connect_async(self.0).await
    }
}

impl fmt::Debug for Options {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as("Options", f)
    }
}

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
