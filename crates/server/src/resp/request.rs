//! An incremental, zero-copy parser for RESP requests.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n$1\r\na\r\n        an array of words, as clients send it
//!   GET a\r\n                             a line, as a person types it
//! ```
//!
//! Words are borrowed from the input buffer. The parser remembers where it stopped in an incomplete
//! request, so that a large request is not parsed again from its start with each piece.

use super::inline_command::split;
use crate::config::settings::settings;
use memchr::memchr;
use smallvec::SmallVec;
use std::fmt;

settings! {
    /// What a request of a Redis client may be.
    pub struct Limits {
        /// The most words: twice as many as a transaction may have commands, and some.
        pub words: usize = 1 << 18, 8..=1 << 30;
        /// The longest word.
        pub word_bytes: usize = 17 << 20, 1024..=1 << 30;
        /// The most bytes in all.
        pub request_bytes: usize = 80 << 20, 1024..=1 << 32;
        /// The longest line, where somebody types instead of a program.
        pub line_bytes: usize = 64 << 10, 64..=1 << 30;
    }
}

/// The most words that one call parses, so that a request of a million words does not delay other
/// connections.
const WORDS_AT_ONCE: usize = 256;
/// A request with at most this many words is parsed in one pass if it is complete. An incomplete one is
/// parsed again.
const FEW_WORDS: usize = 8;
/// Capacity for this many words is kept between requests.
const KEPT_WORDS: usize = 64;

/// The words of a request.
pub type Words<'a> = SmallVec<[&'a [u8]; FEW_WORDS]>;

/// The result of parsing.
#[derive(Debug, PartialEq)]
pub enum Parsed<'a> {
    /// A request, and its length in bytes.
    Request(Words<'a>, usize),
    /// A typed line, and its length in bytes. It may have no words.
    Line(Vec<Vec<u8>>, usize),
    /// The rest of the request has not arrived.
    Incomplete,
    /// More words are available, but this call has parsed many. The caller has to call again.
    Unfinished,
}

/// The error in a malformed request. The connection cannot be parsed any further.
#[derive(Debug, PartialEq, Eq)]
pub struct ProtocolError(pub String);

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERR Protocol error: {}", self.0)
    }
}

fn protocol_error<T>(what: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError(what.into()))
}

/// The state of the parser within a request.
#[derive(Debug, Default)]
pub struct Parser {
    /// Number of words still missing; `None` before the head of the array was parsed.
    missing_words: Option<usize>,
    /// Positions of the words parsed so far.
    words: Vec<(usize, usize)>,
    position: usize,
}

impl Parser {
    /// Parses the request at the start of the input. After `Incomplete` and `Unfinished`, the next input
    /// has to start with the same bytes. After `Incomplete` it also has to be longer.
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
    ) -> Result<Parsed<'a>, ProtocolError> {
        match input.first() {
            None => Ok(Parsed::Incomplete),
            Some(b'*') => self.array(input, limits),
            Some(_) => parse_line(input, limits),
        }
    }

    /// Returns the memory of the word positions, because many short words take more memory than their
    /// bytes.
    pub fn held_bytes(&self) -> usize {
        // The positions are collected into a second list when the request is complete.
        2 * self.words.capacity() * size_of::<(usize, usize)>()
    }

    /// Returns whether the parser is between two requests.
    pub fn is_between(&self) -> bool {
        self.position == 0
    }

    fn array<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, ProtocolError> {
        let mut missing_words = match self.missing_words {
            Some(missing_words) => missing_words,
            None => {
                let Some((count, end)) = parse_number(input, 1, "multibulk")? else {
                    return Ok(Parsed::Incomplete);
                };
                let count = checked_count(count, limits)?;
                if count <= FEW_WORDS
                    && let Some(request) = parse_few_words(input, end, count, limits)?
                {
                    return Ok(request);
                }
                self.position = end;
                *self.missing_words.insert(count)
            }
        };
        let until = self.words.len() + WORDS_AT_ONCE;
        while missing_words > 0 {
            if self.words.len() >= until {
                self.missing_words = Some(missing_words);
                return Ok(Parsed::Unfinished);
            }
            let Some((start, end)) = parse_word(input, self.position, limits)? else {
                self.missing_words = Some(missing_words);
                return Ok(Parsed::Incomplete);
            };
            self.words.push((start, end));
            self.position = end + 2;
            missing_words -= 1;
        }
        let words = self.words.drain(..).map(|(start, end)| &input[start..end]).collect();
        let bytes = self.position;
        let mut capacity = std::mem::take(&mut self.words);
        // One long request must not increase the memory of the connection permanently.
        capacity.shrink_to(KEPT_WORDS);
        *self = Parser { words: capacity, ..Parser::default() };
        Ok(Parsed::Request(words, bytes))
    }
}

