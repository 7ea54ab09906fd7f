//! Migration of the index to other retention classes: rewrites it, class by class.
//!
//! ```text
//!   index/       stores of the old classes  --every version-->  index.next/  stores of the new ones
//!   then         index -> index.old, index.next -> index, index.old is deleted
//! ```
//!
//! After a crash in between, [`settle`] restores the old index or keeps the new one. An old index with the
//! same classes was replaced by [`set_back`], and is kept aside instead of being deleted.

use crate::base::fault_points::{self, InjectedFault};
use crate::fs::error::io_error;
use crate::key::entry;
use crate::key::keyspace;
use crate::storage::bulk_load::BulkLoader;
use crate::storage::flush_mark::FlushMark;
use crate::storage::lsm::{Store, StoreOptions};
use crate::storage::retention_class::{self, RetentionClasses};
use crate::storage::timestamp_index::TimestampIndex;
use mainstay_model::{Result, Revision};
use std::fs::{self, File};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// A revision at which reads see every version.
const NEWEST: Revision = (1 << 62) - 1;

/// Completes or reverts an interrupted migration.
pub(crate) fn settle(directory: &Path) -> Result<()> {
    let old = beside(directory, "old");
    let next = beside(directory, "next");
    let steps = || -> std::io::Result<()> {
        if old.exists() {
            if directory.exists() {
                if is_to_be_kept(&old, directory) {
                    fs::rename(&old, aside(directory))?
                } else {
                    fs::remove_dir_all(&old)?
                }
            } else {
                fs::rename(&old, directory)?
            }
        }
        if next.exists() { fs::remove_dir_all(&next) } else { Ok(()) }
    };
    steps().map_err(|error| io_error("tidy", directory, &error))
}

/// The directory of the index that the next open uses: a crash may have happened between the two renames.
pub(crate) fn settled(directory: &Path) -> PathBuf {
    let old = beside(directory, "old");
    if !directory.exists() && old.exists() { old } else { directory.to_owned() }
}

/// Returns whether a replaced index was set back, which is the case if it has the same classes. An index
/// without a mark was being deleted.
fn is_to_be_kept(old: &Path, directory: &Path) -> bool {
    let labels =
        |mark: FlushMark| mark.classes.into_iter().map(|class| class.0).collect::<Vec<_>>();
    match (FlushMark::read(old), FlushMark::read(directory)) {
        (Ok(None), _) => false,
        (Ok(Some(old)), Ok(Some(new))) => labels(old) == labels(new),
        _ => true,
    }
}

/// An unused name beside the index, for an index that is kept.
pub(crate) fn aside(directory: &Path) -> PathBuf {
    first_free(|number| beside(directory, &format!("damaged-{number}")))
}

/// The first of these paths that does not exist.
pub(crate) fn first_free(path: impl Fn(u32) -> PathBuf) -> PathBuf {
    (1..u32::MAX).map(&path).find(|path| !path.exists()).unwrap_or_else(|| path(u32::MAX))
}

/// Rewrites the index for other classes. Returns the new flush mark.
pub(crate) fn migrate(
    directory: &Path,
    options: &StoreOptions,
    mark: &FlushMark,
    classes: &RetentionClasses,
) -> Result<FlushMark> {
    let mark = rewrite(directory, options, mark, classes, |_, _| Ok(true))?;
    swap(directory)?;
    let old = beside(directory, "old");
    fs::remove_dir_all(&old).map_err(|error| io_error("remove", &old, &error))?;
    Ok(mark)
}

