//! `mainstay state`: keyed state; a write is applied at most once, by its version.

mod files;
mod pages;
mod write;

use super::args::{Moment, OnBranch};
use super::call::Call;
use super::cell::read;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::output::Bare;
use super::pages::Pages;
use super::session::Session;
use super::shape::Shown;
use super::shapes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, Subcommand};
use files::{Restore, Snapshot};
use pages::{Items, Keys, with_shown_keys};
use write::{Advance, Append, Create, Delete, Put, Seal};

/// The prefix of keys that are not text.
const BYTES: &str = "$bytes:";

/// What can be done with keyed state.
#[derive(Debug, Subcommand)]
pub enum StateVerb {
    /// List spaces in byte order of their names
    Spaces(Spaces),
    /// Declare a space; exit code 1 if it is there
    Create(Create),
    /// Show how a space is declared, and its frontier
    Info(Info),
    /// Write a key's state if the version is newer than the key's; exit code 1 if it is not
    Put(Put),
    /// Show a key's state and its version
    Get(Get),
    /// Delete a key's state if the version is newer than the key's; exit code 1 if it is not
    #[command(visible_alias = "del")]
    Delete(Delete),
    /// List keys in byte order
    List(Keys),
    /// Show keys in byte order with their states and versions
    Scan(Keys),
    /// Add an item to a key's log; exit code 1 if the log has one of this id
    Append(Append),
    /// Show the items of a key's log in the order of their ids
    Items(Items),
    /// Say how far a source was read; exit code 1 if that is not further
    Advance(Advance),
    /// Show how far sources were read
    Positions(Info),
    /// Show writes that wait until their versions are sealed
    Waiting(Waiting),
    /// Close all versions below a frontier; shows how many writes had waited for that
    Seal(Seal),
    /// Write all that a space says to a file
    Snapshot(Snapshot),
    /// Replace a space by what a file says that `snapshot` wrote: all of it, or nothing
    Restore(Restore),
    /// Remove a space and everything in it; exit code 1 if there is none
    Drop(Which),
}

/// One space.
#[derive(Debug, Args)]
pub struct Which {
    /// The space
    space: String,
    #[command(flatten)]
    on: OnBranch,
}

/// One space at a point in time.
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    space: Which,
    #[command(flatten)]
    moment: Moment,
}

/// Listing spaces.
#[derive(Debug, Args)]
pub struct Spaces {
    /// Only names that begin with this
    #[arg(default_value = "")]
    prefix: String,
    /// Only spaces behind this one
    #[arg(long, value_name = "SPACE")]
    after: Option<String>,
    /// At most this many
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    moment: Moment,
}

/// Reading one key.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    space: Which,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    #[command(flatten)]
    moment: Moment,
}

/// Writes that wait.
#[derive(Debug, Args)]
pub struct Waiting {
    #[command(flatten)]
    space: Which,
    /// Only versions below this one
    #[arg(long, value_name = "VERSION")]
    below: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 1000)]
    limit: u64,
    #[command(flatten)]
    moment: Moment,
}

impl StateVerb {
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            StateVerb::Spaces(spaces) => spaces.run(session),
            StateVerb::Create(create) => create.run(session),
            StateVerb::Info(info) => info.known(session),
            StateVerb::Put(put) => put.run(session),
            StateVerb::Get(get) => get.run(session),
            StateVerb::Delete(delete) => delete.run(session),
            StateVerb::List(keys) => keys.list(session),
            StateVerb::Scan(keys) => keys.scan(session),
            StateVerb::Append(append) => append.run(session),
            StateVerb::Items(items) => items.run(session),
            StateVerb::Advance(advance) => advance.run(session),
            StateVerb::Positions(info) => info.positions(session),
            StateVerb::Waiting(waiting) => waiting.run(session),
            StateVerb::Seal(seal) => seal.run(session),
            StateVerb::Snapshot(snapshot) => snapshot.run(session),
            StateVerb::Restore(restore) => restore.run(session),
            StateVerb::Drop(space) => space.drop(session),
        }
    }
}

/// Parses the text form of a key or an id.
fn key(text: &str) -> Result<Vec<u8>> {
    let Some(encoded) = text.strip_prefix(BYTES) else { return Ok(text.as_bytes().to_vec()) };
    BASE64_STANDARD
        .decode(encoded)
        .map_err(|_| Failure::error(format!("{text}: padded base64 belongs behind `{BYTES}`")))
}

