//! Splits a typed line into words, quoted as in `redis-cli`.
//!
//! | form | means |
//! |---|---|
//! | `plain` | up to the next space |
//! | `"…"` | spaces, line breaks, and `\n \r \t \b \a \\ \" \xHH` |
//! | `'…'` | everything literally, and `\'` |
//!
//! A closing quote ends its word: a space or the end has to follow.

use std::iter::Peekable;
use std::slice::Iter;

/// The reason why a line cannot be split.
#[derive(Debug, PartialEq, Eq)]
pub enum SplitError {
    /// A quote is open, so the next line continues the word.
    UnclosedQuote,
    /// A closing quote is followed by another character than a space.
    MissingSpace,
}

impl std::fmt::Display for SplitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SplitError::UnclosedQuote => {
                "a quote is not closed: end it with the quote it began with"
            }
            SplitError::MissingSpace => "a space has to follow a closing quote",
        })
    }
}

type Bytes<'a> = Peekable<Iter<'a, u8>>;

/// Splits a line into its words.
pub fn split(line: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, SplitError> {
    let mut bytes = line.as_ref().iter().peekable();
    let mut words = Vec::new();
    loop {
        while bytes.next_if(|byte| byte.is_ascii_whitespace()).is_some() {}
        match bytes.peek() {
            None => return Ok(words),
            Some(_) => words.push(read_word(&mut bytes)?),
        }
    }
}

fn read_word(bytes: &mut Bytes<'_>) -> Result<Vec<u8>, SplitError> {
    let mut word = Vec::new();
    while let Some(byte) = bytes.next_if(|byte| !byte.is_ascii_whitespace()) {
        match byte {
            b'"' | b'\'' => {
                read_quoted(bytes, *byte, &mut word)?;
                return expect_end(bytes).map(|()| word);
            }
            plain => word.push(*plain),
        }
    }
    Ok(word)
}

fn expect_end(bytes: &mut Bytes<'_>) -> Result<(), SplitError> {
    match bytes.peek() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(SplitError::MissingSpace),
        _ => Ok(()),
    }
}

fn read_quoted(bytes: &mut Bytes<'_>, quote: u8, word: &mut Vec<u8>) -> Result<(), SplitError> {
    loop {
        match *bytes.next().ok_or(SplitError::UnclosedQuote)? {
            byte if byte == quote => return Ok(()),
            b'\\' if quote == b'"' => word.push(read_escape(bytes)?),
            b'\\' => word.push(*bytes.next_if_eq(&&b'\'').unwrap_or(&b'\\')),
            byte => word.push(byte),
        }
    }
}

fn read_escape(bytes: &mut Bytes<'_>) -> Result<u8, SplitError> {
    Ok(match *bytes.next().ok_or(SplitError::UnclosedQuote)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        b'x' => read_hexadecimal(bytes).unwrap_or(b'x'),
        other => other,
    })
}

/// Reads two hexadecimal digits, or consumes nothing.
fn read_hexadecimal(bytes: &mut Bytes<'_>) -> Option<u8> {
    let mut ahead = bytes.clone();
    let mut digit = || char::from(*ahead.next()?).to_digit(16);
    let byte = digit()? * 16 + digit()?;
    bytes.nth(1);
    u8::try_from(byte).ok()
}

/// Quotes a word so that `split` returns it unchanged.
pub fn quote(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    match std::str::from_utf8(word) {
        Ok(text) if !text.is_empty() && word.iter().all(plain) => text.to_owned(),
        Ok(text) => format!("\"{}\"", escape(text)),
        Err(_) => {
            let bytes = word.iter().map(|byte| {
                if plain(byte) { char::from(*byte).to_string() } else { format!("\\x{byte:02x}") }
            });
            format!("\"{}\"", bytes.collect::<String>())
        }
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_ascii_control() => {
                out.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            plain => out.push(plain),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words = split(line).unwrap();
        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn words_end_at_spaces_unless_they_are_quoted() {
        assert_eq!(words("  SET a  1 "), ["SET", "a", "1"]);
        assert_eq!(words(r#"SET "a b" 'c "d"' """#), ["SET", "a b", r#"c "d""#, ""]);
        assert_eq!(words(r#""a\n\"\\\q" 'a\n\''"#), ["a\n\"\\q", "a\\n'"]);
        assert_eq!(words("\"two\nlines\""), ["two\nlines"]);
        assert_eq!(split(r#""\xff\x4" "\xfg""#).unwrap(), [&b"\xffx4"[..], b"xfg"]);
        assert_eq!(words(r#"k"ey" """#), ["key", ""]);
        assert_eq!(words(""), [""; 0]);
    }

    #[test]
    fn open_quotes_and_joined_words_are_told_apart() {
        for open in ["\"a", "'a", "a \"b\\", "\"", "a\"b"] {
            assert_eq!(split(open), Err(SplitError::UnclosedQuote), "{open}");
        }
        for joined in ["\"a\"b", "'a''b'"] {
            assert_eq!(split(joined), Err(SplitError::MissingSpace), "{joined}");
        }
    }

    #[test]
    fn what_is_quoted_is_split_into_the_same_word() {
        for word in [&b"a"[..], b"", b"a b", b"\"'\\", b"\xff\x00a\"", b"a\nb\x1b", "é".as_bytes()]
        {
            assert_eq!(split(quote(word)).unwrap(), [word], "{}", quote(word));
        }
    }
}
