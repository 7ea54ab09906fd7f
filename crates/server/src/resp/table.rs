//! The table of commands: one list per file of commands, found by name whatever its case.

use super::Shared;
use super::commands;
use super::plan::Plan;
use super::reply::Reply;
use super::rights::{Needs, Reach};
use super::session::{Call, Handled, Job, Pending, Session};
use super::tasks::Answering;
use crate::jobs::{Keys, Order};
use crate::outbox;
use hashbrown::HashMap;
use mainstay::limits::LONG_COMMANDS;
use mainstay::{Database, Transaction};
use std::sync::LazyLock;

/// A command.
pub struct Spec {
    /// Its name, in small letters.
    pub name: &'static str,
    /// How many words it has, itself included; negative: at least so many.
    pub arity: i32,
    /// What it belongs to.
    pub group: Group,
    /// Whether it changes something.
    pub writes: bool,
    /// Where its keys are: the first word, the last (negative: from the end), the step.
    pub keys: (i32, i32, i32),
    /// Its arguments, as help shows them: `[may be left out]`, `one | or another`.
    pub syntax: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    /// The right it needs.
    pub needs: Needs,
    /// Which keys it reaches beyond those of its plan.
    pub reach: Reach,
    /// Whether it is recorded, and how many words behind it are names to be recorded with it.
    pub audited: Option<usize>,
    /// The first word behind it that it is recorded with; without one it is recorded whatever follows.
    pub audited_word: Option<&'static str>,
    /// Whether it touches no key of any branch, and no list of branches or tags. A command that does, and has no plan, is
    /// refused in transactions: it would read past the snapshot.
    pub without_data: bool,
    /// Whether a worker may answer it where its request is long: it waits for nobody, and changes nothing of the connection but
    /// what goes to the worker with it.
    pub goes_to_workers: bool,
    /// What it does.
    pub run: Run,
}

/// What a command belongs to; rights are given by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The connection itself.
    Connection,
    /// Names, whatever they hold.
    Keys,
    /// Redis's strings.
    Strings,
    /// Cells.
    Cells,
    /// Redis's hashes.
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
    /// Several commands at once.
    Transactions,
    /// The feed of changes.
    Feed,
    /// Values of the waist as bytes, for our own client.
    Wire,
    /// The server.
    Server,
}

/// All groups, in the order of their numbers.
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
    /// Its name.
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

