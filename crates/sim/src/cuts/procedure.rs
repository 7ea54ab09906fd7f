//! What is done to databases beside writing to them, cut off as well: backups, restores, salvages, new classes.
//!
//! ```text
//!   files ── procedure on a disk that writes down what is done to it ── "done" ──> tape
//!                                             │ up to each boundary
//!                                             v
//!   done: it is so, and everything is there     not done: it can be begun again, and then everything is there
//! ```

use super::explore::{Tally, settle_at};
use super::life::{check_lived, live, live_again, rest, turn_of};
use super::recording::{DATABASE, Recording, Start};
use crate::disk::{Event, Homes, Image, Model, Mount, Node, Tape};
use crate::drill::{Outcome, Work, all_cells, options};
use mainstay::doctor::Verdict;
use mainstay::{Code, Options, Revision, Versioned, doctor, restore_backup, verify_backup};
use mainstay_conformance::random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// A database is made.
    Create,
    /// A backup is written.
    Backup,
    /// A database is made of a backup and an increment.
    Restore,
    /// A log whose first segment is damaged is salvaged: what is before the damage goes aside.
    SalvageFirst,
    /// A log whose last segment but one is damaged is salvaged: what is behind it goes aside.
    SalvageMiddle,
    /// A log whose last segment is damaged is salvaged: a copy of it is kept.
    SalvageLast,
    /// A log with nothing but damage is salvaged: it begins anew behind the index.
    SalvageAll,
    /// A log that is gone is salvaged: it begins anew behind the index.
    SalvageGone,
    /// A damaged log beside a damaged index is salvaged: the index goes aside.
    SalvageBoth,
    /// The same, where nothing is behind the damaged segment.
    SalvageBothLast,
    /// An index is divided into other classes.
    Divide,
    /// An index that is gone is made anew.
    Rebuild,
    /// A database is written to, segment after segment, trimmed and closed; then it is trimmed and written to again.
    Live,
    /// The same; then nobody asks it for anything.
    Rest,
}

/// For so many cuts, it is also killed once.
const CUTS_FOR_EACH_KILL: usize = 10;

/// How often power fails after each of these.
const CUTS_EACH_KILLED: usize = 6;

/// The line that says that it is done.
const DONE: &str = "done";

impl Procedure {
    /// All of them.
    pub const ALL: [Procedure; 14] = [
        Procedure::Create,
        Procedure::Backup,
        Procedure::Restore,
        Procedure::SalvageFirst,
        Procedure::SalvageMiddle,
        Procedure::SalvageLast,
        Procedure::SalvageAll,
        Procedure::SalvageGone,
        Procedure::SalvageBoth,
        Procedure::SalvageBothLast,
        Procedure::Divide,
        Procedure::Rebuild,
        Procedure::Live,
        Procedure::Rest,
    ];

    /// The options that it opens databases with.
    fn options(self) -> Options {
        match self {
            Procedure::Divide => options().retention_class("own/1/", None),
            // Some tables lie one over the other when it is trimmed.
            Procedure::Live | Procedure::Rest => {
                let options = options().retention(Duration::ZERO);
                options.feed_retention(Duration::ZERO, 0).write_buffer_bytes(192 << 10)
            }
            _ => options(),
        }
    }

    /// The files that it begins with.
    fn prepare(self, subject: &Subject, home: &Path) -> Outcome<Image> {
        match self {
            Procedure::Create | Procedure::Live | Procedure::Rest => Ok(Image::default()),
            Procedure::Backup => Ok(subject.late.clone()),
            Procedure::Divide => Ok(subject.lean.clone()),
            Procedure::Restore => subject.backups(home),
            Procedure::Rebuild => Ok(subject.late.without(&Path::new(DATABASE).join("index"))),
            _ => subject.damaged(self),
        }
    }

