//! Steps of a random program. Their arguments are indexes into small pools, so that steps collide.

use super::record_steps::{Look, Rec, field, held, record_counter};
use super::run_steps::RunWrite;
use super::space_steps::SpaceWrite;
use super::string_steps::Text;
use mainstay::{
    CellCommand, Command, Contract, Demand, Guard, MergeStrategy, Name, Number, Ttl, Value,
};
use mainstay_conformance::reference_model::Oracle;
use std::fmt;

/// Names of cells; some are prefixes of others, and one is not ASCII.
pub const CELLS: [&str; 7] = ["a", "a/1", "a/2", "ab", "b", "b/1", "é"];
pub const PREFIXES: [&str; 5] = ["", "a", "a/", "b", "x"];
pub const BRANCHES: [&str; 4] = ["main", "dev", "exp", "fix"];
pub const TAGS: [&str; 2] = ["v1", "v2"];

/// A program; its debug output has one step per line.
#[derive(Clone)]
pub struct Program(pub Vec<Step>);

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            // The repeated part of large values is removed from the output.
            let shown: String = format!("{step:?}").replace("large large ", "");
            write!(f, "\n    {shown}")?;
        }
        Ok(())
    }
}

/// One step of a program. The arguments are indexes into the pools; `back` counts revisions.
#[derive(Clone, Debug)]
pub enum Step {
    /// Runs one command by its own method.
    One { branch: usize, write: Write },
    /// Runs a batch of commands that fail independently.
    Batch { branch: usize, writes: Vec<Write> },
    /// Executes a transaction as a value.
    Transact {
        branch: usize,
        guards: Vec<Check>,
        steps: Demands,
        otherwise: Option<Demands>,
        named: bool,
    },
    /// Repeats the last transaction with a request ID.
    Repeat,
    /// Begins an interactive transaction.
    Begin { slot: usize, branch: usize },
    /// Runs an operation in an interactive transaction.
    Within { slot: usize, act: Act },
    /// Commits an interactive transaction, directly or converted to a value.
    Commit { slot: usize, as_value: bool },
    /// Drops an interactive transaction.
    Abandon { slot: usize },
    /// Forks a branch, some revisions back.
    Fork { name: usize, from: usize, back: u64 },
    /// Forks a branch at an event of a run, some events before its last one.
    ForkAtEvent { name: usize, from: usize, run: usize, back: u64 },
    /// Deletes a branch.
    Delete { name: usize },
    /// Renames a branch.
    Rename { name: usize, to: usize },
    /// Merges two branches.
    Merge { from: usize, into: usize, strategy: MergeStrategy },
    /// Compares two branches.
    Diff { a: usize, b: usize },
    /// Tags a revision, some revisions back.
    Tag { name: usize, branch: usize, back: u64 },
    /// Removes a tag.
    Untag { name: usize },
    /// Advances the clock, in tens of milliseconds.
    Pass { tens: u64 },
    /// Deletes expired values.
    Sweep,
    /// Reaps the data of replaced and dropped spaces and runs.
    Reap,
    /// Closes and reopens the database, if it is on disk.
    Reopen,
    /// Reads a cell, some revisions back.
    Read { branch: usize, cell: usize, back: u64 },
    /// Reads a cell at a timestamp near that of a revision.
    ReadStamp { branch: usize, cell: usize, back: u64, off_us: i64 },
    /// Reads a cell's history.
    History { branch: usize, cell: usize, limit: usize, before: Option<u64>, back: u64 },
    /// Lists names, some revisions back.
    List { branch: usize, prefix: usize, after: Option<usize>, limit: usize, back: u64 },
    /// Reads a record, some revisions back.
    ReadRecord { branch: usize, key: usize, back: u64 },
    /// Reads the history of a record, some revisions back.
    RecordHistory { branch: usize, key: usize, limit: usize, before: Option<u64>, back: u64 },
    /// Scans records, some revisions back.
    Scan { branch: usize, look: Look, back: u64 },
    /// Reads a run, some revisions back.
    ReadRun { branch: usize, run: usize, back: u64 },
    /// Reads spaces of keyed state, some revisions back.
    ReadSpaces { branch: usize, back: u64 },
    /// Exports a branch and imports it into another database.
    Transfer { branch: usize },
}

/// Commands with their demands.
pub type Demands = Vec<(Write, Demand)>;

/// An operation inside an interactive transaction.
#[derive(Clone, Debug)]
pub enum Act {
    Get(usize),
    /// Lists the names of a prefix.
    List(usize),
    GetRecord(usize),
    Do(Write),
}

/// A command before its counters are known.
#[derive(Clone, Debug)]
pub enum Write {
    Init(usize, Value),
    Set(usize, Value, Ttl),
    Cas(usize, Expect, Value),
    /// `delete`, with or without an expected counter.
    Delete(usize, Option<Expect>),
    Incr(usize, Number),
    Expire(usize, Ttl),
    Get(usize),
    List(usize),
    Text(Text),
    Record(Rec),
    Run(RunWrite),
    Space(SpaceWrite),
}

/// An expected counter, relative to the cell's current one.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    Absent,
    /// The current counter plus an offset.
    Near(i8),
}

