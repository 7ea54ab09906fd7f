//! Databases on which procedures run: intact, damaged, and left half done by a killed process.

use super::explore::{Tally, settle_at};
use super::procedure::Procedure;
use super::recording::{DATABASE, Recording, Start};
use super::trial::record;
use crate::disk::{Event, Homes, Image, Node};
use crate::drill::{Outcome, Work, all_cells, options, own_cell};
use mainstay::{Database, Options, Revision, Versioned, doctor};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An offset in the first block of a table.
const FIRST_BLOCK: usize = 50;

/// An offset in the first frame of a segment, after its header.
const FIRST_FRAME: usize = 200;

/// The file that lists the tables with cells.
pub(super) const FLUSHED: &str = "index/cells/current";

/// A database at two points in time.
pub struct Subject {
    early: Image,
    pub(super) late: Image,
    /// The later state, with no more of the log than it needs.
    pub(super) lean: Image,
    said: Vec<(u64, String)>,
    /// The cells at the earlier point.
    early_cells: Cells,
    late_cells: Cells,
}

type Cells = Vec<Option<Versioned>>;

impl Subject {
    /// Creates a database to which three processes have written.
    pub fn make(seed: u64, homes: &Homes) -> Outcome<Subject> {
        let mut start = Start::default();
        let mut images = Vec::new();
        // The last process leaves a segment with more than one frame.
        for (generation, operations) in (1..).zip([60, 60, 3]) {
            let work = Work { seed, generation, writers: 4, operations, faulty: false };
            start = Recording::make(start, work, options(), &homes.mounted)?.after_all();
            images.push(start.base.clone());
        }
        let Start { base: late, before: said, .. } = start;
        let lean = lean(&late, &homes.image)?;
        let early = images.remove(0);
        let cells_of = |image: &Image| {
            image.write(&homes.image).map_err(|error| format!("an image: {error}"))?;
            let seen = look(&homes.image.join(DATABASE));
            seen.map(|seen| seen.1).map_err(|error| format!("looking: {error}"))
        };
        let early_cells = cells_of(&early)?;
        let late_cells = cells_of(&late)?;
        Ok(Subject { early, late, lean, said, early_cells, late_cells })
    }

    /// Every cell has its earlier value or a newer one.
    pub(super) fn check_early(&self, db: &Path) -> Outcome<()> {
        let (_, now) = look(db).map_err(|error| format!("LOST: opening: {error}"))?;
        check_after(&self.early_cells, &now)
    }

    /// Every cell has its later value or a newer one.
    pub(super) fn check_late(&self, db: &Database) -> Outcome<()> {
        let now = cells(db).map_err(|error| format!("LOST: a cell: {error}"))?;
        check_after(&self.late_cells, &now)
    }

    pub(super) fn settle(&self, directory: &Path, options: &Options) -> Outcome<()> {
        settle_at(directory, options, &self.said, &mut Tally::default())
    }

