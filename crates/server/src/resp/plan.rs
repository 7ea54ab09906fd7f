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

use super::reply::Reply;
use super::rights;
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
    pub shape: Shape,
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
pub struct Shape {
    /// Makes the reply from the answers and the timestamp of the transaction.
    pub reply: Making,
    /// Makes the reply from an error.
    pub failure: fn(Error) -> Reply,
}

/// A function that makes a reply from answers.
#[derive(Clone)]
pub enum Making {
    /// A function of the answers alone.
    Plain(fn(Answers, Stamp) -> Reply),
    /// A closure that also knows the request.
    Asked(Arc<dyn Fn(Answers, Stamp) -> Reply + Send + Sync>),
    /// A closure with a random seed.
    ByChance(Arc<dyn Fn(Answers, u64) -> Reply + Send + Sync>),
}

impl std::fmt::Debug for Making {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Making")
    }
}

impl Shape {
    /// Creates a shape with the default error texts.
    pub const fn ours(reply: fn(Answers, Stamp) -> Reply) -> Shape {
        Shape { reply: Making::Plain(reply), failure: own_words }
    }

    /// Creates a shape with its own error texts.
    pub const fn with(reply: fn(Answers, Stamp) -> Reply, failure: fn(Error) -> Reply) -> Shape {
        Shape { reply: Making::Plain(reply), failure }
    }

    /// Creates a shape whose reply depends on the answers and the request.
    pub fn asked(
        reply: impl Fn(Answers, Stamp) -> Reply + Send + Sync + 'static,
        failure: fn(Error) -> Reply,
    ) -> Shape {
        Shape { reply: Making::Asked(Arc::new(reply)), failure }
    }

    /// Creates a shape whose reply depends on the answers and a random seed.
    pub fn by_chance(
        reply: impl Fn(Answers, u64) -> Reply + Send + Sync + 'static,
        failure: fn(Error) -> Reply,
    ) -> Shape {
        Shape { reply: Making::ByChance(Arc::new(reply)), failure }
    }

    /// Makes the reply, with a fresh random seed.
    pub fn make(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        // Each `RandomState` has different keys, so this hash is a random number.
        self.make_with(answers, |_| RandomState::new().hash_one(0))
    }

    /// Makes the reply. The same answers always give the same reply.
    fn make_once(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        self.make_with(answers, |now| now)
    }

    fn make_with(
        &self,
        answers: mainstay::Result<(Answers, Stamp)>,
        chance: impl FnOnce(Stamp) -> u64,
    ) -> Reply {
        match (answers, &self.reply) {
            (Ok((answers, now)), Making::Plain(reply)) => reply(answers, now),
            (Ok((answers, now)), Making::Asked(reply)) => reply(answers, now),
            (Ok((answers, now)), Making::ByChance(reply)) => reply(answers, chance(now)),
            (Err(error), _) => (self.failure)(error),
        }
    }
}

fn own_words(error: Error) -> Reply {
    error.into()
}

impl Plan {
    /// Creates a plan of one command.
    pub fn one(command: impl Into<Command>, shape: Shape) -> Plan {
        Plan {
            commands: SmallVec::from_iter([command.into()]),
            shape,
            at: None,
            once_only: false,
            pattern_bytes: 0,
        }
    }

    /// Creates a plan of several commands.
    pub fn all<C: Into<Command>>(commands: impl IntoIterator<Item = C>, shape: Shape) -> Plan {
        Plan {
            commands: commands.into_iter().map(Into::into).collect(),
            shape,
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
    pub fn matching(mut self, pattern_bytes: usize) -> Plan {
        self.pattern_bytes = pattern_bytes;
        self
    }

    /// Sets the revision or time to read.
    pub fn at(mut self, at: Option<At>) -> Plan {
        self.at = at;
        self
    }

    /// Checks that the user may execute all commands.
    pub fn allowed(&self, user: &User) -> Result<(), Denied> {
        self.commands.iter().try_for_each(|command| user.allow_command(command))
    }

    /// Removes the kinds of state that this user may not access, and fails if none is left. A command on
    /// names of any kind does as much as the user may do.
    pub fn narrowed(&mut self, user: &User) -> Result<(), Denied> {
        for command in &mut self.commands {
            if let Command::Key(KeyCommand::Names { kinds, .. } | KeyCommand::Count { kinds, .. }) =
                command
            {
                kinds.retain(|kind| rights::kinds(Some(user)).contains(kind));
            }
        }
        let is_record = |command: &Command| matches!(command, Command::Record(_));
        let mut denied = None;
        for records in [false, true] {
            let mut of_kind = self.commands.iter().filter(|it| is_record(it) == records);
            if let Err(missing) = of_kind.try_for_each(|command| user.allow_command(command)) {
                self.commands.retain(|command| is_record(command) != records);
                denied = denied.or(Some(missing));
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
    pub fn stands_in_open(&self) -> bool {
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
    pub fn takes_a_while(&self) -> bool {
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
        self.read_within(db, branch, usize::MAX).unwrap_or_else(unexpected)
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
        read.transpose().map(|read| self.shape.make(read))
    }

    /// Adds the commands to a transaction. Returns it with the pending reply.
    pub fn put_into(self, transaction: Transaction) -> (Transaction, Promise) {
        let promise = Promise { count: self.commands.len(), shape: self.shape, once: false };
        (
            self.commands
                .into_iter()
                .fold(transaction, |transaction, command| transaction.attempt(command)),
            promise,
        )
    }
}

/// A pending reply, made from a number of answers.
#[derive(Clone, Debug)]
pub struct Promise {
    count: usize,
    shape: Shape,
    /// True if the same answers have to give the same reply.
    once: bool,
}

impl Promise {
    /// Marks it as the reply of a session request, whose repeats get the same reply.
    pub fn once(self) -> Promise {
        Promise { once: true, ..self }
    }

    fn make(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        if self.once { self.shape.make_once(answers) } else { self.shape.make(answers) }
    }

    /// Makes the reply from the receipt of the plan's own transaction.
    pub fn keep(self, receipt: mainstay::Result<Receipt>) -> Reply {
        match receipt {
            Ok(receipt) => self.shape_of(receipt.answers, receipt.stamp),
            Err(error) => self.make(Err(error)),
        }
    }

    /// Makes the reply from its share of a transaction's answers.
    pub fn keep_share(self, answers: &mut impl Iterator<Item = Answer>, stamp: Stamp) -> Reply {
        let share = answers.take(self.count).collect();
        self.shape_of(share, stamp)
    }

    /// Makes the reply from answers.
    pub fn shape_of(self, answers: Answers, stamp: Stamp) -> Reply {
        match answers.iter().position(|answer| matches!(answer, Answer::Failed(_))) {
            None => self.make(Ok((answers, stamp))),
            Some(place) => match answers.into_iter().nth(place) {
                Some(Answer::Failed(error)) => self.make(Err(error)),
                _ => unexpected(),
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
pub fn unexpected() -> Reply {
    Reply::error("ERR the database gave an answer of another kind: this is a fault of the server")
}

/// Returns the only answer.
pub fn only(answers: Answers) -> Option<Answer> {
    answers.into_iter().next()
}
