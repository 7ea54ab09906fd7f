//! A server as a store: one connection that speaks RESP3 and waits for each reply.

use super::failure::{Failure, Result};
use super::reply::Reply;
use mainstay::remote::{Tcp, decode, encode};
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a server.
pub struct Client {
    address: String,
    stream: BufReader<TcpStream>,
    timeout: Duration,
    /// What comes next on the stream is nobody's answer any more.
    broken: bool,
}

impl Client {
    /// Connects and agrees on RESP3.
    pub fn connect(address: &str, timeout: Duration) -> Result<Client> {
        let stream = Tcp::connect(address, CONNECT_TIMEOUT)
            .map_err(|error| unreachable_at(address, &error))?;
        let set = || -> io::Result<()> {
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))
        };
        set().map_err(|error| Failure::error(format!("the connection to {address}: {error}")))?;
        let stream = BufReader::new(stream);
        let mut client = Client { address: address.to_owned(), stream, timeout, broken: false };
        match client.call(&[b"HELLO".to_vec(), b"3".to_vec()])? {
            Reply::Error(line) => Err(Failure::refused(&line)),
            _ => Ok(client),
        }
    }

    /// Where the server is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether a reply is missing, so that no further command can be sent.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Sends a command and waits for its reply.
    pub fn call(&mut self, words: &[Vec<u8>]) -> Result<Reply> {
        if self.broken {
            return Err(Failure::error(format!("the connection to {} broke", self.address)));
        }
        let sent = self.stream.get_mut().write_all(&encode(words));
        let reply = sent.and_then(|()| decode(&mut self.stream));
        self.broken = reply.is_err();
        reply.map_err(|error| self.why(&error))
    }

    fn why(&self, error: &io::Error) -> Failure {
        let address = &self.address;
        let seconds = self.timeout.as_secs_f64();
        Failure::error(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
                "{address} did not answer within {seconds} s: it may still do what was asked, so \
                 look before you ask again; --timeout waits longer"
            ),
            io::ErrorKind::InvalidData => format!(
                "{address} does not answer in RESP ({error}): --server wants the RESP address of \
                 `mainstay serve`, not the HTTP one"
            ),
            _ => format!(
                "the connection to {address} broke ({error}): what was asked may have been done, \
                 so look before you ask again"
            ),
        })
    }
}

fn unreachable_at(address: &str, error: &io::Error) -> Failure {
    let what_to_do = "start one with `mainstay serve`, or name a directory with --data DIR";
    Failure::error(match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("nobody listens at {address}: {what_to_do}"),
        io::ErrorKind::InvalidInput => {
            format!("{address} is no address: --server wants HOST:PORT, as 127.0.0.1:7379")
        }
        _ => format!("no server was reached at {address} ({error}): {what_to_do}"),
    })
}
