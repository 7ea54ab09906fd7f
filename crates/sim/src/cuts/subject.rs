//! Databases that things are done to: whole, damaged, and half done by a process that was killed.

use super::explore::{Tally, settle_at};
use super::procedure::Procedure;
use super::recording::{DATABASE, Recording, Start};
use super::trial::record;
use crate::disk::{Event, Homes, Image, Node};
use crate::drill::{Outcome, Work, all_cells, options, own_cell};
use mainstay::{Options, Revision, Versioned, doctor};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A place in a segment behind its header, in the first frame.
const FIRST_FRAME: usize = 200;

/// A database at two moments of its life.
pub struct Subject {
    early: Image,
    pub(super) late: Image,
    /// The same as the second, with no more of a log than it needs.
    pub(super) lean: Image,
    said: Vec<(u64, String)>,
}

impl Subject {
    /// A database that three processes have written to.
    pub fn make(seed: u64, homes: &Homes) -> Outcome<Subject> {
        let mut start = Start::default();
        let mut images = Vec::new();
        // The last of them leaves a segment with more than one frame.
        for (generation, operations) in (1..).zip([60, 60, 3]) {
            let work = Work { seed, generation, writers: 4, operations, faulty: false };
            start = Recording::make(start, work, options(), &homes.mounted)?.after_all();
            images.push(start.base.clone());
        }
        let Start { base: late, before: said, .. } = start;
        let lean = lean(&late, &homes.image)?;
        Ok(Subject { early: images.remove(0), late, lean, said })
    }

    pub(super) fn settle(&self, directory: &Path, options: &Options) -> Outcome<()> {
        settle_at(directory, options, &self.said, &mut Tally::default())
    }

    /// A full backup of the first moment, and an increment from there to the second.
    pub(super) fn backups(&self, home: &Path) -> Outcome<Image> {
        let told = |error: mainstay::Error| format!("backing up: {error}");
        let disk = |error: std::io::Error| format!("backing up: {error}");
        let root = home.join("backups");
        let mut backups = Image::default();
        let (full, more) = (home.join("full"), home.join("more"));
        self.early.write(&root).map_err(disk)?;
        let db = options().open(root.join(DATABASE)).map_err(told)?;
        let revision = db.backup(&full, &mut |_| {}).map_err(told)?.revision;
        drop(db);
        self.late.write(&root).map_err(disk)?;
        let db = options().open(root.join(DATABASE)).map_err(told)?;
        db.backup_since(revision, &more, &mut |_| {}).map_err(told)?;
        for (name, path) in [("full", full), ("more", more)] {
            backups.put(PathBuf::from(name), Node::File(fs::read(&path).map_err(disk)?));
            fs::remove_file(path).map_err(disk)?;
        }
        Ok(backups)
    }

    /// The files with an index that is damaged and that the log does not hold, and a backup.
    pub(super) fn with_base(&self, home: &Path) -> Outcome<Image> {
        let told = |error: mainstay::Error| format!("backing up: {error}");
        let disk = |error: std::io::Error| format!("backing up: {error}");
        let (root, base) = (home.join("backups"), home.join("base"));
        self.lean.write(&root).map_err(disk)?;
        let db = options().open(root.join(DATABASE)).map_err(told)?;
        db.backup(&base, &mut |_| {}).map_err(told)?;
        drop(db);
        let mut image = self.lean.clone();
        spoil_mark(&mut image)?;
        image.put(PathBuf::from("base"), Node::File(fs::read(&base).map_err(disk)?));
        fs::remove_file(base).map_err(disk)?;
        Ok(image)
    }

    /// The files with what is to be salvaged.
    pub(super) fn damaged(&self, procedure: Procedure) -> Outcome<Image> {
        let mut image = self.late.clone();
        let segments = segments(&image);
        let hit: &[PathBuf] = match procedure {
            Procedure::SalvageFirst => &segments[..1],
            Procedure::SalvageAll => &segments,
            Procedure::SalvageLast | Procedure::SalvageBothLast => &segments[segments.len() - 1..],
            Procedure::SalvageGone => {
                return Ok(image.without(&Path::new(DATABASE).join("log")));
            }
            _ => &segments[segments.len().saturating_sub(2)..][..1],
        };
        for path in hit {
            let bytes = image.bytes_mut(path).ok_or("there is no such file")?;
            bytes[FIRST_FRAME] ^= 1;
        }
        if matches!(procedure, Procedure::SalvageBoth | Procedure::SalvageBothLast) {
            spoil_mark(&mut image)?;
        }
        Ok(image)
    }

