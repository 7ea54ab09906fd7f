//! The state of one connection: turns each command into a reply, a transaction, or asynchronous work.
//!
//! ```text
//!   words --table--> Spec --+-- a reply at once
//!                           +-- a transaction, and a function that makes the reply from its receipt
//!                           +-- long work
//!                           +-- not yet: earlier requests have to complete first
//! ```
//!
//! A session knows no socket. The event loop drives many sessions, the command line drives one.

use super::Shared;
use super::arguments::Arguments;
use super::commands;
use super::feeds::{Awaited, Reading};
use super::login::Login;
use super::multi::{Exec, Multi};
use super::once::Once;
use super::plan::{Plan, Promise};
use super::record;
use super::reply::{Protocol, Reply};
use super::request::{Limits, Parsed, Parser};
use super::rights;
use super::table::{self, Asker, Elsewhere, Group, Run, Spec};
use super::tally::Tally;
use super::tasks::Task;
use crate::jobs::Order;
use crate::memory::{Account, Exceeded};
use crate::security::{Denied, Share, User};
use mainstay::limits::ANSWERS_LIMIT_BYTES;
use mainstay::limits::LONG_COMMANDS;
use mainstay::{
    At, CellCommand, Cells, CellsAt, Code, Command, CompactString, Contract, Durability, Error,
    Guard, HashCommand, InteractiveTransaction, KEPT_LIMIT_BYTES, KeyCommand, MAIN, Name,
    OutboxCommand, ReadView, Receipt, RecordCommand, RunCommand, SessionCommand, SmallVec,
    StateCommand, Step, StringCommand, Transaction,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Poll interval of a blocking read outside the event loop.
const PAUSE: Duration = Duration::from_millis(5);

/// Commands of an open transaction that holds more bytes than this are executed by workers.
const LARGE_BYTES: usize = 256 << 10;
/// Requests with more bytes than this go to workers, because they may hold JSON that has to be parsed.
const LONG_BYTES: usize = 1 << 20;
/// The commands that end `MULTI`, whose duration grows with the number of queued commands.
const ENDS_OF_MULTI: [&str; 3] = ["exec", "session.exec", "discard"];

/// Estimated size of a name in a list.
const NAME_BYTES: usize = 64;
/// Estimated size of a record in a page.
const RECORD_BYTES: usize = 1 << 10;
/// Lower bound for the estimated reply size of a session request. The stored answer of a repeated request
/// may be larger than a new answer would be, so only few of them may wait together.
const REQUEST_BYTES: usize = 32 << 10;

/// The state of one connection.
pub struct Session {
    /// The session id.
    pub id: u64,
    /// The address of the client.
    pub peer: String,
    /// The authenticated user; `None` before authentication.
    pub user: Option<Arc<User>>,
    /// Its reservation among the connections of this user.
    pub connection_share: Option<Share>,
    /// Number of failed login attempts.
    pub failures: u32,
    /// Cleared when the connection ends and when its user changes. Subscriptions end then.
    pub alive: Arc<AtomicBool>,
    /// The version of the protocol that the client uses.
    pub protocol: Protocol,
    /// The name that the client gave itself.
    pub name: String,
    /// The client library, and its version.
    pub library: (String, String),
    /// The current branch.
    pub branch: CompactString,
    /// The cells of the current branch.
    pub cells: Cells,
    /// The durability of its writes, if the client has set one.
    pub durability: Option<Durability>,
    /// Commands queued between `MULTI` and `EXEC`.
    pub multi: Option<Multi>,
    /// Guards for the watched keys.
    pub watched: Vec<Guard>,
    /// The time at which `EXEC` began, while it executes the queued commands. All of them see this time.
    pub exec_us: Option<u64>,
    /// The open transaction.
    pub open: Option<Box<InteractiveTransaction>>,
    /// The open transaction while a worker uses it.
    lent: Option<Lent>,
    /// The part of the session that a worker uses to answer a long request.
    away: Option<Arc<Mutex<Away>>>,
    /// True if this is the part that a worker uses. Dropping it does not end the connection.
    pub is_away: bool,
    /// Held by each subscription, so that the reference count gives their number.
    pub watches: Arc<()>,
    /// The open read view of the past.
    pub view: Option<CellsAt>,
    /// The state that all sessions share.
    pub shared: Arc<Shared>,
    /// The account that its memory is charged to.
    pub account: Arc<Account>,
    /// Bytes that this connection has written in the current batch.
    pub batch_bytes: usize,
    /// The counters of its event loop.
    pub tally: Arc<Tally>,
    /// Its last command; `None` if the last request named no known command.
    pub last: Option<&'static Spec>,
}

/// Long work that returns a reply.
pub type Job = Box<dyn FnOnce() -> Reply + Send>;

/// The outcome of a command.
pub enum Handled {
    /// A reply that is ready.
    Reply(Reply),
    /// A transaction, and how to make the reply from its receipt.
    Run(Box<Transaction>, Owed),
    /// Long work that has to run off the event loop.
    Slow(Job),
    /// Credentials to verify on another thread. The verdict goes to [`Session::settle`].
    Login(Box<Login>),
    /// A blocking read: the reply comes with the next changes.
    Wait(Awaited),
    /// A subscription.
    Watch(Box<Reading>),
    /// A task of several steps. The last step gives the reply.
    Task(Task),
    /// The command has to be handled again once all earlier replies are known.
    NotYet,
    /// The last reply of this connection.
    Close(Reply),
}

/// The replies of the connection that are pending in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Nothing.
    Nothing,
    /// Some replies.
    Some,
    /// Too many for adding a read.
    Many,
    /// Too large for adding anything.
    Full,
}

