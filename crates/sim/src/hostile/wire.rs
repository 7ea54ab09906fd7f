//! Minimal RESP and HTTP clients over blocking sockets, to send bytes that no proper client would.

use crate::drill::Outcome;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer may take, even from a debug build under attack.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Encodes one RESP request with these arguments.
pub(super) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Encodes a request given as arguments separated by spaces.
pub(super) fn line(words: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    request(&words)
}

/// A RESP connection.
pub(super) struct Resp {
    socket: BufReader<TcpStream>,
}

impl Resp {
    /// Connects and authenticates.
    pub fn login(address: SocketAddr, user: &str, password: &str) -> Outcome<Resp> {
        let mut resp = Resp::connect(address)?;
        let answer = resp.call(&line(&format!("AUTH {user} {password}")))?;
        if answer == "+OK" { Ok(resp) } else { Err(format!("AUTH: {answer}")) }
    }

    pub fn connect(address: SocketAddr) -> Outcome<Resp> {
        let socket = connect(address)?;
        Ok(Resp { socket: BufReader::new(socket) })
    }

    pub fn send(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.socket.get_mut().write_all(bytes).map_err(|error| format!("sending: {error}"))
    }

    /// Sends one request and reads its reply: the first line; for a string its bytes; for an array its
    /// elements joined by spaces.
    pub fn call(&mut self, bytes: &[u8]) -> Outcome<String> {
        self.send(bytes)?;
        self.read()
    }

    pub fn read(&mut self) -> Outcome<String> {
        let mut head = String::new();
        let length =
            self.socket.read_line(&mut head).map_err(|error| format!("reading: {error}"))?;
        if length == 0 {
            return Err("the server closed the connection".to_owned());
        }
        let head = head.trim_end();
        let count = || head[1..].parse::<i64>().map_err(|_| format!("an odd reply: {head}"));
        match head.as_bytes().first() {
            Some(b'$') if count()? >= 0 => self.read_string(count()?.unsigned_abs()),
            Some(b'*') => {
                let parts: Outcome<Vec<String>> = (0..count()?).map(|_| self.read()).collect();
                Ok(parts?.join(" "))
            }
            _ => Ok(head.to_owned()),
        }
    }

    fn read_string(&mut self, length: u64) -> Outcome<String> {
        let mut bytes = vec![0; length as usize + 2];
        self.socket.read_exact(&mut bytes).map_err(|error| format!("reading: {error}"))?;
        bytes.truncate(length as usize);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// An HTTP connection that authenticates with each request.
pub(super) struct Http {
    socket: BufReader<TcpStream>,
    authorization: String,
}

impl Http {
    pub fn connect(address: SocketAddr, user: &str, password: &str) -> Outcome<Http> {
        let authorization = STANDARD.encode(format!("{user}:{password}"));
        Ok(Http { socket: BufReader::new(connect(address)?), authorization })
    }

    /// Sends the header of a request with a body of `length` bytes, and the given part of the body.
    pub fn send(&mut self, method: &str, path: &str, length: usize, body: &[u8]) -> Outcome<()> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {}\r\nContent-Length: {length}\r\n\r\n",
            self.authorization
        );
        let socket = self.socket.get_mut();
        let sent = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body));
        sent.map_err(|error| format!("sending: {error}"))
    }

    /// Sends more of a body.
    pub fn send_more(&mut self, body: &[u8]) -> Outcome<()> {
        self.socket.get_mut().write_all(body).map_err(|error| format!("sending: {error}"))
    }

    /// Sends a request and returns the body of its response, which must have status 200.
    pub fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Outcome<String> {
        self.send(method, path, body.len(), body)?;
        let (status, body) = self.read()?;
        if status == 200 { Ok(body) } else { Err(format!("{method} {path}: {status} {body}")) }
    }

    /// Returns the status and body of the next response.
    pub fn read(&mut self) -> Outcome<(u16, String)> {
        let first = self.read_line()?;
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| format!("an odd answer: {first}"))?;
        let mut length = 0;
        loop {
            let header = self.read_line()?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| format!("an odd length: {header}"))?;
            }
        }
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).map_err(|error| format!("reading: {error}"))?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn read_line(&mut self) -> Outcome<String> {
        let mut text = String::new();
        let length =
            self.socket.read_line(&mut text).map_err(|error| format!("reading: {error}"))?;
        if length == 0 {
            return Err("the server closed the connection".to_owned());
        }
        Ok(text.trim_end().to_owned())
    }
}

fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, ANSWER_LIMIT);
    let socket = socket.map_err(|error| format!("connecting: {error}"))?;
    // Small requests are sent at once, and a server that hangs ends the run.
    let set = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(ANSWER_LIMIT)));
    set.and_then(|()| socket.set_write_timeout(Some(ANSWER_LIMIT)))
        .map_err(|error| format!("a socket: {error}"))?;
    Ok(socket)
}