/// Parses `count` words that start at a position. Returns `None` if one of them is incomplete.
fn parse_few_words<'a>(
    input: &'a [u8],
    mut at: usize,
    count: usize,
    limits: &Limits,
) -> Result<Option<Parsed<'a>>, ProtocolError> {
    let mut words = Words::new();
    for _ in 0..count {
        let Some((start, end)) = parse_word(input, at, limits)? else { return Ok(None) };
        words.push(&input[start..end]);
        at = end + 2;
    }
    Ok(Some(Parsed::Request(words, at)))
}

/// Returns the start and end of the word at a position. Returns `None` if it is incomplete.
#[inline]
fn parse_word(
    input: &[u8],
    at: usize,
    limits: &Limits,
) -> Result<Option<(usize, usize)>, ProtocolError> {
    match input.get(at) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(other) => return protocol_error(format!("expected '$', got '{}'", printable(*other))),
    }
    let Some((length, start)) = parse_number(input, at + 1, "bulk")? else { return Ok(None) };
    let Ok(length) = usize::try_from(length) else { return protocol_error("invalid bulk length") };
    if length > limits.word_bytes {
        return protocol_error(
            "invalid bulk length: resp.request.word_bytes is the limit, before a login \
             security.stranger_request_bytes",
        );
    }
    if start + length > limits.request_bytes {
        let limit_bytes = limits.request_bytes;
        return protocol_error(format!(
            "a request has at most {limit_bytes} bytes: resp.request.request_bytes is the limit, before a login \
             security.stranger_request_bytes"
        ));
    }
    let end = start + length;
    match input.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((start, end))),
        Some(_) => protocol_error("a word does not end where its length says"),
    }
}

/// Encodes words as a request array.
pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn checked_count(count: i64, limits: &Limits) -> Result<usize, ProtocolError> {
    // An array with no elements or a negative count is an empty request, not an error.
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    if count <= limits.words {
        Ok(count)
    } else {
        protocol_error(
            "invalid multibulk length: resp.request.words is the limit, before a login \
             security.stranger_words",
        )
    }
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '?' }
}

/// Parses the number at a position. Returns it with the position of the next line, or `None` if the line is
/// incomplete.
fn parse_number(
    input: &[u8],
    at: usize,
    what: &str,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    /// More characters than any valid number has.
    const LIMIT: usize = 24;
    let rest = &input[at..];
    let Some(end) = memchr(b'\n', &rest[..rest.len().min(LIMIT)]) else {
        return if rest.len() >= LIMIT {
            protocol_error(format!("too big {what} count string"))
        } else {
            Ok(None)
        };
    };
    let digits = rest[..end].strip_suffix(b"\r").and_then(parse_integer);
    match digits {
        Some(number) => Ok(Some((number, at + end + 1))),
        None => protocol_error(format!("invalid {what} length")),
    }
}

/// Parses an integer in the only form that Redis accepts: no plus sign, no space, no leading zero.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // The negative range has one number more than the positive range.
    let negated = digits.iter().try_fold(0i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_sub(digit.into())
    })?;
    if is_negative { Some(negated) } else { negated.checked_neg() }
}

const TOO_BIG_LINE: &str = "too big inline request: resp.request.line_bytes is the limit, before a \
                            login security.stranger_request_bytes";

