//! Arguments: the words behind a command, one after the other.

use super::reply::Reply;
use super::request::whole;
use super::table;
use mainstay::{At, Name, Value};

/// What Redis says of words in the wrong place.
pub fn syntax_error() -> Reply {
    Reply::error("ERR syntax error")
}

/// What Redis says of a number that is none.
pub fn not_an_integer() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

/// What Redis says of a key that holds something else.
pub fn wrong_type() -> Reply {
    Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// The words behind a command.
pub struct Arguments<'a> {
    words: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    /// Those behind the first word.
    pub fn behind(words: &'a [&'a [u8]]) -> Arguments<'a> {
        Arguments { words: words.get(1..).unwrap_or_default() }
    }

    /// The next word.
    pub fn shift(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// The next word, which has to be there.
    pub fn word(&mut self) -> Result<&'a [u8], Reply> {
        self.shift().ok_or_else(syntax_error)
    }

    /// All words that are left.
    pub fn rest(&mut self) -> &'a [&'a [u8]] {
        std::mem::take(&mut self.words)
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.words.len()
    }

    /// Whether the next word is this one, which is then taken.
    pub fn take(&mut self, word: &str) -> bool {
        let found =
            self.words.first().is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()));
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// The next word as text.
    pub fn text(&mut self) -> Result<&'a str, Reply> {
        text(self.word()?)
    }

    /// The next word as the name of a cell, a branch or a tag.
    pub fn name(&mut self) -> Result<Name, Reply> {
        name(self.word()?)
    }

    /// The next word as a value; with `JSON` behind it, as a typed one.
    pub fn value(&mut self) -> Result<Value, Reply> {
        let word = self.word()?;
        match self.take("JSON") {
            true => Ok(Value::from_json(text(word)?)?),
            false => Ok(Value::from_text(word)),
        }
    }

    /// The next word as a whole number.
    pub fn whole(&mut self) -> Result<i64, Reply> {
        whole(self.word()?).ok_or_else(not_an_integer)
    }

    /// The next word as a number that is not negative.
    pub fn count(&mut self) -> Result<u64, Reply> {
        let word = self.word()?;
        let count = text(word).ok().and_then(|text| text.parse().ok());
        count.ok_or_else(not_an_integer)
    }

    /// How many things are wanted at most.
    pub fn limit(&mut self) -> Result<usize, Reply> {
        Ok(usize::try_from(self.count()?).unwrap_or(usize::MAX))
    }

    /// `REV r` or `AT stamp`, if that comes next.
    pub fn point(&mut self) -> Result<Option<At>, Reply> {
        if self.take("REV") {
            return Ok(Some(At::Revision(self.count()?)));
        }
        match self.take("AT") {
            true => Ok(Some(At::Stamp(self.count()?))),
            false => Ok(None),
        }
    }

    /// Nothing may follow.
    pub fn end(&self) -> Result<(), Reply> {
        match self.words.is_empty() {
            true => Ok(()),
            false => Err(syntax_error()),
        }
    }
}

/// Puts what a word says where nothing was put before: a word that stands twice says two things.
pub fn put<T>(place: &mut Option<T>, said: T) -> Result<(), Reply> {
    match place.replace(said) {
        None => Ok(()),
        Some(_) => Err(syntax_error()),
    }
}

/// What the words of a command say, to the last one; where some are missing or in the wrong place, it is said which
/// belong there.
pub fn understood<'a, T>(
    words: &'a [&'a [u8]],
    read: impl FnOnce(&mut Arguments<'a>) -> Result<T, Reply>,
) -> Result<T, Reply> {
    let mut arguments = Arguments::behind(words);
    let read = read(&mut arguments).and_then(|read| arguments.end().map(|()| read));
    read.map_err(|reply| match reply {
        reply if reply == syntax_error() || reply == not_an_integer() => usage(words),
        reply => reply,
    })
}

fn usage(words: &[&[u8]]) -> Reply {
    let Some(spec) = words.first().and_then(|name| table::named(name)) else {
        return syntax_error();
    };
    let (name, syntax) = (spec.name.to_uppercase(), spec.syntax);
    Reply::error(format!("INVALID give {name} {syntax}; numbers are whole and not negative"))
}

/// A word as text.
pub fn text(word: &[u8]) -> Result<&str, Reply> {
    std::str::from_utf8(word).map_err(|_| Reply::error("INVALID this has to be UTF-8"))
}

/// A word as a name.
pub fn name(word: &[u8]) -> Result<Name, Reply> {
    let text = std::str::from_utf8(word)
        .map_err(|_| Reply::error("INVALID a name is UTF-8, and this one is not"))?;
    Ok(Name::new(text)?)
}
