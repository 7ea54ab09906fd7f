//! Plans: the commands of a request, and the function that makes its reply.
//!
//! ```text
//!   words --command's own file--> Plan { commands, reply function }
//!                                    |  queued, inside a transaction, read at once, or in a batch
//!                                 answers --reply function--> Reply
//! ```
//!
//! A plan is independent of connections. Each command therefore works alone, in `MULTI` and in a
//! transaction, and a new kind of state needs only a new file of plans.

use super::permissions;
use super::reply::Reply;
use crate::security::{Denied, User};
use mainstay::limits::{PAGE_DEFAULT, TRANSACTION_LIMIT_COMMANDS};
use mainstay::{
    Answer, At, Command, Database, Error, KeyCommand, OutboxCommand, Receipt, RunCommand,
    SessionCommand, SmallVec, Stamp, Transaction,
};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// A page of at most this many records, runs, events or states is read on the event loop.
const SHORT_PAGE: usize = 256;

/// The answers of a plan's commands.
pub type Answers = SmallVec<[Answer; 1]>;

/// The commands of a request, and how to make the reply.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The commands, executed atomically.
    pub commands: SmallVec<[Command; 1]>,
    /// Makes the reply from the answers.
    pub format: ReplyFormat,
    /// The past revision or time to read; `None` for the present.
    pub at: Option<At>,
    /// True if the reply differs each time it is made from the same answers, so that it cannot be part of a
    /// session request.
    pub once_only: bool,
    /// Length of the pattern that the reply compiles and matches, in bytes.
    pub pattern_bytes: usize,
}

/// The functions that turn answers into a reply.
#[derive(Clone, Debug)]
pub struct ReplyFormat {
    /// Makes the reply from the answers and the timestamp of the transaction.
    pub reply: ReplyFn,
    /// Makes the reply from an error.
    pub failure: fn(Error) -> Reply,
}

/// A function that makes a reply from answers.
#[derive(Clone)]
pub enum ReplyFn {
    /// A function of the answers alone.
    Plain(fn(Answers, Stamp) -> Reply),
    /// A closure that also knows the request.
    Closure(Arc<dyn Fn(Answers, Stamp) -> Reply + Send + Sync>),
    /// A closure with a random seed.
    Random(Arc<dyn Fn(Answers, u64) -> Reply + Send + Sync>),
}

impl std::fmt::Debug for ReplyFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Making")
    }
}

impl ReplyFormat {
    /// Creates a shape with the default error texts.
    pub const fn plain(reply: fn(Answers, Stamp) -> Reply) -> ReplyFormat {
        ReplyFormat { reply: ReplyFn::Plain(reply), failure: default_error }
    }

    /// Creates a shape with its own error texts.
    pub const fn with_errors(
        reply: fn(Answers, Stamp) -> Reply,
        failure: fn(Error) -> Reply,
    ) -> ReplyFormat {
        ReplyFormat { reply: ReplyFn::Plain(reply), failure }
    }

    /// Creates a shape whose reply depends on the answers and the request.
    pub fn closure(
        reply: impl Fn(Answers, Stamp) -> Reply + Send + Sync + 'static,
        failure: fn(Error) -> Reply,
    ) -> ReplyFormat {
        ReplyFormat { reply: ReplyFn::Closure(Arc::new(reply)), failure }
    }

    /// Creates a shape whose reply depends on the answers and a random seed.
    pub fn random(
        reply: impl Fn(Answers, u64) -> Reply + Send + Sync + 'static,
        failure: fn(Error) -> Reply,
    ) -> ReplyFormat {
        ReplyFormat { reply: ReplyFn::Random(Arc::new(reply)), failure }
    }

    /// Makes the reply, with a fresh random seed.
    pub fn make(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        // Each `RandomState` has different keys, so this hash is a random number.
        self.make_with(answers, |_| RandomState::new().hash_one(0))
    }

    /// Makes the reply. The same answers always give the same reply.
    fn make_repeatable(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        self.make_with(answers, |now| now)
    }

