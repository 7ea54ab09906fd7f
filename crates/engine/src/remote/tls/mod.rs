//! Streams with TLS.
//!
//! ```text
//!   socket   --read, however long that takes--> sealed --[ lock: rustls opens ]--> answers
//!   requests --[ lock: rustls seals ]--> sealed --write, however long that takes--> socket
//! ```
//!
//! Both directions share what rustls knows, and nobody holds that while the socket is waited for. The
//! reader never sends: what TLS itself has to say goes with the next request.

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

/// What users of this crate can do about TLS that fails.
const ADVICE: TlsAdvice = TlsAdvice {
    authority: "`Tls::authorities` names a file with the authority to believe",
    certificate: "`Tls::certificate` shows it who you are",
    plain: "does it speak TLS? Without `Options::tls` it is talked to in plain",
};

/// The cryptography that both ends use.
#[doc(hidden)]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// How a server is talked to over TLS: whom to believe, and what to show.
///
/// The files are PEM. They are read for the first connection, and again after one that the server did
/// not answer on, so that newer ones in their place need no new start.
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
    /// Believes the authorities of this machine and shows nothing.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Believes the authorities of this file, and no others.
    #[must_use]
    pub fn authorities(self, file: impl AsRef<Path>) -> Tls {
        Tls { authorities: Some(file.as_ref().to_owned()), made: TlsSetup::default(), ..self }
    }

    /// Shows this certificate to a server that asks for one. The key is that of the certificate, without
    /// a password.
    #[must_use]
    pub fn certificate(self, file: impl AsRef<Path>, key: impl AsRef<Path>) -> Tls {
        let shown = (file.as_ref().to_owned(), key.as_ref().to_owned());
        Tls { shown: Some(shown), made: TlsSetup::default(), ..self }
    }

    /// Believes everybody: what is said cannot be read on the way, but whoever is at the other end may be
    /// somebody else, who then learns passwords and all that is said.
    #[must_use]
    pub fn insecure(self) -> Tls {
        Tls { insecure: true, made: TlsSetup::default(), ..self }
    }

    /// Agrees on everything with whoever is at the other end of a socket, within this time. The socket's
    /// own limits are whatever they have become.
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

/// What was made of the files, for all connections.
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

    /// Has the files read again.
    fn forget(&self) {
        *self.0.lock() = None;
    }
}

impl fmt::Debug for TlsSetup {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
