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
use crate::resp::feeds::{Arrival, Awaited, Following, Found, Reading, Telling, Until};
use crate::resp::multi;
use crate::resp::reply::Reply;
use crate::resp::rights::Needs;
use crate::resp::session::{Call, Handled, Owed, Pending, Session, no_permission, no_user};
use crate::resp::table::{self, Group, Run, Spec};
use crate::security::{Entry, Outcome, TransactionAudit, Wanted, recorded_question};
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
macro_rules! look {
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
fn of_states(answer: Answer) -> Result<ReadReply> {
    match answer {
        Answer::State(answer) => Ok(ReadReply::State(answer)),
        Answer::Names(page) => Ok(ReadReply::Names(page)),
        _ => Err(Error::new(Code::Unsupported, "keyed state gave an answer of another kind")),
    }
}

/// Rejects reads of the outbox in the past, because sent messages are deleted.
fn no_past(_: OutboxCommand) -> Result<OutboxAnswer> {
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
        .to_workers()
        .writes()
        .about("Executes a transaction, given as bytes"),
    of("wire.read", read).about("Reads a branch at a point in time, as bytes"),
    of("wire.run", run)
        .without_data()
        .to_workers()
        .writes()
        .about("Acts in the open transaction or view, as bytes"),
    of("wire.feed", feed).about("Changes after a revision, as bytes"),
    of("wire.ask", ask).writes().about("Answers a question about the database, as bytes"),
];

const fn of(name: &'static str, run: fn(&mut Call<'_>, Pending) -> Handled) -> Spec {
    let spec = Spec::new(name, -2, Group::Wire, Run::Direct(run));
    // The contents of the frame are checked by `permit`.
    spec.needs(Needs::Some).syntax("frame [frame ...]")
}

/// Checks that the user may execute a request. Every `WIRE` command passes through this function.
fn permit(call: &Call<'_>, wanted: &Wanted<'_>) -> std::result::Result<(), Reply> {
    let user = call.session.user.as_ref().ok_or_else(no_user)?;
    user.allow_wanted(wanted).map_err(|denied| {
        let name = call.words.first().copied().unwrap_or_default();
        match table::named(name) {
            Some(spec) => no_permission(spec, &denied),
            None => Reply::error(format!("NOPERM {denied}")),
        }
    })
}

/// Decodes the request. Its words are pieces of one frame.
fn take<T: DeserializeOwned>(call: &Call<'_>) -> Result<T> {
    match &call.words[1..] {
        [frame] => wire::decode(frame),
        pieces => wire::decode(&pieces.concat()),
    }
}

/// Encodes a result as a reply.
fn framed<T: Serialize>(answer: &Result<T>) -> Reply {
    match wire::encode(answer) {
        Ok(frame) if frame.len() <= ANSWER_LIMIT_BYTES => Reply::Bulk(frame),
        Ok(_) => too_long(Code::TransactionTooLarge, "ask for less at once"),
        Err(error) => error.into(),
    }
}

fn too_long(code: Code, what_to_do: &str) -> Reply {
    let message = format!("the answer is longer than 192 MiB: {what_to_do}");
    framed::<()>(&Err(Error::new(code, message)))
}

/// Encodes a result as the outcome of a command.
fn handled<T: Serialize>(work: Result<T>) -> Handled {
    Handled::Reply(framed(&work))
}

fn refused(error: Error) -> Handled {
    handled::<()>(Err(error))
}

/// The form in which the receipt of a transaction is returned.
pub enum Receipts {
    /// The receipt itself.
    Executed,
    /// The receipt of an interactive transaction, whose failed guards are reported as a conflict.
    Committed,
}

impl Receipts {
    /// Makes the reply.
    pub fn reply(self, receipt: Result<Receipt>) -> Reply {
        let revision = receipt.as_ref().map_or(0, |receipt| receipt.revision);
        let reply = match self {
            Receipts::Executed => framed(&receipt),
            Receipts::Committed => framed(
                &receipt.map(TransactionReply::Committed).map_err(InteractiveTransaction::refusal),
            ),
        };
        match reply {
            // The transaction is committed, so the client must get an unknown outcome rather than a
            // failure.
            Reply::Bulk(frame) if revision > 0 && is_refusal(&frame) => {
                let what = format!("it was committed as revision {revision}, so look there");
                too_long(Code::UnknownOutcome, &what)
            }
            reply => reply,
        }
    }
}

/// Returns whether the frame of a `Result` holds an error. Byte 0 is the version, byte 1 the enum variant.
fn is_refusal(frame: &[u8]) -> bool {
    frame.get(1) == Some(&1)
}

