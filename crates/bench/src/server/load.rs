//! A blocking caller, and the initial load of keys.

use super::process::PATIENCE;
use super::wire::{Expected, Operation, key, put_request};
use crate::context::Outcome;
use crate::workload;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Number of keys per request: large enough that its fsync does not count.
const BATCH: usize = 1_000;

/// Typical maximum size of a single reply.
const REPLY_BYTES: usize = 1 << 10;

/// A connection with one request at a time.
pub struct Caller {
    stream: TcpStream,
    out: Vec<u8>,
}

impl Caller {
    /// Connects.
    pub fn to(address: SocketAddr) -> Outcome<Caller> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Caller { stream, out: Vec::new() })
    }

    /// Sends a request and waits for its reply, which must match `expected`.
    pub fn call(&mut self, request: &[&str], expected: &Expected) -> Outcome<()> {
        self.out.clear();
        put_request(&mut self.out, request);
        self.stream.write_all(&self.out)?;
        self.receive(expected)
    }

    /// Sends a request and waits for its reply. Returns the texts in it, flattened.
    pub fn ask(&mut self, request: &[&str]) -> Outcome<Vec<String>> {
        self.out.clear();
        put_request(&mut self.out, request);
        self.stream.write_all(&self.out)?;
        // No bytes follow the reply, so none are lost with the buffer.
        texts(&mut BufReader::with_capacity(REPLY_BYTES, &self.stream))
    }

    /// Pipelines requests and waits for their replies. Returns the texts of each, flattened.
    pub fn pipeline(&mut self, requests: Vec<Vec<String>>) -> Outcome<Vec<Vec<String>>> {
        self.out.clear();
        for request in &requests {
            let words: Vec<&str> = request.iter().map(String::as_str).collect();
            put_request(&mut self.out, &words);
        }
        let mut writer = self.stream.try_clone()?;
        let out = std::mem::take(&mut self.out);
        // A server may stop reading while its replies are not read, so write on another thread.
        let writing = std::thread::spawn(move || writer.write_all(&out).map(|()| out));
        let mut reader = BufReader::with_capacity(1 << 16, &self.stream);
        let replies = requests.iter().map(|_| texts(&mut reader)).collect();
        self.out = writing.join().map_err(|_| "a writer failed")??;
        replies
    }

    fn receive(&mut self, expected: &Expected) -> Outcome<()> {
        let mut reply = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let read = self.stream.read(&mut buffer)?;
            if read == 0 {
                return Err("the server hung up instead of answering".into());
            }
            reply.extend_from_slice(&buffer[..read]);
            if expected.count(&reply)?.0 > 0 {
                return Ok(());
            }
        }
    }
}

/// The texts of one reply; null becomes an empty text.
fn texts(reader: &mut impl BufRead) -> Outcome<Vec<String>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let (kind, rest) = line.trim_end().split_at_checked(1).ok_or("the server hung up")?;
    match (kind, rest.parse::<i64>()) {
        ("-", _) => Err(format!("the server refused: {}", line.trim_end()).into()),
        ("$", Ok(length)) if length >= 0 => {
            let mut bytes = vec![0; length as usize + 2];
            reader.read_exact(&mut bytes)?;
            Ok(vec![String::from_utf8_lossy(&bytes[..length as usize]).into_owned()])
        }
        ("*", Ok(count)) => {
            let parts: Outcome<Vec<Vec<String>>> = (0..count).map(|_| texts(reader)).collect();
            Ok(parts?.concat())
        }
        ("$", _) => Ok(vec![String::new()]),
        _ => Ok(vec![rest.to_owned()]),
    }
}

/// Sets all keys below `count`, in a scattered order.
pub fn fill(address: SocketAddr, count: usize) -> Outcome<()> {
    let mut caller = Caller::to(address)?;
    let values = workload::values();
    let expected = Operation::Set.reply();
    let keys: Vec<String> = workload::scattered(count as u64).map(key).collect();
    for (batch, value) in keys.chunks(BATCH).zip(values.iter().cycle()) {
        let words = batch.iter().flat_map(|key| [key.as_str(), value.as_str()]);
        let request: Vec<&str> = std::iter::once("MSET").chain(words).collect();
        caller.call(&request, &expected)?;
    }
    Ok(())
}
