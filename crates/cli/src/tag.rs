//! `mainstay tag`: revisions pinned by name.

use super::args::{AsOf, OnBranch};
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::Result;
use super::field::{Row, name_row};
use super::reply_format::ReplyFormat;
use super::reply_formats;
use clap::{Args, Subcommand};

/// What can be done with tags.
#[derive(Debug, Subcommand)]
pub enum TagVerb {
    /// Pin a revision; shows which
    Set(SetTag),
    /// Remove a tag; exit code 1 if there is none
    Delete {
        /// The tag
        name: String,
    },
    /// List all tags
    List,
}

/// Pinning a revision.
#[derive(Debug, Args)]
pub struct SetTag {
    /// The tag
    name: String,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    as_of: AsOf,
}

impl TagVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            TagVerb::Set(set) => set.run(context),
            TagVerb::Delete { name } => delete(context, &name),
            TagVerb::List => list(context),
        }
    }
}

impl SetTag {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(CommandBuilder::new("TAG.SET").word(&self.name));
        let on = self.on.branch.as_deref();
        let reply = context.store_to_write()?.on(on, |store| store.call(call.words()))?;
        context.show(ReplyFormat::One("revision"), name_row(&self.name), reply, String::new)
    }
}

fn delete(context: &mut Context, name: &str) -> Result<()> {
    let reply = context.store()?.call(CommandBuilder::new("TAG.DEL").word(name).words())?;
    context.show(ReplyFormat::Flag("deleted"), name_row(name), reply, || {
        format!("there is no tag {name}: `mainstay tag list` lists them")
    })
}

fn list(context: &mut Context) -> Result<()> {
    let reply = context.store()?.call(CommandBuilder::new("TAG.LIST").words())?;
    context.show(reply_formats::of_command("TAG.LIST"), Row::new(), reply, String::new)
}