/// Rewrites the index without versions after its flush mark, which an interrupted flush has left. Keeps the
/// previous index aside and returns its path.
pub(crate) fn set_back(
    directory: &Path,
    options: &StoreOptions,
    mark: &FlushMark,
) -> Result<PathBuf> {
    let classes = RetentionClasses::from_labels(mark.classes.iter().map(|class| class.0.as_str()));
    let is_marked = |key: &[u8], version: &[u8]| {
        // Timestamp blocks have numbers of their own.
        let revision = match key.first() {
            Some(&keyspace::TIMES) => TimestampIndex::end_of(entry::parse(version)?.1),
            _ => Some(entry::revision_of(version)),
        };
        Ok(revision.is_none_or(|revision| revision <= mark.revision))
    };
    settle(directory)?;
    rewrite(directory, options, mark, &classes, is_marked)?;
    swap(directory)?;
    let old = beside(directory, "old");
    let aside = aside(directory);
    fs::rename(&old, &aside).map_err(|error| io_error("rename", &old, &error))?;
    Ok(aside)
}

/// Writes a new index beside the old one with the versions that `keep` accepts. Returns its flush mark.
fn rewrite(
    directory: &Path,
    options: &StoreOptions,
    mark: &FlushMark,
    classes: &RetentionClasses,
    keep: impl Fn(&[u8], &[u8]) -> Result<bool>,
) -> Result<FlushMark> {
    let before = RetentionClasses::from_labels(mark.classes.iter().map(|class| class.0.as_str()));
    let next = beside(directory, "next");
    fs::create_dir(&next).map_err(|error| io_error("make", &next, &error))?;
    let open = |root: &Path, classes: &RetentionClasses, class: usize, existing: bool| {
        Store::open(&root.join(classes.directory(class)), options, existing)
    };
    let targets = (0..classes.all().len())
        .map(|class| open(&next, classes, class, false))
        .collect::<Result<Vec<_>>>()?;
    for class in 0..before.all().len() {
        let source = open(directory, &before, class, true)?;
        copy(&source, &targets, classes, &keep)?;
    }
    drop(targets);
    let classes = floors(mark, &before, classes);
    let mark = FlushMark { database: mark.database, revision: mark.revision, classes };
    mark.write(&next)?;
    Ok(mark)
}

/// The new classes with their floors: each takes the highest floor of the classes that its keys come from.
fn floors(
    mark: &FlushMark,
    before: &RetentionClasses,
    classes: &RetentionClasses,
) -> Vec<(String, Revision)> {
    let highest = |of: &mut dyn Iterator<Item = usize>| {
        of.map(|class| mark.classes[class].1).max().unwrap_or(0)
    };
    let floor = |class: usize| match class {
        retention_class::SYSTEM => mark.classes[class].1,
        // A search at an earlier revision scans the records instead.
        _ if classes.all()[class].is_of_entries() => {
            highest(&mut (retention_class::CELLS..before.all().len()))
        }
        _ => highest(&mut classes.came_from(class, before).into_iter()),
    };
    let labels = classes.all().iter().map(|class| class.label.clone());
    labels.enumerate().map(|(class, label)| (label, floor(class))).collect()
}

/// Copies the versions of a store to the stores of their new classes.
fn copy(
    source: &Store,
    targets: &[Store],
    classes: &RetentionClasses,
    keep: &impl Fn(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut pour = BulkLoader::new(targets, classes);
    for row in source.range(Bound::Unbounded, Bound::Unbounded, NEWEST) {
        let (key, newest) = row?;
        let mut entry = Some(newest);
        while let Some(version) = entry {
            if keep(&key, &version)? {
                pour.version(&key, &version)?;
            }
            entry = match entry::revision_of(&version).checked_sub(1) {
                Some(at) => source.get(&key, at)?,
                None => None,
            };
        }
    }
    pour.finish()
}

/// Renames the old index aside and the new index into its place.
fn swap(directory: &Path) -> Result<()> {
    let old = beside(directory, "old");
    let next = beside(directory, "next");
    let steps = || -> std::io::Result<()> {
        fs::rename(directory, &old)?;
        // Sync each rename: if only the second one survived a power failure, the old index would be lost.
        fault_points::unless(InjectedFault::NoSyncOfSetBack, || sync_names(&old))?;
        rename_durably(&next, directory)
    };
    steps().map_err(|error| io_error("replace", directory, &error))
}

/// Renames and syncs the directory, so that the new name survives a power failure.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to)?;
    fault_points::unless(InjectedFault::NoSyncOfRename, || sync_names(to))
}