/// A reply that waits for the receipt of a transaction.
pub enum Owed {
    /// The reply of one command.
    Plan(Promise),
    /// The replies of all commands of `EXEC`.
    Exec(Exec),
    /// The reply of a commit.
    Commit,
    /// The reply to a transaction that came in binary form.
    Wire(commands::wire::Receipts),
    /// The reply to a session request, which may be a repeat.
    Once(Box<Once>),
}

impl Owed {
    /// Makes the reply from the receipt.
    pub fn reply(self, receipt: mainstay::Result<Receipt>) -> Reply {
        match self {
            Owed::Plan(promise) => promise.keep(receipt),
            Owed::Exec(exec) => exec.reply(receipt),
            Owed::Commit => match receipt {
                Ok(receipt) => Reply::number(receipt.revision),
                Err(error) => error.into(),
            },
            Owed::Wire(receipts) => receipts.reply(receipt),
            Owed::Once(once) => once.reply(receipt),
        }
    }
}

/// The context in which a command runs: the session, and the words of the request.
pub struct Call<'a> {
    /// The session that runs the command.
    pub session: &'a mut Session,
    /// The command and its arguments.
    pub words: &'a [&'a [u8]],
}

impl<'a> Call<'a> {
    /// Returns the words behind the command.
    pub fn arguments(&self) -> Arguments<'a> {
        Arguments::behind(self.words)
    }

    /// Returns the state that all sessions share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.session.shared
    }

    /// Returns a read view of the branch as it is now, without the internal keys of jobs and locks.
    pub fn moment(&self) -> mainstay::Result<ReadView> {
        let moment = self.shared().db.moment(&self.session.branch, At::Latest)?;
        Ok(moment.hiding(self.shared().jobs.hidden_keys()))
    }

    /// Returns the name of the user, or an empty string before authentication.
    pub fn user_name(&self) -> &str {
        self.session.user.as_ref().map_or("", |user| user.name())
    }

    /// Returns the kinds of state that the user may read.
    pub fn kinds(&self) -> SmallVec<[Contract; 2]> {
        rights::kinds(self.session.user.as_deref())
    }
}

impl Session {
    /// Creates a session on branch `main`.
    pub fn new(shared: &Arc<Shared>, peer: String) -> Session {
        let user = shared.security.stranger();
        let account = shared.memory.connect(Some(&shared.face));
        Session {
            id: shared.next_session(),
            peer,
            account: account.of_user(user.as_ref().map(|user| user.name())),
            user,
            connection_share: None,
            failures: 0,
            alive: Arc::new(AtomicBool::new(true)),
            protocol: Protocol::Two,
            name: String::new(),
            library: Default::default(),
            branch: CompactString::const_new(MAIN),
            cells: shared.db.cells(),
            durability: None,
            multi: None,
            watched: Vec::new(),
            exec_us: None,
            open: None,
            lent: None,
            away: None,
            is_away: false,
            watches: Arc::new(()),
            view: None,
            shared: shared.clone(),
            batch_bytes: 0,
            tally: shared.outside.clone(),
            last: None,
        }
    }

