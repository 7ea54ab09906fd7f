//! The doctor's consistency check of runs, the outbox, keyed state and sessions.
//!
//! ```text
//!   stores up to the mark, linked --\
//!   log after the mark --replayed----> an index to read --> each branch: runs, outbox, spaces --> faults
//!                                                      \--> orphans of runs and spaces ----------/
//!                                                      \--> sessions --------------------------/
//! ```
//!
//! Everything is scanned in order. Only the log after the mark is held in memory, and the writer bounds
//! its size. If it were larger, the check ends at an earlier revision.

use super::checks;
use super::fault::Faults;
use super::hardlinked_store::HardlinkedStore;
use super::{Fault, index::classes};
use crate::base::work::Budget;
use crate::commit::executor::load_catalog;
use crate::key::keyspace;
use crate::key::version::Version;
use crate::lifecycle::open::plain_store_options;
use crate::log::{self, DiskFiles, Frame};
use crate::mvcc::catalog::{BranchRecord, Catalog};
use crate::mvcc::view::View;
use crate::storage::flush_mark::FlushMark;
use crate::storage::index::{Index, IndexParts};
use crate::storage::lsm::{Store, StoreOptions};
use crate::storage::reclassify;
use crate::storage::retention_class::{self as all_classes, RetentionClasses};
use mainstay_model::{Code, Error, MAIN, Result, Revision};
use std::collections::HashSet;
use std::path::Path;

const REBUILD: &str = "Let the index be rebuilt from the log, or restore a backup.";

/// The most bytes of the log after the mark that are held in memory.
const REPLAY_LIMIT_BYTES: usize = 512 << 20;

/// The result of the consistency check of runs, the outbox, keyed state and sessions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunsReport {
    /// The reason why the check was skipped; `None` if it ran.
    pub skipped: Option<String>,
    /// Whether it was skipped because its data, or the catalog of branches, is damaged.
    pub damaged: bool,
    /// The revision up to which it was checked.
    pub upto: Revision,
    /// The number of runs on all live branches. Inherited runs are not counted again.
    pub runs: u64,
    /// The number of their events, for each run including inherited ones.
    pub events: u64,
    /// The number of messages that wait or are dead.
    pub messages: u64,
    /// The number of keyed-state spaces on all live branches. Inherited spaces are not counted again.
    pub spaces: u64,
    /// The number of their entries, for each space including inherited ones.
    pub entries: u64,
    /// The number of live sessions.
    pub sessions: u64,
    /// The number of responses that they keep.
    pub responses: u64,
    /// The number of requests that wait for their clients.
    pub letters: u64,
    /// The inconsistencies; at most the first hundred.
    pub faults: Vec<Fault>,
    /// The number of all faults.
    pub all_faults: u64,
}

impl RunsReport {
    pub(super) fn skipped(why: impl Into<String>) -> RunsReport {
        RunsReport { skipped: Some(why.into()), ..RunsReport::default() }
    }

    /// The report of a check that ended with an error.
    pub(super) fn failed(error: &Error) -> RunsReport {
        let damaged = error.code() == Code::CorruptData;
        RunsReport {
            damaged,
            ..RunsReport::skipped(format!("cannot be read: {}", error.message()))
        }
    }
}

/// Checks a database whose files are sound and to which no process writes.
pub(super) fn look(directory: &Path) -> Result<RunsReport> {
    let index_directory = reclassify::settled(&directory.join("index"));
    let Some(mark) = FlushMark::read(&index_directory)? else {
        return Ok(RunsReport::skipped("there is no index yet"));
    };
    let Some(classes) = classes(&mark) else {
        return Ok(RunsReport::skipped("the index lists no classes"));
    };
    let linked = HardlinkedStore::new().and_then(|shadow| {
        let stores = open(&index_directory, &shadow, &classes)?;
        Ok((shadow, stores))
    });
    // The files are sound, so the place for the links failed. The rest of the report is still useful.
    let (_shadow, stores) = match linked {
        Ok(linked) => linked,
        Err(error) => return Ok(RunsReport::skipped(error.message())),
    };
    let mark_revision = mark.revision;
    let parts =
        IndexParts { classes, stores, mark, directory: None, cache_bytes: 0, buffer_bytes: 0 };
    let index = Index::new(parts)?;
    let upto = replay(&directory.join("log"), &index, mark_revision)?;
    check(&index, upto)
}

