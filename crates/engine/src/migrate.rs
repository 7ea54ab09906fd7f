//! Other retention classes than before: the index is written anew, class by class.
//!
//! ```text
//!   index/       stores of the old classes  --every version-->  index.next/  stores of the new ones
//!   then         index -> index.old, index.next -> index, index.old is removed
//! ```
//!
//! A crash on the way leaves either the old index or the new one: [`settle`] puts back what was moved.

use crate::classes::{self, Classes};
use crate::entry;
use crate::mark::{Mark, io_error};
use crate::pour::Pour;
use crate::store::{Store, StoreOptions};
use mainstay_model::{Result, Revision};
use std::fs::{self, File};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Reads see every version.
const NEWEST: Revision = (1 << 62) - 1;

/// Finishes or takes back what a crash interrupted.
pub(crate) fn settle(directory: &Path) -> Result<()> {
    let (old, next) = (beside(directory, "old"), beside(directory, "next"));
    let steps = || -> std::io::Result<()> {
        if !directory.exists() && old.exists() {
            fs::rename(&old, directory)?;
        }
        for litter in [&old, &next] {
            if litter.exists() {
                fs::remove_dir_all(litter)?;
            }
        }
        Ok(())
    };
    steps().map_err(|error| io_error("tidy", directory, &error))
}

/// Writes the index anew for other classes; gives the new mark.
pub(crate) fn migrate(
    directory: &Path,
    options: &StoreOptions,
    mark: &Mark,
    classes: &Classes,
) -> Result<Mark> {
    let before = Classes::from_labels(mark.classes.iter().map(|class| class.0.as_str()));
    let next = beside(directory, "next");
    fs::create_dir(&next).map_err(|error| io_error("make", &next, &error))?;
    let open = |root: &Path, classes: &Classes, class: usize, existing: bool| {
        Store::open(&root.join(classes.directory(class)), options, existing)
    };
    let targets = (0..classes.all().len())
        .map(|class| open(&next, classes, class, false))
        .collect::<Result<Vec<_>>>()?;
    for class in 0..before.all().len() {
        let source = open(directory, &before, class, true)?;
        copy(&source, &targets, classes)?;
    }
    drop(targets);
    // What one of the old classes had trimmed is trimmed for all.
    let data = mark.classes.iter().zip(before.all()).skip(classes::CELLS);
    let of_data = data.clone().filter(|(_, class)| !class.is_of_entries());
    let floor = of_data.map(|(class, _)| class.1).max().unwrap_or(0);
    let of_entries = data.map(|(class, _)| class.1).max().unwrap_or(0);
    let class = |(i, class): (usize, &classes::Class)| match class.is_of_entries() {
        true => (class.label.clone(), of_entries),
        false if i == classes::SYSTEM => (class.label.clone(), mark.classes[i].1),
        false => (class.label.clone(), floor),
    };
    let classes = classes.all().iter().enumerate().map(class).collect();
    let mark = Mark { database: mark.database, revision: mark.revision, classes };
    mark.write(&next)?;
    swap(directory, &next)?;
    Ok(mark)
}

/// Copies every version of a store to the store of its new class.
fn copy(source: &Store, targets: &[Store], classes: &Classes) -> Result<()> {
    let mut pour = Pour::new(targets, classes);
    for row in source.range(Bound::Unbounded, Bound::Unbounded, NEWEST) {
        let (key, newest) = row?;
        let mut entry = Some(newest);
        while let Some(version) = entry {
            pour.version(&key, &version)?;
            entry = match entry::revision_of(&version).checked_sub(1) {
                Some(at) => source.get(&key, at)?,
                None => None,
            };
        }
    }
    pour.finish()
}

fn swap(directory: &Path, next: &Path) -> Result<()> {
    let old = beside(directory, "old");
    let steps = || -> std::io::Result<()> {
        fs::rename(directory, &old)?;
        rename_durably(next, directory)?;
        fs::remove_dir_all(&old)
    };
    steps().map_err(|error| io_error("replace", directory, &error))
}

/// Renames so that it survives a power cut.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to)?;
    to.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

pub(crate) fn beside(directory: &Path, what: &str) -> PathBuf {
    directory.with_extension(what)
}
