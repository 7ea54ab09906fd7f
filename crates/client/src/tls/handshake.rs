//! TLS handshake with a deadline.

use crate::connection_pool::micros;
use mainstay_model::{Clock, SystemClock};
use mainstay_model::{Code, Error, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Completes the handshake before any request is sent, so that nothing is revealed to an unverified server.
pub(super) fn run(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    socket: &TcpStream,
    timeout: Duration,
) -> io::Result<ClientConnection> {
    let mut connection = ClientConnection::new(config, name)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut socket = DeadlineSocket::new(socket, timeout);
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(connection)
}

/// The server name that the certificate must carry.
pub(super) fn name_in(address: &str) -> Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let message = format!("{host} is no name that a certificate could carry");
        Error::new(Code::InvalidArgument, message)
    })
}

/// A socket with one total deadline, regardless of how few bytes each read or write moves.
struct DeadlineSocket<'s> {
    socket: &'s TcpStream,
    clock: SystemClock,
    until_us: u64,
}

impl DeadlineSocket<'_> {
    fn new(socket: &TcpStream, timeout: Duration) -> DeadlineSocket<'_> {
        let clock = SystemClock::new();
        let until_us = clock.monotonic_us().saturating_add(micros(timeout));
        DeadlineSocket { socket, clock, until_us }
    }

    fn left(&self) -> io::Result<Duration> {
        match self.until_us.saturating_sub(self.clock.monotonic_us()) {
            0 => Err(io::ErrorKind::TimedOut.into()),
            left_us => Ok(Duration::from_micros(left_us)),
        }
    }
}

/// Maps the `WouldBlock` of an expired socket timeout to `TimedOut`, which is easier to understand.
fn plainly(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

impl Read for DeadlineSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer).map_err(plainly)
    }
}

impl Write for DeadlineSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes).map_err(plainly)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_what_stands_before_the_port() {
        for (address, name) in [
            ("db.example:7379", "db.example"),
            ("127.0.0.1:7379", "127.0.0.1"),
            ("[::1]:7379", "::1"),
        ] {
            assert_eq!(name_in(address).unwrap(), ServerName::try_from(name).unwrap(), "{address}");
        }
        assert_eq!(name_in("no name:1").unwrap_err().code(), Code::InvalidArgument);
    }
}
