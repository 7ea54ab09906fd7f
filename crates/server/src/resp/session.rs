//! Sessions: what a connection has said so far, and what its next command comes to.
//!
//! ```text
//!   words --table--> Spec --+-- a reply at once
//!                           +-- a transaction, and the promise of a reply
//!                           +-- long work
//!                           +-- not yet: what came before has to be done first
//! ```
//!
//! A session knows no socket. The event loop drives many, the command line one.

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

/// How often somebody who waits looks again.
const PAUSE: Duration = Duration::from_millis(5);

/// Commands of an open transaction that holds more bytes are for workers.
const LARGE_BYTES: usize = 256 << 10;
/// Requests of more bytes go to workers: it may be JSON that has to be understood.
const LONG_BYTES: usize = 1 << 20;
/// The commands that end `MULTI` and take as long as it has commands.
const ENDS_OF_MULTI: [&str; 3] = ["exec", "session.exec", "discard"];

/// What a name of a list takes, about.
const NAME_BYTES: usize = 64;
/// What a record of a page takes, about.
const RECORD_BYTES: usize = 1 << 10;
/// What a request of a session takes at least: a kept answer may be larger than what would be answered now, so that
/// not many of them wait together.
const REQUEST_BYTES: usize = 32 << 10;

/// What one connection has said so far.
pub struct Session {
    /// Its number.
    pub id: u64,
    /// Who is at the other end.
    pub peer: String,
    /// Who that is; nobody before they have authenticated.
    pub user: Option<Arc<User>>,
    /// Its place among the connections of this user.
    pub connection_share: Option<Share>,
    /// How many wrong passwords it has given.
    pub failures: u32,
    /// Cleared when it is gone, and when it becomes another user: feeds that it watches end then.
    pub alive: Arc<AtomicBool>,
    /// What it speaks.
    pub protocol: Protocol,
    /// What it calls itself.
    pub name: String,
    /// The library it uses, and that one's version.
    pub library: (String, String),
    /// The branch it works on.
    pub branch: CompactString,
    /// The cells of that branch.
    pub cells: Cells,
    /// What has to happen before its writes are answered, if it said so.
    pub durability: Option<Durability>,
    /// Commands between `MULTI` and `EXEC`.
    pub multi: Option<Multi>,
    /// What it watches.
    pub watched: Vec<Guard>,
    /// The time at which `EXEC` began, while it executes the queued commands: time stands still in it.
    pub exec_us: Option<u64>,
    /// The transaction it has open.
    pub open: Option<Box<InteractiveTransaction>>,
    /// The same while long work is done in it elsewhere.
    lent: Option<Lent>,
    /// The part of it that a worker has, which answers a long request.
    away: Option<Arc<Mutex<Away>>>,
    /// It is such a part, which ends without the connection.
    pub is_away: bool,
    /// Held by whatever it watches changes with.
    pub watches: Arc<()>,
    /// The view of the past it has open.
    pub view: Option<CellsAt>,
    /// What all sessions share.
    pub shared: Arc<Shared>,
    /// The account that its memory counts on.
    pub account: Arc<Account>,
    /// The bytes that it has put into the database in the present batch.
    pub batch_bytes: usize,
    /// Where its commands are counted.
    pub tally: Arc<Tally>,
    /// Its last command, if it was one.
    pub last: Option<&'static Spec>,
}

/// Work that takes a while and answers a reply.
pub type Job = Box<dyn FnOnce() -> Reply + Send>;

/// What a command comes to.
pub enum Handled {
    /// A reply at once.
    Reply(Reply),
    /// A transaction, and what becomes of its receipt.
    Run(Box<Transaction>, Owed),
    /// Work that is not for an event loop.
    Slow(Job),
    /// Credentials to be verified, which takes a while: then ask [`Session::settle`].
    Login(Box<Login>),
    /// Changes that are not there yet: the reply comes with them.
    Wait(Awaited),
    /// Changes as they come.
    Watch(Box<Reading>),
    /// What takes several steps: the reply comes with the last.
    Task(Task),
    /// The replies before it have to be known first: ask again then.
    NotYet,
    /// The last reply of this connection.
    Close(Reply),
}

/// What a connection is owed before its next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Nothing.
    Nothing,
    /// Some replies.
    Some,
    /// So many that reads should not be added to them.
    Many,
    /// So large that nothing should be added to them.
    Full,
}