    /// Returns a number that is the same for all connections of a user and differs between users.
    pub fn owner(&self) -> usize {
        self.user.as_ref().map_or(0, |user| Arc::as_ptr(user) as usize)
    }

    /// Returns how long the user is throttled before more input is taken.
    pub fn pace(&self) -> Option<Duration> {
        self.user.as_ref()?.pace.wait(self.shared.db.flush_backlog())
    }

    /// Charges bytes of requests to the rate limit of the user.
    pub fn take_bytes(&self, bytes: usize) {
        if let Some(user) = &self.user {
            user.pace.take(bytes, self.shared.db.flush_backlog());
        }
    }

    /// Returns the group of the last command.
    pub fn group(&self) -> Group {
        self.last.map_or(Group::Connection, |spec| spec.group)
    }

    /// Handles a request. `pending` describes the replies before it that are not known yet.
    pub fn handle(&mut self, words: &[&[u8]], pending: Pending) -> Handled {
        let found = table::find(words).map(|(place, spec)| {
            self.tally.command(place);
            spec
        });
        self.last = found.as_ref().ok().copied();
        let Some(user) = &self.user else { return self.handle_stranger(found, words) };
        let spec = match found {
            Ok(spec) => spec,
            Err(_) if is_http(words) => return Handled::Close(no_browser()),
            Err(reply) => {
                self.spoil();
                return Handled::Reply(reply);
            }
        };
        if self.multi.is_some() && !spec.passes_multi() {
            let reply = self.queue(spec, words);
            if record::is_denial(&reply) {
                self.record(spec, words, &reply);
            }
            return Handled::Reply(reply);
        }
        let handled = match spec.allow(user, words) {
            Ok(()) => self.run(spec, words, pending),
            Err(denied) => {
                self.spoil();
                Handled::Reply(no_permission(spec, &denied))
            }
        };
        if spec.is_audited(words) { self.recorded(spec, words, handled) } else { handled }
    }

    /// Handles a command of an unauthenticated client, which may only log in, reset or quit.
    fn handle_stranger(&mut self, found: Result<&'static Spec, Reply>, words: &[&[u8]]) -> Handled {
        match found {
            Ok(spec @ Spec { run: Run::Control(run), .. }) if spec.is_for_strangers() => {
                run(&mut Call { session: self, words })
            }
            _ => Handled::Reply(no_user()),
        }
    }

    fn run(&mut self, spec: &'static Spec, words: &[&[u8]], pending: Pending) -> Handled {
        if self.open.is_some() && !spec.is_of_transactions() {
            return Handled::Reply(not_inside(spec));
        }
        if let (Run::Whole(_, run), None) = (spec.run, &self.open) {
            return self.elsewhere(run, words, pending);
        }
        let user = self.user.as_ref().map_or("", |user| user.name());
        if let Some(plan) = spec.run.plan(&Asker { shared: &self.shared, user }, words) {
            return match plan.and_then(|plan| self.allowed(spec, plan)) {
                Ok(plan) => self.planned(spec, plan, pending),
                Err(reply) => Handled::Reply(reply),
            };
        }
        match spec.run {
            Run::Alone(read) => match read(words).and_then(|plan| self.allowed(spec, plan)) {
                Ok(plan) => self.data(plan, pending),
                Err(reply) => Handled::Reply(reply),
            },
            Run::Order(read) => match read(words).and_then(|order| self.permitted(spec, order)) {
                Ok(order) => self.order(order, pending),
                Err(reply) => Handled::Reply(reply),
            },
            Run::Session(run) => Handled::Reply(run(&mut Call { session: self, words })),
            Run::Direct(run) => run(&mut Call { session: self, words }, pending),
            _ if pending != Pending::Nothing => Handled::NotYet,
            Run::Settled(run) => Handled::Reply(run(&mut Call { session: self, words })),
            Run::Revision => Handled::Reply(Reply::number(match &self.open {
                Some(open) => open.revision(),
                None => self.shared.db.revision(),
            })),
            Run::Control(run) => run(&mut Call { session: self, words }),
            // These have plans.
            Run::Data(_) | Run::Kept(_) | Run::Sent(_) | Run::Pieces(..) | Run::Whole(..) => {
                Handled::Reply(super::plan::unexpected())
            }
            Run::Change(read) => {
                match read(self, words).and_then(|plan| self.allowed(spec, plan)) {
                    Ok(plan) => Handled::Slow(self.changing(plan)),
                    Err(reply) => Handled::Reply(reply),
                }
            }
            Run::Slow(run) => match run(&mut Call { session: self, words }) {
                Ok(job) => Handled::Slow(job),
                Err(reply) => Handled::Reply(reply),
            },
        }
    }

