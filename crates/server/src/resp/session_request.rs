//! Session requests: exactly-once execution of a command, however often it is sent.
//!
//! ```text
//!   SESSION.DO id 7 LOWEST 5 INCR n  --> Plan --+
//!   MULTI … SESSION.EXEC id 7 LOWEST 5 --------+--> Transaction of request 7 --> receipt, or the stored one
//!                                                                                    |
//!                                           reply function over the answers <-------'  the same bytes either way
//! ```
//!
//! The database stores the answers of the transaction, and the reply is made from them each time. A command
//! that runs this way therefore has to be one transaction, and its reply may depend on nothing else.

use super::arguments::{Arguments, parse_all, syntax_error};
use super::connection_state::{
    BatchLoad, CommandContext, CommandOutcome, ConnectionState, PendingReply, no_permission,
    not_allowed_in_transaction, not_authenticated,
};
use super::plan::{Plan, unexpected_answer};
use super::reply::Reply;
use super::table::{self, Group, Handler, PlanContext, Spec};
use crate::repeats::Expected;
use mainstay::{ErrorKind, Receipt, Result, SessionRequest, Transaction};

/// The pending reply to a session request.
pub struct SessionReply {
    request: SessionRequest,
    expected: Option<Expected>,
    pending_reply: PendingReply,
}

impl SessionReply {
    /// Turns a transaction into a session request. Returns it with its pending reply.
    fn new(
        transaction: Transaction,
        request: SessionRequest,
        pending_reply: PendingReply,
    ) -> (Transaction, SessionReply) {
        let transaction = transaction.in_session(request.clone());
        let expected = Expected::of(&transaction);
        (transaction, SessionReply { request, expected, pending_reply })
    }

    /// Makes the reply from the receipt of this execution or from the stored one.
    pub fn reply(self, receipt: Result<Receipt>) -> Reply {
        let SessionReply { request, expected, pending_reply } = self;
        let repeated = matches!(&receipt, Ok(receipt) if receipt.repeated);
        match &receipt {
            // An EXEC that failed because of its WATCH may be sent again without it.
            Ok(receipt) if !receipt.held && matches!(pending_reply, PendingReply::Exec(_)) => {}
            Ok(receipt) if !expected.is_none_or(|expected| expected.is_met_by(receipt)) => {
                return number_reused(&request);
            }
            // These errors concern the session, not the command.
            Err(error) if is_session_error(error.kind()) => return error.clone().into(),
            _ => {}
        }
        match pending_reply.reply(receipt) {
            reply if repeated && is_mismatched(&reply) => number_reused(&request),
            reply => reply,
        }
    }
}

fn is_session_error(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::SessionExpired | ErrorKind::ResponseEvicted)
}

/// Returns whether the stored answers are of other kinds than those of the command.
fn is_mismatched(reply: &Reply) -> bool {
    match reply {
        Reply::Array(replies) => replies.contains(&unexpected_answer()),
        reply => *reply == unexpected_answer(),
    }
}

/// The error for a request number already used for a different command. Two commands with the same kind of
/// answer cannot be told apart, because a stored answer is returned for its number.
fn number_reused(request: &SessionRequest) -> Reply {
    let SessionRequest { session, request_id, .. } = request;
    Reply::error(format!(
        "INVALID request {request_id} of session `{session}` was another command, and this one was not executed: send \
         it with a number of its own"
    ))
}

/// Executes a command exactly once.
pub fn execute(context: &mut CommandContext<'_>, load: BatchLoad) -> CommandOutcome {
    try_execute(context, load).unwrap_or_else(CommandOutcome::Reply)
}

fn try_execute(
    context: &mut CommandContext<'_>,
    load: BatchLoad,
) -> std::result::Result<CommandOutcome, Reply> {
    let (request, words) =
        parse_all(context.words, |arguments| Ok((read_request(arguments)?, arguments.rest())))?;
    if context.state.open_transaction.is_some() {
        return Err(context
            .state
            .last_command
            .map_or_else(syntax_error, not_allowed_in_transaction));
    }
    let (_, spec) = table::find(words)?;
    let outcome = plan_of(context.state, spec, words)
        .map_or_else(CommandOutcome::Reply, |plan| run(context.state, plan, request, load));
    // An audited command is recorded each time, also when it runs as a session request.
    if spec.is_audited(words) {
        return Ok(context.state.audit_outcome(spec, words, outcome));
    }
    Ok(outcome)
}

