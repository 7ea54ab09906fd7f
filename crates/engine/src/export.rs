//! Export and import: a branch in one file, with its retained versions, counters and tags.
//!
//! ```text
//!   "MSTEXPT1" | record ... | end record | blake3 of all before, 32 bytes
//!   record: length u32 LE | kind u8 | body
//!     1 head     a value: format, branch, revision
//!     2 version  revision u64 LE | name length u16 LE | name | entry      by revision
//!     3 tag      revision u64 LE | name                                   behind its revision
//!     4 version  of a record, as 2 is of a cell
//!     6 event    of a run, as 2 is of a cell: its name has the sequence behind a NUL; 0 is when and with what the run was made
//!     7 entry    of a space of keyed state, as 2 is of a cell: its name has the place behind a NUL, and before the entry stands
//!                the length of its versions u8, 80 more while nobody saw it
//!     8 space    of keyed state, as 2 is of a cell: 1 if it is seen from then on u8 | how it is declared
//!     5 index    over records: a value with its prefix and fields         behind the head
//!     9 end      number of versions u64 LE
//! ```
//!
//! Versions stand in the order of their revisions, so an import replays history: each
//! transaction of the source becomes one of the target, with the target's own revision and stamp.
//! What the branch inherits is its own in the file. Nothing of the file is used before all of it
//! has been checked.

use crate::apply::runs;
use crate::core::Core;
use crate::db::Database;
use crate::declared::Declared;
use crate::entry::{self, Head};
use crate::hashed::{HashedReader, HashedWriter};
use crate::overlay::Overlay;
use crate::place::Place;
use crate::remote::wait;
use crate::snapshot::Snapshot;
use crate::sorter::Sorter;
use crate::spaces::{CELLS, DATA, EVENTS, KEYED, RECORDS, RUNS, SPACES};
use crate::spare::{Spare, Sparing};
use mainstay_model::{
    At, BranchCommand, CanonicalEvent, CellCommand, Code, Command, Error, Field, Fields,
    IndexCommand, Name, RecordCommand, Result, Revision, RunCommand, Transaction, Value, codec,
};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

mod keyed;

const MAGIC: &[u8; 8] = b"MSTEXPT1";
const FORMAT: i64 = 1;
const HEAD: u8 = 1;
const VERSION: u8 = 2;
const TAG: u8 = 3;
const RECORD_VERSION: u8 = 4;
const INDEX: u8 = 5;
const EVENT: u8 = 6;
const ENTRY: u8 = 7;
const SPACE: u8 = 8;
const END: u8 = 9;
/// The largest record: a value and its name, with room to spare.
const RECORD_LIMIT_BYTES: usize = 17 << 20;
/// How many transactions an import keeps under way.
const UNDER_WAY: usize = 256;

/// How far an export or import has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: &'static str,
    /// Versions, or bytes when checking, dealt with so far.
    pub done: u64,
    /// How many there are, where that is known.
    pub total: Option<u64>,
}

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportReport {
    /// The revision that the file shows.
    pub revision: Revision,
    /// Cells, deleted ones included.
    pub cells: u64,
    /// Records, deleted ones included.
    pub records: u64,
    /// Runs.
    pub runs: u64,
    /// Spaces of keyed state.
    pub spaces: u64,
    /// Versions of cells, records, spaces and what is in them, and events of runs.
    pub versions: u64,
    /// Tags of the branch.
    pub tags: u64,
    /// The file's size.
    pub bytes: u64,
}

/// What was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportReport {
    /// The branch that was exported.
    pub source: String,
    /// Versions written.
    pub versions: u64,
    /// Spaces of keyed state.
    pub spaces: u64,
    /// Tags made; a name that is taken gets the branch's name before it.
    pub tags: u64,
    /// The revision of the last transaction.
    pub revision: Revision,
}

/// What an exported file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportContents {
    /// The branch that was exported.
    pub branch: String,
    /// The revision that the file shows.
    pub revision: Revision,
    /// Versions of all kinds.
    pub versions: u64,
    /// Spaces of keyed state.
    pub spaces: u64,
    /// Tags of the branch.
    pub tags: u64,
    /// The file's size.
    pub bytes: u64,
}

