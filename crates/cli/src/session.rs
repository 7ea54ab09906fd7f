//! `mainstay session`: exactly-once requests, and requests of the server to its clients.

use super::args::{AsOf, OnBranch};
use super::cell::{read, value_or_stdin, write};
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::pages::Pages;
use super::reply::Reply;
use super::reply_format::{FormattedReply, ReplyFormat};
use super::{reply_formats, time};
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  mainstay session open till-7 --lease 10m --cap lang=rust
  mainstay session do till-7 1 -- INCR sold
  mainstay session do till-7 1 -- INCR sold      (the same answer; nothing is added)
  mainstay session send till-7 stop";

const DO_EXAMPLES: &str = "\
Examples:
  mainstay session do till-7 1 -- SET a 1
  mainstay session do till-7 2 --lowest 2 -- HSET order:9 state paid

The numbers are the client's: from 1, or what `session info` shows as next_request. A number that was
executed before is answered with what it was answered then, whatever command stands behind it.";

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum SessionVerb {
    /// Open a session, or find the one of this id; shows its id
    Open(Open),
    /// Show the sessions that live, in the order of their ids
    List(List),
    /// Show what is known of a session; exit code 1 if there is none
    Info(SessionArgs),
    /// End a session; exit code 1 if there is none
    Close(SessionArgs),
    /// Say that the client is there; exit code 1 if there is no such session
    KeepAlive(KeepAlive),
    /// Do a command once, however often this is said
    Do(Do),
    /// Send a request to a session's client; exit code 1 if there is no such session
    Send(Send),
    /// Show what a session's client has not acknowledged
    Pending(Pending),
    /// Say that the client has done all requests up to a number; shows how many that were
    Ack(Ack),
    /// Show what was sent a while ago and is not acknowledged; it counts as sent now
    Retry(Retry),
}

/// Opening a session.
#[derive(Debug, Args)]
pub struct Open {
    /// Its id [default: one that no other session has]
    id: Option<String>,
    /// How long it lives without a word of its client: milliseconds, or a span such as 10m [default: 60s]
    #[arg(short, long, value_name = "SPAN", value_parser = time::span_ms)]
    lease: Option<u64>,
    /// What its client can do, in words of its own
    #[arg(long = "cap", value_name = "NAME=VALUE", value_parser = capability)]
    capabilities: Vec<(String, String)>,
}

fn capability(text: &str) -> std::result::Result<(String, String), String> {
    let split = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = split.ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Listing sessions.
#[derive(Debug, Args)]
pub struct List {
    /// Only those behind this one
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// At most this many
    #[arg(long)]
    limit: Option<u64>,
}

/// One session.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// The session
    id: String,
}

/// A sign of life.
#[derive(Debug, Args)]
pub struct KeepAlive {
    #[command(flatten)]
    session: SessionArgs,
    /// The lowest request whose answer the client has not got, or the next one: answers below go
    #[arg(long, value_name = "NUMBER")]
    lowest: Option<u64>,
}

