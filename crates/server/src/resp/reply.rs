//! Replies: the RESP2 and RESP3 encodings of a result.

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
    /// An error. The first word is its kind.
    Error(Cow<'static, str>),
    /// An integer.
    Int(i64),
    /// A bulk string: text or bytes.
    Bulk(Vec<u8>),
    /// A null value.
    Nil,
    /// A null value in place of a list.
    NilArray,
    /// A list.
    Array(Vec<Reply>),
    /// A map; a flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Key-value pairs that are no map because keys may repeat; a flat list in RESP2.
    Pairs(Vec<(Reply, Reply)>),
    /// An out-of-band push message; a list in RESP2.
    Push(Vec<Reply>),
}

/// The success reply.
pub const OK: Reply = Reply::Status("OK");

/// A reply in encoded form.
pub struct Encoded {
    /// In the protocol of the connection.
    pub bytes: Vec<u8>,
    /// The reply itself if it is an error, because errors are counted.
    pub error: Option<Reply>,
}

impl Encoded {
    /// Encodes a reply for a version of the protocol.
    pub fn new(reply: &Reply, protocol: Protocol) -> Encoded {
        let mut bytes = Vec::new();
        reply.write(protocol, &mut bytes);
        Encoded { bytes, error: matches!(reply, Reply::Error(_)).then(|| reply.clone()) }
    }
}

impl Reply {
    /// Creates an error whose text includes its kind.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Reply {
        Reply::Error(text.into())
    }

    /// Creates a bulk string.
    pub fn text(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    /// Converts a value to a bulk string, as Redis clients see it.
    pub fn value(value: Value) -> Reply {
        match value {
            Value::String(text) => Reply::Bulk(text.into_bytes()),
            Value::Bytes(bytes) => Reply::Bulk(bytes),
            other => Reply::Bulk(other.as_text().into_owned()),
        }
    }

    /// Creates an integer. Numbers beyond `i64::MAX` become `i64::MAX`, because the protocol has no larger
    /// type.
    pub fn number(n: u64) -> Reply {
        Reply::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// Returns the reply, or null.
    pub fn maybe(reply: Option<Reply>) -> Reply {
        reply.unwrap_or(Reply::Nil)
    }

    /// Creates a list of bulk strings.
    pub fn texts(texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Reply {
        Reply::Array(texts.into_iter().map(Reply::text).collect())
    }

    /// Returns whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Returns the approximate memory of the reply.
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

    /// Appends the encoded reply.
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        match self {
            Reply::Status(text) => write_line(b'+', text.as_bytes(), out),
            Reply::Error(text) => write_line(b'-', one_line(text).as_bytes(), out),
            Reply::Int(n) => write_line(b':', itoa::Buffer::new().format(*n).as_bytes(), out),
            Reply::Bulk(bytes) => write_bulk(bytes, out),
            Reply::Nil if protocol == Protocol::Three => out.extend_from_slice(b"_\r\n"),
            Reply::NilArray if protocol == Protocol::Three => out.extend_from_slice(b"_\r\n"),
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Array(items) => write_list(b'*', items, protocol, out),
            Reply::Map(pairs) => write_map(pairs, protocol, out),
            Reply::Pairs(all) => write_pairs(all, protocol, out),
            Reply::Push(items) if protocol == Protocol::Three => {
                write_list(b'>', items, protocol, out)
            }
            Reply::Push(items) => write_list(b'*', items, protocol, out),
        }
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Reply {
        if error.code() == Code::MergeConflict {
            return Reply::error(format!("CONFLICT {}", error.keys().join(" ")));
        }
        Reply::error(format!("{} {}", error_kind(error.kind()), error.message()))
    }
}

/// Returns the kind with which an error begins.
fn error_kind(kind: ErrorKind) -> &'static str {
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

/// Replaces line breaks, because an error is one line and may repeat a name that has some.
fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\r', '\n']) {
        Cow::Owned(text.replace(['\r', '\n'], " "))
    } else {
        Cow::Borrowed(text)
    }
}

fn write_line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn write_head(kind: u8, count: usize, out: &mut Vec<u8>) {
    write_line(kind, itoa::Buffer::new().format(count).as_bytes(), out);
}

/// Appends a bulk string.
pub fn write_bulk(bytes: &[u8], out: &mut Vec<u8>) {
    write_head(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn write_list(kind: u8, items: &[Reply], protocol: Protocol, out: &mut Vec<u8>) {
    write_head(kind, items.len(), out);
    items.iter().for_each(|item| item.write(protocol, out));
}

fn write_map(pairs: &[(Reply, Reply)], protocol: Protocol, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Two => write_head(b'*', 2 * pairs.len(), out),
        Protocol::Three => write_head(b'%', pairs.len(), out),
    }
    for (key, value) in pairs {
        key.write(protocol, out);
        value.write(protocol, out);
    }
}

fn write_pairs(all: &[(Reply, Reply)], protocol: Protocol, out: &mut Vec<u8>) {
    let heads = if protocol == Protocol::Two { 2 } else { 1 };
    write_head(b'*', heads * all.len(), out);
    for (key, value) in all {
        if protocol == Protocol::Three {
            write_head(b'*', 2, out);
        }
        key.write(protocol, out);
        value.write(protocol, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(reply: &Reply, protocol: Protocol) -> String {
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
        assert_eq!(encoded(&all, Protocol::Two), two);
        assert_eq!(encoded(&all, Protocol::Three), three);
        let pairs = Reply::Pairs(vec![(Reply::Int(1), Reply::Int(2))]);
        assert_eq!(encoded(&pairs, Protocol::Two), r"*2\r\n:1\r\n:2\r\n");
        assert_eq!(encoded(&pairs, Protocol::Three), r"*1\r\n*2\r\n:1\r\n:2\r\n");
        let push = Reply::Push(vec![Reply::Int(1)]);
        assert_eq!(encoded(&push, Protocol::Two), r"*1\r\n:1\r\n");
        assert_eq!(encoded(&push, Protocol::Three), r">1\r\n:1\r\n");
        assert_eq!(encoded(&Reply::NilArray, Protocol::Two), r"*-1\r\n");
    }

    #[test]
    fn a_failure_stays_on_its_line() {
        let reply = Reply::error("ERR no such `a\r\nb`");
        assert_eq!(encoded(&reply, Protocol::Two), r"-ERR no such `a  b`\r\n");
    }
}
