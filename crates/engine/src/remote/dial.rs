//! Streams to a server: TCP, or whatever stands in its place.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Opens streams to a server. TCP does ([`Tcp`]), and with the feature `tls` there is `Tls`.
///
/// A failure that carries a [`mainstay::Error`](crate::Error) is told as it is, here and when a stream
/// is read; every other one is that the server cannot be reached.
pub trait Dial: Send + Sync + fmt::Debug {
    /// A new stream to this address, `HOST:PORT`.
    fn dial(&self, address: &str, limits: Limits) -> io::Result<Stream>;
}

/// How long the other end is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Until the stream is there.
    pub connect: Duration,
    /// While it takes nothing of what is written. Such a write has to fail, because nobody may be left who
    /// would hang up: the thread that looks after connections writes, too.
    pub write: Duration,
}

impl Limits {
    /// Has writes to a socket fail whose other end takes nothing.
    pub fn limit_writes(self, socket: &TcpStream) -> io::Result<()> {
        // A socket takes no limit of zero.
        socket.set_write_timeout(Some(self.write.max(Duration::from_millis(1))))
    }
}

/// A stream in both directions, each for a thread of its own.
pub struct Stream {
    /// What the server says. A read blocks until there is something, or the stream ends.
    pub reader: Box<dyn Read + Send>,
    /// What is said to it. A write gives its bytes to the system before it returns, and fails when none of
    /// them is taken within [`Limits::write`].
    pub writer: Box<dyn Write + Send>,
    /// Ends both directions at once, also for whoever is blocked in one of them.
    pub hang_up: Box<dyn Fn() + Send + Sync>,
}

/// Streams as they are, without encryption.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Tcp {
    /// A connected socket: the first of the name's addresses at which somebody listens.
    pub fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    // Requests are whole already: waiting for more would only delay them.
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
        let (writer, end) = (stream.try_clone()?, stream.try_clone()?);
        // It may be over already, which is what is wanted.
        let hang_up = move || drop(end.shutdown(Shutdown::Both));
        Ok(Stream {
            reader: Box::new(stream),
            writer: Box::new(writer),
            hang_up: Box::new(hang_up),
        })
    }
}