    /// Runs a command outside all transactions.
    fn elsewhere(&mut self, run: Elsewhere, words: &[&[u8]], pending: Pending) -> Handled {
        if pending != Pending::Nothing {
            return Handled::NotYet;
        }
        let mut call = Call { session: self, words };
        match run {
            Elsewhere::Settled(run) => Handled::Reply(run(&mut call)),
            Elsewhere::Control(run) => run(&mut call),
            Elsewhere::Slow(run) => run(&mut call).map_or_else(Handled::Reply, Handled::Slow),
        }
    }

    /// Answers one request, and blocks until the reply is known.
    pub fn answer(&mut self, words: &[&[u8]]) -> Reply {
        match self.handle(words, Pending::Nothing) {
            Handled::Reply(reply) | Handled::Close(reply) => reply,
            Handled::Run(transaction, owed) => owed.reply(self.shared.db.execute(*transaction)),
            Handled::Slow(job) => {
                let reply = job();
                self.take_back();
                reply
            }
            Handled::Login(login) => match self.log_in_here(*login) {
                Handled::Reply(reply) | Handled::Close(reply) => reply,
                _ => Reply::error("ERR a login waits for itself: a fault of the server"),
            },
            Handled::Wait(mut reading) => loop {
                if let Some(reply) = reading.look(self.shared.ticks_us()) {
                    return reply;
                }
                if !reading.is_at_it() {
                    let _ = self.shared.db.wait_for(self.shared.db.revision() + 1, PAUSE);
                }
            },
            Handled::Task(task) => task.wait(),
            Handled::Watch(_) => Reply::error("ERR FEED.WATCH is for connections: see FEED.READ"),
            Handled::NotYet => {
                Reply::error("ERR a command waits for itself: a fault of the server")
            }
        }
    }

    /// Returns the memory of the commands queued for `EXEC` and of the keys watched for them.
    pub fn gathered_bytes(&self) -> usize {
        let watched = self.watched.capacity() * size_of::<Guard>();
        self.multi.as_ref().map_or(0, Multi::bytes) + watched
    }

    /// Aborts an unfinished transaction. The next command on it reports the reason. Returns whether one was
    /// aborted.
    pub fn give_up_gathered(&mut self, exceeded: &Exceeded) -> bool {
        let mut gave_up = false;
        if let Some(multi) = self.multi.as_mut().filter(|multi| multi.bytes() > 0) {
            multi.give_up(format!("TOOLARGE {exceeded}"));
            gave_up = true;
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.held_bytes() > 0) {
            open.give_up(Error::new(Code::TransactionTooLarge, exceeded.to_string()));
            gave_up = true;
        }
        gave_up
    }

    fn queue(&mut self, spec: &'static Spec, words: &[&[u8]]) -> Reply {
        let (Some(multi), Some(user)) = (&mut self.multi, &self.user) else { return no_user() };
        multi.push(user, &self.shared, spec, words)
    }

    /// Returns the plan if the user may execute all of it.
    #[inline]
    pub fn allowed(&self, spec: &Spec, mut plan: Plan) -> Result<Plan, Reply> {
        self.allow(spec, &mut plan)?;
        Ok(plan)
    }

    fn allow(&self, spec: &Spec, plan: &mut Plan) -> Result<(), Reply> {
        plan.check_size()?;
        let user = self.user.as_ref().ok_or_else(no_user)?;
        spec.permit(user, plan).map_err(|denied| no_permission(spec, &denied))?;
        if spec.group == Group::Sessions {
            let Shared { security, db, .. } = &*self.shared;
            let admitted = security.admit_sessions(user, db, plan.commands.iter());
            admitted.map_err(|error| Reply::error(format!("UNAVAILABLE {error}")))?;
        }
        Ok(())
    }

    /// Returns the job command if the user may execute it.
    fn permitted(&self, spec: &Spec, order: Order) -> Result<Order, Reply> {
        let user = self.user.as_ref().ok_or_else(no_user)?;
        match order.allow(user, self.shared.jobs.keys()) {
            Ok(()) => Ok(order),
            Err(denied) => Err(no_permission(spec, &denied)),
        }
    }

