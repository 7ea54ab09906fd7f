//! The operations of writers, as transactions and as words in the journal.

use super::{account, cas_cell, hot_cell, mark_cell, own_cell};
use super::{keyed, records, runs};
use mainstay::{
    Answer, BranchCommand, CellCommand, Durability, MergeStrategy, Name, Number, Receipt, Request,
    RequestId, Result, SessionRequest, Transaction, Value,
};
use mainstay_conformance::random::Random;
use std::fmt;

/// Number of recent responses that a session keeps, according to the acknowledgements of its requests.
const KEPT_RESPONSES: u64 = 50;

/// The unique id of an operation: process, writer, sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The number of the process, starting with the first one.
    pub generation: u64,
    /// The number of the writer thread.
    pub thread: u64,
    /// The sequence number of the operation within its writer.
    pub seq: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.generation, self.thread, self.seq)
    }
}

impl Id {
    /// Parses the name that [`fmt::Display`] writes.
    pub fn parse(name: &str) -> Option<Id> {
        let mut numbers = name.splitn(3, '.').map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Id { generation: next()?, thread: next()?, seq: next()? })
    }

    /// The value that this operation writes: its name, followed by unique filler.
    pub fn value(&self, filler: u64) -> Value {
        Value::from(self.text(filler))
    }

    /// The same as text.
    pub fn text(&self, filler: u64) -> String {
        let mut random = Random::of(&[self.generation, self.thread, self.seq]);
        let mut text = format!("{self}:");
        text.extend((0..filler).map(|_| char::from(b'a' + random.below(26) as u8)));
        text
    }

    /// The session of its writer in its process.
    pub fn session(&self) -> String {
        format!("writer/{}.{}", self.generation, self.thread)
    }

    /// The operation as a request of that session. Only the last responses are kept, so that late repetitions
    /// are evicted.
    pub fn in_session(&self) -> Result<SessionRequest> {
        let lowest = self.seq.saturating_sub(KEPT_RESPONSES).max(1);
        Ok(SessionRequest::new(Name::new(&self.session())?, self.seq, lowest))
    }

    /// The request id, for operations that use one.
    pub fn request(&self) -> Result<RequestId> {
        RequestId::new(self.to_string())
    }
}

/// The kind of transaction that makes a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Blind increments in one transaction.
    Blind,
    /// The same with a request id.
    Request,
    /// The same as a request of its writer's session.
    Session,
    /// An interactive transaction that reads both balances and sets them.
    Interactive,
}

/// One operation of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a cell of the writer.
    Set { k: u64, filler: u64, durability: Durability, request: bool },
    /// Deletes a cell of the writer.
    Delete { k: u64, durability: Durability },
    /// Increments a counter that all writers increment.
    Hot { k: u64, durability: Durability },
    /// Swaps a cell on which all writers use compare-and-swap.
    Cas { k: u64, expected: Option<u64>, filler: u64 },
    /// Moves money and records the transfer in the same transaction.
    Move { from: u64, to: u64, amount: i64, way: Way, durability: Durability },
    /// Forks a branch off `main`.
    Fork { branch: String },
    /// Sets a cell of the writer on its branch.
    Put { branch: String, k: u64, filler: u64 },
    /// Merges its branch into `main`.
    Merge { branch: String },
    /// Deletes its branch.
    Drop { branch: String },
    /// Makes all earlier writes durable.
    Sync,
}

impl Op {
    /// Returns whether its acknowledgement guarantees durability.
    pub fn is_synced(&self) -> bool {
        match self {
            Op::Set { durability, .. }
            | Op::Delete { durability, .. }
            | Op::Hot { durability, .. }
            | Op::Move { durability, .. } => *durability == Durability::Sync,
            _ => true,
        }
    }

    /// Returns whether it carries a request id.
    pub fn has_request(&self) -> bool {
        matches!(
            self,
            Op::Set { request: true, .. } | Op::Move { way: Way::Request | Way::Session, .. }
        )
    }

    /// Returns whether it is a session request.
    pub fn is_in_session(&self) -> bool {
        matches!(self, Op::Move { way: Way::Session, .. })
    }

