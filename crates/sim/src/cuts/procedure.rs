//! What is done to databases beside writing to them, cut off as well: backups, restores, salvages, new classes.
//!
//! ```text
//!   files ── procedure on a disk that writes down what is done to it ── "done" ──> tape
//!                                             │ up to each boundary
//!                                             v
//!   done: it is so, and everything is there     not done: it can be begun again, and then everything is there
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

/// The cell that is written behind a backup.
pub(super) const AFTER: u64 = 20;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// A database is made.
    Create,
    /// A backup is written.
    Backup,
    /// A backup of what was written without a promise is written; then there is more of it, and the database is closed.
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
    pub(super) fn options(self) -> Options {
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
            Procedure::SalvageRestored => return subject.restored(homes),
            Procedure::SalvageTorn => subject.torn_when_flushed(homes)?,
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
                let ahead =
                    (0..AFTER).try_for_each(|n| db.cells().set(&own_cell(0, n), 1).map(drop));
                let backed_up = ahead.and_then(|()| db.backup(&root.join("backup"), &mut |_| {}));
                // Closing keeps what nobody has promised.
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
                // Where nothing has to be done nothing is shown.
                match doctor::salvage(&db).map_err(told)?.done.is_empty() {
                    true => Err("the disk in memory: there is no damage".to_owned()),
                    false => Ok(()),
                }
            }
        }
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
}

fn restore(root: &Path) -> mainstay::Result<()> {
    let files = ["full", "more"].map(|name| root.join(name));
    restore_backup(&root.join(DATABASE), &files, &mut |_| {}).map(drop)
}

/// What a cut has left of it may have to be removed first; then who restores is told so.
pub(super) fn begin_restore_again(root: &Path) -> mainstay::Result<()> {
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
