//! `MULTI`/`EXEC` with commands on jobs and locks, run with optimistic concurrency control.
//!
//! ```text
//!   queue --> open transaction: commands on data and jobs, in order --> commit, with the watched keys as guards
//!     ^                                                                  |
//!     '------------- a key that was read has changed: retry -------------'  4 times; then once more while the
//!                                                                           writer waits: no conflict is possible
//! ```

use super::Shared;
use super::audit::audit_result;
use super::commands::jobs::outcome_reply;
use super::connection_state::{CommandOutcome, ConnectionState};
use super::multi::replies_too_large;
use super::plan::{Answers, Plan};
use super::reply::Reply;
use crate::jobs::{Order, Outcome};
use crate::security::{self, Entry, audited_commands};
use mainstay::limits::ANSWERS_LIMIT_BYTES;
use mainstay::{
    Answer, Command, CompactString, Durability, ErrorKind, Guard, InteractiveTransaction, Receipt,
    Result, Transaction,
};
use std::sync::Arc;

/// Number of optimistic attempts before all other writers have to wait.
const OPTIMISTIC_ATTEMPTS: usize = 4;

/// A queued command.
pub enum QueuedCommand {
    /// A command whose reply is already known.
    Known(Reply),
    /// The revision of the transaction.
    Revision,
    /// A command on data.
    Plan(Plan),
    /// A command on jobs or locks.
    JobRequest(Order),
}

/// The result of a queued command before the commit.
enum CommandResult {
    Known(Reply),
    Revision,
    /// The answers. Each has the index of its step in the transaction if it is one, because the receipt
    /// holds its final answer.
    Answers(Plan, Result<Vec<(Answer, Option<usize>)>>),
    JobOutcome(Result<Outcome>),
}

/// Executes all commands as one transaction, off the event loop.
pub fn execute_with_jobs(
    state: &ConnectionState,
    commands: Vec<QueuedCommand>,
    watched: Vec<Guard>,
) -> CommandOutcome {
    let transaction = MultiTransaction {
        shared: state.shared.clone(),
        branch: state.branch.clone(),
        durability: state.durability,
        commands,
        watch_guards: watched,
    };
    let security = state.shared.security.clone();
    let entries = |command: &QueuedCommand| match (command, state.user.as_deref()) {
        (QueuedCommand::Plan(plan), Some(user)) => {
            audited_commands(security.audit(), user, &state.peer, plan.commands.iter())
        }
        _ => Vec::new(),
    };
    let entries: Vec<Vec<Entry>> = transaction.commands.iter().map(entries).collect();
    CommandOutcome::LongWork(Box::new(move || {
        let result = transaction.run();
        let replies =
            if let Ok(Reply::Array(replies)) = &result { replies.as_slice() } else { &[] };
        for (position, entry) in
            (0..).zip(&entries).flat_map(|(p, all)| all.iter().map(move |e| (p, e)))
        {
            let outcome = replies.get(position).map_or(security::Outcome::Failed, audit_result);
            security.audit().record(entry, outcome);
        }
        result.unwrap_or_else(Reply::from)
    }))
}

struct MultiTransaction {
    shared: Arc<Shared>,
    branch: CompactString,
    durability: Option<Durability>,
    commands: Vec<QueuedCommand>,
    watch_guards: Vec<Guard>,
}

impl MultiTransaction {
    /// Tries optimistically first, which blocks no other writer. After too many conflicts it runs while all
    /// other writers wait, so that it cannot conflict.
    fn run(&self) -> Result<Reply> {
        for _ in 0..OPTIMISTIC_ATTEMPTS {
            match self.try_once() {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                result => return result,
            }
            if !self.is_unchanged()? {
                return Ok(Reply::NilArray);
            }
        }
        self.run_exclusively()
    }

    fn try_once(&self) -> Result<Reply> {
        let mut open = self.shared.db.branch(&self.branch)?.begin()?;
        let results = self.run_all(&mut open)?;
        let mut transaction = open.into_transaction()?;
        // A transaction that only reads keeps no branch, but the guards of the watched keys need it.
        transaction.branch = self.branch.clone();
        transaction.guards.extend(self.watch_guards.iter().cloned());
        let receipt =
            self.shared.db.execute(transaction).map_err(InteractiveTransaction::refusal)?;
        Ok(replies(results, &receipt))
    }

