//! `MULTI`/`EXEC`: queues commands and executes them as one transaction.

use super::Shared;
use super::commands::feed::waiting_not_allowed;
use super::connection_state::{
    CommandContext, CommandOutcome, ConnectionState, PendingReply, no_permission,
};
use super::glob::PATTERN_LIMIT_BYTES;
use super::multi_jobs::{self, QueuedCommand};
use super::plan::{Plan, ReplyBuilder, too_many_commands, unexpected_answer};
use super::reply::{Protocol, Reply};
use super::session_request;
use super::table::{Handler, PlanContext, Spec};
use crate::jobs::Order;
use crate::security::{Denied, TransactionAudit, User};
use mainstay::limits::{
    ANSWERS_LIMIT_BYTES, LONG_COMMANDS, TRANSACTION_LIMIT_BYTES, TRANSACTION_LIMIT_COMMANDS,
};
use mainstay::{Code, Command, Error, Guard, Receipt, Transaction};

const QUEUED: Reply = Reply::Status("QUEUED");

/// The command queue between `MULTI` and `EXEC`.
#[derive(Default)]
pub struct Multi {
    queued: CommandQueue,
    /// Bytes of the words that were kept.
    bytes: usize,
    /// Number of commands that the words became.
    commands: usize,
    /// Memory of those commands, in addition to the queue itself.
    plan_bytes: usize,
    /// Bytes of the patterns used to make the replies.
    pattern_bytes: usize,
    /// True if a command concerns jobs or locks.
    has_job_requests: bool,
    /// True if only the writer thread can answer a command.
    needs_writer: bool,
    /// True if a command lists past state, which is read when the transaction is assembled.
    reads_history: bool,
    /// True if a command was rejected: nothing will be executed.
    aborted: bool,
    /// The reason why the queue was dropped, if it was.
    drop_reason: Option<String>,
}

/// The commands in blocks: a single vector of 100,000 would be moved whole when it grows, tens of megabytes on the event loop.
#[derive(Default)]
struct CommandQueue {
    /// All but the last are full.
    blocks: Vec<Vec<MultiEntry>>,
}

/// The commands of one block. The first grows to this size as a vector does, because most transactions are short.
const BLOCK_COMMANDS: usize = 256;

impl CommandQueue {
    fn push(&mut self, queued: MultiEntry) {
        match self.blocks.last_mut() {
            None => self.blocks.push(vec![queued]),
            Some(last) if last.len() < BLOCK_COMMANDS => last.push(queued),
            Some(_) => {
                let mut block = Vec::with_capacity(BLOCK_COMMANDS);
                block.push(queued);
                self.blocks.push(block);
            }
        }
    }

    fn len(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK_COMMANDS + last.len())
    }

    /// The memory of the blocks.
    fn bytes(&self) -> usize {
        let commands = self.blocks.iter().map(Vec::capacity).sum::<usize>();
        commands * size_of::<MultiEntry>() + self.blocks.capacity() * size_of::<Vec<MultiEntry>>()
    }

    fn iter(&self) -> impl Iterator<Item = &MultiEntry> {
        self.blocks.iter().flatten()
    }
}

impl IntoIterator for CommandQueue {
    type Item = MultiEntry;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<MultiEntry>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.blocks.into_iter().flatten()
    }
}

/// A queued command.
enum MultiEntry {
    Plan(Plan),
    /// A command on jobs or locks.
    JobRequest(Order),
    /// The revision of the transaction.
    Revision,
    /// A command with invalid arguments. The error is its reply, and the other commands are executed.
    Invalid(Reply),
    /// A command about the session alone, executed when its turn comes.
    Immediate(&'static Spec, fn(&mut CommandContext<'_>) -> Reply, Vec<Vec<u8>>),
}

