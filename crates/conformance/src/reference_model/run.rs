//! Execution of one transaction on a copy of its branch.

use super::versions::{Version, Versions, Writer};
use super::{Moment, State};
use mainstay_model::{
    Answer, Code, Command, Error, ExpireOnly, Fields, Result, Revision, Stamp, Ttl, Value,
};

/// A running transaction.
pub(super) struct Run<'a> {
    pub state: &'a mut State,
    pub writer: Writer,
    /// Whether the transaction has written anything.
    pub wrote: bool,
}

impl<'a> Run<'a> {
    pub fn new(state: &'a mut State, revision: Revision, stamp: Stamp, home: u32) -> Run<'a> {
        Run { state, writer: Writer { revision, stamp, home }, wrote: false }
    }

    pub fn moment(&self) -> Moment {
        Moment { revision: self.writer.revision, now: self.writer.stamp }
    }

    pub fn command(&mut self, command: &Command) -> Result<Answer> {
        match command {
            Command::Cell(command) => self.cell(command),
            Command::String(command) => self.string(command),
            Command::Record(command) => self.record(command),
            Command::Hash(command) => self.hash(command),
            Command::Run(command) => self.run(command),
            Command::Outbox(command) => self.outbox(command),
            Command::State(command) => self.keyed(command),
            _ => Err(Error::new(Code::InvalidArgument, "branch commands stand alone")),
        }
    }

    pub fn seen(&self, name: &str) -> Option<Version<Value>> {
        self.state.cells.live(name, self.moment()).cloned()
    }

    pub fn seen_record(&self, key: &str) -> Option<Version<Fields>> {
        self.state.records.live(key, self.moment()).cloned()
    }

    /// Writes a cell and returns its counter.
    pub fn write(&mut self, name: &str, value: Option<Value>, expires: Option<Stamp>) -> u64 {
        self.wrote = true;
        self.state.cells.write(self.writer, name, value, expires)
    }

    /// Writes a record and returns its counter; a record without fields is deleted.
    pub fn write_record(&mut self, key: &str, fields: Fields, expires: Option<Stamp>) -> u64 {
        self.wrote = true;
        let fields = Some(fields).filter(|fields| !fields.is_empty());
        let expires = expires.filter(|_| fields.is_some());
        self.state.records.write(self.writer, key, fields, expires)
    }

    /// Deletes a live value and returns whether it existed. An expired value gets its expiry written,
    /// but only on the branch that wrote it.
    pub fn remove<T: Clone>(&mut self, name: &str, of: fn(&mut State) -> &mut Versions<T>) -> bool {
        let moment = self.moment();
        let writer = self.writer;
        let versions = of(self.state);
        let own = versions.newest(name, writer.revision).is_some_and(|v| v.home == writer.home);
        let lapsed = own && versions.settle(writer, name);
        let live = versions.live(name, moment).is_some();
        if live {
            versions.write(writer, name, None, None);
        }
        self.wrote |= lapsed || live;
        live
    }

    /// Computes the expiry that a write sets.
    pub fn expiry(&self, ttl: Ttl, old: Option<Stamp>) -> Result<Option<Stamp>> {
        let invalid = || Error::new(Code::InvalidTtl, "zero, or beyond the calendar");
        match ttl {
            Ttl::Clear => Ok(None),
            Ttl::Keep => Ok(old),
            Ttl::Until(stamp) => Ok(Some(stamp)),
            Ttl::Millis(0) => Err(invalid()),
            Ttl::Millis(ms) => {
                let us = ms.checked_mul(1000).ok_or_else(invalid)?;
                Ok(Some(self.writer.stamp.checked_add(us).ok_or_else(invalid)?))
            }
        }
    }
}

/// Returns whether a condition on the expiry holds. No expiry counts as later than any other.
pub(super) fn may_expire(only: ExpireOnly, old: Option<Stamp>, new: Option<Stamp>) -> bool {
    let never = u64::MAX;
    match only {
        ExpireOnly::Always => true,
        ExpireOnly::WithoutExpiry => old.is_none(),
        ExpireOnly::WithExpiry => old.is_some(),
        ExpireOnly::Later => new.unwrap_or(never) > old.unwrap_or(never),
        ExpireOnly::Earlier => new.unwrap_or(never) < old.unwrap_or(never),
        ExpireOnly::EarlierThanThere => old.is_some_and(|old| new.unwrap_or(never) < old),
    }
}