    /// The branch it operates on, other than `main`.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Op::Fork { branch } | Op::Put { branch, .. } => Some(branch),
            Op::Merge { branch } | Op::Drop { branch } => Some(branch),
            _ => None,
        }
    }

    /// The transaction of the operation; `None` if it is interactive or a sync.
    pub fn transaction(&self, id: Id) -> Result<Option<Transaction>> {
        let own = |k: u64| Name::new(&own_cell(id.thread, k));
        let transaction = match self {
            Op::Set { k, filler, durability, .. } => Transaction::new()
                .step(CellCommand::set(own(*k)?, id.value(*filler)))
                .step(records::mirror(id, *k, &id.text(*filler))?)
                .step(records::flashing(id)?)
                .durability(*durability),
            Op::Delete { k, durability } => Transaction::new()
                .step(CellCommand::Delete { name: own(*k)?, counter: None })
                .step(records::deletion(id, *k)?)
                .durability(*durability),
            Op::Hot { k, durability } => Transaction::new()
                .step(CellCommand::Incr { name: Name::new(&hot_cell(*k))?, by: Number::Int(1) })
                .durability(*durability),
            Op::Cas { k, expected, filler } => {
                let name = Name::new(&cas_cell(*k))?;
                let value = id.value(*filler);
                Transaction::new().step(CellCommand::Cas { name, expected: *expected, value })
            }
            Op::Move { way: Way::Interactive, .. } | Op::Sync => return Ok(None),
            Op::Move { from, to, amount, durability, .. } => {
                let add = |k: u64, by: i64| {
                    let name = Name::new(&account(k))?;
                    Ok::<_, mainstay::Error>(CellCommand::Incr { name, by: Number::Int(by) })
                };
                let mark = Name::new(&mark_cell(id.thread))?;
                let states = keyed::commands(id)?.into_iter();
                let moved = Transaction::new()
                    .step(add(*from, -amount)?)
                    .step(add(*to, *amount)?)
                    .step(CellCommand::set(mark, id.value(0)))
                    .step(runs::append(id))
                    .step(runs::put(id)?)
                    .durability(*durability);
                states.fold(moved, Transaction::step)
            }
            Op::Put { branch, k, filler } => Transaction::on(branch)
                .step(CellCommand::set(own(*k)?, id.value(*filler)))
                .step(records::on_branch(id, *k, &id.text(*filler))?),
            Op::Fork { branch } => Transaction::new().step(BranchCommand::Fork {
                name: Name::new(branch)?,
                from: Name::new(mainstay::MAIN)?,
                at: None,
            }),
            Op::Merge { branch } => Transaction::new().step(BranchCommand::Merge {
                from: Name::new(branch)?,
                into: Name::new(mainstay::MAIN)?,
                strategy: MergeStrategy::Theirs,
            }),
            Op::Drop { branch } => {
                Transaction::new().step(BranchCommand::Delete { name: Name::new(branch)? })
            }
        };
        let request = if self.has_request() {
            if self.is_in_session() {
                Some(Request::Session(id.in_session()?))
            } else {
                Some(Request::Named(id.request()?))
            }
        } else {
            None
        };
        Ok(Some(Transaction { request, ..transaction }))
    }

    /// Parses the words that [`fmt::Display`] writes.
    pub fn parse(words: &[&str]) -> Option<Op> {
        let n = |word: &str| word.parse::<u64>().ok();
        Some(match words {
            ["set", k, filler, durability, request] => Op::Set {
                k: n(k)?,
                filler: n(filler)?,
                durability: durability_of(durability)?,
                request: *request == "r",
            },
            ["delete", k, durability] => {
                Op::Delete { k: n(k)?, durability: durability_of(durability)? }
            }
            ["hot", k, durability] => Op::Hot { k: n(k)?, durability: durability_of(durability)? },
            ["cas", k, expected, filler] => {
                let expected = if *expected == "-" { None } else { Some(n(expected)?) };
                Op::Cas { k: n(k)?, expected, filler: n(filler)? }
            }
            ["move", from, to, amount, way, durability] => Op::Move {
                from: n(from)?,
                to: n(to)?,
                amount: amount.parse().ok()?,
                way: match *way {
                    "b" => Way::Blind,
                    "r" => Way::Request,
                    "s" => Way::Session,
                    _ => Way::Interactive,
                },
                durability: durability_of(durability)?,
            },
            ["fork", branch] => Op::Fork { branch: (*branch).to_owned() },
            ["put", branch, k, filler] => {
                Op::Put { branch: (*branch).to_owned(), k: n(k)?, filler: n(filler)? }
            }
            ["merge", branch] => Op::Merge { branch: (*branch).to_owned() },
            ["drop", branch] => Op::Drop { branch: (*branch).to_owned() },
            ["sync"] => Op::Sync,
            _ => return None,
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Set { k, filler, durability, request } => {
                let request = if *request { "r" } else { "-" };
                write!(f, "set {k} {filler} {} {request}", letter(*durability))
            }
            Op::Delete { k, durability } => write!(f, "delete {k} {}", letter(*durability)),
            Op::Hot { k, durability } => write!(f, "hot {k} {}", letter(*durability)),
            Op::Cas { k, expected: Some(n), filler } => write!(f, "cas {k} {n} {filler}"),
            Op::Cas { k, expected: None, filler } => write!(f, "cas {k} - {filler}"),
            Op::Move { from, to, amount, way, durability } => {
                let way = match way {
                    Way::Blind => "b",
                    Way::Request => "r",
                    Way::Session => "s",
                    Way::Interactive => "i",
                };
                write!(f, "move {from} {to} {amount} {way} {}", letter(*durability))
            }
            Op::Fork { branch } => write!(f, "fork {branch}"),
            Op::Put { branch, k, filler } => write!(f, "put {branch} {k} {filler}"),
            Op::Merge { branch } => write!(f, "merge {branch}"),
            Op::Drop { branch } => write!(f, "drop {branch}"),
            Op::Sync => write!(f, "sync"),
        }
    }
}

fn letter(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "s",
        Durability::Interval => "i",
        Durability::Memory => "m",
    }
}

fn durability_of(letter: &str) -> Option<Durability> {
    match letter {
        "s" => Some(Durability::Sync),
        "i" => Some(Durability::Interval),
        "m" => Some(Durability::Memory),
        _ => None,
    }
}

/// The answers of a receipt as words; `None` if one of them had no effect.
pub fn answers(receipt: &Receipt) -> Option<Vec<String>> {
    let word = |answer: &Answer| match answer {
        _ if !answer.took_effect() => None,
        Answer::Counter(n) | Answer::MaybeCounter(Some(n)) => Some(format!("c{n}")),
        Answer::Number { value, counter } => {
            Some(format!("c{counter}={}", value.as_i64().unwrap_or(i64::MIN)))
        }
        Answer::Revision(n) => Some(format!("r{n}")),
        _ => Some("did".to_owned()),
    };
    receipt.answers.iter().map(word).collect()
}