fn execute(call: &mut Call<'_>, pending: Pending) -> Handled {
    let mut transaction: Transaction = match take(call) {
        Ok(transaction) => transaction,
        Err(error) => return refused(error),
    };
    let shared = call.shared().clone();
    let session = &call.session;
    let entries = session.user.as_deref().map(|user| {
        TransactionAudit::new(shared.security.audit(), user, &session.peer, &transaction)
    });
    let entries = entries.unwrap_or_default();
    if let Err(reply) = permit(call, &Wanted::Execute(&transaction)) {
        entries.record_denied(shared.security.audit());
        return Handled::Reply(reply);
    }
    if let Some(user) = &call.session.user {
        let Shared { security, db, .. } = &**call.shared();
        let commands = transaction.steps.iter().map(|step| &step.command);
        if let Err(error) = security.admit_sessions(user, db, commands) {
            return refused(Error::new(Code::QueueFull, error.to_string()));
        }
        transaction = user.own_request(transaction);
    }
    transaction.durability = transaction.durability.or(call.session.durability);
    let is_long = call.session.is_for_workers(&transaction);
    match (is_long || !entries.is_empty(), pending) {
        (_, Pending::Full) => Handled::NotYet,
        (false, _) => Handled::Run(Box::new(transaction), Owed::Wire(Receipts::Executed)),
        (true, Pending::Nothing) => {
            let execute = call.session.execution(transaction);
            Handled::Slow(Box::new(move || {
                let receipt = execute();
                entries.record(shared.security.audit(), receipt.as_ref().ok());
                Receipts::Executed.reply(receipt)
            }))
        }
        (true, _) => Handled::NotYet,
    }
}

fn record(shared: &Shared, entries: &[Entry], outcome: Outcome) {
    entries.iter().for_each(|entry| shared.security.audit().record(entry, outcome));
}

fn read(call: &mut Call<'_>, pending: Pending) -> Handled {
    if pending != Pending::Nothing {
        return Handled::NotYet;
    }
    let look: ReadRequest = match take(call) {
        Ok(look) => look,
        Err(error) => return refused(error),
    };
    if let Err(reply) = permit(call, &Wanted::Look(&look)) {
        return Handled::Reply(reply);
    }
    let cells = match cells(call.session, &look.branch) {
        Ok(cells) => cells,
        Err(error) => return refused(error),
    };
    let db = call.shared().db.clone();
    if look.read.takes_a_while() {
        Handled::Slow(Box::new(move || framed(&look_at(&db, &cells, look))))
    } else {
        handled(look_at(&db, &cells, look))
    }
}

fn look_at(db: &Database, cells: &Cells, look: ReadRequest) -> Result<ReadReply> {
    match look.at {
        At::Latest => {
            let branch = || db.branch(&look.branch);
            let outbox = |command| branch()?.outbox().read(command);
            let keyed = |command| read_keyed(db, &look.branch, command);
            look!(cells, branch()?.records(), branch()?.runs(), outbox, keyed, look.read)
        }
        at => {
            let view = cells.at(at)?;
            let keyed = |command| view.read_keyed(command);
            look!(view, view.records(), view.runs(), no_past, keyed, look.read)
        }
    }
}

/// Executes a read on the present keyed state.
fn read_keyed(db: &Database, branch: &str, command: StateCommand) -> Result<Answer> {
    let (answers, _) = db.look(branch, &[command.into()])?;
    answers.into_iter().next().ok_or_else(no_read)
}

fn cells(session: &Session, branch: &str) -> Result<Cells> {
    if session.branch == branch {
        Ok(session.cells.clone())
    } else {
        session.shared.db.branch(branch).map(|branch| branch.cells())
    }
}

fn run(call: &mut Call<'_>, pending: Pending) -> Handled {
    if pending != Pending::Nothing {
        return Handled::NotYet;
    }
    let act: TransactionRequest = match take(call) {
        Ok(act) => act,
        Err(error) => return refused(error),
    };
    if let Err(reply) = permit(call, &Wanted::Act(&act)) {
        return Handled::Reply(reply);
    }
    let session = &mut *call.session;
    match act {
        TransactionRequest::Begin { branch } => handled(begin(session, &branch)),
        TransactionRequest::View { branch, at } => handled(view(session, &branch, at)),
        TransactionRequest::Run(command) => inside(session, command).unwrap_or_else(refused),
        TransactionRequest::Look(read) => look_held(session, read).unwrap_or_else(refused),
        TransactionRequest::Commit { durability } => {
            commit(session, durability).unwrap_or_else(refused)
        }
        TransactionRequest::Take { durability } => handled(take_open(session, durability)),
        TransactionRequest::Leave => {
            session.open = None;
            session.view = None;
            handled(Ok(TransactionReply::Left))
        }
    }
}

