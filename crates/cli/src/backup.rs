//! `mainstay backup` and `mainstay restore`: full and incremental backups, and a new database directory
//! restored from them.

use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::interrupt;
use super::progress::Bar;
use super::session::Session;
use super::web::{Web, WebArgs};
use clap::{Args, Subcommand};
use mainstay::{
    BackupKind, BackupReport, DatabaseId, Value, backup_head, restore_backup, verify_backup,
    verify_chain,
};
use std::path::{Path, PathBuf};

/// Writing everything to a file, or what came since, or checking such files.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Backup {
    /// The file to make; it must not exist yet
    file: Option<PathBuf>,
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    web: WebArgs,
    #[command(subcommand)]
    verb: Option<BackupVerb>,
}

/// Where an increment begins; without, a backup is full.
#[derive(Debug, Args)]
struct From {
    /// Only what was committed after this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "since_file")]
    since: Option<u64>,
    /// Only what was committed after the end of this backup, full or increment
    #[arg(long, value_name = "PREVIOUS")]
    since_file: Option<PathBuf>,
}

/// What else can be done with a backup.
#[derive(Debug, Subcommand)]
enum BackupVerb {
    /// Show what is in a backup, after checking all of it
    Show {
        /// The backup, full or increment
        file: PathBuf,
    },
    /// Read backups and check all of them, and that each goes on from the one before
    Verify {
        /// A full backup and its increments in order; or one file alone
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Making a directory out of backups.
#[derive(Debug, Args)]
pub struct Restore {
    /// The directory to make; it must be empty, or not there yet
    directory: PathBuf,
    /// A full backup; all files are checked first
    full: PathBuf,
    /// Its increments, in the order in which they were taken
    increments: Vec<PathBuf>,
}

/// The base of an incremental backup: its revision, and the database if it is known.
#[derive(Clone, Copy)]
struct Since {
    revision: u64,
    database: Option<DatabaseId>,
}

impl Backup {
    /// Makes, shows or verifies a backup, and prints its contents.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let reports = match (self.verb, &self.file) {
            (Some(BackupVerb::Verify { files }), _) => {
                let bar = Bar::of_bytes("checking");
                verify_chain(&files, &mut |progress| bar.show(progress))?
            }
            (Some(BackupVerb::Show { file }), _) => {
                let _bar = Bar::new("reading");
                vec![verify_backup(&file)?]
            }
            (None, Some(file)) => {
                let since = self.from.known()?;
                vec![interrupt::making(file, || made(session, file, since, &self.web))?]
            }
            (None, None) => return Err(Failure::error("name the file to make: backup FILE")),
        };
        show(session, &reports);
        Ok(())
    }
}

impl From {
    /// The base: read from the previous backup, or given as a revision.
    fn known(&self) -> Result<Option<Since>> {
        if let Some(file) = &self.since_file {
            let head = backup_head(file)?;
            return Ok(Some(Since { revision: head.revision, database: Some(head.database) }));
        }
        Ok(self.since.map(|revision| Since { revision, database: None }))
    }
}

fn made(
    session: &mut Session,
    file: &Path,
    since: Option<Since>,
    web: &WebArgs,
) -> Result<BackupReport> {
    if let Some(web) = Web::wanted(session, web)? {
        return received(&web, file, since);
    }
    let db = session.store()?.database()?;
    check_meant(db.id()?, since)?;
    let bar = Bar::new("backing up");
    let progress = &mut |progress| bar.show(progress);
    Ok(match since {
        Some(since) => db.backup_since(since.revision, file, progress)?,
        None => db.backup(file, progress)?,
    })
}

/// Requests the backup from a server and downloads it.
fn received(web: &Web, file: &Path, since: Option<Since>) -> Result<BackupReport> {
    let bar = Bar::waiting("the server makes the file");
    let path = match since {
        None => "/v1/backup".to_owned(),
        Some(Since { revision, database: None }) => format!("/v1/backup?since={revision}"),
        Some(Since { revision, database: Some(database) }) => {
            format!("/v1/backup?since={revision}&database={database}")
        }
    };
    web.download("POST", &path, file, &bar, |part, _| {
        let report = verify_backup(part).map_err(|error| {
            Failure::from(error).hint("what arrived is not what was sent; ask again")
        })?;
        check_meant(report.database, since).map(|()| report)
    })
}

fn check_meant(found: DatabaseId, since: Option<Since>) -> Result<()> {
    match since.and_then(|since| since.database) {
        Some(meant) if meant != found => Err(Failure::error(format!(
            "the previous backup is of database {meant}, but this is {found}: nothing was kept; name \
             the store that the previous backup is of"
        ))),
        _ => Ok(()),
    }
}

impl Restore {
    /// Restores into the directory and prints the contents of each backup.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let directory = &self.directory;
        if !is_free(directory) {
            let path = directory.display();
            return Err(Failure::error(format!(
                "{path} is not an empty directory: a restore changes nothing that is there, so \
                 name another one"
            )));
        }
        let files: Vec<PathBuf> = std::iter::once(self.full).chain(self.increments).collect();
        let bar = Bar::of_bytes("restoring");
        let reports = restore_backup(directory, &files, &mut |progress| bar.show(progress))?;
        drop(bar);
        show(session, &reports);
        Ok(())
    }
}

/// True if the directory is empty or does not exist.
fn is_free(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn show(session: &mut Session, reports: &[BackupReport]) {
    reports.iter().for_each(|report| session.printer.row(row(report)));
    session.printer.finish();
}

fn row(report: &BackupReport) -> Row {
    let number = |n: Option<u64>| n.map_or(Field::Plain(Value::Null), Field::number);
    let (kind, since) = match report.kind {
        BackupKind::Full => ("full", None),
        BackupKind::Increment { since } => ("increment", Some(since)),
    };
    vec![
        ("kind".into(), Field::text(kind)),
        ("database".into(), Field::text(report.database.to_string())),
        ("since".into(), number(since)),
        ("revision".into(), Field::number(report.revision)),
        ("keys".into(), number(report.keys)),
        ("versions".into(), Field::number(report.versions)),
        ("bytes".into(), Field::number(report.bytes)),
    ]
}
