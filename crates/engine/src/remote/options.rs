//! How a server is connected to.

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

/// How a server is connected to.
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
    /// The server at this address, `HOST:PORT`.
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

    /// Who asks.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Options {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// How long the server may be silent, or take nothing of what is sent to it, before it counts as gone.
    /// Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Options {
        self.timeout = timeout;
        self
    }

    /// How long a request waits for a connection, also for a new one where one broke. Default: 5 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// The most connections. Two are shared by all; each open transaction, each merge under way, each view
    /// of the past and each feed has one for itself. Default: 1,024.
    #[must_use]
    pub fn connections(mut self, limit: usize) -> Options {
        self.connections = limit;
        self
    }

    /// Talks to the server over TLS.
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

    /// Opens streams in another way than by TCP alone.
    #[must_use]
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> Options {
        self.dial = dial;
        self
    }

    /// Connects; fails at once where nobody listens.
    pub fn connect(self) -> Result<Database> {
        let link = ConnectionPool::start(self, WriteTurn::Callers)?;
        link.connect_now()?;
        wait(link.greet())?;
        Ok(Database { place: Backend::Remote(link) })
    }

    /// Connects, for those who must not block.
    pub async fn connect_async(self) -> Result<AsyncDatabase> {
        let link = ConnectionPool::start(self, WriteTurn::Thread)?;
        link.greet().await?;
        Ok(AsyncDatabase::new(link))
    }
}

impl fmt::Debug for Options {
    /// Without the password.
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
