//! `mainstay state snapshot` and `restore`: copies a space to a file and back.
//!
//! ```text
//!   a directory   space --> FILE.part --> FILE               FILE --> a hidden generation --> made visible
//!   a server      the same over HTTP; the file is also verified here, so that the place of damage is known
//! ```

use super::super::args::AsOf;
use super::super::context::Context;
use super::super::failure::{Failure, Result};
use super::super::field::Field;
use super::super::http_client::{HttpArgs, HttpClient, ProgressReader, encode_segment};
use super::super::interrupt;
use super::super::output::RawFields;
use super::super::progress::Bar;
use super::SpaceArgs;
use clap::Args;
use mainstay::{At, AtomicFile, KeyedState, Progress, SnapshotReader, SnapshotSummary};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 << 10;

/// Writing a space to a file.
#[derive(Debug, Args)]
pub struct Snapshot {
    #[command(flatten)]
    space: SpaceArgs,
    /// The file to make; it must not exist yet
    file: PathBuf,
    #[command(flatten)]
    as_of: AsOf,
    #[command(flatten)]
    http: HttpArgs,
}

/// Replacing a space by what a file says.
#[derive(Debug, Args)]
pub struct Restore {
    #[command(flatten)]
    space: SpaceArgs,
    /// A file that `snapshot` wrote
    file: PathBuf,
    #[command(flatten)]
    http: HttpArgs,
}

impl SpaceArgs {
    fn branch(&self, context: &Context) -> String {
        self.on.branch.clone().unwrap_or_else(|| context.branch().to_owned())
    }

    /// The URL path of the snapshot on a server.
    fn path(&self, branch: &str) -> String {
        let space = encode_segment(&self.space);
        let branch = encode_segment(branch);
        format!("/v1/spaces/{space}/snapshot?branch={branch}")
    }
}

impl Snapshot {
    /// Writes the file and prints its contents.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let branch = self.space.branch(context);
        let file = &self.file;
        let (summary, revision) =
            interrupt::with_part_file(file, || {
                match HttpClient::for_server(context, &self.http)? {
                    Some(http) => self.download(&http, &branch),
                    None => self.write_file(context, &branch),
                }
            })?;
        let hash: String = summary.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let row = vec![
            ("space".into(), Field::text(&self.space.space)),
            ("revision".into(), Field::number(revision)),
            ("entries".into(), Field::number(summary.entries)),
            ("bytes".into(), Field::number(summary.bytes)),
            ("hash".into(), Field::text(hash)),
        ];
        context.printer.one(row, RawFields::All);
        Ok(())
    }

    fn at(&self) -> At {
        match (self.as_of.rev, self.as_of.at) {
            (Some(revision), _) => At::Revision(revision),
            (None, Some(stamp)) => At::Stamp(stamp),
            (None, None) => At::Latest,
        }
    }

    /// Writes the snapshot from the directory's database.
    fn write_file(&self, context: &mut Context, branch: &str) -> Result<(SnapshotSummary, u64)> {
        let db = context.store()?.database()?;
        let view = db.branch(branch)?.keyed(&self.space.space)?.at(self.at())?;
        if view.info()?.is_none() {
            return Err(Failure::negative(self.space.missing()));
        }
        let bar = Bar::of_bytes("writing");
        let part = AtomicFile::create(&self.file)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, part);
        let mut writer = ProgressWriter { out, bar: &bar, done: 0 };
        let summary = view.snapshot_to(&mut writer)?;
        let part =
            writer.out.into_inner().map_err(|error| write_failure(&self.file, error.error()))?;
        part.finish()?;
        Ok((summary, view.revision()))
    }

    /// Requests the snapshot from a server and downloads it.
    fn download(&self, http: &HttpClient, branch: &str) -> Result<(SnapshotSummary, u64)> {
        let bar = Bar::waiting("the server makes the file");
        let mut path = self.space.path(branch);
        if let Some(revision) = self.as_of.rev {
            path.push_str(&format!("&rev={revision}"));
        }
        if let Some(stamp) = self.as_of.at {
            path.push_str(&format!("&at={stamp}"));
        }
        http.download("GET", &path, &self.file, &bar, |part, response| {
            let revision = response.headers().get("mainstay-revision");
            let revision = revision.and_then(|said| said.to_str().ok()?.parse().ok());
            let summary = verify_file(part, &bar)
                .map_err(|failure| failure.hint("what arrived is not what was sent; ask again"))?;
            Ok((summary, revision.unwrap_or_default()))
        })
    }
}

/// Reads and verifies a whole file. Returns its summary.
fn verify_file(file: &Path, bar: &Bar) -> Result<SnapshotSummary> {
    let reader = ProgressReader::open(file, "checking", bar)?;
    let reader = SnapshotReader::new(BufReader::with_capacity(BUFFER_BYTES, reader))?;
    Ok(reader.check_rest()?)
}

impl Restore {
    /// Replaces the space and prints the number of entries.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let branch = self.space.branch(context);
        let entries = match HttpClient::for_server(context, &self.http)? {
            Some(http) => self.upload(&http, &branch)?,
            None => {
                let db = context.store_to_write()?.database()?;
                let keyed = db.branch(&branch)?.keyed(&self.space.space)?;
                let bar = Bar::of_bytes("restoring");
                let reader = ProgressReader::open(&self.file, "restoring", &bar)?;
                keyed.restore_from(&mut BufReader::with_capacity(BUFFER_BYTES, reader))?
            }
        };
        let row = vec![
            ("space".into(), Field::text(&self.space.space)),
            ("entries".into(), Field::number(entries)),
        ];
        context.printer.one(row, RawFields::All);
        Ok(())
    }

    /// Verifies the file locally, so that damage is reported precisely, then uploads it to a server for the
    /// restore.
    fn upload(&self, http: &HttpClient, branch: &str) -> Result<u64> {
        let bar = Bar::of_bytes("checking");
        let entries = verify_file(&self.file, &bar)?.entries;
        let answer = http.upload("PUT", &self.space.path(branch), &self.file, &bar)?;
        let reported = answer.get("entries").and_then(serde_json::Value::as_u64);
        Ok(reported.unwrap_or(entries))
    }
}

/// A file writer with a progress bar.
struct ProgressWriter<'a> {
    out: BufWriter<AtomicFile>,
    bar: &'a Bar,
    done: u64,
}

impl Write for ProgressWriter<'_> {
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

fn write_failure(file: &Path, error: &io::Error) -> Failure {
    Failure::error(format!("{} cannot be written: {error}; nothing was kept", file.display()))
}
