//! Search for records that pass filters, by a secondary index where one helps.
//!
//! ```text
//!   own writes -> keys
//!   layer that the index covers -> keys of its entries                > does the record pass?
//!   any other layer -> scanned for keys that pass there
//! ```
//!
//! An index gives candidates and the record decides. A superfluous key costs a read, but a missing key would
//! give a wrong answer. So a layer is scanned if it is read as of a revision before the index was complete.
//!
//! Each source has an order. It is by key if all fields of the index are compared with `=`: then a page
//! begins where the last one ended and scans no more than it needs. It is by a field for a query for the
//! first record by that field. Counting needs no order.

use super::index_selection::{self, IndexSelection};
use super::live_entries;
use crate::base::metrics::SearchPath;
use crate::key::entry::{self, EntryHeader};
use crate::key::keyspace::{self, ENTRIES, RECORDS};
use crate::key::order_preserving;
use crate::mvcc::view::{Origin, View};
use crate::mvcc::write_set::WriteSet;
use mainstay_model::limits::check_filters;
use mainstay_model::{
    Code, Error, Field, Fields, Record, Result, Revision, SmallVec, Stamp, Where,
};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Maximal number of keys held at a time. Further keys take another search.
const HELD_KEYS: usize = 100_000;
/// Minimal number of keys of the first batch, because records of some index entries may not pass.
const FIRST_KEYS: usize = 16;
/// Growth factor of the batch, if the previous one was not enough.
const MORE_KEYS: usize = 4;

/// A search for records.
pub(super) struct Search<'a> {
    pub view: &'a View<'a>,
    pub overlay: &'a WriteSet,
    pub prefix: &'a str,
    pub filters: &'a [Where],
}

/// A key whose record may match.
struct Candidate<'c> {
    key: &'c [u8],
    /// The name of the index entry, if an index gave the key.
    name: Option<&'c [u8]>,
    /// The layer that gave the key.
    origin: Origin,
}

/// Callback for candidates. Returns `false` to leave the source.
type Visit<'v> = dyn FnMut(Candidate<'_>) -> Result<bool> + 'v;

