//! What is done to databases beside writing to them, cut off as well: backups, restores, salvages, new classes.
//!
//! ```text
//!   files ── procedure on a disk that writes down what is done to it ── "done" ──> tape
//!                                             │ up to each boundary
//!                                             v
//!   done: it is so, and everything is there     not done: it can be begun again, and then everything is there
//! ```

use super::life::{check_lived, check_there, live, live_again, rest};
use super::recording::{DATABASE, Start};
use super::setback::{ROUNDS, set_back};
use super::subject::{FLUSHED, Subject};
use super::trial::Said;
use crate::disk::{Homes, Image, Mount};
use crate::drill::{Outcome, options, own_cell};
use mainstay::doctor::Verdict;
use mainstay::{Code, Durability, Options, doctor, restore_backup, verify_backup};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// A database is made.
    Create,
    /// A backup is written.
    Backup,
    /// A backup of what was written without a promise is written.
    BackupAhead,
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
    /// A process was killed when it had given the index a new mark; then the log was damaged, and is salvaged.
    SalvageMarked,
    /// A process was killed when it had brought something into a store, and the mark did not say so yet; then the log was
    /// damaged, and is salvaged.
    SalvageFlushed,
    /// The same, where the log has lost its last frame alone.
    SalvageTorn,
    /// A process was killed when it had made a database of a backup; then the log was damaged, and is salvaged.
    SalvageRestored,
    /// An index is divided into other classes.
    Divide,
    /// An index that is gone is made anew.
    Rebuild,
    /// An index that the log does not hold is made anew of a backup; then the log is trimmed.
    Base,
    /// A database is written to, segment after segment, trimmed and closed; then it is trimmed and written to again.
    Live,
    /// The same; then nobody asks it for anything.
    Rest,
    /// Lists of tables get their names, and that is said to have failed; so they are set back.
    SetBack,
}

impl Procedure {
    /// All of them.
    pub const ALL: [Procedure; 21] = [
        Procedure::Create,
        Procedure::Backup,
        Procedure::BackupAhead,
        Procedure::Restore,
        Procedure::SalvageFirst,
        Procedure::SalvageMiddle,
        Procedure::SalvageLast,
        Procedure::SalvageAll,
        Procedure::SalvageGone,
        Procedure::SalvageBoth,
        Procedure::SalvageBothLast,
        Procedure::SalvageMarked,
        Procedure::SalvageFlushed,
        Procedure::SalvageTorn,
        Procedure::SalvageRestored,
        Procedure::Divide,
        Procedure::Rebuild,
        Procedure::Base,
        Procedure::Live,
        Procedure::Rest,
        Procedure::SetBack,
    ];

    /// The options that it opens databases with.
    fn options(self) -> Options {
        match self {
            Procedure::Divide => options().retention_class("own/1/", None),
            Procedure::BackupAhead => {
                let never = Duration::from_secs(3600);
                options().durability(Durability::Memory).sync_interval(never)
            }
            // Some tables lie one over the other when it is trimmed, and segments are many.
            Procedure::Live | Procedure::Rest | Procedure::Base => {
                let options = options().retention(Duration::ZERO).segment_bytes(16 << 10);
                options.feed_retention(Duration::ZERO, 0).write_buffer_bytes(192 << 10)
            }
            // Nothing happens by itself.
            Procedure::SetBack => Procedure::Live.options().background(false),
            _ => options(),
        }
    }

