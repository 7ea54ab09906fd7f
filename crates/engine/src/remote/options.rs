//! Client options for connecting to a server.

use super::asynchronous::AsyncDatabase;
use super::connection_pool::ConnectionPool;
use super::dial::{Dial, Tcp};
use super::oneshot::wait;
use super::socket::WriteTurn;
use crate::handle::backend::Backend;
use crate::handle::database::Database;
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
pub struct Options {
    pub(crate) address: String,
    pub(crate) login: Option<(String, String)>,
    pub(crate) timeout: Duration,
    pub(crate) patience: Duration,
    pub(crate) connections: usize,
    pub(crate) dial: Arc<dyn Dial>,
}

impl Options {
    /// Default options for the server at `address` (`HOST:PORT`).
    pub fn new(address: &str) -> Options {
        Options {
            address: address.to_owned(),
            login: None,
            timeout: Duration::from_secs(30),
            patience: Duration::from_secs(5),
            connections: 1024,
            dial: Arc::new(Tcp),
        }
    }

    /// Sets the user name and password.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Options {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Sets how long the server may be silent, or accept no bytes, before the connection is given up.
    /// Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Options {
        self.timeout = timeout;
        self
    }

    /// Sets how long a request waits for a connection, including a reconnect. Default: 5 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// Sets the maximum number of connections. Two are shared by all requests. Each open transaction, merge
    /// in progress, view of the past and feed has a dedicated one. Default: 1,024.
    #[must_use]
    pub fn connections(mut self, limit: usize) -> Options {
        self.connections = limit;
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
    pub fn tls(self, tls: super::tls::Tls) -> Options {
        self.dial(Arc::new(tls))
    }

    /// Sets another transport than plain TCP.
    #[must_use]
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> Options {
        self.dial = dial;
        self
    }

    /// Connects and returns blocking handles. Fails at once with `Io` if no server is reached.
    pub fn connect(self) -> Result<Database> {
        let link = ConnectionPool::start(self, WriteTurn::Callers)?;
        link.connect_now()?;
        wait(link.greet())?;
        Ok(Database { place: Backend::Remote(link) })
    }

    /// Connects without blocking the thread and returns async handles.
    pub async fn connect_async(self) -> Result<AsyncDatabase> {
        let link = ConnectionPool::start(self, WriteTurn::Thread)?;
        link.greet().await?;
        Ok(AsyncDatabase::new(link))
    }
}

impl fmt::Debug for Options {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.as_ref().map(|(user, _)| user);
        f.debug_struct("Options")
            .field("address", &self.address)
            .field("user", &user)
            .field("timeout", &self.timeout)
            .field("patience", &self.patience)
            .field("dial", &self.dial)
            .finish_non_exhaustive()
    }
}
