//! Records: byte fields with compare-and-swap, expiries, filtered prefix scans and secondary indexes.

use crate::backend::Backend;
use mainstay_client::{AsyncRecords, AsyncRecordsAt, ConnectionPool, wait};
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_engine::read::pinned_snapshot::PinnedSnapshot;
use mainstay_engine::read::snapshot::Snapshot;
use mainstay_model::build::field_names;
use mainstay_model::wire::AdminRequest;
use mainstay_model::{
    Answer, At, Code, Command, CompactString, Condition, ExpireOnly, Field, FieldValue, Fields,
    IndexCommand, IndexInfo, Name, Record, RecordCommand, RecordHistoryEntry, RecordPage,
    RecordPick, RecordWrite, Result, Revision, Transaction, Ttl, Where,
};
use std::sync::Arc;

mod store;
pub(crate) use store::close_beside;

/// The records of one branch.
///
/// ```
/// use mainstay::{Fields, RecordWrite};
/// let records = mainstay::Database::memory()?.records();
/// records.put("tasks.email.17", &Fields::of([("state", "pending")])?, None)?;
/// // Of any number of workers, exactly one gets it.
/// assert!(records.compare_and_swap("tasks.email.17", "state", "pending", "claimed")?);
/// assert!(!records.compare_and_swap("tasks.email.17", "state", "pending", "claimed")?);
/// // One call may check and write several fields.
/// let step = RecordWrite::to("tasks.email.17")?
///     .when_field("state", "claimed")?
///     .set("state", "running")?
///     .set("current_step", "1")?;
/// assert_eq!(records.write(step)?, Some(3));
/// let task = records.get("tasks.email.17")?.expect("it is there");
/// assert_eq!((task.fields.text("state"), task.counter), (Some("running"), 3));
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Records {
    place: Backend,
    branch: CompactString,
}

impl Records {
    pub(crate) fn on(place: Backend, branch: &str) -> Records {
        Records { place, branch: branch.into() }
    }

    /// Returns the async client API for the same records.
    fn there(&self, link: &Arc<ConnectionPool>) -> AsyncRecords {
        AsyncRecords::on(link.clone(), &self.branch)
    }

    fn run(&self, command: impl Into<Command>) -> Result<Answer> {
        let mut transaction = Transaction::on(&self.branch);
        transaction.steps.push(command.into().into());
        let receipt = match &self.place {
            Backend::Local(core) => core.sequencer.execute(transaction)?,
            Backend::Remote(link) => link.execute_and_wait(&transaction)?,
        };
        receipt.into_first()
    }