impl Search<'_> {
    /// Visits the records that pass, in byte order of their keys, until `visit` returns `false`. Returns the
    /// earliest expiry among the visited records that other transactions wrote. Records that do not pass are
    /// not part of it, so they may expire. `wanted` is no limit: it only minimizes the work for that many
    /// records.
    pub fn each(
        &self,
        after: Option<&str>,
        wanted: usize,
        visit: impl FnMut(&[u8], EntryHeader, &[u8]) -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        match self.begin(None)? {
            Some(choice) => self.each_candidate(&choice, after, wanted, visit),
            None => self.each_record(after, visit),
        }
    }

    /// Returns the number of records that pass, and the earliest expiry among those that other transactions
    /// wrote.
    pub fn count(&self) -> Result<(u64, Option<Stamp>)> {
        let Some(choice) = self.begin(None)? else {
            let mut count = 0;
            let expires = self.each_record(None, |_, _, _| {
                count += 1;
                Ok(true)
            })?;
            return Ok((count, expires));
        };
        loop {
            let mut count = 0;
            let mut expires = None;
            let whole = self.each_source(&choice, None, &mut |candidate| {
                let found = self.look(candidate.key, |head, _| Ok(head.expires))?;
                // A key occurs once in each layer that has it. Only its deciding layer counts.
                if let Some((ends, origin)) =
                    found.filter(|(_, origin)| *origin == candidate.origin)
                {
                    count += 1;
                    expires = sooner(expires, ends, origin);
                }
                Ok(true)
            })?;
            if whole {
                return Ok((count, expires));
            }
        }
    }

    /// Returns the key of the record that comes first by a field, then by its key.
    pub fn first(&self, by: Option<&Field>) -> Result<Option<String>> {
        let Some(by) = by else {
            let mut first = None;
            self.each(None, 1, |key, _, _| {
                first = Some(text(key));
                Ok(false)
            })?;
            return Ok(first);
        };
        let first = match self.begin(Some(by))? {
            Some(choice) => self.first_candidate(&choice, by)?,
            None => {
                let mut first = First::default();
                self.each_record(None, |key, _, payload| {
                    first.offer(rank_of(Fields::find(payload, by)?), key);
                    Ok(true)
                })?;
                first
            }
        };
        Ok(first.0.map(|(_, key)| text(&key)))
    }

    /// Chooses an index, and counts the search.
    fn begin(&self, by: Option<&Field>) -> Result<Option<IndexSelection>> {
        check_filters(self.filters)?;
        let choice = self.choice(by);
        self.view.index.searches.count(self.way(choice.as_ref()));
        Ok(choice)
    }

    fn way(&self, choice: Option<&IndexSelection>) -> SearchPath {
        let serves = |choice| self.view.layers.iter().all(|&(_, at)| self.serves(choice, at));
        match choice {
            Some(choice) if serves(choice) => SearchPath::Index,
            None if self.filters.is_empty() => SearchPath::List,
            _ => SearchPath::Walk,
        }
    }

    fn choice(&self, by: Option<&Field>) -> Option<IndexSelection> {
        index_selection::choose(&self.view.index.declared(), self.prefix, self.filters, by)
    }

    /// Returns the first of the candidates that pass. Leaves an ordered source once it cannot give an earlier
    /// one.
    fn first_candidate(&self, choice: &IndexSelection, by: &Field) -> Result<First> {
        let ordered = choice.is_ordered_by(by);
        loop {
            let mut first = First::default();
            let whole = self.each_source(choice, None, &mut |candidate| {
                if let (Some(first), Some(name), true) = (&first.0, candidate.name, ordered)
                    && choice.is_behind(name, first)
                {
                    return Ok(false);
                }
                let rank = |_, payload: &[u8]| Ok(rank_of(Fields::find(payload, by)?));
                if let Some((rank, _)) = self.look(candidate.key, rank)? {
                    first.offer(rank, candidate.key);
                }
                Ok(true)
            })?;
            if whole {
                return Ok(first);
            }
        }
    }

    /// Scans all records with the prefix.
    fn each_record(
        &self,
        after: Option<&str>,
        mut visit: impl FnMut(&[u8], EntryHeader, &[u8]) -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        let prefix = self.prefix.as_bytes();
        let after = after.map(str::as_bytes);
        let mut walk = self.view.walk(self.overlay, RECORDS, prefix, after);
        let mut expires = None;
        while let Some(step) = walk.next()? {
            self.view.index.searches.pass();
            let payload = step.payload();
            if !step.head.is_live(self.view.now) || !self.pass(payload)? {
                continue;
            }
            let origin = if step.own { Origin::Overlay } else { Origin::Own };
            if !visit(step.name(), step.head, payload)? {
                break;
            }
            expires = sooner(expires, step.head.expires, origin);
        }
        Ok(expires)
    }

    /// Visits the records of an index's candidates, in key order.
    fn each_candidate(
        &self,
        choice: &IndexSelection,
        after: Option<&str>,
        wanted: usize,
        mut visit: impl FnMut(&[u8], EntryHeader, &[u8]) -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        let mut after = after.map(|after| after.as_bytes().to_vec());
        let mut expires = None;
        let mut held = if choice.is_in_order_of_keys() {
            wanted.clamp(FIRST_KEYS, HELD_KEYS)
        } else {
            // All candidates must be scanned before the first is known, so as many as possible are held.
            HELD_KEYS
        };
        loop {
            let keys = self.keys(choice, after.as_deref(), held)?;
            for key in &keys.all {
                let see = |head: EntryHeader, payload: &[u8]| {
                    Ok((visit(key, head, payload)?, head.expires))
                };
                let Some(((more, ends), origin)) = self.look(key, see)? else { continue };
                if !more {
                    return Ok(expires);
                }
                expires = sooner(expires, ends, origin);
            }
            if !keys.cut {
                return Ok(expires);
            }
            held = (held * MORE_KEYS).min(HELD_KEYS);
            after = keys.all.into_iter().next_back();
        }
    }

    /// Reads a record that is live and passes, and returns the layer that it is in.
    fn look<T>(
        &self,
        key: &[u8],
        mut read: impl FnMut(EntryHeader, &[u8]) -> Result<T>,
    ) -> Result<Option<(T, Origin)>> {
        let (key, hash) = self.view.key(RECORDS, key);
        let read = |head: EntryHeader, payload: &[u8]| {
            if head.is_live(self.view.now) && self.pass(payload)? {
                read(head, payload).map(Some)
            } else {
                Ok(None)
            }
        };
        let found = self.view.find(self.overlay, &key, hash, read)?;
        Ok(found.and_then(|(found, origin)| found.map(|found| (found, origin))))
    }

    /// Returns the first keys after `after`, up to `held` of them.
    fn keys(&self, choice: &IndexSelection, after: Option<&[u8]>, held: usize) -> Result<Keys> {
        loop {
            let mut keys = Keys { all: BTreeSet::new(), held, cut: false };
            let whole = self.each_source(choice, after, &mut |candidate| {
                let sorted = candidate.name.is_none() || choice.is_in_order_of_keys();
                Ok(keys.add(candidate.key) || !sorted)
            })?;
            if whole {
                return Ok(keys);
            }
        }
    }

    /// Visits the candidates of each source. Returns `false` if they may be incomplete, because retention
    /// removed entries or the index was dropped meanwhile. Then the search must be repeated.
    fn each_source(
        &self,
        choice: &IndexSelection,
        after: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        self.each_own(after, visit)?;
        let mut served: SmallVec<[Revision; 2]> = SmallVec::new();
        for (place, &(branch, at)) in self.view.layers.iter().enumerate() {
            let origin = if place == 0 { Origin::Own } else { Origin::Inherited(place) };
            if self.serves(choice, at) {
                served.push(at);
                self.each_entry(choice, (branch, at), origin, after, visit)?;
            } else {
                self.each_walked((branch, at), origin, after, visit)?
            }
        }
        Ok(served.into_iter().all(|at| self.serves(choice, at)))
    }

    /// Returns whether an index has all entries of a layer that is read as of a revision.
    fn serves(&self, choice: &IndexSelection, at: Revision) -> bool {
        let declared = self.view.index.declared();
        let now = declared.iter().find(|one| one.id == choice.index.id);
        let whole = now.and_then(|one| one.ready).is_some_and(|ready| ready <= at);
        whole && self.view.index.check_space_reach(ENTRIES, at).is_ok()
    }

    /// Visits the candidates of a layer by the entries of an index, range by range.
    fn each_entry(
        &self,
        choice: &IndexSelection,
        layer: (u32, Revision),
        origin: Origin,
        after: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        for span in choice.spans(self.prefix.as_bytes(), after) {
            live_entries::each(self.view, layer, span, &mut |name| {
                let key = choice.index.key_in(name).ok_or_else(strange)?;
                if self.wants(key, after) {
                    visit(Candidate { key, name: Some(name), origin })
                } else {
                    Ok(true)
                }
            })?;
        }
        Ok(())
    }

    /// Visits the candidates of a layer that the index does not cover, in key order.
    fn each_walked(
        &self,
        (branch, at): (u32, Revision),
        origin: Origin,
        after: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let prefix = self.prefix.as_bytes();
        let begin = after.filter(|after| *after >= prefix).unwrap_or(prefix);
        let from = keyspace::key(RECORDS, branch, begin);
        let end = keyspace::after_prefix(&keyspace::key(RECORDS, branch, prefix));
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for row in self.view.scan(Bound::Included(&from), to, at) {
            let row = row?;
            self.view.index.searches.pass();
            let key = row.key().get(keyspace::PREFIX_BYTES..).unwrap_or_default();
            let (head, payload) = entry::parse(row.entry())?;
            let wanted = self.wants(key, after) && !head.is_deleted() && self.pass(payload)?;
            if wanted && !visit(Candidate { key, name: None, origin })? {
                break;
            }
        }
        Ok(())
    }

    /// Visits the transaction's own writes, which have no index entries yet and no order.
    fn each_own(&self, after: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        let branch = self.view.branch();
        self.view.budget.count_own(self.overlay.effects().len())?;
        for effect in self.overlay.effects() {
            if let Some((RECORDS, of, key)) = keyspace::split(&effect.key)
                && of == branch
                && self.wants(key, after)
            {
                visit(Candidate { key, name: None, origin: Origin::Overlay })?;
            }
        }
        Ok(())
    }

    fn wants(&self, key: &[u8], after: Option<&[u8]>) -> bool {
        key.starts_with(self.prefix.as_bytes()) && after.is_none_or(|after| key > after)
    }

    /// Returns whether a stored record passes, without decoding all of it.
    fn pass(&self, payload: &[u8]) -> Result<bool> {
        for Where { field, test } in self.filters {
            if !Fields::find(payload, field)?.is_some_and(|value| test.passes(value)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Describes for people how the search is executed.
    pub fn explain(&self, names: impl Fn(u32) -> String) -> String {
        let Some(choice) = self.choice(None) else {
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

/// A bounded ordered set of keys.
struct Keys {
    all: BTreeSet<Vec<u8>>,
    held: usize,
    /// Whether more keys follow the last one.
    cut: bool,
}

impl Keys {
    /// Adds a key. Returns `false` if no larger key would be added any more.
    fn add(&mut self, key: &[u8]) -> bool {
        if self.all.len() >= self.held && !self.all.contains(key) {
            self.cut = true;
            if self.all.last().is_some_and(|last| last.as_slice() <= key) {
                return false;
            }
            self.all.pop_last();
        }
        self.all.insert(key.to_vec())
            || self.all.len() < self.held
            || self.all.last().is_some_and(|last| last.as_slice() > key)
    }
}

/// Rank and key of the first record among those offered.
#[derive(Default)]
struct First(Option<(Vec<u8>, Vec<u8>)>);

impl First {
    fn offer(&mut self, rank: Vec<u8>, key: &[u8]) {
        let first = self.0.as_ref().map(|(rank, key)| (rank.as_slice(), key.as_slice()));
        if first.is_none_or(|first| (rank.as_slice(), key) < first) {
            self.0 = Some((rank, key.to_vec()));
        }
    }
}

/// Returns the earlier of two expiries. The expiry of an own write does not count.
fn sooner(first: Option<Stamp>, next: Option<Stamp>, origin: Origin) -> Option<Stamp> {
    let theirs = next.filter(|_| origin != Origin::Overlay);
    [first, theirs].into_iter().flatten().min()
}

/// Returns the rank of a record: the encoded value of the field, as in an index.
fn rank_of(value: Option<&[u8]>) -> Vec<u8> {
    let mut rank = Vec::new();
    order_preserving::put(value, &mut rank);
    rank
}

pub(super) fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

pub(super) fn record(head: EntryHeader, fields: Fields) -> Record {
    let EntryHeader { counter, stamp, revision, expires, .. } = head;
    Record { fields, counter, stamp, revision, expires }
}

#[cold]
fn strange() -> Error {
    Error::new(Code::CorruptData, "an entry of an index cannot be read: run `mainstay doctor`")
}
