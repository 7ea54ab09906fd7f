//! The binary commands of our own client: `WIRE.*`.
//!
//! ```text
//!   frame in one or more words --> Transaction or a request on reads, feeds, admin --> the database
//!   frame of a Result          <-- Receipt or the matching reply                   <--'
//! ```
//!
//! An error is encoded like any other result, so the client gets the same error as an embedded caller. New
//! kinds of state need no change here, because their commands are part of the encoded values.

use crate::resp::Shared;
use crate::resp::blocking_reads::{
    BlockingRead, FeedFormat, FeedPage, FeedRead, ReadEnd, RevisionWait, TailRead,
};
use crate::resp::connection_state::{
    BatchLoad, CommandContext, CommandOutcome, ConnectionState, PendingReply, no_permission,
    not_authenticated,
};
use crate::resp::multi;
use crate::resp::permissions::Requirement;
use crate::resp::reply::Reply;
use crate::resp::table::{self, Group, Handler, Spec};
use crate::security::{Entry, Outcome, TransactionAudit, Wanted, audited_admin_request};
use mainstay::wire::{
    self, AdminRequest, FOLLOW_LIMIT, FeedReply, FeedRequest, ReadOp, ReadReply, ReadRequest,
    TransactionReply, TransactionRequest,
};
use mainstay::{
    Answer, At, CanonicalEvent, Cells, Code, Command, Database, Durability, Error,
    InteractiveTransaction, Name, OutboxAnswer, OutboxCommand, Receipt, RecordCommand, Result,
    RunAnswer, StateCommand, Transaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Executes a read, on the present or on a past view. It is a macro because both have the same methods but
/// no common trait. Each store is accessed only by the reads that need it.
macro_rules! read_from {
    ($cells:expr, $records:expr, $runs:expr, $outbox:expr, $keyed:expr, $read:expr) => {
        match $read {
            ReadOp::Get { name } => $cells.get_versioned(name.as_str()).map(ReadReply::Cell),
            ReadOp::List { prefix, after, limit } => {
                $cells.list(&prefix, after.as_deref(), limit).map(ReadReply::Names)
            }
            ReadOp::History { name, limit, before } => {
                $cells.history(name.as_str(), limit, before).map(ReadReply::History)
            }
            ReadOp::Records(RecordCommand::Get { key, fields }) => {
                $records.get_some(&key, fields.as_deref()).map(ReadReply::Record)
            }
            ReadOp::Records(RecordCommand::Scan { prefix, filters, after, limit }) => {
                $records.scan(&prefix, &filters, after.as_deref(), limit).map(ReadReply::Records)
            }
            ReadOp::Records(RecordCommand::Count { prefix, filters }) => {
                $records.count(&prefix, &filters).map(ReadReply::Count)
            }
            ReadOp::Records(_) => Err(no_read()),
            ReadOp::RecordHistory { key, limit, before } => {
                $records.history(key.as_str(), limit, before).map(ReadReply::RecordHistory)
            }
            ReadOp::Runs(command) => $runs.read(command).map(|it| ReadReply::Runs(Box::new(it))),
            ReadOp::Outbox(command) => $outbox(command).map(|it| ReadReply::Outbox(Box::new(it))),
            ReadOp::State(command) => $keyed(command).and_then(of_states),
        }
    };
}

/// Converts an answer about keyed state. The names of spaces use the reply type for names.
fn of_states(result: Answer) -> Result<ReadReply> {
    match result {
        Answer::State(result) => Ok(ReadReply::State(result)),
        Answer::Names(page) => Ok(ReadReply::Names(page)),
        _ => Err(Error::new(Code::Unsupported, "keyed state gave an answer of another kind")),
    }
}

/// Rejects reads of the outbox in the past, because sent messages are deleted.
fn no_past_outbox(_: OutboxCommand) -> Result<OutboxAnswer> {
    Err(Error::new(Code::Unsupported, "the outbox has no past: look at it as it is"))
}

/// The error for a write command in a read request.
fn no_read() -> Error {
    let message = "this command on records writes: execute it in a transaction";
    Error::new(Code::InvalidArgument, message)
}

/// The longest reply. A longer one is replaced by an error.
const ANSWER_LIMIT_BYTES: usize = 192 << 20;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("wire.execute", execute)
        .at_workers()
        .writes()
        .summarize("Executes a transaction, given as bytes"),
    of("wire.read", read).summarize("Reads a branch at a point in time, as bytes"),
    of("wire.run", run)
        .without_data()
        .at_workers()
        .writes()
        .summarize("Acts in the open transaction or view, as bytes"),
    of("wire.feed", feed).summarize("Changes after a revision, as bytes"),
    of("wire.ask", ask).writes().summarize("Answers a question about the database, as bytes"),
];