/// A reply that waits for a receipt.
pub enum Owed {
    /// Of one command.
    Plan(Promise),
    /// Of all commands of `EXEC`.
    Exec(Exec),
    /// Of a commit.
    Commit,
    /// Of a transaction that came as bytes.
    Wire(commands::wire::Receipts),
    /// Of a request of a session, which may be a repeat.
    Once(Box<Once>),
}

impl Owed {
    /// The reply.
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

/// What a command may look at and change.
pub struct Call<'a> {
    /// The connection's.
    pub session: &'a mut Session,
    /// The command and its arguments.
    pub words: &'a [&'a [u8]],
}

impl<'a> Call<'a> {
    /// The words behind the command.
    pub fn arguments(&self) -> Arguments<'a> {
        Arguments::behind(self.words)
    }

    /// What all sessions share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.session.shared
    }

    /// The branch as it is now, whatever its names hold.
    pub fn moment(&self) -> mainstay::Result<ReadView> {
        let moment = self.shared().db.moment(&self.session.branch, At::Latest)?;
        Ok(moment.hiding(self.shared().jobs.hidden_keys()))
    }

    /// The name of its user; none before it is known.
    pub fn user_name(&self) -> &str {
        self.session.user.as_ref().map_or("", |user| user.name())
    }

    /// The kinds of state that its user may read.
    pub fn kinds(&self) -> SmallVec<[Contract; 2]> {
        rights::kinds(self.session.user.as_deref())
    }
}

impl Session {
    /// A new one, on `main`.
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

    /// Tells its connections apart from those of other users.
    pub fn owner(&self) -> usize {
        self.user.as_ref().map_or(0, |user| Arc::as_ptr(user) as usize)
    }

    /// How long its user has to wait before more is taken.
    pub fn pace(&self) -> Option<Duration> {
        self.user.as_ref()?.pace.wait(self.shared.db.flush_backlog())
    }

    /// Counts bytes of requests for the pace of its user.
    pub fn take_bytes(&self, bytes: usize) {
        if let Some(user) = &self.user {
            user.pace.take(bytes, self.shared.db.flush_backlog());
        }
    }

    /// What its last command belongs to.
    pub fn group(&self) -> Group {
        self.last.map_or(Group::Connection, |spec| spec.group)
    }

    /// Says what a command comes to. `pending` tells whether replies before it are not known yet.
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

    /// Whoever has not said who they are may do so, or leave.
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

    /// Runs a command outside of all transactions.
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

    /// Answers one request, however long that takes.
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

    /// The memory of the commands that wait for `EXEC`, and of the keys watched for them.
    pub fn gathered_bytes(&self) -> usize {
        let watched = self.watched.capacity() * size_of::<Guard>();
        self.multi.as_ref().map_or(0, Multi::bytes) + watched
    }

    /// Gives up an unfinished transaction, if there is one: the next command on it says why.
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

    /// A plan, if the user may do all of it.
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

    /// An order, if the user may give it.
    fn permitted(&self, spec: &Spec, order: Order) -> Result<Order, Reply> {
        let user = self.user.as_ref().ok_or_else(no_user)?;
        match order.allow(user, self.shared.jobs.keys()) {
            Ok(()) => Ok(order),
            Err(denied) => Err(no_permission(spec, &denied)),
        }
    }

    /// What a request may be: little, before it is known whose it is.
    pub fn limits(&self) -> &Limits {
        match self.user {
            Some(_) => &self.shared.settings.request,
            None => &self.shared.stranger,
        }
    }

