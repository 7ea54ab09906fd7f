//! Read views: one branch at one revision, for cells, records, runs and all other kinds of state.
//!
//! ```text
//!   commands that only read --+
//!                             +--> ReadView { branch, revision, time } --> answers that are consistent
//!   names of several kinds  --+
//! ```
//!
//! For servers of a database: they have commands as values, and some of their clients have one
//! namespace for cells and records.

use crate::apply::key_state::{FoundNames, text};
use crate::apply::names::hidden_of;
use crate::key::keyspace;
use crate::lifecycle::engine::Engine;
use crate::mvcc::pins::PinGuard;
use crate::read::snapshot::Snapshot;
use mainstay_model::limits::check_page;
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Contract, Error, Name, Page, RecordCommand, Result,
    Scales, SmallVec, Stamp, StringCommand,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A branch at one revision.
pub struct ReadView {
    snapshot: Snapshot,
    /// Records whose keys begin with one of these are left out of lists of names.
    hidden: Option<Arc<[String]>>,
    _pin: Option<PinGuard>,
}

impl ReadView {
    /// The view of a snapshot that is not pinned, so retention may trim it.
    pub fn of(snapshot: Snapshot) -> ReadView {
        ReadView { snapshot, hidden: None, _pin: None }
    }

    pub fn pinned(core: &Arc<Engine>, branch: &str, at: At) -> Result<ReadView> {
        let mut snapshot = Snapshot::new(core, branch, at)?;
        snapshot.fresh = false;
        // Pinned first, checked second: what is readable now stays so.
        let pin = core.pins.hold("reader", core.clock.monotonic_us(), snapshot.revision);
        core.index().check_any_reach(snapshot.revision)?;
        Ok(ReadView { snapshot, hidden: None, _pin: Some(pin) })
    }

    /// Returns the view without records whose keys begin with one of these prefixes in lists of names
    /// and random names.
    #[must_use]
    pub fn hiding(self, prefixes: Arc<[String]>) -> ReadView {
        ReadView { hidden: Some(prefixes), ..self }
    }

    /// The revision of the view.
    pub fn revision(&self) -> u64 {
        self.snapshot.revision
    }

    /// The time at which the view judges expiry.
    pub fn now(&self) -> Stamp {
        self.snapshot.now
    }

    /// Returns when the cell or record of this name expires; `None` if it does not exist or does not
    /// expire. Its value is not read.
    pub fn expiry(&self, contract: Contract, name: &Name) -> Result<Option<Stamp>> {
        self.snapshot.expiry(keyspace::of(contract)?, name)
    }

    /// Answers commands that only read. The total size of their answers is limited.
    pub fn answers(&self, commands: &[Command]) -> Result<SmallVec<[Answer; 1]>> {
        self.answers_within(commands, usize::MAX)?.ok_or_else(Answer::mismatch)
    }

    /// As `answers`, but returns `None` if the answers exceed `bytes` before the last command.
    pub fn answers_within(
        &self,
        commands: &[Command],
        bytes: usize,
    ) -> Result<Option<SmallVec<[Answer; 1]>>> {
        if let [command] = commands {
            return Ok(Some(SmallVec::from_iter([self.answer(command)?])));
        }
        let mut answers = SmallVec::new();
        let mut scales = Scales::default();
        let mut left = bytes;
        for command in commands {
            if left == 0 {
                return Ok(None);
            }
            let answer = self.answer(command)?;
            let weight = answer.weight_bytes();
            scales.add_bytes(weight)?;
            left = left.saturating_sub(weight);
            answers.push(answer);
        }
        Ok(Some(answers))
    }

