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

use super::arguments::{Arguments, syntax_error, understood};
use super::plan::{Plan, unexpected};
use super::reply::Reply;
use super::session::{Call, Handled, Owed, Pending, Session, no_permission, no_user, not_inside};
use super::table::{self, Asker, Group, Run, Spec};
use crate::repeats::Expected;
use mainstay::{ErrorKind, Receipt, Result, SessionRequest, Transaction};

/// The pending reply to a session request.
pub struct Once {
    request: SessionRequest,
    expected: Option<Expected>,
    owed: Owed,
}

impl Once {
    /// Turns a transaction into a session request. Returns it with its pending reply.
    fn of(transaction: Transaction, request: SessionRequest, owed: Owed) -> (Transaction, Once) {
        let transaction = transaction.in_session(request.clone());
        let expected = Expected::of(&transaction);
        (transaction, Once { request, expected, owed })
    }

    /// Makes the reply from the receipt of this execution or from the stored one.
    pub fn reply(self, receipt: Result<Receipt>) -> Reply {
        let Once { request, expected, owed } = self;
        let repeated = matches!(&receipt, Ok(receipt) if receipt.repeated);
        match &receipt {
            // An EXEC that failed because of its WATCH may be sent again without it.
            Ok(receipt) if !receipt.held && matches!(owed, Owed::Exec(_)) => {}
            Ok(receipt) if !expected.is_none_or(|expected| expected.is_met_by(receipt)) => {
                return another(&request);
            }
            // These errors concern the session, not the command.
            Err(error) if is_of_the_session(error.kind()) => return error.clone().into(),
            _ => {}
        }
        match owed.reply(receipt) {
            reply if repeated && is_foreign(&reply) => another(&request),
            reply => reply,
        }
    }
}

fn is_of_the_session(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::SessionExpired | ErrorKind::ResponseEvicted)
}

/// Returns whether the stored answers are of other kinds than those of the command.
fn is_foreign(reply: &Reply) -> bool {
    match reply {
        Reply::Array(replies) => replies.contains(&unexpected()),
        reply => *reply == unexpected(),
    }
}

/// The error for a request number already used for a different command. Two commands with the same kind of
/// answer cannot be told apart, because a stored answer is returned for its number.
fn another(request: &SessionRequest) -> Reply {
    let SessionRequest { session, request_id, .. } = request;
    Reply::error(format!(
        "INVALID request {request_id} of session `{session}` was another command, and this one was not executed: send \
         it with a number of its own"
    ))
}

/// Executes a command exactly once.
pub fn execute(call: &mut Call<'_>, pending: Pending) -> Handled {
    executed(call, pending).unwrap_or_else(Handled::Reply)
}

fn executed(call: &mut Call<'_>, pending: Pending) -> std::result::Result<Handled, Reply> {
    let (request, words) =
        understood(call.words, |arguments| Ok((read_request(arguments)?, arguments.rest())))?;
    if call.session.open.is_some() {
        return Err(call.session.last.map_or_else(syntax_error, not_inside));
    }
    let (_, spec) = table::find(words)?;
    let done = planned(call.session, spec, words)
        .map_or_else(Handled::Reply, |plan| run(call.session, plan, request, pending));
    // An audited command is recorded each time, also when it runs as a session request.
    if spec.is_audited(words) {
        return Ok(call.session.recorded(spec, words, done));
    }
    Ok(done)
}

fn run(session: &Session, plan: Plan, request: SessionRequest, pending: Pending) -> Handled {
    let takes_a_while = plan.takes_a_while();
    let (transaction, promise) = plan.put_into(session.transaction());
    match (takes_a_while || session.is_for_workers(&transaction), pending) {
        (_, Pending::Full) => Handled::NotYet,
        (false, _) => handled(transaction, request, Owed::Plan(promise.once())),
        (true, Pending::Nothing) => {
            let (transaction, once) = Once::of(transaction, request, Owed::Plan(promise.once()));
            let execute = session.execution(transaction);
            Handled::Slow(Box::new(move || once.reply(execute())))
        }
        (true, _) => Handled::NotYet,
    }
}

/// Parses the session request from the words of `SESSION.EXEC`.
pub fn request_of(words: &[&[u8]]) -> std::result::Result<SessionRequest, Reply> {
    understood(words, read_request)
}

fn read_request(arguments: &mut Arguments<'_>) -> std::result::Result<SessionRequest, Reply> {
    let session = arguments.name()?;
    let request_id = arguments.count()?;
    if !arguments.take("LOWEST") {
        return Err(syntax_error());
    }
    let request = SessionRequest::new(session, request_id, arguments.count()?);
    request.check()?;
    Ok(request)
}

/// Returns the plan of a command, if it can run exactly once and the user may execute it.
fn planned(
    session: &Session,
    spec: &'static Spec,
    words: &[&[u8]],
) -> std::result::Result<Plan, Reply> {
    let user = session.user.as_ref().ok_or_else(no_user)?;
    spec.allow(user, words).map_err(|denied| no_permission(spec, &denied))?;
    if !is_one_transaction(spec) {
        return Err(no_part("SESSION.DO", &spec.name.to_uppercase()));
    }
    let plan = match spec.run {
        Run::Change(read) => read(session, words)?,
        run => {
            let asker = Asker { shared: &session.shared, user: user.name() };
            run.plan(&asker, words).unwrap_or_else(|| Err(unexpected()))?
        }
    };
    match (plan.at, spec.run) {
        _ if plan.once_only => Err(no_part("SESSION.DO", &spec.name.to_uppercase())),
        (None, _) => session.allowed(spec, plan),
        (Some(_), Run::Change(_)) => Err(no_time()),
        (Some(_), _) => Err(no_past("SESSION.DO")),
    }
}

/// Returns whether a command is one transaction on data or branches. Of the commands on sessions, only
/// sending and acknowledging qualify.
fn is_one_transaction(spec: &Spec) -> bool {
    let is_planned = matches!(
        spec.run,
        Run::Data(_)
            | Run::Kept(_)
            | Run::Sent(_)
            | Run::Pieces(..)
            | Run::Whole(..)
            | Run::Change(_)
    );
    is_planned && (spec.group != Group::Sessions || spec.writes)
}

/// Turns a transaction into a session request for the next batch.
pub fn handled(transaction: Transaction, request: SessionRequest, owed: Owed) -> Handled {
    let (transaction, owed) = requested(transaction, request, owed);
    Handled::Run(Box::new(transaction), owed)
}

/// Turns a transaction into a session request. Returns it with its pending reply.
pub fn requested(
    transaction: Transaction,
    request: SessionRequest,
    owed: Owed,
) -> (Transaction, Owed) {
    let (transaction, once) = Once::of(transaction, request, owed);
    (transaction, Owed::Once(Box::new(once)))
}

/// The error for a command that cannot run exactly once.
pub fn no_part(within: &str, what: &str) -> Reply {
    Reply::error(format!(
        "ERR {within} does one transaction on data, and {what} is no part of one: nothing was executed; say it by itself"
    ))
}

/// Error for `AT`. A retry could fail to resolve the timestamp once its revision is no longer kept, and
/// would then not get the stored answer.
fn no_time() -> Reply {
    Reply::error("ERR SESSION.DO takes a revision here and no time: nothing was executed; give REV")
}

/// The error for reads of the past.
pub fn no_past(within: &str) -> Reply {
    Reply::error(format!(
        "ERR {within} reads what there is when it is executed: a read of the past changes nothing, so say it by itself"
    ))
}