impl MultiEntry {
    /// Checks that the reply depends only on the answers of the transaction, so that a repeat gets the same
    /// reply.
    fn check_repeatable(&self) -> Result<(), Reply> {
        match self {
            MultiEntry::Invalid(_) => Ok(()),
            MultiEntry::Plan(plan) if plan.once_only => Err(session_request::not_repeatable(
                "SESSION.EXEC",
                "what gives another cursor each time",
            )),
            MultiEntry::Plan(plan) if plan.at.is_none() => Ok(()),
            MultiEntry::Plan(_) => Err(session_request::no_past_reads("SESSION.EXEC")),
            MultiEntry::JobRequest(_) => {
                Err(session_request::not_repeatable("SESSION.EXEC", "an order to jobs and locks"))
            }
            MultiEntry::Revision => {
                Err(session_request::not_repeatable("SESSION.EXEC", "REVISION"))
            }
            MultiEntry::Immediate(spec, ..) => {
                Err(session_request::not_repeatable("SESSION.EXEC", &spec.name.to_uppercase()))
            }
        }
    }
}

impl Multi {
    /// Queues a command if the user may execute it.
    pub fn push(
        &mut self,
        user: &User,
        shared: &Shared,
        spec: &'static Spec,
        words: &[&[u8]],
    ) -> Reply {
        self.try_push(user, shared, spec, words).unwrap_or_else(|denied| {
            self.aborted = true;
            no_permission(spec, &denied)
        })
    }

    fn try_push(
        &mut self,
        user: &User,
        shared: &Shared,
        spec: &'static Spec,
        words: &[&[u8]],
    ) -> Result<Reply, Denied> {
        spec.authorize(user, words)?;
        self.bytes += words.iter().map(|word| word.len()).sum::<usize>();
        if self.queued.len() >= TRANSACTION_LIMIT_COMMANDS || self.bytes > TRANSACTION_LIMIT_BYTES {
            self.aborted = true;
            let message = "TOOLARGE a transaction has at most 100,000 commands and 64 MiB";
            return Ok(Reply::error(message));
        }
        if self.drop_reason.is_some() {
            // Nothing will be executed, so nothing is kept.
            self.bytes = 0;
            return Ok(QUEUED);
        }
        let owned = || words.iter().map(|word| word.to_vec()).collect();
        if !spec.can_be_in_transaction() {
            self.aborted = true;
            return Ok(not_allowed_in_multi(spec));
        }
        if let Some(plan) = spec.handler.plan(&PlanContext { shared, user: user.name() }, words) {
            if matches!(&plan, Err(reply) if *reply == waiting_not_allowed()) {
                self.aborted = true;
                return Ok(waiting_not_allowed());
            }
            let queued = match plan {
                Ok(mut plan) => {
                    spec.authorize_plan(user, &mut plan)?;
                    MultiEntry::Plan(plan)
                }
                Err(reply) => MultiEntry::Invalid(reply),
            };
            return Ok(self.enqueue(spec, queued));
        }
        let queued = match spec.handler {
            Handler::JobRequest(read) => match read(words) {
                Ok(request) if request.waits() => {
                    self.aborted = true;
                    return Ok(waiting_not_allowed());
                }
                Ok(request) => {
                    request.allow(user, shared.jobs.keys())?;
                    MultiEntry::JobRequest(request)
                }
                Err(reply) => MultiEntry::Invalid(reply),
            },
            Handler::Revision => MultiEntry::Revision,
            Handler::Immediate(run) | Handler::Sequenced(run) if !spec.is_barred_from_multi() => {
                MultiEntry::Immediate(spec, run, owned())
            }
            _ => {
                self.aborted = true;
                return Ok(not_allowed_in_multi(spec));
            }
        };
        Ok(self.enqueue(spec, queued))
    }

