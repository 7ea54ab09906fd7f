//! Plans: what a data command does, and the shape of its reply.
//!
//! ```text
//!   words --command's own file--> Plan { commands of the waist, shape }
//!                                    |  queued, inside a transaction, read at once, or in a batch
//!                                 answers --shape--> Reply
//! ```
//!
//! A plan knows nothing of connections, so every command works alone, in `MULTI` and in a
//! transaction, and a further contract needs no more than a file of plans.

use super::reply::Reply;
use super::rights;
use crate::security::{Denied, User};
use mainstay::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay::{
    Answer, At, Command, Database, Error, KeyCommand, OutboxCommand, Receipt, RunCommand, SmallVec,
    Stamp, Transaction,
};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// A page of records, runs, events or states that is made at once.
const SHORT_PAGE: usize = 256;

/// The answers of a plan's commands.
pub type Answers = SmallVec<[Answer; 1]>;

/// What a data command does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is to be done, all of it at once.
    pub commands: SmallVec<[Command; 1]>,
    /// How the answers become a reply.
    pub shape: Shape,
    /// The moment that it reads, if that is not now.
    pub at: Option<At>,
    /// The reply is not the same each time it is made of the same answers, so no request of a session may hold it.
    pub once_only: bool,
    /// The bytes of the pattern that its reply compiles and matches.
    pub pattern_bytes: usize,
}

/// How answers become a reply.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Of what was answered, at the transaction's time.
    pub reply: Making,
    /// Of a failure.
    pub failure: fn(Error) -> Reply,
}

/// How a reply is made of answers.
#[derive(Clone)]
pub enum Making {
    /// The answers say all.
    Plain(fn(Answers, Stamp) -> Reply),
    /// What was asked for has to be known, too.
    Asked(Arc<dyn Fn(Answers, Stamp) -> Reply + Send + Sync>),
    /// It is left to chance, which begins with this number.
    ByChance(Arc<dyn Fn(Answers, u64) -> Reply + Send + Sync>),
}

impl std::fmt::Debug for Making {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Making")
    }
}

impl Shape {
    /// With failures in our own words.
    pub const fn ours(reply: fn(Answers, Stamp) -> Reply) -> Shape {
        Shape { reply: Making::Plain(reply), failure: own_words }
    }

    /// With failures in other words.
    pub const fn with(reply: fn(Answers, Stamp) -> Reply, failure: fn(Error) -> Reply) -> Shape {
        Shape { reply: Making::Plain(reply), failure }
    }

    /// Of answers and of what was asked for.
    pub fn asked(
        reply: impl Fn(Answers, Stamp) -> Reply + Send + Sync + 'static,
        failure: fn(Error) -> Reply,
    ) -> Shape {
        Shape { reply: Making::Asked(Arc::new(reply)), failure }
    }

    /// Of answers and of chance.
    pub fn by_chance(
        reply: impl Fn(Answers, u64) -> Reply + Send + Sync + 'static,
        failure: fn(Error) -> Reply,
    ) -> Shape {
        Shape { reply: Making::ByChance(Arc::new(reply)), failure }
    }

    /// The reply.
    pub fn make(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        // Every state of it hashes differently.
        self.make_with(answers, |_| RandomState::new().hash_one(0))
    }

    /// The reply, which is the same whenever it is made of the same.
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
    /// One command.
    pub fn one(command: impl Into<Command>, shape: Shape) -> Plan {
        Plan {
            commands: SmallVec::from_iter([command.into()]),
            shape,
            at: None,
            once_only: false,
            pattern_bytes: 0,
        }
    }

    /// Several commands.
    pub fn all<C: Into<Command>>(commands: impl IntoIterator<Item = C>, shape: Shape) -> Plan {
        Plan {
            commands: commands.into_iter().map(Into::into).collect(),
            shape,
            at: None,
            once_only: false,
            pattern_bytes: 0,
        }
    }

    /// With a reply that is another each time.
    pub fn once_only(mut self) -> Plan {
        self.once_only = true;
        self
    }

    /// Its reply is made with a pattern of so many bytes.
    pub fn matching(mut self, pattern_bytes: usize) -> Plan {
        self.pattern_bytes = pattern_bytes;
        self
    }

    /// As of this moment.
    pub fn at(mut self, at: Option<At>) -> Plan {
        self.at = at;
        self
    }