    fn run_exclusively(&self) -> Result<Reply> {
        // Opening the jobs writes, which is impossible while the writer waits.
        self.shared.jobs.ready()?;
        let branch = self.shared.db.branch(&self.branch)?;
        let watched = self.watch_guards.clone();
        let (results, receipt) = branch.transaction_alone(watched, |open| self.run_all(open))?;
        if !receipt.held {
            return Ok(Reply::NilArray);
        }
        Ok(replies(results, &receipt))
    }

    /// Runs all commands in a transaction.
    fn run_all(&self, open: &mut InteractiveTransaction) -> Result<Vec<CommandResult>> {
        if let Some(durability) = self.durability {
            open.durability(durability);
        }
        let mut results = Vec::with_capacity(self.commands.len());
        let mut bytes = 0;
        for command in &self.commands {
            let result = self.run_command(command, open);
            bytes += result.weight_bytes();
            if bytes > ANSWERS_LIMIT_BYTES {
                return Err(replies_too_large());
            }
            results.push(result);
        }
        Ok(results)
    }

    /// A command that fails does not stop the others, as in Redis.
    fn run_command(
        &self,
        command: &QueuedCommand,
        open: &mut InteractiveTransaction,
    ) -> CommandResult {
        match command {
            QueuedCommand::Known(reply) => CommandResult::Known(reply.clone()),
            QueuedCommand::Revision => CommandResult::Revision,
            QueuedCommand::Plan(plan) => CommandResult::Answers(plan.clone(), answers(plan, open)),
            QueuedCommand::JobRequest(request) => {
                CommandResult::JobOutcome(self.shared.jobs.run_in(open, request.clone()))
            }
        }
    }

    /// Returns whether the watched keys are unchanged.
    fn is_unchanged(&self) -> Result<bool> {
        if self.watch_guards.is_empty() {
            return Ok(true);
        }
        let mut check = Transaction::on(&self.branch).durability(Durability::Memory);
        check.guards.clone_from(&self.watch_guards);
        check.otherwise = Some(Vec::new());
        Ok(self.shared.db.execute(check)?.held)
    }
}

fn replies(results: Vec<CommandResult>, receipt: &Receipt) -> Reply {
    Reply::Array(results.into_iter().map(|result| result.reply(receipt)).collect())
}

/// Runs commands on data in the transaction. The commit answers all of them again, reads too, so that the
/// replies are final.
fn answers(plan: &Plan, open: &mut InteractiveTransaction) -> Result<Vec<(Answer, Option<usize>)>> {
    let one = |command: &Command| {
        let index = open.step_count();
        let answer = open.run_as_step(command.clone())?;
        Ok((answer, index.filter(|_| open.step_count() > index)))
    };
    plan.commands.iter().map(one).collect()
}

impl CommandResult {
    /// Makes the reply after the commit.
    fn reply(self, receipt: &Receipt) -> Reply {
        match self {
            CommandResult::Known(reply) => reply,
            CommandResult::Revision => Reply::number(receipt.revision),
            CommandResult::Answers(plan, Err(error)) => plan.format.make(Err(error)),
            CommandResult::Answers(plan, Ok(answers)) => {
                let last = |index: usize| receipt.answers.get(index).cloned();
                let final_answer = |(answer, index): (Answer, Option<usize>)| {
                    index.and_then(last).unwrap_or(answer)
                };
                let answers: Answers = answers.into_iter().map(final_answer).collect();
                let failed = answers.iter().find_map(|answer| match answer {
                    Answer::Failed(error) => Some(error.clone()),
                    _ => None,
                });
                plan.format.make(failed.map_or(Ok((answers, receipt.stamp)), Err))
            }
            CommandResult::JobOutcome(outcome) => {
                outcome_reply(outcome.map(|outcome| outcome.at(receipt.revision)))
            }
        }
    }

    /// Returns the approximate memory of the result until the commit.
    fn weight_bytes(&self) -> usize {
        match self {
            CommandResult::Known(reply) => reply.weight_bytes(),
            CommandResult::Answers(_, Ok(answers)) => {
                answers.iter().map(|(it, _)| it.weight_bytes()).sum()
            }
            CommandResult::JobOutcome(Ok(outcome)) => outcome.weight_bytes(),
            _ => 0,
        }
    }
}
