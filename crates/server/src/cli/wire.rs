//! The wire to a server: TCP, with TLS or without.
//!
//! ```text
//!   TCP --> --tls, --cacert, --cert and --key, --insecure? --+--> handshake, then bytes both ways
//!                                                            +--> none of them: bytes as they are
//! ```

use super::args::TlsArgs;
use super::failure::{Failure, Result};
use super::paper::complain;
use super::trust::Anyone;
use mainstay_server::tls::{pem, provider};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A connection to a server.
pub enum Wire {
    /// As it is.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// What goes over the socket, as the arguments have it.
    pub fn new(socket: TcpStream, address: &str, tls: &TlsArgs) -> Result<Wire> {
        if !tls.is_wanted() {
            return Ok(Wire::Plain(socket));
        }
        let failed = |error: rustls::Error| Failure::error(format!("TLS: {error}"));
        let client = ClientConnection::new(config(tls)?, name_in(address)?).map_err(failed)?;
        let mut stream = StreamOwned::new(client, socket);
        // Here, so that nothing is said before the other end is known to be the right one.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| refused(address, &error))?;
        }
        Ok(Wire::Tls(Box::new(stream)))
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.read(buffer),
            Wire::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(socket) => socket.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}

/// Whether it was TLS that failed, and not what is said inside.
pub fn is_about_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// What TLS said when it failed.
pub fn refused(address: &str, error: &io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let hint = match inner {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "--cacert FILE names the authority to believe"
        }
        Some(rustls::Error::AlertReceived(_)) => "--cert and --key FILE show it who you are",
        _ => "does it speak TLS? Without --tls it is talked to in plain",
    };
    Failure::error(format!("no TLS with {address} ({error}): {hint}"))
}

/// The name that the certificate has to carry.
fn name_in(address: &str) -> Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned())
        .map_err(|_| Failure::error(format!("{host} is no name that a certificate could carry")))
}

fn config(tls: &TlsArgs) -> Result<Arc<ClientConfig>> {
    let failed = |error: rustls::Error| Failure::error(format!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = match anyone(tls) {
        Some(anyone) => builder.dangerous().with_custom_certificate_verifier(anyone),
        None => builder.with_root_certificates(roots(tls)?),
    };
    let config = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => {
            let chain = pem::certificates(cert, &pem::read(cert)?)?;
            builder
                .with_client_auth_cert(chain, pem::key(key, &pem::read(key)?)?)
                .map_err(failed)?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(Failure::error("--cert and --key go together: name both files")),
    };
    Ok(Arc::new(config))
}

fn anyone(tls: &TlsArgs) -> Option<Arc<dyn ServerCertVerifier>> {
    if !tls.insecure {
        return None;
    }
    complain("--insecure: the server's certificate is not checked, so it may be anybody");
    Some(Arc::new(Anyone::new()))
}

/// The authorities that are believed: the given ones, or those of this machine.
fn roots(tls: &TlsArgs) -> Result<RootCertStore> {
    match &tls.cacert {
        Some(path) => Ok(pem::authorities(path, &pem::read(path)?)?),
        None => machine_roots(),
    }
}

fn machine_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // Some of a machine's authorities may be of a kind that is not known here.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => Err(Failure::error("this machine names no authorities: --cacert FILE does")),
        false => Ok(roots),
    }
}