    /// Queues a command unless all commands together are too many. One request may name a million keys.
    fn enqueue(&mut self, spec: &Spec, queued: MultiEntry) -> Reply {
        if !self.is_compatible(&queued) {
            self.aborted = true;
            return incompatible_with_jobs(spec);
        }
        match &queued {
            MultiEntry::Plan(plan) => {
                self.reads_history |= plan.at.is_some() && plan.is_long();
                self.commands += plan.commands.len();
                self.plan_bytes += plan.weight_bytes();
                self.pattern_bytes += plan.pattern_bytes;
            }
            // `CONFIG GET` has only patterns as arguments.
            MultiEntry::Immediate(.., words) => {
                self.pattern_bytes += words.iter().map(Vec::len).sum::<usize>();
            }
            _ => {}
        }
        if self.commands > TRANSACTION_LIMIT_COMMANDS {
            self.discard_queue(String::new());
            return too_many_commands();
        }
        self.queued.push(queued);
        QUEUED
    }

    /// Checks that job commands do not stand beside commands that only the writer thread can answer. Job
    /// commands run in an open transaction, where the latter cannot run.
    fn is_compatible(&mut self, queued: &MultiEntry) -> bool {
        match queued {
            MultiEntry::JobRequest(_) => self.has_job_requests = true,
            MultiEntry::Plan(plan) => {
                self.needs_writer |= plan.commands.iter().any(Command::is_of_writer_alone);
            }
            _ => {}
        }
        !(self.has_job_requests && self.needs_writer)
    }

    /// Returns the approximate memory of the queue.
    pub fn bytes(&self) -> usize {
        self.bytes + self.plan_bytes + self.queued.bytes()
    }

    /// Returns whether it is expensive to assemble or to answer, or reads much of the past before it
    /// starts.
    pub fn is_long(&self) -> bool {
        self.commands > LONG_COMMANDS
            || self.queued.len() > LONG_COMMANDS
            || self.pattern_bytes > PATTERN_LIMIT_BYTES
            || self.reads_history
    }

    /// Drops the queue. Nothing will be executed, and `EXEC` reports the reason.
    pub fn discard_queue(&mut self, why: String) {
        *self = Multi { aborted: true, drop_reason: Some(why), ..Multi::default() };
    }

    /// Marks the transaction as aborted.
    pub fn abort(&mut self) {
        self.aborted = true;
    }
}

/// The error for a command that `EXEC` cannot execute.
fn not_allowed_in_multi(spec: &Spec) -> Reply {
    let name = spec.name.to_uppercase();
    Reply::error(format!("ERR {name} is not for inside MULTI"))
}

/// The error for a job command beside a command of the writer thread, or the reverse.
fn incompatible_with_jobs(spec: &Spec) -> Reply {
    let name = spec.name.to_uppercase();
    Reply::error(format!(
        "ERR {name}: jobs and locks do not stand in one MULTI with OUTBOX.CLAIM, STATE and DEAD and SESSION.PENDING, INFO \
         and LIST"
    ))
}

/// The pending replies of an `EXEC`.
pub struct PendingExec(Vec<ExecReply>);

enum ExecReply {
    Builder(ReplyBuilder),
    Revision,
    Reply(Reply),
}

impl PendingExec {
    /// Makes the replies of all commands, or null if a watched key has changed.
    pub fn reply(self, receipt: mainstay::Result<Receipt>) -> Reply {
        let receipt = match receipt {
            Ok(receipt) if !receipt.held => return Reply::NilArray,
            Ok(receipt) => receipt,
            Err(error) => return error.into(),
        };
        let Receipt { revision, stamp, answers, .. } = receipt;
        let mut answers = answers.into_iter();
        let reply = |exec_reply| match exec_reply {
            ExecReply::Revision => Reply::number(revision),
            ExecReply::Builder(builder) => builder.build_from(&mut answers, stamp),
            ExecReply::Reply(reply) => reply,
        };
        Reply::Array(self.0.into_iter().map(reply).collect())
    }
}

/// Executes the queued commands as one transaction.
pub fn exec(context: &mut CommandContext<'_>) -> CommandOutcome {
    let outcome = try_exec(context.state);
    context.state.exec_time_us = None;
    outcome
}

