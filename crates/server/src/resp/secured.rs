//! TLS on a socket that never blocks.
//!
//! ```text
//!   socket --one read--> [ sealed | open ]  the loop's buffer: nothing is kept but an incomplete record
//!                            |       ^
//!                            +-rustls+  and what the handshake answers leaves at once
//! ```
//!
//! All that was read is decrypted at once, so nothing waits inside rustls that no event would tell of.

use super::stream::Input;
use crate::tls::FIRST_BYTE;
use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The largest record, with what surrounds it.
const RECORD_BYTES: usize = (16 << 10) + 2048 + 5;

/// How much of a buffer is for what is still sealed. The rest has room for what that opens to, together
/// with a record that had come but for its last byte.
const fn sealed_bytes(buffer_bytes: usize) -> usize {
    (buffer_bytes - RECORD_BYTES) / 2
}

/// Told to those who do not speak TLS, in their own tongue.
const NOT_PLAIN: &[u8] =
    b"-ERR this port speaks TLS: connect with TLS, as redis-cli --tls does\r\n";

/// A socket with TLS.
pub struct Secured {
    socket: TcpStream,
    tls: ServerConnection,
    /// Something has come.
    begun: bool,
    /// The client has said that nothing more comes.
    ended: bool,
    /// Nothing more can be said: what came made no sense.
    broken: bool,
}

impl Secured {
    /// One whose handshake is to come.
    pub fn new(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Secured, rustls::Error> {
        let tls = ServerConnection::new(config)?;
        Ok(Secured { socket, tls, begun: false, ended: false, broken: false })
    }

    /// The socket, to be registered.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Whether the handshake is done.
    pub fn is_ready(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Reads and decrypts what there is.
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
        // Who has said goodbye may have said something before: the end comes with the next read.
        Ok(Input { bytes: &open[..count], taken, more: more || self.ended })
    }

    /// Whoever speaks something else is told so where that can be read.
    fn check_first(&mut self, first: u8) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) && first != FIRST_BYTE {
            // Whoever does not take these few bytes does without.
            let _ = self.socket.write(NOT_PLAIN);
            self.broken = true;
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    /// Decrypts; gives how much that came to.
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

    /// Tells the client why, as far as TLS has words for it.
    fn breaks(&mut self, error: rustls::Error) -> io::Error {
        let _ = self.flush();
        self.broken = true;
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    /// Sends what TLS itself has to say; what does not leave now leaves when the socket takes it.
    fn answer(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }

    /// Encrypts and sends. Nothing is taken while some of what was taken before has not left, so no
    /// more than rustls's own limit of 64 KiB waits here.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let count = self.tls.writer().write(bytes)?;
        self.answer()?;
        // Before the handshake is done only so much is taken.
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Sends what is encrypted.
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

    /// Says that nothing more comes; once is enough, which rustls sees to.
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