/// The text form of a key or an id, the inverse of [`key`].
fn shown_key(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.starts_with(BYTES) => text.to_owned(),
        _ => format!("{BYTES}{}", BASE64_STANDARD.encode(key)),
    }
}

impl Which {
    fn call(&self, command: &str) -> Call {
        Call::new(command).word(&self.space)
    }

    /// Starts a row about this space.
    fn row(&self) -> Row {
        vec![("space".into(), Field::text(&self.space))]
    }

    fn missing(&self) -> String {
        format!("there is no space {}: `mainstay state spaces` lists them", self.space)
    }

    fn drop(&self, session: &mut Session) -> Result<()> {
        let reply = read(session, &self.on, self.call("STATE.DROP"))?;
        session.show(shapes::shape("STATE.DROP"), self.row(), reply, || self.missing())
    }
}

impl Info {
    fn known(&self, session: &mut Session) -> Result<()> {
        let call = self.moment.on(self.space.call("STATE.INFO"));
        let reply = read(session, &self.space.on, call)?;
        let shape = shapes::shape("STATE.INFO");
        let row = self.space.row();
        session.show(shape, row, reply, || self.space.missing())
    }

    fn positions(&self, session: &mut Session) -> Result<()> {
        let call = self.moment.on(self.space.call("STATE.POSITIONS"));
        let reply = read(session, &self.space.on, call)?;
        session.show(shapes::shape("STATE.POSITIONS"), Row::new(), reply, String::new)
    }
}

impl Spaces {
    fn run(self, session: &mut Session) -> Result<()> {
        let prefix = Some(self.prefix).filter(|prefix| !prefix.is_empty());
        let on = self.on;
        Pages::new(self.moment, self.after, self.limit).show(session, |session, pages, size| {
            let call = Call::new("STATE.SPACES").option("PREFIX", prefix.as_ref());
            let call = call.option("AFTER", pages.after.as_ref()).option("LIMIT", Some(size));
            match shapes::shape("STATE.SPACES")
                .show(read(session, &on, pages.moment.on(call))?, false)
            {
                Shown::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("STATE.SPACES answered {odd:?}"))),
            }
        })
    }
}

impl Get {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.moment.on(self.space.call("STATE.GET").word(key(&self.key)?));
        let shown = shapes::shape("STATE.GET").show(read(session, &self.space.on, call)?, false);
        let known = vec![("key".into(), Field::text(&self.key))];
        if session.printer.shown(shown, known, Bare::Value) {
            Ok(())
        } else {
            Err(Failure::not_held(format!(
                "the key {} of space {} has no state",
                self.key, self.space.space
            )))
        }
    }
}

impl Waiting {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.space.call("STATE.WAITING").option("BELOW", self.below.as_ref());
        let call = self.moment.on(call.option("LIMIT", Some(self.limit)));
        let reply = with_shown_keys(read(session, &self.space.on, call)?);
        session.show(shapes::shape("STATE.WAITING"), Row::new(), reply, String::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, DataNoun, Noun};
    use crate::call::said;
    use clap::Parser;

    fn parsed(words: &[&str]) -> std::result::Result<StateVerb, clap::Error> {
        let all = ["mainstay", "state"].iter().chain(words);
        match Arguments::try_parse_from(all)?.noun {
            Some(Noun::Data(DataNoun::State(verb))) => Ok(verb),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn verbs_become_the_words_of_commands() {
        let Ok(StateVerb::Put(put)) = parsed(&["put", "s", "k", "-1", "--version", "3.17"]) else {
            panic!("no put")
        };
        assert_eq!(said(put.call(b"-1").unwrap()), "STATE.PUT s k -1 VERSION 3.17");
        let words = ["create", "s", "--versions", "time", "--ordered", "--groups", "16"];
        let Ok(StateVerb::Create(create)) = parsed(&words) else { panic!("no create") };
        assert_eq!(said(create.call()), "STATE.CREATE s VERSIONS time ORDERED GROUPS 16");
        assert!(matches!(parsed(&["del", "s", "k", "--version", "1"]), Ok(StateVerb::Delete(_))));
        for wrong in [
            &["put", "s", "k", "v"][..],
            &["put", "s", "k", "--version", "1"],
            &["del", "s", "k"],
            &["seal", "s"],
            &["snapshot", "s"],
            &["advance", "s", "orders", "x"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn keys_are_text_or_bytes() {
        assert_eq!(key("a/b").unwrap(), b"a/b");
        assert_eq!(key("$bytes:AP8=").unwrap(), [0, 255]);
        assert!(key("$bytes:?").is_err());
    }
}
