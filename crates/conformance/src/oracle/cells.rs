//! Cells in the model: versions in a map, and the commands as they are defined.

use super::Moment;
use mainstay_model::{
    Answer, CellCommand, Code, Command, Error, Number, Page, Result, Revision, Stamp, Ttl, Value,
    Versioned, limits,
};
use std::collections::BTreeMap;

/// Every version of every cell, oldest first.
pub type Cells = BTreeMap<String, Vec<Version>>;

/// One version of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// The writes so far, deletions included.
    pub counter: u64,
    /// The writes this version stands for.
    pub writes: u64,
    /// The value, `None` for a deletion.
    pub value: Option<Value>,
    /// When it was written.
    pub stamp: Stamp,
    /// The transaction that wrote it.
    pub revision: Revision,
    /// When it expires.
    pub expires: Option<Stamp>,
    /// The branch it was written on.
    pub home: u32,
}

impl Version {
    fn expired(&self, now: Stamp) -> bool {
        self.value.is_some() && self.expires.is_some_and(|at| at <= now)
    }

    fn live(&self, now: Stamp) -> bool {
        self.value.is_some() && !self.expired(now)
    }

    /// The version as a reader sees it.
    pub fn shown(&self) -> Versioned {
        Versioned {
            value: self.value.clone().unwrap_or(Value::Null),
            counter: self.counter,
            stamp: self.stamp,
            revision: self.revision,
            expires: self.expires,
        }
    }
}

/// The newest version of a cell that is not newer than a revision.
pub(super) fn newest<'a>(cells: &'a Cells, name: &str, upto: Revision) -> Option<&'a Version> {
    cells.get(name)?.iter().rev().find(|version| version.revision <= upto)
}

/// The version of a cell that a reader at this moment sees, if any.
pub(super) fn live<'a>(cells: &'a Cells, name: &str, moment: Moment) -> Option<&'a Version> {
    newest(cells, name, moment.revision).filter(|version| version.live(moment.now))
}

/// The value a reader at this moment sees.
pub(super) fn value(cells: &Cells, name: &str, moment: Moment) -> Option<Value> {
    live(cells, name, moment).and_then(|version| version.value.clone())
}

/// A page of live names.
pub(super) fn list(
    cells: &Cells,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    moment: Moment,
) -> Result<Page> {
    if limit == 0 || limit > limits::PAGE_LIMIT {
        return Err(Error::new(Code::InvalidLimit, format!("{limit} is no page limit")));
    }
    let wanted = |name: &&String| in_range(name, prefix, after, None);
    let seen = cells.keys().filter(wanted).filter(|name| live(cells, name, moment).is_some());
    let mut names: Vec<String> = seen.take(limit + 1).cloned().collect();
    let more = names.len() > limit;
    names.truncate(limit);
    let next = if more { names.last().cloned() } else { None };
    Ok(Page { names, next })
}

/// Whether a name lies in a range: with the prefix, behind `after`, not behind `upto`.
pub(super) fn in_range(name: &str, prefix: &str, after: Option<&str>, upto: Option<&str>) -> bool {
    name.starts_with(prefix)
        && after.is_none_or(|after| name > after)
        && upto.is_none_or(|upto| name <= upto)
}

/// One transaction at work on a copy of its branch.
pub(super) struct Run<'a> {
    cells: &'a mut Cells,
    revision: Revision,
    stamp: Stamp,
    home: u32,
    /// Whether anything was written.
    pub wrote: bool,
}