    /// Returns the limits for requests, which are small before authentication.
    pub fn limits(&self) -> &Limits {
        match self.user {
            Some(_) => &self.shared.settings.request,
            None => &self.shared.stranger,
        }
    }

    /// Aborts `MULTI` after a rejected command: `EXEC` will fail.
    fn spoil(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.spoil();
        }
    }

    /// Runs a plan as its command demands. Outside a transaction, some plans run in several pieces.
    fn planned(&mut self, spec: &Spec, plan: Plan, pending: Pending) -> Handled {
        match spec.run {
            Run::Pieces(_, go_on) if self.open.is_none() => match pending {
                Pending::Nothing => {
                    let db = self.shared.db.clone();
                    let empty = self.transaction();
                    Handled::Task(Task::new(go_on(db, empty, plan)))
                }
                _ => Handled::NotYet,
            },
            _ if self.open.is_some() && !plan.stands_in_open() => Handled::Reply(not_inside(spec)),
            _ => self.data(plan, pending),
        }
    }

    /// Runs a plan in the open transaction, at once, or in the next batch.
    fn data(&mut self, plan: Plan, pending: Pending) -> Handled {
        if plan.at.is_none() && self.open.is_some() {
            let is_long =
                plan.takes_a_while() || self.rewrites_much(&self.branch, plan.commands.iter());
            return match (is_long, pending) {
                (false, _) => Handled::Reply(self.inside(plan)),
                (true, Pending::Nothing) => self.inside_elsewhere(plan),
                (true, _) => Handled::NotYet,
            };
        }
        if plan.takes_a_while() {
            return match pending {
                Pending::Nothing => Handled::Slow(self.reading(plan)),
                _ => Handled::NotYet,
            };
        }
        if plan.pages_at_writer() || self.rewrites_much(&self.branch, plan.commands.iter()) {
            return match pending {
                Pending::Nothing => {
                    let (transaction, promise) = plan.put_into(self.transaction());
                    let execute = self.execution(transaction);
                    Handled::Slow(Box::new(move || promise.keep(execute())))
                }
                _ => Handled::NotYet,
            };
        }
        let is_at_once = plan.at.is_some() || plan.is_read() && pending == Pending::Nothing;
        if is_at_once {
            // Many values together may be large. A worker reads them then.
            let read = plan.read_within(&self.shared.db, &self.branch, LARGE_BYTES);
            return match (read, pending) {
                (Some(reply), _) => Handled::Reply(reply),
                (None, Pending::Nothing) => Handled::Slow(self.reading(plan)),
                (None, _) => Handled::NotYet,
            };
        }
        match (plan.is_read(), pending) {
            (true, Pending::Many) | (_, Pending::Full) => return Handled::NotYet,
            _ => {}
        }
        let (transaction, promise) = plan.put_into(self.transaction());
        Handled::Run(Box::new(transaction), Owed::Plan(promise))
    }

    /// Runs a job command in the open transaction, or as a task.
    fn order(&mut self, mut order: Order, pending: Pending) -> Handled {
        if let Some(open) = &mut self.open {
            return Handled::Reply(if order.waits() {
                commands::feed::no_waiting()
            } else {
                // A value that is known only at commit is not known yet.
                commands::jobs::shown(
                    self.shared.jobs.run_in(open, order).map(|outcome| outcome.at(0)),
                )
            });
        }
        if pending != Pending::Nothing {
            return Handled::NotYet;
        }
        if !self.shared.waits() {
            order.waits_no_longer();
        }
        order.waits_at_most(Duration::from_millis(self.shared.settings.wait_limit_ms));
        let waits = order.waits();
        let desk = self.shared.jobs.clone();
        let branch = self.branch.clone();
        let answering = async move { commands::jobs::shown(desk.run(&branch, order).await) };
        Handled::Task(if waits {
            Task::waiting(answering, Reply::Nil)
        } else {
            Task::new(answering)
        })
    }

    /// Estimates the size of a transaction's answers in bytes, from the present sizes of its cells and
    /// records and the sizes of earlier writes in the batch.
    pub fn weigh(&self, transaction: &Transaction, written: Written) -> usize {
        let steps = self.weigh_steps(transaction, written);
        match transaction.session() {
            // The answer may be the stored one of an earlier attempt, whatever the present state is.
            Some(_) => steps.clamp(REQUEST_BYTES, KEPT_LIMIT_BYTES),
            None => steps,
        }
    }

    fn weigh_steps(&self, transaction: &Transaction, written: Written) -> usize {
        let steps = transaction.steps.iter().chain(transaction.otherwise.iter().flatten());
        let weight = |step: &Step| match &step.command {
            Command::Cell(CellCommand::List { limit, .. })
            | Command::Key(KeyCommand::Names { limit, .. }) => limit.saturating_mul(NAME_BYTES),
            // Each version may be as large as the present value.
            Command::Cell(CellCommand::History { name, limit, .. }) => {
                let one = self.size_bytes(&transaction.branch, name).max(written.largest_bytes);
                limit.saturating_mul(one.max(NAME_BYTES)).min(ANSWERS_LIMIT_BYTES)
            }
            Command::Record(RecordCommand::History { limit, .. }) => {
                limit.saturating_mul(RECORD_BYTES)
            }
            Command::Record(RecordCommand::Scan { limit, .. }) => {
                limit.saturating_mul(RECORD_BYTES)
            }
            Command::Run(RunCommand::List { limit, .. }) => limit.saturating_mul(NAME_BYTES),
            Command::Run(RunCommand::Fetch { limit, .. } | RunCommand::Alerts { limit, .. })
            | Command::Outbox(
                OutboxCommand::Claim { limit, .. } | OutboxCommand::Dead { limit, .. },
            ) => limit.saturating_mul(RECORD_BYTES),
            Command::State(command) => self.weigh_states(&transaction.branch, command),
            Command::Session(
                SessionCommand::Pending { limit, .. }
                | SessionCommand::Retry { limit, .. }
                | SessionCommand::List { limit, .. },
            ) => limit.saturating_mul(RECORD_BYTES),
            command => match answered(command) {
                Some(Held::Cell(name)) => {
                    self.size_bytes(&transaction.branch, name).max(written.largest_bytes)
                }
                Some(Held::Record(key)) => {
                    let now = self.shared.db.record_bytes(&transaction.branch, key);
                    now.unwrap_or_default().saturating_add(written.all_bytes)
                }
                None => 0,
            },
        };
        steps.map(weight).fold(0, usize::saturating_add)
    }

    /// Estimates the answer size of a command on keyed state, in bytes.
    fn weigh_states(&self, branch: &str, command: &StateCommand) -> usize {
        match command {
            StateCommand::Look { space, keys } => {
                self.shared.db.state_bytes(branch, space, keys).unwrap_or_default()
            }
            StateCommand::List { limit, .. } | StateCommand::Spaces { limit, .. } => {
                limit.saturating_mul(NAME_BYTES)
            }
            StateCommand::Scan { limit, .. }
            | StateCommand::Items { limit, .. }
            | StateCommand::Waiting { limit, .. } => limit.saturating_mul(RECORD_BYTES),
            StateCommand::Dump { limit_bytes, .. } => *limit_bytes,
            _ => 0,
        }
    }

    /// Returns the present size of a cell in bytes.
    fn size_bytes(&self, branch: &str, name: &Name) -> usize {
        let size = |cells: &Cells| cells.read_text(name.as_str(), <[u8]>::len);
        let found = if self.branch == branch {
            size(&self.cells)
        } else {
            self.shared.db.branch(branch).and_then(|branch| size(&branch.cells()))
        };
        found.ok().flatten().unwrap_or_default()
    }

    /// Returns a job that runs a plan for no particular branch.
    fn changing(&self, plan: Plan) -> Job {
        let (db, (transaction, promise)) =
            (self.shared.db.clone(), plan.put_into(Transaction::new()));
        Box::new(move || promise.keep(db.execute(transaction)))
    }

    /// Returns an empty transaction with the branch and durability of this session.
    pub fn transaction(&self) -> Transaction {
        let mut transaction = Transaction::on(&self.branch);
        transaction.durability = self.durability;
        transaction
    }

    fn inside(&mut self, plan: Plan) -> Reply {
        match &mut self.open {
            Some(open) => run_inside(open, plan, &self.shared),
            None => commands::transactions::none_open(),
        }
    }

    /// Runs a plan in the open transaction on a worker.
    fn inside_elsewhere(&mut self, plan: Plan) -> Handled {
        let shared = self.shared.clone();
        self.lend(move |open| run_inside(open, plan, &shared))
            .unwrap_or_else(|| Handled::Reply(commands::transactions::none_open()))
    }

    /// Lends the open transaction to long work off the event loop. Returns `None` if none is open.
    pub fn lend(
        &mut self,
        work: impl FnOnce(&mut InteractiveTransaction) -> Reply + Send + 'static,
    ) -> Option<Handled> {
        let lent: Lent = Arc::new(Mutex::new(Some(self.open.take()?)));
        self.lent = Some(lent.clone());
        Some(Handled::Slow(Box::new(move || match lent.lock().as_mut() {
            Some(open) => work(open),
            None => commands::transactions::none_open(),
        })))
    }

    /// Returns whether a request of `bytes` bytes is so expensive to parse or to prepare that a worker
    /// handles it.
    #[inline]
    pub fn is_long(&self, words: &[&[u8]], bytes: usize) -> bool {
        let is_long = words.len() > LONG_COMMANDS || bytes > LONG_BYTES;
        let is_alone = self.multi.is_none() && self.open.is_none();
        (is_long || !is_alone) && self.goes_to_workers(words, bytes, is_long)
    }

    fn goes_to_workers(&self, words: &[&[u8]], bytes: usize, is_long: bool) -> bool {
        // A transaction copies its contents from time to time.
        let is_large = |open: &InteractiveTransaction| bytes + open.held_bytes() > LARGE_BYTES;
        let multi = self.multi.as_ref();
        let is_candidate = is_long
            || self.open.as_deref().is_some_and(is_large)
            || multi.is_some_and(Multi::is_long);
        if !is_candidate || self.user.is_none() {
            return false;
        }
        let Ok((_, spec)) = table::find(words) else { return false };
        match multi {
            Some(multi) if spec.passes_multi() => multi.is_long() && ends_multi(spec),
            Some(_) => is_long,
            None => spec.goes_to_workers,
        }
    }

    /// Returns a job that answers a request, given as bytes, on a worker. All state that the request may
    /// change moves to the worker and comes back with the reply.
    pub fn answer_away(&mut self, words: &[&[u8]], bytes: Vec<u8>) -> Job {
        self.last = table::find(words).ok().map(|(_, spec)| spec);
        let ends_multi = self.last.is_some_and(ends_multi);
        let mut session = Session::new(&self.shared, self.peer.clone());
        session.id = self.id;
        session.is_away = true;
        session.name = self.name.clone();
        session.library = self.library.clone();
        session.user = self.user.clone();
        session.account = self.account.clone();
        session.tally = self.tally.clone();
        session.protocol = self.protocol;
        session.branch = self.branch.clone();
        session.cells = self.cells.clone();
        session.durability = self.durability;
        session.watches = self.watches.clone();
        session.exchange(self);
        let away = Arc::new(Mutex::new(Away { session, ends_multi, is_answered: false }));
        self.away = Some(away.clone());
        Box::new(move || {
            let mut away = away.lock();
            away.is_answered = true;
            away.answer(&bytes)
        })
    }

    /// Returns whether a worker has the transaction of this session.
    pub fn is_at_worker(&self) -> bool {
        self.away.is_some() || self.lent.is_some()
    }

    /// Handles a request that no worker took: aborts the transaction it was part of, because that cannot
    /// commit without it.
    fn give_up_unanswered(&mut self, ends_multi: bool) {
        self.spoil();
        if ends_multi {
            self.multi = None;
            self.watched.clear();
        }
        if let Some(open) = &mut self.open {
            let message =
                "a command of the transaction was refused: too much long work is under way";
            open.give_up(Error::new(Code::QueueFull, message));
        }
    }

    /// Swaps all state that a request may change.
    fn exchange(&mut self, other: &mut Session) {
        std::mem::swap(&mut self.multi, &mut other.multi);
        std::mem::swap(&mut self.open, &mut other.open);
        std::mem::swap(&mut self.view, &mut other.view);
        std::mem::swap(&mut self.watched, &mut other.watched);
        // Queued commands about the connection itself run where the transaction is.
        std::mem::swap(&mut self.name, &mut other.name);
        std::mem::swap(&mut self.library, &mut other.library);
        std::mem::swap(&mut self.branch, &mut other.branch);
        std::mem::swap(&mut self.cells, &mut other.cells);
        std::mem::swap(&mut self.durability, &mut other.durability);
    }

    /// Takes the state back from the worker when its work is done.
    pub fn take_back(&mut self) {
        if let Some(away) = self.away.take() {
            let mut away = away.lock();
            self.exchange(&mut away.session);
            if !away.is_answered {
                self.give_up_unanswered(away.ends_multi);
            }
        }
        if let Some(lent) = self.lent.take() {
            self.open = lent.lock().take();
        }
    }

    /// Executes a read plan on published state, of the present or the past.
    pub fn read(&self, plan: &Plan) -> Reply {
        plan.read(&self.shared.db, &self.branch)
    }

    /// Returns a job that does the same.
    fn reading(&self, plan: Plan) -> Job {
        let db = self.shared.db.clone();
        let branch = self.branch.clone();
        Box::new(move || plan.read(&db, &branch))
    }
}