    /// Does it.
    fn perform(self, root: &Path, tape: &Tape) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("{self:?}: {error}");
        let db = root.join(DATABASE);
        match self {
            Procedure::Create | Procedure::Divide | Procedure::Rebuild => {
                self.options().open(&db).map_err(told)?.close().map_err(told)
            }
            Procedure::Backup => {
                let db = options().open(&db).map_err(told)?;
                db.backup(&root.join("backup"), &mut |_| {}).map_err(told).map(drop)
            }
            Procedure::Restore => restore(root).map_err(told),
            Procedure::Live | Procedure::Rest => {
                self.options().open(&db).and_then(|db| live(&db, tape)).map_err(told)
            }
            _ => doctor::salvage(&db).map_err(told).map(drop),
        }
    }

    /// Does it once more, where it was killed.
    fn perform_again(self, root: &Path, tape: &Tape) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("{self:?}, again: {error}");
        let again = || self.perform(root, tape);
        match self {
            Procedure::Restore => begin_restore_again(root).map_err(told),
            Procedure::Backup => {
                // It may be there already; then nobody was told.
                let _ = fs::remove_file(root.join("backup"));
                again()
            }
            Procedure::Create | Procedure::Divide | Procedure::Rebuild => again(),
            Procedure::Live => {
                let db = self.options().open(root.join(DATABASE));
                db.and_then(|db| live_again(&db, tape)).map_err(told)
            }
            Procedure::Rest => {
                let db = self.options().open(root.join(DATABASE));
                db.and_then(|db| rest(&db)).map_err(told)
            }
            // A log that was salvaged has no more to be salvaged; who opens it makes that certain.
            _ => {
                again()?;
                let quiet = options().background(false).open(root.join(DATABASE));
                quiet.and_then(|db| db.close()).map_err(told)
            }
        }
    }

    /// What must be so if power failed.
    fn verify(self, root: &Path, said: &Said, subject: &Subject) -> Outcome<()> {
        let done = said.done;
        let told = |error: mainstay::Error| format!("{self:?}, done: {done}: {error}");
        let db = root.join(DATABASE);
        match self {
            Procedure::Create if done && !db.join("DATABASE").exists() => {
                Err("LOST: the database that was made".to_owned())
            }
            Procedure::Create => self.options().open(&db).map_err(told)?.close().map_err(told),
            Procedure::Backup => {
                subject.settle(&db, &options())?;
                // One that has its name is whole, also if nobody was told.
                match done || root.join("backup").exists() {
                    true => check_backup(root).map_err(told),
                    false => Ok(()),
                }
            }
            Procedure::Restore => {
                if !done {
                    begin_restore_again(root).map_err(told)?;
                }
                subject.settle(&db, &options())
            }
            Procedure::Divide | Procedure::Rebuild => subject.settle(&db, &self.options()),
            Procedure::Live | Procedure::Rest => {
                check_lived(&self.options().open(&db).map_err(told)?, &said.turns)
            }
            _ => {
                if !done {
                    doctor::salvage(&db).map_err(told)?;
                } else if doctor::inspect(&db).map_err(told)?.verdict == Verdict::Salvage {
                    return Err(format!("LOST: {self:?} is to be done again"));
                }
                subject.check_aside(self, &db)?;
                subject.check_salvaged(self, &db)
            }
        }
    }
}

fn restore(root: &Path) -> mainstay::Result<()> {
    let files = ["full", "more"].map(|name| root.join(name));
    restore_backup(&root.join(DATABASE), &files, &mut |_| {}).map(drop)
}

/// What a cut has left of it may have to be removed first; then who restores is told so.
fn begin_restore_again(root: &Path) -> mainstay::Result<()> {
    match restore(root) {
        Err(error) if error.code() == Code::ForeignDirectory => {
            // With its header it is whole, and opens.
            if root.join(DATABASE).join("DATABASE").exists() {
                return options().open(root.join(DATABASE))?.close();
            }
            let _ = fs::remove_dir_all(root.join(DATABASE));
            restore(root)
        }
        restored => restored,
    }
}

fn check_backup(root: &Path) -> mainstay::Result<()> {
    verify_backup(&root.join("backup")).map(drop)
}

/// A database at two moments of its life.
pub struct Subject {
    early: Image,
    late: Image,
    /// The same as the second, with no more of a log than it needs.
    lean: Image,
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

    fn settle(&self, directory: &Path, options: &Options) -> Outcome<()> {
        settle_at(directory, options, &self.said, &mut Tally::default())
    }

    /// A full backup of the first moment, and an increment from there to the second.
    fn backups(&self, home: &Path) -> Outcome<Image> {
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

    /// The files with what is to be salvaged.
    fn damaged(&self, procedure: Procedure) -> Outcome<Image> {
        let mut image = self.late.clone();
        let segments = self.segments();
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
            // Behind the header, in the first frame.
            bytes[200] ^= 1;
        }
        if matches!(procedure, Procedure::SalvageBoth | Procedure::SalvageBothLast) {
            let mark = Path::new(DATABASE).join("index").join("MARK");
            let bytes = image.bytes_mut(&mark).ok_or("there is no mark")?;
            bytes[20] ^= 1;
        }
        Ok(image)
    }

    fn segments(&self) -> Vec<PathBuf> {
        let is_segment = |path: &&PathBuf| path.extension().is_some_and(|of| of == "seg");
        self.late.files().map(|(path, _)| path).filter(is_segment).cloned().collect()
    }