fn run(
    state: &ConnectionState,
    plan: Plan,
    request: SessionRequest,
    load: BatchLoad,
) -> CommandOutcome {
    let is_long = plan.is_long();
    let (transaction, builder) = plan.append_to(state.transaction());
    match (is_long || state.needs_worker(&transaction), load) {
        (_, BatchLoad::Full) => CommandOutcome::Deferred,
        (false, _) => run_in_batch(transaction, request, PendingReply::Plan(builder.repeatable())),
        (true, BatchLoad::Empty) => {
            let (transaction, session_reply) =
                SessionReply::new(transaction, request, PendingReply::Plan(builder.repeatable()));
            let execute = state.blocking_execution(transaction);
            CommandOutcome::LongWork(Box::new(move || session_reply.reply(execute())))
        }
        (true, _) => CommandOutcome::Deferred,
    }
}

/// Parses the session request from the words of `SESSION.EXEC`.
pub fn request_of(words: &[&[u8]]) -> std::result::Result<SessionRequest, Reply> {
    parse_all(words, read_request)
}

fn read_request(arguments: &mut Arguments<'_>) -> std::result::Result<SessionRequest, Reply> {
    let session = arguments.name()?;
    let request_id = arguments.count()?;
    if !arguments.take_keyword("LOWEST") {
        return Err(syntax_error());
    }
    let request = SessionRequest::new(session, request_id, arguments.count()?);
    request.check()?;
    Ok(request)
}

/// Returns the plan of a command, if it can run exactly once and the user may execute it.
fn plan_of(
    state: &ConnectionState,
    spec: &'static Spec,
    words: &[&[u8]],
) -> std::result::Result<Plan, Reply> {
    let user = state.user.as_ref().ok_or_else(not_authenticated)?;
    spec.authorize(user, words).map_err(|denied| no_permission(spec, &denied))?;
    if !is_single_transaction(spec) {
        return Err(not_repeatable("SESSION.DO", &spec.name.to_uppercase()));
    }
    let plan = match spec.handler {
        Handler::BranchPlan(read) => read(state, words)?,
        run => {
            let plan_context = PlanContext { shared: &state.shared, user: user.name() };
            run.plan(&plan_context, words).unwrap_or_else(|| Err(unexpected_answer()))?
        }
    };
    match (plan.at, spec.handler) {
        _ if plan.once_only => Err(not_repeatable("SESSION.DO", &spec.name.to_uppercase())),
        (None, _) => state.authorize(spec, plan),
        (Some(_), Handler::BranchPlan(_)) => Err(no_timestamps()),
        (Some(_), _) => Err(no_past_reads("SESSION.DO")),
    }
}

/// Returns whether a command is one transaction on data or branches. Of the commands on sessions, only
/// sending and acknowledging qualify.
fn is_single_transaction(spec: &Spec) -> bool {
    let is_planned = matches!(
        spec.handler,
        Handler::Plan(_)
            | Handler::JobPlan(_)
            | Handler::OutboxPlan(_)
            | Handler::PlanInPieces(..)
            | Handler::PlanInTransaction(..)
            | Handler::BranchPlan(_)
    );
    is_planned && (spec.group != Group::Sessions || spec.writes)
}

/// Turns a transaction into a session request for the next batch.
pub fn run_in_batch(
    transaction: Transaction,
    request: SessionRequest,
    pending_reply: PendingReply,
) -> CommandOutcome {
    let (transaction, pending_reply) = into_session_request(transaction, request, pending_reply);
    CommandOutcome::Transaction(Box::new(transaction), pending_reply)
}

/// Turns a transaction into a session request. Returns it with its pending reply.
pub fn into_session_request(
    transaction: Transaction,
    request: SessionRequest,
    pending_reply: PendingReply,
) -> (Transaction, PendingReply) {
    let (transaction, session_reply) = SessionReply::new(transaction, request, pending_reply);
    (transaction, PendingReply::SessionRequest(Box::new(session_reply)))
}

/// The error for a command that cannot run exactly once.
pub fn not_repeatable(within: &str, what: &str) -> Reply {
    Reply::error(format!(
        "ERR {within} does one transaction on data, and {what} is no part of one: nothing was executed; say it by itself"
    ))
}

/// Error for `AT`. A retry could fail to resolve the timestamp once its revision is no longer kept, and
/// would then not get the stored answer.
fn no_timestamps() -> Reply {
    Reply::error("ERR SESSION.DO takes a revision here and no time: nothing was executed; give REV")
}

/// The error for reads of the past.
pub fn no_past_reads(within: &str) -> Reply {
    Reply::error(format!(
        "ERR {within} reads what there is when it is executed: a read of the past changes nothing, so say it by itself"
    ))
}