    /// Reads at the newest visible revision. Retries if retention trimmed the snapshot during the read.
    fn look<T>(&self, core: &Arc<Engine>, read: impl Fn(&Snapshot) -> Result<T>) -> Result<T> {
        loop {
            match read(&Snapshot::new(core, &self.branch, At::Latest)?) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                other => return other,
            }
        }
    }

    /// Returns a record with its fields, counter and expiry, or `None` if it is absent.
    pub fn get(&self, key: &str) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, None)
    }

    /// Returns a record with only those of the given fields that it has, or `None` if the record is absent.
    pub fn get_fields(&self, key: &str, fields: &[&str]) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, Some(&field_names(fields)?))
    }

    /// Returns a record with only those of the `wanted` fields that it has, or with all fields if `wanted`
    /// is `None`. Field names may be any bytes here.
    pub fn get_some(&self, key: &Name, wanted: Option<&[Field]>) -> Result<Option<Record>> {
        match &self.place {
            Backend::Local(core) => self.look(core, |snapshot| snapshot.record(key, wanted)),
            Backend::Remote(link) => wait(self.there(link).get_some(key, wanted)),
        }
    }

    /// Returns the bytes of one field, or `None` if the record or the field is absent.
    pub fn get_field(&self, key: &str, field: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get_fields(key, &[field])?.and_then(Record::only_value))
    }

    /// Sets fields and keeps the others. Returns the new counter. Sets the time to live if `ttl` is given;
    /// otherwise the expiry is unchanged.
    pub fn put(&self, key: &str, fields: &Fields, ttl: Option<Ttl>) -> Result<u64> {
        self.write(RecordWrite::of(key, fields, ttl)?).and_then(RecordWrite::done)
    }

    /// Replaces all fields by the given ones. Returns the new counter.
    pub fn replace(&self, key: &str, fields: &Fields, ttl: Option<Ttl>) -> Result<u64> {
        self.write(RecordWrite::of(key, fields, ttl)?.replace()).and_then(RecordWrite::done)
    }

    /// Sets one field and keeps the expiry. Returns the new counter.
    pub fn set_field(&self, key: &str, field: &str, value: impl Into<FieldValue>) -> Result<u64> {
        self.write(RecordWrite::to(key)?.set(field, value)?).and_then(RecordWrite::done)
    }

    /// Sets several fields and keeps the expiry. Returns the new counter.
    pub fn set_fields(&self, key: &str, fields: &Fields) -> Result<u64> {
        self.put(key, fields, None)
    }

    /// Removes a field. Returns whether the record existed. A record without fields is deleted.
    pub fn clear_field(&self, key: &str, field: &str) -> Result<bool> {
        Ok(self.write(RecordWrite::to(key)?.clear(field)?)?.is_some())
    }

    /// Compare-and-swap on one field: sets it if it holds exactly the `expected` bytes. Returns whether it
    /// was set. An absent record or field never matches and is not created.
    pub fn compare_and_swap(
        &self,
        key: &str,
        field: &str,
        expected: impl AsRef<[u8]>,
        new: impl Into<FieldValue>,
    ) -> Result<bool> {
        let write = RecordWrite::to(key)?.when_field(field, expected)?.set(field, new)?;
        Ok(self.write(write)?.is_some())
    }

    /// Applies a conditional write in one atomic step. Returns the new counter, or `None` if a condition
    /// does not hold.
    ///
    /// Fails with `Fenced` if a [`Condition::Fence`] does not hold: the caller's fencing token is stale.
    pub fn write(&self, write: RecordWrite) -> Result<Option<u64>> {
        self.run(write)?.into_maybe_counter()
    }

    /// Writes to the first record that passes the filters, in one atomic step. No two concurrent callers
    /// get the same record. Returns its key and new content, or `None` if no record passes.
    ///
    /// ```
    /// use mainstay::{Field, Fields, RecordPick, Test, Where};
    /// let records = mainstay::Database::memory()?.records();
    /// for (key, rank) in [("tasks.1", "20"), ("tasks.2", "3")] {
    ///     records.put(key, &Fields::of([("state", "pending"), ("rank", rank)])?, None)?;
    /// }
    /// let pending = Where { field: Field::new("state")?, test: Test::Eq(b"pending".to_vec()) };
    /// let next = RecordPick::under("tasks.", vec![pending]).by("rank")?.set("state", "claimed")?;
    /// let picked = |pick| Ok::<_, mainstay::Error>(records.pick(pick)?.map(|(key, _)| key));
    /// assert_eq!(picked(next.clone())?.as_deref(), Some("tasks.2"));
    /// assert_eq!(picked(next.clone())?.as_deref(), Some("tasks.1"));
    /// assert_eq!(picked(next)?, None);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn pick(&self, pick: RecordPick) -> Result<Option<(String, Record)>> {
        match self.run(pick)? {
            Answer::Picked(picked) => Ok(picked.map(|picked| *picked)),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Deletes a record. Returns whether it existed. Its counter continues if the record is written again.
    pub fn delete(&self, key: &str) -> Result<bool> {
        self.delete_when(key, Vec::new())
    }

    /// Deletes a record if all conditions hold. Returns whether it was deleted.
    pub fn delete_when(&self, key: &str, when: Vec<Condition>) -> Result<bool> {
        self.run(RecordCommand::Delete { key: Name::new(key)?, when })?.into_did()
    }

    /// Changes a record's time to live. Returns whether the record exists.
    pub fn expire(&self, key: &str, ttl: Ttl) -> Result<bool> {
        let key = Name::new(key)?;
        let only = ExpireOnly::Always;
        self.run(RecordCommand::Expire { key, ttl, only })?.into_did()
    }

    /// Scans records in byte order of their keys: at most `limit` records that begin with `prefix`, pass
    /// all filters, and sort after `after`.
    pub fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        match &self.place {
            Backend::Local(core) => {
                self.look(core, |snapshot| snapshot.scan(prefix, filters, after, limit))
            }
            Backend::Remote(link) => wait(self.there(link).scan(prefix, filters, after, limit)),
        }
    }

    /// Counts the records whose keys begin with `prefix` and that pass all filters.
    pub fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        match &self.place {
            Backend::Local(core) => self.look(core, |snapshot| snapshot.count(prefix, filters)),
            Backend::Remote(link) => wait(self.there(link).count(prefix, filters)),
        }
    }

    /// Lists the versions of a record, newest first, including deletions. With `before`, only versions with
    /// a smaller counter are listed.
    pub fn history(
        &self,
        key: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(self.there(link).history(key, limit, before)),
        };
        let key = Name::new(key)?;
        self.look(core, |snapshot| snapshot.record_history(&key, limit, before))
    }

    /// Declares a secondary index over fields of the records whose keys begin with `prefix`, and returns
    /// its id. Scans use the index by themselves once the existing records are backfilled, which does not
    /// block writers. [`Records::indexes`] shows the progress. Indexes belong to the database and apply to
    /// all branches.
    ///
    /// ```
    /// use mainstay::{Field, Fields, Test, Where};
    /// let records = mainstay::Database::memory()?.records();
    /// records.add_index("tasks.", &["state", "timeout_at"])?;
    /// records.put("tasks.1", &Fields::of([("state", "running"), ("timeout_at", "17")])?, None)?;
    /// let is = |field: &str, test| Ok::<_, mainstay::Error>(Where { field: Field::new(field)?, test });
    /// let stuck = [is("state", Test::Eq(b"running".into()))?, is("timeout_at", Test::Lt(b"100".into()))?];
    /// assert_eq!(records.scan("tasks.", &stuck, None, 10)?.records.len(), 1);
    /// assert!(records.explain("tasks.", &stuck)?.starts_with("index 1 over `tasks.`"));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn add_index(&self, prefix: &str, fields: &[impl AsRef<[u8]>]) -> Result<u32> {
        let fields = fields.iter().map(Field::new).collect::<Result<Vec<_>>>()?;
        let command = IndexCommand::Add { prefix: prefix.to_owned(), fields };
        match self.run(command)? {
            Answer::Count(id) => u32::try_from(id).map_err(|_| Answer::mismatch()),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Removes an index. Returns whether it existed.
    pub fn drop_index(&self, id: u32) -> Result<bool> {
        self.run(IndexCommand::Drop { id })?.into_did()
    }

    /// Lists all declared indexes with their state.
    pub fn indexes(&self) -> Result<Vec<IndexInfo>> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(link.ask(AdminRequest::Indexes)),
        };
        core.check_open()?;
        Ok(core.index().declared().iter().map(|declared| declared.info()).collect())
    }

    /// Explains the plan of a scan: the index it would use, or the reason why it uses none.
    pub fn explain(&self, prefix: &str, filters: &[Where]) -> Result<String> {
        match &self.place {
            Backend::Local(core) => {
                self.look(core, |snapshot| Ok(snapshot.explain(prefix, filters)))
            }
            Backend::Remote(link) => {
                let branch = self.branch.to_string();
                let prefix = prefix.to_owned();
                wait(link.ask(AdminRequest::Explain { branch, prefix, filters: filters.to_vec() }))
            }
        }
    }

    /// Opens a view of the records at one point in time. The view pins that revision until it is dropped,
    /// for at most one hour.
    pub fn at(&self, at: At) -> Result<RecordsAt> {
        Ok(match &self.place {
            Backend::Local(core) => RecordsAt::here(PinnedSnapshot::new(core, &self.branch, at)?),
            Backend::Remote(link) => RecordsAt::there(wait(self.there(link).at(at))?),
        })
    }
}