    /// What is left of a process that was killed when it first had given something of the index this name; then its log was
    /// damaged.
    pub(super) fn killed_when_named(&self, name: &str, homes: &Homes) -> Outcome<Start> {
        let start = Start { base: self.early.clone(), ..Start::default() };
        let recording = record(start, homes, |mount| {
            let db = options().background(false).open(mount.directory().join(DATABASE));
            let written = db.and_then(|db| {
                (0..10).try_for_each(|n| db.cells().set(&own_cell(0, 0), n).map(drop))?;
                db.trim()
            });
            written.map_err(|error| format!("before it was killed: {error}"))
        })?;
        spoil(&killed_when_named(name, &recording)?)
    }

    /// What is left of a process that was killed when it had made a database of a backup; then its log was damaged.
    pub(super) fn restored(&self, homes: &Homes) -> Outcome<Start> {
        let start = Procedure::Restore.prepare(self, homes)?;
        let recording = record(start, homes, |mount| Procedure::Restore.perform(mount))?;
        spoil(&killed_when_named("DATABASE", &recording)?)
    }

    /// What was damaged is kept, byte by byte.
    pub(super) fn check_aside(&self, damaged: &Image, db: &Path) -> Outcome<()> {
        let told = |error: std::io::Error| format!("looking for what was damaged: {error}");
        let mut there = Vec::new();
        for entry in fs::read_dir(db.join("log")).map_err(told)? {
            there.push(fs::read(entry.map_err(told)?.path()).map_err(told)?);
        }
        let before: BTreeMap<_, _> = self.late.files().collect();
        let changed = damaged.files().filter(|(path, bytes)| before.get(path) != Some(bytes));
        let mut segments = changed.filter(|(path, _)| is_segment(path));
        match segments.find(|(_, bytes)| !there.contains(bytes)) {
            Some((path, _)) => Err(format!("LOST: {} was not kept", path.display())),
            None => Ok(()),
        }
    }

    /// It is as after a salvage that nobody cut off.
    pub(super) fn check_salvaged(&self, damaged: &Image, db: &Path) -> Outcome<()> {
        let home = db.with_extension("undisturbed");
        let told = |error: mainstay::Error| format!("salvaging: {error}");
        damaged.write(&home).map_err(|error| format!("an image: {error}"))?;
        doctor::salvage(&home.join(DATABASE)).map_err(told)?;
        let (cut, undisturbed) =
            (look(db).map_err(told)?, look(&home.join(DATABASE)).map_err(told)?);
        match cut == undisturbed {
            true => Ok(()),
            false => Err(format!("LOST: {cut:?} instead of {undisturbed:?}")),
        }
    }
}

fn spoil_mark(image: &mut Image) -> Outcome<()> {
    let mark = Path::new(DATABASE).join("index").join("MARK");
    let bytes = image.bytes_mut(&mark).ok_or("there is no mark")?;
    bytes[20] ^= 1;
    Ok(())
}

fn segments(image: &Image) -> Vec<PathBuf> {
    image.files().map(|(path, _)| path).filter(|path| is_segment(path)).cloned().collect()
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|of| of == "seg")
}

/// Where a process is killed right when something first has this name.
fn killed_when_named(name: &str, recording: &Recording) -> Outcome<Start> {
    let is_it = |event: &Event| matches!(event, Event::Rename { to, .. } if to.1 == name);
    let at = recording.events.iter().position(is_it).ok_or("the disk in memory: no such name")?;
    Ok(recording.killed_at(at + 1))
}

/// The same, with damage in all segments of the log.
fn spoil(start: &Start) -> Outcome<Start> {
    let (mut spoilt, tree) = (start.clone(), start.tree());
    let image = tree.image();
    for path in segments(&image) {
        let ino = tree.at(&path).ok_or("there is no such file")?;
        let at = FIRST_FRAME;
        let byte = tree.bytes(ino).and_then(|bytes| bytes.get(at)).ok_or("there is no frame")?;
        spoilt.since.push(Event::Write { ino, offset: at as u64, bytes: vec![byte ^ 1] });
        spoilt.since.push(Event::Sync { ino });
    }
    Ok(spoilt)
}

/// The files with an index that nothing but a backup could make again.
fn lean(image: &Image, home: &Path) -> Outcome<Image> {
    let told = |error: mainstay::Error| format!("trimming: {error}");
    let disk = |error: std::io::Error| format!("trimming: {error}");
    image.write(home).map_err(disk)?;
    let options = options().feed_retention(Duration::ZERO, 0);
    let db = options.open(home.join(DATABASE)).map_err(told)?;
    db.trim().map_err(told)?;
    db.close().map_err(told)?;
    drop(db);
    Image::read(home).map_err(disk)
}

/// The revision that a database ends with, and its cells.
fn look(directory: &Path) -> mainstay::Result<(Revision, Vec<Option<Versioned>>)> {
    let db = options().open(directory)?;
    let cells = all_cells().iter().map(|name| db.cells().get_versioned(name)).collect();
    let cells: mainstay::Result<_> = cells;
    Ok((db.open_report().revision, cells?))
}