    /// What it begins with.
    pub(super) fn prepare(self, subject: &Subject, homes: &Homes) -> Outcome<Start> {
        let base = match self {
            Procedure::Create
            | Procedure::BackupAhead
            | Procedure::Live
            | Procedure::Rest
            | Procedure::SetBack => Image::default(),
            Procedure::Backup => subject.late.clone(),
            Procedure::Divide => subject.lean.clone(),
            Procedure::Restore => subject.backups(&homes.image.with_extension("prepared"))?,
            Procedure::Rebuild => subject.late.without(&Path::new(DATABASE).join("index")),
            Procedure::Base => subject.with_base(&homes.image.with_extension("prepared"))?,
            Procedure::SalvageMarked => return subject.killed_when_named("index/MARK", homes),
            Procedure::SalvageFlushed => return subject.killed_when_named(FLUSHED, homes),
            Procedure::SalvageTorn => return subject.torn_when_flushed(homes),
            Procedure::SalvageRestored => return subject.restored(homes),
            _ => subject.damaged(self)?,
        };
        Ok(Start { base, ..Start::default() })
    }

    /// Does it.
    pub(super) fn perform(self, mount: &Mount) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("{self:?}: {error}");
        let (root, tape) = (mount.directory(), mount.tape());
        let db = root.join(DATABASE);
        match self {
            Procedure::Create | Procedure::Divide | Procedure::Rebuild => {
                self.options().open(&db).map_err(told)?.close().map_err(told)
            }
            Procedure::Backup => {
                let db = options().open(&db).map_err(told)?;
                db.backup(&root.join("backup"), &mut |_| {}).map_err(told).map(drop)
            }
            Procedure::BackupAhead => {
                let db = self.options().open(&db).map_err(told)?;
                let ahead = (0..20).try_for_each(|n| db.cells().set(&own_cell(0, n), 1).map(drop));
                let backed_up = ahead.and_then(|()| db.backup(&root.join("backup"), &mut |_| {}));
                backed_up.map_err(told).map(drop)
            }
            Procedure::Restore => restore(root).map_err(told),
            Procedure::Base => {
                let db = self.options().base(root.join("base")).open(&db);
                db.and_then(|db| live(&db, tape)).map_err(told)
            }
            Procedure::Live | Procedure::Rest => {
                self.options().open(&db).and_then(|db| live(&db, tape)).map_err(told)
            }
            Procedure::SetBack => {
                match set_back(|| self.options().open(&db), mount).map_err(told)? {
                    ROUNDS => Ok(()),
                    hits => Err(format!("the disk in memory: {hits} lists of tables failed")),
                }
            }
            _ => {
                // Where nothing has to be done nothing is shown.
                match doctor::salvage(&db).map_err(told)?.done.is_empty() {
                    true => Err("the disk in memory: there is no damage".to_owned()),
                    false => Ok(()),
                }
            }
        }
    }

    /// Whether something of the index is not in the log.
    fn flushes(self) -> bool {
        matches!(self, Procedure::SalvageFlushed | Procedure::SalvageTorn)
    }

    /// Does it once more, where it was killed.
    pub(super) fn perform_again(self, mount: &Mount) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("{self:?}, again: {error}");
        let (root, tape) = (mount.directory(), mount.tape());
        let again = || self.perform(mount);
        match self {
            Procedure::Restore => begin_restore_again(root).map_err(told),
            Procedure::Backup | Procedure::BackupAhead => {
                // It may be there already; then nobody was told.
                let _ = fs::remove_file(root.join("backup"));
                again()
            }
            Procedure::Create | Procedure::Divide | Procedure::Rebuild => again(),
            Procedure::Live | Procedure::Base => {
                let options = match self {
                    Procedure::Base => self.options().base(root.join("base")),
                    _ => self.options(),
                };
                let db = options.open(root.join(DATABASE));
                db.and_then(|db| live_again(&db, tape)).map_err(told)
            }
            Procedure::Rest => {
                let db = self.options().open(root.join(DATABASE));
                db.and_then(|db| rest(&db)).map_err(told)
            }
            // Who opens it removes the tables that are not listed.
            Procedure::SetBack => self.options().open(root.join(DATABASE)).map_err(told).map(drop),
            // A log that was salvaged has no more to be salvaged; who opens it makes that certain.
            _ => {
                doctor::salvage(&root.join(DATABASE)).map_err(told)?;
                let quiet = options().background(false).open(root.join(DATABASE));
                quiet.and_then(|db| db.close()).map_err(told)
            }
        }
    }

    /// What must be so if power failed.
    pub(super) fn verify(
        self,
        root: &Path,
        said: &Said,
        (subject, before): (&Subject, &Image),
    ) -> Outcome<()> {
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
            Procedure::BackupAhead if done && !root.join("backup").exists() => {
                Err("LOST: the backup that was made".to_owned())
            }
            Procedure::BackupAhead => check_ahead(root).map_err(told)?,
            Procedure::Restore => {
                if !done {
                    begin_restore_again(root).map_err(told)?;
                }
                subject.settle(&db, &options())
            }
            Procedure::Divide | Procedure::Rebuild => subject.settle(&db, &self.options()),
            Procedure::Live | Procedure::Rest | Procedure::SetBack => {
                check_lived(&self.options().open(&db).map_err(told)?, &said.turns)
            }
            Procedure::Base => {
                let options = match done {
                    true => self.options(),
                    false => self.options().base(root.join("base")),
                };
                let db = options.open(&db).map_err(told)?;
                check_there(&db, &said.turns)?;
                subject.check_late(&db)
            }
            // Power and log failed one after the other: what was salvaged is the database of one moment or another.
            Procedure::SalvageRestored if !done && !db.join("DATABASE").exists() => {
                begin_restore_again(root).map_err(told)
            }
            Procedure::SalvageMarked
            | Procedure::SalvageFlushed
            | Procedure::SalvageTorn
            | Procedure::SalvageRestored
                if !done =>
            {
                doctor::salvage(&db).map_err(told)?;
                self.check_early(subject, &db)?;
                check_stays(&db).map_err(told)?
            }
            _ => {
                if !done {
                    doctor::salvage(&db).map_err(told)?;
                } else if doctor::inspect(&db).map_err(told)?.verdict == Verdict::Salvage {
                    return Err(format!("LOST: {self:?} is to be done again"));
                }
                subject.check_aside(before, &db)?;
                subject.check_salvaged(before, &db)?;
                self.check_early(subject, &db)?;
                check_stays(&db).map_err(told)??;
                match self.flushes() {
                    true => subject.check_index_aside(before, &db),
                    false => Ok(()),
                }
            }
        }
    }
}