    /// What was damaged is kept, byte by byte.
    fn check_aside(&self, procedure: Procedure, db: &Path) -> Outcome<()> {
        let damaged = self.damaged(procedure)?;
        let told = |error: std::io::Error| format!("looking for what was damaged: {error}");
        let mut there = Vec::new();
        for entry in fs::read_dir(db.join("log")).map_err(told)? {
            there.push(fs::read(entry.map_err(told)?.path()).map_err(told)?);
        }
        let before: BTreeMap<_, _> = self.late.files().collect();
        let changed = damaged.files().filter(|(path, bytes)| before.get(path) != Some(bytes));
        let segments = changed.filter(|(path, _)| path.extension().is_some_and(|of| of == "seg"));
        match segments.into_iter().find(|(_, bytes)| !there.contains(bytes)) {
            Some((path, _)) => Err(format!("LOST: {} was not kept", path.display())),
            None => Ok(()),
        }
    }

    /// It is as after a salvage that nobody cut off.
    fn check_salvaged(&self, procedure: Procedure, db: &Path) -> Outcome<()> {
        let home = db.with_extension("undisturbed");
        let told = |error: mainstay::Error| format!("salvaging: {error}");
        self.damaged(procedure)?.write(&home).map_err(|error| format!("an image: {error}"))?;
        doctor::salvage(&home.join(DATABASE)).map_err(told)?;
        let (cut, undisturbed) =
            (look(db).map_err(told)?, look(&home.join(DATABASE)).map_err(told)?);
        match cut == undisturbed {
            true => Ok(()),
            false => Err(format!("LOST: {cut:?} instead of {undisturbed:?}")),
        }
    }
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

/// Does it on a disk, and cuts it off at boundaries, so often at most; gives how often that was.
///
/// It is also killed, done again on what that has left, and then cut off.
pub fn cut_all(
    procedure: Procedure,
    subject: &Subject,
    homes: &Homes,
    (seed, most): (u64, usize),
) -> Outcome<u64> {
    let base = procedure.prepare(subject, &homes.image.with_extension("prepared"))?;
    let mut random = Random::of(&[seed, procedure as u64]);
    let kills = most.div_ceil(CUTS_FOR_EACH_KILL);
    let trial = Trial { procedure, subject, homes };
    let recording = trial.record(Start { base, ..Start::default() }, Procedure::perform)?;
    let mut cuts = trial.cut(&recording, most - kills, &mut random)?;
    for kill in 0..kills {
        // The last names are those that it is done by.
        let start = match recording.last_renames().nth(kill / 2) {
            Some(at) if kill % 2 == 0 => recording.killed_at(at),
            _ => recording.after_kill(&mut random),
        };
        let next = trial.record(start, Procedure::perform_again)?;
        let killed = trial.cut(&next, CUTS_EACH_KILLED, &mut random);
        cuts += killed.map_err(|what| format!("killed and begun again: {what}"))?;
    }
    Ok(cuts)
}

/// What was said by then.
struct Said {
    /// That it is done.
    done: bool,
    /// Which cells were acknowledged, also before it was killed.
    turns: Vec<u8>,
}

impl Said {
    fn by(recording: &Recording, cut: usize) -> Said {
        let done = recording.events[..cut].contains(&Event::Note(DONE.to_owned()));
        let said = recording.said(cut);
        let lines = said.iter().flat_map(|(_, text)| text.lines());
        let turns = lines.filter_map(turn_of);
        Said { done, turns: turns.collect() }
    }
}

/// Something that is done, and cut off.
struct Trial<'a> {
    procedure: Procedure,
    subject: &'a Subject,
    homes: &'a Homes,
}

impl Trial<'_> {
    fn record(
        &self,
        start: Start,
        perform: fn(Procedure, &Path, &Tape) -> Outcome<()>,
    ) -> Outcome<Recording> {
        let disk = |error: std::io::Error| format!("the disk in memory: {error}");
        let mount = Mount::new(start.tree(), &self.homes.mounted).map_err(disk)?;
        perform(self.procedure, mount.directory(), mount.tape())?;
        mount.tape().push(Event::Note(DONE.to_owned()));
        let events = mount.tape().take();
        mount.end().map_err(disk)?;
        Ok(Recording { generation: 0, start, events })
    }

    fn cut(&self, recording: &Recording, most: usize, random: &mut Random) -> Outcome<u64> {
        let Trial { procedure, subject, homes } = self;
        let disk = |error: std::io::Error| format!("writing an image: {error}");
        let (mut at, mut cuts) = (0, 0);
        let mut platter = recording.start.platter();
        let end = recording.events.len();
        let mut chosen = recording.cuts(most as u64, random);
        chosen.extend(Model::ALL.map(|model| (end, model)));
        for (cut, model) in chosen {
            recording.events[at..cut].iter().for_each(|event| platter.apply(event));
            at = cut;
            let said = Said::by(recording, cut);
            let image = platter.cut(model, random);
            image.write(&homes.image).map_err(disk)?;
            procedure.verify(&homes.image, &said, subject).map_err(|what| {
                let total = recording.events.len();
                format!("{procedure:?}, a cut at event {cut} of {total}, model {model}: {what}")
            })?;
            cuts += 1;
        }
        Ok(cuts)
    }
}