fn begin(session: &mut Session, branch: &str) -> Result<TransactionReply> {
    if session.open.is_some() {
        let message = "a transaction is open on this connection: commit it or leave it first";
        return Err(Error::new(Code::TransactionActive, message));
    }
    let open = session.shared.db.branch(branch)?.begin()?;
    let revision = open.revision();
    session.open = Some(Box::new(open));
    Ok(TransactionReply::Holds(revision))
}

fn view(session: &mut Session, branch: &str, at: At) -> Result<TransactionReply> {
    let view = cells(session, branch)?.at(at)?;
    let revision = view.revision();
    session.view = Some(view);
    Ok(TransactionReply::Holds(revision))
}

fn inside(session: &mut Session, command: Command) -> Result<Handled> {
    let walks = command.walks();
    let run = move |open: &mut InteractiveTransaction| {
        framed(&open.run(command).map(TransactionReply::Answered))
    };
    if walks {
        return session.lend(run).ok_or_else(none_open);
    }
    Ok(Handled::Reply(run(session.open.as_mut().ok_or_else(none_open)?)))
}

fn look_held(session: &Session, read: ReadOp) -> Result<Handled> {
    let view = session.view.clone().ok_or_else(none_open)?;
    let takes_a_while = read.takes_a_while();
    let look = move || {
        let keyed = |command| view.read_keyed(command);
        let seen = look!(view, view.records(), view.runs(), no_past, keyed, read);
        framed(&seen.map(TransactionReply::Seen))
    };
    Ok(if takes_a_while { Handled::Slow(Box::new(look)) } else { Handled::Reply(look()) })
}

fn commit(session: &mut Session, durability: Option<Durability>) -> Result<Handled> {
    let mut open = session.open.take().ok_or_else(none_open)?;
    if let Some(durability) = durability.or(session.durability) {
        open.durability(durability);
    }
    if !open.has_steps() {
        // Nothing is written, so the commit does not have to wait for a batch.
        return Ok(Handled::Reply(Receipts::Committed.reply(open.commit())));
    }
    let transaction = open.into_transaction()?;
    Ok(multi::done(session, transaction, Owed::Wire(Receipts::Committed)))
}

fn take_open(session: &mut Session, durability: Option<Durability>) -> Result<TransactionReply> {
    let mut open = session.open.take().ok_or_else(none_open)?;
    if let Some(durability) = durability {
        open.durability(durability);
    }
    open.into_transaction().map(|transaction| TransactionReply::Taken(Box::new(transaction)))
}

fn none_open() -> Error {
    Error::new(Code::NoTransaction, "nothing is open on this connection: begin first")
}

fn feed(call: &mut Call<'_>, pending: Pending) -> Handled {
    if pending != Pending::Nothing {
        return Handled::NotYet;
    }
    let follow: FeedRequest = match take(call) {
        Ok(follow) => follow,
        Err(error) => return refused(error),
    };
    if let Err(reply) = permit(call, &Wanted::Follow(&follow)) {
        return Handled::Reply(reply);
    }
    following(call, follow).unwrap_or_else(refused)
}

fn following(call: &mut Call<'_>, follow: FeedRequest) -> Result<Handled> {
    let shared = call.shared();
    let seat = match shared.feed_seat(call.session.user.as_ref()) {
        Ok(seat) => seat,
        Err(reply) => return Ok(Handled::Reply(reply)),
    };
    let feed = shared.db.watch(follow.filter, follow.after)?;
    let until = Until::Once { deadline_us: deadline_us(call, follow.wait_ms) };
    let limit = follow.limit.clamp(1, FOLLOW_LIMIT);
    let reading = Reading::new(feed, limit, until, FOLLOWED, seat);
    let reading = reading.told_to(call.session.user.clone()).paid_by(&call.session.account);
    Ok(wait(call, Awaited::Changes(Box::new(reading))))
}

/// The reply includes the position, so that a client whose wait timed out can continue from there.
const FOLLOWED: Telling = Telling { shape: followed, values: true, place: true };

fn followed(read: Result<Found>) -> Reply {
    framed(&read.map(|Found { events, position, more }| FeedReply { events, position, more }))
}

fn deadline_us(call: &Call<'_>, wait_ms: u64) -> u64 {
    call.shared().deadline_us(wait_ms)
}

/// Returns the reply if it is ready, otherwise a blocking read.
fn wait(call: &Call<'_>, mut awaited: Awaited) -> Handled {
    match awaited.look_briefly(call.shared().ticks_us()) {
        Some(reply) => Handled::Reply(reply),
        None => Handled::Wait(awaited),
    }
}

