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
use super::audit;
use super::blocking_reads::{BlockingRead, FeedRead};
use super::commands;
use super::counters::LoopCounters;
use super::login::Login;
use super::multi::{Multi, PendingExec};
use super::permissions;
use super::plan::{Plan, ReplyBuilder};
use super::reply::{Protocol, Reply};
use super::request::{Limits, Parsed, Parser};
use super::session_request::SessionReply;
use super::table::{self, Group, Handler, OutsideTransaction, PlanContext, Spec};
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
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Commands of an open transaction that holds more bytes than this are executed by workers.
const LARGE_BYTES: usize = 256 << 10;
/// Requests with more bytes than this go to workers, because they may hold JSON that has to be parsed.
const LONG_REQUEST_BYTES: usize = 1 << 20;
/// The commands that end `MULTI`, whose duration grows with the number of queued commands.
const MULTI_ENDING_COMMANDS: [&str; 3] = ["exec", "session.exec", "discard"];

/// Estimated size of a name in a list.
const NAME_BYTES: usize = 64;
/// Estimated size of a record in a page.
const RECORD_BYTES: usize = 1 << 10;
/// Lower bound for the estimated reply size of a session request. The stored answer of a repeated request
/// may be larger than a new answer would be, so only few of them may wait together.
const REQUEST_BYTES: usize = 32 << 10;

/// The state of one connection.
pub struct ConnectionState {
    /// The session id.
    pub id: u64,
    /// The address of the client.
    pub peer: String,
    /// The authenticated user; `None` before authentication.
    pub user: Option<Arc<User>>,
    /// Its reservation among the connections of this user.
    pub connection_reservation: Option<Share>,
    /// Number of failed login attempts.
    pub login_failures: u32,
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
    pub watch_guards: Vec<Guard>,
    /// The time at which `EXEC` began, while it executes the queued commands. All of them see this time.
    pub exec_time_us: Option<u64>,
    /// The open transaction.
    pub open_transaction: Option<Box<InteractiveTransaction>>,
    /// The open transaction while a worker uses it.
    transaction_at_worker: Option<TransactionAtWorker>,
    /// The part of the session that a worker uses to answer a long request.
    worker_part: Option<Arc<Mutex<WorkerPart>>>,
    /// True if this is the part that a worker uses. Dropping it does not end the connection.
    pub is_worker_part: bool,
    /// Held by each subscription, so that the reference count gives their number.
    pub subscriptions: Arc<()>,
    /// The open read view of the past.
    pub past_view: Option<CellsAt>,
    /// The state that all sessions share.
    pub shared: Arc<Shared>,
    /// The account that its memory is charged to.
    pub account: Arc<Account>,
    /// Bytes that this connection has written in the current batch.
    pub batch_write_bytes: usize,
    /// The counters of its event loop.
    pub counters: Arc<LoopCounters>,
    /// Its last command; `None` if the last request named no known command.
    pub last_command: Option<&'static Spec>,
}

/// Long work that returns a reply.
pub type WorkerJob = Box<dyn FnOnce() -> Reply + Send>;

/// The outcome of a command.
pub enum CommandOutcome {
    /// A reply that is ready.
    Reply(Reply),
    /// A transaction, and how to make the reply from its receipt.
    Transaction(Box<Transaction>, PendingReply),
    /// Long work that has to run off the event loop.
    LongWork(WorkerJob),
    /// Credentials to verify on another thread. The verdict goes to [`ConnectionState::complete_login`].
    Login(Box<Login>),
    /// A blocking read: the reply comes with the next changes.
    BlockingRead(BlockingRead),
    /// A subscription.
    Subscription(Box<FeedRead>),
    /// A task of several steps. The last step gives the reply.
    Task(Task),
    /// The command has to be handled again once all earlier replies are known.
    Deferred,
    /// The last reply of this connection.
    Close(Reply),
}

/// The replies of the connection that are pending in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchLoad {
    /// Nothing.
    Empty,
    /// Some replies.
    Some,
    /// Too many for adding a read.
    Many,
    /// Too large for adding anything.
    Full,
}

