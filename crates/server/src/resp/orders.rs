//! `MULTI`/`EXEC` with commands on jobs and locks, run with optimistic concurrency control.
//!
//! ```text
//!   queue --> open transaction: commands on data and jobs, in order --> commit, with the watched keys as guards
//!     ^                                                                  |
//!     '------------- a key that was read has changed: retry -------------'  4 times; then once more while the
//!                                                                           writer waits: no conflict is possible
//! ```

use super::Shared;
use super::commands::jobs::shown;
use super::multi::too_much;
use super::plan::{Answers, Plan};
use super::record::outcome;
use super::reply::Reply;
use super::session::{Handled, Session};
use crate::jobs::{Order, Outcome};
use crate::security::{self, Entry, recorded_commands};
use mainstay::limits::ANSWERS_LIMIT_BYTES;
use mainstay::{
    Answer, Command, CompactString, Durability, ErrorKind, Guard, InteractiveTransaction, Receipt,
    Result, Transaction,
};
use std::sync::Arc;

/// Number of optimistic attempts before all other writers have to wait.
const TRIES: usize = 4;

/// A queued command.
pub enum Turn {
    /// A command whose reply is already known.
    Known(Reply),
    /// The revision of the transaction.
    Revision,
    /// A command on data.
    Plan(Plan),
    /// A command on jobs or locks.
    Order(Order),
}

/// The result of a queued command before the commit.
enum Share {
    Known(Reply),
    Revision,
    /// The answers. Each has the index of its step in the transaction if it is one, because the receipt
    /// holds its final answer.
    Answers(Plan, Result<Vec<(Answer, Option<usize>)>>),
    Outcome(Result<Outcome>),
}

/// Executes all commands as one transaction, off the event loop.
pub fn together(session: &Session, turns: Vec<Turn>, watched: Vec<Guard>) -> Handled {
    let all = Together {
        shared: session.shared.clone(),
        branch: session.branch.clone(),
        durability: session.durability,
        turns,
        watched,
    };
    let security = session.shared.security.clone();
    let entries = |turn: &Turn| match (turn, session.user.as_deref()) {
        (Turn::Plan(plan), Some(user)) => {
            recorded_commands(security.audit(), user, &session.peer, plan.commands.iter())
        }
        _ => Vec::new(),
    };
    let entries: Vec<Vec<Entry>> = all.turns.iter().map(entries).collect();
    Handled::Slow(Box::new(move || {
        let done = all.run();
        let replies = if let Ok(Reply::Array(replies)) = &done { replies.as_slice() } else { &[] };
        for (position, entry) in
            (0..).zip(&entries).flat_map(|(p, all)| all.iter().map(move |e| (p, e)))
        {
            let outcome = replies.get(position).map_or(security::Outcome::Failed, outcome);
            security.audit().record(entry, outcome);
        }
        done.unwrap_or_else(Reply::from)
    }))
}

struct Together {
    shared: Arc<Shared>,
    branch: CompactString,
    durability: Option<Durability>,
    turns: Vec<Turn>,
    watched: Vec<Guard>,
}

impl Together {
    /// Tries optimistically first, which blocks no other writer. After too many conflicts it runs while all
    /// other writers wait, so that it cannot conflict.
    fn run(&self) -> Result<Reply> {
        for _ in 0..TRIES {
            match self.try_once() {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                done => return done,
            }
            if !self.is_unchanged()? {
                return Ok(Reply::NilArray);
            }
        }
        self.run_alone()
    }

    fn try_once(&self) -> Result<Reply> {
        let mut open = self.shared.db.branch(&self.branch)?.begin()?;
        let shares = self.shares(&mut open)?;
        let mut transaction = open.into_transaction()?;
        // A transaction that only reads keeps no branch, but the guards of the watched keys need it.
        transaction.branch = self.branch.clone();
        transaction.guards.extend(self.watched.iter().cloned());
        let receipt =
            self.shared.db.execute(transaction).map_err(InteractiveTransaction::refusal)?;
        Ok(replies(shares, &receipt))
    }

