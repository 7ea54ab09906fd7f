//! Cells: named values with compare-and-swap, counters and full history.

use crate::backend::Backend;
use crate::database::Database;
use crate::keyed::KeyedAt;
use crate::records::RecordsAt;
use crate::runs::RunsAt;
use mainstay_client::{AsyncCells, AsyncCellsAt, ConnectionPool, wait};
use mainstay_engine::key::entry::{self, DELETED};
use mainstay_engine::key::keyspace::{self, MAIN_ID};
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_engine::read::pinned_snapshot::PinnedSnapshot;
use mainstay_engine::read::snapshot::Snapshot;
use mainstay_engine::storage::version_cache::CacheLookup;
use mainstay_model::build::check_state_read;
use mainstay_model::{
    Answer, At, CellCommand, Code, CompactString, HistoryEntry, MAIN, Name, Number, Page, Result,
    Revision, StateCommand, Transaction, Ttl, Value, Versioned, check_name, codec, from_value,
    to_value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The cells of one branch.
///
/// ```
/// let db = mainstay::Database::memory()?;
/// let cells = db.cells();
/// assert_eq!(cells.set("a", "first")?, 1);
/// assert_eq!(cells.cas("a", Some(1), "second")?, Some(2));
/// assert_eq!(cells.cas("a", Some(1), "too late")?, None);
/// assert_eq!(cells.history("a", 10, None)?.len(), 2);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Cells {
    place: Backend,
    branch: CompactString,
    /// True for `main` of an embedded database, whose reads take a shortcut.
    is_main: bool,
}

impl Cells {
    pub(crate) fn on(place: Backend, branch: &str) -> Cells {
        let is_main = branch == MAIN && matches!(place, Backend::Local(_));
        Cells { place, branch: branch.into(), is_main }
    }

    /// Returns the async client API for the same cells.
    fn there(&self, link: &Arc<ConnectionPool>) -> AsyncCells {
        AsyncCells::on(link.clone(), &self.branch)
    }

    fn snapshot(&self, core: &Arc<Engine>) -> Result<Snapshot> {
        Snapshot::new(core, &self.branch, At::Latest)
    }

    /// Returns the value of a cell, or `None` if it is absent.
    #[inline]
    pub fn get(&self, name: &str) -> Result<Option<Value>> {
        if self.is_main
            && let Backend::Local(core) = &self.place
        {
            return get_on_main(core, name);
        }
        Ok(self.get_versioned(name)?.map(|cell| cell.value))
    }

    /// Passes the text of a cell ([`Value::as_text`]) to `read` and returns its result. Strings and bytes
    /// of `main` that are in memory are not copied. Returns `None` if the cell is absent.
    ///
    /// Keep `read` short, because it may block writers. It must not call the database.
    ///
    /// ```
    /// let cells = mainstay::Database::memory()?.cells();
    /// cells.set("a", "text")?;
    /// assert_eq!(cells.read_text("a", |text| text.len())?, Some(4));
    /// assert_eq!(cells.read_text("b", |text| text.len())?, None);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    #[inline]
    pub fn read_text<T>(&self, name: &str, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let core = match &self.place {
            Backend::Local(core) if self.is_main => core,
            _ => return Ok(self.get(name)?.map(|value| read(&value.as_text()))),
        };
        core.check_open()?;
        // Only one of the two branches calls `read`, but the compiler cannot prove it; hence the `Option`.
        let mut read = Some(read);
        let mut once = |text: &[u8]| read.take().map(|read| read(text));
        match current_on_main(core, name, |payload| Ok(once(&codec::text(payload)?))) {
            CacheLookup::Found(found) => Ok(found?.flatten()),
            CacheLookup::Elsewhere => Ok(self.get(name)?.and_then(|value| once(&value.as_text()))),
        }
    }

