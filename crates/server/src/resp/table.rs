//! The command table: one static list per file of commands, looked up by case-insensitive name.

use super::Shared;
use super::commands;
use super::connection_state::{
    BatchLoad, CommandContext, CommandOutcome, ConnectionState, WorkerJob,
};
use super::permissions::{KeyScope, Requirement};
use super::plan::Plan;
use super::reply::Reply;
use super::tasks::ReplyFuture;
use crate::jobs::{Keys, Order};
use crate::outbox;
use hashbrown::HashMap;
use mainstay::limits::LONG_COMMANDS;
use mainstay::{Database, Transaction};
use std::sync::LazyLock;

/// The description of a command.
pub struct Spec {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of words, including the name. A negative number is a minimum.
    pub arity: i32,
    /// The group of the command.
    pub group: Group,
    /// Whether it changes something.
    pub writes: bool,
    /// The positions of its keys: the first word, the last (negative: from the end), the step.
    pub keys: (i32, i32, i32),
    /// Its arguments, as help shows them: `[optional]`, `one | or another`.
    pub syntax: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// The permission that it needs.
    pub requirement: Requirement,
    /// The keys that it reaches beyond those of its plan.
    pub key_scope: KeyScope,
    /// If audited, the number of words behind the name that are names and are recorded too.
    pub audited: Option<usize>,
    /// The first argument for which it is audited; `None` for all.
    pub audited_word: Option<&'static str>,
    /// Whether it touches no key of any branch, and no list of branches or tags. A command that touches
    /// some and has no plan is rejected in transactions, because it would read past the snapshot.
    pub without_data: bool,
    /// Whether a worker may answer it if its request is long. Such a command does not block, and changes
    /// only the part of the session that goes to the worker.
    pub runs_at_worker: bool,
    /// The function that executes it, and where it runs.
    pub handler: Handler,
}

/// The group of a command. Permissions are granted by group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Commands about the connection.
    Connection,
    /// Names of any kind of state.
    Keys,
    /// Strings of Redis.
    Strings,
    /// Cells.
    Cells,
    /// Hashes of Redis.
    Hashes,
    /// Records.
    Records,
    /// Jobs and locks.
    Jobs,
    /// Runs.
    Runs,
    /// The outbox.
    Outbox,
    /// Keyed state.
    Keyed,
    /// Sessions.
    Sessions,
    /// Branches and tags.
    Branches,
    /// Transactions of several commands.
    Transactions,
    /// The feed of changes.
    Feed,
    /// Binary-encoded commands, for our own client.
    Wire,
    /// The server.
    Server,
}

/// All groups, in the order of their discriminants.
pub const GROUPS: [Group; 16] = [
    Group::Connection,
    Group::Keys,
    Group::Strings,
    Group::Cells,
    Group::Hashes,
    Group::Records,
    Group::Jobs,
    Group::Runs,
    Group::Outbox,
    Group::Keyed,
    Group::Sessions,
    Group::Branches,
    Group::Transactions,
    Group::Feed,
    Group::Wire,
    Group::Server,
];

impl Group {
    /// Returns the name of the group.
    pub fn name(self) -> &'static str {
        match self {
            Group::Connection => "connection",
            Group::Keys => "keys",
            Group::Strings => "strings",
            Group::Cells => "cells",
            Group::Hashes => "hashes",
            Group::Records => "records",
            Group::Jobs => "jobs",
            Group::Runs => "runs",
            Group::Outbox => "outbox",
            Group::Keyed => "keyed",
            Group::Sessions => "sessions",
            Group::Branches => "branches",
            Group::Transactions => "transactions",
            Group::Feed => "feed",
            Group::Wire => "wire",
            Group::Server => "server",
        }
    }
}

