//! Searches: the records that pass filters, by an index where one helps.
//!
//! ```text
//!   index -> keys of each layer \
//!   layer that it does not serve, walked -> keys that pass there > sorted -> record by record: does it pass?
//!   own writes -> keys          /
//! ```
//!
//! An index gives candidates, the record decides: a key too many costs a read, a key too few would be a
//! wrong answer. So a layer that is read before the index was whole is walked.

use super::choice::{self, Choice, Range};
use super::ordered;
use crate::entry::{self, Head};
use crate::figures::Way;
use crate::graves::{GRAVE_ENTRIES, Grave, Graves};
use crate::overlay::Overlay;
use crate::scan::Row;
use crate::spaces::{self, ENTRIES, RECORDS};
use crate::view::View;
use mainstay_model::limits::check_filters;
use mainstay_model::{Code, Error, Field, Fields, Record, Result, Revision, Stamp, Where};
use std::collections::BTreeSet;
use std::ops::Bound;

/// How many keys are held at a time; further ones are looked for again.
const HELD_KEYS: usize = 100_000;

/// What is looked for.
pub(super) struct Search<'a> {
    pub view: &'a View<'a>,
    pub overlay: &'a Overlay,
    pub prefix: &'a str,
    pub filters: &'a [Where],
}

impl Search<'_> {
    /// Visits the records that pass, in byte order of their keys, until told to stop; gives when the first of
    /// those that were taken expires, if others wrote it. What did not pass is not seen, so that it may expire.
    pub fn each(
        &self,
        after: Option<&str>,
        visit: impl FnMut(String, Record) -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        check_filters(self.filters)?;
        let choice = self.choice();
        self.view.index.searches.count(self.way(choice.as_ref()));
        match choice {
            Some(choice) => self.each_candidate(&choice, after, visit),
            None => self.each_record(after, visit),
        }
    }

    fn way(&self, choice: Option<&Choice>) -> Way {
        let serves = |choice| self.view.layers.iter().all(|&(_, at)| self.serves(choice, at));
        match choice {
            Some(choice) if serves(choice) => Way::Index,
            None if self.filters.is_empty() => Way::List,
            _ => Way::Walk,
        }
    }

    fn choice(&self) -> Option<Choice> {
        choice::choose(&self.view.index.declared(), self.prefix, self.filters)
    }

    /// The key of the record that comes first by a field, then by its key.
    pub fn first(&self, by: Option<&Field>) -> Result<Option<String>> {
        let mut best: Option<(Vec<u8>, String)> = None;
        let Some(by) = by else {
            self.each(None, |key, _| {
                best = Some((Vec::new(), key));
                Ok(false)
            })?;
            return Ok(best.map(|(_, key)| key));
        };
        if let Some(choice) = self.choice().filter(|choice| choice.is_ordered_by(by))
            && let [(_, at)] = self.view.layers[..]
            && !self.has_own_records()
            && self.serves(&choice, at)
        {
            self.view.index.searches.count(Way::Index);
            return self.first_by_entries(&choice, by);
        }
        self.each(None, |key, record| {
            let rank = rank_of(record.fields.get(by.as_bytes()));
            if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                best = Some((rank, key));
            }
            Ok(true)
        })?;
        Ok(best.map(|(_, key)| key))
    }

    /// The first entry of each range whose record passes; of those the first.
    fn first_by_entries(&self, choice: &Choice, by: &Field) -> Result<Option<String>> {
        let (branch, at) = self.view.layers[0];
        let mut best: Option<(Vec<u8>, Vec<u8>)> = None;
        for range in &choice.ranges {
            self.each_entry(choice, branch, at, range, &mut |key| {
                let Some((record, _)) = self.look(key)?.filter(|_| self.wants(key, None)) else {
                    return Ok(true);
                };
                let found = (rank_of(record.fields.get(by.as_bytes())), key.to_vec());
                best = Some(best.take().map_or(found.clone(), |best| best.min(found)));
                Ok(false)
            })?;
        }
        Ok(best.map(|(_, key)| text(&key)))
    }

    fn has_own_records(&self) -> bool {
        self.overlay.effects().iter().any(|effect| effect.key.first() == Some(&RECORDS))
    }

    /// Looks at all records under the prefix.
    fn each_record(
        &self,
        after: Option<&str>,
        mut visit: impl FnMut(String, Record) -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        let (prefix, after) = (self.prefix.as_bytes(), after.map(str::as_bytes));
        let mut walk = self.view.walk(self.overlay, RECORDS, prefix, after);
        let mut expires: Option<Stamp> = None;
        while let Some(step) = walk.next()? {
            if !step.head.is_live(self.view.now) || !self.pass(step.payload(self.overlay))? {
                continue;
            }
            let record = record(step.head, Fields::decode(step.payload(self.overlay))?);
            let theirs = record.expires.filter(|_| !step.own);
            if !visit(text(&step.name), record)? {
                break;
            }
            expires = [expires, theirs].into_iter().flatten().min();
        }
        Ok(expires)
    }

    /// Looks at the records that an index names.
    fn each_candidate(
        &self,
        choice: &Choice,
        after: Option<&str>,
        mut visit: impl FnMut(String, Record) -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        let mut after = after.map(|after| after.as_bytes().to_vec());
        let mut expires: Option<Stamp> = None;
        loop {
            let keys = self.candidates(choice, after.as_deref())?;
            for key in &keys.all {
                let Some((record, own)) = self.look(key)? else { continue };
                let theirs = record.expires.filter(|_| !own);
                if !visit(text(key), record)? {
                    return Ok(expires);
                }
                expires = [expires, theirs].into_iter().flatten().min();
            }
            if !keys.cut {
                return Ok(expires);
            }
            after = keys.all.into_iter().next_back();
        }
    }

    /// A record that lives and passes, and whether the transaction itself wrote it.
    fn look(&self, key: &[u8]) -> Result<Option<(Record, bool)>> {
        let (key, hash) = self.view.key(RECORDS, key);
        let read = |head: Head, payload: &[u8]| {
            if !head.is_live(self.view.now) || !self.pass(payload)? {
                return Ok(None);
            }
            Ok(Some(record(head, Fields::decode(payload)?)))
        };
        let found = self.view.find(self.overlay, &key, hash, read)?;
        let own = self.overlay.find(hash, &key).is_some();
        Ok(found.and_then(|(record, _)| record).map(|record| (record, own)))
    }

    fn candidates(&self, choice: &Choice, after: Option<&[u8]>) -> Result<Keys> {
        loop {
            let mut keys = Keys::default();
            let mut served = Vec::new();
            for &(branch, at) in self.view.layers {
                match self.serves(choice, at) {
                    true => {
                        served.push(at);
                        self.by_entries(choice, branch, at, after, &mut keys)?;
                    }
                    false => self.by_walking(branch, at, after, &mut keys)?,
                }
            }
            self.own(after, &mut keys);
            // Retention may have passed the entries by, or the index may have gone, while they were read.
            if served.into_iter().all(|at| self.serves(choice, at)) {
                return Ok(keys);
            }
        }
    }

    /// Whether an index has all entries of a layer that is read at a revision.
    fn serves(&self, choice: &Choice, at: Revision) -> bool {
        let declared = self.view.index.declared();
        let now = declared.iter().find(|one| one.id == choice.index.id);
        let whole = now.and_then(|one| one.ready).is_some_and(|ready| ready <= at);
        whole && self.view.index.check_space_reach(ENTRIES, at).is_ok()
    }

    fn by_entries(
        &self,
        choice: &Choice,
        branch: u32,
        at: Revision,
        after: Option<&[u8]>,
        keys: &mut Keys,
    ) -> Result<()> {
        for range in &choice.ranges {
            self.each_entry(choice, branch, at, range, &mut |key| {
                if self.wants(key, after) {
                    keys.add(key);
                }
                Ok(true)
            })?;
        }
        Ok(())
    }

    /// Visits the keys that the live entries of a layer name in a range, until told to stop. Where all are
    /// dead it walks once, and the next search begins behind.
    fn each_entry(
        &self,
        choice: &Choice,
        branch: u32,
        at: Revision,
        (low, high): &Range,
        visit: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let to = high.as_ref().map(|high| spaces::key(ENTRIES, branch, high));
        let to = to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(to.as_slice()));
        let mut from = Bound::Included(spaces::key(ENTRIES, branch, low).to_vec());
        let mut walk = Walk { graves: &self.view.index.graves, at, dead: None };
        loop {
            let mut grave = None;
            for row in self.view.index.scan(from.as_ref().map(Vec::as_slice), to, at) {
                let row = row?;
                let Some(key) = live_key(choice, &row)? else {
                    grave = walk.dead(row.key());
                    if grave.is_some() {
                        break;
                    }
                    continue;
                };
                walk.alive();
                if !visit(key)? {
                    return Ok(());
                }
            }
            match grave {
                Some(grave) => from = Bound::Excluded(grave.last),
                None => break,
            }
        }
        walk.alive();
        Ok(())
    }

    fn by_walking(
        &self,
        branch: u32,
        at: Revision,
        after: Option<&[u8]>,
        keys: &mut Keys,
    ) -> Result<()> {
        let from = spaces::key(RECORDS, branch, self.prefix.as_bytes());
        let end = spaces::after_prefix(&from);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for row in self.view.index.scan(Bound::Included(&from), to, at) {
            let row = row?;
            let key = row.key().get(spaces::PREFIX_BYTES..).unwrap_or_default();
            let (head, payload) = entry::parse(row.entry())?;
            if self.wants(key, after) && !head.is_deleted() && self.pass(payload)? {
                keys.add(key);
            }
        }
        Ok(())
    }

    /// What the transaction itself wrote has no entries yet.
    fn own(&self, after: Option<&[u8]>, keys: &mut Keys) {
        let branch = self.view.branch();
        for effect in self.overlay.effects() {
            if let Some((RECORDS, of, key)) = spaces::split(&effect.key)
                && of == branch
                && self.wants(key, after)
            {
                keys.add(key);
            }
        }
    }

    fn wants(&self, key: &[u8], after: Option<&[u8]>) -> bool {
        key.starts_with(self.prefix.as_bytes()) && after.is_none_or(|after| key > after)
    }

    /// Whether a stored record passes, without taking all of it apart.
    fn pass(&self, payload: &[u8]) -> Result<bool> {
        for Where { field, test } in self.filters {
            if !Fields::find(payload, field)?.is_some_and(|value| test.passes(value)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How it goes about it, for people.
    pub fn explain(&self, names: impl Fn(u32) -> String) -> String {
        let Some(choice) = self.choice() else {
            return format!("walks all records under `{}`: no index helps", self.prefix);
        };
        let mut lines = vec![choice.describe()];
        for &(branch, at) in self.view.layers {
            let name = names(branch);
            lines.push(match (self.serves(&choice, at), choice.index.ready) {
                (true, _) => format!("branch `{name}`: by the index"),
                (false, None) => format!("branch `{name}`: walked, the index is being filled"),
                (false, Some(ready)) => format!(
                    "branch `{name}`: walked, it is read as of revision {at} and the index reaches back \
                     to {}",
                    ready.max(self.view.index.space_floor(ENTRIES))
                ),
            });
        }
        lines.join("\n")
    }
}

/// Keys in order, as many as are held at a time.
#[derive(Default)]
struct Keys {
    all: BTreeSet<Vec<u8>>,
    /// There are more behind the last one.
    cut: bool,
}

impl Keys {
    fn add(&mut self, key: &[u8]) {
        if self.all.len() >= HELD_KEYS {
            self.cut = true;
            if self.all.last().is_some_and(|last| last.as_slice() <= key) {
                return;
            }
            if !self.all.contains(key) {
                self.all.pop_last();
            }
        }
        self.all.insert(key.to_vec());
    }
}

/// A walk over entries, which remembers where they are dead.
struct Walk<'g> {
    graves: &'g Graves,
    at: Revision,
    /// Where all was dead lately, and how many of those were looked at.
    dead: Option<(Grave, usize)>,
}

impl Walk<'_> {
    /// Notes a dead entry; gives the grave that it stands in, if that is known.
    fn dead(&mut self, key: &[u8]) -> Option<Grave> {
        match &mut self.dead {
            Some((grave, count)) => {
                (grave.last, *count) = (key.to_vec(), *count + 1);
                None
            }
            None => {
                let known = self.graves.holding(key, self.at);
                let begun = Grave { first: key.to_vec(), last: key.to_vec() };
                self.dead = Some((known.clone().unwrap_or(begun), 0));
                known
            }
        }
    }

    /// Notes that something lives here, or that all was looked at.
    fn alive(&mut self) {
        if let Some((grave, count)) = self.dead.take()
            && count >= GRAVE_ENTRIES
        {
            self.graves.bury(grave, self.at);
        }
    }
}

/// The key that an entry names, unless it is dead.
fn live_key<'r>(choice: &Choice, row: &'r Row) -> Result<Option<&'r [u8]>> {
    if entry::parse(row.entry())?.0.is_deleted() {
        return Ok(None);
    }
    let name = row.key().get(spaces::PREFIX_BYTES..).unwrap_or_default();
    choice.index.key_in(name).ok_or_else(strange).map(Some)
}

/// What a record is compared by, as an index has it.
fn rank_of(value: Option<&[u8]>) -> Vec<u8> {
    let mut rank = Vec::new();
    ordered::put(value, &mut rank);
    rank
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

pub(super) fn record(head: Head, fields: Fields) -> Record {
    let Head { counter, stamp, revision, expires, .. } = head;
    Record { fields, counter, stamp, revision, expires }
}

#[cold]
fn strange() -> Error {
    Error::new(Code::CorruptData, "an entry of an index cannot be read: run `mainstay doctor`")
}