/// A reply that waits for the receipt of a transaction.
pub enum PendingReply {
    /// The reply of one command.
    Plan(ReplyBuilder),
    /// The replies of all commands of `EXEC`.
    Exec(PendingExec),
    /// The reply of a commit.
    Commit,
    /// The reply to a transaction that came in binary form.
    Wire(commands::wire::ReceiptFormat),
    /// The reply to a session request, which may be a repeat.
    SessionRequest(Box<SessionReply>),
}

impl PendingReply {
    /// Makes the reply from the receipt.
    pub fn reply(self, receipt: mainstay::Result<Receipt>) -> Reply {
        match self {
            PendingReply::Plan(builder) => builder.build(receipt),
            PendingReply::Exec(exec) => exec.reply(receipt),
            PendingReply::Commit => match receipt {
                Ok(receipt) => Reply::number(receipt.revision),
                Err(error) => error.into(),
            },
            PendingReply::Wire(receipts) => receipts.reply(receipt),
            PendingReply::SessionRequest(session_reply) => session_reply.reply(receipt),
        }
    }
}

/// The context in which a command runs: the session, and the words of the request.
pub struct CommandContext<'a> {
    /// The session that runs the command.
    pub state: &'a mut ConnectionState,
    /// The command and its arguments.
    pub words: &'a [&'a [u8]],
}

impl<'a> CommandContext<'a> {
    /// Returns the words behind the command.
    pub fn arguments(&self) -> Arguments<'a> {
        Arguments::after_first(self.words)
    }

    /// Returns the state that all sessions share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.state.shared
    }

    /// Returns a read view of the branch as it is now, without the internal keys of jobs and locks.
    pub fn read_view(&self) -> mainstay::Result<ReadView> {
        let read_view = self.shared().db.moment(&self.state.branch, At::Latest)?;
        Ok(read_view.hiding(self.shared().jobs.hidden_keys()))
    }

    /// Returns the name of the user, or an empty string before authentication.
    pub fn user_name(&self) -> &str {
        self.state.user.as_ref().map_or("", |user| user.name())
    }

    /// Returns the kinds of state that the user may read.
    pub fn kinds(&self) -> SmallVec<[Contract; 2]> {
        permissions::readable_kinds(self.state.user.as_deref())
    }
}

impl ConnectionState {
    /// Creates a session on branch `main`.
    pub fn new(shared: &Arc<Shared>, peer: String) -> ConnectionState {
        let user = shared.security.stranger();
        let account = shared.memory.connect(Some(&shared.front_end_budget));
        ConnectionState {
            id: shared.next_connection_id(),
            peer,
            account: account.of_user(user.as_ref().map(|user| user.name())),
            user,
            connection_reservation: None,
            login_failures: 0,
            alive: Arc::new(AtomicBool::new(true)),
            protocol: Protocol::Two,
            name: String::new(),
            library: Default::default(),
            branch: CompactString::const_new(MAIN),
            cells: shared.db.cells(),
            durability: None,
            multi: None,
            watch_guards: Vec::new(),
            exec_time_us: None,
            open_transaction: None,
            transaction_at_worker: None,
            worker_part: None,
            is_worker_part: false,
            subscriptions: Arc::new(()),
            past_view: None,
            shared: shared.clone(),
            batch_write_bytes: 0,
            counters: shared.detached_counters.clone(),
            last_command: None,
        }
    }

    /// Returns a number that is the same for all connections of a user and differs between users.
    pub fn user_key(&self) -> usize {
        self.user.as_ref().map_or(0, |user| Arc::as_ptr(user) as usize)
    }

    /// Returns how long the user is throttled before more input is taken.
    pub fn throttle_delay(&self) -> Option<Duration> {
        self.user.as_ref()?.pace.wait(self.shared.db.flush_backlog())
    }

    /// Charges bytes of requests to the rate limit of the user.
    pub fn charge_bytes(&self, bytes: usize) {
        if let Some(user) = &self.user {
            user.pace.take(bytes, self.shared.db.flush_backlog());
        }
    }

    /// Returns the group of the last command.
    pub fn group(&self) -> Group {
        self.last_command.map_or(Group::Connection, |spec| spec.group)
    }