/// The way in which a command runs.
#[derive(Clone, Copy)]
pub enum Handler {
    /// A plan, for any state of the session.
    Plan(fn(&[&[u8]]) -> Result<Plan, Reply>),
    /// The same for jobs and locks, which are records under reserved keys.
    JobPlan(fn(&Keys, &[&[u8]]) -> Result<Plan, Reply>),
    /// The same for the outbox, whose settings limit the delivery attempts.
    OutboxPlan(fn(&outbox::Settings, &[&[u8]]) -> Result<Plan, Reply>),
    /// The same in as many transactions as needed, if the session has none open. The plan is the form for
    /// one transaction. The other function works piece by piece, each in a transaction like the given empty
    /// one.
    PlanInPieces(
        fn(&[&[u8]]) -> Result<Plan, Reply>,
        fn(Database, Transaction, Plan) -> ReplyFuture,
    ),
    /// A plan that is a transaction of its own and cannot be part of one.
    OwnTransaction(fn(&[&[u8]]) -> Result<Plan, Reply>),
    /// The same for changes of branches and tags: off the event loop, or as a session request.
    BranchPlan(fn(&ConnectionState, &[&[u8]]) -> Result<Plan, Reply>),
    /// A plan inside a transaction. Outside, it processes more than one transaction could, or waits.
    PlanInTransaction(fn(&PlanContext<'_>, &[&[u8]]) -> Result<Plan, Reply>, OutsideTransaction),
    /// A command on jobs and locks, for any state of the session.
    JobRequest(fn(&[&[u8]]) -> Result<Order, Reply>),
    /// The revision that is read: that of the transaction, or the newest.
    Revision,
    /// Needs only the session, and is answered at once.
    Immediate(fn(&mut CommandContext<'_>) -> Reply),
    /// Reads the database after all earlier requests are done.
    Sequenced(fn(&mut CommandContext<'_>) -> Reply),
    /// Starts or ends something.
    Control(fn(&mut CommandContext<'_>) -> CommandOutcome),
    /// Decides for itself, even while earlier replies are pending.
    Pipelined(fn(&mut CommandContext<'_>, BatchLoad) -> CommandOutcome),
    /// Long work.
    LongWork(fn(&mut CommandContext<'_>) -> Result<WorkerJob, Reply>),
}

/// The context for which a plan is made.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    /// The state that all connections share.
    pub shared: &'a Shared,
    /// The name of the user.
    pub user: &'a str,
}

/// The way in which a command with a plan runs outside transactions.
#[derive(Clone, Copy)]
pub enum OutsideTransaction {
    /// Reads the database after all earlier requests are done.
    Sequenced(fn(&mut CommandContext<'_>) -> Reply),
    /// May wait for other clients.
    Control(fn(&mut CommandContext<'_>) -> CommandOutcome),
    /// Long work.
    LongWork(fn(&mut CommandContext<'_>) -> Result<WorkerJob, Reply>),
}

impl Handler {
    /// Returns whether it gives a plan or a job command, which can be part of a transaction.
    pub const fn is_planned(&self) -> bool {
        matches!(
            self,
            Handler::Plan(_)
                | Handler::JobPlan(_)
                | Handler::OutboxPlan(_)
                | Handler::PlanInPieces(..)
                | Handler::PlanInTransaction(..)
                | Handler::JobRequest(_)
                | Handler::Revision
        )
    }

    /// Returns whether it works on data alone and does not wait.
    pub const fn is_on_data(&self) -> bool {
        let is_part =
            self.is_planned() && !matches!(self, Handler::JobRequest(_) | Handler::Revision);
        is_part || matches!(self, Handler::OwnTransaction(_))
    }

    /// Returns whether it is always answered on the event loop.
    fn is_immediate(&self) -> bool {
        matches!(self, Handler::Immediate(_) | Handler::Sequenced(_))
    }

    /// Returns the plan for these words, if the command has plans.
    pub fn plan(
        &self,
        plan_context: &PlanContext<'_>,
        words: &[&[u8]],
    ) -> Option<Result<Plan, Reply>> {
        let shared = plan_context.shared;
        match self {
            Handler::Plan(plan) | Handler::PlanInPieces(plan, _) => Some(plan(words)),
            Handler::JobPlan(plan) => Some(plan(shared.jobs.keys(), words)),
            Handler::OutboxPlan(plan) => Some(plan(&shared.settings.outbox, words)),
            Handler::PlanInTransaction(plan, _) => Some(plan(plan_context, words)),
            _ => None,
        }
    }
}

impl Spec {
    /// Creates a command with a name, an arity and a way to run.
    pub const fn new(name: &'static str, arity: i32, group: Group, run: Handler) -> Spec {
        let requirement = Requirement::Group;
        let key_scope = KeyScope::Plan;
        let keys = (0, 0, 0);
        let audited = None;
        Spec {
            name,
            arity,
            group,
            writes: false,
            keys,
            syntax: "",
            summary: "",
            requirement,
            key_scope,
            audited,
            audited_word: None,
            without_data: false,
            runs_at_worker: run.is_on_data(),
            handler: run,
        }
    }

    /// Sets the permission that it needs, in place of that of its group.
    pub const fn requires(mut self, requirement: Requirement) -> Spec {
        self.requirement = requirement;
        self
    }

    /// Sets the keys that it reaches.
    pub const fn key_scope(mut self, key_scope: KeyScope) -> Spec {
        self.key_scope = key_scope;
        self
    }

    /// Marks it as audited. `names` words behind its name are names and are recorded too.
    pub const fn audited(mut self, names: usize) -> Spec {
        self.audited = Some(names);
        self
    }

    /// Marks it as audited only if this word follows.
    pub const fn audited_for(mut self, word: &'static str) -> Spec {
        self.audited_word = Some(word);
        self.audited(1)
    }

    /// Returns whether a request with these words is audited.
    pub fn is_audited(&self, words: &[&[u8]]) -> bool {
        self.audited.is_some()
            && self.audited_word.is_none_or(|word| {
                words.get(1).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()))
            })
    }

    /// Returns whether its words may hold a password, which must not be shown or stored.
    pub fn carries_secrets(&self) -> bool {
        matches!(self.name, "auth" | "hello")
    }

    /// Returns whether unauthenticated clients may send it.
    pub fn is_allowed_unauthenticated(&self) -> bool {
        matches!(self.name, "auth" | "hello" | "quit" | "reset")
    }

    /// Marks it as a write.
    pub const fn writes(mut self) -> Spec {
        self.writes = true;
        self
    }

    /// Sets the positions of its keys.
    pub const fn keys(mut self, first: i32, last: i32, step: i32) -> Spec {
        self.keys = (first, last, step);
        self
    }

    /// Sets the syntax of its arguments.
    pub const fn syntax(mut self, syntax: &'static str) -> Spec {
        self.syntax = syntax;
        self
    }

    /// Sets its summary.
    pub const fn summarize(mut self, summary: &'static str) -> Spec {
        self.summary = summary;
        self
    }

    /// Allows a worker to answer it if its request is long.
    pub const fn at_workers(mut self) -> Spec {
        self.runs_at_worker = true;
        self
    }

    /// Marks it as touching no key of any branch, and no list of branches or tags.
    pub const fn without_data(mut self) -> Spec {
        self.without_data = true;
        self
    }

    /// Returns whether it can be part of a transaction. In a transaction, only plans and job commands
    /// access data, because they use the transaction's snapshot. Any other data command is rejected.
    pub fn can_be_in_transaction(&self) -> bool {
        self.without_data || self.handler.is_planned()
    }

    /// Returns whether `MULTI` does not queue it, because it controls the transaction.
    pub fn bypasses_multi_queue(&self) -> bool {
        matches!(
            self.name,
            "multi" | "exec" | "session.exec" | "discard" | "watch" | "quit" | "reset"
        )
    }

    /// Returns the help text of its subcommands, as in Redis.
    pub fn help(&self) -> Reply {
        let line = format!("{} {}", self.name.to_uppercase(), self.syntax);
        Reply::texts([line.as_str(), self.summary, "HELP", "    Prints this help."])
    }

    /// Returns whether it changes the session in a way that makes no sense inside `MULTI`.
    pub fn is_barred_from_multi(&self) -> bool {
        matches!(self.name, "branch.use" | "durability" | "hello" | "auth")
    }

    fn accepts_word_count(&self, words: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= arity } else { words == arity }
    }
}

/// Returns all commands.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    let lists: [&'static [Spec]; 21] = [
        commands::connection::COMMANDS,
        commands::users::COMMANDS,
        commands::server::COMMANDS,
        commands::info::COMMANDS,
        commands::slow_log::COMMANDS,
        commands::keys::COMMANDS,
        commands::strings::COMMANDS,
        commands::cells::COMMANDS,
        commands::hashes::COMMANDS,
        commands::records::COMMANDS,
        commands::indexes::COMMANDS,
        commands::jobs::COMMANDS,
        commands::locks::COMMANDS,
        commands::runs::COMMANDS,
        commands::outbox::COMMANDS,
        commands::keyed::COMMANDS,
        commands::sessions::COMMANDS,
        commands::branches::COMMANDS,
        commands::transactions::COMMANDS,
        commands::feed::COMMANDS,
        commands::wire::COMMANDS,
    ];
    lists.into_iter().flatten()
}

static BY_NAME: LazyLock<HashMap<&'static [u8], (usize, &'static Spec)>> = LazyLock::new(|| {
    all().enumerate().map(|(position, spec)| (spec.name.as_bytes(), (position, spec))).collect()
});

/// An upper bound for the length of command names.
const NAME_LIMIT_BYTES: usize = 32;

/// Returns the command with this name.
pub fn by_name(name: &[u8]) -> Option<&'static Spec> {
    position_and_spec(name).map(|(_, spec)| spec)
}

fn position_and_spec(name: &[u8]) -> Option<(usize, &'static Spec)> {
    let mut lower = [0; NAME_LIMIT_BYTES];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

/// Returns the command of a request and its position in the list of [`all`], if the command exists and its
/// number of words is right.
pub fn find(words: &[&[u8]]) -> Result<(usize, &'static Spec), Reply> {
    let name = words.first().copied().unwrap_or_default();
    let Some((position, spec)) = position_and_spec(name) else { return Err(unknown(words)) };
    if spec.accepts_word_count(words.len()) {
        if words.len() > LONG_COMMANDS && spec.handler.is_immediate() {
            Err(too_many_words(spec.name))
        } else {
            Ok((position, spec))
        }
    } else {
        Err(wrong_arity(spec.name))
    }
}

fn too_many_words(name: &str) -> Reply {
    Reply::error(format!("TOOLARGE {name} has at most {LONG_COMMANDS} words: ask more than once"))
}

/// The error of Redis for missing or extra words.
pub fn wrong_arity(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

fn unknown(words: &[&[u8]]) -> Reply {
    let shown = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let name = shown(words.first().copied().unwrap_or_default());
    let arguments: String =
        words.iter().skip(1).take(8).map(|word| format!("'{}' ", shown(word))).collect();
    Reply::error(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_once_in_small_letters_and_is_explained() {
        assert_eq!(BY_NAME.len(), all().count());
        for spec in all() {
            assert_eq!(spec.name, spec.name.to_lowercase());
            assert!(spec.name.len() <= NAME_LIMIT_BYTES);
            assert!(!spec.summary.is_empty(), "{}", spec.name);
        }
    }

    /// Returns how many words the syntax demands, and whether it allows more.
    fn counted_words(syntax: &str) -> (usize, bool) {
        let mut depth = 0;
        let mut words = 0;
        let mut joined = false;
        for word in syntax.split(' ').filter(|word| !word.is_empty()) {
            let open = word.matches('[').count();
            let close = word.matches(']').count();
            let counts = depth == 0 && open == 0 && word != "|" && !joined;
            words += usize::from(counts);
            joined = word == "|";
            depth = depth + open - close;
        }
        (words, syntax.contains('['))
    }

    #[test]
    fn the_arguments_that_help_shows_are_as_many_as_are_counted() {
        for spec in all() {
            let (words, more) = counted_words(spec.syntax);
            let arity = i32::try_from(words + 1).unwrap() * if more { -1 } else { 1 };
            // Redis accepts arguments for QUIT and ignores them.
            if spec.name != "quit" {
                assert_eq!(arity, spec.arity, "{} {}", spec.name, spec.syntax);
            }
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_words_are_counted() {
        assert_eq!(by_name(b"GeT").map(|spec| spec.name), Some("get"));
        assert!(by_name(&[b'a'; 100]).is_none());
        assert!(find(&[b"get", b"a"]).is_ok());
        let error = |words: &[&[u8]]| match find(words) {
            Err(Reply::Error(text)) => text.into_owned(),
            _ => String::new(),
        };
        assert_eq!(error(&[b"GET"]), "ERR wrong number of arguments for 'get' command");
        assert_eq!(
            error(&[b"foo", b"a", b"b"]),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' "
        );
    }
}
