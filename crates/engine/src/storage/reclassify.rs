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
pub fn migrate(
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
pub fn floors(
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
