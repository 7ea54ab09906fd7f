//! Streams: a socket that never blocks, with TLS or without.
//!
//! ```text
//!   plain   socket --read--> the whole buffer                       bytes --> socket
//!   tls     socket --read--> its front --rustls--> its rest         bytes --rustls--> socket
//! ```
//!
//! A closed set, so an enum: which of the two it is, is asked once per read of a buffer.

use super::secured::Secured;
use mio::net::TcpStream;
use rustls::ServerConfig;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// What a read gave.
pub struct Input<'a> {
    /// What the client says.
    pub bytes: &'a [u8],
    /// What was taken from the socket, which can be more or less than that; nothing at the end.
    pub taken: usize,
    /// There may be more that no event will tell of.
    pub more: bool,
}

impl Input<'_> {
    /// The client says nothing more.
    pub const END: Input<'static> = Input { bytes: &[], taken: 0, more: false };

    /// Whether the client says nothing more.
    pub fn is_end(&self) -> bool {
        self.taken == 0
    }
}

/// A client's socket.
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<Secured>),
}

impl Stream {
    /// A socket as it is, or with TLS.
    pub fn new(socket: TcpStream, tls: Option<Arc<ServerConfig>>) -> Result<Stream, rustls::Error> {
        match tls {
            None => Ok(Stream::Plain(socket)),
            Some(config) => Secured::new(socket, config).map(|it| Stream::Tls(Box::new(it))),
        }
    }

    /// The socket, to be registered.
    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(secured) => secured.socket(),
        }
    }

    /// Whether it can be talked on.
    pub fn is_ready(&self) -> bool {
        match self {
            Stream::Plain(_) => true,
            Stream::Tls(secured) => secured.is_ready(),
        }
    }

    /// Reads what there is, into the buffer.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<Input<'a>> {
        match self {
            Stream::Plain(socket) => {
                let taken = socket.read(buffer)?;
                // A socket that did not fill the buffer has nothing more, or will tell.
                Ok(Input { more: taken == buffer.len(), bytes: &buffer[..taken], taken })
            }
            Stream::Tls(secured) => secured.read(buffer),
        }
    }

    /// Takes bytes to be sent; what was taken is on its way, or leaves with the next [`Stream::flush`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(secured) => secured.write(bytes),
        }
    }

    /// Sends what was taken and has not left yet.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(secured) => secured.flush(),
        }
    }

    /// Tells the client that this is the end, where there is a way to.
    pub fn say_goodbye(&mut self) {
        if let Stream::Tls(secured) = self {
            secured.say_goodbye();
        }
    }
}
