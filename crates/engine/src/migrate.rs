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
use crate::store::{Store, StoreOptions};
use mainstay_model::{Result, Revision};
use std::fs::{self, File};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Reads see every version.
const NEWEST: Revision = (1 << 62) - 1;
/// How many versions are taken at a time.
const CHUNK: usize = 50_000;

type Owned = (Vec<u8>, Revision, Vec<u8>);

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
    let prefixes = mark.classes.iter().skip(classes::CELLS + 1);
    let prefixes: Vec<_> = prefixes.map(|class| (class.0.clone(), None)).collect();
    let before = Classes::new(None, &prefixes);
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
    let floor = mark.classes[classes::CELLS..].iter().map(|class| class.1).max().unwrap_or(0);
    let class = |(i, class): (usize, &classes::Class)| {
        let floor = if i == classes::SYSTEM { mark.classes[i].1 } else { floor };
        (class.prefix.clone(), floor)
    };
    let classes = classes.all().iter().enumerate().map(class).collect();
    let mark = Mark { database: mark.database, revision: mark.revision, classes };
    mark.write(&next)?;
    swap(directory, &next)?;
    Ok(mark)
}

/// Copies every version of a store to the store of its new class.
fn copy(source: &Store, targets: &[Store], classes: &Classes) -> Result<()> {
    let mut chunks: Vec<Vec<Owned>> = targets.iter().map(|_| Vec::new()).collect();
    for row in source.range(Bound::Unbounded, Bound::Unbounded, NEWEST) {
        let (key, newest) = row?;
        let class = classes.of(&key);
        let mut entry = Some(newest);
        while let Some(version) = entry {
            let revision = entry::revision_of(&version);
            chunks[class].push((key.to_vec(), revision, version.to_vec()));
            entry = match revision.checked_sub(1) {
                Some(at) => source.get(&key, at)?,
                None => None,
            };
        }
        // A chunk ends with a key, never within one.
        if chunks[class].len() >= CHUNK {
            pour(&mut chunks[class], &targets[class])?;
        }
    }
    chunks.iter_mut().zip(targets).try_for_each(|(chunk, target)| pour(chunk, target))
}

fn pour(chunk: &mut Vec<Owned>, target: &Store) -> Result<()> {
    if !chunk.is_empty() {
        target
            .ingest(chunk.iter().map(|(key, revision, entry)| (&key[..], *revision, &entry[..])))?;
    }
    chunk.clear();
    Ok(())
}

fn swap(directory: &Path, next: &Path) -> Result<()> {
    let old = beside(directory, "old");
    let steps = || -> std::io::Result<()> {
        fs::rename(directory, &old)?;
        fs::rename(next, directory)?;
        directory.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
        fs::remove_dir_all(&old)
    };
    steps().map_err(|error| io_error("replace", directory, &error))
}

fn beside(directory: &Path, what: &str) -> PathBuf {
    directory.with_extension(what)
}