    /// A request that cannot be understood makes `EXEC` fail.
    fn spoil(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.spoil();
        }
    }

    /// Runs a plan as its command does: in as many pieces as it takes, if there is no transaction to be part of.
    fn planned(&mut self, spec: &Spec, plan: Plan, pending: Pending) -> Handled {
        match spec.run {
            Run::Pieces(_, go_on) if self.open.is_none() => match pending {
                Pending::Nothing => {
                    let (db, empty) = (self.shared.db.clone(), self.transaction());
                    Handled::Task(Task::new(go_on(db, empty, plan)))
                }
                _ => Handled::NotYet,
            },
            _ if self.open.is_some() && !plan.stands_in_open() => Handled::Reply(not_inside(spec)),
            _ => self.data(plan, pending),
        }
    }

    /// Runs a plan where the session stands: in its transaction, at once, or in the next batch.
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
        if self.rewrites_much(&self.branch, plan.commands.iter()) {
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
            // Many values may be large together: then a worker reads them.
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

    /// Runs an order where the session stands: in its transaction, or as a task.
    fn order(&mut self, mut order: Order, pending: Pending) -> Handled {
        if let Some(open) = &mut self.open {
            return Handled::Reply(match order.waits() {
                true => commands::feed::no_waiting(),
                // What is known only when it commits is not known yet.
                false => commands::jobs::shown(
                    self.shared.jobs.run_in(open, order).map(|outcome| outcome.at(0)),
                ),
            });
        }
        if pending != Pending::Nothing {
            return Handled::NotYet;
        }
        if !self.shared.waits() {
            order.waits_no_longer();
        }
        order.waits_at_most(Duration::from_millis(self.shared.settings.wait_limit_ms));
        let (waits, desk, branch) = (order.waits(), self.shared.jobs.clone(), self.branch.clone());
        let answering = async move { commands::jobs::shown(desk.run(&branch, order).await) };
        Handled::Task(match waits {
            true => Task::waiting(answering, Reply::Nil),
            false => Task::new(answering),
        })
    }

    /// What a transaction may answer, in bytes, as far as that can be known before: what its cells and
    /// records hold now, or what was put into them just before.
    pub fn weigh(&self, transaction: &Transaction, written: Written) -> usize {
        let steps = self.weigh_steps(transaction, written);
        match transaction.session() {
            // Its answer may be one that was kept, whatever it would find now.
            Some(_) => steps.clamp(REQUEST_BYTES, KEPT_LIMIT_BYTES),
            None => steps,
        }
    }

    fn weigh_steps(&self, transaction: &Transaction, written: Written) -> usize {
        let steps = transaction.steps.iter().chain(transaction.otherwise.iter().flatten());
        let weight = |step: &Step| match &step.command {
            Command::Cell(CellCommand::List { limit, .. })
            | Command::Key(KeyCommand::Names { limit, .. }) => limit.saturating_mul(NAME_BYTES),
            // Each version may be as large as the value that is there.
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

    /// What a command on keyed state may answer, in bytes.
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

    /// What a cell holds now, in bytes.
    fn size_bytes(&self, branch: &str, name: &Name) -> usize {
        let size = |cells: &Cells| cells.read_text(name.as_str(), <[u8]>::len);
        let found = match self.branch == branch {
            true => size(&self.cells),
            false => self.shared.db.branch(branch).and_then(|branch| size(&branch.cells())),
        };
        found.ok().flatten().unwrap_or_default()
    }

    /// Runs a plan that stands on no branch, elsewhere.
    fn changing(&self, plan: Plan) -> Job {
        let (db, (transaction, promise)) =
            (self.shared.db.clone(), plan.put_into(Transaction::new()));
        Box::new(move || promise.keep(db.execute(transaction)))
    }

    /// An empty transaction as this session wants them.
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

    /// The same, elsewhere.
    fn inside_elsewhere(&mut self, plan: Plan) -> Handled {
        let shared = self.shared.clone();
        self.lend(move |open| run_inside(open, plan, &shared))
            .unwrap_or_else(|| Handled::Reply(commands::transactions::none_open()))
    }

    /// Does long work in the open transaction, off the event loop; nothing where none is open.
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

    /// Whether a request, which has so many bytes, takes so long to be understood or to be gathered that a worker does it.
    #[inline]
    pub fn is_long(&self, words: &[&[u8]], bytes: usize) -> bool {
        let is_long = words.len() > LONG_COMMANDS || bytes > LONG_BYTES;
        let is_alone = self.multi.is_none() && self.open.is_none();
        (is_long || !is_alone) && self.goes_to_workers(words, bytes, is_long)
    }

    fn goes_to_workers(&self, words: &[&[u8]], bytes: usize, is_long: bool) -> bool {
        // A transaction copies what it holds now and then.
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

    /// Has a worker answer a request, of which these are the bytes. All that the request may change of this session goes with it
    /// and comes back with the reply.
    pub fn answer_away(&mut self, words: &[&[u8]], bytes: Vec<u8>) -> Job {
        self.last = table::find(words).ok().map(|(_, spec)| spec);
        let ends_multi = self.last.is_some_and(ends_multi);
        let mut session = Session::new(&self.shared, self.peer.clone());
        (session.id, session.is_away) = (self.id, true);
        (session.name, session.library) = (self.name.clone(), self.library.clone());
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

    /// Whether a worker has its transaction.
    pub fn is_at_worker(&self) -> bool {
        self.away.is_some() || self.lent.is_some()
    }

    /// Nobody had time for a request: a transaction that it was part of cannot be committed without it.
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

    /// Exchanges all that a request may change.
    fn exchange(&mut self, other: &mut Session) {
        std::mem::swap(&mut self.multi, &mut other.multi);
        std::mem::swap(&mut self.open, &mut other.open);
        std::mem::swap(&mut self.view, &mut other.view);
        std::mem::swap(&mut self.watched, &mut other.watched);
        // Queued commands about the connection itself are answered by whoever has the transaction.
        std::mem::swap(&mut self.name, &mut other.name);
        std::mem::swap(&mut self.library, &mut other.library);
        std::mem::swap(&mut self.branch, &mut other.branch);
        std::mem::swap(&mut self.cells, &mut other.cells);
        std::mem::swap(&mut self.durability, &mut other.durability);
    }

    /// Has back all that others worked on when the work is done.
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

    /// Reads what is published, or was.
    pub fn read(&self, plan: &Plan) -> Reply {
        plan.read(&self.shared.db, &self.branch)
    }

    /// The same, elsewhere.
    fn reading(&self, plan: Plan) -> Job {
        let (db, branch) = (self.shared.db.clone(), self.branch.clone());
        Box::new(move || plan.read(&db, &branch))
    }
}

fn ends_multi(spec: &Spec) -> bool {
    ENDS_OF_MULTI.contains(&spec.name)
}

/// The part of a session that answers a long request.
struct Away {
    session: Session,
    /// The request is the end of `MULTI`.
    ends_multi: bool,
    /// Nobody may have had time for it.
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

/// An open transaction that long work is done in.
type Lent = Arc<Mutex<Option<Box<InteractiveTransaction>>>>;

fn run_inside(open: &mut InteractiveTransaction, plan: Plan, shared: &Shared) -> Reply {
    let answers: mainstay::Result<_> =
        plan.commands.into_iter().map(|command| open.run(command)).collect();
    // Time stands still in a transaction.
    let now = open.now().unwrap_or_else(|| shared.now());
    plan.shape.make(answers.map(|answers| (answers, now)))
}

/// What a connection has put into the database in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// The largest word, which is what a cell may have become.
    pub largest_bytes: usize,
    /// All words together, by which a record may have grown.
    pub all_bytes: usize,
}

impl Written {
    /// And these words.
    pub fn add(&mut self, words: &[&[u8]]) {
        for word in words {
            self.largest_bytes = self.largest_bytes.max(word.len());
            self.all_bytes = self.all_bytes.saturating_add(word.len());
        }
    }
}

/// Whose value or fields a command answers.
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
        // Whoever asks for no field asks only whether it is there.
        Command::Record(RecordCommand::Get { fields: Some(fields), .. }) if fields.is_empty() => {
            None
        }
        Command::Hash(HashCommand::Get { key, .. })
        | Command::Record(RecordCommand::Get { key, .. }) => Some(Held::Record(key)),
        _ => None,
    }
}

/// Whether a browser talks here: what a page makes it send must not be taken for commands.
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

/// What Redis says to whoever has not said who they are.
pub fn no_user() -> Reply {
    Reply::error("NOAUTH Authentication required.")
}

/// What is said of a command that is no part of an open transaction.
pub fn not_inside(spec: &Spec) -> Reply {
    let name = spec.name.to_uppercase();
    Reply::error(format!("ERR {name} is not for inside a transaction"))
}

/// What Redis says to whoever may not, and what is missing.
pub fn no_permission(spec: &Spec, denied: &Denied) -> Reply {
    let (user, name) = (denied.user(), spec.name);
    Reply::error(format!(
        "NOPERM User {user} has no permissions to run the '{name}' command: {denied}"
    ))
}