/// A guard before revisions and counters are known.
#[derive(Clone, Debug)]
pub enum Check {
    /// A cell's counter.
    Counter(usize, Expect),
    /// A value of the pool, or absence.
    Value(usize, Option<Value>),
    /// The current value.
    SameValue(usize),
    /// Unchanged for a number of revisions.
    Unchanged(usize, u64),
    /// A range unchanged for a number of revisions.
    Range(usize, u64),
    /// A record's counter.
    Record(usize, Expect),
    /// A field has its current value.
    SameField(usize, usize),
    /// A field is absent.
    NoField(usize, usize),
    /// A record unchanged for a number of revisions.
    UnchangedRecord(usize, u64),
    /// A range of records unchanged for a number of revisions.
    RecordRange(usize, u64),
    /// A run unchanged for a number of revisions.
    UnchangedRun(usize, u64),
    /// A range of runs unchanged for a number of revisions.
    RunRange(usize, u64),
}

/// A name by its index.
pub fn cell(index: usize) -> Name {
    Name::new(CELLS[index]).unwrap()
}

impl Write {
    /// Builds the command with counters near those in the model.
    pub fn command(&self, oracle: &Oracle, branch: &str) -> Command {
        let command = match self.clone() {
            Write::Init(at, value) => CellCommand::Init { name: cell(at), value },
            Write::Set(at, value, ttl) => CellCommand::Set { name: cell(at), value, ttl },
            Write::Cas(at, expect, value) => {
                let expected = expect.counter(oracle, branch, at);
                CellCommand::Cas { name: cell(at), expected, value }
            }
            Write::Delete(at, expect) => {
                let counter = expect.and_then(|expect| expect.counter(oracle, branch, at));
                CellCommand::Delete { name: cell(at), counter }
            }
            Write::Incr(at, by) => CellCommand::Incr { name: cell(at), by },
            Write::Expire(at, ttl) => CellCommand::Expire { name: cell(at), ttl },
            Write::Get(at) => CellCommand::Get { name: cell(at) },
            Write::List(at) => {
                CellCommand::List { prefix: PREFIXES[at].to_owned(), after: None, limit: 3 }
            }
            Write::Text(text) => return text.command().into(),
            Write::Record(record) => return record.command(oracle, branch),
            Write::Run(run) => return run.command(oracle, branch),
            Write::Space(space) => return space.command(oracle),
        };
        command.into()
    }
}

impl Expect {
    fn counter(self, oracle: &Oracle, branch: &str, at: usize) -> Option<u64> {
        let Expect::Near(off) = self else { return None };
        let versions = oracle.history(branch, CELLS[at], 1, None, oracle.latest());
        let has = versions.ok().and_then(|seen| seen.first().map(|v| v.counter)).unwrap_or(0);
        Some(has.saturating_add_signed(off.into()))
    }
}

impl Check {
    /// Builds the guard. `since` is at least `floor`, where the engine's window of remembered writes
    /// begins.
    pub fn guard(&self, oracle: &Oracle, branch: &str, floor: u64) -> Guard {
        let back = |back: &u64| oracle.revision().saturating_sub(*back).max(floor);
        let now = |at: &usize| oracle.get(branch, CELLS[*at], oracle.latest()).ok().flatten();
        match self {
            Check::Counter(at, expect) => {
                Guard::Counter { name: cell(*at), is: expect.counter(oracle, branch, *at) }
            }
            Check::Value(at, is) => Guard::Value { name: cell(*at), is: is.clone() },
            Check::SameValue(at) => {
                Guard::Value { name: cell(*at), is: now(at).map(|seen| seen.value) }
            }
            Check::Unchanged(at, by) => {
                let expires = now(at).and_then(|seen| seen.expires);
                unchanged(Contract::Cells, *at, back(by), expires)
            }
            Check::Range(at, by) => range(Contract::Cells, *at, back(by)),
            Check::Record(at, expect) => {
                Guard::Record { key: cell(*at), is: record_counter(*expect, oracle, branch, *at) }
            }
            Check::SameField(at, of) => {
                let is = held(oracle, branch, *at, *of);
                Guard::Field { key: cell(*at), field: field(*of), is }
            }
            Check::NoField(at, of) => Guard::Field { key: cell(*at), field: field(*of), is: None },
            Check::UnchangedRecord(at, by) => {
                let seen = oracle.record(branch, CELLS[*at], oracle.latest()).ok().flatten();
                unchanged(Contract::Records, *at, back(by), seen.and_then(|seen| seen.expires))
            }
            Check::RecordRange(at, by) => range(Contract::Records, *at, back(by)),
            Check::UnchangedRun(at, by) => unchanged(Contract::Runs, *at, back(by), None),
            Check::RunRange(at, by) => range(Contract::Runs, *at, back(by)),
        }
    }
}

fn unchanged(contract: Contract, at: usize, since: u64, expires: Option<u64>) -> Guard {
    Guard::Unchanged { contract, name: cell(at), since, expires }
}

fn range(contract: Contract, at: usize, since: u64) -> Guard {
    let prefix = PREFIXES[at].to_owned();
    let after = None;
    let upto = None;
    Guard::RangeUnchanged { contract, prefix, after, upto, since, expires: None }
}