    /// Handles a request. `pending` describes the replies before it that are not known yet.
    pub fn handle(&mut self, words: &[&[u8]], load: BatchLoad) -> CommandOutcome {
        let lookup = table::find(words).map(|(position, spec)| {
            self.counters.count_command(position);
            spec
        });
        self.last_command = lookup.as_ref().ok().copied();
        let Some(user) = &self.user else { return self.handle_unauthenticated(lookup, words) };
        let spec = match lookup {
            Ok(spec) => spec,
            Err(_) if is_http(words) => return CommandOutcome::Close(http_not_supported()),
            Err(reply) => {
                self.abort_multi();
                return CommandOutcome::Reply(reply);
            }
        };
        if self.multi.is_some() && !spec.bypasses_multi_queue() {
            let reply = self.queue(spec, words);
            if audit::is_permission_error(&reply) {
                self.audit(spec, words, &reply);
            }
            return CommandOutcome::Reply(reply);
        }
        let outcome = match spec.authorize(user, words) {
            Ok(()) => self.run_command(spec, words, load),
            Err(denied) => {
                self.abort_multi();
                CommandOutcome::Reply(no_permission(spec, &denied))
            }
        };
        if spec.is_audited(words) { self.audit_outcome(spec, words, outcome) } else { outcome }
    }

    /// Handles a command of an unauthenticated client, which may only log in, reset or quit.
    fn handle_unauthenticated(
        &mut self,
        lookup: Result<&'static Spec, Reply>,
        words: &[&[u8]],
    ) -> CommandOutcome {
        match lookup {
            Ok(spec @ Spec { handler: Handler::Control(run), .. })
                if spec.is_allowed_unauthenticated() =>
            {
                run(&mut CommandContext { state: self, words })
            }
            _ => CommandOutcome::Reply(not_authenticated()),
        }
    }

    fn run_command(
        &mut self,
        spec: &'static Spec,
        words: &[&[u8]],
        load: BatchLoad,
    ) -> CommandOutcome {
        if self.open_transaction.is_some() && !spec.can_be_in_transaction() {
            return CommandOutcome::Reply(not_allowed_in_transaction(spec));
        }
        if let (Handler::PlanInTransaction(_, run), None) = (spec.handler, &self.open_transaction) {
            return self.run_outside_transaction(run, words, load);
        }
        let user = self.user.as_ref().map_or("", |user| user.name());
        if let Some(plan) = spec.handler.plan(&PlanContext { shared: &self.shared, user }, words) {
            return match plan.and_then(|plan| self.authorize(spec, plan)) {
                Ok(plan) => self.run_plan(spec, plan, load),
                Err(reply) => CommandOutcome::Reply(reply),
            };
        }
        match spec.handler {
            Handler::OwnTransaction(read) => {
                match read(words).and_then(|plan| self.authorize(spec, plan)) {
                    Ok(plan) => self.execute_plan(plan, load),
                    Err(reply) => CommandOutcome::Reply(reply),
                }
            }
            Handler::JobRequest(read) => {
                match read(words).and_then(|request| self.authorize_job(spec, request)) {
                    Ok(request) => self.run_job_request(request, load),
                    Err(reply) => CommandOutcome::Reply(reply),
                }
            }
            Handler::Immediate(run) => {
                CommandOutcome::Reply(run(&mut CommandContext { state: self, words }))
            }
            Handler::Pipelined(run) => run(&mut CommandContext { state: self, words }, load),
            _ if load != BatchLoad::Empty => CommandOutcome::Deferred,
            Handler::Sequenced(run) => {
                CommandOutcome::Reply(run(&mut CommandContext { state: self, words }))
            }
            Handler::Revision => {
                CommandOutcome::Reply(Reply::number(match &self.open_transaction {
                    Some(open) => open.revision(),
                    None => self.shared.db.revision(),
                }))
            }
            Handler::Control(run) => run(&mut CommandContext { state: self, words }),
            // These have plans.
            Handler::Plan(_)
            | Handler::JobPlan(_)
            | Handler::OutboxPlan(_)
            | Handler::PlanInPieces(..)
            | Handler::PlanInTransaction(..) => {
                CommandOutcome::Reply(super::plan::unexpected_answer())
            }
            Handler::BranchPlan(read) => {
                match read(self, words).and_then(|plan| self.authorize(spec, plan)) {
                    Ok(plan) => CommandOutcome::LongWork(self.branch_change_job(plan)),
                    Err(reply) => CommandOutcome::Reply(reply),
                }
            }
            Handler::LongWork(run) => match run(&mut CommandContext { state: self, words }) {
                Ok(job) => CommandOutcome::LongWork(job),
                Err(reply) => CommandOutcome::Reply(reply),
            },
        }
    }

