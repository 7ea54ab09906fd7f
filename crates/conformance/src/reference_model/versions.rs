//! Multi-version map of the reference model, generic over the kind of state.
//!
//! ```text
//!   name -> [ Version { counter, value or deletion, expiry }, ... ]   oldest first
//! ```

use super::Moment;
use mainstay_model::{Revision, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// All versions of all names of one kind of state.
#[derive(Clone, Debug, PartialEq)]
pub struct Versions<T>(BTreeMap<String, Vec<Version<T>>>);

/// One version of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Version<T> {
    /// The number of writes so far, including deletions.
    pub counter: u64,
    /// The number of writes that this version represents.
    pub writes: u64,
    /// The value; `None` for a deletion.
    pub value: Option<T>,
    /// Timestamp of the write.
    pub stamp: Stamp,
    /// Revision of the write.
    pub revision: Revision,
    /// Expiry timestamp.
    pub expires: Option<Stamp>,
    /// ID of the branch it was written on.
    pub home: u32,
}

/// The transaction and branch of a write.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    /// Revision of the transaction.
    pub revision: Revision,
    /// Timestamp of the transaction.
    pub stamp: Stamp,
    /// ID of the branch.
    pub home: u32,
}

impl<T> Version<T> {
    fn expired(&self, now: Stamp) -> bool {
        self.value.is_some() && self.expires.is_some_and(|at| at <= now)
    }

    fn live(&self, now: Stamp) -> bool {
        self.value.is_some() && !self.expired(now)
    }
}

impl<T> Default for Versions<T> {
    fn default() -> Versions<T> {
        Versions(BTreeMap::new())
    }
}

impl<T: Clone> Versions<T> {
    /// The newest version that is not newer than a revision.
    pub fn newest(&self, name: &str, upto: Revision) -> Option<&Version<T>> {
        self.all(name).iter().rev().find(|version| version.revision <= upto)
    }

    /// The version that is live at a moment.
    pub fn live(&self, name: &str, moment: Moment) -> Option<&Version<T>> {
        self.newest(name, moment.revision).filter(|version| version.live(moment.now))
    }

    /// The value that is live at a moment.
    pub fn value(&self, name: &str, moment: Moment) -> Option<T> {
        self.live(name, moment).and_then(|version| version.value.clone())
    }

    /// All versions of a name, oldest first.
    pub fn all(&self, name: &str) -> &[Version<T>] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every name that was ever written, in byte order.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns whether a name was not written between two revisions. A recorded expiry does not count as
    /// a write, because readers already saw the value as expired.
    pub fn unwritten(&self, name: &str, since: Revision, upto: Revision) -> bool {
        let all = self.all(name);
        let swept = |place: usize, version: &Version<T>| {
            let before = place.checked_sub(1).and_then(|before| all.get(before));
            let due = before.is_some_and(|before| before.expired(version.stamp));
            due && version.value.is_none() && version.writes == 1
        };
        let mut later = all.iter().enumerate().filter(|(_, version)| version.revision > since);
        later.all(|(place, version)| version.revision > upto || swept(place, version))
    }

    /// Copies the versions up to a revision.
    pub fn upto(&self, revision: Revision) -> Versions<T> {
        let mut copy = self.clone();
        for versions in copy.0.values_mut() {
            versions.retain(|version| version.revision <= revision);
        }
        copy.0.retain(|_, versions| !versions.is_empty());
        copy
    }

    /// The counter of a name. A deletion keeps it; a name that was never written has zero.
    pub fn counter(&self, name: &str, upto: Revision) -> u64 {
        self.newest(name, upto).map_or(0, |version| version.counter)
    }

    /// Writes a version and returns its counter. If the value has expired, the expiry is recorded first
    /// and counts as a write.
    pub fn write(
        &mut self,
        writer: Writer,
        name: &str,
        value: Option<T>,
        expires: Option<Stamp>,
    ) -> u64 {
        self.settle(writer, name);
        let counter = self.counter(name, writer.revision) + 1;
        self.write_as(writer, name, value, expires, counter)
    }

    /// Writes a version with a given counter. Several writes of one transaction share one version.
    pub fn write_as(
        &mut self,
        writer: Writer,
        name: &str,
        value: Option<T>,
        expires: Option<Stamp>,
        counter: u64,
    ) -> u64 {
        let before = self.counter(name, writer.revision);
        let versions = self.0.entry(name.to_owned()).or_default();
        let mine = versions.pop_if(|version| version.revision == writer.revision);
        let writes = mine.map_or(0, |version| version.writes) + (counter - before);
        let Writer { revision, stamp, home } = writer;
        versions.push(Version { counter, writes, value, stamp, revision, expires, home });
        counter
    }

    /// Records an expiry that is due as a deletion and returns whether it did.
    pub fn settle(&mut self, writer: Writer, name: &str) -> bool {
        let newest = self.newest(name, writer.revision);
        let due = newest.is_some_and(|version| version.expired(writer.stamp));
        if due {
            let counter = self.counter(name, writer.revision) + 1;
            self.write_as(writer, name, None, None, counter);
        }
        due
    }

    /// Deletes the expired values written on this branch and returns their number.
    pub fn expire_own(&mut self, writer: Writer) -> u64 {
        let due = |versions: &Vec<Version<T>>| {
            versions.last().is_some_and(|v| v.home == writer.home && v.expired(writer.stamp))
        };
        let due: BTreeSet<String> =
            self.0.iter().filter(|(_, all)| due(all)).map(|(name, _)| name.clone()).collect();
        due.iter().filter(|name| self.settle(writer, name)).count() as u64
    }
}
