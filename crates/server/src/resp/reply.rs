//! Replies: what a client gets, in either version of the protocol.

use mainstay::{Code, Error, ErrorKind, Value};
use std::borrow::Cow;

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, which every client speaks.
    #[default]
    Two,
    /// RESP3, with maps, nulls and pushes of its own.
    Three,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A short word, such as `OK`.
    Status(&'static str),
    /// A failure; the first word is its kind.
    Error(Cow<'static, str>),
    /// A whole number.
    Int(i64),
    /// Text or bytes.
    Bulk(Vec<u8>),
    /// Nothing.
    Nil,
    /// Nothing where a list was asked for.
    NilArray,
    /// A list.
    Array(Vec<Reply>),
    /// Pairs; a flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Pairs that are no map, because their keys may repeat; a flat list in RESP2.
    Pairs(Vec<(Reply, Reply)>),
    /// What comes unasked; a list in RESP2.
    Push(Vec<Reply>),
}

/// Done.
pub const OK: Reply = Reply::Status("OK");

/// A reply in the bytes that are sent.
pub struct Encoded {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The reply itself, if it is an error: those are counted.
    pub error: Option<Reply>,
}

impl Encoded {
    /// A reply in the bytes of a protocol.
    pub fn new(reply: &Reply, protocol: Protocol) -> Encoded {
        let mut bytes = Vec::new();
        reply.write(protocol, &mut bytes);
        Encoded { bytes, error: matches!(reply, Reply::Error(_)).then(|| reply.clone()) }
    }
}

impl Reply {
    /// A failure in our own words.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Reply {
        Reply::Error(text.into())
    }

    /// Text.
    pub fn text(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    /// A value as clients of strings see it.
    pub fn value(value: Value) -> Reply {
        match value {
            Value::String(text) => Reply::Bulk(text.into_bytes()),
            Value::Bytes(bytes) => Reply::Bulk(bytes),
            other => Reply::Bulk(other.as_text().into_owned()),
        }
    }

    /// A number that the protocol has no larger type for.
    pub fn number(n: u64) -> Reply {
        Reply::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// The reply or nothing.
    pub fn maybe(reply: Option<Reply>) -> Reply {
        reply.unwrap_or(Reply::Nil)
    }

    /// A list of texts.
    pub fn texts(texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Reply {
        Reply::Array(texts.into_iter().map(Reply::text).collect())
    }

    /// Whether it is a failure.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// The memory it takes, about.
    pub fn weight_bytes(&self) -> usize {
        let all = |items: &[Reply]| items.iter().map(Reply::weight_bytes).sum::<usize>();
        size_of::<Reply>()
            + match self {
                Reply::Bulk(bytes) => bytes.len(),
                Reply::Error(text) => text.len(),
                Reply::Array(items) | Reply::Push(items) => all(items),
                Reply::Map(pairs) | Reply::Pairs(pairs) => {
                    pairs.iter().map(|(key, value)| key.weight_bytes() + value.weight_bytes()).sum()
                }
                _ => 0,
            }
    }

    /// Appends the reply as bytes.
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        match self {
            Reply::Status(text) => line(b'+', text.as_bytes(), out),
            Reply::Error(text) => line(b'-', one_line(text).as_bytes(), out),
            Reply::Int(n) => line(b':', itoa::Buffer::new().format(*n).as_bytes(), out),
            Reply::Bulk(bytes) => bulk(bytes, out),
            Reply::Nil if protocol == Protocol::Three => out.extend_from_slice(b"_\r\n"),
            Reply::NilArray if protocol == Protocol::Three => out.extend_from_slice(b"_\r\n"),
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Array(items) => list(b'*', items, protocol, out),
            Reply::Map(pairs) => map(pairs, protocol, out),
            Reply::Pairs(all) => pairs(all, protocol, out),
            Reply::Push(items) if protocol == Protocol::Three => list(b'>', items, protocol, out),
            Reply::Push(items) => list(b'*', items, protocol, out),
        }
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Reply {
        if error.code() == Code::MergeConflict {
            return Reply::error(format!("CONFLICT {}", error.keys().join(" ")));
        }
        Reply::error(format!("{} {}", word(error.kind()), error.message()))
    }
}

/// The word that a failure begins with.
fn word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "INVALID",
        ErrorKind::TooLarge => "TOOLARGE",
        ErrorKind::Conflict => "CONFLICT",
        ErrorKind::NotFound => "NOTFOUND",
        ErrorKind::Exists => "EXISTS",
        ErrorKind::Fenced => "FENCED",
        ErrorKind::WrongType => "WRONGTYPE",
        ErrorKind::HistoryTrimmed => "TRIMMED",
        ErrorKind::SessionExpired => "SESSIONEXPIRED",
        ErrorKind::ResponseEvicted => "EVICTED",
        ErrorKind::Unsupported => "UNSUPPORTED",
        ErrorKind::ReadOnly => "READONLY",
        ErrorKind::Unauthenticated => "NOAUTH",
        ErrorKind::Forbidden => "NOPERM",
        ErrorKind::Unavailable | ErrorKind::Closed => "UNAVAILABLE",
        ErrorKind::UnknownOutcome => "UNKNOWN",
        ErrorKind::Corrupt => "CORRUPT",
        _ => "ERR",
    }
}

/// A failure is one line, whatever names it repeats.
fn one_line(text: &str) -> Cow<'_, str> {
    match text.contains(['\r', '\n']) {
        true => Cow::Owned(text.replace(['\r', '\n'], " ")),
        false => Cow::Borrowed(text),
    }
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn head(kind: u8, count: usize, out: &mut Vec<u8>) {
    line(kind, itoa::Buffer::new().format(count).as_bytes(), out);
}

/// Appends text or bytes.
pub fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    head(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn list(kind: u8, items: &[Reply], protocol: Protocol, out: &mut Vec<u8>) {
    head(kind, items.len(), out);
    items.iter().for_each(|item| item.write(protocol, out));
}

fn map(pairs: &[(Reply, Reply)], protocol: Protocol, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Two => head(b'*', 2 * pairs.len(), out),
        Protocol::Three => head(b'%', pairs.len(), out),
    }
    for (key, value) in pairs {
        key.write(protocol, out);
        value.write(protocol, out);
    }
}

fn pairs(all: &[(Reply, Reply)], protocol: Protocol, out: &mut Vec<u8>) {
    let each = if protocol == Protocol::Two { 2 } else { 1 };
    head(b'*', each * all.len(), out);
    for (key, value) in all {
        if protocol == Protocol::Three {
            head(b'*', 2, out);
        }
        key.write(protocol, out);
        value.write(protocol, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, protocol: Protocol) -> String {
        let mut out = Vec::new();
        reply.write(protocol, &mut out);
        out.escape_ascii().to_string()
    }

    #[test]
    fn both_versions_say_the_same() {
        let all = Reply::Array(vec![
            OK,
            Reply::Int(-5),
            Reply::text("a"),
            Reply::Nil,
            Reply::Map(vec![(Reply::text("k"), Reply::Int(1))]),
        ]);
        let two = r"*5\r\n+OK\r\n:-5\r\n$1\r\na\r\n$-1\r\n*2\r\n$1\r\nk\r\n:1\r\n";
        let three = r"*5\r\n+OK\r\n:-5\r\n$1\r\na\r\n_\r\n%1\r\n$1\r\nk\r\n:1\r\n";
        assert_eq!(written(&all, Protocol::Two), two);
        assert_eq!(written(&all, Protocol::Three), three);
        let pairs = Reply::Pairs(vec![(Reply::Int(1), Reply::Int(2))]);
        assert_eq!(written(&pairs, Protocol::Two), r"*2\r\n:1\r\n:2\r\n");
        assert_eq!(written(&pairs, Protocol::Three), r"*1\r\n*2\r\n:1\r\n:2\r\n");
        let push = Reply::Push(vec![Reply::Int(1)]);
        assert_eq!(written(&push, Protocol::Two), r"*1\r\n:1\r\n");
        assert_eq!(written(&push, Protocol::Three), r">1\r\n:1\r\n");
        assert_eq!(written(&Reply::NilArray, Protocol::Two), r"*-1\r\n");
    }

    #[test]
    fn a_failure_stays_on_its_line() {
        let reply = Reply::error("ERR no such `a\r\nb`");
        assert_eq!(written(&reply, Protocol::Two), r"-ERR no such `a  b`\r\n");
    }
}
