//! The journal: the lines that a child process wrote before it was killed.
//!
//! | line | meaning |
//! |---|---|
//! | `O revision` | the database is open at this revision |
//! | `I thread seq op…` | the operation is about to start |
//! | `A thread seq revision stamp answers…` | it was acknowledged |
//! | `F thread seq why` | it certainly had no effect |
//! | `X what` | an error that must never happen |

use super::Outcome;
use super::op::{Id, Op};
use mainstay::{Revision, Stamp};
use std::collections::BTreeMap;

/// The known outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was acknowledged.
    Acknowledged(Ack),
    /// It had no effect.
    Failed,
    /// The process was killed before the outcome was known.
    Unknown,
}

/// An acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The revision of the transaction.
    pub revision: Revision,
    /// Its commit timestamp.
    pub stamp: Stamp,
    /// Its answers, encoded as words.
    pub answers: Vec<String>,
}

impl Ack {
    /// The counter and the number in an answer, if it contains them.
    pub fn counter(&self, position: usize) -> Option<(u64, Option<i64>)> {
        let word = self.answers.get(position)?.strip_prefix('c')?;
        match word.split_once('=') {
            Some((counter, number)) => Some((counter.parse().ok()?, number.parse().ok())),
            None => Some((word.parse().ok()?, None)),
        }
    }
}

/// An operation and its outcome.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The id of the operation.
    pub id: Id,
    /// The operation.
    pub op: Op,
    /// Its outcome.
    pub end: End,
}

/// The parsed journal of one process.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The revision at open; `None` if the process was killed before.
    pub opened: Option<Revision>,
    /// Its operations, in order per writer.
    pub entries: Vec<Entry>,
}

impl Run {
    /// Parses the journal of a process. An `X` line is a violation in itself.
    pub fn read(generation: u64, text: &str) -> Outcome<Run> {
        let mut run = Run::default();
        let mut open: BTreeMap<u64, usize> = BTreeMap::new();
        // Lines are written atomically, so a line without an end was not written.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let strange = || format!("the child wrote a line that makes no sense: {line}");
            if let Some(what) = line.strip_prefix("X ") {
                return Err(format!("in process {generation}: {what}"));
            }
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            if words[0] == "O" {
                run.opened = Some(number(1).ok_or_else(strange)?);
                continue;
            }
            let (thread, seq) = number(1).zip(number(2)).ok_or_else(strange)?;
            let id = Id { generation, thread, seq };
            if words[0] == "I" {
                let op = Op::parse(&words[3..]).ok_or_else(strange)?;
                open.insert(thread, run.entries.len());
                run.entries.push(Entry { id, op, end: End::Unknown });
                continue;
            }
            let at = open.remove(&thread).ok_or_else(strange)?;
            let entry = run.entries.get_mut(at).filter(|entry| entry.id == id);
            entry.ok_or_else(strange)?.end = match words[0] {
                "F" => End::Failed,
                "A" => End::Acknowledged(Ack {
                    revision: number(3).ok_or_else(strange)?,
                    stamp: number(4).ok_or_else(strange)?,
                    answers: words[5..].iter().map(|word| (*word).to_owned()).collect(),
                }),
                _ => return Err(strange()),
            };
        }
        Ok(run)
    }

    /// The newest revision acknowledged as durable.
    pub fn promised(&self) -> Revision {
        let synced = self.entries.iter().filter(|entry| entry.op.is_synced());
        let revision = |entry: &Entry| match &entry.end {
            End::Acknowledged(ack) => Some(ack.revision),
            _ => None,
        };
        synced.filter_map(revision).max().unwrap_or(0)
    }
}
