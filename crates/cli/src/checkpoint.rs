//! `mainstay checkpoint`: lists, verifies, takes, restores and rescales checkpoints of streaming jobs.
//!
//! ```text
//!   --shelf: job --ls--> its checkpoints        --verify--> all files read and verified
//!   --data or --server: space --take--> a checkpoint        a checkpoint --restore--> space
//! ```

use super::args::OnBranch;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::output::RawFields;
use super::progress::Bar;
use clap::{Args, Subcommand};
use mainstay::{KeyedState, Progress};
use mainstay_runs::archive::{ArchiveStore, StoreSettings};
use mainstay_streams::{CheckpointStore, Checkpoints, Job, Manifest};
use std::sync::atomic::{AtomicU64, Ordering};

/// The default location of checkpoints.
const DIRECTORY: &str = "mainstay-checkpoints";

/// What can be done with checkpoints.
#[derive(Debug, Subcommand)]
pub enum CheckpointVerb {
    /// List the checkpoints of a job, or the jobs that have some
    Ls {
        /// The job; without, all jobs are listed
        job: Option<String>,
        #[command(flatten)]
        shelf: CheckpointStoreArgs,
    },
    /// Read all files of a checkpoint and check them; changes nothing
    Verify(CheckpointArgs),
    /// Take a checkpoint of a space, as the one shard of a job
    Take(Take),
    /// Make a space what a checkpoint says
    Restore(Restore),
    /// Divide the newest checkpoint anew, among so many shards
    Rescale {
        /// The job
        job: String,
        /// How many shards
        shards: u32,
        #[command(flatten)]
        shelf: CheckpointStoreArgs,
    },
}

/// Where checkpoints lie.
#[derive(Debug, Args)]
pub struct CheckpointStoreArgs {
    /// Where the checkpoints are: a directory, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    shelf: String,
}

/// Which checkpoint.
#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// The job
    job: String,
    /// Its number; without, the newest
    checkpoint: Option<u64>,
    #[command(flatten)]
    shelf: CheckpointStoreArgs,
}

/// Taking a checkpoint.
#[derive(Debug, Args)]
pub struct Take {
    /// The job
    job: String,
    /// The space
    space: String,
    /// The operator whose state it is [default: the job's, or the space's name for a new one]
    #[arg(long)]
    operator: Option<String>,
    #[command(flatten)]
    shelf: CheckpointStoreArgs,
    #[command(flatten)]
    on: OnBranch,
}

/// Restoring a checkpoint.
#[derive(Debug, Args)]
pub struct Restore {
    #[command(flatten)]
    checkpoint: CheckpointArgs,
    /// The space, which is replaced
    #[arg(long)]
    space: String,
    /// Which shard of it
    #[arg(long, default_value_t = 0)]
    shard: u32,
    #[command(flatten)]
    on: OnBranch,
}

impl CheckpointVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            CheckpointVerb::Ls { job: Some(job), shelf } => list(context, &shelf, &job),
            CheckpointVerb::Ls { job: None, shelf } => jobs(context, &shelf),
            CheckpointVerb::Verify(which) => which.verify(context),
            CheckpointVerb::Take(take) => take.run(context),
            CheckpointVerb::Restore(restore) => restore.run(context),
            CheckpointVerb::Rescale { job, shards, shelf } => {
                let checkpoints = of_job(with_progress(shelf.open()?, "dividing", None), &job)?;
                let manifest = checkpoints.rescale(shards)?;
                drop(checkpoints);
                show(context, &manifest);
                Ok(())
            }
        }
    }
}

impl CheckpointStoreArgs {
    /// Opens checkpoint storage for reading. Never creates a missing directory.
    fn open(&self) -> Result<CheckpointStore> {
        let StoreSettings::Directory { path } = StoreSettings::of(&self.shelf) else {
            return self.make();
        };
        if !path.is_dir() {
            let message = format!(
                "there are no checkpoints at {}: name their place with --shelf",
                path.display()
            );
            return Err(Failure::error(message));
        }
        self.make()
    }

