//! The table of commands: one list per file of commands, found by name whatever its case.

use super::commands;
use super::plan::Plan;
use super::reply::Reply;
use super::session::{Call, Handled, Job, Pending};
use hashbrown::HashMap;
use std::sync::LazyLock;

/// A command.
pub struct Spec {
    /// Its name, in small letters.
    pub name: &'static str,
    /// How many words it has, itself included; negative: at least so many.
    pub arity: i32,
    /// What it belongs to.
    pub group: Group,
    /// Whether it changes something.
    pub writes: bool,
    /// Where its keys are: the first word, the last (negative: from the end), the step.
    pub keys: (i32, i32, i32),
    /// What it is for, in a line.
    pub summary: &'static str,
    /// What it does.
    pub run: Run,
}

/// What a command belongs to; rights are given by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The connection itself.
    Connection,
    /// Names, whatever they hold.
    Keys,
    /// Redis's strings.
    Strings,
    /// Cells.
    Cells,
    /// Branches and tags.
    Branches,
    /// Several commands at once.
    Transactions,
    /// The feed of changes.
    Feed,
    /// Values of the waist as bytes, for our own client.
    Wire,
    /// The server.
    Server,
}

impl Group {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Group::Connection => "connection",
            Group::Keys => "keys",
            Group::Strings => "strings",
            Group::Cells => "cells",
            Group::Branches => "branches",
            Group::Transactions => "transactions",
            Group::Feed => "feed",
            Group::Wire => "wire",
            Group::Server => "server",
        }
    }
}

/// How a command is run.
#[derive(Clone, Copy)]
pub enum Run {
    /// A plan, to be run wherever the session stands.
    Data(fn(&[&[u8]]) -> Result<Plan, Reply>),
    /// It needs nothing but the session, and is answered at once.
    Session(fn(&mut Call<'_>) -> Reply),
    /// It looks at the database as it is when all before it is done.
    Settled(fn(&mut Call<'_>) -> Reply),
    /// It begins or ends something.
    Control(fn(&mut Call<'_>) -> Handled),
    /// It decides for itself, also while replies before it are not known yet.
    Direct(fn(&mut Call<'_>, Pending) -> Handled),
    /// It takes a while.
    Slow(fn(&mut Call<'_>) -> Result<Job, Reply>),
}

impl Spec {
    /// A command with this name, arity and way to run.
    pub const fn new(name: &'static str, arity: i32, group: Group, run: Run) -> Spec {
        Spec { name, arity, group, writes: false, keys: (0, 0, 0), summary: "", run }
    }

    /// It changes something.
    pub const fn writes(mut self) -> Spec {
        self.writes = true;
        self
    }

    /// Where its keys are.
    pub const fn keys(mut self, first: i32, last: i32, step: i32) -> Spec {
        self.keys = (first, last, step);
        self
    }

    /// What it is for.
    pub const fn about(mut self, summary: &'static str) -> Spec {
        self.summary = summary;
        self
    }

    /// Whether it begins or ends something, so that `MULTI` does not keep it.
    pub fn is_control(&self) -> bool {
        matches!(self.run, Run::Control(_))
    }

    /// Whether it changes the session in a way that makes no sense between others.
    pub fn stands_alone(&self) -> bool {
        matches!(self.name, "branch.use" | "durability" | "hello" | "auth")
    }

    fn takes(&self, words: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= wanted } else { words == wanted }
    }
}

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    let lists: [&'static [Spec]; 9] = [
        commands::connection::COMMANDS,
        commands::server::COMMANDS,
        commands::keys::COMMANDS,
        commands::strings::COMMANDS,
        commands::cells::COMMANDS,
        commands::branches::COMMANDS,
        commands::transactions::COMMANDS,
        commands::feed::COMMANDS,
        commands::wire::COMMANDS,
    ];
    lists.into_iter().flatten()
}

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Spec>> =
    LazyLock::new(|| all().map(|spec| (spec.name.as_bytes(), spec)).collect());

/// The longest name of a command, and more.
const NAME_LIMIT_BYTES: usize = 32;

/// The command of this name.
pub fn named(name: &[u8]) -> Option<&'static Spec> {
    let mut small = [0; NAME_LIMIT_BYTES];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}

/// The command that a request asks for, if there is one and it has enough words.
pub fn find(words: &[&[u8]]) -> Result<&'static Spec, Reply> {
    let name = words.first().copied().unwrap_or_default();
    let Some(spec) = named(name) else { return Err(unknown(words)) };
    match spec.takes(words.len()) {
        true => Ok(spec),
        false => Err(wrong_arity(spec.name)),
    }
}

/// What Redis says when words are missing or too many.
pub fn wrong_arity(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

fn unknown(words: &[&[u8]]) -> Reply {
    let shown = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let name = shown(words.first().copied().unwrap_or_default());
    let arguments: String =
        words.iter().skip(1).take(8).map(|word| format!("'{}' ", shown(word))).collect();
    Reply::error(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_once_in_small_letters_and_is_explained() {
        assert_eq!(BY_NAME.len(), all().count());
        for spec in all() {
            assert_eq!(spec.name, spec.name.to_lowercase());
            assert!(spec.name.len() <= NAME_LIMIT_BYTES);
            assert!(!spec.summary.is_empty(), "{}", spec.name);
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_words_are_counted() {
        assert_eq!(named(b"GeT").map(|spec| spec.name), Some("get"));
        assert!(named(&[b'a'; 100]).is_none());
        assert!(find(&[b"get", b"a"]).is_ok());
        let error = |words: &[&[u8]]| match find(words) {
            Err(Reply::Error(text)) => text.into_owned(),
            _ => String::new(),
        };
        assert_eq!(error(&[b"GET"]), "ERR wrong number of arguments for 'get' command");
        assert_eq!(
            error(&[b"foo", b"a", b"b"]),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' "
        );
    }
}