    /// Answers a command that only reads.
    pub fn answer(&self, command: &Command) -> Result<Answer> {
        let snapshot = &self.snapshot;
        match command {
            Command::Cell(CellCommand::Get { name }) => snapshot.get(name).map(Answer::Cell),
            Command::Cell(CellCommand::List { prefix, after, limit }) => {
                snapshot.list(prefix, after.as_deref(), *limit).map(Answer::Names)
            }
            Command::Cell(CellCommand::History { name, limit, before }) => {
                snapshot.history(name, *limit, *before).map(Answer::History)
            }
            Command::String(StringCommand::Get { name }) => snapshot.text(name).map(Answer::Cell),
            Command::Hash(command) if command.is_read() => snapshot.hash(command),
            Command::Record(RecordCommand::Get { key, fields }) => {
                snapshot.record(key, fields.as_deref()).map(Answer::Record)
            }
            Command::Record(RecordCommand::Scan { prefix, filters, after, limit }) => {
                snapshot.scan(prefix, filters, after.as_deref(), *limit).map(Answer::Records)
            }
            Command::Record(RecordCommand::Count { prefix, filters }) => {
                snapshot.count(prefix, filters).map(Answer::Count)
            }
            Command::Record(RecordCommand::History { key, limit, before }) => {
                snapshot.record_history(key, *limit, *before).map(Answer::RecordHistory)
            }
            Command::Run(command) if command.is_read() => {
                Ok(Answer::Run(Box::new(snapshot.runs(command)?)))
            }
            Command::Outbox(command) if command.is_read() => snapshot.outbox(command),
            Command::State(command) if command.is_read() => snapshot.state(command),
            Command::Key(command) if command.is_read() => snapshot.key_names(command),
            other => Err(no_read(other)),
        }
    }

    /// Returns names of these kinds of state in byte order, each once: those that begin with `prefix`
    /// and come after `after`.
    pub fn names(
        &self,
        kinds: &[Contract],
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page> {
        self.names_within(kinds, prefix, after, limit, usize::MAX)
    }

    /// As `names`, but examines at most `looks` names of each kind, including deleted ones. If that
    /// limit is reached, the page has fewer names, perhaps none, and `next` is the cursor to continue
    /// from.
    pub fn names_within(
        &self,
        kinds: &[Contract],
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        looks: usize,
    ) -> Result<Page> {
        check_page(limit)?;
        let range = (prefix.as_bytes(), after.map(str::as_bytes));
        Ok(self.merged(kinds, range, (limit, looks.max(1)))?.into_page())
    }

    /// Merges names of several kinds in one order. The result ends at the first place where the scan of
    /// one kind ended.
    pub fn merged(
        &self,
        kinds: &[Contract],
        range: (&[u8], Option<&[u8]>),
        (limit, looks): (usize, usize),
    ) -> Result<FoundNames> {
        let mut all = BTreeSet::new();
        let mut next = None::<Vec<u8>>;
        let mut looked = 0;
        let hidden = self.hidden.as_deref().unwrap_or_default();
        for kind in kinds {
            let of = (keyspace::of(*kind)?, hidden_of(*kind, hidden));
            let found = self.snapshot.names_within(of, range, (limit, looks))?;
            next = [next, found.next].into_iter().flatten().min();
            looked += found.looked;
            all.extend(found.names);
        }
        let mut names: Vec<Vec<u8>> =
            all.into_iter().filter(|name| next.as_ref().is_none_or(|next| name <= next)).collect();
        if names.len() > limit {
            names.truncate(limit);
            next = names.last().cloned();
        }
        Ok(FoundNames { names, next, expires: None, looked })
    }

    /// Returns a random name of these kinds; `random` supplies random numbers. Among few names each is
    /// equally likely. Among many, it descends the tree of prefixes and chooses each branch with equal
    /// probability. It examines about `looks` names, including deleted ones. If all of them were
    /// deleted and more follow, the page is empty and `next` is set.
    ///
    /// ```
    /// use mainstay::{At, Contract, Database};
    /// let db = Database::memory()?;
    /// db.cells().set("a", 1)?;
    /// let moment = db.moment("main", At::Latest)?;
    /// assert_eq!(moment.random_name(&[Contract::Cells], || 7, 1_000)?.names, ["a"]);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn random_name(
        &self,
        kinds: &[Contract],
        mut random: impl FnMut() -> u64,
        looks: usize,
    ) -> Result<Page> {
        let mut prefix = Vec::new();
        let mut left = looks;
        loop {
            let few = self.some(kinds, &prefix, &mut left)?;
            let Some(first) = few.names.first().filter(|_| few.next.is_some() && left > 0) else {
                return Ok(chosen(few, &mut random));
            };
            let ways = self.ways(kinds, &prefix, first, &mut left)?;
            match choose(ways, &mut random) {
                Some(NameBranch::Name(name)) => {
                    return Ok(Page { names: vec![text(name)], next: None });
                }
                Some(NameBranch::Prefix(way)) if way.len() > prefix.len() => prefix = way,
                _ => return Ok(chosen(few, &mut random)),
            }
        }
    }