const fn of(
    name: &'static str,
    run: fn(&mut CommandContext<'_>, BatchLoad) -> CommandOutcome,
) -> Spec {
    let spec = Spec::new(name, -2, Group::Wire, Handler::Pipelined(run));
    // The contents of the frame are checked by `permit`.
    spec.requires(Requirement::AnyPermission).syntax("frame [frame ...]")
}

/// Checks that the user may execute a request. Every `WIRE` command passes through this function.
fn permit(context: &CommandContext<'_>, wanted: &Wanted<'_>) -> std::result::Result<(), Reply> {
    let user = context.state.user.as_ref().ok_or_else(not_authenticated)?;
    user.allow_wanted(wanted).map_err(|denied| {
        let name = context.words.first().copied().unwrap_or_default();
        match table::by_name(name) {
            Some(spec) => no_permission(spec, &denied),
            None => Reply::error(format!("NOPERM {denied}")),
        }
    })
}

/// Decodes the request. Its words are pieces of one frame.
fn decode_request<T: DeserializeOwned>(context: &CommandContext<'_>) -> Result<T> {
    match &context.words[1..] {
        [frame] => wire::decode(frame),
        pieces => wire::decode(&pieces.concat()),
    }
}

/// Encodes a result as a reply.
fn encoded_reply<T: Serialize>(result: &Result<T>) -> Reply {
    match wire::encode(result) {
        Ok(frame) if frame.len() <= ANSWER_LIMIT_BYTES => Reply::Bulk(frame),
        Ok(_) => too_long(Code::TransactionTooLarge, "ask for less at once"),
        Err(error) => error.into(),
    }
}

fn too_long(code: Code, what_to_do: &str) -> Reply {
    let message = format!("the answer is longer than 192 MiB: {what_to_do}");
    encoded_reply::<()>(&Err(Error::new(code, message)))
}

/// Encodes a result as the outcome of a command.
fn encoded_outcome<T: Serialize>(result: Result<T>) -> CommandOutcome {
    CommandOutcome::Reply(encoded_reply(&result))
}

fn error_outcome(error: Error) -> CommandOutcome {
    encoded_outcome::<()>(Err(error))
}

/// The form in which the receipt of a transaction is returned.
pub enum ReceiptFormat {
    /// The receipt itself.
    Executed,
    /// The receipt of an interactive transaction, whose failed guards are reported as a conflict.
    Committed,
}

impl ReceiptFormat {
    /// Makes the reply.
    pub fn reply(self, receipt: Result<Receipt>) -> Reply {
        let revision = receipt.as_ref().map_or(0, |receipt| receipt.revision);
        let reply = match self {
            ReceiptFormat::Executed => encoded_reply(&receipt),
            ReceiptFormat::Committed => encoded_reply(
                &receipt.map(TransactionReply::Committed).map_err(InteractiveTransaction::refusal),
            ),
        };
        match reply {
            // The transaction is committed, so the client must get an unknown outcome rather than a
            // failure.
            Reply::Bulk(frame) if revision > 0 && is_encoded_error(&frame) => {
                let what = format!("it was committed as revision {revision}, so look there");
                too_long(Code::UnknownOutcome, &what)
            }
            reply => reply,
        }
    }
}

/// Returns whether the frame of a `Result` holds an error. Byte 0 is the version, byte 1 the enum variant.
fn is_encoded_error(frame: &[u8]) -> bool {
    frame.get(1) == Some(&1)
}

fn execute(context: &mut CommandContext<'_>, load: BatchLoad) -> CommandOutcome {
    let mut transaction: Transaction = match decode_request(context) {
        Ok(transaction) => transaction,
        Err(error) => return error_outcome(error),
    };
    let shared = context.shared().clone();
    let state = &context.state;
    let entries = state.user.as_deref().map(|user| {
        TransactionAudit::new(shared.security.audit(), user, &state.peer, &transaction)
    });
    let entries = entries.unwrap_or_default();
    if let Err(reply) = permit(context, &Wanted::Execute(&transaction)) {
        entries.record_denied(shared.security.audit());
        return CommandOutcome::Reply(reply);
    }
    if let Some(user) = &context.state.user {
        let Shared { security, db, .. } = &**context.shared();
        let commands = transaction.steps.iter().map(|step| &step.command);
        if let Err(error) = security.admit_sessions(user, db, commands) {
            return error_outcome(Error::new(Code::QueueFull, error.to_string()));
        }
        transaction = user.own_request(transaction);
    }
    transaction.durability = transaction.durability.or(context.state.durability);
    let is_long = context.state.needs_worker(&transaction);
    match (is_long || !entries.is_empty(), load) {
        (_, BatchLoad::Full) => CommandOutcome::Deferred,
        (false, _) => CommandOutcome::Transaction(
            Box::new(transaction),
            PendingReply::Wire(ReceiptFormat::Executed),
        ),
        (true, BatchLoad::Empty) => {
            let execute = context.state.blocking_execution(transaction);
            CommandOutcome::LongWork(Box::new(move || {
                let receipt = execute();
                entries.record(shared.security.audit(), receipt.as_ref().ok());
                ReceiptFormat::Executed.reply(receipt)
            }))
        }
        (true, _) => CommandOutcome::Deferred,
    }
}

fn record_outcome(shared: &Shared, entries: &[Entry], outcome: Outcome) {
    entries.iter().for_each(|entry| shared.security.audit().record(entry, outcome));
}

fn read(context: &mut CommandContext<'_>, load: BatchLoad) -> CommandOutcome {
    if load != BatchLoad::Empty {
        return CommandOutcome::Deferred;
    }
    let request: ReadRequest = match decode_request(context) {
        Ok(request) => request,
        Err(error) => return error_outcome(error),
    };
    if let Err(reply) = permit(context, &Wanted::Look(&request)) {
        return CommandOutcome::Reply(reply);
    }
    let cells = match cells(context.state, &request.branch) {
        Ok(cells) => cells,
        Err(error) => return error_outcome(error),
    };
    let db = context.shared().db.clone();
    if request.read.takes_a_while() {
        CommandOutcome::LongWork(Box::new(move || {
            encoded_reply(&execute_read(&db, &cells, request))
        }))
    } else {
        encoded_outcome(execute_read(&db, &cells, request))
    }
}

fn execute_read(db: &Database, cells: &Cells, request: ReadRequest) -> Result<ReadReply> {
    match request.at {
        At::Latest => {
            let branch = || db.branch(&request.branch);
            let outbox = |command| branch()?.outbox().read(command);
            let keyed = |command| read_keyed(db, &request.branch, command);
            read_from!(cells, branch()?.records(), branch()?.runs(), outbox, keyed, request.read)
        }
        at => {
            let view = cells.at(at)?;
            let keyed = |command| view.read_keyed(command);
            read_from!(view, view.records(), view.runs(), no_past_outbox, keyed, request.read)
        }
    }
}

/// Executes a read on the present keyed state.
fn read_keyed(db: &Database, branch: &str, command: StateCommand) -> Result<Answer> {
    let (answers, _) = db.look(branch, &[command.into()])?;
    answers.into_iter().next().ok_or_else(no_read)
}

fn cells(state: &ConnectionState, branch: &str) -> Result<Cells> {
    if state.branch == branch {
        Ok(state.cells.clone())
    } else {
        state.shared.db.branch(branch).map(|branch| branch.cells())
    }
}

fn run(context: &mut CommandContext<'_>, load: BatchLoad) -> CommandOutcome {
    if load != BatchLoad::Empty {
        return CommandOutcome::Deferred;
    }
    let request: TransactionRequest = match decode_request(context) {
        Ok(request) => request,
        Err(error) => return error_outcome(error),
    };
    if let Err(reply) = permit(context, &Wanted::Act(&request)) {
        return CommandOutcome::Reply(reply);
    }
    let state = &mut *context.state;
    match request {
        TransactionRequest::Begin { branch } => encoded_outcome(begin(state, &branch)),
        TransactionRequest::View { branch, at } => encoded_outcome(open_view(state, &branch, at)),
        TransactionRequest::Run(command) => {
            run_in_open(state, command).unwrap_or_else(error_outcome)
        }
        TransactionRequest::Look(read) => read_past_view(state, read).unwrap_or_else(error_outcome),
        TransactionRequest::Commit { durability } => {
            commit(state, durability).unwrap_or_else(error_outcome)
        }
        TransactionRequest::Take { durability } => {
            encoded_outcome(take_transaction(state, durability))
        }
        TransactionRequest::Leave => {
            state.open_transaction = None;
            state.past_view = None;
            encoded_outcome(Ok(TransactionReply::Left))
        }
    }
}

fn begin(state: &mut ConnectionState, branch: &str) -> Result<TransactionReply> {
    if state.open_transaction.is_some() {
        let message = "a transaction is open on this connection: commit it or leave it first";
        return Err(Error::new(Code::TransactionActive, message));
    }
    let open = state.shared.db.branch(branch)?.begin()?;
    let revision = open.revision();
    state.open_transaction = Some(Box::new(open));
    Ok(TransactionReply::Holds(revision))
}

fn open_view(state: &mut ConnectionState, branch: &str, at: At) -> Result<TransactionReply> {
    let view = cells(state, branch)?.at(at)?;
    let revision = view.revision();
    state.past_view = Some(view);
    Ok(TransactionReply::Holds(revision))
}

fn run_in_open(state: &mut ConnectionState, command: Command) -> Result<CommandOutcome> {
    let walks = command.walks();
    let run = move |open: &mut InteractiveTransaction| {
        encoded_reply(&open.run(command).map(TransactionReply::Answered))
    };
    if walks {
        return state.lend_transaction(run).ok_or_else(no_open_transaction);
    }
    Ok(CommandOutcome::Reply(run(state
        .open_transaction
        .as_mut()
        .ok_or_else(no_open_transaction)?)))
}

fn read_past_view(state: &ConnectionState, read: ReadOp) -> Result<CommandOutcome> {
    let view = state.past_view.clone().ok_or_else(no_open_transaction)?;
    let is_long = read.takes_a_while();
    let read_job = move || {
        let keyed = |command| view.read_keyed(command);
        let reply = read_from!(view, view.records(), view.runs(), no_past_outbox, keyed, read);
        encoded_reply(&reply.map(TransactionReply::Seen))
    };
    Ok(if is_long {
        CommandOutcome::LongWork(Box::new(read_job))
    } else {
        CommandOutcome::Reply(read_job())
    })
}

fn commit(state: &mut ConnectionState, durability: Option<Durability>) -> Result<CommandOutcome> {
    let mut open = state.open_transaction.take().ok_or_else(no_open_transaction)?;
    if let Some(durability) = durability.or(state.durability) {
        open.durability(durability);
    }
    if !open.has_steps() {
        // Nothing is written, so the commit does not have to wait for a batch.
        return Ok(CommandOutcome::Reply(ReceiptFormat::Committed.reply(open.commit())));
    }
    let transaction = open.into_transaction()?;
    Ok(multi::schedule(state, transaction, PendingReply::Wire(ReceiptFormat::Committed)))
}

fn take_transaction(
    state: &mut ConnectionState,
    durability: Option<Durability>,
) -> Result<TransactionReply> {
    let mut open = state.open_transaction.take().ok_or_else(no_open_transaction)?;
    if let Some(durability) = durability {
        open.durability(durability);
    }
    open.into_transaction().map(|transaction| TransactionReply::Taken(Box::new(transaction)))
}

fn no_open_transaction() -> Error {
    Error::new(Code::NoTransaction, "nothing is open on this connection: begin first")
}

fn feed(context: &mut CommandContext<'_>, load: BatchLoad) -> CommandOutcome {
    if load != BatchLoad::Empty {
        return CommandOutcome::Deferred;
    }
    let request: FeedRequest = match decode_request(context) {
        Ok(request) => request,
        Err(error) => return error_outcome(error),
    };
    if let Err(reply) = permit(context, &Wanted::Follow(&request)) {
        return CommandOutcome::Reply(reply);
    }
    poll_feed(context, request).unwrap_or_else(error_outcome)
}

fn poll_feed(context: &mut CommandContext<'_>, request: FeedRequest) -> Result<CommandOutcome> {
    let shared = context.shared();
    let slot = match shared.reserve_feed_slot(context.state.user.as_ref()) {
        Ok(slot) => slot,
        Err(reply) => return Ok(CommandOutcome::Reply(reply)),
    };
    let feed = shared.db.watch(request.filter, request.after)?;
    let until = ReadEnd::FirstResult { deadline_us: deadline_us(context, request.wait_ms) };
    let limit = request.limit.clamp(1, FOLLOW_LIMIT);
    let read = FeedRead::new(feed, limit, until, FEED_FORMAT, slot);
    let read = read.for_user(context.state.user.clone()).charged_to(&context.state.account);
    Ok(poll_or_wait(context, BlockingRead::Changes(Box::new(read))))
}

/// The reply includes the position, so that a client whose wait timed out can continue from there.
const FEED_FORMAT: FeedFormat = FeedFormat { format: feed_reply, values: true, position: true };

fn feed_reply(read: Result<FeedPage>) -> Reply {
    encoded_reply(&read.map(|FeedPage { events, position, more }| FeedReply {
        events,
        position,
        more,
    }))
}

fn deadline_us(context: &CommandContext<'_>, wait_ms: u64) -> u64 {
    context.shared().deadline_us(wait_ms)
}

/// Returns the reply if it is ready, otherwise a blocking read.
fn poll_or_wait(context: &CommandContext<'_>, mut read: BlockingRead) -> CommandOutcome {
    match read.poll_briefly(context.shared().ticks_us()) {
        Some(reply) => CommandOutcome::Reply(reply),
        None => CommandOutcome::BlockingRead(read),
    }
}

fn ask(context: &mut CommandContext<'_>, load: BatchLoad) -> CommandOutcome {
    if load != BatchLoad::Empty {
        return CommandOutcome::Deferred;
    }
    let question: AdminRequest = match decode_request(context) {
        Ok(question) => question,
        Err(error) => return error_outcome(error),
    };
    let entry = audit_entry(context.state, &question);
    if let Err(reply) = permit(context, &Wanted::Ask(&question)) {
        record_outcome(context.shared(), entry.as_slice(), Outcome::Denied);
        return CommandOutcome::Reply(reply);
    }
    let shared = context.shared().clone();
    match question {
        AdminRequest::WaitFor { revision, wait_ms } => {
            let db = shared.db.clone();
            let deadline_us = deadline_us(context, wait_ms);
            let wait =
                RevisionWait { db, revision, deadline_us, format: |there| encoded_reply(&there) };
            poll_or_wait(context, BlockingRead::Revision(wait))
        }
        AdminRequest::Tail { branch, run, after, limit, wait_ms } => {
            poll_run_tail(context, &branch, &run, after, limit, wait_ms)
                .unwrap_or_else(error_outcome)
        }
        question if question.takes_a_while() => {
            CommandOutcome::LongWork(Box::new(move || audited_answer(&shared, question, entry)))
        }
        question => CommandOutcome::Reply(audited_answer(&shared, question, entry)),
    }
}

/// Returns the next events of a run, or a blocking read.
fn poll_run_tail(
    context: &CommandContext<'_>,
    branch: &str,
    run: &Name,
    after: u64,
    limit: usize,
    wait_ms: u64,
) -> Result<CommandOutcome> {
    let db = context.shared().db.clone();
    let tail = db.branch(branch)?.runs().tail(run.as_str(), after)?;
    let deadline_us = deadline_us(context, wait_ms);
    let tail = TailRead::new(db, tail, limit, deadline_us, events_reply);
    Ok(poll_or_wait(context, BlockingRead::Events(Box::new(tail))))
}

fn events_reply(events: Result<Vec<CanonicalEvent>>) -> Reply {
    encoded_reply(&events.map(RunAnswer::Events))
}

/// Returns the audit entry of an admin request, if it is audited.
fn audit_entry(state: &ConnectionState, question: &AdminRequest) -> Option<Entry> {
    let user = state.user.as_ref()?;
    audited_admin_request(state.shared.security.audit(), user, &state.peer, question)
}

fn audited_answer(shared: &Shared, question: AdminRequest, entry: Option<Entry>) -> Reply {
    let reply = answer(&shared.db, question);
    let outcome = match &reply {
        Reply::Bulk(frame) if !is_encoded_error(frame) => Outcome::Done,
        _ => Outcome::Failed,
    };
    record_outcome(shared, entry.as_slice(), outcome);
    reply
}

fn answer(db: &Database, question: AdminRequest) -> Reply {
    match question {
        AdminRequest::Revision => encoded_reply(&Ok(db.revision())),
        AdminRequest::DurableRevision => encoded_reply(&Ok(db.durable_revision())),
        AdminRequest::StampOf(revision) => encoded_reply(&db.stamp_of(revision)),
        AdminRequest::Resolve(at) => encoded_reply(&db.resolve(at)),
        AdminRequest::Branches => encoded_reply(&db.try_branches()),
        AdminRequest::Branch(name) => encoded_reply(&db.branch_info(&name)),
        AdminRequest::Tags => encoded_reply(&db.try_tags()),
        AdminRequest::Diff(a, b) => encoded_reply(&db.diff(&a, &b)),
        AdminRequest::Pins => encoded_reply(&db.try_pins()),
        AdminRequest::Stats => encoded_reply(&db.try_stats()),
        AdminRequest::Indexes => encoded_reply(&db.records().indexes()),
        AdminRequest::Explain { branch, prefix, filters } => {
            let branch = db.branch(&branch);
            encoded_reply(&branch.and_then(|branch| branch.records().explain(&prefix, &filters)))
        }
        AdminRequest::WaitFor { revision, .. } => {
            encoded_reply(&db.wait_for(revision, std::time::Duration::ZERO))
        }
        AdminRequest::Sync => encoded_reply(&db.sync()),
        AdminRequest::Sweep => encoded_reply(&db.sweep()),
        AdminRequest::Trim => encoded_reply(&db.trim()),
        AdminRequest::ConfirmClock => {
            db.confirm_clock();
            encoded_reply(&Ok(()))
        }
        AdminRequest::ExportHash(branch) => encoded_reply(&db.export_hash(&branch)),
        AdminRequest::RevisionOf { branch, run, seq } => {
            let branch = db.branch(&branch);
            encoded_reply(&branch.and_then(|branch| branch.runs().revision_of(run.as_str(), seq)))
        }
        AdminRequest::StateSince { branch, space, since } => {
            let keyed = db.branch(&branch).and_then(|branch| branch.keyed(space.as_str()));
            encoded_reply(&keyed.and_then(|keyed| keyed.changes_since(since.as_ref())))
        }
        AdminRequest::Tail { branch, run, after, limit, .. } => {
            let tail =
                db.branch(&branch).and_then(|branch| branch.runs().tail(run.as_str(), after));
            let nothing = std::time::Duration::ZERO;
            events_reply(tail.and_then(|mut tail| tail.next(limit, nothing)))
        }
    }
}
