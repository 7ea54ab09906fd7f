//! `MULTI`/`EXEC`: queues commands and executes them as one transaction.

use super::Shared;
use super::commands::feed::no_waiting;
use super::glob::PATTERN_LIMIT_BYTES;
use super::once;
use super::orders::{self, Turn};
use super::plan::{Plan, Promise, too_many_commands, unexpected};
use super::reply::{Protocol, Reply};
use super::session::{Call, Handled, Owed, Session, no_permission};
use super::table::{Asker, Run, Spec};
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
    queued: Queue,
    /// Bytes of the words that were kept.
    bytes: usize,
    /// Number of commands that the words became.
    commands: usize,
    /// Memory of those commands, in addition to the queue itself.
    plan_bytes: usize,
    /// Bytes of the patterns used to make the replies.
    pattern_bytes: usize,
    /// True if a command concerns jobs or locks.
    has_orders: bool,
    /// True if only the writer thread can answer a command.
    asks_writer: bool,
    /// True if a command lists past state, which is read when the transaction is assembled.
    lists_the_past: bool,
    /// True if a command was rejected: nothing will be executed.
    spoilt: bool,
    /// The reason why the queue was dropped, if it was.
    given_up: Option<String>,
}

/// The commands in blocks: a single vector of 100,000 would be moved whole when it grows, tens of megabytes on the event loop.
#[derive(Default)]
struct Queue {
    /// All but the last are full.
    blocks: Vec<Vec<Queued>>,
}

/// The commands of one block. The first grows to this size as a vector does, because most transactions are short.
const BLOCK_COMMANDS: usize = 256;

impl Queue {
    fn push(&mut self, queued: Queued) {
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
        commands * size_of::<Queued>() + self.blocks.capacity() * size_of::<Vec<Queued>>()
    }

    fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.blocks.iter().flatten()
    }
}

impl IntoIterator for Queue {
    type Item = Queued;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<Queued>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.blocks.into_iter().flatten()
    }
}

/// A queued command.
enum Queued {
    Plan(Plan),
    /// A command on jobs or locks.
    Order(Order),
    /// The revision of the transaction.
    Revision,
    /// A command with invalid arguments. The error is its reply, and the other commands are executed.
    Wrong(Reply),
    /// A command about the session alone, executed when its turn comes.
    Session(&'static Spec, fn(&mut Call<'_>) -> Reply, Vec<Vec<u8>>),
}

