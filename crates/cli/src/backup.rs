//! `mainstay backup` and `mainstay restore`: full and incremental backups, and a new database directory
//! restored from them.

use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::http_client::{HttpArgs, HttpClient};
use super::interrupt;
use super::progress::Bar;
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
    from: SinceArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(subcommand)]
    verb: Option<BackupVerb>,
}

/// Where an increment begins; without, a backup is full.
#[derive(Debug, Args)]
struct SinceArgs {
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
struct IncrementBase {
    revision: u64,
    database: Option<DatabaseId>,
}

impl Backup {
    /// Makes, shows or verifies a backup, and prints its contents.
    pub fn run(self, context: &mut Context) -> Result<()> {
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
                let since = self.from.base()?;
                vec![interrupt::with_part_file(file, || make(context, file, since, &self.http))?]
            }
            (None, None) => return Err(Failure::error("name the file to make: backup FILE")),
        };
        show(context, &reports);
        Ok(())
    }
}

impl SinceArgs {
    /// The base: read from the previous backup, or given as a revision.
    fn base(&self) -> Result<Option<IncrementBase>> {
        if let Some(file) = &self.since_file {
            let head = backup_head(file)?;
            return Ok(Some(IncrementBase {
                revision: head.revision,
                database: Some(head.database),
            }));
        }
        Ok(self.since.map(|revision| IncrementBase { revision, database: None }))
    }
}

fn make(
    context: &mut Context,
    file: &Path,
    since: Option<IncrementBase>,
    args: &HttpArgs,
) -> Result<BackupReport> {
    if let Some(http) = HttpClient::for_server(context, args)? {
        return download(&http, file, since);
    }
    let db = context.store()?.database()?;
    check_database(db.id()?, since)?;
    let bar = Bar::new("backing up");
    let progress = &mut |progress| bar.show(progress);
    Ok(match since {
        Some(since) => db.backup_since(since.revision, file, progress)?,
        None => db.backup(file, progress)?,
    })
}

/// Requests the backup from a server and downloads it.
fn download(http: &HttpClient, file: &Path, since: Option<IncrementBase>) -> Result<BackupReport> {
    let bar = Bar::waiting("the server makes the file");
    let path = match since {
        None => "/v1/backup".to_owned(),
        Some(IncrementBase { revision, database: None }) => format!("/v1/backup?since={revision}"),
        Some(IncrementBase { revision, database: Some(database) }) => {
            format!("/v1/backup?since={revision}&database={database}")
        }
    };
    http.download("POST", &path, file, &bar, |part, _| {
        let report = verify_backup(part).map_err(|error| {
            Failure::from(error).hint("what arrived is not what was sent; ask again")
        })?;
        check_database(report.database, since).map(|()| report)
    })
}

fn check_database(found: DatabaseId, since: Option<IncrementBase>) -> Result<()> {
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
    pub fn run(self, context: &mut Context) -> Result<()> {
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
        show(context, &reports);
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

fn show(context: &mut Context, reports: &[BackupReport]) {
    reports.iter().for_each(|report| context.printer.row(row(report)));
    context.printer.finish();
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
