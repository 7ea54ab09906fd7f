//! The load client: pipelined connections on two threads, with one epoll event loop each.
//!
//! ```text
//!   thread 1:  poll -> replies of a burst -> next burst        32 connections
//!   thread 2:  the same                                        32 connections
//! ```
//!
//! The latency of a request is the time from the start of its burst to its reply.

use super::connection::{Connection, Question};
use super::process::PATIENCE;
use crate::context::Outcome;
use crate::forms::{Part, together};
use crate::harness::Slice;
use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Maximum number of threads that share the connections.
const THREADS: usize = 2;
/// Read buffer size.
const BUFFER_BYTES: usize = 64 << 10;

/// The client. Its connections stay open between slices.
pub struct Client {
    crews: Vec<Crew>,
}

impl Client {
    /// Opens that many connections.
    pub fn to(address: SocketAddr, connections: usize, question: &Question<'_>) -> Outcome<Client> {
        let threads = THREADS.min(connections);
        let share = |thread| (thread..connections).step_by(threads);
        Ok(Client {
            crews: (0..threads)
                .map(|thread| Crew::to(address, share(thread), question))
                .collect::<Outcome<_>>()?,
        })
    }

    /// Sends requests for a slice. Returns when all of them are answered.
    pub fn run(&mut self, slice: Duration) -> Outcome<Slice> {
        let barrier = Barrier::new(self.crews.len());
        let barrier = &barrier;
        together(&mut self.crews, |crew| {
            barrier.wait();
            crew.run(slice)
        })
    }
}

/// The connections of one thread.
struct Crew {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

impl Crew {
    fn to(
        address: SocketAddr,
        numbers: impl Iterator<Item = usize>,
        question: &Question<'_>,
    ) -> Outcome<Crew> {
        let poll = Poll::new()?;
        let connect = |(place, number)| -> Outcome<Connection> {
            let mut connection = Connection::to(address, question, number)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut connection.stream, Token(place), interest)?;
            Ok(connection)
        };
        let connections = numbers.enumerate().map(connect).collect::<Outcome<Vec<_>>>()?;
        let events = Events::with_capacity(connections.len().max(1));
        Ok(Crew { poll, events, connections, buffer: vec![0; BUFFER_BYTES] })
    }

    fn run(&mut self, slice: Duration) -> Outcome<Part> {
        let mut part = Part::begin();
        for connection in &mut self.connections {
            connection.ask()?;
        }
        while self.connections.iter().any(Connection::waits) {
            self.wait()?;
            self.serve(&mut part, slice)?;
        }
        part.ended = Instant::now();
        Ok(part)
    }

    fn wait(&mut self) -> Outcome<()> {
        match self.poll.poll(&mut self.events, Some(PATIENCE)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) if self.events.is_empty() => {
                Err(format!("no reply came within {PATIENCE:?}").into())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Handles the connections with events.
    fn serve(&mut self, part: &mut Part, slice: Duration) -> Outcome<()> {
        for event in &self.events {
            let Some(connection) = self.connections.get_mut(event.token().0) else { continue };
            let replies = exchange(connection, event, &mut self.buffer)?;
            let now = Instant::now();
            count(part, replies, now - connection.burst_started);
            if replies > 0 && !connection.waits() && now - part.started < slice {
                connection.ask()?;
            }
        }
        Ok(())
    }
}

fn exchange(connection: &mut Connection, event: &Event, buffer: &mut [u8]) -> Outcome<usize> {
    if event.is_writable() {
        connection.send()?;
    }
    connection.receive(buffer)
}

fn count(part: &mut Part, replies: usize, latency: Duration) {
    part.operations += replies as u64;
    (0..replies).for_each(|_| part.latency.record(latency.as_nanos() as u64));
}

#[cfg(test)]
mod tests {
    use super::super::connection::Asker;
    use super::super::wire::{Expected, put_request};
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Answers each request of known length, a few bytes at a time. Returns the number of answers.
    fn answer(mut stream: TcpStream, request_bytes: usize, reply: &str) -> usize {
        let mut buffer = vec![0; 1 << 16];
        let mut read = 0;
        let mut answered = 0;
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            read += bytes;
            let replies = reply.repeat(read / request_bytes - answered);
            answered = read / request_bytes;
            // A client closes the connection when it has enough answers.
            if replies.as_bytes().chunks(7).any(|piece| stream.write_all(piece).is_err()) {
                break;
            }
        }
        answered
    }

    fn listen(
        connections: usize,
        request_bytes: usize,
        reply: &'static str,
    ) -> (SocketAddr, impl FnOnce() -> usize) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let accept = |_| {
                let stream = listener.accept().unwrap().0;
                std::thread::spawn(move || answer(stream, request_bytes, reply))
            };
            let threads: Vec<_> = (0..connections).map(accept).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        (address, move || server.join().unwrap())
    }

    fn get(_: usize) -> Asker {
        Box::new(|out| put_request(out, &["GET", "key:000000000042"]))
    }

    fn question() -> Question<'static> {
        Question { depth: 3, reply: Expected::value(100), asker: &get }
    }

    #[test]
    fn every_request_is_answered_before_a_slice_ends_and_counted_once() {
        let request_bytes = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n".len();
        let reply: &'static str = Box::leak(format!("$100\r\n{}\r\n", "v".repeat(100)).into());
        let (address, answered) = listen(4, request_bytes, reply);
        let mut client = Client::to(address, 4, &question()).unwrap();
        let slice = Duration::from_millis(10);
        let slices = [client.run(slice).unwrap(), client.run(slice).unwrap()];
        drop(client);
        let counted = slices.iter().map(|slice| slice.operations).sum::<u64>();
        assert_eq!(counted, answered() as u64);
        assert!(slices.iter().all(|slice| slice.operations >= 12 && slice.operations % 3 == 0));
        assert!(slices[1].latency.percentiles().is_some());
    }

    #[test]
    fn a_server_that_refuses_fails_the_slice() {
        let (address, answered) = listen(2, 1, "-ERR no\r\n");
        let mut client = Client::to(address, 2, &question()).unwrap();
        let trouble = client.run(Duration::from_millis(10)).err().unwrap().to_string();
        assert!(trouble.contains("-ERR no"), "{trouble}");
        drop(client);
        answered();
    }
}