    fn make_with(
        &self,
        answers: mainstay::Result<(Answers, Stamp)>,
        seed: impl FnOnce(Stamp) -> u64,
    ) -> Reply {
        match (answers, &self.reply) {
            (Ok((answers, now)), ReplyFn::Plain(reply)) => reply(answers, now),
            (Ok((answers, now)), ReplyFn::Closure(reply)) => reply(answers, now),
            (Ok((answers, now)), ReplyFn::Random(reply)) => reply(answers, seed(now)),
            (Err(error), _) => (self.failure)(error),
        }
    }
}

fn default_error(error: Error) -> Reply {
    error.into()
}

impl Plan {
    /// Creates a plan of one command.
    pub fn one(command: impl Into<Command>, format: ReplyFormat) -> Plan {
        Plan {
            commands: SmallVec::from_iter([command.into()]),
            format,
            at: None,
            once_only: false,
            pattern_bytes: 0,
        }
    }

    /// Creates a plan of several commands.
    pub fn all<C: Into<Command>>(
        commands: impl IntoIterator<Item = C>,
        format: ReplyFormat,
    ) -> Plan {
        Plan {
            commands: commands.into_iter().map(Into::into).collect(),
            format,
            at: None,
            once_only: false,
            pattern_bytes: 0,
        }
    }

    /// Marks the reply as different each time.
    pub fn once_only(mut self) -> Plan {
        self.once_only = true;
        self
    }

    /// Sets the length of the pattern that the reply is made with.
    pub fn with_pattern_bytes(mut self, pattern_bytes: usize) -> Plan {
        self.pattern_bytes = pattern_bytes;
        self
    }

    /// Sets the revision or time to read.
    pub fn at(mut self, at: Option<At>) -> Plan {
        self.at = at;
        self
    }

    /// Checks that the user may execute all commands.
    pub fn authorize(&self, user: &User) -> Result<(), Denied> {
        self.commands.iter().try_for_each(|command| user.allow_command(command))
    }

    /// Removes the kinds of state that this user may not access, and fails if none is left. A command on
    /// names of any kind does as much as the user may do.
    pub fn restrict_to_permitted(&mut self, user: &User) -> Result<(), Denied> {
        for command in &mut self.commands {
            if let Command::Key(KeyCommand::Names { kinds, .. } | KeyCommand::Count { kinds, .. }) =
                command
            {
                kinds.retain(|kind| permissions::readable_kinds(Some(user)).contains(kind));
            }
        }
        let is_record = |command: &Command| matches!(command, Command::Record(_));
        let mut denied = None;
        for records in [false, true] {
            let mut same_kind = self.commands.iter().filter(|it| is_record(it) == records);
            if let Err(missing_permission) =
                same_kind.try_for_each(|command| user.allow_command(command))
            {
                self.commands.retain(|command| is_record(command) != records);
                denied = denied.or(Some(missing_permission));
            }
        }
        match denied {
            Some(denied) if self.commands.is_empty() => Err(denied),
            _ => Ok(()),
        }
    }

    /// Returns the memory of the commands, including the overhead of each one.
    pub fn weight_bytes(&self) -> usize {
        self.commands.iter().map(Command::weight_bytes).sum()
    }

    /// Rejects a plan with more writes than a transaction may have, before anything is executed or stored.
    pub fn check_size(&self) -> Result<(), Reply> {
        if self.commands.len() <= TRANSACTION_LIMIT_COMMANDS || self.is_read() {
            return Ok(());
        }
        Err(too_many_commands())
    }

    /// Returns whether it only reads.
    pub fn is_read(&self) -> bool {
        self.commands.iter().all(Command::is_snapshot_read)
    }

    /// Returns whether it can run in an open transaction. Pending session requests and outbox messages
    /// cannot be read there, because only the writer thread knows them: other clients may take them before
    /// the commit.
    pub fn can_run_in_open(&self) -> bool {
        let is_told_by_the_writer = |command: &Command| match command {
            Command::Session(command) => command.reads(),
            Command::Outbox(command) => {
                command.is_read() || matches!(command, OutboxCommand::Claim { .. })
            }
            _ => false,
        };
        !self.commands.iter().any(is_told_by_the_writer)
    }

    /// Returns whether it may run so long that other connections should not wait for it.
    pub fn is_long(&self) -> bool {
        let is_long = |command: &Command| match command {
            Command::Branch(_) | Command::Key(_) => true,
            Command::Run(RunCommand::Fetch { limit, .. }) => *limit > SHORT_PAGE,
            command => command.walks(),
        };
        self.commands.iter().any(is_long)
    }

