//! Procedures other than writing that are also cut off: backups, restores, salvages, retention class changes.
//!
//! ```text
//!   files ── procedure on a recording disk ── "done" ──> tape
//!                                             │ up to each boundary
//!                                             v
//!   done: the result is complete               not done: it can be repeated, and the result is complete
//! ```

use super::life::{live, live_again, rest};
use super::recording::{DATABASE, Start};
use super::setback::{ROUNDS, set_back};
use super::subject::{FLUSHED, Subject};
use crate::disk::{Homes, Image, Mount};
use crate::drill::{Outcome, options, own_cell};
use mainstay::{Code, Durability, Options, doctor, restore_backup};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The cell written after a backup.
pub(super) const AFTER: u64 = 20;

/// A procedure that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Creates a database.
    Create,
    /// Writes a backup.
    Backup,
    /// Backs up writes made without durability, writes more of them, and closes the database.
    BackupAhead,
    /// Restores a database from a full backup and an increment.
    Restore,
    /// Salvages a log with a damaged first segment. The segments before the first valid one are moved aside.
    SalvageFirst,
    /// Salvages a log with a damaged second-to-last segment. The segments after it are moved aside.
    SalvageMiddle,
    /// Salvages a log with a damaged last segment. A copy of it is kept.
    SalvageLast,
    /// Salvages a log in which all segments are damaged. A new log starts after the last revision of the index.
    SalvageAll,
    /// Salvages a missing log. A new log starts after the last revision of the index.
    SalvageGone,
    /// Salvages a damaged log next to a damaged index. The index is moved aside.
    SalvageBoth,
    /// The same, without segments after the damaged one.
    SalvageBothLast,
    /// A process was killed after renaming a new flush mark into place. Then the log was damaged, and is
    /// salvaged.
    SalvageMarked,
    /// A process was killed after flushing to a store and before updating the flush mark. Then the log was
    /// damaged, and is salvaged.
    SalvageFlushed,
    /// The same, but the log has lost only its last frame.
    SalvageTorn,
    /// A process was killed after restoring a database from a backup. Then the log was damaged, and is
    /// salvaged.
    SalvageRestored,
    /// Migrates an index to other retention classes.
    Divide,
    /// Rebuilds a missing index.
    Rebuild,
    /// Rebuilds an index that the log does not cover from a backup, then trims the log.
    Base,
    /// Fills many segments, trims and closes the database, then trims it and writes again.
    Live,
    /// The same, but the reopened database is only left idle.
    Rest,
    /// Renames table manifests into place with a reported failure, so that the store sets them back.
    SetBack,
}

impl Procedure {
    /// All procedures.
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

    /// The database options of the procedure.
    pub(super) fn options(self) -> Options {
        match self {
            Procedure::Divide => options().retention_class("own/1/", None),
            Procedure::BackupAhead => {
                let never = Duration::from_secs(3600);
                options().durability(Durability::Memory).sync_interval(never)
            }
            // Several level 0 runs overlap at the trim, and segments are many.
            Procedure::Live | Procedure::Rest | Procedure::Base => {
                let options = options().retention(Duration::ZERO).segment_bytes(16 << 10);
                options.feed_retention(Duration::ZERO, 0).write_buffer_bytes(192 << 10)
            }
            // No background work.
            Procedure::SetBack => Procedure::Live.options().background(false),
            _ => options(),
        }
    }

    /// Prepares the initial files of the procedure.
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
            Procedure::SalvageRestored => return subject.restored(homes),
            Procedure::SalvageTorn => subject.torn_when_flushed(homes)?,
            _ => subject.damaged(self)?,
        };
        Ok(Start { base, ..Start::default() })
    }

    /// Runs the procedure.
    pub(super) fn perform(self, mount: &Mount) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("{self:?}: {error}");
        let root = mount.directory();
        let tape = mount.tape();
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
                let ahead =
                    (0..AFTER).try_for_each(|n| db.cells().set(&own_cell(0, n), 1).map(drop));
                let backed_up = ahead.and_then(|()| db.backup(&root.join("backup"), &mut |_| {}));
                // Closing makes writes durable that were made without durability.
                let more = backed_up.and_then(|_| db.cells().set(&own_cell(0, AFTER), 1));
                more.and_then(|_| db.close()).map_err(told)
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
                // A salvage without damage would prove nothing.
                if doctor::salvage(&db).map_err(told)?.done.is_empty() {
                    Err("the disk in memory: there is no damage".to_owned())
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Runs the procedure again after it was killed.
    pub(super) fn perform_again(self, mount: &Mount) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("{self:?}, again: {error}");
        let root = mount.directory();
        let tape = mount.tape();
        let again = || self.perform(mount);
        match self {
            Procedure::Restore => begin_restore_again(root).map_err(told),
            Procedure::Backup | Procedure::BackupAhead => {
                // The backup may exist although it was not acknowledged.
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
            // Opening the database deletes the tables that are not listed.
            Procedure::SetBack => self.options().open(root.join(DATABASE)).map_err(told).map(drop),
            // A salvaged log has nothing left to salvage. Opening it makes the result durable.
            _ => {
                doctor::salvage(&root.join(DATABASE)).map_err(told)?;
                let quiet = options().background(false).open(root.join(DATABASE));
                quiet.and_then(|db| db.close()).map_err(told)
            }
        }
    }
}

fn restore(root: &Path) -> mainstay::Result<()> {
    let files = ["full", "more"].map(|name| root.join(name));
    restore_backup(&root.join(DATABASE), &files, &mut |_| {}).map(drop)
}

/// Restores again. A partial database may have to be deleted first, which the error states.
pub(super) fn begin_restore_again(root: &Path) -> mainstay::Result<()> {
    match restore(root) {
        Err(error) if error.code() == Code::ForeignDirectory => {
            // A database with its `DATABASE` file is complete, and opens.
            if root.join(DATABASE).join("DATABASE").exists() {
                return options().open(root.join(DATABASE))?.close();
            }
            let _ = fs::remove_dir_all(root.join(DATABASE));
            restore(root)
        }
        restored => restored,
    }
}
