//! `mainstay state`: keyed state; a write is applied at most once, by its version.

mod files;
mod pages;
mod write;

use super::args::{AsOf, OnBranch};
use super::cell::read;
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::output::RawFields;
use super::pages::Pages;
use super::reply_format::FormattedReply;
use super::reply_formats;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, Subcommand};
use files::{Restore, Snapshot};
use pages::{Items, Keys, with_key_texts};
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
    Drop(SpaceArgs),
}

/// One space.
#[derive(Debug, Args)]
pub struct SpaceArgs {
    /// The space
    space: String,
    #[command(flatten)]
    on: OnBranch,
}

/// One space at a point in time.
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    space: SpaceArgs,
    #[command(flatten)]
    as_of: AsOf,
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
    as_of: AsOf,
}

/// Reading one key.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    space: SpaceArgs,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    #[command(flatten)]
    as_of: AsOf,
}

/// Writes that wait.
#[derive(Debug, Args)]
pub struct Waiting {
    #[command(flatten)]
    space: SpaceArgs,
    /// Only versions below this one
    #[arg(long, value_name = "VERSION")]
    below: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 1000)]
    limit: u64,
    #[command(flatten)]
    as_of: AsOf,
}

impl StateVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            StateVerb::Spaces(spaces) => spaces.run(context),
            StateVerb::Create(create) => create.run(context),
            StateVerb::Info(info) => info.show(context),
            StateVerb::Put(put) => put.run(context),
            StateVerb::Get(get) => get.run(context),
            StateVerb::Delete(delete) => delete.run(context),
            StateVerb::List(keys) => keys.list(context),
            StateVerb::Scan(keys) => keys.scan(context),
            StateVerb::Append(append) => append.run(context),
            StateVerb::Items(items) => items.run(context),
            StateVerb::Advance(advance) => advance.run(context),
            StateVerb::Positions(info) => info.positions(context),
            StateVerb::Waiting(waiting) => waiting.run(context),
            StateVerb::Seal(seal) => seal.run(context),
            StateVerb::Snapshot(snapshot) => snapshot.run(context),
            StateVerb::Restore(restore) => restore.run(context),
            StateVerb::Drop(space) => space.drop(context),
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
fn key_text(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.starts_with(BYTES) => text.to_owned(),
        _ => format!("{BYTES}{}", BASE64_STANDARD.encode(key)),
    }
}

impl SpaceArgs {
    fn call(&self, command: &str) -> CommandBuilder {
        CommandBuilder::new(command).word(&self.space)
    }

    /// Starts a row about this space.
    fn row(&self) -> Row {
        vec![("space".into(), Field::text(&self.space))]
    }

    fn missing(&self) -> String {
        format!("there is no space {}: `mainstay state spaces` lists them", self.space)
    }

    fn drop(&self, context: &mut Context) -> Result<()> {
        let reply = read(context, &self.on, self.call("STATE.DROP"))?;
        context.show(reply_formats::of_command("STATE.DROP"), self.row(), reply, || self.missing())
    }
}

impl Info {
    fn show(&self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(self.space.call("STATE.INFO"));
        let reply = read(context, &self.space.on, call)?;
        let format = reply_formats::of_command("STATE.INFO");
        let row = self.space.row();
        context.show(format, row, reply, || self.space.missing())
    }

    fn positions(&self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(self.space.call("STATE.POSITIONS"));
        let reply = read(context, &self.space.on, call)?;
        context.show(reply_formats::of_command("STATE.POSITIONS"), Row::new(), reply, String::new)
    }
}

impl Spaces {
    fn run(self, context: &mut Context) -> Result<()> {
        let prefix = Some(self.prefix).filter(|prefix| !prefix.is_empty());
        let on = self.on;
        Pages::new(self.as_of, self.after, self.limit).show(context, |context, pages, size| {
            let call = CommandBuilder::new("STATE.SPACES").option("PREFIX", prefix.as_ref());
            let call = call.option("AFTER", pages.after.as_ref()).option("LIMIT", Some(size));
            match reply_formats::of_command("STATE.SPACES")
                .apply(read(context, &on, pages.as_of.add_to(call))?, false)
            {
                FormattedReply::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("STATE.SPACES answered {odd:?}"))),
            }
        })
    }
}

impl Get {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(self.space.call("STATE.GET").word(key(&self.key)?));
        let shown = reply_formats::of_command("STATE.GET")
            .apply(read(context, &self.space.on, call)?, false);
        let known = vec![("key".into(), Field::text(&self.key))];
        if context.printer.result(shown, known, RawFields::Value) {
            Ok(())
        } else {
            Err(Failure::negative(format!(
                "the key {} of space {} has no state",
                self.key, self.space.space
            )))
        }
    }
}

impl Waiting {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.space.call("STATE.WAITING").option("BELOW", self.below.as_ref());
        let call = self.as_of.add_to(call.option("LIMIT", Some(self.limit)));
        let reply = with_key_texts(read(context, &self.space.on, call)?);
        context.show(reply_formats::of_command("STATE.WAITING"), Row::new(), reply, String::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, DataNoun, Noun};
    use crate::command_builder::text_of;
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
        assert_eq!(text_of(put.call(b"-1").unwrap()), "STATE.PUT s k -1 VERSION 3.17");
        let words = ["create", "s", "--versions", "time", "--ordered", "--groups", "16"];
        let Ok(StateVerb::Create(create)) = parsed(&words) else { panic!("no create") };
        assert_eq!(text_of(create.call()), "STATE.CREATE s VERSIONS time ORDERED GROUPS 16");
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
