//! One pipelined connection: a burst of requests goes out, all its replies come in, then the next.

use super::wire::Expected;
use crate::context::Outcome;
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

/// Puts the next request of a connection behind others.
pub type Asker = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// What connections ask.
pub struct Question<'a> {
    /// How many requests a burst has.
    pub depth: usize,
    /// The one reply that is right.
    pub reply: Expected,
    /// What the connection with this number asks, request by request.
    pub asker: &'a dyn Fn(usize) -> Asker,
}

/// A connection that does not block.
pub struct Connection {
    /// Its socket.
    pub stream: TcpStream,
    asker: Asker,
    depth: usize,
    expected: Expected,
    out: Vec<u8>,
    sent: usize,
    /// Replies of which the end is missing.
    incoming: Vec<u8>,
    missing: usize,
    /// When the burst was sent.
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

    /// Whether replies are missing.
    pub fn waits(&self) -> bool {
        self.missing > 0
    }

    /// Sends a burst, or as much of it as the socket takes now.
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

    /// Sends what the socket did not take yet.
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

    /// Takes the replies that are there; answers how many.
    ///
    /// After the last one nothing more can come, so the socket is not asked once more.
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