fn ends_multi(spec: &Spec) -> bool {
    ENDS_OF_MULTI.contains(&spec.name)
}

/// The part of a session that answers a long request on a worker.
struct Away {
    session: Session,
    /// True if the request ends `MULTI`.
    ends_multi: bool,
    /// False if no worker took the request.
    is_answered: bool,
}

impl Away {
    fn answer(&mut self, bytes: &[u8]) -> Reply {
        let shared = self.session.shared.clone();
        let mut parser = Parser::default();
        loop {
            match parser.next(bytes, &shared.settings.request) {
                Ok(Parsed::Unfinished) => {}
                Ok(Parsed::Request(words, _)) => return self.session.answer(&words),
                _ => {
                    return Reply::error("ERR a request changed on its way: a fault of the server");
                }
            }
        }
    }
}

/// An open transaction lent to long work.
type Lent = Arc<Mutex<Option<Box<InteractiveTransaction>>>>;

fn run_inside(open: &mut InteractiveTransaction, plan: Plan, shared: &Shared) -> Reply {
    let answers: mainstay::Result<_> =
        plan.commands.into_iter().map(|command| open.run(command)).collect();
    // All commands of a transaction see the same time.
    let now = open.now().unwrap_or_else(|| shared.now());
    plan.shape.make(answers.map(|answers| (answers, now)))
}