    /// Runs a command outside all transactions.
    fn run_outside_transaction(
        &mut self,
        run: OutsideTransaction,
        words: &[&[u8]],
        load: BatchLoad,
    ) -> CommandOutcome {
        if load != BatchLoad::Empty {
            return CommandOutcome::Deferred;
        }
        let mut context = CommandContext { state: self, words };
        match run {
            OutsideTransaction::Sequenced(run) => CommandOutcome::Reply(run(&mut context)),
            OutsideTransaction::Control(run) => run(&mut context),
            OutsideTransaction::LongWork(run) => {
                run(&mut context).map_or_else(CommandOutcome::Reply, CommandOutcome::LongWork)
            }
        }
    }

    /// Answers one request, and blocks until the reply is known.
    pub fn answer_blocking(&mut self, words: &[&[u8]]) -> Reply {
        match self.handle(words, BatchLoad::Empty) {
            CommandOutcome::Reply(reply) | CommandOutcome::Close(reply) => reply,
            CommandOutcome::Transaction(transaction, pending_reply) => {
                pending_reply.reply(self.shared.db.execute(*transaction))
            }
            CommandOutcome::LongWork(job) => {
                let reply = job();
                self.restore_from_worker();
                reply
            }
            CommandOutcome::Login(login) => match self.log_in_blocking(*login) {
                CommandOutcome::Reply(reply) | CommandOutcome::Close(reply) => reply,
                _ => Reply::error("ERR a login waits for itself: a fault of the server"),
            },
            CommandOutcome::BlockingRead(mut read) => loop {
                if let Some(reply) = read.poll(self.shared.ticks_us()) {
                    return reply;
                }
                if !read.can_continue() {
                    let _ = self.shared.db.wait_for(self.shared.db.revision() + 1, POLL_INTERVAL);
                }
            },
            CommandOutcome::Task(task) => task.wait(),
            CommandOutcome::Subscription(_) => {
                Reply::error("ERR FEED.WATCH is for connections: see FEED.READ")
            }
            CommandOutcome::Deferred => {
                Reply::error("ERR a command waits for itself: a fault of the server")
            }
        }
    }

    /// Returns the memory of the commands queued for `EXEC` and of the keys watched for them.
    pub fn queued_bytes(&self) -> usize {
        let watched = self.watch_guards.capacity() * size_of::<Guard>();
        self.multi.as_ref().map_or(0, Multi::bytes) + watched
    }

    /// Aborts an unfinished transaction. The next command on it reports the reason. Returns whether one was
    /// aborted.
    pub fn abort_for_memory(&mut self, exceeded: &Exceeded) -> bool {
        let mut is_aborted = false;
        if let Some(multi) = self.multi.as_mut().filter(|multi| multi.bytes() > 0) {
            multi.discard_queue(format!("TOOLARGE {exceeded}"));
            is_aborted = true;
        }
        if let Some(open) = self.open_transaction.as_mut().filter(|open| open.held_bytes() > 0) {
            open.give_up(Error::new(Code::TransactionTooLarge, exceeded.to_string()));
            is_aborted = true;
        }
        is_aborted
    }

    fn queue(&mut self, spec: &'static Spec, words: &[&[u8]]) -> Reply {
        let (Some(multi), Some(user)) = (&mut self.multi, &self.user) else {
            return not_authenticated();
        };
        multi.push(user, &self.shared, spec, words)
    }

    /// Returns the plan if the user may execute all of it.
    #[inline]
    pub fn authorize(&self, spec: &Spec, mut plan: Plan) -> Result<Plan, Reply> {
        self.check_plan(spec, &mut plan)?;
        Ok(plan)
    }

    fn check_plan(&self, spec: &Spec, plan: &mut Plan) -> Result<(), Reply> {
        plan.check_size()?;
        let user = self.user.as_ref().ok_or_else(not_authenticated)?;
        spec.authorize_plan(user, plan).map_err(|denied| no_permission(spec, &denied))?;
        if spec.group == Group::Sessions {
            let Shared { security, db, .. } = &*self.shared;
            let admitted = security.admit_sessions(user, db, plan.commands.iter());
            admitted.map_err(|error| Reply::error(format!("UNAVAILABLE {error}")))?;
        }
        Ok(())
    }

