//! `mainstay state snapshot` and `restore`: copies a space to a file and back.
//!
//! ```text
//!   a directory   space --> FILE.part --> FILE               FILE --> a hidden generation --> made visible
//!   a server      the same over HTTP; the file is also verified here, so that the place of damage is known
//! ```

use super::super::args::Moment;
use super::super::failure::{Failure, Result};
use super::super::field::Field;
use super::super::interrupt;
use super::super::output::Bare;
use super::super::progress::Bar;
use super::super::session::Session;
use super::super::web::{Watched, Web, WebArgs, escaped_part};
use super::Which;
use clap::Args;
use mainstay::{At, AtomicFile, KeyedState, Progress, SnapshotReader, SnapshotSummary};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 << 10;

/// Writing a space to a file.
#[derive(Debug, Args)]
pub struct Snapshot {
    #[command(flatten)]
    space: Which,
    /// The file to make; it must not exist yet
    file: PathBuf,
    #[command(flatten)]
    moment: Moment,
    #[command(flatten)]
    web: WebArgs,
}

/// Replacing a space by what a file says.
#[derive(Debug, Args)]
pub struct Restore {
    #[command(flatten)]
    space: Which,
    /// A file that `snapshot` wrote
    file: PathBuf,
    #[command(flatten)]
    web: WebArgs,
}

impl Which {
    fn branch(&self, session: &Session) -> String {
        self.on.branch.clone().unwrap_or_else(|| session.branch().to_owned())
    }

    /// The URL path of the snapshot on a server.
    fn path(&self, branch: &str) -> String {
        let space = escaped_part(&self.space);
        let branch = escaped_part(branch);
        format!("/v1/spaces/{space}/snapshot?branch={branch}")
    }
}

impl Snapshot {
    /// Writes the file and prints its contents.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let branch = self.space.branch(session);
        let file = &self.file;
        let (summary, revision) =
            interrupt::making(file, || match Web::wanted(session, &self.web)? {
                Some(web) => self.received(&web, &branch),
                None => self.written(session, &branch),
            })?;
        let hash: String = summary.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let row = vec![
            ("space".into(), Field::text(&self.space.space)),
            ("revision".into(), Field::number(revision)),
            ("entries".into(), Field::number(summary.entries)),
            ("bytes".into(), Field::number(summary.bytes)),
            ("hash".into(), Field::text(hash)),
        ];
        session.printer.one(row, Bare::All);
        Ok(())
    }

    fn at(&self) -> At {
        match (self.moment.rev, self.moment.at) {
            (Some(revision), _) => At::Revision(revision),
            (None, Some(stamp)) => At::Stamp(stamp),
            (None, None) => At::Latest,
        }
    }

    /// Writes the snapshot from the directory's database.
    fn written(&self, session: &mut Session, branch: &str) -> Result<(SnapshotSummary, u64)> {
        let db = session.store()?.database()?;
        let view = db.branch(branch)?.keyed(&self.space.space)?.at(self.at())?;
        if view.info()?.is_none() {
            return Err(Failure::not_held(self.space.missing()));
        }
        let bar = Bar::of_bytes("writing");
        let part = AtomicFile::create(&self.file)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, part);
        let mut counted = Counted { out, bar: &bar, done: 0 };
        let summary = view.snapshot_to(&mut counted)?;
        let part =
            counted.out.into_inner().map_err(|error| unwritten(&self.file, error.error()))?;
        part.finish()?;
        Ok((summary, view.revision()))
    }

    /// Requests the snapshot from a server and downloads it.
    fn received(&self, web: &Web, branch: &str) -> Result<(SnapshotSummary, u64)> {
        let bar = Bar::waiting("the server makes the file");
        let mut path = self.space.path(branch);
        if let Some(revision) = self.moment.rev {
            path.push_str(&format!("&rev={revision}"));
        }
        if let Some(stamp) = self.moment.at {
            path.push_str(&format!("&at={stamp}"));
        }
        web.download("GET", &path, &self.file, &bar, |part, response| {
            let revision = response.headers().get("mainstay-revision");
            let revision = revision.and_then(|said| said.to_str().ok()?.parse().ok());
            let summary = checked(part, &bar)
                .map_err(|failure| failure.hint("what arrived is not what was sent; ask again"))?;
            Ok((summary, revision.unwrap_or_default()))
        })
    }
}

/// Reads and verifies a whole file. Returns its summary.
fn checked(file: &Path, bar: &Bar) -> Result<SnapshotSummary> {
    let watched = Watched::open(file, "checking", bar)?;
    let reader = SnapshotReader::new(BufReader::with_capacity(BUFFER_BYTES, watched))?;
    Ok(reader.check_rest()?)
}

impl Restore {
    /// Replaces the space and prints the number of entries.
    pub fn run(self, session: &mut Session) -> Result<()> {
        let branch = self.space.branch(session);
        let entries = match Web::wanted(session, &self.web)? {
            Some(web) => self.sent(&web, &branch)?,
            None => {
                let db = session.store_to_write()?.database()?;
                let keyed = db.branch(&branch)?.keyed(&self.space.space)?;
                let bar = Bar::of_bytes("restoring");
                let watched = Watched::open(&self.file, "restoring", &bar)?;
                keyed.restore_from(&mut BufReader::with_capacity(BUFFER_BYTES, watched))?
            }
        };
        let row = vec![
            ("space".into(), Field::text(&self.space.space)),
            ("entries".into(), Field::number(entries)),
        ];
        session.printer.one(row, Bare::All);
        Ok(())
    }

    /// Verifies the file locally, so that damage is reported precisely, then uploads it to a server for the
    /// restore.
    fn sent(&self, web: &Web, branch: &str) -> Result<u64> {
        let bar = Bar::of_bytes("checking");
        let entries = checked(&self.file, &bar)?.entries;
        let answer = web.upload("PUT", &self.space.path(branch), &self.file, &bar)?;
        let told = answer.get("entries").and_then(serde_json::Value::as_u64);
        Ok(told.unwrap_or(entries))
    }
}

/// A file writer with a progress bar.
struct Counted<'a> {
    out: BufWriter<AtomicFile>,
    bar: &'a Bar,
    done: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.done += written as u64;
        self.bar.show(Progress { phase: "writing", done: self.done, total: None });
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::error(format!("{} cannot be written: {error}; nothing was kept", file.display()))
}
