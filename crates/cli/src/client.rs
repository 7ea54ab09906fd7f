//! A RESP3 client over one connection, which waits for each reply.

use super::args::TlsArgs;
use super::failure::{Failure, Result};
use super::password::{Credentials, VARIABLE};
use super::reply::Reply;
use super::transport::{self, Transport};
use mainstay::remote::{Tcp, decode, encode};
use std::io::{self, BufReader, Write};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a server.
pub struct Client {
    address: String,
    stream: BufReader<Transport>,
    timeout: Duration,
    /// The stream is out of step with its commands, so it cannot be used any more.
    broken: bool,
}

impl Client {
    /// Connects, negotiates RESP3 with `HELLO`, and authenticates.
    pub fn connect(
        address: &str,
        credentials: Option<&Credentials>,
        timeout: Duration,
        tls: &TlsArgs,
    ) -> Result<Client> {
        let stream = Tcp::connect(address, CONNECT_TIMEOUT)
            .map_err(|error| connect_failure(address, &error))?;
        let stream = BufReader::new(Transport::new(stream, address, tls, timeout)?);
        let mut client = Client { address: address.to_owned(), stream, timeout, broken: false };
        let mut hello = vec![b"HELLO".to_vec(), b"3".to_vec()];
        if let Some(Credentials { user, password }) = credentials {
            hello.extend([b"AUTH".to_vec(), user.clone().into(), password.expose().to_vec()]);
        }
        match client.call(&hello)? {
            Reply::Error(line) => Err(login_failure(&line)),
            _ => Ok(client),
        }
    }

    /// The server's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// True if a reply is missing, so that no further command can be sent.
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
        reply.map_err(|error| self.io_failure(&error))
    }

    /// Pipelines several commands and passes each reply to `look` as it arrives.
    pub fn call_all(
        &mut self,
        calls: &[Vec<Vec<u8>>],
        mut on_reply: impl FnMut(Reply),
    ) -> Result<()> {
        if self.broken {
            return Err(Failure::error(format!("the connection to {} broke", self.address)));
        }
        let bytes: Vec<u8> = calls.iter().flat_map(|words| encode(words)).collect();
        let sent = self.stream.get_mut().write_all(&bytes);
        let done = sent.and_then(|()| {
            calls.iter().try_for_each(|_| decode(&mut self.stream).map(&mut on_reply))
        });
        self.broken = done.is_err();
        done.map_err(|error| self.io_failure(&error))
    }

    fn io_failure(&self, error: &io::Error) -> Failure {
        let address = &self.address;
        if transport::is_about_tls(error) {
            return transport::tls_failure(address, error);
        }
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

fn login_failure(line: &str) -> Failure {
    let failure = Failure::from_error_reply(line);
    match line.split(' ').next() {
        Some("NOAUTH") => failure.hint(&format!(
            "give --user NAME, and its password in {VARIABLE} or with --password-file FILE"
        )),
        _ => failure,
    }
}

fn connect_failure(address: &str, error: &io::Error) -> Failure {
    let what_to_do = "start one with `mainstay serve`, or name a directory with --data DIR";
    Failure::error(match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("nobody listens at {address}: {what_to_do}"),
        io::ErrorKind::InvalidInput => {
            format!("{address} is no address: --server wants HOST:PORT, as 127.0.0.1:7379")
        }
        _ => format!("no server was reached at {address} ({error}): {what_to_do}"),
    })
}