/// A request of a session.
#[derive(Debug, Args)]
#[command(after_help = DO_EXAMPLES)]
pub struct Do {
    #[command(flatten)]
    session: SessionArgs,
    /// The number of the request in the session
    number: u64,
    /// The lowest request whose answer the client has not got: answers below go; 0 says nothing
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    lowest: u64,
    #[command(flatten)]
    on: OnBranch,
    /// The command, as the RESP face knows it
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A request to a session's client.
#[derive(Debug, Args)]
pub struct Send {
    #[command(flatten)]
    session: SessionArgs,
    /// What it says; - takes the standard input
    #[arg(allow_hyphen_values = true)]
    payload: String,
}

/// What waits for a session's client.
#[derive(Debug, Args)]
pub struct Pending {
    #[command(flatten)]
    session: SessionArgs,
    /// Only those behind this number
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// At most this many
    #[arg(long)]
    limit: Option<u64>,
}

/// What a session's client has done.
#[derive(Debug, Args)]
pub struct Ack {
    #[command(flatten)]
    session: SessionArgs,
    /// All requests up to this number
    upto: u64,
}

/// What is to be sent again.
#[derive(Debug, Args)]
pub struct Retry {
    /// What was sent before this: microseconds, 2026-11-15T12:00:00Z, or "10m ago"
    #[arg(value_name = "TIME", value_parser = time::stamp_us)]
    before: u64,
    /// At most this many
    #[arg(long, default_value_t = 1000)]
    limit: u64,
}

impl SessionVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            SessionVerb::Open(open) => open.run(context),
            SessionVerb::List(list) => list.run(context),
            SessionVerb::Info(which) => which.show(context, "SESSION.INFO", Row::new()),
            SessionVerb::Close(which) => which.show(context, "SESSION.CLOSE", which.row()),
            SessionVerb::KeepAlive(keep) => keep.run(context),
            SessionVerb::Do(request) => request.run(context),
            SessionVerb::Send(send) => send.run(context),
            SessionVerb::Pending(pending) => pending.run(context),
            SessionVerb::Ack(ack) => ack.run(context),
            SessionVerb::Retry(retry) => retry.run(context),
        }
    }
}

/// Sessions do not belong to a branch.
const NO_BRANCH: OnBranch = OnBranch { branch: None };

impl Open {
    fn call(&self) -> CommandBuilder {
        let call = CommandBuilder::new("SESSION.OPEN").option("ID", self.id.as_ref());
        let call = call.option("LEASE", self.lease);
        let capabilities = self.capabilities.iter();
        capabilities.fold(call, |call, (name, value)| call.word("CAP").word(name).word(value))
    }

    fn run(self, context: &mut Context) -> Result<()> {
        let reply = write(context, &NO_BRANCH, self.call())?;
        context.show(reply_formats::of_command("SESSION.OPEN"), Row::new(), reply, String::new)
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<()> {
        let now = AsOf { rev: None, at: None };
        let pages = Pages::new(now, self.after, self.limit).byte_limited();
        pages.show(context, |context, pages, size| {
            let call = CommandBuilder::new("SESSION.LIST").option("AFTER", pages.after.as_ref());
            let call = call.option("LIMIT", Some(size)).word("INFO");
            rows(read(context, &NO_BRANCH, call)?)
        })
    }
}

/// Parses a list of JSON objects into one row per session.
fn rows(reply: Reply) -> Result<Vec<Row>> {
    let Reply::Array(sessions) = reply else { return Err(unexpected(&reply)) };
    let row = |reply| match ReplyFormat::Object.apply(reply, false) {
        FormattedReply::One(row) => Ok(row),
        other => Err(Failure::error(format!("SESSION.LIST answered {other:?}"))),
    };
    sessions.into_iter().map(row).collect()
}

fn unexpected(reply: &Reply) -> Failure {
    Failure::error(format!("SESSION.LIST answered {reply:?}"))
}

impl SessionArgs {
    fn call(&self, command: &str) -> CommandBuilder {
        CommandBuilder::new(command).word(&self.id)
    }

    /// Starts a row about this session.
    fn row(&self) -> Row {
        vec![("session".into(), Field::text(&self.id))]
    }

    fn missing(&self) -> String {
        format!("there is no session {}: `mainstay session list` shows them", self.id)
    }

    fn show(&self, context: &mut Context, command: &str, known: Row) -> Result<()> {
        let reply = read(context, &NO_BRANCH, self.call(command))?;
        context.show(reply_formats::of_command(command), known, reply, || self.missing())
    }
}

impl KeepAlive {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.session.call("SESSION.KEEPALIVE").option("LOWEST", self.lowest);
        read(context, &NO_BRANCH, call)?;
        let alive = ("alive".into(), Field::Plain(true.into()));
        context.printer.row(self.session.row().into_iter().chain([alive]).collect());
        context.printer.finish();
        Ok(())
    }
}

