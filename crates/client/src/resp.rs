//! RESP3 codec: encodes commands and decodes replies.
//!
//! ```text
//!   words --encode--> *2 $3 GET $1 a     to the server
//!   $5 hello --decode--> Reply           from the server
//! ```

use std::io::{self, BufRead, Read};

/// Maximum length of a bulk string: that of a transaction plus some headroom.
const TEXT_LIMIT_BYTES: u64 = 256 << 20;
/// Maximum length of a header line, which holds numbers and errors but no data.
const LINE_LIMIT_BYTES: u64 = 1 << 20;
/// Maximum nesting depth of a reply.
const DEPTH_LIMIT: usize = 32;

/// A reply to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The null reply.
    Nil,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A bulk, simple or verbatim string of any bytes.
    Text(Vec<u8>),
    /// An array, a set or a push.
    Array(Vec<Reply>),
    /// A map of replies to replies.
    Map(Vec<(Reply, Reply)>),
    /// An error. Its first word is the kind.
    Error(String),
}

impl Reply {
    /// Creates a text reply.
    pub fn text(text: impl AsRef<[u8]>) -> Reply {
        Reply::Text(text.as_ref().to_vec())
    }

    /// Returns the value of an integer, or of a text that is one. `None` if it is negative or not a number.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Reply::Int(n) => u64::try_from(*n).ok(),
            Reply::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }
}

/// Encodes a command and its arguments.
pub fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Reads one reply. Skips pushes and attributes that precede it.
pub fn decode(from: &mut impl BufRead) -> io::Result<Reply> {
    loop {
        let (kind, rest) = head(from)?;
        match kind {
            b'>' => drop(items(from, count(&rest)?, DEPTH_LIMIT)?),
            b'|' => drop(items(from, count(&rest)?.saturating_mul(2), DEPTH_LIMIT)?),
            _ => return body(from, kind, &rest, DEPTH_LIMIT),
        }
    }
}

fn nested(from: &mut impl BufRead, levels: usize) -> io::Result<Reply> {
    let (kind, rest) = head(from)?;
    body(from, kind, &rest, levels)
}

fn body(from: &mut impl BufRead, kind: u8, rest: &str, levels: usize) -> io::Result<Reply> {
    match kind {
        b'+' => Ok(Reply::text(rest)),
        b'-' => Ok(Reply::Error(rest.to_owned())),
        b':' => rest.parse().map(Reply::Int).map_err(|_| strange("a number")),
        b',' => rest.parse().map(Reply::Float).map_err(|_| strange("a float")),
        b'#' => Ok(Reply::Bool(rest == "t")),
        b'_' => Ok(Reply::Nil),
        b'(' => Ok(Reply::text(rest)),
        b'$' | b'*' if rest == "-1" => Ok(Reply::Nil),
        b'$' => text(from, rest).map(Reply::Text),
        b'!' => Ok(Reply::Error(String::from_utf8_lossy(&text(from, rest)?).into_owned())),
        // A verbatim string begins with a three-letter format and a colon.
        b'=' => Ok(Reply::text(text(from, rest)?.get(4..).unwrap_or_default())),
        b'*' | b'~' | b'>' => items(from, count(rest)?, levels).map(Reply::Array),
        b'%' => map(from, count(rest)?, levels),
        _ => Err(strange("a reply")),
    }
}

/// Returns the type byte and the rest of a line.
fn head(from: &mut impl BufRead) -> io::Result<(u8, String)> {
    let mut line = Vec::new();
    from.by_ref().take(LINE_LIMIT_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.strip_suffix(b"\r\n").ok_or_else(|| strange("a line"))?;
    let (kind, rest) = line.split_first().ok_or_else(|| strange("a line"))?;
    Ok((*kind, String::from_utf8_lossy(rest).into_owned()))
}

fn count(text: &str) -> io::Result<u64> {
    text.parse().map_err(|_| strange("a length"))
}

fn text(from: &mut impl BufRead, length: &str) -> io::Result<Vec<u8>> {
    let length = count(length)?;
    if length > TEXT_LIMIT_BYTES {
        return Err(strange("a length within 256 MiB"));
    }
    // The buffer grows as bytes arrive, so a declared length alone allocates no memory.
    let mut bytes = Vec::new();
    from.by_ref().take(length + 2).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length + 2 {
        bytes.truncate(bytes.len() - 2)
    } else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn items(from: &mut impl BufRead, count: u64, levels: usize) -> io::Result<Vec<Reply>> {
    let levels = levels.checked_sub(1).ok_or_else(|| strange("replies within 32 levels"))?;
    (0..count).map(|_| nested(from, levels)).collect()
}

fn map(from: &mut impl BufRead, count: u64, levels: usize) -> io::Result<Reply> {
    let mut flat = items(from, count.saturating_mul(2), levels)?.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (flat.next(), flat.next()) {
        pairs.push((key, value));
    }
    Ok(Reply::Map(pairs))
}

fn strange(wanted: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{wanted} was expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> io::Result<Reply> {
        decode(&mut &bytes[..])
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let text = Reply::text;
        let cases: [(&[u8], Reply); 14] = [
            (b"+OK\r\n", text("OK")),
            (b":-7\r\n", Reply::Int(-7)),
            (b",1.5\r\n", Reply::Float(1.5)),
            (b",inf\r\n", Reply::Float(f64::INFINITY)),
            (b"#t\r\n", Reply::Bool(true)),
            (b"_\r\n", Reply::Nil),
            (b"$-1\r\n", Reply::Nil),
            (b"*-1\r\n", Reply::Nil),
            (b"$4\r\na\r\nb\r\n", text("a\r\nb")),
            (b"$0\r\n\r\n", text("")),
            (b"=7\r\ntxt:abc\r\n", text("abc")),
            (b"-ERR no\r\n", Reply::Error("ERR no".into())),
            (b"*2\r\n:1\r\n*0\r\n", Reply::Array(vec![Reply::Int(1), Reply::Array(vec![])])),
            (b"%1\r\n+a\r\n:1\r\n", Reply::Map(vec![(text("a"), Reply::Int(1))])),
        ];
        for (bytes, reply) in cases {
            assert_eq!(of(bytes).unwrap(), reply, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn pushes_before_a_reply_are_passed_over() {
        assert_eq!(of(b">1\r\n+news\r\n:3\r\n").unwrap(), Reply::Int(3));
        assert_eq!(of(b"|1\r\n+a\r\n+b\r\n:4\r\n").unwrap(), Reply::Int(4));
    }

    #[test]
    fn what_is_cut_off_or_no_reply_is_an_error() {
        for bytes in [&b""[..], b"$5\r\nab", b":x\r\n", b"HTTP/1.1 400\r\n", b"*2\r\n:1\r\n", b"+a"]
        {
            assert!(of(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(of(b"$999999999999\r\n").is_err(), "a length alone takes no memory");
        assert!(of(&b"*1\r\n".repeat(100_000)).is_err(), "depth is bounded");
    }

    #[test]
    fn a_command_is_an_array_of_texts() {
        assert_eq!(
            encode(&[b"GET".to_vec(), b"a b".to_vec()]),
            b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n"
        );
        let back = Reply::Array(vec![Reply::text("GET"), Reply::text("")]);
        assert_eq!(of(&encode(&[b"GET".to_vec(), Vec::new()])).unwrap(), back);
    }
}