    /// Opens checkpoint storage for writing.
    fn make(&self) -> Result<CheckpointStore> {
        Ok(match StoreSettings::of(&self.shelf) {
            StoreSettings::Directory { path } => CheckpointStore::directory(path)?,
            bucket => CheckpointStore::objects(ArchiveStore::open(&bucket)?.objects().clone())?,
        })
    }

    /// The checkpoints of a job. Fails if the job has none.
    fn of_job(&self, job: &str) -> Result<Checkpoints> {
        of_job(self.open()?, job)
    }
}

fn of_job(shelf: CheckpointStore, job: &str) -> Result<Checkpoints> {
    let found = Checkpoints::of_job(shelf, job)?;
    found.ok_or_else(|| {
        Failure::negative(format!(
            "job {job} has no checkpoints: `mainstay checkpoint ls` lists jobs"
        ))
    })
}

/// Wraps checkpoint storage so that a progress bar counts its reads and writes, up to `total` bytes if that
/// is known.
fn with_progress(
    shelf: CheckpointStore,
    what: &'static str,
    total: Option<u64>,
) -> CheckpointStore {
    let bar = Bar::of_bytes(what);
    let done = AtomicU64::new(0);
    shelf.with_progress(move |bytes| {
        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        bar.show(Progress {
            phase: what,
            done: total.map_or(done, |total| done.min(total)),
            total,
        });
    })
}

fn jobs(context: &mut Context, shelf: &CheckpointStoreArgs) -> Result<()> {
    for job in Checkpoints::jobs(&shelf.open()?)? {
        // A damaged entry is shown as damaged, and the rest of the list is still shown.
        let row = job_row(shelf, &job).unwrap_or_else(|failure| {
            vec![
                ("job".into(), Field::text(&job)),
                ("operator".into(), Field::text(format!("damaged: {failure}"))),
            ]
        });
        context.printer.row(row);
    }
    context.printer.finish();
    Ok(())
}

fn job_row(shelf: &CheckpointStoreArgs, job: &str) -> Result<Row> {
    let checkpoints = shelf.of_job(job)?;
    let latest = checkpoints.latest()?;
    Ok(vec![
        ("job".into(), Field::text(job)),
        ("operator".into(), Field::text(&checkpoints.job().operator)),
        ("checkpoints".into(), Field::number(checkpoints.list()?.len() as u64)),
        ("newest".into(), Field::number(latest.as_ref().map_or(0, |it| it.checkpoint))),
        ("shards".into(), Field::number(latest.map_or(0, |it| it.shards.len() as u64))),
    ])
}

fn list(context: &mut Context, shelf: &CheckpointStoreArgs, job: &str) -> Result<()> {
    let checkpoints = shelf.of_job(job)?;
    for id in checkpoints.list()? {
        // A damaged checkpoint is shown as damaged, and the rest of the list is still shown.
        let row = match checkpoints.manifest(id) {
            Ok(manifest) => row(&manifest),
            Err(error) => vec![
                ("checkpoint".into(), Field::number(id)),
                ("kind".into(), Field::text(format!("damaged: {}", error.message()))),
            ],
        };
        context.printer.row(row);
    }
    context.printer.finish();
    Ok(())
}

fn row(manifest: &Manifest) -> Row {
    let newest = || manifest.shards.iter().filter_map(|shard| shard.files.last());
    let kind = if newest().all(|file| file.full) { "full" } else { "changes" };
    let positions = manifest.shards.iter().flat_map(|shard| &shard.positions);
    let mut read: Vec<String> = positions
        .map(|(name, at)| format!("{}={at}", name.strip_prefix("source/").unwrap_or(name)))
        .collect();
    read.sort();
    read.dedup();
    vec![
        ("checkpoint".into(), Field::number(manifest.checkpoint)),
        ("epoch".into(), Field::number(manifest.epoch)),
        ("shards".into(), Field::number(manifest.shards.len() as u64)),
        ("kind".into(), Field::text(kind)),
        ("written".into(), Field::number(newest().map(|file| file.bytes).sum())),
        ("bytes".into(), Field::number(manifest.bytes())),
        ("positions".into(), Field::text(read.join(" "))),
    ]
}

