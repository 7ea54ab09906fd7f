//! TLS streams: rustls over a socket, with independent read and write directions.
//!
//! ```text
//!   socket   --read, may block----> encrypted --[ lock: rustls decrypts ]--> answers
//!   requests --[ lock: rustls encrypts ]--> encrypted --write, may block--> socket
//! ```
//!
//! Both directions share the rustls state, and its lock is never held during socket I/O. The reader never writes: TLS
//! messages of its own are sent with the next request.

mod config;
mod failure;
mod handshake;
#[doc(hidden)]
pub mod pem;
mod stream;
mod trust;

#[doc(hidden)]
pub use failure::{TlsAdvice, is_about_tls, refused};

use super::dial::{Dial, Limits, Stream, Tcp};
use mainstay_model::Result;
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ClientConnection};
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Advice for users of this crate when TLS fails.
const ADVICE: TlsAdvice = TlsAdvice {
    authority: "`Tls::authorities` names a file with the authority to believe",
    certificate: "`Tls::certificate` shows it who you are",
    plain: "does it speak TLS? Without `Options::tls` it is talked to in plain",
};

/// The crypto provider of client and server.
#[doc(hidden)]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// TLS settings of a client: trusted authorities and an optional client certificate.
///
/// The files are PEM. They are read for the first connection, and read again after a connection on which
/// the server did not answer. So replaced files take effect without a restart.
///
/// ```no_run
/// use mainstay::remote::{Options, Tls};
/// let tls = Tls::new().authorities("authority.pem").certificate("client.pem", "client.key");
/// let db = Options::new("db.example:7379").tls(tls).login("shop", "secret").connect()?;
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tls {
    authorities: Option<PathBuf>,
    shown: Option<(PathBuf, PathBuf)>,
    insecure: bool,
    made: TlsSetup,
}

impl Tls {
    /// Trusts the certificate authorities of this machine and presents no client certificate.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts only the certificate authorities in this file.
    #[must_use]
    pub fn authorities(self, file: impl AsRef<Path>) -> Tls {
        Tls { authorities: Some(file.as_ref().to_owned()), made: TlsSetup::default(), ..self }
    }

    /// Presents this client certificate to a server that asks for one. The key must belong to the
    /// certificate and have no password.
    #[must_use]
    pub fn certificate(self, file: impl AsRef<Path>, key: impl AsRef<Path>) -> Tls {
        let shown = (file.as_ref().to_owned(), key.as_ref().to_owned());
        Tls { shown: Some(shown), made: TlsSetup::default(), ..self }
    }

    /// Accepts any server certificate. Traffic is encrypted, but the server may be an impostor, who then
    /// reads passwords and all other traffic.
    #[must_use]
    pub fn insecure(self) -> Tls {
        Tls { insecure: true, made: TlsSetup::default(), ..self }
    }

    /// Performs the TLS handshake on a socket, within `timeout`. It changes the socket's own read and write
    /// timeouts.
    #[doc(hidden)]
    pub fn shake_hands(
        &self,
        socket: &TcpStream,
        address: &str,
        timeout: Duration,
        advice: &TlsAdvice,
    ) -> Result<ClientConnection> {
        let config = self.made.get(|| self.config(advice))?;
        let name = handshake::name_in(address)?;
        let shaken = handshake::run(config, name, socket, timeout);
        shaken.map_err(|error| {
            self.made.forget();
            refused(address, &error, advice)
        })
    }
}

impl Dial for Tls {
    fn dial(&self, address: &str, limits: Limits) -> io::Result<Stream> {
        let socket = Tcp::connect(address, limits.connect)?;
        let shaken = self.shake_hands(&socket, address, limits.connect, &ADVICE);
        let connection = shaken.map_err(io::Error::other)?;
        socket.set_read_timeout(None)?;
        limits.limit_writes(&socket)?;
        stream::split(connection, socket, address, self.made.clone())
    }
}

/// The configuration built from the files, shared by all connections.
#[derive(Clone, Default)]
struct TlsSetup(Arc<Mutex<Option<Arc<ClientConfig>>>>);

impl TlsSetup {
    fn get(&self, make: impl FnOnce() -> Result<Arc<ClientConfig>>) -> Result<Arc<ClientConfig>> {
        let mut made = self.0.lock();
        match &*made {
            Some(config) => Ok(config.clone()),
            None => Ok(made.insert(make()?).clone()),
        }
    }

    /// Makes the next connection read the files again.
    fn forget(&self) {
        *self.0.lock() = None;
    }
}

impl fmt::Debug for TlsSetup {
    /// Omits keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