/// Sizes of the words that a connection has written in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// The largest word, an upper bound for the size of a cell.
    pub largest_bytes: usize,
    /// Total size of all words, an upper bound for the growth of a record.
    pub all_bytes: usize,
}

impl Written {
    /// Adds the words of a request.
    pub fn add(&mut self, words: &[&[u8]]) {
        for word in words {
            self.largest_bytes = self.largest_bytes.max(word.len());
            self.all_bytes = self.all_bytes.saturating_add(word.len());
        }
    }
}

/// The cell or record whose contents a command returns.
enum Held<'a> {
    Cell(&'a Name),
    Record(&'a Name),
}

fn answered(command: &Command) -> Option<Held<'_>> {
    match command {
        Command::Cell(CellCommand::Get { name })
        | Command::String(
            StringCommand::Get { name }
            | StringCommand::Set { name, .. }
            | StringCommand::Swap { name, .. }
            | StringCommand::Take { name }
            | StringCommand::Touch { name, .. },
        ) => Some(Held::Cell(name)),
        // A read of no fields only tests whether the record exists.
        Command::Record(RecordCommand::Get { fields: Some(fields), .. }) if fields.is_empty() => {
            None
        }
        Command::Hash(HashCommand::Get { key, .. })
        | Command::Record(RecordCommand::Get { key, .. }) => Some(Held::Record(key)),
        _ => None,
    }
}

/// Returns whether the request comes from a browser. Input that a web page makes a browser send must not be
/// executed as commands.
fn is_http(words: &[&[u8]]) -> bool {
    let first = words.first().copied().unwrap_or_default();
    [b"post".as_slice(), b"put", b"delete", b"options", b"patch", b"head", b"host:", b"origin:"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}

fn no_browser() -> Reply {
    Reply::error(
        "ERR this is the port of Redis clients, and this was HTTP: that has a port of its own",
    )
}

/// The error for an unauthenticated client, as in Redis.
pub fn no_user() -> Reply {
    Reply::error("NOAUTH Authentication required.")
}

/// The error for a command that cannot run in an open transaction.
pub fn not_inside(spec: &Spec) -> Reply {
    let name = spec.name.to_uppercase();
    Reply::error(format!("ERR {name} is not for inside a transaction"))
}

/// The error for a missing permission, as in Redis, with the permission that is missing.
pub fn no_permission(spec: &Spec, denied: &Denied) -> Reply {
    let user = denied.user();
    let name = spec.name;
    Reply::error(format!(
        "NOPERM User {user} has no permissions to run the '{name}' command: {denied}"
    ))
}