impl Procedure {
    /// A process that was killed has written to one of two cells, and what was there before it began is there.
    fn check_early(self, subject: &Subject, db: &Path) -> Outcome<()> {
        match self {
            Procedure::SalvageMarked | Procedure::SalvageFlushed | Procedure::SalvageTorn => {
                subject.check_early(db)
            }
            _ => Ok(()),
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

/// A database reaches as far as its backups do.
fn check_ahead(root: &Path) -> mainstay::Result<Outcome<()>> {
    if !root.join("backup").exists() {
        return Ok(Ok(()));
    }
    let backup = verify_backup(&root.join("backup"))?.revision;
    let revision = options().open(root.join(DATABASE))?.revision();
    Ok(match revision >= backup {
        true => Ok(()),
        false => Err(format!("LOST: the backup of revision {backup}, the database has {revision}")),
    })
}

/// What is there is not changed by what is written elsewhere: nothing waits in it for its revision to come.
fn check_stays(directory: &Path) -> mainstay::Result<Outcome<()>> {
    let db = options().open(directory)?;
    let (cell, other) = (own_cell(0, 0), own_cell(1, 0));
    let before = db.cells().get_versioned(&cell)?;
    (0..20).try_for_each(|n| db.cells().set(&other, n).map(drop))?;
    // Who reads it for the first time remembers nothing of it.
    drop(db);
    let now = options().open(directory)?.cells().get_versioned(&cell)?;
    Ok(match before == now {
        true => Ok(()),
        false => Err(format!("LOST, and there again: {now:?} after {before:?}")),
    })
}