/// How a command is run.
#[derive(Clone, Copy)]
pub enum Run {
    /// A plan, to be run wherever the session stands.
    Data(fn(&[&[u8]]) -> Result<Plan, Reply>),
    /// The same for jobs and locks, which are records under keys of their own.
    Kept(fn(&Keys, &[&[u8]]) -> Result<Plan, Reply>),
    /// The same for the outbox, where settings say how often a message is tried.
    Sent(fn(&outbox::Settings, &[&[u8]]) -> Result<Plan, Reply>),
    /// The same in as many transactions as it takes, where the session has none open: the plan is what can be done in
    /// one, the other does it piece by piece, each in a transaction like the empty one.
    Pieces(fn(&[&[u8]]) -> Result<Plan, Reply>, fn(Database, Transaction, Plan) -> Answering),
    /// A plan that is a transaction by itself, and no part of one.
    Alone(fn(&[&[u8]]) -> Result<Plan, Reply>),
    /// The same for what changes branches and tags: off the event loop, or as a request of a session.
    Change(fn(&Session, &[&[u8]]) -> Result<Plan, Reply>),
    /// A plan where there is a transaction to be part of; elsewhere it goes through more than one transaction could, or
    /// waits.
    Whole(fn(&Asker<'_>, &[&[u8]]) -> Result<Plan, Reply>, Elsewhere),
    /// An order to jobs and locks, to be run wherever the session stands.
    Order(fn(&[&[u8]]) -> Result<Order, Reply>),
    /// The revision that is read: a transaction's own, or the newest.
    Revision,
    /// It needs nothing but the session, and is answered at once.
    Session(fn(&mut Call<'_>) -> Reply),
    /// It looks at the database as it is when all before it is done.
    Settled(fn(&mut Call<'_>) -> Reply),
    /// It begins or ends something.
    Control(fn(&mut Call<'_>) -> Handled),
    /// It decides for itself, also while replies before it are not known yet.
    Direct(fn(&mut Call<'_>, Pending) -> Handled),
    /// It takes a while.
    Slow(fn(&mut Call<'_>) -> Result<Job, Reply>),
}

/// The server and the user that a plan is made for.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The state that all connections share.
    pub shared: &'a Shared,
    /// The name of the user.
    pub user: &'a str,
}

/// How a command is run where there is no transaction that it is part of.
#[derive(Clone, Copy)]
pub enum Elsewhere {
    /// It looks at the database as it is when all before it is done.
    Settled(fn(&mut Call<'_>) -> Reply),
    /// It may wait for what others do.
    Control(fn(&mut Call<'_>) -> Handled),
    /// It takes a while.
    Slow(fn(&mut Call<'_>) -> Result<Job, Reply>),
}

impl Run {
    /// Whether it comes to a plan or an order, which can be part of a transaction.
    pub const fn is_planned(&self) -> bool {
        matches!(
            self,
            Run::Data(_)
                | Run::Kept(_)
                | Run::Sent(_)
                | Run::Pieces(..)
                | Run::Whole(..)
                | Run::Order(_)
                | Run::Revision
        )
    }

    /// Whether it is on data alone, and waits for nobody.
    pub const fn is_on_data(&self) -> bool {
        let is_part = self.is_planned() && !matches!(self, Run::Order(_) | Run::Revision);
        is_part || matches!(self, Run::Alone(_))
    }

    /// Whether it is answered on the event loop, whatever its words are.
    fn is_at_once(&self) -> bool {
        matches!(self, Run::Session(_) | Run::Settled(_))
    }

    /// The plan that words come to, where a command has one.
    pub fn plan(&self, asker: &Asker<'_>, words: &[&[u8]]) -> Option<Result<Plan, Reply>> {
        let shared = asker.shared;
        match self {
            Run::Data(plan) | Run::Pieces(plan, _) => Some(plan(words)),
            Run::Kept(plan) => Some(plan(shared.jobs.keys(), words)),
            Run::Sent(plan) => Some(plan(&shared.settings.outbox, words)),
            Run::Whole(plan, _) => Some(plan(asker, words)),
            _ => None,
        }
    }
}

impl Spec {
    /// A command with this name, arity and way to run.
    pub const fn new(name: &'static str, arity: i32, group: Group, run: Run) -> Spec {
        let (needs, reach) = (Needs::Group, Reach::Plan);
        let (keys, audited) = ((0, 0, 0), None);
        Spec {
            name,
            arity,
            group,
            writes: false,
            keys,
            syntax: "",
            summary: "",
            needs,
            reach,
            audited,
            audited_word: None,
            without_data: false,
            goes_to_workers: run.is_on_data(),
            run,
        }
    }

    /// It needs this right, whatever its group.
    pub const fn needs(mut self, needs: Needs) -> Spec {
        self.needs = needs;
        self
    }

    /// Which keys it reaches.
    pub const fn reaches(mut self, reach: Reach) -> Spec {
        self.reach = reach;
        self
    }

    /// It is recorded, with so many of the words behind it, which are names.
    pub const fn audited(mut self, names: usize) -> Spec {
        self.audited = Some(names);
        self
    }

    /// It is recorded when this word follows, and with no other.
    pub const fn audited_for(mut self, word: &'static str) -> Spec {
        self.audited_word = Some(word);
        self.audited(1)
    }

    /// Whether it is recorded with these words.
    pub fn is_audited(&self, words: &[&[u8]]) -> bool {
        let follows =
            |word: &str| words.get(1).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
        self.audited.is_some() && self.audited_word.is_none_or(follows)
    }

    /// Whether its words may hold a password, which nobody may show or keep.
    pub fn carries_secrets(&self) -> bool {
        matches!(self.name, "auth" | "hello")
    }

    /// Whether it may be said before it is known who asks.
    pub fn is_for_strangers(&self) -> bool {
        matches!(self.name, "auth" | "hello" | "quit" | "reset")
    }

    /// It changes something.
    pub const fn writes(mut self) -> Spec {
        self.writes = true;
        self
    }

    /// Where its keys are.
    pub const fn keys(mut self, first: i32, last: i32, step: i32) -> Spec {
        self.keys = (first, last, step);
        self
    }

    /// What its arguments are.
    pub const fn syntax(mut self, syntax: &'static str) -> Spec {
        self.syntax = syntax;
        self
    }

    /// What it is for.
    pub const fn about(mut self, summary: &'static str) -> Spec {
        self.summary = summary;
        self
    }

    /// A worker may answer it where its request is long.
    pub const fn to_workers(mut self) -> Spec {
        self.goes_to_workers = true;
        self
    }

    /// It touches no key of any branch, and no list of branches or tags.
    pub const fn without_data(mut self) -> Spec {
        self.without_data = true;
        self
    }

    /// Whether it can be part of a transaction: data is read and written there by plans and orders alone, which run over the
    /// transaction's snapshot. A command that has neither is refused by name.
    pub fn is_of_transactions(&self) -> bool {
        self.without_data || self.run.is_planned()
    }

    /// Whether `MULTI` does not keep it: it is about the transaction, or ends it.
    pub fn passes_multi(&self) -> bool {
        matches!(
            self.name,
            "multi" | "exec" | "session.exec" | "discard" | "watch" | "quit" | "reset"
        )
    }

    /// What its subcommands are, as Redis has it.
    pub fn help(&self) -> Reply {
        let line = format!("{} {}", self.name.to_uppercase(), self.syntax);
        Reply::texts([line.as_str(), self.summary, "HELP", "    Prints this help."])
    }

    /// Whether it changes the session in a way that makes no sense between others.
    pub fn stands_alone(&self) -> bool {
        matches!(self.name, "branch.use" | "durability" | "hello" | "auth")
    }

    fn takes(&self, words: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= wanted } else { words == wanted }
    }
}

/// All commands.
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
    all().enumerate().map(|(place, spec)| (spec.name.as_bytes(), (place, spec))).collect()
});

/// The longest name of a command, and more.
const NAME_LIMIT_BYTES: usize = 32;

/// The command of this name.
pub fn named(name: &[u8]) -> Option<&'static Spec> {
    placed(name).map(|(_, spec)| spec)
}

fn placed(name: &[u8]) -> Option<(usize, &'static Spec)> {
    let mut small = [0; NAME_LIMIT_BYTES];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}

/// The command that a request asks for, if there is one and it has enough words; and its place in the
/// list of [`all`].
pub fn find(words: &[&[u8]]) -> Result<(usize, &'static Spec), Reply> {
    let name = words.first().copied().unwrap_or_default();
    let Some((place, spec)) = placed(name) else { return Err(unknown(words)) };
    match spec.takes(words.len()) {
        true if words.len() > LONG_COMMANDS && spec.run.is_at_once() => {
            Err(too_many_words(spec.name))
        }
        true => Ok((place, spec)),
        false => Err(wrong_arity(spec.name)),
    }
}

fn too_many_words(name: &str) -> Reply {
    Reply::error(format!("TOOLARGE {name} has at most {LONG_COMMANDS} words: ask more than once"))
}

/// What Redis says when words are missing or too many.
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

    /// How many words have to stand there, and whether more may.
    fn wanted(syntax: &str) -> (usize, bool) {
        let (mut depth, mut words, mut joined) = (0, 0, false);
        for word in syntax.split(' ').filter(|word| !word.is_empty()) {
            let (open, close) = (word.matches('[').count(), word.matches(']').count());
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
            let (words, more) = wanted(spec.syntax);
            let arity = i32::try_from(words + 1).unwrap() * if more { -1 } else { 1 };
            // Redis lets QUIT have arguments and looks at none.
            if spec.name != "quit" {
                assert_eq!(arity, spec.arity, "{} {}", spec.name, spec.syntax);
            }
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_words_are_counted() {
        assert_eq!(named(b"GeT").map(|spec| spec.name), Some("get"));
        assert!(named(&[b'a'; 100]).is_none());
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
