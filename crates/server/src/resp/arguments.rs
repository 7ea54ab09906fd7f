//! A cursor over the words behind a command, with typed accessors.

use super::reply::Reply;
use super::request::parse_integer;
use super::table;
use mainstay::{At, Name, Value};

/// The error of Redis for a misplaced or missing word.
pub fn syntax_error() -> Reply {
    Reply::error("ERR syntax error")
}

/// The error of Redis for an invalid integer.
pub fn not_an_integer() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

/// The error of Redis for a key that holds another type.
pub fn wrong_type() -> Reply {
    Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// The words behind a command that are not consumed yet.
pub struct Arguments<'a> {
    words: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    /// Creates the arguments of a request, without its first word.
    pub fn after_first(words: &'a [&'a [u8]]) -> Arguments<'a> {
        Arguments { words: words.get(1..).unwrap_or_default() }
    }

    /// Consumes the next word; `None` at the end.
    pub fn shift(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// Consumes the next word; fails at the end.
    pub fn word(&mut self) -> Result<&'a [u8], Reply> {
        self.shift().ok_or_else(syntax_error)
    }

    /// Consumes all words that are left.
    pub fn rest(&mut self) -> &'a [&'a [u8]] {
        std::mem::take(&mut self.words)
    }

    /// Returns the number of words left.
    pub fn remaining(&self) -> usize {
        self.words.len()
    }

    /// Consumes the next word if it is this keyword, in any case. Returns whether it was.
    pub fn take_keyword(&mut self, word: &str) -> bool {
        let matches =
            self.words.first().is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()));
        if matches {
            self.words = &self.words[1..];
        }
        matches
    }

    /// Consumes the next word as text.
    pub fn text(&mut self) -> Result<&'a str, Reply> {
        text(self.word()?)
    }

    /// Consumes the next word as the name of a cell, a branch or a tag.
    pub fn name(&mut self) -> Result<Name, Reply> {
        name(self.word()?)
    }

    /// Consumes the next word as a value; with `JSON` behind it, as a typed one.
    pub fn value(&mut self) -> Result<Value, Reply> {
        let word = self.word()?;
        if self.take_keyword("JSON") {
            Ok(Value::from_json(text(word)?)?)
        } else {
            Ok(Value::from_text(word))
        }
    }

    /// Consumes the next word as a signed integer.
    pub fn integer(&mut self) -> Result<i64, Reply> {
        parse_integer(self.word()?).ok_or_else(not_an_integer)
    }

    /// Consumes the next word as an unsigned integer.
    pub fn count(&mut self) -> Result<u64, Reply> {
        let word = self.word()?;
        let count = text(word).ok().and_then(|text| text.parse().ok());
        count.ok_or_else(not_an_integer)
    }

    /// Consumes the next word as the most results wanted.
    pub fn limit(&mut self) -> Result<usize, Reply> {
        Ok(usize::try_from(self.count()?).unwrap_or(usize::MAX))
    }

    /// Consumes `REV r` or `AT timestamp`, if one of them is next.
    pub fn point_in_time(&mut self) -> Result<Option<At>, Reply> {
        if self.take_keyword("REV") {
            return Ok(Some(At::Revision(self.count()?)));
        }
        if self.take_keyword("AT") { Ok(Some(At::Stamp(self.count()?))) } else { Ok(None) }
    }

    /// Fails if words are left.
    pub fn end(&self) -> Result<(), Reply> {
        if self.words.is_empty() { Ok(()) } else { Err(syntax_error()) }
    }
}

/// Sets an option from a word. Fails if it is set already, because a repeated option is a syntax error.
pub fn set_once<T>(slot: &mut Option<T>, value: T) -> Result<(), Reply> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(syntax_error()),
    }
}

/// Parses all arguments of a command. A syntax or number error becomes an error that shows the syntax of
/// the command.
pub fn parse_all<'a, T>(
    words: &'a [&'a [u8]],
    parsed: impl FnOnce(&mut Arguments<'a>) -> Result<T, Reply>,
) -> Result<T, Reply> {
    let mut arguments = Arguments::after_first(words);
    let parsed = parsed(&mut arguments).and_then(|parsed| arguments.end().map(|()| parsed));
    parsed.map_err(|reply| match reply {
        reply if reply == syntax_error() || reply == not_an_integer() => usage(words),
        reply => reply,
    })
}

fn usage(words: &[&[u8]]) -> Reply {
    let Some(spec) = words.first().and_then(|name| table::by_name(name)) else {
        return syntax_error();
    };
    let name = spec.name.to_uppercase();
    let syntax = spec.syntax;
    Reply::error(format!("INVALID give {name} {syntax}; numbers are whole and not negative"))
}

/// Returns a word as text.
pub fn text(word: &[u8]) -> Result<&str, Reply> {
    std::str::from_utf8(word).map_err(|_| Reply::error("INVALID this has to be UTF-8"))
}

/// Returns a word as a name.
pub fn name(word: &[u8]) -> Result<Name, Reply> {
    let text = std::str::from_utf8(word)
        .map_err(|_| Reply::error("INVALID a name is UTF-8, and this one is not"))?;
    Ok(Name::new(text)?)
}
