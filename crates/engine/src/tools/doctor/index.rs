//! The doctor's check of the index: its mark, and every file of its stores.

use super::hardlinked_store::HardlinkedStore;
use crate::base::fault_points::{self, InjectedFault};
use crate::fs::error::io_error;
use crate::lifecycle::open::plain_store_options;
use crate::storage::flush_mark::FlushMark;
use crate::storage::index;
use crate::storage::lsm::{self, Store};
use crate::storage::retention_class::{RetentionClasses, SYSTEM};
use crate::storage::timestamp_index::TimestampIndex;
use mainstay_model::{Code, Result, Revision};
use std::fs;
use std::path::{Path, PathBuf};

/// The state of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexReport {
    /// The index's directory.
    pub directory: PathBuf,
    /// Whether the index can be used.
    pub state: IndexState,
    /// Its stores, one per retention class. Without a readable mark, the directories that were found.
    pub stores: Vec<StoreReport>,
    /// The last revision that any store holds, if it could be read. A flush that was cut short leaves
    /// more than the mark covers. For a damaged index, the revision of its mark.
    pub reach: Option<Revision>,
}

impl IndexReport {
    /// The mark's revision of a sound index; otherwise 0.
    pub(super) fn revision(&self) -> Revision {
        match self.state {
            IndexState::Sound(revision) => revision,
            _ => 0,
        }
    }
}

/// Whether an index can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// The index does not exist.
    Absent,
    /// It holds everything up to this revision, its replay mark.
    Sound(Revision),
    /// Opening refuses it, for this reason.
    Damaged(String),
    /// A table is damaged. Opening may not notice it, but reads of the table fail with this error.
    BadTable(String),
}

/// The state of one store of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreReport {
    /// The name of its directory.
    pub name: String,
    /// The prefix of the names in it, if it is a retention class of its own.
    pub prefix: String,
    /// The revision before which reads are refused, if the mark could be read.
    pub floor: Option<Revision>,
    /// The size of its files in bytes.
    pub bytes: u64,
    /// The number of its tables.
    pub tables: u64,
    /// The problem of its list of tables; opening refuses the store.
    pub problem: Option<String>,
    /// The problem of a table. Opening may not notice it, but reads of the table fail.
    pub bad_table: Option<String>,
}

pub(super) fn look(directory: &Path, id: &[u8; 16]) -> Result<IndexReport> {
    let report =
        |state, stores| IndexReport { directory: directory.to_owned(), state, stores, reach: None };
    let mark = match FlushMark::read(directory) {
        Ok(mark) => mark,
        Err(error) if error.code() == Code::CorruptIndex => {
            let state = IndexState::Damaged(error.message().to_owned());
            return Ok(report(state, unnamed(directory)?));
        }
        Err(error) => return Err(error),
    };
    let Some(mark) = mark else {
        let stores = unnamed(directory)?;
        let state = if stores.iter().any(|store| store.tables > 0) {
            IndexState::Damaged("the index is missing its MARK file".to_owned())
        } else {
            IndexState::Absent
        };
        return Ok(report(state, stores));
    };
    let Some(classes) = classes(&mark) else {
        let state = IndexState::Damaged("the index's MARK file lists no classes".to_owned());
        return Ok(report(state, unnamed(directory)?));
    };
    let stores = named(directory, &mark, &classes)?;
    let state = if mark.database != *id {
        IndexState::Damaged("the index belongs to another database".to_owned())
    } else if let Some(problem) = stores.iter().find_map(|store| store.problem.clone()) {
        IndexState::Damaged(problem)
    } else if let Some(problem) = stores.iter().find_map(|store| store.bad_table.clone()) {
        IndexState::BadTable(problem)
    } else {
        IndexState::Sound(mark.revision)
    };
    // Hard links may be impossible here; the rest of the report is still useful.
    let reach = match state {
        IndexState::Sound(revision) if fault_points::is(InjectedFault::LostComesBack) => {
            Some(revision)
        }
        IndexState::Sound(_) => reach(directory, &mark, &classes).ok(),
        _ if mark.database == *id => Some(mark.revision),
        _ => None,
    };
    Ok(IndexReport { reach, ..report(state, stores) })
}

fn reach(directory: &Path, mark: &FlushMark, classes: &RetentionClasses) -> Result<Revision> {
    let shadow = HardlinkedStore::new()?;
    let options = plain_store_options();
    let open = |class: usize| {
        let name = classes.directory(class);
        Store::open_copy(&shadow.link(&directory.join(&name), &name)?, &options)
    };
    let stores = (0..classes.all().len()).map(open).collect::<Result<Vec<_>>>()?;
    let times = TimestampIndex::load(&stores[SYSTEM], mark.revision)?;
    Ok(index::reach(&stores, &times))
}

pub(super) fn classes(mark: &FlushMark) -> Option<RetentionClasses> {
    let labels = mark.classes.iter().map(|(label, _)| label.as_str());
    (mark.classes.len() > crate::storage::retention_class::CELLS)
        .then(|| RetentionClasses::from_labels(labels))
}

/// Returns the stores that the mark names.
fn named(
    directory: &Path,
    mark: &FlushMark,
    classes: &RetentionClasses,
) -> Result<Vec<StoreReport>> {
    let store = |(class, (_, floor)): (usize, &(String, Revision))| {
        let name = classes.directory(class);
        let mut report = measure(&directory.join(&name), name)?;
        report.prefix = classes.all()[class].prefix.clone();
        report.floor = Some(*floor);
        let directory = directory.join(&report.name);
        report.problem = damage(lsm::check_list(&directory))?;
        if report.problem.is_none() {
            report.bad_table = damage(lsm::check_tables(&directory))?;
        }
        Ok(report)
    };
    mark.classes.iter().enumerate().map(store).collect()
}

/// Returns damage as a description. Any other error stops the inspection.
fn damage(checked: Result<()>) -> Result<Option<String>> {
    match checked {
        Ok(()) => Ok(None),
        Err(error) if error.code() == Code::CorruptIndex => {
            // The advice in the message is for opening; the verdict has its own.
            let what = error.message().split("; nothing was changed").next();
            Ok(Some(what.unwrap_or_default().to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Returns the directories of an index without a readable mark.
fn unnamed(directory: &Path) -> Result<Vec<StoreReport>> {
    let mut stores = Vec::new();
    for (name, path) in entries(directory)? {
        if path.is_dir() {
            stores.push(measure(&path, name)?);
        }
    }
    Ok(stores)
}

fn measure(directory: &Path, name: String) -> Result<StoreReport> {
    let tables = entries(&directory.join("tables"))?;
    let files = entries(directory)?.into_iter().chain(tables.iter().cloned());
    Ok(StoreReport {
        name,
        prefix: String::new(),
        floor: None,
        bytes: files
            .filter(|(_, path)| path.is_file())
            .map(|(_, path)| path.metadata().map_or(0, |found| found.len()))
            .sum(),
        tables: tables.len() as u64,
        problem: None,
        bad_table: None,
    })
}

/// Returns names and paths in a directory, sorted; empty if it is no directory.
fn entries(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let read = || -> std::io::Result<Vec<(String, PathBuf)>> {
        let name =
            |entry: fs::DirEntry| (entry.file_name().to_string_lossy().into_owned(), entry.path());
        fs::read_dir(directory)?.map(|entry| entry.map(name)).collect()
    };
    let mut entries = read().map_err(|error| io_error("read", directory, &error))?;
    entries.sort();
    Ok(entries)
}