    /// Refuses a user who may not do all of it.
    pub fn allowed(&self, user: &User) -> Result<(), Denied> {
        self.commands.iter().try_for_each(|command| user.allow_command(command))
    }

    /// Takes out the kinds of state that this user may not touch, and refuses where none is left: a command on names,
    /// whatever they hold, does as much as the user may.
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

    /// The memory that it takes, with the overhead of every command.
    pub fn weight_bytes(&self) -> usize {
        self.commands.iter().map(Command::weight_bytes).sum()
    }

    /// Refuses to write more than a transaction may, before anything is done or kept of it.
    pub fn check_size(&self) -> Result<(), Reply> {
        if self.commands.len() <= TRANSACTION_LIMIT_COMMANDS || self.is_read() {
            return Ok(());
        }
        Err(too_many_commands())
    }

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        self.commands.iter().all(Command::is_snapshot_read)
    }

    /// Whether it can be part of an open transaction. Pending requests of sessions and messages of the outbox are known to
    /// the writer alone: others may have taken them before the commit.
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

    /// Whether it may take a while, so that others should not have to wait behind it.
    pub fn takes_a_while(&self) -> bool {
        let is_long = |command: &Command| match command {
            Command::Branch(_) | Command::Key(_) => true,
            Command::Run(RunCommand::Fetch { limit, .. }) => *limit > SHORT_PAGE,
            command => command.walks(),
        };
        self.commands.iter().any(is_long)
    }

    /// Reads what is published on a branch, or was.
    pub fn read(&self, db: &Database, branch: &str) -> Reply {
        self.read_within(db, branch, usize::MAX).unwrap_or_else(unexpected)
    }

    /// The same; nothing once the answers to some of the commands have more bytes than this, and there are more commands.
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

    /// Adds the commands to a transaction.
    pub fn put_into(self, transaction: Transaction) -> (Transaction, Promise) {
        let promise = Promise { count: self.commands.len(), shape: self.shape, once: false };
        let add = |transaction: Transaction, command| transaction.attempt(command);
        (self.commands.into_iter().fold(transaction, add), promise)
    }
}

/// A reply to come, of so many answers.
#[derive(Clone, Debug)]
pub struct Promise {
    count: usize,
    shape: Shape,
    /// Whether the same answers have to make the same reply.
    once: bool,
}

impl Promise {
    /// Of a request of a session: a repeat is told the same.
    pub fn once(self) -> Promise {
        Promise { once: true, ..self }
    }

    fn make(&self, answers: mainstay::Result<(Answers, Stamp)>) -> Reply {
        match self.once {
            true => self.shape.make_once(answers),
            false => self.shape.make(answers),
        }
    }

    /// The reply, of a receipt that is all its own.
    pub fn keep(self, receipt: mainstay::Result<Receipt>) -> Reply {
        match receipt {
            Ok(receipt) => self.shape_of(receipt.answers, receipt.stamp),
            Err(error) => self.make(Err(error)),
        }
    }

    /// The reply, of its share of a transaction's answers.
    pub fn keep_share(self, answers: &mut impl Iterator<Item = Answer>, stamp: Stamp) -> Reply {
        let share = answers.take(self.count).collect();
        self.shape_of(share, stamp)
    }

    /// The reply, of answers that were read.
    pub fn shape_of(self, answers: Answers, stamp: Stamp) -> Reply {
        let failed = |answer: &Answer| matches!(answer, Answer::Failed(_));
        match answers.iter().position(failed) {
            None => self.make(Ok((answers, stamp))),
            Some(place) => match answers.into_iter().nth(place) {
                Some(Answer::Failed(error)) => self.make(Err(error)),
                _ => unexpected(),
            },
        }
    }
}

/// The refusal of a plan with more commands than a transaction may have.
pub fn too_many_commands() -> Reply {
    Reply::error(format!(
        "TOOLARGE a transaction has at most {TRANSACTION_LIMIT_COMMANDS} commands, and a name that is deleted counts \
         as two: make it several"
    ))
}

/// A reply where an answer is not of the kind that its command gives.
pub fn unexpected() -> Reply {
    Reply::error("ERR the database gave an answer of another kind: this is a fault of the server")
}

/// The only answer.
pub fn only(answers: Answers) -> Option<Answer> {
    answers.into_iter().next()
}
