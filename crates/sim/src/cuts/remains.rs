//! Checks of the files that a power cut left during or after a procedure.

use super::life::{check_lived, check_there};
use super::procedure::{AFTER, Procedure, begin_restore_again};
use super::recording::DATABASE;
use super::subject::Subject;
use super::trial::Said;
use crate::disk::Image;
use crate::drill::{Outcome, options, own_cell};
use mainstay::doctor::Verdict;
use mainstay::{doctor, restore_backup, verify_backup};
use std::path::{Path, PathBuf};

/// The files after a cut, during the procedure or after its end.
pub(super) struct Remains<'a> {
    pub(super) procedure: Procedure,
    /// The database on which it ran.
    pub(super) subject: &'a Subject,
    /// The files from which it started.
    pub(super) before: &'a Image,
    /// The directory with the remaining files.
    pub(super) root: &'a Path,
    /// Its results before the cut.
    pub(super) said: &'a Said,
}

impl Remains<'_> {
    /// A finished procedure has its full result. An unfinished one can be repeated, and then has it too.
    pub(super) fn verify(&self) -> Outcome<()> {
        match self.procedure {
            Procedure::Create => self.verify_created(),
            Procedure::Backup => self.verify_backup(),
            Procedure::BackupAhead => self.verify_ahead(),
            Procedure::Restore => {
                if !self.said.done {
                    begin_restore_again(self.root).map_err(|error| self.told(&error))?;
                }
                self.subject.settle(&self.database(), &options())
            }
            Procedure::Divide | Procedure::Rebuild => {
                self.subject.settle(&self.database(), &self.procedure.options())
            }
            Procedure::Live | Procedure::Rest | Procedure::SetBack => {
                let db = self.procedure.options().open(self.database());
                check_lived(&db.map_err(|error| self.told(&error))?, &self.said.turns)
            }
            Procedure::Base => self.verify_base(),
            _ if self.said.done => self.verify_done(),
            _ => self.verify_begun_again(),
        }
    }

    fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    fn told(&self, error: &mainstay::Error) -> String {
        format!("{:?}, done: {}: {error}", self.procedure, self.said.done)
    }

    fn verify_created(&self) -> Outcome<()> {
        let db = self.database();
        if self.said.done && !db.join("DATABASE").exists() {
            return Err("LOST: the database that was made".to_owned());
        }
        let opened = self.procedure.options().open(&db);
        opened.and_then(|db| db.close()).map_err(|error| self.told(&error))
    }

    fn verify_backup(&self) -> Outcome<()> {
        self.subject.settle(&self.database(), &options())?;
        let backup = self.root.join("backup");
        // A backup under its final name is complete, even if it was not acknowledged.
        if !self.said.done && !backup.exists() {
            return Ok(());
        }
        verify_backup(&backup).map_err(|error| self.told(&error))?;
        let restored = self.root.join("restored");
        let made = restore_backup(&restored, &[backup], &mut |_| {});
        made.map_err(|error| self.told(&error))?;
        self.subject.settle(&restored, &options())
    }

    /// A database holds every revision that its backups hold.
    fn verify_ahead(&self) -> Outcome<()> {
        let path = self.root.join("backup");
        if !path.exists() {
            let lost = Err("LOST: the backup that was made".to_owned());
            return if self.said.done { lost } else { Ok(()) };
        }
        let backup = verify_backup(&path).map_err(|error| self.told(&error))?.revision;
        let opened = options().open(self.database()).map_err(|error| self.told(&error))?;
        let after = opened.cells().get(&own_cell(0, AFTER));
        if self.said.done && after.map_err(|error| self.told(&error))?.is_none() {
            return Err("LOST: what was written before it was closed".to_owned());
        }
        match opened.revision() {
            revision if revision >= backup => Ok(()),
            revision => {
                Err(format!("LOST: the backup of revision {backup}, the database has {revision}"))
            }
        }
    }

    fn verify_base(&self) -> Outcome<()> {
        let options = self.procedure.options();
        let options = if self.said.done { options } else { options.base(self.root.join("base")) };
        let db = options.open(self.database()).map_err(|error| self.told(&error))?;
        check_there(&db, &self.said.turns)?;
        self.subject.check_late(&db)
    }

    /// A finished salvage does not have to be repeated.
    fn verify_done(&self) -> Outcome<()> {
        let looked = doctor::inspect(&self.database()).map_err(|error| self.told(&error))?;
        match looked.verdict {
            Verdict::Salvage => Err(format!("LOST: {:?} is to be done again", self.procedure)),
            _ => self.verify_salvaged(),
        }
    }

    /// An interrupted salvage is repeated.
    fn verify_begun_again(&self) -> Outcome<()> {
        let db = self.database();
        if self.procedure == Procedure::SalvageRestored && !db.join("DATABASE").exists() {
            return begin_restore_again(self.root).map_err(|error| self.told(&error));
        }
        doctor::salvage(&db).map_err(|error| self.told(&error))?;
        match self.procedure {
            // Power and log failed one after the other, so the salvaged database may be at either of two
            // revisions.
            Procedure::SalvageMarked | Procedure::SalvageFlushed | Procedure::SalvageRestored => {
                self.check_early()?;
                check_stays(&db).map_err(|error| self.told(&error))?
            }
            _ => self.verify_salvaged(),
        }
    }

    fn verify_salvaged(&self) -> Outcome<()> {
        let db = self.database();
        self.subject.check_aside(self.before, &db)?;
        self.subject.check_salvaged(self.before, &db)?;
        self.check_early()?;
        check_stays(&db).map_err(|error| self.told(&error))??;
        match self.procedure {
            // The index has data that the log lacks.
            Procedure::SalvageFlushed | Procedure::SalvageTorn => {
                self.subject.check_index_aside(self.before, &db)
            }
            _ => Ok(()),
        }
    }

    /// A killed process wrote to only one of two cells. All data from before its start must exist.
    fn check_early(&self) -> Outcome<()> {
        match self.procedure {
            Procedure::SalvageMarked | Procedure::SalvageFlushed | Procedure::SalvageTorn => {
                self.subject.check_early(&self.database())
            }
            _ => Ok(()),
        }
    }
}

/// Writes to another cell do not change a cell: no version waits for its revision to be reached.
fn check_stays(directory: &Path) -> mainstay::Result<Outcome<()>> {
    let db = options().open(directory)?;
    let cell = own_cell(0, 0);
    let other = own_cell(1, 0);
    let before = db.cells().get_versioned(&cell)?;
    (0..20).try_for_each(|n| db.cells().set(&other, n).map(drop))?;
    // Reopen, so that the read does not use a cache.
    drop(db);
    let now = options().open(directory)?.cells().get_versioned(&cell)?;
    Ok(if before == now {
        Ok(())
    } else {
        Err(format!("LOST, and there again: {now:?} after {before:?}"))
    })
}
