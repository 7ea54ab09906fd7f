//! The socket to a server: TCP, with or without TLS.
//!
//! ```text
//!   TCP --> --tls, --cacert, --cert and --key, --insecure? --+--> TLS handshake, then encrypted bytes
//!                                                            +--> none of them: plain bytes
//! ```

use super::args::TlsArgs;
use super::console::print_error;
use super::failure::{Failure, Result};
use mainstay::remote::Tls;
use mainstay::remote::tls::{self, TlsAdvice};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Advice for TLS failures.
const ADVICE: TlsAdvice = TlsAdvice {
    authority: "--cacert FILE names the authority to believe",
    certificate: "--cert and --key FILE show it who you are",
    plain: "does it speak TLS? Without --tls it is talked to in plain",
};

/// The stream of a connection.
pub enum Transport {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    /// Sets up a connected socket, with the TLS handshake if the arguments ask for it. Each read and each
    /// write has this timeout.
    pub fn new(
        socket: TcpStream,
        address: &str,
        tls: &TlsArgs,
        timeout: Duration,
    ) -> Result<Transport> {
        let connection =
            if tls.is_enabled() { Some(handshake(&socket, address, tls, timeout)?) } else { None };
        let set = || -> io::Result<()> {
            socket.set_read_timeout(Some(timeout))?;
            socket.set_write_timeout(Some(timeout))
        };
        set().map_err(|error| Failure::error(format!("the connection to {address}: {error}")))?;
        Ok(match connection {
            Some(connection) => Transport::Tls(Box::new(StreamOwned::new(connection, socket))),
            None => Transport::Plain(socket),
        })
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(buffer),
            Transport::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.flush(),
            Transport::Tls(stream) => stream.flush(),
        }
    }
}

pub use tls::is_about_tls;

/// The failure for a TLS error.
pub fn tls_failure(address: &str, error: &io::Error) -> Failure {
    Failure::error(tls::refused(address, error, &ADVICE).message())
}

fn handshake(
    socket: &TcpStream,
    address: &str,
    args: &TlsArgs,
    timeout: Duration,
) -> Result<ClientConnection> {
    let connection = tls_options(args)?.shake_hands(socket, address, timeout, &ADVICE);
    connection.map_err(|error| Failure::error(error.message()))
}

/// The TLS settings from the arguments.
pub fn tls_options(args: &TlsArgs) -> Result<Tls> {
    let mut tls = Tls::new();
    if let Some(file) = &args.cacert {
        tls = tls.authorities(file);
    }
    match (&args.cert, &args.key) {
        (Some(certificate), Some(key)) => tls = tls.certificate(certificate, key),
        (None, None) => {}
        _ => return Err(Failure::error("--cert and --key go together: name both files")),
    }
    if args.insecure {
        print_error("--insecure: the server's certificate is not checked, so it may be anybody");
        tls = tls.insecure();
    }
    Ok(tls)
}