/// Syncs the parent directory.
fn sync_names(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

pub(crate) fn beside(directory: &Path, what: &str) -> PathBuf {
    directory.with_extension(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::open::plain_store_options;
    use crate::storage::retention_class::RetentionRules;
    use crate::{At, Database, ManualClock, NewEvent, Options, RunFilter};
    use std::sync::Arc;
    use std::time::Duration;

    /// Classes of earlier versions: runs with cells; all run data in one class; events and keys in classes of
    /// their own.
    const FORMER: [&[&str]; 3] = [
        &["", ""],
        &["", "", "\0records", "\0entries", "\0runs"],
        &["", "", "\0records", "\0entries", "\0runs", "\0events", "\0keys"],
    ];

    fn open(directory: &Path, clock: &Arc<ManualClock>) -> Database {
        let options = Options::new().sweep_interval(None).clock(clock.clone());
        options.open(directory).unwrap()
    }

    fn note(run: &str, n: u64) -> NewEvent {
        NewEvent::new(run, "Noted").with_key(&format!("key {n}")).value(n as i64)
    }

    fn append(db: &Database, run: &str, numbers: std::ops::RangeInclusive<u64>) {
        db.runs().append_batch(numbers.map(|n| note(run, n)).collect()).unwrap();
    }

    /// Writes run and outbox data of every kind. Returns a revision in the middle of it.
    fn fill(db: &Database) -> Revision {
        append(db, "long", 1..=300);
        let middle = db.revision();
        append(db, "long", 301..=600);
        db.runs().bootstrap("made", "with", vec![note("made", 1)]).unwrap();
        // This event is invalid at this place, which creates an alert.
        db.runs().append(NewEvent::new("made", "RunResumed").with_key("resumed")).unwrap();
        db.runs().keep("made", "mine", 1, 2, "state".into()).unwrap();
        append(db, "gone", 1..=5);
        db.runs().delete("gone").unwrap();
        db.fork("fork", "main", At::Latest).unwrap();
        db.branch("fork").unwrap().runs().append(note("made", 9)).unwrap();
        for (subject, run) in [("a", None), ("b", Some("long")), ("c", Some("long"))] {
            db.outbox().put(subject, "words", run).unwrap();
        }
        let first = db.outbox().claim(1, Duration::from_secs(1)).unwrap()[0].id;
        db.outbox().fail(first, "no", Duration::ZERO, 1).unwrap();
        db.cells().set("cell", 1).unwrap();
        middle
    }

    /// Everything that can be read of that data.
    fn read(db: &Database, middle: Revision) -> String {
        let runs = db.runs();
        let fork = db.branch("fork").unwrap().runs();
        let then = runs.at(At::Revision(middle)).unwrap();
        let hashes = ["long", "made"].map(|run| {
            let [kept, folded] = [runs.snapshot(run), runs.project(run)];
            [kept, folded].map(|snapshot| snapshot.unwrap().unwrap().hash())
        });
        let logs = ["long", "made", "gone"].map(|run| runs.fetch(run, 0, 1_000).unwrap());
        let told = (
            runs.list(&RunFilter::default(), None, 9).unwrap(),
            runs.alerts("made", 0, 9).unwrap(),
            runs.kept("made", "mine", 1).unwrap(),
            fork.fetch("made", 0, 9).unwrap(),
            (then.get("long").unwrap(), then.fetch("long", 299, 9).unwrap().len()),
        );
        let outbox = (db.outbox().state().unwrap(), db.outbox().dead(0, 9).unwrap());
        let [main, other] = ["main", "fork"].map(|branch| db.export_hash(branch).unwrap());
        format!("{logs:?} {hashes:?} {told:?} {outbox:?} {main:?} {other:?}")
    }

    fn labels(index: &Path) -> Vec<String> {
        let mark = FlushMark::read(index).unwrap().unwrap();
        mark.classes.into_iter().map(|class| class.0).collect()
    }

    /// Rewrites the index in the layout of an earlier version.
    fn make_former(index: &Path, former: &[&str]) {
        let classes = RetentionClasses::from_labels(former.iter().copied());
        let mark = FlushMark::read(index).unwrap().unwrap();
        migrate(index, &plain_store_options(), &mark, &classes).unwrap();
        assert_eq!(labels(index), former);
        assert!(!index.join("states").exists());
        assert_eq!(index.join("keys").exists(), former.contains(&"\0keys"));
    }

    #[test]
    fn a_class_is_trimmed_as_those_were_that_it_comes_from() {
        let floors_of = |old: &[(&str, Revision)], prefixes: &[&str]| {
            let classes = old.iter().map(|(label, floor)| ((*label).to_owned(), *floor)).collect();
            let mark = FlushMark { database: [0; 16], revision: 20, classes };
            let before = RetentionClasses::from_labels(old.iter().map(|class| class.0));
            let prefixes = prefixes
                .iter()
                .map(|prefix| (crate::key::keyspace::CELLS, (*prefix).to_owned(), None))
                .collect();
            let now =
                RetentionClasses::new(&RetentionRules { prefixes, ..RetentionRules::default() });
            floors(&mark, &before, &now).into_iter().map(|class| class.1).collect::<Vec<_>>()
        };
        let all = [("", 20), ("", 5), ("\0records", 9), ("\0entries", 12), ("\0runs", 7)];
        // The system class, cells, records, index entries, the four classes of runs, and keyed state. Keyed
        // state had no class and was stored with cells.
        assert_eq!(floors_of(&all, &[]), [20, 5, 9, 12, 7, 7, 7, 7, 5]);
        assert_eq!(floors_of(&all, &["a/"]), [20, 5, 9, 12, 7, 7, 7, 7, 5, 5]);
        assert_eq!(floors_of(&all[..2], &[]), [20, 5, 5, 5, 5, 5, 5, 5, 5]);
        let with_prefix = [&all[..], &[("a/", 8)]].concat();
        assert_eq!(floors_of(&with_prefix, &["a/"]), [20, 5, 9, 12, 7, 7, 7, 7, 5, 8]);
        assert_eq!(floors_of(&with_prefix, &[]), [20, 8, 9, 12, 7, 7, 7, 7, 5]);
    }

    #[test]
    fn all_of_runs_is_there_after_an_older_index_was_opened() {
        for former in FORMER {
            let directory = tempfile::tempdir().unwrap();
            let clock = ManualClock::new(1_700_000_000_000_000);
            let db = open(directory.path(), &clock);
            let index = directory.path().join("index");
            let middle = fill(&db);
            db.here("a test").unwrap().flush_all().unwrap();
            let flushed = db.revision();
            // The log is ahead of the index.
            append(&db, "long", 601..=610);
            let revision = db.revision();
            let before = read(&db, middle);
            db.close().unwrap();
            drop(db);
            make_former(&index, former);

            let db = open(directory.path(), &clock);
            let report = db.open_report();
            assert_eq!((report.rebuilt.as_ref(), report.replayed), (None, revision - flushed));
            assert_eq!(read(&db, middle), before, "{former:?}");
            for n in [1, 300, 600, 610] {
                let again = db.runs().append(note("long", n)).unwrap();
                assert_eq!((again.run_seq, again.idempotent, again.conflict), (n, true, false));
            }
            assert_eq!(db.runs().append(note("long", 611)).unwrap().run_seq, 611);
            let messages = db.outbox().claim(9, Duration::from_secs(1)).unwrap();
            assert_eq!(messages.iter().map(|one| &*one.subject).collect::<Vec<_>>(), ["b"]);
            db.close().unwrap();
            let today = RetentionClasses::new(&RetentionRules::default());
            let today: Vec<_> = today.all().iter().map(|class| class.label.clone()).collect();
            assert_eq!(labels(&index), today);
            let report = crate::tools::doctor::inspect(directory.path()).unwrap();
            assert!(report.is_healthy(), "{report}");
        }
    }
}