/// Opens the stores that hold runs, keyed state or state of the whole database.
fn open(
    directory: &Path,
    shadow: &HardlinkedStore,
    classes: &RetentionClasses,
) -> Result<Vec<Store>> {
    let options: StoreOptions = plain_store_options();
    let looked_at = (0..keyspace::REAPS).filter(|&space| is_looked_at(space));
    let wanted: HashSet<usize> = looked_at.flat_map(|space| classes.of_space(space)).collect();
    let open = |class: usize| {
        if class != all_classes::SYSTEM && !wanted.contains(&class) {
            return Ok(Store::memory(options.purge.clone()));
        }
        let name = classes.directory(class);
        Store::open_copy(&shadow.link(&directory.join(&name), &name)?, &options)
    };
    (0..classes.all().len()).map(open).collect()
}

/// Replays the log after the mark into the index, for these stores. Returns the last revision in it.
fn replay(directory: &Path, index: &Index, mark: Revision) -> Result<Revision> {
    let active = index.tables().active.clone();
    let mut last = mark;
    let mut put = |frame: &Frame<'_>| {
        for transaction in frame.transactions() {
            let transaction = transaction?;
            if transaction.revision <= mark || active.bytes() > REPLAY_LIMIT_BYTES {
                continue;
            }
            for (key, entry) in transaction.effects.filter(|(key, _)| concerns(key)) {
                index.put(&active, index.current.hash(key), Version::new(key, entry));
            }
            last = transaction.revision;
        }
        Ok(())
    };
    log::visit(&DiskFiles::read_only(directory), mark + 1, &mut put)?;
    Ok(last)
}

fn concerns(key: &[u8]) -> bool {
    key.first().is_some_and(|&space| is_looked_at(space) || keyspace::is_system(space))
}

fn is_looked_at(space: u8) -> bool {
    keyspace::is_of_runs(space) || matches!(space, keyspace::SPACES | keyspace::KEYED)
}

fn check(index: &Index, upto: Revision) -> Result<RunsReport> {
    let catalog: Catalog = load_catalog(index)?;
    let mut report = RunsReport { upto, ..RunsReport::default() };
    let mut faults = Faults::default();
    for branch in catalog.branches().filter(|branch| branch.lives_at(upto)) {
        check_branch(index, &catalog, branch, &mut report, &mut faults)?;
    }
    checks::run_orphans::check_left(index, &catalog, upto, &mut faults)?;
    checks::state_orphans::check_left(index, &catalog, upto, &mut faults)?;
    faults.branch = MAIN.to_owned();
    let seen = checks::sessions::check(index, &mut faults)?;
    report.sessions = seen.sessions;
    report.responses = seen.responses;
    report.letters = seen.letters;
    report.faults = faults.told;
    report.all_faults = faults.all;
    Ok(report)
}

fn check_branch(
    index: &Index,
    catalog: &Catalog,
    branch: &BranchRecord,
    report: &mut RunsReport,
    faults: &mut Faults,
) -> Result<()> {
    let layers = catalog.layers(branch.id, report.upto);
    let view = View { index, layers: &layers, now: 0, fresh: false, budget: Budget::Unlimited };
    faults.branch.clone_from(&branch.name);
    let (runs, events) = checks::runs::check(&view, faults)?;
    report.runs += runs;
    report.events += events;
    report.messages += check_outbox(&view, faults)?;
    let (spaces, entries) = checks::states::check(&view, faults)?;
    report.spaces += spaces;
    report.entries += entries;
    Ok(())
}

/// Checks an outbox. If an entry cannot be decoded, the other branches are still checked.
fn check_outbox(view: &View<'_>, faults: &mut Faults) -> Result<u64> {
    let checked = checks::outbox::check(view, faults);
    if matches!(&checked, Err(error) if error.code() == Code::CorruptData) {
        faults.outbox(None, "something of it cannot be read".into(), REBUILD);
        return Ok(0);
    }
    checked
}