/// Reads an exported file and checks all of it; changes nothing.
pub fn verify_export(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<ExportContents> {
    check_file(path, progress)
}

impl Database {
    /// Writes a branch to one file, which must not exist yet.
    pub fn export(
        &self,
        branch: &str,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ExportReport> {
        self.sparing(Spare::default()).export(branch, path, progress)
    }

    /// Makes a branch from a file; the file is checked as a whole before anything is written.
    pub fn import(
        &self,
        path: &Path,
        as_branch: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        let name = Name::new(as_branch)?;
        self.here("an import")?;
        check_file(path, progress)?;
        let import = Import::begin(self, name)?;
        let give_up = import.on_branch(BranchCommand::Delete { name: import.name.clone() });
        let done = import.run(path, progress);
        if done.is_err() {
            // Half an import is none; what cannot be deleted now is when the database is opened.
            let _ = self.execute(give_up);
        }
        done
    }

    /// A hash of all retained versions of a branch: equal for equal logs, on any machine.
    pub fn export_hash(&self, branch: &str) -> Result<[u8; 32]> {
        let core = match &self.place {
            Place::Here(core) => core,
            Place::There(link) => return wait(Place::there(link).export_hash(branch)),
        };
        let snapshot = Snapshot::new(core, branch, At::Latest)?;
        let tags = tags_of(core, &snapshot);
        let mut hasher = blake3::Hasher::new();
        for space in DATA {
            // Cells came first: what follows them says so with a length that no name has. Where nothing
            // follows, the hash is what it was before there was anything else.
            let mut said = space == CELLS;
            for_each(&snapshot, space, |name, history| {
                if !std::mem::replace(&mut said, true) {
                    hasher.update(&u64::MAX.to_le_bytes());
                    hasher.update(&[space]);
                }
                hasher.update(&(name.len() as u64).to_le_bytes());
                hasher.update(name);
                hasher.update(&(history.len() as u64).to_le_bytes());
                for entry in history {
                    hasher.update(&(entry.len() as u64).to_le_bytes());
                    hasher.update(entry);
                }
                Ok(())
            })?;
        }
        for (revision, tag) in tags {
            hasher.update(&revision.to_le_bytes());
            hasher.update(tag.as_bytes());
        }
        Ok(*hasher.finalize().as_bytes())
    }
}

impl Sparing<'_> {
    /// Writes a branch to one file, as [`Database::export`] does.
    pub fn export(
        &self,
        branch: &str,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ExportReport> {
        let core = self.db.here("an export")?;
        let snapshot = Snapshot::new(core, branch, At::Latest)?;
        let _pin = core.pins.hold(
            "export",
            core.clock.monotonic_us(),
            core.index().data_floor().min(snapshot.revision),
        );
        // Removed tags are not kept for long: they are asked for before the rest is read.
        let tags = tags_of(core, &snapshot);
        let mut sorter = Sorter::beside(path, self.spare)?;
        let (mut cells, mut records, mut versions) = (0, 0, 0_u64);
        for space in [CELLS, RECORDS] {
            let names = if space == CELLS { &mut cells } else { &mut records };
            for_each(&snapshot, space, |name, history| {
                *names += 1;
                for entry in history {
                    sorter.push(entry::revision_of(entry), &[&[space], name].concat(), entry)?;
                    versions += 1;
                    if versions.is_multiple_of(1024) {
                        progress(Progress { phase: "reading", done: versions, total: None });
                    }
                }
                Ok(())
            })?;
        }
        let runs = each_event(&snapshot, |name, entry| {
            versions += 1;
            sorter.push(entry::revision_of(entry), &[&[EVENTS], name].concat(), entry)
        })?;
        let spaces = keyed::each(&snapshot, |revision, name, version| {
            versions += 1;
            sorter.push(revision, name, version)
        })?;
        let count = tags.len() as u64;
        let mut file = ExportFile { file: HashedWriter::create(path, self.spare)? };
        file.begin(branch, snapshot.revision, &core.index().declared())?;
        let bytes = file.fill(sorter, tags, versions, progress)?;
        let revision = snapshot.revision;
        Ok(ExportReport { revision, cells, records, runs, spaces, versions, tags: count, bytes })
    }
}

/// Visits what a branch holds of a space in order, each name with its retained entries, oldest first.
fn for_each(
    snapshot: &Snapshot,
    space: u8,
    mut visit: impl FnMut(&[u8], &[Vec<u8>]) -> Result<()>,
) -> Result<()> {
    let nothing = Overlay::default();
    let mut walk = snapshot.view().walk(&nothing, space, b"", None);
    while let Some(step) = walk.next()? {
        let mut history = Vec::new();
        snapshot.versions(space, step.name(), |entry| {
            history.push(entry.to_vec());
            Ok(true)
        })?;
        history.reverse();
        visit(step.name(), &history)?;
    }
    Ok(())
}

/// Visits the events of all runs of a branch, what each was made with before them; gives how many runs there are.
fn each_event(
    snapshot: &Snapshot,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let (nothing, view) = (Overlay::default(), snapshot.view());
    let (mut walk, mut runs) = (view.walk(&nothing, RUNS, b"", None), 0);
    while let Some(step) = walk.next()? {
        if step.head.is_deleted() {
            continue;
        }
        runs += 1;
        let run = Name::new(&String::from_utf8_lossy(step.name()))?;
        runs::each_event(&view, &run, (step.head, step.payload()), |seq, head, payload| {
            let mut entry = Vec::with_capacity(payload.len() + 32);
            head.write(payload, &mut entry);
            visit(&[run.as_bytes(), &[0], &seq.to_be_bytes()].concat(), &entry)
        })?;
    }
    Ok(runs)
}

/// The tags of a branch, by revision.
fn tags_of(core: &Arc<Core>, snapshot: &Snapshot) -> VecDeque<(Revision, String)> {
    let catalog = core.state.catalog.read();
    let all = catalog.tags_at(snapshot.revision).into_iter();
    let own = all.filter(|(_, tag)| tag.branch == snapshot.branch);
    let mut tags: Vec<_> = own.map(|(name, tag)| (tag.revision, name.clone())).collect();
    tags.sort();
    tags.into()
}

/// An export being written.
struct ExportFile {
    file: HashedWriter,
}

impl ExportFile {
    fn record(&mut self, kind: u8, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.file.put(&(length as u32 + 1).to_le_bytes())?;
        self.file.put(&[kind])?;
        parts.iter().try_for_each(|part| self.file.put(part))
    }

    /// Writes the head, and which indexes there are.
    fn begin(&mut self, branch: &str, revision: Revision, indexes: &[Declared]) -> Result<()> {
        self.file.put(MAGIC)?;
        self.record(HEAD, &[&head(branch, revision)?])?;
        indexes.iter().try_for_each(|one| self.record(INDEX, &[&index(one)?]))
    }

    fn fill(
        mut self,
        sorter: Sorter,
        mut tags: VecDeque<(Revision, String)>,
        versions: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        let mut done = 0_u64;
        for version in sorter.sorted()? {
            let (revision, name, entry) = version?;
            self.put_tags(&mut tags, revision)?;
            let (kind, name) = match name.split_first() {
                Some((&RECORDS, name)) => (RECORD_VERSION, name),
                Some((&EVENTS, name)) => (EVENT, name),
                Some((&KEYED, name)) => (ENTRY, name),
                Some((&SPACES, name)) => (SPACE, name),
                Some((_, name)) => (VERSION, name),
                None => (VERSION, &name[..]),
            };
            let length = (name.len() as u16).to_le_bytes();
            self.record(kind, &[&revision.to_le_bytes(), &length, name, &entry])?;
            done += 1;
            if done.is_multiple_of(1024) {
                progress(Progress { phase: "writing", done, total: Some(versions) });
            }
        }
        self.put_tags(&mut tags, Revision::MAX)?;
        self.record(END, &[&versions.to_le_bytes()])?;
        progress(Progress { phase: "writing", done, total: Some(versions) });
        self.file.finish()
    }

    /// Writes the tags that stand before a revision.
    fn put_tags(
        &mut self,
        tags: &mut VecDeque<(Revision, String)>,
        before: Revision,
    ) -> Result<()> {
        while tags.front().is_some_and(|(revision, _)| *revision < before) {
            let Some((revision, name)) = tags.pop_front() else { break };
            self.record(TAG, &[&revision.to_le_bytes(), name.as_bytes()])?;
        }
        Ok(())
    }
}

fn index(declared: &Declared) -> Result<Vec<u8>> {
    let field = |field: &Field| Value::Bytes(field.as_bytes().to_vec());
    let fields = Value::Array(declared.fields.iter().map(field).collect());
    let index = Value::Object(BTreeMap::from([
        ("fields".to_owned(), fields),
        ("prefix".to_owned(), Value::from(declared.prefix.as_str())),
    ]));
    let mut bytes = Vec::new();
    codec::encode(&index, &mut bytes)?;
    Ok(bytes)
}

/// The command that declares an index as it was.
fn index_of(body: &[u8]) -> Option<IndexCommand> {
    let Ok(Value::Object(index)) = codec::decode(body) else { return None };
    let Value::Array(fields) = index.get("fields")? else { return None };
    let field = |field: &Value| Field::new(field.as_bytes()?).ok();
    let fields = fields.iter().map(field).collect::<Option<Vec<_>>>()?;
    Some(IndexCommand::Add { prefix: index.get("prefix")?.as_str()?.to_owned(), fields })
}

fn head(branch: &str, revision: Revision) -> Result<Vec<u8>> {
    let head = Value::Object(BTreeMap::from([
        ("branch".to_owned(), Value::from(branch)),
        ("format".to_owned(), Value::Int(FORMAT)),
        ("revision".to_owned(), Value::Int(revision as i64)),
    ]));
    let mut bytes = Vec::new();
    codec::encode(&head, &mut bytes)?;
    Ok(bytes)
}

/// Reads the records of an export.
struct Records<'a> {
    file: HashedReader<'a>,
}

impl<'a> Records<'a> {
    fn open(path: &'a Path) -> Result<Records<'a>> {
        let mut records = Records { file: HashedReader::open(path)? };
        let mut magic = [0; 8];
        records.file.take(&mut magic)?;
        if let Some(format) = format_of(&magic).filter(|format| *format > FORMAT) {
            return Err(newer(path, format));
        }
        if magic != *MAGIC {
            let message = format!("{} is not an export of Mainstay", path.display());
            return Err(Error::new(Code::CorruptData, message));
        }
        Ok(records)
    }

    fn damaged(&self, what: &str) -> Error {
        self.file.damaged(what)
    }

    fn next(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut length = [0; 4];
        self.file.take(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 || length > RECORD_LIMIT_BYTES {
            return Err(self.damaged("a record has an impossible length"));
        }
        let mut body = vec![0; length];
        self.file.take(&mut body)?;
        let kind = body.remove(0);
        Ok((kind, body))
    }
}

/// Reads the whole file once, checking everything that can be wrong with it.
fn check_file(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<ExportContents> {
    let mut records = Records::open(path)?;
    let mut contents = check_head(&mut records)?;
    loop {
        let (kind, body) = records.next()?;
        match kind {
            VERSION | RECORD_VERSION | EVENT | ENTRY | SPACE => {
                let version = version_of(kind, &body);
                let (_, command) =
                    version.ok_or_else(|| records.damaged("a version cannot be read"))?;
                contents.versions += 1;
                contents.spaces += u64::from(keyed::shows(&command));
            }
            INDEX => {
                index_of(&body).ok_or_else(|| records.damaged("an index cannot be read"))?;
            }
            TAG => {
                tag_of(&body).ok_or_else(|| records.damaged("a tag cannot be read"))?;
                contents.tags += 1;
            }
            END if body == contents.versions.to_le_bytes() => {
                records.file.check_end()?;
                contents.bytes = records.file.position();
                return Ok(contents);
            }
            _ => return Err(records.damaged("a record of an unknown kind")),
        }
        if contents.versions.is_multiple_of(1024) {
            let (done, total) = (records.file.position(), Some(records.file.total()));
            progress(Progress { phase: "checking", done, total });
        }
    }
}

/// Refuses a head that cannot be read, and by name one that a newer program wrote.
fn check_head(records: &mut Records<'_>) -> Result<ExportContents> {
    let (kind, body) = records.next()?;
    let damaged = || records.damaged("its head cannot be read");
    let Ok(Value::Object(head)) = codec::decode(&body) else { return Err(damaged()) };
    match head.get("format").and_then(Value::as_i64) {
        Some(format) if format > FORMAT => return Err(newer(records.file.path(), format)),
        Some(_) if kind == HEAD => {}
        _ => return Err(damaged()),
    }
    let branch = source_of(&body).ok_or_else(damaged)?;
    let revision = head.get("revision").and_then(Value::as_i64).ok_or_else(damaged)? as Revision;
    Ok(ExportContents { branch, revision, ..ExportContents::default() })
}

fn source_of(body: &[u8]) -> Option<String> {
    let Ok(Value::Object(head)) = codec::decode(body) else { return None };
    head.get("branch")?.as_str().map(str::to_owned)
}

/// The format that the magic at the front of an export speaks of.
fn format_of(magic: &[u8; 8]) -> Option<i64> {
    let digit = magic.strip_prefix(&MAGIC[..7])?.first()?;
    digit.is_ascii_digit().then(|| i64::from(digit - b'0'))
}

#[cold]
fn newer(path: &Path, format: i64) -> Error {
    let message = format!(
        "{} has format {format}, this program knows up to {FORMAT}: import it with a newer one",
        path.display()
    );
    Error::new(Code::NewerFormat, message)
}

fn version_of(kind: u8, body: &[u8]) -> Option<(Revision, Command)> {
    let (revision, rest) = body.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (name, entry) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    if matches!(kind, ENTRY | SPACE) {
        let command =
            if kind == SPACE { keyed::space_of(name, entry) } else { keyed::entry_of(name, entry) };
        return Some((u64::from_le_bytes(*revision), command?.into()));
    }
    let (head, payload) = entry::parse(entry).ok()?;
    if kind == EVENT {
        return Some((u64::from_le_bytes(*revision), event_of(name, &head, payload)?.into()));
    }
    let name = Name::new(std::str::from_utf8(name).ok()?).ok()?;
    let Head { counter, expires, .. } = head;
    let lives = !head.is_deleted();
    let command = if kind == RECORD_VERSION {
        let fields = if lives { Some(Fields::decode(payload).ok()?) } else { None };
        RecordCommand::Restore { key: name, fields, counter, expires }.into()
    } else {
        let value = if lives { Some(codec::decode(payload).ok()?) } else { None };
        CellCommand::Restore { name, value, counter, expires }.into()
    };
    Some((u64::from_le_bytes(*revision), command))
}

/// The command that restores an event, or a run with what it was made with.
fn event_of(name: &[u8], head: &Head, payload: &[u8]) -> Option<RunCommand> {
    let end = name.iter().position(|byte| *byte == 0)?;
    let run = std::str::from_utf8(&name[..end]).ok()?;
    let seq = u64::from_be_bytes(name[end + 1..].try_into().ok()?);
    let restored = Name::new(run).ok()?;
    if seq == 0 {
        let (created, metadata) = runs::made_of(payload)?;
        let (created, events) = (Some(created), Vec::new());
        return Some(RunCommand::Restore { run: restored, metadata, created, events });
    }
    let events = vec![CanonicalEvent::decode(payload, run, seq, head.stamp).ok()?];
    Some(RunCommand::Restore { run: restored, metadata: None, created: None, events })
}

fn tag_of(body: &[u8]) -> Option<Name> {
    let (_, name) = body.split_first_chunk::<8>()?;
    Name::new(std::str::from_utf8(name).ok()?).ok()
}

/// Replays a checked file.
///
/// ```text
///   Import: a branch that nobody sees --> its versions --> Finish: it is seen, with its tags
/// ```
///
/// After a crash there is no more of it than before: what is not finished is deleted when the
/// database is opened. Sweeps pass it by, so that nothing expires which the next record replaces.
struct Import<'a> {
    db: &'a Database,
    name: Name,
    /// The branch's number: by its name nobody reaches it before it is finished.
    id: u32,
    under_way: VecDeque<crate::ticket::Ticket>,
    group: Option<(Revision, Transaction)>,
    /// The revision of the newest transaction that was waited for.
    reached: Revision,
    tags: Vec<(Name, Revision)>,
    report: ImportReport,
}

impl<'a> Import<'a> {
    fn begin(db: &'a Database, name: Name) -> Result<Import<'a>> {
        let command = BranchCommand::Import { name: name.clone() };
        let begun = db.execute(Transaction::new().step(command))?;
        let catalog = db.here("an import")?.state.catalog.read();
        // A name can be taken again; a stamp is given once.
        let mut imports = catalog.imports();
        let own = imports.find(|record| record.created_stamp == begun.stamp);
        let id = own.ok_or_else(|| deleted_meanwhile(&name))?.id;
        let source = String::new();
        let report = ImportReport { source, versions: 0, spaces: 0, tags: 0, revision: 0 };
        let (under_way, group, tags) = (VecDeque::new(), None, Vec::new());
        Ok(Import { db, name, id, under_way, group, reached: begun.revision, tags, report })
    }

    fn on_branch(&self, command: impl Into<Command>) -> Transaction {
        let mut transaction = Transaction::on(self.name.as_str()).step(command);
        transaction.branch_id = Some(self.id);
        transaction
    }

    fn run(mut self, path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<ImportReport> {
        let mut records = Records::open(path)?;
        loop {
            let (kind, body) = records.next()?;
            match kind {
                HEAD => self.report.source = source_of(&body).unwrap_or_default(),
                VERSION | RECORD_VERSION | EVENT | ENTRY | SPACE => {
                    let version = version_of(kind, &body);
                    let (revision, command) = version.ok_or_else(|| records.damaged("changed"))?;
                    self.add(revision, command)?;
                }
                INDEX => {
                    let index = index_of(&body).ok_or_else(|| records.damaged("changed"))?;
                    self.declare(index)?;
                }
                TAG => {
                    self.settle()?;
                    let tag = tag_of(&body).ok_or_else(|| records.damaged("changed"))?;
                    self.tags.push((tag, self.reached));
                }
                _ => break,
            }
            if self.report.versions.is_multiple_of(1024) {
                let done = self.report.versions;
                progress(Progress { phase: "importing", done, total: None });
            }
        }
        self.finish()?;
        let done = self.report.versions;
        progress(Progress { phase: "importing", done, total: Some(done) });
        Ok(self.report)
    }

    /// Declares an index, unless there is the same one.
    fn declare(&self, index: IndexCommand) -> Result<()> {
        match self.db.execute(Transaction::new().step(index)) {
            Err(error) if error.code() == Code::IndexExists => Ok(()),
            done => done.map(drop),
        }
    }

    /// Adds a version to its transaction; the one before it is complete.
    fn add(&mut self, revision: Revision, command: Command) -> Result<()> {
        self.report.versions += 1;
        self.report.spaces += u64::from(keyed::shows(&command));
        match &mut self.group {
            Some((group, transaction)) if *group == revision => {
                let last = transaction.steps.last_mut().map(|step| &mut step.command);
                if let Some(command) = keyed::join(last, command) {
                    transaction.steps.push(command.into());
                }
                Ok(())
            }
            _ => {
                self.submit()?;
                self.group = Some((revision, self.on_branch(command)));
                Ok(())
            }
        }
    }

    fn submit(&mut self) -> Result<()> {
        if let Some((_, transaction)) = self.group.take() {
            self.under_way.push_back(self.db.submit(transaction));
        }
        match self.under_way.len() >= UNDER_WAY {
            true => self.wait_for_one(),
            false => Ok(()),
        }
    }

    fn wait_for_one(&mut self) -> Result<()> {
        if let Some(ticket) = self.under_way.pop_front() {
            self.reached = ticket.wait()?.revision;
        }
        Ok(())
    }

    /// Waits until all so far is written.
    fn settle(&mut self) -> Result<()> {
        self.submit()?;
        while !self.under_way.is_empty() {
            self.wait_for_one()?;
        }
        Ok(())
    }

    /// Shows the branch and its tags, in one transaction.
    fn finish(&mut self) -> Result<()> {
        self.settle()?;
        let tags = std::mem::take(&mut self.tags);
        self.report.tags = tags.len() as u64;
        let finish = BranchCommand::Finish { name: self.name.clone(), tags };
        self.report.revision = self.db.execute(self.on_branch(finish))?.revision;
        Ok(())
    }
}

#[cold]
fn deleted_meanwhile(name: &Name) -> Error {
    let message = format!("`{name}` was deleted while it was imported: import it again");
    Error::new(Code::BranchNotFound, message)
}