fn parse_line<'a>(input: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, ProtocolError> {
    let Some(end) = memchr(b'\n', input) else {
        return if input.len() > limits.line_bytes {
            protocol_error(TOO_BIG_LINE)
        } else {
            Ok(Parsed::Incomplete)
        };
    };
    if end > limits.line_bytes {
        return protocol_error(TOO_BIG_LINE);
    }
    let text = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    match split(text) {
        Ok(words) => Ok(Parsed::Line(words, end + 1)),
        Err(_) => protocol_error("unbalanced quotes in request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits =
        Limits { words: 1000, word_bytes: 1 << 20, request_bytes: 4 << 20, line_bytes: 1024 };

    fn encode(words: &[Vec<u8>]) -> Vec<u8> {
        super::encode(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn parse(input: &[u8]) -> Result<Parsed<'_>, ProtocolError> {
        Parser::default().next(input, &LIMITS)
    }

    proptest! {
        #[test]
        fn a_request_comes_back_however_it_is_cut(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = encode(&words);
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.sort_unstable();
            let mut parser = Parser::default();
            for cut in cuts {
                prop_assert_eq!(parser.next(&bytes[..cut], &LIMITS), Ok(Parsed::Incomplete));
            }
            let longer = [bytes.as_slice(), b"*1\r\n"].concat();
            let words = words.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(parser.next(&longer, &LIMITS), Ok(Parsed::Request(words, bytes.len())));
            prop_assert!(parser.is_between());
        }

        #[test]
        fn nothing_makes_it_panic_or_read_too_far(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(Parsed::Request(_, length) | Parsed::Line(_, length)) = parse(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn nor_does_what_nearly_is_a_request(bytes in "[*$0-9\r\nab-]{0,40}") {
            if let Ok(Parsed::Request(_, length) | Parsed::Line(_, length)) = parse(bytes.as_bytes()) {
                prop_assert!(length <= bytes.len());
            }
        }
    }

    #[test]
    fn what_is_malformed_is_said_in_the_words_of_redis() {
        let cases: [(&[u8], &str); 8] = [
            (b"*x\r\n", "invalid multibulk length"),
            (
                b"*1000000000\r\n",
                "invalid multibulk length: resp.request.words is the limit, before a login \
                 security.stranger_words",
            ),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (
                b"*1\r\n$1000000000\r\n",
                "invalid bulk length: resp.request.word_bytes is the limit, before a login \
                 security.stranger_request_bytes",
            ),
            (b"*1\r\n$1\r\nabc", "a word does not end where its length says"),
            (b"*11111111111111111111111111", "too big multibulk count string"),
            (b"set a \"b\r\n", "unbalanced quotes in request"),
        ];
        for (input, message) in cases {
            assert_eq!(parse(input), protocol_error(message), "{}", input.escape_ascii());
        }
        let endless = vec![b'a'; LIMITS.line_bytes + 1];
        assert_eq!(parse(&endless), protocol_error(TOO_BIG_LINE));
    }

    #[test]
    fn a_request_is_bounded_as_a_whole() {
        let limits = Limits { request_bytes: 100, ..LIMITS };
        let bytes = encode(&[vec![1; 50], vec![2; 50]]);
        assert!(Parser::default().next(&bytes, &limits).is_err());
    }

    #[test]
    fn arrays_of_nothing_are_no_request() {
        assert_eq!(parse(b"*0\r\n"), Ok(Parsed::Request(Words::new(), 4)));
        assert_eq!(parse(b"*-1\r\n"), Ok(Parsed::Request(Words::new(), 5)));
    }

    #[test]
    fn a_typed_line_is_taken_with_its_end() {
        let words = vec![b"set".to_vec(), b"a b".to_vec()];
        assert_eq!(parse(b" set  'a b'\r\nnext"), Ok(Parsed::Line(words, 13)));
        assert_eq!(parse(b"\r\n"), Ok(Parsed::Line(Vec::new(), 2)));
    }

    #[test]
    fn whole_numbers_have_one_form() {
        let cases: [(&str, Option<i64>); 15] = [
            ("0", Some(0)),
            ("100", Some(100)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("+1", None),
            ("01", None),
            ("-0", None),
            ("", None),
            (" 1", None),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("10000000000000000000000000", None),
            ("1a", None),
            ("-", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text:?}");
        }
    }
}
