//! The table of commands: one list per file of commands, found by name whatever its case.

use super::commands;
use super::plan::Plan;
use super::reply::Reply;
use super::session::{Call, Handled, Job};
use crate::security::{Area, Denied, Right, User};
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
    /// The right it needs.
    pub needs: Needs,
    /// Which keys it reaches beyond those of its plan.
    pub reach: Reach,
    /// Whether it is recorded, and how many words behind it are names to be recorded with it.
    pub audited: Option<usize>,
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
            Group::Server => "server",
        }
    }
}

/// Which right a command needs.
#[derive(Clone, Copy)]
pub enum Needs {
    /// That of its group: to write if it writes, else to read.
    Group,
    /// This one.
    Right(Right),
    /// It depends on its words; nothing: none.
    Words(fn(&[&[u8]]) -> Option<Right>),
}

/// Which keys a command reaches.
#[derive(Clone, Copy)]
pub enum Reach {
    /// Those of its plan, which is checked at the waist; a command without a plan reaches none.
    Plan,
    /// Its words, as [`Spec::keys`] says.
    Words,
    /// All that begin with this.
    Range(fn(&[&[u8]]) -> String),
    /// All there are.
    Everything,
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
    /// It takes a while.
    Slow(fn(&mut Call<'_>) -> Result<Job, Reply>),
}

impl Spec {
    /// A command with this name, arity and way to run.
    pub const fn new(name: &'static str, arity: i32, group: Group, run: Run) -> Spec {
        let (needs, reach) = (Needs::Group, Reach::Plan);
        let (keys, audited) = ((0, 0, 0), None);
        Spec { name, arity, group, writes: false, keys, summary: "", needs, reach, audited, run }
    }

    /// It needs this right, whatever its group.
    pub const fn needs(mut self, needs: Needs) -> Spec {
        self.needs = needs;
        self
    }

    /// Which keys it reaches.
    pub const fn reaches(mut self, reach: Reach) -> Spec {
        self.reach = reach;
        self
    }

    /// It is recorded, with so many of the words behind it, which are names.
    pub const fn audited(mut self, names: usize) -> Spec {
        self.audited = Some(names);
        self
    }

    /// A user has to have the right that it needs, and the keys that it reaches.
    pub fn allow(&self, user: &User, words: &[&[u8]]) -> Result<(), Denied> {
        if user.is_unlimited() {
            return Ok(());
        }
        if let Some(right) = self.right(words) {
            user.may(right)?;
        }
        match self.reach {
            Reach::Plan => Ok(()),
            Reach::Words => self.key_words(words).try_for_each(|key| user.may_touch(key)),
            Reach::Range(prefix) => user.may_list(prefix(words).as_bytes()),
            Reach::Everything => user.may_touch_everything(),
        }
    }

    /// The right that it needs with these words; the connection's own commands need none.
    pub fn right(&self, words: &[&[u8]]) -> Option<Right> {
        let in_area = if self.writes { Right::write } else { Right::read };
        match (self.needs, self.group) {
            (Needs::Right(right), _) => Some(right),
            (Needs::Words(right), _) => right(words),
            (Needs::Group, Group::Connection) => None,
            (Needs::Group, Group::Keys | Group::Strings | Group::Cells) => {
                Some(in_area(Area::Cells))
            }
            (Needs::Group, Group::Branches) => Some(in_area(Area::Branches)),
            // What stands inside is looked at by itself.
            (Needs::Group, Group::Transactions) => Some(Right::either(Area::Cells)),
            (Needs::Group, Group::Feed) => Some(in_area(Area::Feed)),
            (Needs::Group, Group::Server) => Some(in_area(Area::Server)),
        }
    }

    fn key_words<'a>(&self, words: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let (first, last, step) = self.keys;
        let place = |at: i32| if at < 0 { words.len() as i64 + i64::from(at) } else { at.into() };
        let (first, last) = (place(first).max(0) as usize, place(last).max(0) as usize);
        words.iter().take(last + 1).skip(first).step_by(step.max(1) as usize).copied()
    }

    /// Whether it may be said before it is known who asks.
    pub fn is_for_strangers(&self) -> bool {
        matches!(self.name, "auth" | "hello" | "quit" | "reset")
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
        commands::users::COMMANDS,
        commands::server::COMMANDS,
        commands::keys::COMMANDS,
        commands::strings::COMMANDS,
        commands::cells::COMMANDS,
        commands::branches::COMMANDS,
        commands::transactions::COMMANDS,
        commands::feed::COMMANDS,
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
    fn every_command_that_names_keys_has_them_checked() {
        for spec in all().filter(|spec| spec.keys.0 != 0) {
            let is_data = matches!(spec.run, Run::Data(_));
            assert!(is_data || matches!(spec.reach, Reach::Words), "{}", spec.name);
        }
    }

    #[test]
    fn keys_are_found_where_a_command_says() {
        let keys = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let spec = named(words[0]).unwrap();
            let keys: Vec<_> = spec.key_words(&words).map(String::from_utf8_lossy).collect();
            keys.join(" ")
        };
        assert_eq!(keys("watch a b c"), "a b c");
        assert_eq!(keys("mset a 1 b 2"), "a b");
        assert_eq!(keys("cell.history a LIMIT 3"), "a");
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
