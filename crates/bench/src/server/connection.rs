//! A pipelined connection: sends a burst of requests, receives all replies, and repeats.

use super::wire::Expected;
use crate::context::Outcome;
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

/// Appends the next request of a connection to the buffer.
pub type Asker = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// The load of the connections.
pub struct Question<'a> {
    /// Number of requests per burst.
    pub depth: usize,
    /// The only valid reply.
    pub reply: Expected,
    /// Creates the request generator of the connection with this number.
    pub asker: &'a dyn Fn(usize) -> Asker,
}

/// A non-blocking connection.
pub struct Connection {
    /// The socket.
    pub stream: TcpStream,
    asker: Asker,
    depth: usize,
    expected: Expected,
    out: Vec<u8>,
    sent: usize,
    /// An incomplete reply.
    incoming: Vec<u8>,
    missing: usize,
    /// Send time of the burst.
    pub burst_started: Instant,
}

impl Connection {
    /// Connects, as the connection with this number.
    pub fn to(address: SocketAddr, question: &Question<'_>, number: usize) -> Outcome<Connection> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream: TcpStream::from_std(stream),
            asker: (question.asker)(number),
            depth: question.depth,
            expected: question.reply.clone(),
            out: Vec::new(),
            sent: 0,
            incoming: Vec::new(),
            missing: 0,
            burst_started: Instant::now(),
        })
    }

    /// Returns whether replies are missing.
    pub fn waits(&self) -> bool {
        self.missing > 0
    }

    /// Sends a burst, or as much of it as the socket accepts now.
    pub fn ask(&mut self) -> Outcome<()> {
        self.out.clear();
        self.sent = 0;
        for _ in 0..self.depth {
            (self.asker)(&mut self.out);
        }
        self.missing = self.depth;
        self.burst_started = Instant::now();
        self.send()
    }

    /// Sends the bytes that the socket did not accept yet.
    pub fn send(&mut self) -> Outcome<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("a request was not taken: {error}").into()),
            }
        }
        Ok(())
    }

    /// Receives the available replies. Returns their number.
    ///
    /// After the last reply no more can arrive, so the socket is not read again.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Outcome<usize> {
        let before = self.missing;
        while self.waits() {
            match self.stream.read(buffer) {
                Ok(0) => return Err("the server hung up in the middle of a burst".into()),
                Ok(read) => self.take(&buffer[..read])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("a reply was not read: {error}").into()),
            }
        }
        Ok(before - self.missing)
    }

    fn take(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.incoming.extend_from_slice(bytes);
        let (replies, length) = self.expected.count(&self.incoming)?;
        self.incoming.drain(..length);
        self.missing = self
            .missing
            .checked_sub(replies)
            .ok_or("the server sent more replies than there were requests")?;
        Ok(())
    }
}
