//! `mainstay outbox`: messages that are written in a transaction and delivered by a relay.

use super::args::OnBranch;
use super::cell::{read, value_or_stdin, write};
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::reply::Reply;
use super::{reply_formats, time};
use clap::{Args, Subcommand};

/// What can be done with the outbox.
#[derive(Debug, Subcommand)]
pub enum OutboxVerb {
    /// Write a message; shows its id
    Put(Put),
    /// Take messages that wait, the longest waiting first
    Claim(Claim),
    /// Say that messages were delivered: they go; exit code 1 if there was none of them
    Ack(Ack),
    /// Say that a message could not be delivered: it waits, or is dead; exit code 1 if there is none
    Fail(Fail),
    /// Show messages that were given up, the oldest first
    Dead(Dead),
    /// Make a dead message wait again, with all its tries; exit code 1 if it was not dead
    Replay(Replay),
    /// Show how many messages wait and how many are dead
    State(OnBranch),
}

/// Writing a message.
#[derive(Debug, Args)]
pub struct Put {
    /// Where it goes
    subject: String,
    /// What it says; - takes the standard input
    #[arg(allow_hyphen_values = true)]
    payload: String,
    /// The run that it is of: messages of one run are sent one behind the other
    #[arg(long)]
    run: Option<String>,
    #[command(flatten)]
    on: OnBranch,
}

/// Taking messages.
#[derive(Debug, Args)]
pub struct Claim {
    /// At most this many
    #[arg(default_value_t = 1)]
    limit: u64,
    /// How long nobody else gets them: milliseconds, or a span such as 30s
    #[arg(short, long, value_name = "SPAN", value_parser = time::span_ms, default_value = "30s")]
    lease: u64,
    /// Show the token of the lease as well, to be said with ack and fail
    #[arg(long)]
    token: bool,
    #[command(flatten)]
    on: OnBranch,
}

/// Messages that were delivered.
#[derive(Debug, Args)]
pub struct Ack {
    /// The messages
    #[arg(required = true)]
    ids: Vec<u64>,
    /// The token of their claim: refused if another has claimed one of them since
    #[arg(long)]
    token: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// A message that could not be delivered.
#[derive(Debug, Args)]
pub struct Fail {
    /// The message
    id: u64,
    /// What went wrong
    message: String,
    /// The token of its claim: refused if another has claimed it since
    #[arg(long)]
    token: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// Messages that were given up.
#[derive(Debug, Args)]
pub struct Dead {
    /// Only those behind this one
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
    /// At most this many
    #[arg(long, default_value_t = 1000)]
    limit: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// A message that is to be tried again.
#[derive(Debug, Args)]
pub struct Replay {
    /// The message
    id: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// Starts a row about a message.
fn id_row(id: u64) -> Row {
    vec![("id".into(), Field::number(id))]
}

impl OutboxVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            OutboxVerb::Put(put) => put.run(context),
            OutboxVerb::Claim(claim) => claim.run(context),
            OutboxVerb::Ack(ack) => ack.run(context),
            OutboxVerb::Fail(fail) => fail.run(context),
            OutboxVerb::Dead(dead) => dead.run(context),
            OutboxVerb::Replay(replay) => replay.run(context),
            OutboxVerb::State(on) => {
                let reply = read(context, &on, CommandBuilder::new("OUTBOX.STATE"))?;
                context.show(
                    reply_formats::of_command("OUTBOX.STATE"),
                    Row::new(),
                    reply,
                    String::new,
                )
            }
        }
    }
}

impl Put {
    fn run(self, context: &mut Context) -> Result<()> {
        let payload = value_or_stdin(self.payload, context)?;
        let call = CommandBuilder::new("OUTBOX.PUT").word(&self.subject).word(payload);
        let reply = write(context, &self.on, call.option("RUN", self.run.as_ref()))?;
        let known = vec![("subject".into(), Field::text(&self.subject))];
        context.show(reply_formats::of_command("OUTBOX.PUT"), known, reply, String::new)
    }
}

impl Claim {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("OUTBOX.CLAIM").word(self.limit.to_string());
        let call = call.option("LEASE", Some(self.lease));
        let (call, format) = if self.token {
            (call.word("TOKEN"), reply_formats::CLAIMED_MESSAGES)
        } else {
            (call, reply_formats::of_command("OUTBOX.CLAIM"))
        };
        let reply = read(context, &self.on, call)?;
        if reply == Reply::Array(Vec::new()) {
            return Err(Failure::negative("there is no message to be claimed".to_owned()));
        }
        context.show(format, Row::new(), reply, String::new)
    }
}

impl Ack {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("OUTBOX.ACK");
        let call = self.ids.iter().fold(call, |call, id| call.word(id.to_string()));
        let reply = read(context, &self.on, call.option("TOKEN", self.token))?;
        if reply == Reply::Int(0) {
            return Err(Failure::negative("there is none of these messages".to_owned()));
        }
        context.show(reply_formats::of_command("OUTBOX.ACK"), Row::new(), reply, String::new)
    }
}

impl Fail {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("OUTBOX.FAIL").word(self.id.to_string()).word(&self.message);
        let reply = read(context, &self.on, call.option("TOKEN", self.token))?;
        context.show(reply_formats::of_command("OUTBOX.FAIL"), id_row(self.id), reply, || {
            format!("there is no message {} that waits to be delivered", self.id)
        })
    }
}

impl Dead {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("OUTBOX.DEAD").option("AFTER", self.after);
        let reply = read(context, &self.on, call.option("LIMIT", Some(self.limit)))?;
        context.show(reply_formats::of_command("OUTBOX.DEAD"), Row::new(), reply, String::new)
    }
}

impl Replay {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("OUTBOX.REPLAY").word(self.id.to_string());
        let reply = read(context, &self.on, call)?;
        context.show(reply_formats::of_command("OUTBOX.REPLAY"), id_row(self.id), reply, || {
            format!("there is no dead message {}: `mainstay outbox dead`", self.id)
        })
    }
}
