//! `mainstay backup` and `mainstay restore`: everything in one file, and a directory out of it.

use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::progress::Bar;
use super::session::Session;
use clap::{Args, Subcommand};
use mainstay::{BackupReport, Options, verify_backup};
use std::path::{Path, PathBuf};

/// Writing everything to a file, or checking such a file.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Backup {
    /// The file to make; it must not exist yet
    file: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<BackupVerb>,
}

/// What else can be done with a backup.
#[derive(Debug, Subcommand)]
enum BackupVerb {
    /// Read a backup and check all of it
    Verify {
        /// The backup
        file: PathBuf,
    },
}

/// Making a directory out of a backup.
#[derive(Debug, Args)]
pub struct Restore {
    /// A file that `backup` wrote; all of it is checked first
    file: PathBuf,
    /// The directory to make; it must be empty, or not there yet
    directory: PathBuf,
}

impl Backup {
    /// Makes or checks a file, and says what it holds.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let report = match (self.verb, self.file) {
            (Some(BackupVerb::Verify { file }), _) => {
                let _bar = Bar::new("checking");
                verify_backup(&file)?
            }
            (None, Some(file)) => made(session, &file)?,
            (None, None) => return Err(Failure::error("name the file to make: backup FILE")),
        };
        session.printer.one(row(&report), None);
        Ok(())
    }
}

fn made(session: &mut Session, file: &Path) -> Result<BackupReport> {
    let db = session.store()?.database("a backup")?;
    let bar = Bar::new("backing up");
    Ok(db.backup(file, &mut |progress| bar.show(progress))?)
}

impl Restore {
    /// Fills the directory and says what it holds.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let directory = &self.directory;
        if !is_free(directory) {
            let path = directory.display();
            return Err(Failure::error(format!(
                "{path} is not an empty directory: a restore changes nothing that is there, so \
                 name another one"
            )));
        }
        let bar = Bar::new("restoring");
        let report = verify_backup(&self.file)?;
        let db = Options::new().base(&self.file).open(directory)?;
        db.close()?;
        drop(bar);
        session.printer.one(row(&report), None);
        Ok(())
    }
}

/// Whether nothing would be in the way.
fn is_free(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn row(report: &BackupReport) -> Row {
    vec![
        ("database".into(), Field::text(report.database.to_string())),
        ("revision".into(), Field::number(report.revision)),
        ("keys".into(), Field::number(report.keys)),
        ("versions".into(), Field::number(report.versions)),
        ("bytes".into(), Field::number(report.bytes)),
    ]
}