    /// Returns the value of a cell with its counter, stamp and revision, or `None` if the cell is absent.
    pub fn get_versioned(&self, name: &str) -> Result<Option<Versioned>> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(self.there(link).get_versioned(name)),
        };
        let name = Name::new(name)?;
        loop {
            match self.snapshot(core)?.get(&name) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                other => return other,
            }
        }
    }

    /// Reads several cells, one result per name in the same order. The reads do not share a snapshot.
    pub fn get_many(&self, names: &[&str]) -> Vec<Result<Option<Value>>> {
        names.iter().map(|name| self.get(name)).collect()
    }

    /// Reads a cell and deserializes its value into `T`. Returns `None` if the cell is absent, and fails
    /// with `InvalidValue` if the value does not fit the type.
    ///
    /// ```
    /// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    /// struct Job { state: String, tries: u32 }
    /// let cells = mainstay::Database::memory()?.cells();
    /// let job = Job { state: "running".into(), tries: 1 };
    /// cells.set_as("job", &job)?;
    /// assert_eq!(cells.get_as("job")?, Some(job));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn get_as<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        self.get(name)?.map(from_value).transpose()
    }

    /// Serializes `value` and writes it to a cell. Returns the new counter.
    pub fn set_as<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<u64> {
        self.set(name, to_value(value)?)
    }

    /// Serializes `value` and writes it with compare-and-swap, as [`Cells::cas`] does.
    pub fn cas_as<T: Serialize + ?Sized>(
        &self,
        name: &str,
        expected: Option<u64>,
        value: &T,
    ) -> Result<Option<u64>> {
        self.cas(name, expected, to_value(value)?)
    }

    #[inline]
    fn run(&self, command: CellCommand) -> Result<Answer> {
        let mut transaction = Transaction::on(&self.branch);
        transaction.steps.push(command.into());
        let receipt = match &self.place {
            Backend::Local(core) => core.sequencer.execute(transaction)?,
            Backend::Remote(link) => link.execute_and_wait(&transaction)?,
        };
        receipt.into_first()
    }

    /// Writes the cell only if it is absent. Returns its counter in both cases.
    pub fn init(&self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let name = Name::new(name)?;
        self.run(CellCommand::Init { name, value: value.into() })?.into_counter()
    }

    /// Writes a cell and removes its time to live. Returns the new counter.
    pub fn set(&self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear)
    }

    /// Writes a cell with a time to live. Returns the new counter.
    pub fn set_with(&self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let name = Name::new(name)?;
        self.run(CellCommand::Set { name, value: value.into(), ttl })?.into_counter()
    }

    /// Compare-and-swap: writes if the cell's counter equals `expected` (`None`: if the cell is absent).
    /// Returns the new counter, or `None` if the counter differs.
    pub fn cas(
        &self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let name = Name::new(name)?;
        self.run(CellCommand::Cas { name, expected, value: value.into() })?.into_maybe_counter()
    }

    /// Deletes a cell. Returns whether it existed. Its counter continues if the cell is written again.
    pub fn delete(&self, name: &str) -> Result<bool> {
        self.run(CellCommand::Delete { name: Name::new(name)?, counter: None })?.into_did()
    }

    /// Deletes a cell if its counter equals `counter`. Returns whether it was deleted.
    pub fn delete_if(&self, name: &str, counter: u64) -> Result<bool> {
        self.run(CellCommand::Delete { name: Name::new(name)?, counter: Some(counter) })?.into_did()
    }

    /// Adds `by` to a number. Returns the sum and the new counter. Fails with `NotANumber` or `Overflow`.
    pub fn incr(&self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        self.run(CellCommand::Incr { name: Name::new(name)?, by: by.into() })?.into_number()
    }

    /// Changes a cell's time to live. Returns whether the cell exists.
    pub fn expire(&self, name: &str, ttl: Ttl) -> Result<bool> {
        self.run(CellCommand::Expire { name: Name::new(name)?, ttl })?.into_did()
    }

    /// Executes commands as independent transactions that share the log's fsync. Each has its own result,
    /// so an invalid command fails alone.
    pub fn batch(&self, commands: Vec<CellCommand>) -> Vec<Result<Answer>> {
        let transactions = commands
            .into_iter()
            .map(|command| Transaction::on(&self.branch).step(command))
            .collect();
        let answer = |receipt: mainstay_model::Receipt| receipt.into_first();
        let receipts = Database { place: self.place.clone() }.execute_all(transactions);
        receipts.into_iter().map(|receipt| receipt.and_then(answer)).collect()
    }

    /// Lists the versions of a cell, newest first, including deletions. With `before`, only versions with a
    /// smaller counter are listed.
    pub fn history(
        &self,
        name: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>> {
        match &self.place {
            Backend::Local(core) => self.snapshot(core)?.history(&Name::new(name)?, limit, before),
            Backend::Remote(link) => wait(self.there(link).history(name, limit, before)),
        }
    }

    /// Lists cell names in byte order: at most `limit` names that begin with `prefix` and sort after
    /// `after`.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(self.there(link).list(prefix, after, limit)),
        };
        loop {
            match self.snapshot(core)?.list(prefix, after, limit) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                other => return other,
            }
        }
    }

    /// Opens a view of the cells at one point in time. The view pins that revision until it is dropped, for
    /// at most one hour.
    pub fn at(&self, at: At) -> Result<CellsAt> {
        Ok(CellsAt(match &self.place {
            Backend::Local(core) => {
                CellsBackend::Here(PinnedSnapshot::new(core, &self.branch, at)?)
            }
            Backend::Remote(link) => CellsBackend::There(wait(self.there(link).at(at))?),
        }))
    }
}

/// A read-only view of a branch's cells at one point in time. Clones share the view.
#[derive(Clone)]
pub struct CellsAt(CellsBackend);

#[derive(Clone)]
enum CellsBackend {
    Here(Arc<PinnedSnapshot>),
    There(AsyncCellsAt),
}

