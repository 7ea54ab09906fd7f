//! The words of a command, taken one after the other.

use super::Refusal;
use mainstay::{At, Value};
use std::collections::{BTreeMap, VecDeque};
use std::str::FromStr;

/// A command and what is left of its arguments.
pub struct Words {
    command: String,
    rest: VecDeque<Vec<u8>>,
}

/// What follows the fixed arguments: words by name, some with an argument.
pub struct Options(BTreeMap<String, Vec<u8>>);

impl Words {
    /// Takes the command.
    pub fn new(words: &[Vec<u8>]) -> Result<Words, Refusal> {
        let mut rest = VecDeque::from(words.to_vec());
        let command =
            rest.pop_front().ok_or_else(|| Refusal("ERR the command is empty".to_owned()))?;
        let command = String::from_utf8_lossy(&command).to_uppercase();
        Ok(Words { command, rest })
    }

    /// The command, in capitals.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The next argument.
    pub fn next(&mut self, what: &str) -> Result<Vec<u8>, Refusal> {
        self.rest.pop_front().ok_or_else(|| Refusal(format!("ERR {} needs {what}", self.command)))
    }

    /// The next argument as a name.
    pub fn name(&mut self) -> Result<String, Refusal> {
        text(self.next("a name")?, "a name")
    }

    /// The next argument, if there is one.
    pub fn maybe(&mut self) -> Option<Vec<u8>> {
        self.rest.pop_front()
    }

    /// Everything that is left, as names.
    pub fn names(&mut self) -> Result<Vec<String>, Refusal> {
        let first = self.name()?;
        let more = self.rest.drain(..).map(|name| text(name, "a name"));
        std::iter::once(Ok(first)).chain(more).collect()
    }

    /// Refuses what is left.
    pub fn end(&mut self) -> Result<(), Refusal> {
        self.options(&[], &[]).map(|_| ())
    }

    /// Takes what is left: flags alone, the others with an argument, in any order.
    pub fn options(&mut self, flags: &[&str], pairs: &[&str]) -> Result<Options, Refusal> {
        let mut options = BTreeMap::new();
        while let Some(word) = self.rest.pop_front() {
            let name = String::from_utf8_lossy(&word).to_uppercase();
            let argument = match name.as_str() {
                flag if flags.contains(&flag) => Vec::new(),
                pair if pairs.contains(&pair) => self.next(&format!("an argument for {pair}"))?,
                other => {
                    return Err(Refusal(format!("ERR {} does not take {other}", self.command)));
                }
            };
            options.insert(name, argument);
        }
        Ok(Options(options))
    }
}

impl Options {
    /// Whether the word is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The argument of a word, as text.
    pub fn text(&self, name: &str) -> Result<Option<String>, Refusal> {
        self.0.get(name).map(|argument| text(argument.clone(), name)).transpose()
    }

    /// The argument of a word, as a number.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        self.0.get(name).map(|argument| number(argument, name)).transpose()
    }

    /// The point in time that `REV` or `AT` name.
    pub fn at(&self) -> Result<At, Refusal> {
        match (self.number("REV")?, self.number("AT")?) {
            (None, None) => Ok(At::Latest),
            (Some(revision), None) => Ok(At::Revision(revision)),
            (None, Some(stamp)) => Ok(At::Stamp(stamp)),
            _ => Err(Refusal("ERR give REV or AT, not both".to_owned())),
        }
    }

    /// What an argument stands for: itself, or the value it is the JSON of.
    pub fn value(&self, argument: Vec<u8>) -> Result<Value, Refusal> {
        match self.has("JSON") {
            true => Ok(Value::from_json(&text(argument, "JSON")?)?),
            false => Ok(Value::from_text(&argument)),
        }
    }
}

/// An argument as text.
pub fn text(argument: Vec<u8>, what: &str) -> Result<String, Refusal> {
    String::from_utf8(argument).map_err(|_| Refusal::invalid(format!("{what} has to be UTF-8")))
}

/// An argument as a number.
pub fn number<T: FromStr>(argument: &[u8], what: &str) -> Result<T, Refusal> {
    let parsed = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        let argument = String::from_utf8_lossy(argument);
        Refusal::invalid(format!("{what} has to be a number, not '{argument}'"))
    })
}