impl Queued {
    /// Checks that the reply depends only on the answers of the transaction, so that a repeat gets the same
    /// reply.
    fn is_of_the_transaction(&self) -> Result<(), Reply> {
        match self {
            Queued::Wrong(_) => Ok(()),
            Queued::Plan(plan) if plan.once_only => {
                Err(once::no_part("SESSION.EXEC", "what gives another cursor each time"))
            }
            Queued::Plan(plan) if plan.at.is_none() => Ok(()),
            Queued::Plan(_) => Err(once::no_past("SESSION.EXEC")),
            Queued::Order(_) => Err(once::no_part("SESSION.EXEC", "an order to jobs and locks")),
            Queued::Revision => Err(once::no_part("SESSION.EXEC", "REVISION")),
            Queued::Session(spec, ..) => {
                Err(once::no_part("SESSION.EXEC", &spec.name.to_uppercase()))
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
            self.spoilt = true;
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
        spec.allow(user, words)?;
        self.bytes += words.iter().map(|word| word.len()).sum::<usize>();
        if self.queued.len() >= TRANSACTION_LIMIT_COMMANDS || self.bytes > TRANSACTION_LIMIT_BYTES {
            self.spoilt = true;
            let message = "TOOLARGE a transaction has at most 100,000 commands and 64 MiB";
            return Ok(Reply::error(message));
        }
        if self.given_up.is_some() {
            // Nothing will be executed, so nothing is kept.
            self.bytes = 0;
            return Ok(QUEUED);
        }
        let owned = || words.iter().map(|word| word.to_vec()).collect();
        if !spec.is_of_transactions() {
            self.spoilt = true;
            return Ok(not_inside_multi(spec));
        }
        if let Some(plan) = spec.run.plan(&Asker { shared, user: user.name() }, words) {
            if matches!(&plan, Err(reply) if *reply == no_waiting()) {
                self.spoilt = true;
                return Ok(no_waiting());
            }
            let queued = match plan {
                Ok(mut plan) => {
                    spec.permit(user, &mut plan)?;
                    Queued::Plan(plan)
                }
                Err(reply) => Queued::Wrong(reply),
            };
            return Ok(self.keep(spec, queued));
        }
        let queued = match spec.run {
            Run::Order(read) => match read(words) {
                Ok(order) if order.waits() => {
                    self.spoilt = true;
                    return Ok(no_waiting());
                }
                Ok(order) => {
                    order.allow(user, shared.jobs.keys())?;
                    Queued::Order(order)
                }
                Err(reply) => Queued::Wrong(reply),
            },
            Run::Revision => Queued::Revision,
            Run::Session(run) | Run::Settled(run) if !spec.stands_alone() => {
                Queued::Session(spec, run, owned())
            }
            _ => {
                self.spoilt = true;
                return Ok(not_inside_multi(spec));
            }
        };
        Ok(self.keep(spec, queued))
    }

    /// Queues a command unless all commands together are too many. One request may name a million keys.
    fn keep(&mut self, spec: &Spec, queued: Queued) -> Reply {
        if !self.stands_beside_others(&queued) {
            self.spoilt = true;
            return not_beside_orders(spec);
        }
        match &queued {
            Queued::Plan(plan) => {
                self.lists_the_past |= plan.at.is_some() && plan.takes_a_while();
                self.commands += plan.commands.len();
                self.plan_bytes += plan.weight_bytes();
                self.pattern_bytes += plan.pattern_bytes;
            }
            // `CONFIG GET` has only patterns as arguments.
            Queued::Session(.., words) => {
                self.pattern_bytes += words.iter().map(Vec::len).sum::<usize>();
            }
            _ => {}
        }
        if self.commands > TRANSACTION_LIMIT_COMMANDS {
            self.give_up(String::new());
            return too_many_commands();
        }
        self.queued.push(queued);
        QUEUED
    }

    /// Checks that job commands do not stand beside commands that only the writer thread can answer. Job
    /// commands run in an open transaction, where the latter cannot run.
    fn stands_beside_others(&mut self, queued: &Queued) -> bool {
        match queued {
            Queued::Order(_) => self.has_orders = true,
            Queued::Plan(plan) => {
                self.asks_writer |= plan.commands.iter().any(Command::is_of_writer_alone);
            }
            _ => {}
        }
        !(self.has_orders && self.asks_writer)
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
            || self.lists_the_past
    }

    /// Drops the queue. Nothing will be executed, and `EXEC` reports the reason.
    pub fn give_up(&mut self, why: String) {
        *self = Multi { spoilt: true, given_up: Some(why), ..Multi::default() };
    }

    /// Marks the transaction as aborted.
    pub fn spoil(&mut self) {
        self.spoilt = true;
    }
}

/// The error for a command that `EXEC` cannot execute.
fn not_inside_multi(spec: &Spec) -> Reply {
    let name = spec.name.to_uppercase();
    Reply::error(format!("ERR {name} is not for inside MULTI"))
}

/// The error for a job command beside a command of the writer thread, or the reverse.
fn not_beside_orders(spec: &Spec) -> Reply {
    let name = spec.name.to_uppercase();
    Reply::error(format!(
        "ERR {name}: jobs and locks do not stand in one MULTI with OUTBOX.CLAIM, STATE and DEAD and SESSION.PENDING, INFO \
         and LIST"
    ))
}

/// The pending replies of an `EXEC`.
pub struct Exec(Vec<Share>);

enum Share {
    Promise(Promise),
    Revision,
    Reply(Reply),
}

impl Exec {
    /// Makes the replies of all commands, or null if a watched key has changed.
    pub fn reply(self, receipt: mainstay::Result<Receipt>) -> Reply {
        let receipt = match receipt {
            Ok(receipt) if !receipt.held => return Reply::NilArray,
            Ok(receipt) => receipt,
            Err(error) => return error.into(),
        };
        let Receipt { revision, stamp, answers, .. } = receipt;
        let mut answers = answers.into_iter();
        let reply = |share| match share {
            Share::Revision => Reply::number(revision),
            Share::Promise(promise) => promise.keep_share(&mut answers, stamp),
            Share::Reply(reply) => reply,
        };
        Reply::Array(self.0.into_iter().map(reply).collect())
    }
}

/// Executes the queued commands as one transaction.
pub fn exec(call: &mut Call<'_>) -> Handled {
    let handled = executed(call.session);
    call.session.exec_us = None;
    handled
}

fn executed(session: &mut Session) -> Handled {
    let (queued, watched) = match end(session, "EXEC") {
        Ok(ended) => ended,
        Err(reply) => return Handled::Reply(reply),
    };
    if queued.iter().any(|queued| matches!(queued, Queued::Order(_))) {
        return together(session, queued, watched);
    }
    match gather(session, queued, watched) {
        Ok((transaction, shares)) => done(session, transaction, Owed::Exec(Exec(shares))),
        Err(reply) => Handled::Reply(reply),
    }
}

/// Puts a transaction into the next batch. A long or audited one runs off the event loop.
pub fn done(session: &Session, transaction: Transaction, owed: Owed) -> Handled {
    let audit = session.shared.security.audit();
    let user = session.user.as_deref();
    let entries = user.map(|user| TransactionAudit::new(audit, user, &session.peer, &transaction));
    let entries = entries.unwrap_or_default();
    if !session.is_for_workers(&transaction) && entries.is_empty() {
        return Handled::Run(Box::new(transaction), owed);
    }
    let security = session.shared.security.clone();
    let execute = session.execution(transaction);
    Handled::Slow(Box::new(move || {
        let receipt = execute();
        entries.record(security.audit(), receipt.as_ref().ok());
        owed.reply(receipt)
    }))
}

/// Executes the queued commands as one transaction, exactly once however often it is sent.
pub fn exec_once(call: &mut Call<'_>) -> Handled {
    let handled = executed_once(call).unwrap_or_else(Handled::Reply);
    call.session.exec_us = None;
    handled
}

fn executed_once(call: &mut Call<'_>) -> Result<Handled, Reply> {
    let session = &mut *call.session;
    let (queued, watched) = end(session, "SESSION.EXEC")?;
    let request = once::request_of(call.words)?;
    queued.iter().try_for_each(Queued::is_of_the_transaction)?;
    let (transaction, shares) = gather(session, queued, watched)?;
    let once = |share| match share {
        Share::Promise(promise) => Share::Promise(promise.once()),
        reply => reply,
    };
    let exec = Exec(shares.into_iter().map(once).collect());
    let (transaction, owed) = once::requested(transaction, request, Owed::Exec(exec));
    Ok(done(session, transaction, owed))
}

/// Ends `MULTI`. Returns the queued commands and the watched keys, if every command was accepted.
fn end(session: &mut Session, name: &str) -> Result<(Queue, Vec<Guard>), Reply> {
    let Some(multi) = session.multi.take() else {
        return Err(Reply::error(format!("ERR {name} without MULTI")));
    };
    let watched = std::mem::take(&mut session.watched);
    match multi.given_up.filter(|why| !why.is_empty()) {
        Some(why) => Err(Reply::error(format!("EXECABORT Transaction discarded: {why}"))),
        None if multi.spoilt => {
            Err(Reply::error("EXECABORT Transaction discarded because of previous errors."))
        }
        None => {
            session.exec_us = Some(session.shared.now());
            Ok((multi.queued, watched))
        }
    }
}

/// Assembles the commands as one transaction. Returns it with the pending reply of each command.
fn gather(
    session: &mut Session,
    queued: Queue,
    watched: Vec<Guard>,
) -> Result<(Transaction, Vec<Share>), Reply> {
    let mut transaction = session.transaction();
    // If a watched key has changed, nothing is executed, and that is not an error.
    transaction.otherwise = (!watched.is_empty()).then(Vec::new);
    transaction.guards = watched;
    let mut shares = Vec::with_capacity(queued.len());
    let mut reply_bytes = 0;
    for queued in queued {
        let share = match queued {
            Queued::Wrong(reply) => Share::Reply(reply),
            Queued::Revision => Share::Revision,
            Queued::Session(spec, run, words) => {
                Share::Reply(run_session(session, spec, run, &words))
            }
            Queued::Plan(plan) if plan.at.is_some() => Share::Reply(session.read(&plan)),
            // These are handled by `together`.
            Queued::Order(_) => Share::Reply(unexpected()),
            Queued::Plan(plan) => {
                let promise;
                (transaction, promise) = plan.put_into(transaction);
                Share::Promise(promise)
            }
        };
        reply_bytes += if let Share::Reply(reply) = &share { reply.weight_bytes() } else { 0 };
        if reply_bytes > ANSWERS_LIMIT_BYTES {
            return Err(too_much().into());
        }
        shares.push(share);
    }
    Ok((transaction, shares))
}

/// Runs the queue in an interactive transaction, because job commands read before they write. It is retried
/// until no key it read has changed, so it is long work.
fn together(session: &mut Session, queued: Queue, watched: Vec<Guard>) -> Handled {
    let turn = |queued| match queued {
        Queued::Wrong(reply) => Turn::Known(reply),
        Queued::Revision => Turn::Revision,
        Queued::Session(spec, run, words) => Turn::Known(run_session(session, spec, run, &words)),
        Queued::Plan(plan) if plan.at.is_some() => Turn::Known(session.read(&plan)),
        Queued::Plan(plan) => Turn::Plan(plan),
        Queued::Order(order) => Turn::Order(order),
    };
    let turns = queued.into_iter().map(turn).collect();
    orders::together(session, turns, watched)
}

/// The error for replies that are too large. Nothing was executed, because the transaction had not started.
pub fn too_much() -> Error {
    let limit = ANSWERS_LIMIT_BYTES >> 20;
    let message = format!("the replies take more than {limit} MiB: ask for fewer at once");
    Error::new(Code::TransactionTooLarge, message)
}

fn run_session(
    session: &mut Session,
    spec: &'static Spec,
    run: fn(&mut Call<'_>) -> Reply,
    words: &[Vec<u8>],
) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let reply = run(&mut Call { session, words: &words });
    session.record(spec, &words, &reply);
    reply
}

/// Starts to queue commands.
pub fn multi(call: &mut Call<'_>) -> Handled {
    let session = &mut *call.session;
    Handled::Reply(if session.multi.is_some() {
        Reply::error("ERR MULTI calls can not be nested")
    } else if session.open.is_some() {
        Reply::error("ERR a transaction is open: TXN.COMMIT or TXN.ROLLBACK first")
    } else {
        session.multi = Some(Multi::default());
        super::reply::OK
    })
}

/// Drops the queue and the watched keys.
pub fn discard(call: &mut Call<'_>) -> Handled {
    if call.session.multi.take().is_none() {
        return Handled::Reply(Reply::error("ERR DISCARD without MULTI"));
    }
    call.session.watched.clear();
    Handled::Reply(super::reply::OK)
}

/// Resets a session to its initial state.
pub fn reset(session: &mut Session) {
    session.multi = None;
    session.open = None;
    session.view = None;
    session.watched.clear();
    session.protocol = Protocol::Two;
    session.branch = mainstay::CompactString::const_new(mainstay::MAIN);
    session.cells = session.shared.db.cells();
    session.durability = None;
    session.name.clear();
    session.become_user(session.shared.security.stranger());
}