fn try_exec(state: &mut ConnectionState) -> CommandOutcome {
    let (queued, watched) = match end_multi(state, "EXEC") {
        Ok(ended) => ended,
        Err(reply) => return CommandOutcome::Reply(reply),
    };
    if queued.iter().any(|queued| matches!(queued, MultiEntry::JobRequest(_))) {
        return assemble_with_jobs(state, queued, watched);
    }
    match assemble(state, queued, watched) {
        Ok((transaction, replies)) => {
            schedule(state, transaction, PendingReply::Exec(PendingExec(replies)))
        }
        Err(reply) => CommandOutcome::Reply(reply),
    }
}

/// Puts a transaction into the next batch. A long or audited one runs off the event loop.
pub fn schedule(
    state: &ConnectionState,
    transaction: Transaction,
    pending_reply: PendingReply,
) -> CommandOutcome {
    let audit = state.shared.security.audit();
    let user = state.user.as_deref();
    let entries = user.map(|user| TransactionAudit::new(audit, user, &state.peer, &transaction));
    let entries = entries.unwrap_or_default();
    if !state.needs_worker(&transaction) && entries.is_empty() {
        return CommandOutcome::Transaction(Box::new(transaction), pending_reply);
    }
    let security = state.shared.security.clone();
    let execute = state.blocking_execution(transaction);
    CommandOutcome::LongWork(Box::new(move || {
        let receipt = execute();
        entries.record(security.audit(), receipt.as_ref().ok());
        pending_reply.reply(receipt)
    }))
}

/// Executes the queued commands as one transaction, exactly once however often it is sent.
pub fn session_exec(context: &mut CommandContext<'_>) -> CommandOutcome {
    let outcome = try_session_exec(context).unwrap_or_else(CommandOutcome::Reply);
    context.state.exec_time_us = None;
    outcome
}

fn try_session_exec(context: &mut CommandContext<'_>) -> Result<CommandOutcome, Reply> {
    let state = &mut *context.state;
    let (queued, watched) = end_multi(state, "SESSION.EXEC")?;
    let request = session_request::request_of(context.words)?;
    queued.iter().try_for_each(MultiEntry::check_repeatable)?;
    let (transaction, replies) = assemble(state, queued, watched)?;
    let repeatable = |reply| match reply {
        ExecReply::Builder(builder) => ExecReply::Builder(builder.repeatable()),
        reply => reply,
    };
    let exec = PendingExec(replies.into_iter().map(repeatable).collect());
    let (transaction, pending_reply) =
        session_request::into_session_request(transaction, request, PendingReply::Exec(exec));
    Ok(schedule(state, transaction, pending_reply))
}

/// Ends `MULTI`. Returns the queued commands and the watched keys, if every command was accepted.
fn end_multi(state: &mut ConnectionState, name: &str) -> Result<(CommandQueue, Vec<Guard>), Reply> {
    let Some(multi) = state.multi.take() else {
        return Err(Reply::error(format!("ERR {name} without MULTI")));
    };
    let watched = std::mem::take(&mut state.watch_guards);
    match multi.drop_reason.filter(|why| !why.is_empty()) {
        Some(why) => Err(Reply::error(format!("EXECABORT Transaction discarded: {why}"))),
        None if multi.aborted => {
            Err(Reply::error("EXECABORT Transaction discarded because of previous errors."))
        }
        None => {
            state.exec_time_us = Some(state.shared.now());
            Ok((multi.queued, watched))
        }
    }
}

