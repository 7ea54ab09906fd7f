//! A minimal RESP encoder and reply matcher.

use crate::context::Outcome;
use crate::workload::VALUE_BYTES;

/// An operation under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a value of 100 bytes.
    Set,
    /// Reads a value.
    Get,
}

impl Operation {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Set => "SET",
            Operation::Get => "GET",
        }
    }

    /// The only valid reply.
    pub fn reply(self) -> Expected {
        match self {
            Operation::Set => Expected::exactly("+OK\r\n"),
            Operation::Get => Expected::value(VALUE_BYTES),
        }
    }
}

/// A key, named like those of redis-benchmark.
pub fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Appends a request to a buffer.
pub fn put_request(out: &mut Vec<u8>, words: &[&str]) {
    put_count(out, b'*', words.len());
    for word in words {
        put_count(out, b'$', word.len());
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// By hand, because formatting would cost the client more than a server needs to parse it.
fn put_count(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    let start = out.len();
    let mut left = count;
    loop {
        out.push(b'0' + (left % 10) as u8);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out[start..].reverse();
    out.extend_from_slice(b"\r\n");
}

/// The form of a reply: a fixed head, and a variable rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    head: Vec<u8>,
    rest: Rest,
}

/// The rest of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rest {
    /// A fixed number of bytes.
    Bytes(usize),
    /// Everything up to the end of the line.
    Line,
}

impl Expected {
    /// A string of this many bytes.
    pub fn value(bytes: usize) -> Expected {
        Expected { head: format!("${bytes}\r\n").into_bytes(), rest: Rest::Bytes(bytes + 2) }
    }

    /// A reply with every byte fixed.
    pub fn exactly(reply: &str) -> Expected {
        Expected { head: reply.as_bytes().to_vec(), rest: Rest::Bytes(0) }
    }

    /// Any number.
    pub fn number() -> Expected {
        Expected { head: b":".to_vec(), rest: Rest::Line }
    }

    /// The length of the first reply in the bytes, if it is complete.
    fn length(&self, bytes: &[u8]) -> Option<usize> {
        let behind = bytes.get(self.head.len()..)?;
        let rest_bytes = match self.rest {
            Rest::Bytes(count) => count,
            Rest::Line => behind.windows(2).position(|pair| pair == b"\r\n")? + 2,
        };
        (rest_bytes <= behind.len()).then_some(self.head.len() + rest_bytes)
    }

    /// Counts the complete replies at the start of the bytes, and their total length.
    ///
    /// Any other reply is an error: a server that rejects quickly must not look fast.
    pub fn count(&self, bytes: &[u8]) -> Outcome<(usize, usize)> {
        let mut replies = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            self.check_head(rest)?;
            let Some(length) = self.length(rest) else { break };
            replies += 1;
            rest = &rest[length..];
        }
        Ok((replies, bytes.len() - rest.len()))
    }

    fn check_head(&self, bytes: &[u8]) -> Outcome<()> {
        let known = bytes.len().min(self.head.len());
        if bytes[..known] == self.head[..known] {
            return Ok(());
        }
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let found = line.escape_ascii();
        let expected = self.head.escape_ascii();
        Err(format!("the server answered `{found}` where `{expected}` was expected").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_arrays_of_strings() {
        let mut out = Vec::new();
        put_request(&mut out, &["GET", &key(42)]);
        put_request(&mut out, &["PING"]);
        let expected = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn whole_replies_are_counted_wherever_the_bytes_are_cut() {
        let reply = format!("$100\r\n{}\r\n", "x".repeat(100));
        let two = reply.repeat(2);
        for cut in 0..=two.len() {
            let (replies, length) = Operation::Get.reply().count(&two.as_bytes()[..cut]).unwrap();
            assert_eq!((replies, length), (cut / reply.len(), replies * reply.len()), "{cut}");
        }
        assert_eq!(Expected::number().count(b":1\r\n:23\r\n:4\r").unwrap(), (2, 9));
        assert_eq!(Operation::Set.reply().count(b"+OK\r\n+OK\r\n+O").unwrap(), (2, 10));
    }

    #[test]
    fn any_other_reply_is_an_error() {
        let trouble = Operation::Set.reply().count(b"+OK\r\n-ERR no\r\n").err().unwrap();
        assert!(trouble.to_string().contains("`-ERR no`"), "{trouble}");
        assert!(Operation::Get.reply().count(b"$-1\r\n").is_err());
        assert!(Operation::Get.reply().count(b"$99\r\n").is_err());
        assert!(Expected::number().count(b"$-1\r\n").is_err());
        assert!(Expected::exactly("+PONG\r\n").count(b"+PING\r\n").is_err());
    }
}
