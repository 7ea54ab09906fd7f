//! Orders to jobs and locks between `MULTI` and `EXEC`.
//!
//! ```text
//!   turns --> open transaction: commands and orders, one after the other --> commit, with what was watched
//!     ^                                                                        |
//!     '------------------ something that was read has changed: again ---------'  4 times; then the same while the
//!                                                                                writer waits: nothing can change
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

/// How often it is tried while others change what it reads, before they have to wait.
const TRIES: usize = 4;

/// One of the commands.
pub enum Turn {
    /// Its reply is known.
    Known(Reply),
    /// The revision that the transaction gets.
    Revision,
    /// Commands on data.
    Plan(Plan),
    /// Something with jobs or locks.
    Order(Order),
}

/// What a turn came to before the commit.
enum Share {
    Known(Reply),
    Revision,
    /// The answers, each with the place of its step in the transaction, if it is one: the receipt has the final
    /// one.
    Answers(Plan, Result<Vec<(Answer, Option<usize>)>>),
    Outcome(Result<Outcome>),
}

/// All commands as one transaction, off the event loop.
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
    /// Tries optimistically first, which holds nobody up. After too many conflicts it runs while all other writers wait, so
    /// that it cannot conflict.
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
        // Of one that only reads, nothing is left but what was watched.
        transaction.branch = self.branch.clone();
        transaction.guards.extend(self.watched.iter().cloned());
        let receipt =
            self.shared.db.execute(transaction).map_err(InteractiveTransaction::refusal)?;
        Ok(replies(shares, &receipt))
    }

    fn run_alone(&self) -> Result<Reply> {
        // Opening them writes, which cannot be done while the writer waits.
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
        let (mut shares, mut bytes) = (Vec::with_capacity(self.turns.len()), 0);
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

    /// A command that fails does not stop the others: Redis's rule.
    fn take(&self, turn: &Turn, open: &mut InteractiveTransaction) -> Share {
        match turn {
            Turn::Known(reply) => Share::Known(reply.clone()),
            Turn::Revision => Share::Revision,
            Turn::Plan(plan) => Share::Answers(plan.clone(), answers(plan, open)),
            Turn::Order(order) => Share::Outcome(self.shared.jobs.run_in(open, order.clone())),
        }
    }

    /// Whether what was watched is as it was.
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

/// Runs commands on data inside the transaction. The commit answers all of them once more, reads too, so that the replies
/// are final.
fn answers(plan: &Plan, open: &mut InteractiveTransaction) -> Result<Vec<(Answer, Option<usize>)>> {
    let one = |command: &Command| {
        let place = open.step_count();
        let answer = open.run_as_step(command.clone())?;
        Ok((answer, place.filter(|_| open.step_count() > place)))
    };
    plan.commands.iter().map(one).collect()
}

impl Share {
    /// The reply, now that the transaction is committed.
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

    /// What is held for it until the commit, about.
    fn weight_bytes(&self) -> usize {
        match self {
            Share::Known(reply) => reply.weight_bytes(),
            Share::Answers(_, Ok(answers)) => answers.iter().map(|(it, _)| it.weight_bytes()).sum(),
            Share::Outcome(Ok(outcome)) => outcome.weight_bytes(),
            _ => 0,
        }
    }
}
