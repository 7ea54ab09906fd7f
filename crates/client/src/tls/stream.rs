//! Both directions of a TLS connection, each for its own thread.

use super::{ADVICE, TlsSetup, refused};
use crate::dial::Stream;
use parking_lot::Mutex;
use rustls::ClientConnection;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Read buffer size: several TLS records.
const BUFFER_BYTES: usize = 64 << 10;

/// State shared by both directions. It is locked to encrypt and decrypt, never during socket I/O.
type Sealing = Arc<Mutex<ClientConnection>>;

/// Splits a connection into its two directions after the handshake.
pub(super) fn split(
    connection: ClientConnection,
    socket: TcpStream,
    address: &str,
    made: TlsSetup,
) -> io::Result<Stream> {
    let sealing = Arc::new(Mutex::new(connection));
    let written = socket.try_clone()?;
    let end = socket.try_clone()?;
    let writer = TlsWriter { sealing: sealing.clone(), socket: written, sealed: Vec::new() };
    let reader = TlsReader {
        sealing,
        socket,
        sealed: vec![0; BUFFER_BYTES],
        left: 0..0,
        address: address.to_owned(),
        unheard: Some(made),
    };
    // An error means that the socket is already closed, which is the goal.
    Ok(Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        hang_up: Box::new(move || drop(end.shutdown(Shutdown::Both))),
    })
}

struct TlsReader {
    sealing: Sealing,
    socket: TcpStream,
    /// Received bytes, and the range of them that is not decrypted yet.
    sealed: Vec<u8>,
    left: std::ops::Range<usize>,
    address: String,
    /// The setup of this connection, until the server has sent anything.
    unheard: Option<TlsSetup>,
}

impl TlsReader {
    /// Returns decrypted bytes, or decrypts the received ones. Returns `None` if more bytes must arrive
    /// first.
    fn open(&mut self, open: &mut [u8]) -> io::Result<Option<usize>> {
        let mut sealing = self.sealing.lock();
        loop {
            match sealing.reader().read(open) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                opened => return opened.map(Some),
            }
            let mut left = &self.sealed[self.left.clone()];
            if left.is_empty() {
                return Ok(None);
            }
            match sealing.read_tls(&mut left)? {
                0 => return Ok(Some(0)),
                count => self.left.start += count,
            }
            let processed = sealing.process_new_packets();
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    fn read_more(&mut self, open: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(count) = self.open(open)? {
                return Ok(count);
            }
            match self.socket.read(&mut self.sealed) {
                // The peer closed without a TLS close message. A truncated reply is detected by its
                // decoder.
                Ok(0) => return Ok(0),
                Ok(count) => self.left = 0..count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Read for TlsReader {
    fn read(&mut self, open: &mut [u8]) -> io::Result<usize> {
        let read = self.read_more(open);
        // A server may reject a client certificate only after the handshake. So if the first read
        // fails, read the files again for the next connection.
        if let (Some(made), Ok(0) | Err(_)) = (self.unheard.take(), &read) {
            made.forget();
        }
        read.map_err(|error| {
            if super::is_about_tls(&error) {
                io::Error::other(refused(&self.address, &error, &ADVICE))
            } else {
                error
            }
        })
    }
}

struct TlsWriter {
    sealing: Sealing,
    socket: TcpStream,
    sealed: Vec<u8>,
}

impl TlsWriter {
    /// Encrypts as many bytes as rustls accepts at once, together with pending TLS messages.
    fn seal(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sealing = self.sealing.lock();
        let count = sealing.writer().write(bytes)?;
        while sealing.wants_write() {
            sealing.write_tls(&mut self.sealed)?;
        }
        Ok(count)
    }
}

impl Write for TlsWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sealed.clear();
        let count = self.seal(bytes)?;
        self.socket.write_all(&self.sealed)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
