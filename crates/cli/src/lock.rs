//! `mainstay lock`: exclusive locks with a lease.

use super::args::OnBranch;
use super::cell::{read, write};
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::Result;
use super::field::name_row;
use super::reply_format::ReplyFormat;
use super::{reply_formats, time};
use clap::{Args, Subcommand};

/// What can be done with locks.
#[derive(Debug, Subcommand)]
pub enum LockVerb {
    /// Take a lock; shows its token; exit code 1 while another owner has it
    Take(Take),
    /// Hold a lock on; exit code 1 if it is held no more
    Renew(Renew),
    /// Give a lock back; exit code 1 if nobody had it, or another
    Free(Free),
    /// Show who has a lock; exit code 1 if nobody has
    Show(Show),
}

/// Taking a lock.
#[derive(Debug, Args)]
pub struct Take {
    /// The lock
    name: String,
    /// Who takes it
    #[arg(long)]
    owner: String,
    /// How long it is held: milliseconds, or a span such as 30s
    #[arg(short, long, value_name = "SPAN", value_parser = time::span_ms, default_value = "30s")]
    lease: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// Holding a lock on.
#[derive(Debug, Args)]
pub struct Renew {
    /// The lock
    name: String,
    /// What taking it gave
    token: u64,
    /// How long it is held from now on: milliseconds, or a span such as 30s
    #[arg(short, long, value_name = "SPAN", value_parser = time::span_ms, default_value = "30s")]
    lease: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// Giving a lock back.
#[derive(Debug, Args)]
pub struct Free {
    /// The lock
    name: String,
    /// What taking it gave
    token: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// Looking at a lock.
#[derive(Debug, Args)]
pub struct Show {
    /// The lock
    name: String,
    #[command(flatten)]
    on: OnBranch,
}

impl LockVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            LockVerb::Take(take) => take.run(context),
            LockVerb::Renew(renew) => renew.run(context),
            LockVerb::Free(free) => free.run(context),
            LockVerb::Show(show) => show.run(context),
        }
    }
}

impl Take {
    fn run(self, context: &mut Context) -> Result<()> {
        let call =
            CommandBuilder::new("LOCK.TAKE").word(&self.name).word("OWNER").word(&self.owner);
        let reply = write(context, &self.on, call.option("LEASE", Some(self.lease)))?;
        let missing =
            || format!("another owner has the lock {0}: `mainstay lock show {0}`", self.name);
        context.show(ReplyFormat::One("token"), name_row(&self.name), reply, missing)
    }
}

impl Renew {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("LOCK.RENEW").word(&self.name).word(self.token.to_string());
        let reply = write(context, &self.on, call.option("LEASE", Some(self.lease)))?;
        context.show(ReplyFormat::Flag("held"), name_row(&self.name), reply, String::new)
    }
}

impl Free {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("LOCK.FREE").word(&self.name).word(self.token.to_string());
        let reply = write(context, &self.on, call)?;
        context.show(ReplyFormat::Flag("freed"), name_row(&self.name), reply, || {
            format!("nobody has the lock {}", self.name)
        })
    }
}

impl Show {
    fn run(self, context: &mut Context) -> Result<()> {
        let reply = read(context, &self.on, CommandBuilder::new("LOCK.GET").word(&self.name))?;
        context.show(reply_formats::of_command("LOCK.GET"), name_row(&self.name), reply, || {
            format!("nobody has the lock {}", self.name)
        })
    }
}
