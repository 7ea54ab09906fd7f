//! The journal: what a child reported before it was killed.
//!
//! | line | meaning |
//! |---|---|
//! | `O revision` | the database is open, at this revision |
//! | `I thread seq op…` | the operation is about to begin |
//! | `A thread seq revision stamp answers…` | it was acknowledged |
//! | `F thread seq why` | it certainly did nothing |
//! | `X what` | something went wrong that never should |

use super::Outcome;
use super::op::{Id, Op};
use mainstay::{Revision, Stamp};
use std::collections::BTreeMap;

/// What is known of an operation's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was acknowledged.
    Acknowledged(Ack),
    /// It did nothing.
    Failed,
    /// The process was killed first.
    Unknown,
}

/// An acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The transaction's revision.
    pub revision: Revision,
    /// Its stamp.
    pub stamp: Stamp,
    /// Its answers, in words.
    pub answers: Vec<String>,
}

impl Ack {
    /// The counter and the number that an answer tells, where it does.
    pub fn counter(&self, position: usize) -> Option<(u64, Option<i64>)> {
        let word = self.answers.get(position)?.strip_prefix('c')?;
        match word.split_once('=') {
            Some((counter, number)) => Some((counter.parse().ok()?, number.parse().ok())),
            None => Some((word.parse().ok()?, None)),
        }
    }
}

/// An operation and its end.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which.
    pub id: Id,
    /// What.
    pub op: Op,
    /// With which end.
    pub end: End,
}

/// Everything one process reported.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The revision it found on opening; nothing when it was killed before.
    pub opened: Option<Revision>,
    /// Its operations, each writer's in order.
    pub entries: Vec<Entry>,
}

impl Run {
    /// Reads the lines of a process; an `X` line is a violation of its own.
    pub fn read(generation: u64, text: &str) -> Outcome<Run> {
        let mut run = Run::default();
        let mut open: BTreeMap<u64, usize> = BTreeMap::new();
        // Lines are written whole; what has no end was not written.
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

    /// The newest revision that an acknowledgement promised to be on stable storage.
    pub fn promised(&self) -> Revision {
        let synced = self.entries.iter().filter(|entry| entry.op.is_synced());
        let revision = |entry: &Entry| match &entry.end {
            End::Acknowledged(ack) => Some(ack.revision),
            _ => None,
        };
        synced.filter_map(revision).max().unwrap_or(0)
    }
}