    /// Returns whether only the writer can answer it, and the answer may be so long that other connections should not
    /// wait for it.
    pub fn pages_at_writer(&self) -> bool {
        let is_long = |command: &Command| match command {
            Command::Outbox(
                OutboxCommand::Claim { limit, .. } | OutboxCommand::Dead { limit, .. },
            )
            | Command::Session(
                SessionCommand::List { limit, .. }
                | SessionCommand::Pending { limit, .. }
                | SessionCommand::Retry { limit, .. },
            ) => *limit > PAGE_DEFAULT,
            _ => false,
        };
        self.commands.iter().any(is_long)
    }

    /// Executes a read plan on published state, of the present or the past.
    pub fn read(&self, db: &Database, branch: &str) -> Reply {
        self.read_within(db, branch, usize::MAX).unwrap_or_else(unexpected_answer)
    }

    /// Does the same, but returns `None` if the answers to some of the commands exceed `bytes` and commands
    /// are left.
    pub fn read_within(&self, db: &Database, branch: &str, bytes: usize) -> Option<Reply> {
        let read = match self.at {
            None => db.look_within(branch, &self.commands, bytes),
            Some(at) => db.moment(branch, at).and_then(|moment| {
                let answers = moment.answers_within(&self.commands, bytes)?;
                Ok(answers.map(|answers| (answers, moment.now())))
            }),
        };
        read.transpose().map(|read| self.format.make(read))
    }

    /// Adds the commands to a transaction. Returns it with the pending reply.
    pub fn append_to(self, transaction: Transaction) -> (Transaction, ReplyBuilder) {
        let builder =
            ReplyBuilder { count: self.commands.len(), format: self.format, repeatable: false };
        (
            self.commands
                .into_iter()
                .fold(transaction, |transaction, command| transaction.attempt(command)),
            builder,
        )
    }
}

/// A pending reply, made from a number of answers.
#[derive(Clone, Debug)]
pub struct ReplyBuilder {
    count: usize,
    format: ReplyFormat,
    /// True if the same answers have to give the same reply.
    repeatable: bool,
}

impl ReplyBuilder {
    /// Marks it as the reply of a session request, whose repeats get the same reply.
    pub fn repeatable(self) -> ReplyBuilder {
        ReplyBuilder { repeatable: true, ..self }
    }

    fn make(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        if self.repeatable {
            self.format.make_repeatable(answers)
        } else {
            self.format.make(answers)
        }
    }

    /// Makes the reply from the receipt of the plan's own transaction.
    pub fn build(self, receipt: mainstay::Result<Receipt>) -> Reply {
        match receipt {
            Ok(receipt) => self.build_answers(receipt.answers, receipt.stamp),
            Err(error) => self.make(Err(error)),
        }
    }

    /// Makes the reply from its share of a transaction's answers.
    pub fn build_from(self, answers: &mut impl Iterator<Item = Answer>, stamp: Stamp) -> Reply {
        let own_answers = answers.take(self.count).collect();
        self.build_answers(own_answers, stamp)
    }

    /// Makes the reply from answers.
    pub fn build_answers(self, answers: Answers, stamp: Stamp) -> Reply {
        match answers.iter().position(|answer| matches!(answer, Answer::Failed(_))) {
            None => self.make(Ok((answers, stamp))),
            Some(index) => match answers.into_iter().nth(index) {
                Some(Answer::Failed(error)) => self.make(Err(error)),
                _ => unexpected_answer(),
            },
        }
    }
}

/// The error for a plan with more commands than a transaction may have.
pub fn too_many_commands() -> Reply {
    Reply::error(format!(
        "TOOLARGE a transaction has at most {TRANSACTION_LIMIT_COMMANDS} commands, and a name that is deleted counts \
         as two: make it several"
    ))
}

/// The error for an answer of an unexpected kind.
pub fn unexpected_answer() -> Reply {
    Reply::error("ERR the database gave an answer of another kind: this is a fault of the server")
}

/// Returns the only answer.
pub fn single(answers: Answers) -> Option<Answer> {
    answers.into_iter().next()
}