    /// Returns the job command if the user may execute it.
    fn authorize_job(&self, spec: &Spec, request: Order) -> Result<Order, Reply> {
        let user = self.user.as_ref().ok_or_else(not_authenticated)?;
        match request.allow(user, self.shared.jobs.keys()) {
            Ok(()) => Ok(request),
            Err(denied) => Err(no_permission(spec, &denied)),
        }
    }

    /// Returns the limits for requests, which are small before authentication.
    pub fn request_limits(&self) -> &Limits {
        match self.user {
            Some(_) => &self.shared.settings.request,
            None => &self.shared.unauthenticated_limits,
        }
    }

    /// Aborts `MULTI` after a rejected command: `EXEC` will fail.
    fn abort_multi(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.abort();
        }
    }

    /// Runs a plan as its command demands. Outside a transaction, some plans run in several pieces.
    fn run_plan(&mut self, spec: &Spec, plan: Plan, load: BatchLoad) -> CommandOutcome {
        match spec.handler {
            Handler::PlanInPieces(_, go_on) if self.open_transaction.is_none() => match load {
                BatchLoad::Empty => {
                    let db = self.shared.db.clone();
                    let empty = self.transaction();
                    CommandOutcome::Task(Task::new(go_on(db, empty, plan)))
                }
                _ => CommandOutcome::Deferred,
            },
            _ if self.open_transaction.is_some() && !plan.can_run_in_open() => {
                CommandOutcome::Reply(not_allowed_in_transaction(spec))
            }
            _ => self.execute_plan(plan, load),
        }
    }

    /// Runs a plan in the open transaction, at once, or in the next batch.
    fn execute_plan(&mut self, plan: Plan, load: BatchLoad) -> CommandOutcome {
        if plan.at.is_none() && self.open_transaction.is_some() {
            let is_long =
                plan.is_long() || self.rewrites_large_values(&self.branch, plan.commands.iter());
            return match (is_long, load) {
                (false, _) => CommandOutcome::Reply(self.run_in_open(plan)),
                (true, BatchLoad::Empty) => self.run_in_open_at_worker(plan),
                (true, _) => CommandOutcome::Deferred,
            };
        }
        if plan.is_long() {
            return match load {
                BatchLoad::Empty => CommandOutcome::LongWork(self.read_job(plan)),
                _ => CommandOutcome::Deferred,
            };
        }
        if plan.pages_at_writer() || self.rewrites_large_values(&self.branch, plan.commands.iter())
        {
            return match load {
                BatchLoad::Empty => {
                    let (transaction, builder) = plan.append_to(self.transaction());
                    let execute = self.blocking_execution(transaction);
                    CommandOutcome::LongWork(Box::new(move || builder.build(execute())))
                }
                _ => CommandOutcome::Deferred,
            };
        }
        let reads_now = plan.at.is_some() || plan.is_read() && load == BatchLoad::Empty;
        if reads_now {
            // Many values together may be large. A worker reads them then.
            let read = plan.read_within(&self.shared.db, &self.branch, LARGE_BYTES);
            return match (read, load) {
                (Some(reply), _) => CommandOutcome::Reply(reply),
                (None, BatchLoad::Empty) => CommandOutcome::LongWork(self.read_job(plan)),
                (None, _) => CommandOutcome::Deferred,
            };
        }
        match (plan.is_read(), load) {
            (true, BatchLoad::Many) | (_, BatchLoad::Full) => return CommandOutcome::Deferred,
            _ => {}
        }
        let (transaction, builder) = plan.append_to(self.transaction());
        CommandOutcome::Transaction(Box::new(transaction), PendingReply::Plan(builder))
    }

    /// Runs a job command in the open transaction, or as a task.
    fn run_job_request(&mut self, mut request: Order, load: BatchLoad) -> CommandOutcome {
        if let Some(open) = &mut self.open_transaction {
            return CommandOutcome::Reply(if request.waits() {
                commands::feed::waiting_not_allowed()
            } else {
                // A value that is known only at commit is not known yet.
                commands::jobs::outcome_reply(
                    self.shared.jobs.run_in(open, request).map(|outcome| outcome.at(0)),
                )
            });
        }
        if load != BatchLoad::Empty {
            return CommandOutcome::Deferred;
        }
        if !self.shared.may_wait() {
            request.waits_no_longer();
        }
        request.waits_at_most(Duration::from_millis(self.shared.settings.wait_limit_ms));
        let may_block = request.waits();
        let service = self.shared.jobs.clone();
        let branch = self.branch.clone();
        let future =
            async move { commands::jobs::outcome_reply(service.run(&branch, request).await) };
        CommandOutcome::Task(if may_block {
            Task::waiting(future, Reply::Nil)
        } else {
            Task::new(future)
        })
    }

    /// Estimates the size of a transaction's answers in bytes, from the present sizes of its cells and
    /// records and the sizes of earlier writes in the batch.
    pub fn estimate_reply_bytes(&self, transaction: &Transaction, written: WrittenWords) -> usize {
        let steps = self.estimate_steps(transaction, written);
        match transaction.session() {
            // The answer may be the stored one of an earlier attempt, whatever the present state is.
            Some(_) => steps.clamp(REQUEST_BYTES, KEPT_LIMIT_BYTES),
            None => steps,
        }
    }

    fn estimate_steps(&self, transaction: &Transaction, written: WrittenWords) -> usize {
        let steps = transaction.steps.iter().chain(transaction.otherwise.iter().flatten());
        let estimate = |step: &Step| match &step.command {
            Command::Cell(CellCommand::List { limit, .. })
            | Command::Key(KeyCommand::Names { limit, .. }) => limit.saturating_mul(NAME_BYTES),
            // Each version may be as large as the present value.
            Command::Cell(CellCommand::History { name, limit, .. }) => {
                let one = self.cell_bytes(&transaction.branch, name).max(written.largest_bytes);
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
            Command::State(command) => self.estimate_keyed(&transaction.branch, command),
            Command::Session(
                SessionCommand::Pending { limit, .. }
                | SessionCommand::Retry { limit, .. }
                | SessionCommand::List { limit, .. },
            ) => limit.saturating_mul(RECORD_BYTES),
            command => match returned_value(command) {
                Some(ReturnedValue::Cell(name)) => {
                    self.cell_bytes(&transaction.branch, name).max(written.largest_bytes)
                }
                Some(ReturnedValue::Record(key)) => {
                    let now = self.shared.db.record_bytes(&transaction.branch, key);
                    now.unwrap_or_default().saturating_add(written.all_bytes)
                }
                None => 0,
            },
        };
        steps.map(estimate).fold(0, usize::saturating_add)
    }

    /// Estimates the answer size of a command on keyed state, in bytes.
    fn estimate_keyed(&self, branch: &str, command: &StateCommand) -> usize {
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
    fn cell_bytes(&self, branch: &str, name: &Name) -> usize {
        let size_of = |cells: &Cells| cells.read_text(name.as_str(), <[u8]>::len);
        let size = if self.branch == branch {
            size_of(&self.cells)
        } else {
            self.shared.db.branch(branch).and_then(|branch| size_of(&branch.cells()))
        };
        size.ok().flatten().unwrap_or_default()
    }

    /// Returns a job that runs a plan for no particular branch.
    fn branch_change_job(&self, plan: Plan) -> WorkerJob {
        let (db, (transaction, builder)) =
            (self.shared.db.clone(), plan.append_to(Transaction::new()));
        Box::new(move || builder.build(db.execute(transaction)))
    }

    /// Returns an empty transaction with the branch and durability of this session.
    pub fn transaction(&self) -> Transaction {
        let mut transaction = Transaction::on(&self.branch);
        transaction.durability = self.durability;
        transaction
    }

    fn run_in_open(&mut self, plan: Plan) -> Reply {
        match &mut self.open_transaction {
            Some(open) => run_plan_in(open, plan, &self.shared),
            None => commands::transactions::no_open_transaction(),
        }
    }

    /// Runs a plan in the open transaction on a worker.
    fn run_in_open_at_worker(&mut self, plan: Plan) -> CommandOutcome {
        let shared = self.shared.clone();
        self.lend_transaction(move |open| run_plan_in(open, plan, &shared))
            .unwrap_or_else(|| CommandOutcome::Reply(commands::transactions::no_open_transaction()))
    }

    /// Lends the open transaction to long work off the event loop. Returns `None` if none is open.
    pub fn lend_transaction(
        &mut self,
        work: impl FnOnce(&mut InteractiveTransaction) -> Reply + Send + 'static,
    ) -> Option<CommandOutcome> {
        let shared_transaction: TransactionAtWorker =
            Arc::new(Mutex::new(Some(self.open_transaction.take()?)));
        self.transaction_at_worker = Some(shared_transaction.clone());
        Some(CommandOutcome::LongWork(Box::new(move || match shared_transaction.lock().as_mut() {
            Some(open) => work(open),
            None => commands::transactions::no_open_transaction(),
        })))
    }

    /// Returns whether a request of `bytes` bytes is so expensive to parse or to prepare that a worker
    /// handles it.
    #[inline]
    pub fn goes_to_worker(&self, words: &[&[u8]], bytes: usize) -> bool {
        let is_long = words.len() > LONG_COMMANDS || bytes > LONG_REQUEST_BYTES;
        let is_alone = self.multi.is_none() && self.open_transaction.is_none();
        (is_long || !is_alone) && self.is_worker_candidate(words, bytes, is_long)
    }

    fn is_worker_candidate(&self, words: &[&[u8]], bytes: usize, is_long: bool) -> bool {
        // A transaction copies its contents from time to time.
        let is_large = |open: &InteractiveTransaction| bytes + open.held_bytes() > LARGE_BYTES;
        let multi = self.multi.as_ref();
        let is_candidate = is_long
            || self.open_transaction.as_deref().is_some_and(is_large)
            || multi.is_some_and(Multi::is_long);
        if !is_candidate || self.user.is_none() {
            return false;
        }
        let Ok((_, spec)) = table::find(words) else { return false };
        match multi {
            Some(multi) if spec.bypasses_multi_queue() => multi.is_long() && ends_multi(spec),
            Some(_) => is_long,
            None => spec.runs_at_worker,
        }
    }

    /// Returns a job that answers a request, given as bytes, on a worker. All state that the request may
    /// change moves to the worker and comes back with the reply.
    pub fn answer_at_worker(&mut self, words: &[&[u8]], bytes: Vec<u8>) -> WorkerJob {
        self.last_command = table::find(words).ok().map(|(_, spec)| spec);
        let ends_multi = self.last_command.is_some_and(ends_multi);
        let mut state = ConnectionState::new(&self.shared, self.peer.clone());
        state.id = self.id;
        state.is_worker_part = true;
        state.name = self.name.clone();
        state.library = self.library.clone();
        state.user = self.user.clone();
        state.account = self.account.clone();
        state.counters = self.counters.clone();
        state.protocol = self.protocol;
        state.branch = self.branch.clone();
        state.cells = self.cells.clone();
        state.durability = self.durability;
        state.subscriptions = self.subscriptions.clone();
        state.swap_with(self);
        let part = Arc::new(Mutex::new(WorkerPart { state, ends_multi, is_answered: false }));
        self.worker_part = Some(part.clone());
        Box::new(move || {
            let mut part = part.lock();
            part.is_answered = true;
            part.answer_blocking(&bytes)
        })
    }

    /// Returns whether a worker has the transaction of this session.
    pub fn has_state_at_worker(&self) -> bool {
        self.worker_part.is_some() || self.transaction_at_worker.is_some()
    }

    /// Handles a request that no worker took: aborts the transaction it was part of, because that cannot
    /// commit without it.
    fn abort_unanswered(&mut self, ends_multi: bool) {
        self.abort_multi();
        if ends_multi {
            self.multi = None;
            self.watch_guards.clear();
        }
        if let Some(open) = &mut self.open_transaction {
            let message =
                "a command of the transaction was refused: too much long work is under way";
            open.give_up(Error::new(Code::QueueFull, message));
        }
    }

    /// Swaps all state that a request may change.
    fn swap_with(&mut self, other: &mut ConnectionState) {
        std::mem::swap(&mut self.multi, &mut other.multi);
        std::mem::swap(&mut self.open_transaction, &mut other.open_transaction);
        std::mem::swap(&mut self.past_view, &mut other.past_view);
        std::mem::swap(&mut self.watch_guards, &mut other.watch_guards);
        // Queued commands about the connection itself run where the transaction is.
        std::mem::swap(&mut self.name, &mut other.name);
        std::mem::swap(&mut self.library, &mut other.library);
        std::mem::swap(&mut self.branch, &mut other.branch);
        std::mem::swap(&mut self.cells, &mut other.cells);
        std::mem::swap(&mut self.durability, &mut other.durability);
    }

    /// Takes the state back from the worker when its work is done.
    pub fn restore_from_worker(&mut self) {
        if let Some(part) = self.worker_part.take() {
            let mut part = part.lock();
            self.swap_with(&mut part.state);
            if !part.is_answered {
                self.abort_unanswered(part.ends_multi);
            }
        }
        if let Some(shared_transaction) = self.transaction_at_worker.take() {
            self.open_transaction = shared_transaction.lock().take();
        }
    }

    /// Executes a read plan on published state, of the present or the past.
    pub fn read(&self, plan: &Plan) -> Reply {
        plan.read(&self.shared.db, &self.branch)
    }

    /// Returns a job that does the same.
    fn read_job(&self, plan: Plan) -> WorkerJob {
        let db = self.shared.db.clone();
        let branch = self.branch.clone();
        Box::new(move || plan.read(&db, &branch))
    }
}

fn ends_multi(spec: &Spec) -> bool {
    MULTI_ENDING_COMMANDS.contains(&spec.name)
}

/// The part of a session that answers a long request on a worker.
struct WorkerPart {
    state: ConnectionState,
    /// True if the request ends `MULTI`.
    ends_multi: bool,
    /// False if no worker took the request.
    is_answered: bool,
}

impl WorkerPart {
    fn answer_blocking(&mut self, bytes: &[u8]) -> Reply {
        let shared = self.state.shared.clone();
        let mut parser = Parser::default();
        loop {
            match parser.next(bytes, &shared.settings.request) {
                Ok(Parsed::Unfinished) => {}
                Ok(Parsed::Request(words, _)) => return self.state.answer_blocking(&words),
                _ => {
                    return Reply::error("ERR a request changed on its way: a fault of the server");
                }
            }
        }
    }
}

/// An open transaction lent to long work.
type TransactionAtWorker = Arc<Mutex<Option<Box<InteractiveTransaction>>>>;

fn run_plan_in(open: &mut InteractiveTransaction, plan: Plan, shared: &Shared) -> Reply {
    let answers: mainstay::Result<_> =
        plan.commands.into_iter().map(|command| open.run(command)).collect();
    // All commands of a transaction see the same time.
    let now = open.now().unwrap_or_else(|| shared.now());
    plan.format.make(answers.map(|answers| (answers, now)))
}

/// Sizes of the words that a connection has written in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct WrittenWords {
    /// The largest word, an upper bound for the size of a cell.
    pub largest_bytes: usize,
    /// Total size of all words, an upper bound for the growth of a record.
    pub all_bytes: usize,
}

