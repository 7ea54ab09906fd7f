//! A non-blocking client stream, with or without TLS.
//!
//! ```text
//!   plain   socket --read--> the whole buffer                        bytes --> socket
//!   tls     socket --read--> its front part --rustls--> its rest     bytes --rustls--> socket
//! ```
//!
//! The set of streams is closed, so it is an enum. The branch costs one test per read of a buffer.

use super::tls_stream::TlsStream;
use mio::net::TcpStream;
use rustls::ServerConfig;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The result of a read.
pub struct StreamInput<'a> {
    /// The plaintext that was read.
    pub bytes: &'a [u8],
    /// Number of bytes taken from the socket, which can be more or less than the plaintext; 0 at the end of
    /// the stream.
    pub socket_bytes: usize,
    /// True if more bytes may be available for which no event comes.
    pub more: bool,
}

impl StreamInput<'_> {
    /// The end of the stream.
    pub const END: StreamInput<'static> = StreamInput { bytes: &[], socket_bytes: 0, more: false };

    /// Returns whether the stream has ended.
    pub fn is_end(&self) -> bool {
        self.socket_bytes == 0
    }
}

/// A client's socket.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Wraps a socket, with TLS if a configuration is given.
    pub fn new(socket: TcpStream, tls: Option<Arc<ServerConfig>>) -> Result<Stream, rustls::Error> {
        match tls {
            None => Ok(Stream::Plain(socket)),
            Some(config) => TlsStream::new(socket, config).map(|it| Stream::Tls(Box::new(it))),
        }
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Returns whether the stream is ready for data: with TLS, the handshake is done.
    pub fn is_ready(&self) -> bool {
        match self {
            Stream::Plain(_) => true,
            Stream::Tls(tls) => tls.is_ready(),
        }
    }

    /// Reads available bytes into the buffer.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<StreamInput<'a>> {
        match self {
            Stream::Plain(socket) => {
                let socket_bytes = socket.read(buffer)?;
                // A read that did not fill the buffer has emptied the socket; further bytes cause an event.
                Ok(StreamInput {
                    more: socket_bytes == buffer.len(),
                    bytes: &buffer[..socket_bytes],
                    socket_bytes,
                })
            }
            Stream::Tls(tls) => tls.read(buffer),
        }
    }

    /// Takes bytes to send. They are sent, or will be sent by the next [`Stream::flush`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    /// Sends bytes that were taken but not sent yet.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(tls) => tls.flush(),
        }
    }

    /// Sends the TLS close message; does nothing without TLS.
    pub fn send_close(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.send_close();
        }
    }
}