fn ask(call: &mut Call<'_>, pending: Pending) -> Handled {
    if pending != Pending::Nothing {
        return Handled::NotYet;
    }
    let question: AdminRequest = match take(call) {
        Ok(question) => question,
        Err(error) => return refused(error),
    };
    let entry = entry(call.session, &question);
    if let Err(reply) = permit(call, &Wanted::Ask(&question)) {
        record(call.shared(), entry.as_slice(), Outcome::Denied);
        return Handled::Reply(reply);
    }
    let shared = call.shared().clone();
    match question {
        AdminRequest::WaitFor { revision, wait_ms } => {
            let db = shared.db.clone();
            let deadline_us = deadline_us(call, wait_ms);
            let arrival = Arrival { db, revision, deadline_us, shape: |there| framed(&there) };
            wait(call, Awaited::Revision(arrival))
        }
        AdminRequest::Tail { branch, run, after, limit, wait_ms } => {
            following_run(call, &branch, &run, after, limit, wait_ms).unwrap_or_else(refused)
        }
        question if question.takes_a_while() => {
            Handled::Slow(Box::new(move || answer_recorded(&shared, question, entry)))
        }
        question => Handled::Reply(answer_recorded(&shared, question, entry)),
    }
}

/// Returns the next events of a run, or a blocking read.
fn following_run(
    call: &Call<'_>,
    branch: &str,
    run: &Name,
    after: u64,
    limit: usize,
    wait_ms: u64,
) -> Result<Handled> {
    let db = call.shared().db.clone();
    let tail = db.branch(branch)?.runs().tail(run.as_str(), after)?;
    let deadline_us = deadline_us(call, wait_ms);
    let following = Following::new(db, tail, limit, deadline_us, framed_events);
    Ok(wait(call, Awaited::Events(Box::new(following))))
}

fn framed_events(events: Result<Vec<CanonicalEvent>>) -> Reply {
    framed(&events.map(RunAnswer::Events))
}

/// Returns the audit entry of an admin request, if it is audited.
fn entry(session: &Session, question: &AdminRequest) -> Option<Entry> {
    let user = session.user.as_ref()?;
    recorded_question(session.shared.security.audit(), user, &session.peer, question)
}

fn answer_recorded(shared: &Shared, question: AdminRequest, entry: Option<Entry>) -> Reply {
    let reply = answer(&shared.db, question);
    let outcome = match &reply {
        Reply::Bulk(frame) if !is_refusal(frame) => Outcome::Done,
        _ => Outcome::Failed,
    };
    record(shared, entry.as_slice(), outcome);
    reply
}

fn answer(db: &Database, question: AdminRequest) -> Reply {
    match question {
        AdminRequest::Revision => framed(&Ok(db.revision())),
        AdminRequest::DurableRevision => framed(&Ok(db.durable_revision())),
        AdminRequest::StampOf(revision) => framed(&db.stamp_of(revision)),
        AdminRequest::Resolve(at) => framed(&db.resolve(at)),
        AdminRequest::Branches => framed(&db.try_branches()),
        AdminRequest::Branch(name) => framed(&db.branch_info(&name)),
        AdminRequest::Tags => framed(&db.try_tags()),
        AdminRequest::Diff(a, b) => framed(&db.diff(&a, &b)),
        AdminRequest::Pins => framed(&db.try_pins()),
        AdminRequest::Stats => framed(&db.try_stats()),
        AdminRequest::Indexes => framed(&db.records().indexes()),
        AdminRequest::Explain { branch, prefix, filters } => {
            let branch = db.branch(&branch);
            framed(&branch.and_then(|branch| branch.records().explain(&prefix, &filters)))
        }
        AdminRequest::WaitFor { revision, .. } => {
            framed(&db.wait_for(revision, std::time::Duration::ZERO))
        }
        AdminRequest::Sync => framed(&db.sync()),
        AdminRequest::Sweep => framed(&db.sweep()),
        AdminRequest::Trim => framed(&db.trim()),
        AdminRequest::ConfirmClock => {
            db.confirm_clock();
            framed(&Ok(()))
        }
        AdminRequest::ExportHash(branch) => framed(&db.export_hash(&branch)),
        AdminRequest::RevisionOf { branch, run, seq } => {
            let branch = db.branch(&branch);
            framed(&branch.and_then(|branch| branch.runs().revision_of(run.as_str(), seq)))
        }
        AdminRequest::StateSince { branch, space, since } => {
            let keyed = db.branch(&branch).and_then(|branch| branch.keyed(space.as_str()));
            framed(&keyed.and_then(|keyed| keyed.changes_since(since.as_ref())))
        }
        AdminRequest::Tail { branch, run, after, limit, .. } => {
            let tail =
                db.branch(&branch).and_then(|branch| branch.runs().tail(run.as_str(), after));
            let nothing = std::time::Duration::ZERO;
            framed_events(tail.and_then(|mut tail| tail.next(limit, nothing)))
        }
    }
}