/// Assembles the commands as one transaction. Returns it with the pending reply of each command.
fn assemble(
    state: &mut ConnectionState,
    queued: CommandQueue,
    watched: Vec<Guard>,
) -> Result<(Transaction, Vec<ExecReply>), Reply> {
    let mut transaction = state.transaction();
    // If a watched key has changed, nothing is executed, and that is not an error.
    transaction.otherwise = (!watched.is_empty()).then(Vec::new);
    transaction.guards = watched;
    let mut replies = Vec::with_capacity(queued.len());
    let mut reply_bytes = 0;
    for queued in queued {
        let exec_reply = match queued {
            MultiEntry::Invalid(reply) => ExecReply::Reply(reply),
            MultiEntry::Revision => ExecReply::Revision,
            MultiEntry::Immediate(spec, run, words) => {
                ExecReply::Reply(run_session(state, spec, run, &words))
            }
            MultiEntry::Plan(plan) if plan.at.is_some() => ExecReply::Reply(state.read(&plan)),
            // These are handled by `assemble_with_jobs`.
            MultiEntry::JobRequest(_) => ExecReply::Reply(unexpected_answer()),
            MultiEntry::Plan(plan) => {
                let builder;
                (transaction, builder) = plan.append_to(transaction);
                ExecReply::Builder(builder)
            }
        };
        reply_bytes +=
            if let ExecReply::Reply(reply) = &exec_reply { reply.weight_bytes() } else { 0 };
        if reply_bytes > ANSWERS_LIMIT_BYTES {
            return Err(replies_too_large().into());
        }
        replies.push(exec_reply);
    }
    Ok((transaction, replies))
}

/// Runs the queue in an interactive transaction, because job commands read before they write. It is retried
/// until no key it read has changed, so it is long work.
fn assemble_with_jobs(
    state: &mut ConnectionState,
    queued: CommandQueue,
    watched: Vec<Guard>,
) -> CommandOutcome {
    let command = |queued| match queued {
        MultiEntry::Invalid(reply) => QueuedCommand::Known(reply),
        MultiEntry::Revision => QueuedCommand::Revision,
        MultiEntry::Immediate(spec, run, words) => {
            QueuedCommand::Known(run_session(state, spec, run, &words))
        }
        MultiEntry::Plan(plan) if plan.at.is_some() => QueuedCommand::Known(state.read(&plan)),
        MultiEntry::Plan(plan) => QueuedCommand::Plan(plan),
        MultiEntry::JobRequest(request) => QueuedCommand::JobRequest(request),
    };
    let commands = queued.into_iter().map(command).collect();
    multi_jobs::execute_with_jobs(state, commands, watched)
}

/// The error for replies that are too large. Nothing was executed, because the transaction had not started.
pub fn replies_too_large() -> Error {
    let limit = ANSWERS_LIMIT_BYTES >> 20;
    let message = format!("the replies take more than {limit} MiB: ask for fewer at once");
    Error::new(Code::TransactionTooLarge, message)
}

fn run_session(
    state: &mut ConnectionState,
    spec: &'static Spec,
    run: fn(&mut CommandContext<'_>) -> Reply,
    words: &[Vec<u8>],
) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let reply = run(&mut CommandContext { state, words: &words });
    state.audit(spec, &words, &reply);
    reply
}

/// Starts to queue commands.
pub fn multi(context: &mut CommandContext<'_>) -> CommandOutcome {
    let state = &mut *context.state;
    CommandOutcome::Reply(if state.multi.is_some() {
        Reply::error("ERR MULTI calls can not be nested")
    } else if state.open_transaction.is_some() {
        Reply::error("ERR a transaction is open: TXN.COMMIT or TXN.ROLLBACK first")
    } else {
        state.multi = Some(Multi::default());
        super::reply::OK
    })
}

/// Drops the queue and the watched keys.
pub fn discard(context: &mut CommandContext<'_>) -> CommandOutcome {
    if context.state.multi.take().is_none() {
        return CommandOutcome::Reply(Reply::error("ERR DISCARD without MULTI"));
    }
    context.state.watch_guards.clear();
    CommandOutcome::Reply(super::reply::OK)
}

/// Resets a session to its initial state.
pub fn reset(state: &mut ConnectionState) {
    state.multi = None;
    state.open_transaction = None;
    state.past_view = None;
    state.watch_guards.clear();
    state.protocol = Protocol::Two;
    state.branch = mainstay::CompactString::const_new(mainstay::MAIN);
    state.cells = state.shared.db.cells();
    state.durability = None;
    state.name.clear();
    state.set_user(state.shared.security.stranger());
}