impl Do {
    fn call(&self) -> CommandBuilder {
        let call = self.session.call("SESSION.DO").word(self.number.to_string());
        let call = call.option("LOWEST", Some(self.lowest));
        self.command.iter().fold(call, CommandBuilder::word)
    }

    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.call();
        let format = reply_formats::of_words(&call.clone().words());
        let reply = write(context, &self.on, call)?;
        if !context.printer.reply(format, reply.clone(), false) {
            context.printer.unformatted(reply);
        }
        Ok(())
    }
}

impl Send {
    fn run(self, context: &mut Context) -> Result<()> {
        let payload = value_or_stdin(self.payload, context)?;
        let call = self.session.call("SESSION.SEND").word(payload);
        let reply = read(context, &NO_BRANCH, call)?;
        let format = reply_formats::of_command("SESSION.SEND");
        let known = self.session.row();
        context.show(format, known, reply, || self.session.missing())
    }
}

impl Pending {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.session.call("SESSION.PENDING").option("AFTER", self.after);
        let reply = read(context, &NO_BRANCH, call.option("LIMIT", self.limit))?;
        context.show(reply_formats::of_command("SESSION.PENDING"), Row::new(), reply, String::new)
    }
}

impl Ack {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.session.call("SESSION.ACK").word(self.upto.to_string());
        let reply = read(context, &NO_BRANCH, call)?;
        context.show(
            reply_formats::of_command("SESSION.ACK"),
            self.session.row(),
            reply,
            String::new,
        )
    }
}

impl Retry {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("SESSION.RETRY").word(self.before.to_string());
        let reply = read(context, &NO_BRANCH, call.option("LIMIT", Some(self.limit)))?;
        context.show(reply_formats::of_command("SESSION.RETRY"), Row::new(), reply, String::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, DataNoun, Noun};
    use crate::command_builder::text_of;
    use clap::Parser;

    fn parsed(words: &[&str]) -> std::result::Result<SessionVerb, clap::Error> {
        let all = ["mainstay", "session"].iter().chain(words);
        match Arguments::try_parse_from(all)?.noun {
            Some(Noun::Data(DataNoun::Session(verb))) => Ok(verb),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn verbs_become_the_words_of_commands() {
        let open = parsed(&["open", "s", "--lease", "5s", "--cap", "a=b=c", "--cap", "d="]);
        let Ok(SessionVerb::Open(open)) = open else { panic!() };
        assert_eq!(text_of(open.call()), "SESSION.OPEN ID s LEASE 5000 CAP a b=c CAP d ");
        let Ok(SessionVerb::Open(open)) = parsed(&["open"]) else { panic!() };
        assert_eq!(text_of(open.call()), "SESSION.OPEN");
        let request = parsed(&["do", "s", "7", "--lowest", "5", "--", "SET", "-a", "--x"]);
        let Ok(SessionVerb::Do(request)) = request else { panic!() };
        assert_eq!(text_of(request.call()), "SESSION.DO s 7 LOWEST 5 SET -a --x");
        let Ok(SessionVerb::Do(request)) = parsed(&["do", "s", "7", "--", "INCR", "n"]) else {
            panic!()
        };
        assert_eq!(text_of(request.call()), "SESSION.DO s 7 LOWEST 0 INCR n");
    }

    #[test]
    fn what_is_missing_or_no_number_is_told() {
        for words in [
            &["do", "s", "1"][..],
            &["do", "s", "one", "--", "INCR", "n"],
            &["do", "s", "-1", "--", "INCR", "n"],
            &["open", "--cap", "name"],
            &["open", "--cap", "=value"],
            &["open", "--lease", "soon"],
            &["ack", "s"],
            &["retry", "later"],
            &["keep-alive"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }
}
