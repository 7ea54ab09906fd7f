//! `mainstay run archive`, `archived` and `restore`: moves runs between a database and archive files.
//!
//! ```text
//!   --data or --server: runs --archive--> --archive: files --restore--> runs
//!                                            '--archived--> their list
//! ```

use super::args::OnBranch;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::output::RawFields;
use super::time;
use clap::Args;
use mainstay::{Database, RunInfo};
use mainstay_runs::archive::{
    self, ArchiveSettings, ArchiveStore, ArchivedRun, Outcome, StoreSettings,
};
use object_store::memory::InMemory;
use std::path::Path;
use std::sync::Arc;

/// The default location of an archive.
const DIRECTORY: &str = "mainstay-archive";

/// Archiving runs.
#[derive(Debug, Args)]
pub struct Archive {
    /// Only runs whose names begin with this
    #[arg(long, default_value = "")]
    prefix: String,
    /// Only runs whose last event came so long ago or earlier: milliseconds, or a span such as 12h
    #[arg(long, value_name = "SPAN", default_value = "30d", value_parser = time::span_ms)]
    older: u64,
    /// Also runs that have not ended
    #[arg(long)]
    all_states: bool,
    /// Show what would be archived, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// The archive: a directory, which is made where there is none, or s3://BUCKET/PREFIX
    #[arg(long, alias = "to", value_name = "DIR", default_value = DIRECTORY)]
    archive: String,
    #[command(flatten)]
    on: OnBranch,
}

/// Listing an archive.
#[derive(Debug, Args)]
pub struct ArchiveList {
    /// Only runs of this day, as 2026-11-15: the day of their last event
    #[arg(long)]
    day: Option<String>,
    /// The archive: a directory, or s3://BUCKET/PREFIX
    #[arg(long, alias = "to", value_name = "DIR", default_value = DIRECTORY)]
    archive: String,
    #[command(flatten)]
    on: OnBranch,
}

/// Bringing a run back.
#[derive(Debug, Args)]
pub struct Restore {
    /// The run; of several lives of it the last
    run: String,
    /// The archive: a directory, or s3://BUCKET/PREFIX
    #[arg(long, alias = "from", value_name = "DIR", default_value = DIRECTORY)]
    archive: String,
    #[command(flatten)]
    on: OnBranch,
}

impl Archive {
    /// Archives the runs that are due, and prints each when it is done.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let settings = ArchiveSettings {
            runs_prefix: self.prefix.clone(),
            older_than_ms: self.older,
            only_ended: !self.all_states,
            ..settings(&self.on, context)
        };
        let db = context.database(false)?;
        if self.dry_run {
            return show_due(context, &db, settings);
        }
        archive_all(
            context,
            &archive::Archive::open(&db, &StoreSettings::of(&self.archive), settings)?,
        )
    }
}

/// Prints the runs that are due, without writing anything.
fn show_due(context: &mut Context, db: &Database, settings: ArchiveSettings) -> Result<()> {
    let nowhere = ArchiveStore::of(Arc::new(InMemory::new()));
    archive::Archive::new(db, nowhere, settings)?.each_due(&mut |run| {
        context.printer.row(due_row(run));
        Ok(!context.printer.is_closed())
    })?;
    context.printer.finish();
    Ok(())
}

fn due_row(run: &RunInfo) -> Row {
    vec![
        ("run".into(), Field::text(&run.run_id)),
        ("status".into(), Field::text(run.status.as_str())),
        ("events".into(), Field::number(run.last_event_seq)),
    ]
}

/// Archives all due runs. A run that fails is skipped, and the last error is reported at the end.
fn archive_all(context: &mut Context, archive: &archive::Archive) -> Result<()> {
    let mut failed = 0_u64;
    let mut why = None;
    archive.each_due(&mut |run| {
        match archive.archive(&run.run_id) {
            Ok(Outcome::Archived { run, events }) => {
                context.printer.row(archived_row(&run, events))
            }
            // The run was written to meanwhile, or deleted. A changed run stays in the database.
            Ok(Outcome::Changed | Outcome::Missing) => {}
            Err(error) => (failed, why) = (failed + 1, Some(error)),
        }
        Ok(true)
    })?;
    context.printer.finish();
    match why {
        None => Ok(()),
        Some(error) => {
            let hint = format!("runs that could not be archived and stay: {failed}");
            Err(Failure::from(error).hint(&hint))
        }
    }
}

fn archived_row(run: &ArchivedRun, events: u64) -> Row {
    vec![
        ("run".into(), Field::text(&run.run_id)),
        ("events".into(), Field::number(events)),
        ("bytes".into(), Field::number(run.size_bytes)),
        ("file".into(), Field::text(&run.path)),
    ]
}

impl ArchiveList {
    /// Lists the contents of the archive. This needs no database.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let nothing = Database::memory()?;
        let store = existing_store(&self.archive)?;
        let archive = archive::Archive::open(&nothing, &store, settings(&self.on, context))?;
        for run in archive.list(self.day.as_deref())? {
            let mut row = vec![("day".into(), Field::text(&run.day))];
            row.extend(archived_row(&run, run.last_event_seq));
            context.printer.row(row);
        }
        context.printer.finish();
        Ok(())
    }
}

impl Restore {
    /// Restores the run and reports how many of its events were missing from the database.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let store = existing_store(&self.archive)?;
        let settings = settings(&self.on, context);
        let archive = archive::Archive::open(&context.database(true)?, &store, settings)?;
        let Some(found) = archive.find(&self.run)? else {
            let message =
                format!("run {} is not in the archive: `mainstay run archived` lists it", self.run);
            return Err(Failure::negative(message));
        };
        let imported = archive.import(&found)?;
        let row = vec![
            ("run".into(), Field::text(&self.run)),
            ("events".into(), Field::number(imported.contents.count)),
            ("written".into(), Field::number(imported.written)),
            ("file".into(), Field::text(&found.path)),
        ];
        context.printer.one(row, RawFields::All);
        Ok(())
    }
}

/// The settings for an archive of the selected branch.
fn settings(on: &OnBranch, context: &Context) -> ArchiveSettings {
    let branch = on.branch.clone().unwrap_or_else(|| context.branch().to_owned());
    ArchiveSettings { branch, ..ArchiveSettings::default() }
}

/// Opens an archive for reading. Never creates a missing directory.
fn existing_store(text: &str) -> Result<StoreSettings> {
    match StoreSettings::of(text) {
        StoreSettings::Directory { path } if !Path::new(&path).is_dir() => {
            Err(Failure::error(format!("there is no archive at {text}: name its directory")))
        }
        store => Ok(store),
    }
}
