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

use super::stream::Input;
use crate::tls::FIRST_BYTE;
use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Size of the largest TLS record, including its header and overhead.
const RECORD_BYTES: usize = (16 << 10) + 2048 + 5;

/// Returns the part of a buffer that is for encrypted bytes. The rest has room for their plaintext and for
/// a record of which only the last byte was missing.
const fn sealed_bytes(buffer_bytes: usize) -> usize {
    (buffer_bytes - RECORD_BYTES) / 2
}

/// The error for clients that do not use TLS, in plain RESP.
const NOT_PLAIN: &[u8] =
    b"-ERR this port speaks TLS: connect with TLS, as redis-cli --tls does\r\n";

/// A socket with TLS.
pub struct Secured {
    socket: TcpStream,
    tls: ServerConnection,
    /// True once the first byte has come.
    begun: bool,
    /// True once the client has closed its side of the TLS session.
    ended: bool,
    /// True after invalid input: nothing more can be sent.
    broken: bool,
}

impl Secured {
    /// Creates a stream whose handshake has not begun.
    pub fn new(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Secured, rustls::Error> {
        let tls = ServerConnection::new(config)?;
        Ok(Secured { socket, tls, begun: false, ended: false, broken: false })
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub fn is_ready(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Reads and decrypts the available bytes.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<Input<'a>> {
        if self.ended {
            return Ok(Input::END);
        }
        let (sealed, open) = buffer.split_at_mut(sealed_bytes(buffer.len()));
        let taken = self.socket.read(sealed)?;
        if taken == 0 {
            return Ok(Input::END);
        }
        self.check_first(sealed[0])?;
        let more = taken == sealed.len();
        let count = self.unseal(&sealed[..taken], open)?;
        self.answer()?;
        // The client may have sent data before its close message, so the end of the stream is reported by
        // the next read.
        Ok(Input { bytes: &open[..count], taken, more: more || self.ended })
    }

    /// Rejects a client that does not use TLS, with an error that it can read.
    fn check_first(&mut self, first: u8) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) && first != FIRST_BYTE {
            // If the socket does not take these few bytes, the client gets no explanation.
            let _ = self.socket.write(NOT_PLAIN);
            self.broken = true;
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    /// Decrypts bytes. Returns the length of the plaintext.
    fn unseal(&mut self, mut sealed: &[u8], open: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while !sealed.is_empty() && !self.ended {
            self.tls.read_tls(&mut sealed)?;
            let state = match self.tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => return Err(self.breaks(error)),
            };
            if state.plaintext_bytes_to_read() > 0 {
                count += self.tls.reader().read(&mut open[count..])?;
            }
            self.ended = state.peer_has_closed();
        }
        Ok(count)
    }

    /// Sends the TLS alert for this error, and marks the stream as broken.
    fn breaks(&mut self, error: rustls::Error) -> io::Error {
        let _ = self.flush();
        self.broken = true;
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    /// Sends pending TLS messages. The rest is sent when the socket takes it.
    fn answer(&mut self) -> io::Result<()> {
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
        self.answer()?;
        // Before the handshake is done, rustls takes only a limited number of bytes.
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Sends encrypted bytes that are still buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.broken {
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
    pub fn say_goodbye(&mut self) {
        self.tls.send_close_notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_has_room() {
        for buffer_bytes in [super::super::event_loop::BUFFER_BYTES, RECORD_BYTES + 2] {
            let sealed = sealed_bytes(buffer_bytes);
            assert!(sealed > 0 && buffer_bytes - sealed >= sealed + RECORD_BYTES);
        }
    }
}
