//! TLS on a non-blocking socket.
//!
//! ```text
//!   socket --one read--> [ encrypted | plain ]  the loop's buffer: only an incomplete record is kept
//!                             |         ^
//!                             +-rustls--+  and handshake answers are sent at once
//! ```
//!
//! All bytes read are decrypted at once. Otherwise plaintext could wait inside rustls, for which no socket
//! event comes.

use super::stream::StreamInput;
use crate::tls::FIRST_BYTE;
use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Size of the largest TLS record, including its header and overhead.
const RECORD_BYTES: usize = (16 << 10) + 2048 + 5;

/// Returns the part of a buffer that is for encrypted bytes. The rest has room for their plaintext and for
/// a record of which only the last byte was missing.
const fn ciphertext_bytes(buffer_bytes: usize) -> usize {
    (buffer_bytes - RECORD_BYTES) / 2
}

/// The error for clients that do not use TLS, in plain RESP.
const PLAINTEXT_ERROR: &[u8] =
    b"-ERR this port speaks TLS: connect with TLS, as redis-cli --tls does\r\n";

/// A socket with TLS.
pub struct TlsStream {
    socket: TcpStream,
    tls: ServerConnection,
    /// True once the first byte has come.
    started: bool,
    /// True once the client has closed its side of the TLS session.
    closed: bool,
    /// True after invalid input: nothing more can be sent.
    failed: bool,
}

impl TlsStream {
    /// Creates a stream whose handshake has not begun.
    pub fn new(socket: TcpStream, config: Arc<ServerConfig>) -> Result<TlsStream, rustls::Error> {
        let tls = ServerConnection::new(config)?;
        Ok(TlsStream { socket, tls, started: false, closed: false, failed: false })
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub fn is_ready(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Reads and decrypts the available bytes.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<StreamInput<'a>> {
        if self.closed {
            return Ok(StreamInput::END);
        }
        let (ciphertext, plaintext) = buffer.split_at_mut(ciphertext_bytes(buffer.len()));
        let socket_bytes = self.socket.read(ciphertext)?;
        if socket_bytes == 0 {
            return Ok(StreamInput::END);
        }
        self.check_first(ciphertext[0])?;
        let more = socket_bytes == ciphertext.len();
        let count = self.decrypt(&ciphertext[..socket_bytes], plaintext)?;
        self.send_pending()?;
        // The client may have sent data before its close message, so the end of the stream is reported by
        // the next read.
        Ok(StreamInput { bytes: &plaintext[..count], socket_bytes, more: more || self.closed })
    }

    /// Rejects a client that does not use TLS, with an error that it can read.
    fn check_first(&mut self, first: u8) -> io::Result<()> {
        if !std::mem::replace(&mut self.started, true) && first != FIRST_BYTE {
            // If the socket does not take these few bytes, the client gets no explanation.
            let _ = self.socket.write(PLAINTEXT_ERROR);
            self.failed = true;
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    /// Decrypts bytes. Returns the length of the plaintext.
    fn decrypt(&mut self, mut ciphertext: &[u8], plaintext: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while !ciphertext.is_empty() && !self.closed {
            self.tls.read_tls(&mut ciphertext)?;
            let state = match self.tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => return Err(self.fail(error)),
            };
            if state.plaintext_bytes_to_read() > 0 {
                count += self.tls.reader().read(&mut plaintext[count..])?;
            }
            self.closed = state.peer_has_closed();
        }
        Ok(count)
    }

    /// Sends the TLS alert for this error, and marks the stream as broken.
    fn fail(&mut self, error: rustls::Error) -> io::Error {
        let _ = self.flush();
        self.failed = true;
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    /// Sends pending TLS messages. The rest is sent when the socket takes it.
    fn send_pending(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }

    /// Encrypts and sends bytes. It takes nothing while earlier bytes are unsent, so at most rustls's own
    /// limit of 64 KiB is buffered.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let count = self.tls.writer().write(bytes)?;
        self.send_pending()?;
        // Before the handshake is done, rustls takes only a limited number of bytes.
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Sends encrypted bytes that are still buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Queues the TLS close message. rustls makes sure that it is queued only once.
    pub fn send_close(&mut self) {
        self.tls.send_close_notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_has_room() {
        for buffer_bytes in [super::super::event_loop::BUFFER_BYTES, RECORD_BYTES + 2] {
            let ciphertext = ciphertext_bytes(buffer_bytes);
            assert!(ciphertext > 0 && buffer_bytes - ciphertext >= ciphertext + RECORD_BYTES);
        }
    }
}