    fn run_alone(&self) -> Result<Reply> {
        // Opening the jobs writes, which is impossible while the writer waits.
        self.shared.jobs.ready()?;
        let branch = self.shared.db.branch(&self.branch)?;
        let watched = self.watched.clone();
        let (shares, receipt) = branch.transaction_alone(watched, |open| self.shares(open))?;
        if !receipt.held {
            return Ok(Reply::NilArray);
        }
        Ok(replies(shares, &receipt))
    }

    /// Runs all commands in a transaction.
    fn shares(&self, open: &mut InteractiveTransaction) -> Result<Vec<Share>> {
        if let Some(durability) = self.durability {
            open.durability(durability);
        }
        let mut shares = Vec::with_capacity(self.turns.len());
        let mut bytes = 0;
        for turn in &self.turns {
            let share = self.take(turn, open);
            bytes += share.weight_bytes();
            if bytes > ANSWERS_LIMIT_BYTES {
                return Err(too_much());
            }
            shares.push(share);
        }
        Ok(shares)
    }

    /// A command that fails does not stop the others, as in Redis.
    fn take(&self, turn: &Turn, open: &mut InteractiveTransaction) -> Share {
        match turn {
            Turn::Known(reply) => Share::Known(reply.clone()),
            Turn::Revision => Share::Revision,
            Turn::Plan(plan) => Share::Answers(plan.clone(), answers(plan, open)),
            Turn::Order(order) => Share::Outcome(self.shared.jobs.run_in(open, order.clone())),
        }
    }

    /// Returns whether the watched keys are unchanged.
    fn is_unchanged(&self) -> Result<bool> {
        if self.watched.is_empty() {
            return Ok(true);
        }
        let mut look = Transaction::on(&self.branch).durability(Durability::Memory);
        look.guards.clone_from(&self.watched);
        look.otherwise = Some(Vec::new());
        Ok(self.shared.db.execute(look)?.held)
    }
}

fn replies(shares: Vec<Share>, receipt: &Receipt) -> Reply {
    Reply::Array(shares.into_iter().map(|share| share.reply(receipt)).collect())
}

/// Runs commands on data in the transaction. The commit answers all of them again, reads too, so that the
/// replies are final.
fn answers(plan: &Plan, open: &mut InteractiveTransaction) -> Result<Vec<(Answer, Option<usize>)>> {
    let one = |command: &Command| {
        let place = open.step_count();
        let answer = open.run_as_step(command.clone())?;
        Ok((answer, place.filter(|_| open.step_count() > place)))
    };
    plan.commands.iter().map(one).collect()
}

impl Share {
    /// Makes the reply after the commit.
    fn reply(self, receipt: &Receipt) -> Reply {
        match self {
            Share::Known(reply) => reply,
            Share::Revision => Reply::number(receipt.revision),
            Share::Answers(plan, Err(error)) => plan.shape.make(Err(error)),
            Share::Answers(plan, Ok(answers)) => {
                let last = |place: usize| receipt.answers.get(place).cloned();
                let settled = |(answer, place): (Answer, Option<usize>)| {
                    place.and_then(last).unwrap_or(answer)
                };
                let answers: Answers = answers.into_iter().map(settled).collect();
                let failed = answers.iter().find_map(|answer| match answer {
                    Answer::Failed(error) => Some(error.clone()),
                    _ => None,
                });
                plan.shape.make(failed.map_or(Ok((answers, receipt.stamp)), Err))
            }
            Share::Outcome(outcome) => shown(outcome.map(|outcome| outcome.at(receipt.revision))),
        }
    }

    /// Returns the approximate memory of the result until the commit.
    fn weight_bytes(&self) -> usize {
        match self {
            Share::Known(reply) => reply.weight_bytes(),
            Share::Answers(_, Ok(answers)) => answers.iter().map(|(it, _)| it.weight_bytes()).sum(),
            Share::Outcome(Ok(outcome)) => outcome.weight_bytes(),
            _ => 0,
        }
    }
}