fn show(context: &mut Context, manifest: &Manifest) {
    context.printer.one(row(manifest), RawFields::Field("checkpoint"));
}

impl CheckpointArgs {
    /// The checkpoints of the job, and the selected id: the given one, or the newest.
    fn find(&self) -> Result<(Checkpoints, u64)> {
        let checkpoints = self.shelf.of_job(&self.job)?;
        let all = checkpoints.list()?;
        let id = self.checkpoint.or(all.last().copied()).filter(|id| all.contains(id));
        Ok((
            checkpoints,
            id.ok_or_else(|| {
                Failure::negative(format!("job {} has no such checkpoint", self.job))
            })?,
        ))
    }

    fn verify(&self, context: &mut Context) -> Result<()> {
        let (checkpoints, id) = self.find()?;
        let manifest = checkpoints.manifest(id)?;
        let watched = with_progress(self.shelf.open()?, "checking", Some(manifest.bytes()));
        of_job(watched, &self.job)?.verify(id)?;
        show(context, &manifest);
        Ok(())
    }
}

impl Take {
    fn run(self, context: &mut Context) -> Result<()> {
        let manifest = self.take(context)?;
        show(context, &manifest);
        Ok(())
    }

    /// Takes the checkpoint. The storage is dropped on return, which removes the progress bar.
    fn take(self, context: &mut Context) -> Result<Manifest> {
        let space = open_space(context, &self.on, &self.space, false)?;
        let Some(info) = space.info()? else {
            let space = &self.space;
            let message = format!("there is no space {space}: `mainstay state spaces` lists them");
            return Err(Failure::negative(message));
        };
        let shelf = with_progress(self.shelf.make()?, "writing", None);
        // The name of the space is the default for the operator.
        let operator = self.operator.as_deref().unwrap_or(&self.space);
        let checkpoints = match Checkpoints::of_job(shelf.clone(), &self.job)? {
            Some(checkpoints) => checkpoints,
            None => {
                let job = Job::new(&self.job, operator);
                Checkpoints::open(shelf, Job { groups: info.options.groups, ..job })?
            }
        };
        let theirs = &checkpoints.job().operator;
        if theirs != operator {
            let job = &self.job;
            let message =
                format!("the checkpoints of job {job} are of operator {theirs}, not of {operator}");
            let hint = format!("if space {} has its states, say --operator {theirs}", self.space);
            return Err(Failure::error(message).hint(&hint));
        }
        Ok(checkpoints.create(&*space)?)
    }
}

impl Restore {
    fn run(self, context: &mut Context) -> Result<()> {
        let (checkpoints, id) = self.checkpoint.find()?;
        let space = open_space(context, &self.on, &self.space, true)?;
        let found = checkpoints.manifest(id)?.shards.into_iter().find(|it| it.shard == self.shard);
        let total = found.map(|part| part.files.iter().map(|file| file.bytes).sum());
        let watched = with_progress(self.checkpoint.shelf.open()?, "restoring", total);
        let part = of_job(watched, &self.checkpoint.job)?.restore(id, self.shard, &*space)?;
        let row = vec![
            ("space".into(), Field::text(&self.space)),
            ("checkpoint".into(), Field::number(id)),
            ("shard".into(), Field::number(u64::from(part.shard))),
            ("files".into(), Field::number(part.files.len() as u64)),
        ];
        context.printer.one(row, RawFields::All);
        Ok(())
    }
}

/// Opens a space in a directory or on a server. `make` creates a missing database directory.
fn open_space(
    context: &mut Context,
    on: &OnBranch,
    space: &str,
    make: bool,
) -> Result<Box<dyn KeyedState>> {
    let branch = on.branch.clone().unwrap_or_else(|| context.branch().to_owned());
    let db = context.database(make)?;
    Ok(Box::new(db.branch(&branch)?.keyed(space)?))
}
