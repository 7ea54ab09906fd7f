//! Transport streams to a server: TCP, or a replacement.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Opens transport streams to a server: [`Tcp`], or `Tls` with the feature `tls`.
///
/// If the I/O error of a dial or a read carries a [`mainstay::Error`](mainstay_model::Error), callers get that error
/// unchanged. Any other I/O error is reported as an unreachable server.
pub trait Dial: Send + Sync + fmt::Debug {
    /// Opens a stream to `address` (`HOST:PORT`). Blocks for at most `limits.connect`.
    fn dial(&self, address: &str, limits: Limits) -> io::Result<Stream>;
}

/// Time limits of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit for establishing the stream.
    pub connect: Duration,
    /// Limit for a write of which the peer accepts nothing. Such a write must fail: the thread that would
    /// close a silent connection also writes, so it must not block forever.
    pub write: Duration,
}

impl Limits {
    /// Sets a write timeout on a socket, so that a write fails if the peer accepts nothing.
    pub fn limit_writes(self, socket: &TcpStream) -> io::Result<()> {
        // The socket API rejects a timeout of zero.
        socket.set_write_timeout(Some(self.write.max(Duration::from_millis(1))))
    }
}

/// A bidirectional stream. Each direction is used by its own thread.
pub struct Stream {
    /// Bytes from the server. A read blocks until bytes arrive or the stream ends.
    pub reader: Box<dyn Read + Send>,
    /// Bytes to the server. A write passes its bytes to the operating system before it returns. It fails if
    /// none of them is accepted within [`Limits::write`].
    pub writer: Box<dyn Write + Send>,
    /// Closes both directions at once. Blocked reads and writes return.
    pub hang_up: Box<dyn Fn() + Send + Sync>,
}

/// Plain TCP without encryption.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Tcp {
    /// Connects to the first address of the host name that accepts a connection, with `timeout` per
    /// address.
    pub fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    // Disable Nagle's algorithm: requests are written whole, so waiting for more bytes only
                    // adds delay.
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Dial for Tcp {
    fn dial(&self, address: &str, limits: Limits) -> io::Result<Stream> {
        let stream = Tcp::connect(address, limits.connect)?;
        limits.limit_writes(&stream)?;
        let writer = stream.try_clone()?;
        let end = stream.try_clone()?;
        // An error means that the socket is already closed, which is the goal.
        Ok(Stream {
            reader: Box::new(stream),
            writer: Box::new(writer),
            hang_up: Box::new(move || drop(end.shutdown(Shutdown::Both))),
        })
    }
}