impl<'a> Run<'a> {
    pub fn new(cells: &'a mut Cells, revision: Revision, stamp: Stamp, home: u32) -> Run<'a> {
        Run { cells, revision, stamp, home, wrote: false }
    }

    pub fn moment(&self) -> Moment {
        Moment { revision: self.revision, now: self.stamp }
    }

    pub fn cells(&self) -> &Cells {
        self.cells
    }

    /// Runs one command and gives its answer.
    pub fn command(&mut self, command: &Command) -> Result<Answer> {
        match command {
            Command::Cell(command) => self.cell(command),
            Command::String(command) => self.string(command),
            _ => Err(Error::new(Code::InvalidArgument, "branch commands stand alone")),
        }
    }

    fn cell(&mut self, command: &CellCommand) -> Result<Answer> {
        match command {
            CellCommand::Get { name } => {
                let seen = live(self.cells, name.as_str(), self.moment());
                Ok(Answer::Cell(seen.map(Version::shown)))
            }
            CellCommand::List { prefix, after, limit } => {
                list(self.cells, prefix, after.as_deref(), *limit, self.moment()).map(Answer::Names)
            }
            CellCommand::Init { name, value } => Ok(self.init(name.as_str(), value)),
            CellCommand::Set { name, value, ttl } => self.set(name.as_str(), value, *ttl),
            CellCommand::Cas { name, expected, value } => {
                Ok(self.cas(name.as_str(), *expected, value))
            }
            CellCommand::Delete { name, counter } => Ok(self.delete(name.as_str(), *counter)),
            CellCommand::Incr { name, by } => self.incr(name.as_str(), *by),
            CellCommand::Expire { name, ttl } => self.expire(name.as_str(), *ttl),
            other => Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        }
    }

    fn init(&mut self, name: &str, value: &Value) -> Answer {
        let counter = match self.seen(name) {
            Some(version) => version.counter,
            None => self.write(name, Some(value.clone()), None),
        };
        Answer::Counter(counter)
    }

    fn set(&mut self, name: &str, value: &Value, ttl: Ttl) -> Result<Answer> {
        let old = self.seen(name).and_then(|version| version.expires);
        let expires = self.expiry(ttl, old)?;
        Ok(Answer::Counter(self.write(name, Some(value.clone()), expires)))
    }

    fn cas(&mut self, name: &str, expected: Option<u64>, value: &Value) -> Answer {
        let seen = self.seen(name);
        if seen.as_ref().map(|version| version.counter) != expected {
            return Answer::MaybeCounter(None);
        }
        let expires = seen.and_then(|version| version.expires);
        Answer::MaybeCounter(Some(self.write(name, Some(value.clone()), expires)))
    }

    /// A deletion leaves one in any case: of an expired cell it writes the expiry.
    pub(super) fn delete(&mut self, name: &str, counter: Option<u64>) -> Answer {
        self.settle(name);
        let Some(seen) = self.seen(name) else { return Answer::Did(false) };
        if counter.is_some_and(|counter| counter != seen.counter) {
            return Answer::Did(false);
        }
        self.write(name, None, None);
        Answer::Did(true)
    }

    fn incr(&mut self, name: &str, by: Number) -> Result<Answer> {
        let seen = self.seen(name);
        let expires = seen.as_ref().and_then(|version| version.expires);
        let old = seen.and_then(|version| version.value).unwrap_or(Value::Int(0));
        let sum = add(&old, by)?;
        let counter = self.write(name, Some(sum.clone()), expires);
        Ok(Answer::Number { value: sum, counter })
    }

    fn expire(&mut self, name: &str, ttl: Ttl) -> Result<Answer> {
        let seen = self.seen(name);
        let expires = self.expiry(ttl, seen.as_ref().and_then(|version| version.expires))?;
        let Some(seen) = seen else { return Ok(Answer::Did(false)) };
        if expires != seen.expires {
            self.write(name, seen.value, expires);
        }
        Ok(Answer::Did(true))
    }

    /// The live version.
    pub(super) fn seen(&self, name: &str) -> Option<Version> {
        live(self.cells, name, self.moment()).cloned()
    }

    /// Turns an expiry that is due into a deletion, which is a write.
    fn settle(&mut self, name: &str) {
        let newest = newest(self.cells, name, self.revision);
        if newest.is_some_and(|version| version.expired(self.stamp)) {
            self.write_as(name, None, None, self.counter(name) + 1);
        }
    }

    pub(super) fn expiry(&self, ttl: Ttl, old: Option<Stamp>) -> Result<Option<Stamp>> {
        let invalid = || Error::new(Code::InvalidTtl, "zero, or beyond the calendar");
        match ttl {
            Ttl::Clear => Ok(None),
            Ttl::Keep => Ok(old),
            Ttl::Until(stamp) => Ok(Some(stamp)),
            Ttl::Millis(0) => Err(invalid()),
            Ttl::Millis(ms) => {
                let us = ms.checked_mul(1000).ok_or_else(invalid)?;
                Ok(Some(self.stamp.checked_add(us).ok_or_else(invalid)?))
            }
        }
    }

    /// Writes; a cell that has expired is deleted first, and that counts.
    pub(super) fn write(
        &mut self,
        name: &str,
        value: Option<Value>,
        expires: Option<Stamp>,
    ) -> u64 {
        self.settle(name);
        let counter = self.counter(name) + 1;
        self.write_as(name, value, expires, counter)
    }

    /// The counter of a cell, whether it is live, deleted (it survives) or never was (zero).
    pub fn counter(&self, name: &str) -> u64 {
        newest(self.cells, name, self.revision).map_or(0, |version| version.counter)
    }

    /// Writes a version with a counter of its own; a second write in the transaction joins it.
    pub fn write_as(
        &mut self,
        name: &str,
        value: Option<Value>,
        expires: Option<Stamp>,
        counter: u64,
    ) -> u64 {
        let before = self.counter(name);
        let versions = self.cells.entry(name.to_owned()).or_default();
        let mine = versions.pop_if(|version| version.revision == self.revision);
        let writes = mine.map_or(0, |version| version.writes) + (counter - before);
        let (stamp, revision, home) = (self.stamp, self.revision, self.home);
        versions.push(Version { counter, writes, value, stamp, revision, expires, home });
        self.wrote = true;
        counter
    }

    /// Deletes what was written on this branch and has expired; answers how many.
    pub fn expire_own(&mut self) -> u64 {
        let due = |versions: &Vec<Version>| {
            versions.last().is_some_and(|v| v.home == self.home && v.expired(self.stamp))
        };
        let names: Vec<String> =
            self.cells.iter().filter(|(_, v)| due(v)).map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.settle(name));
        names.len() as u64
    }
}

/// Integers add within `i64`; as soon as one side is a float, both are.
fn add(old: &Value, by: Number) -> Result<Value> {
    let overflow = || Error::new(Code::Overflow, "the sum leaves its type");
    let (a, b) = match (old, by) {
        (Value::Int(a), Number::Int(b)) => {
            return a.checked_add(b).map(Value::Int).ok_or_else(overflow);
        }
        (Value::Int(a), Number::Float(b)) => (*a as f64, b),
        (Value::Float(a), Number::Int(b)) => (*a, b as f64),
        (Value::Float(a), Number::Float(b)) => (*a, b),
        _ => return Err(Error::new(Code::NotANumber, format!("{old:?} is no number"))),
    };
    let sum = a + b;
    if a.is_finite() && b.is_finite() && !sum.is_finite() {
        return Err(overflow());
    }
    Ok(Value::Float(sum))
}