    /// A full backup of the earlier state, and an increment to the later one.
    pub(super) fn backups(&self, home: &Path) -> Outcome<Image> {
        let told = |error: mainstay::Error| format!("backing up: {error}");
        let disk = |error: std::io::Error| format!("backing up: {error}");
        let root = home.join("backups");
        let mut backups = Image::default();
        let full = home.join("full");
        let more = home.join("more");
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

    /// The files with a damaged index that the log does not cover, and a backup.
    pub(super) fn with_base(&self, home: &Path) -> Outcome<Image> {
        let told = |error: mainstay::Error| format!("backing up: {error}");
        let disk = |error: std::io::Error| format!("backing up: {error}");
        let root = home.join("backups");
        let base = home.join("base");
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

    /// The files with the damage that is to be salvaged.
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
        match procedure {
            // Opening notices the damaged mark, but not the damaged table.
            Procedure::SalvageBothLast => spoil_mark(&mut image)?,
            Procedure::SalvageBoth => spoil_table(&mut image)?,
            _ => {}
        }
        Ok(image)
    }

    /// The state after a process was killed when it first renamed a file of the index to `name`, with its log
    /// damaged afterwards.
    pub(super) fn killed_when_named(&self, name: &str, homes: &Homes) -> Outcome<Start> {
        spoil(&self.killed(name, homes)?)
    }

    fn killed(&self, name: &str, homes: &Homes) -> Outcome<Start> {
        let start = Start { base: self.early.clone(), ..Start::default() };
        let recording = record(start, homes, |mount| {
            let db = options().background(false).open(mount.directory().join(DATABASE));
            let written = db.and_then(|db| {
                (0..10).try_for_each(|n| db.cells().set(&own_cell(0, 0), n).map(drop))?;
                db.trim()
            });
            written.map_err(|error| format!("before it was killed: {error}"))
        })?;
        let killed = killed_when_named(name, &recording)?;
        if name == FLUSHED && !self.is_ahead(&killed.tree().image()) {
            Err("the disk in memory: the index is not ahead of its mark".to_owned())
        } else {
            Ok(killed)
        }
    }

    /// Returns whether cells were flushed since the earlier point without an update of the flush mark.
    fn is_ahead(&self, image: &Image) -> bool {
        let is_same = |name: &str| {
            let path = Path::new(DATABASE).join(name);
            self.early.bytes(&path) == image.bytes(&path)
        };
        is_same("index/MARK") && !is_same(FLUSHED)
    }

    /// The files after a process was killed when it had flushed to a store and everything became durable.
    /// Then its log lost its last frame.
    pub(super) fn torn_when_flushed(&self, homes: &Homes) -> Outcome<Image> {
        let mut image = self.killed(FLUSHED, homes)?.tree().image();
        let path = segments(&image).pop().ok_or("there is no segment")?;
        let bytes = image.bytes_mut(&path).ok_or("there is no such file")?;
        let at = bytes.iter().rposition(|byte| *byte != 0).ok_or("there is no frame")?;
        bytes[at] ^= 1;
        Ok(image)
    }

    /// The state after a process was killed when it had restored a database from a backup, with its log
    /// damaged afterwards.
    pub(super) fn restored(&self, homes: &Homes) -> Outcome<Start> {
        let start = Procedure::Restore.prepare(self, homes)?;
        let recording = record(start, homes, |mount| Procedure::Restore.perform(mount))?;
        spoil(&killed_when_named("DATABASE", &recording)?)
    }

    /// Damaged segments are kept, byte by byte.
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

    /// The index that was set back is kept: its flush mark and its manifests.
    pub(super) fn check_index_aside(&self, damaged: &Image, db: &Path) -> Outcome<()> {
        let index = Path::new(DATABASE).join("index");
        let is_name = |path: &Path| path.ends_with("MARK") || path.ends_with("current");
        let files = damaged.files().filter(|(path, _)| is_name(path));
        for (path, bytes) in files {
            let Ok(place) = path.strip_prefix(&index) else { continue };
            match fs::read(db.join("index.damaged-1").join(place)) {
                Ok(kept) if kept == *bytes => {}
                other => {
                    return Err(format!("LOST: {} was not kept: {other:?}", path.display()));
                }
            }
        }
        Ok(())
    }

    /// The result equals that of a salvage that was not cut off.
    pub(super) fn check_salvaged(&self, damaged: &Image, db: &Path) -> Outcome<()> {
        let home = db.with_extension("undisturbed");
        let told = |error: mainstay::Error| format!("salvaging: {error}");
        damaged.write(&home).map_err(|error| format!("an image: {error}"))?;
        doctor::salvage(&home.join(DATABASE)).map_err(told)?;
        let cut = look(db).map_err(told)?;
        let undisturbed = look(&home.join(DATABASE)).map_err(told)?;
        if cut == undisturbed {
            Ok(())
        } else {
            Err(format!("LOST: {cut:?} instead of {undisturbed:?}"))
        }
    }
}

fn spoil_mark(image: &mut Image) -> Outcome<()> {
    let mark = Path::new(DATABASE).join("index").join("MARK");
    let bytes = image.bytes_mut(&mark).ok_or("there is no mark")?;
    bytes[20] ^= 1;
    Ok(())
}

fn spoil_table(image: &mut Image) -> Outcome<()> {
    let is_table = |path: &Path| path.parent().is_some_and(|parent| parent.ends_with("tables"));
    let table = image.files().map(|(path, _)| path).find(|path| is_table(path)).cloned();
    let bytes = table.and_then(|path| image.bytes_mut(&path)).ok_or("there is no table")?;
    bytes[FIRST_BLOCK] ^= 1;
    Ok(())
}

fn segments(image: &Image) -> Vec<PathBuf> {
    image.files().map(|(path, _)| path).filter(|path| is_segment(path)).cloned().collect()
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|of| of == "seg")
}

/// The state after the process was killed when a file was first renamed to `name` in the database.
fn killed_when_named(name: &str, recording: &Recording) -> Outcome<Start> {
    let path = Path::new(DATABASE).join(name);
    let mut tree = recording.start.tree();
    let is_it = |event: &Event| {
        let parent = path.parent().and_then(|parent| tree.at(parent));
        tree.apply(event);
        matches!(event, Event::Rename { to, .. } if Some(to.0) == parent && path.ends_with(&to.1))
    };
    let at = recording.events.iter().position(is_it).ok_or("the disk in memory: no such name")?;
    Ok(recording.killed_at(at + 1))
}

/// The same state, with damage in all segments of the log.
fn spoil(start: &Start) -> Outcome<Start> {
    let mut spoilt = start.clone();
    let tree = start.tree();
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

/// The files with an index that only a backup could restore.
fn lean(image: &Image, home: &Path) -> Outcome<Image> {
    let told = |error: mainstay::Error| format!("making it lean: {error}");
    let disk = |error: std::io::Error| format!("making it lean: {error}");
    image.write(home).map_err(disk)?;
    let options = options().feed_retention(Duration::ZERO, 0);
    let db = options.open(home.join(DATABASE)).map_err(told)?;
    db.trim().map_err(told)?;
    db.close().map_err(told)?;
    drop(db);
    Image::read(home).map_err(disk)
}

/// The last revision of a database, and its cells.
fn look(directory: &Path) -> mainstay::Result<(Revision, Cells)> {
    let db = options().open(directory)?;
    Ok((db.open_report().revision, cells(&db)?))
}

fn cells(db: &Database) -> mainstay::Result<Cells> {
    all_cells().iter().map(|name| db.cells().get_versioned(name)).collect()
}

/// Every cell has its earlier value or one written later.
fn check_after(before: &Cells, now: &Cells) -> Outcome<()> {
    let revision = |cell: &Option<Versioned>| cell.as_ref().map_or(0, |cell| cell.revision);
    let newest = before.iter().map(revision).max().unwrap_or(0);
    match before.iter().zip(now).find(|(was, is)| was != is && revision(is) <= newest) {
        Some((was, is)) => Err(format!("LOST: {is:?} instead of {was:?}")),
        None => Ok(()),
    }
}
