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
use crate::security::{Denied, User};
use mainstay::{Answer, At, CellCommand, Command, Error, Receipt, SmallVec, Stamp, Transaction};

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
}

/// How answers become a reply.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of what was answered, at the transaction's time.
    pub reply: fn(Answers, Stamp) -> Reply,
    /// Of a failure.
    pub failure: fn(Error) -> Reply,
}

impl Shape {
    /// With failures in our own words.
    pub const fn ours(reply: fn(Answers, Stamp) -> Reply) -> Shape {
        Shape { reply, failure: own_words }
    }
}

fn own_words(error: Error) -> Reply {
    error.into()
}

impl Plan {
    /// One command.
    pub fn one(command: impl Into<Command>, shape: Shape) -> Plan {
        Plan { commands: SmallVec::from_iter([command.into()]), shape, at: None }
    }

    /// Several commands.
    pub fn all<C: Into<Command>>(commands: impl IntoIterator<Item = C>, shape: Shape) -> Plan {
        Plan { commands: commands.into_iter().map(Into::into).collect(), shape, at: None }
    }

    /// As of this moment.
    pub fn at(mut self, at: Option<At>) -> Plan {
        self.at = at;
        self
    }

    /// Itself, if this user may do all of it.
    pub fn allowed(self, user: &User) -> Result<Plan, Denied> {
        self.commands.iter().try_for_each(|command| user.allow_command(command))?;
        Ok(self)
    }

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        let is_read = |command: &Command| {
            matches!(command, Command::Cell(CellCommand::Get { .. } | CellCommand::List { .. }))
        };
        self.commands.iter().all(is_read)
    }

    /// Adds the commands to a transaction.
    pub fn put_into(self, transaction: Transaction) -> (Transaction, Promise) {
        let promise = Promise { count: self.commands.len(), shape: self.shape };
        let add = |transaction: Transaction, command| transaction.attempt(command);
        (self.commands.into_iter().fold(transaction, add), promise)
    }
}

/// A reply to come, of so many answers.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    count: usize,
    shape: Shape,
}

impl Promise {
    /// The reply, of a receipt that is all its own.
    pub fn keep(self, receipt: mainstay::Result<Receipt>) -> Reply {
        match receipt {
            Ok(receipt) => self.shape_of(receipt.answers, receipt.stamp),
            Err(error) => (self.shape.failure)(error),
        }
    }

    /// The reply, of its share of a transaction's answers.
    pub fn keep_share(self, answers: &mut impl Iterator<Item = Answer>, stamp: Stamp) -> Reply {
        self.shape_of(answers.take(self.count).collect(), stamp)
    }

    /// The reply, of answers that were read.
    pub fn shape_of(self, answers: Answers, stamp: Stamp) -> Reply {
        let failed = |answer: &Answer| matches!(answer, Answer::Failed(_));
        match answers.iter().position(failed) {
            None => (self.shape.reply)(answers, stamp),
            Some(place) => match answers.into_iter().nth(place) {
                Some(Answer::Failed(error)) => (self.shape.failure)(error),
                _ => unexpected(),
            },
        }
    }
}

/// A reply where an answer is not of the kind that its command gives.
pub fn unexpected() -> Reply {
    Reply::error("ERR the database gave an answer of another kind: this is a fault of the server")
}

/// The only answer.
pub fn only(answers: Answers) -> Option<Answer> {
    answers.into_iter().next()
}