impl WrittenWords {
    /// Adds the words of a request.
    pub fn add(&mut self, words: &[&[u8]]) {
        for word in words {
            self.largest_bytes = self.largest_bytes.max(word.len());
            self.all_bytes = self.all_bytes.saturating_add(word.len());
        }
    }
}

/// The cell or record whose contents a command returns.
enum ReturnedValue<'a> {
    Cell(&'a Name),
    Record(&'a Name),
}

fn returned_value(command: &Command) -> Option<ReturnedValue<'_>> {
    match command {
        Command::Cell(CellCommand::Get { name })
        | Command::String(
            StringCommand::Get { name }
            | StringCommand::Set { name, .. }
            | StringCommand::Swap { name, .. }
            | StringCommand::Take { name }
            | StringCommand::Touch { name, .. },
        ) => Some(ReturnedValue::Cell(name)),
        // A read of no fields only tests whether the record exists.
        Command::Record(RecordCommand::Get { fields: Some(fields), .. }) if fields.is_empty() => {
            None
        }
        Command::Hash(HashCommand::Get { key, .. })
        | Command::Record(RecordCommand::Get { key, .. }) => Some(ReturnedValue::Record(key)),
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

fn http_not_supported() -> Reply {
    Reply::error(
        "ERR this is the port of Redis clients, and this was HTTP: that has a port of its own",
    )
}

/// The error for an unauthenticated client, as in Redis.
pub fn not_authenticated() -> Reply {
    Reply::error("NOAUTH Authentication required.")
}

/// The error for a command that cannot run in an open transaction.
pub fn not_allowed_in_transaction(spec: &Spec) -> Reply {
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
