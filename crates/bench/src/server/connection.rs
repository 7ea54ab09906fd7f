//! One pipelined connection: a burst of requests goes out, all its replies come in, then the next.

use super::wire::{Expected, Operation, key, put_request};
use crate::context::Outcome;
use crate::workload::Random;
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

/// What a connection asks.
#[derive(Clone)]
pub struct Question {
    /// What is asked.
    pub operation: Operation,
    /// How many requests a burst has.
    pub depth: usize,
    /// Keys are below this.
    pub keys: usize,
    /// The values to write.
    pub values: Vec<String>,
}

impl Question {
    fn put(&self, random: &mut Random, out: &mut Vec<u8>) {
        let key = key(random.below(self.keys) as u64);
        match self.operation {
            Operation::Set => put_request(out, &["SET", &key, random.pick(&self.values)]),
            Operation::Get => put_request(out, &["GET", &key]),
        }
    }
}

/// A connection that does not block.
pub struct Connection {
    /// Its socket.
    pub stream: TcpStream,
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
    /// Connects.
    pub fn to(address: SocketAddr, operation: Operation) -> Outcome<Connection> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream: TcpStream::from_std(stream),
            expected: operation.reply(),
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
    pub fn ask(&mut self, question: &Question, random: &mut Random) -> Outcome<()> {
        self.out.clear();
        self.sent = 0;
        for _ in 0..question.depth {
            question.put(random, &mut self.out);
        }
        self.missing = question.depth;
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