    /// Returns the first few names under a prefix. Continues past deleted names until it finds live
    /// ones.
    fn some(&self, kinds: &[Contract], prefix: &[u8], left: &mut usize) -> Result<FoundNames> {
        let mut after = None;
        loop {
            let range = (prefix, after.as_deref());
            let found = self.merged(kinds, range, (FEW_NAMES, FEW_LOOKS))?;
            *left = left.saturating_sub(found.looked);
            if !found.names.is_empty() || found.next.is_none() || *left == 0 {
                return Ok(found);
            }
            after = found.next;
        }
    }

    /// Returns the ways in which the names under a prefix continue. `first` is the first of these
    /// names.
    fn ways(
        &self,
        kinds: &[Contract],
        prefix: &[u8],
        first: &[u8],
        left: &mut usize,
    ) -> Result<Vec<NameBranch>> {
        let mut next = |after: &[u8]| -> Result<Option<Vec<u8>>> {
            let found = self.merged(kinds, (prefix, Some(after)), (1, FEW_LOOKS))?;
            *left = left.saturating_sub(found.looked + 1);
            Ok(found.names.into_iter().next().filter(|_| *left > 0))
        };
        // No name contains this byte, so every name with that beginning sorts before it.
        let behind = |way: &[u8]| [way, &[u8::MAX]].concat();
        // Binary search for the longest prefix that all names share.
        let mut shared = prefix.len();
        let mut apart = first.len();
        while shared < apart {
            let middle = (shared + apart).div_ceil(2);
            match next(&behind(&first[..middle]))? {
                None => shared = middle,
                Some(_) => apart = middle - 1,
            }
        }
        let mut ways = Vec::new();
        let mut name = Some(first.to_vec());
        if first.len() == shared {
            ways.push(NameBranch::Name(first.to_vec()));
            name = next(first)?;
        }
        while let Some(way) = name.as_ref().and_then(|name| name.get(..=shared)) {
            ways.push(NameBranch::Prefix(way.to_vec()));
            name = next(&behind(way))?;
        }
        Ok(ways)
    }
}

/// A continuation of names after a shared prefix.
enum NameBranch {
    /// The shared prefix is itself a name.
    Name(Vec<u8>),
    /// Some names begin with this.
    Prefix(Vec<u8>),
}

/// Up to this many names are chosen from with equal probability.
const FEW_NAMES: usize = 128;
/// How many names are examined to find them, including deleted ones.
const FEW_LOOKS: usize = 512;

fn choose<T>(mut all: Vec<T>, random: &mut impl FnMut() -> u64) -> Option<T> {
    let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
    let place = usize::try_from(random() % count).ok()?;
    Some(all.swap_remove(place))
}

/// Returns one of the names. If none was found, returns the cursor to continue from.
fn chosen(found: FoundNames, random: &mut impl FnMut() -> u64) -> Page {
    let next = found.next.filter(|_| found.names.is_empty()).map(text);
    Page { names: choose(found.names, random).map(text).into_iter().collect(), next }
}

#[cold]
fn no_read(command: &Command) -> Error {
    let message = format!("{command:?} does not only read: execute it in a transaction");
    Error::new(Code::Unsupported, message)
}