/// A read-only view of a branch's records at one point in time. Clones share the view.
#[derive(Clone)]
pub struct RecordsAt(RecordsBackend);

#[derive(Clone)]
enum RecordsBackend {
    Here(Arc<PinnedSnapshot>),
    There(AsyncRecordsAt),
}

impl RecordsAt {
    pub(crate) fn here(pinned: Arc<PinnedSnapshot>) -> RecordsAt {
        RecordsAt(RecordsBackend::Here(pinned))
    }

    pub(crate) fn there(view: AsyncRecordsAt) -> RecordsAt {
        RecordsAt(RecordsBackend::There(view))
    }

    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        match &self.0 {
            RecordsBackend::Here(pinned) => pinned.snapshot.revision,
            RecordsBackend::There(view) => view.revision(),
        }
    }

    /// Returns a record with its fields, counter and expiry, or `None` if it was absent.
    pub fn get(&self, key: &str) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, None)
    }

    /// Returns a record with only those of the given fields that it had, or `None` if the record was
    /// absent.
    pub fn get_fields(&self, key: &str, fields: &[&str]) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, Some(&field_names(fields)?))
    }

    /// Returns a record with only those of the `wanted` fields that it had, or with all fields if `wanted`
    /// is `None`. Field names may be any bytes here.
    pub fn get_some(&self, key: &Name, wanted: Option<&[Field]>) -> Result<Option<Record>> {
        match &self.0 {
            RecordsBackend::Here(pinned) => pinned.snapshot.record(key, wanted),
            RecordsBackend::There(view) => wait(view.get_some(key, wanted)),
        }
    }

    /// Scans records in byte order of their keys: at most `limit` records that begin with `prefix`, pass
    /// all filters, and sort after `after`.
    pub fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        match &self.0 {
            RecordsBackend::Here(pinned) => pinned.snapshot.scan(prefix, filters, after, limit),
            RecordsBackend::There(view) => wait(view.scan(prefix, filters, after, limit)),
        }
    }

    /// Counts the records whose keys begin with `prefix` and that pass all filters.
    pub fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        match &self.0 {
            RecordsBackend::Here(pinned) => pinned.snapshot.count(prefix, filters),
            RecordsBackend::There(view) => wait(view.count(prefix, filters)),
        }
    }

    /// Lists the versions of a record up to this view's revision, newest first, including deletions.
    pub fn history(
        &self,
        key: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        match &self.0 {
            RecordsBackend::Here(pinned) => {
                pinned.snapshot.record_history(&Name::new(key)?, limit, before)
            }
            RecordsBackend::There(view) => wait(view.history(key, limit, before)),
        }
    }
}