impl CellsAt {
    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        match &self.0 {
            CellsBackend::Here(pinned) => pinned.snapshot.revision,
            CellsBackend::There(view) => view.revision(),
        }
    }

    /// Returns the records in the same view.
    ///
    /// ```
    /// # let db = mainstay::Database::memory()?;
    /// db.records().set_field("job", "state", "pending")?;
    /// let then = db.cells().at(mainstay::At::Latest)?;
    /// db.records().set_field("job", "state", "done")?;
    /// let job = then.records().get("job")?.expect("it was there");
    /// assert_eq!(job.fields.text("state"), Some("pending"));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn records(&self) -> RecordsAt {
        match &self.0 {
            CellsBackend::Here(pinned) => RecordsAt::here(pinned.clone()),
            CellsBackend::There(view) => RecordsAt::there(view.records()),
        }
    }

    /// Returns the runs in the same view.
    pub fn runs(&self) -> RunsAt {
        match &self.0 {
            CellsBackend::Here(pinned) => RunsAt::here(pinned.clone()),
            CellsBackend::There(view) => RunsAt::there(view.runs()),
        }
    }

    /// Returns a space of keyed state in the same view.
    pub fn keyed(&self, space: &str) -> Result<KeyedAt> {
        let space = Name::new(space)?;
        Ok(match &self.0 {
            CellsBackend::Here(pinned) => KeyedAt::here(space, pinned.clone()),
            CellsBackend::There(view) => KeyedAt::there(space.clone(), view.keyed(space)),
        })
    }

    /// Executes a read-only keyed-state command in the same view, for callers that build commands as
    /// values. Fails with `InvalidArgument` if the command writes.
    pub fn read_keyed(&self, command: StateCommand) -> Result<Answer> {
        check_state_read(&command)?;
        match &self.0 {
            CellsBackend::Here(pinned) => pinned.snapshot.state(&command),
            CellsBackend::There(view) => wait(view.read_keyed(command)),
        }
    }

    /// Returns the value of a cell, or `None` if it was absent.
    pub fn get(&self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name)?.map(|cell| cell.value))
    }

    /// Returns the value of a cell with its counter, stamp and revision, or `None` if it was absent.
    pub fn get_versioned(&self, name: &str) -> Result<Option<Versioned>> {
        match &self.0 {
            CellsBackend::Here(pinned) => pinned.snapshot.get(&Name::new(name)?),
            CellsBackend::There(view) => wait(view.get_versioned(name)),
        }
    }

    /// Lists the versions of a cell up to this view's revision, newest first, including deletions. With
    /// `before`, only versions with a smaller counter are listed.
    pub fn history(
        &self,
        name: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>> {
        match &self.0 {
            CellsBackend::Here(pinned) => pinned.snapshot.history(&Name::new(name)?, limit, before),
            CellsBackend::There(view) => wait(view.history(name, limit, before)),
        }
    }

    /// Lists cell names in byte order: at most `limit` names that begin with `prefix` and sort after
    /// `after`.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        match &self.0 {
            CellsBackend::Here(pinned) => pinned.snapshot.list(prefix, after, limit),
            CellsBackend::There(view) => wait(view.list(prefix, after, limit)),
        }
    }
}

/// Fast path for reading a value: `main` has no parent layers, and most cells have no expiry.
#[inline]
fn get_on_main(core: &Engine, name: &str) -> Result<Option<Value>> {
    core.check_open()?;
    // The name needs no check if it was found: only valid names are stored.
    if let CacheLookup::Found(found) = current_on_main(core, name, codec::decode) {
        return found;
    }
    check_name(name)?;
    let index = core.index();
    let read = |entry: &[u8]| live_payload(core, entry)?.map(codec::decode).transpose();
    let key = keyspace::key(keyspace::CELLS, MAIN_ID, name.as_bytes());
    let hash = index.current.hash(&key);
    loop {
        let at = core.sequencer.published();
        let found = index.entry(hash, &key, at, true, read)?;
        // Retention may have trimmed this snapshot during the read: then retry at a newer revision.
        if index.floor(index.classes.of(&key)) <= at {
            return found.transpose().map(Option::flatten);
        }
    }
}

/// Applies `read` to the current payload of a cell of `main`, if it is in memory.
#[inline]
fn current_on_main<T>(
    core: &Engine,
    name: &str,
    read: impl FnOnce(&[u8]) -> Result<T>,
) -> CacheLookup<Result<Option<T>>> {
    let current = &core.index().current;
    let at = core.sequencer.published();
    current.lookup_name(&keyspace::CELLS_ON_MAIN, name.as_bytes(), at, |version| {
        live_payload(core, version.entry())?.map(read).transpose()
    })
}

/// Returns the payload of an entry, or `None` if it is deleted or has expired.
#[inline]
fn live_payload<'e>(core: &Engine, entry: &'e [u8]) -> Result<Option<&'e [u8]>> {
    if entry.first().is_some_and(|flags| flags & DELETED != 0) {
        return Ok(None);
    }
    let (head, payload) = entry::parse(entry)?;
    match head.expires {
        Some(expires) if expires <= core.now() => Ok(None),
        _ => Ok(Some(payload)),
    }
}
