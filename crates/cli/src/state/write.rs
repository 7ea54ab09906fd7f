//! `mainstay state`: the verbs that write to a space.

use super::super::cell::{value_or_stdin, write};
use super::super::command_builder::CommandBuilder;
use super::super::context::Context;
use super::super::failure::Result;
use super::super::field::{Field, Row};
use super::super::reply_formats;
use super::{SpaceArgs, key};
use clap::Args;

/// Declaring a space.
#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    space: SpaceArgs,
    /// The kind of its versions, u64 or time [default: that of the first write]
    #[arg(long, value_name = "KIND")]
    versions: Option<String>,
    /// Writes wait until their version is sealed, and are applied in order
    #[arg(long)]
    ordered: bool,
    /// How many groups its keys belong to [default: 128]
    #[arg(long, value_name = "N")]
    groups: Option<u32>,
}

/// Writing a state.
#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    space: SpaceArgs,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    /// Its state; - takes the standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// The version: a whole number, or epoch.round
    #[arg(long)]
    version: String,
}

/// Deleting a state.
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    space: SpaceArgs,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    /// The version of the deletion: a whole number, or epoch.round
    #[arg(long)]
    version: String,
}

/// Adding to a log.
#[derive(Debug, Args)]
pub struct Append {
    #[command(flatten)]
    space: SpaceArgs,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    /// What tells the item from others
    id: String,
    /// The item; - takes the standard input
    #[arg(allow_hyphen_values = true)]
    item: String,
}

/// Saying how far a source was read.
#[derive(Debug, Args)]
pub struct Advance {
    #[command(flatten)]
    space: SpaceArgs,
    /// The source
    source: String,
    /// How far it was read
    position: u64,
}

/// Closing versions.
#[derive(Debug, Args)]
pub struct Seal {
    #[command(flatten)]
    space: SpaceArgs,
    /// The lowest version that is still open: a whole number, or epoch.round
    frontier: String,
}

/// Executes a write and prints its outcome.
fn write_and_show(
    context: &mut Context,
    space: &SpaceArgs,
    name: &str,
    call: CommandBuilder,
    more: Row,
    missing: String,
) -> Result<()> {
    let reply = write(context, &space.on, call)?;
    let row = space.row().into_iter().chain(more).collect();
    context.show(reply_formats::of_command(name), row, reply, || missing)
}

fn key_row(key: &str) -> Row {
    vec![("key".into(), Field::text(key))]
}

impl Create {
    pub(super) fn call(&self) -> CommandBuilder {
        let call = self.space.call("STATE.CREATE").option("VERSIONS", self.versions.as_ref());
        call.flag("ORDERED", self.ordered).option("GROUPS", self.groups)
    }

    pub fn run(self, context: &mut Context) -> Result<()> {
        let missing =
            format!("the space {} is there already, and declared like this", self.space.space);
        write_and_show(context, &self.space, "STATE.CREATE", self.call(), Row::new(), missing)
    }
}

impl Put {
    pub(super) fn call(&self, value: &[u8]) -> Result<CommandBuilder> {
        let call = self.space.call("STATE.PUT").word(key(&self.key)?).word(value);
        Ok(call.option("VERSION", Some(&self.version)))
    }

    pub fn run(self, context: &mut Context) -> Result<()> {
        let value = value_or_stdin(self.value.clone(), context)?;
        let call = self.call(&value)?;
        let missing = stale_message(&self.key, &self.version);
        write_and_show(context, &self.space, "STATE.PUT", call, key_row(&self.key), missing)
    }
}

fn stale_message(key: &str, version: &str) -> String {
    format!("version {version} is not newer than that of {key}, or is sealed: nothing was written")
}

impl Delete {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let call = self.space.call("STATE.DEL").word(key(&self.key)?);
        let call = call.option("VERSION", Some(&self.version));
        let missing = stale_message(&self.key, &self.version);
        write_and_show(context, &self.space, "STATE.DEL", call, key_row(&self.key), missing)
    }
}

impl Append {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let item = value_or_stdin(self.item, context)?;
        let call = self.space.call("STATE.APPEND").word(key(&self.key)?).word(key(&self.id)?);
        let missing = format!("the log of {} has an item {} already", self.key, self.id);
        write_and_show(
            context,
            &self.space,
            "STATE.APPEND",
            call.word(item),
            key_row(&self.key),
            missing,
        )
    }
}

impl Advance {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let call = self.space.call("STATE.ADVANCE").word(&self.source);
        let call = call.word(self.position.to_string());
        let missing = format!("{} was read to {} or further already", self.source, self.position);
        let more = vec![("source".into(), Field::text(&self.source))];
        write_and_show(context, &self.space, "STATE.ADVANCE", call, more, missing)
    }
}

impl Seal {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let call = self.space.call("STATE.SEAL").word(&self.frontier);
        write_and_show(context, &self.space, "STATE.SEAL", call, Row::new(), String::new())
    }
}
