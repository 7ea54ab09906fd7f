//! The doctor's look at runs, the outbox, keyed state and sessions: whether what belongs together agrees.
//!
//! ```text
//!   stores up to the mark, linked --\
//!   log behind the mark --replayed---> an index to read --> each branch: runs, outbox, spaces --> faults
//!                                                      \--> what runs and spaces have left -----/
//!                                                      \--> sessions --------------------------/
//! ```
//!
//! Everything is walked in order and nothing is gathered but what the log holds behind the mark, which the writer
//! bounds; were it more, the look ends at an earlier revision.

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

/// How much of the log behind the mark is held in memory.
const REPLAY_LIMIT_BYTES: usize = 512 << 20;

/// Whether runs, the outbox, keyed state and sessions agree with themselves.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunsReport {
    /// Why it was not looked at, if it was not.
    pub skipped: Option<String>,
    /// Whether that is because something of it, or of the branches it is on, is damaged.
    pub damaged: bool,
    /// Up to which revision it was looked at.
    pub upto: Revision,
    /// How many runs there are, on all branches that live, those that branches inherit not counted again.
    pub runs: u64,
    /// How many events they have, each run with those it inherits.
    pub events: u64,
    /// How many messages wait or are dead.
    pub messages: u64,
    /// How many spaces of keyed state there are, on all branches that live, those that branches inherit not counted
    /// again.
    pub spaces: u64,
    /// How many entries they have, each space with those it inherits.
    pub entries: u64,
    /// How many sessions live.
    pub sessions: u64,
    /// How many responses they keep.
    pub responses: u64,
    /// How many requests wait for their clients.
    pub letters: u64,
    /// What does not agree, the first hundred of it.
    pub faults: Vec<Fault>,
    /// How many faults there are in all.
    pub all_faults: u64,
}

impl RunsReport {
    pub(super) fn skipped(why: impl Into<String>) -> RunsReport {
        RunsReport { skipped: Some(why.into()), ..RunsReport::default() }
    }

    /// What an error that ended the look says.
    pub(super) fn failed(error: &Error) -> RunsReport {
        let damaged = error.code() == Code::CorruptData;
        RunsReport {
            damaged,
            ..RunsReport::skipped(format!("cannot be read: {}", error.message()))
        }
    }
}

/// Looks at a database whose files are sound and that nobody writes to.
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
    // The files are sound: what fails is the place for links, and the rest of the report is worth having.
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

/// Opens what holds something of runs or keyed state, and what belongs to the database.
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

/// Puts what the log holds of these behind the mark into the index; gives the last revision that is there.
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
    (report.sessions, report.responses, report.letters) =
        (seen.sessions, seen.responses, seen.letters);
    (report.faults, report.all_faults) = (faults.told, faults.all);
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

/// What cannot be taken apart there does not keep the other branches from being looked at.
fn check_outbox(view: &View<'_>, faults: &mut Faults) -> Result<u64> {
    let checked = checks::outbox::check(view, faults);
    if matches!(&checked, Err(error) if error.code() == Code::CorruptData) {
        faults.outbox(None, "something of it cannot be read".into(), REBUILD);
        return Ok(0);
    }
    checked
}
