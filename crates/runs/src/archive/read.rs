//! Archive reader: lists the archive, and reads and verifies files.

use super::Archive;
use super::events::Sum;
use super::line::{self, Foot, Head};
use super::name::{self, ArchivedRun};
use super::store::{damaged, failed};
use flate2::write::GzDecoder;
use mainstay::{CanonicalEvent, Code, Error, Result, RunStatus};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use serde::Serialize;
use std::io::Write;
use tokio_stream::StreamExt;

/// The longest line, in bytes: the largest event with its JSON overhead.
const LINE_LIMIT_BYTES: usize = 256 << 20;
/// The size of the compressed pieces that are unpacked at once, so that highly compressed data does not fill
/// the memory.
const PIECE_BYTES: usize = 16 << 10;

/// The verified content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The run.
    pub run_id: String,
    /// The run's status.
    pub status: RunStatus,
    /// The number of events.
    pub count: u64,
    /// The SHA-256 of all lines except the last.
    pub sha256: String,
    /// The hash of the run's snapshot.
    pub snapshot_hash: String,
}

impl Archive {
    /// Lists the archived runs, of all days or of one (`2026-11-15`), by day and run. It lists the store
    /// itself, so it is always complete.
    pub fn list(&self, day: Option<&str>) -> Result<Vec<ArchivedRun>> {
        let mut runs = Vec::new();
        for meta in self.files(day)? {
            runs.extend(self.named(&meta)?);
        }
        runs.sort();
        Ok(runs)
    }

    /// Returns the newest archived file of a run.
    pub fn find(&self, run: &str) -> Result<Option<ArchivedRun>> {
        let mut runs = Vec::new();
        for meta in self.files(None)?.into_iter().filter(|meta| name::is_of(meta, run)) {
            runs.extend(self.named(&meta)?.filter(|found| found.run_id == run));
        }
        Ok(runs.into_iter().max())
    }

    /// Reads and verifies a whole file.
    pub fn verify(&self, run: &ArchivedRun) -> Result<Contents> {
        let path = path_of(run)?;
        self.wait(self.read(&path, &mut |_| Ok(()))).map(|(_, contents)| contents)
    }

    fn files(&self, day: Option<&str>) -> Result<Vec<ObjectMeta>> {
        let folder = name::folder(&self.0.settings, day);
        let list = self.0.store.objects.list(Some(&folder));
        let all: object_store::Result<Vec<ObjectMeta>> =
            self.wait(async { Ok(list.collect().await) })?;
        all.map_err(|error| failed("listed", &folder, &error))
    }

    /// Identifies a file of the archive; `None` for other files.
    fn named(&self, meta: &ObjectMeta) -> Result<Option<ArchivedRun>> {
        let Some((mut run, is_known)) = name::read(meta) else { return Ok(None) };
        if !is_known {
            run.run_id = self.wait(self.read_head(&meta.location))?.run_id;
        }
        Ok(Some(run))
    }

    async fn read_head(&self, path: &Path) -> Result<Head> {
        let mut found = None;
        let mut first = |text: &str| {
            found = Some(line::read::<Head>(text)?);
            Ok(false)
        };
        self.each_line(path, &mut first).await?;
        found.ok_or_else(|| damaged(path, &"it is empty"))
    }

    /// Reads and verifies a file, and calls `visit` with every event.
    pub(super) async fn read(
        &self,
        path: &Path,
        visit: &mut (dyn FnMut(CanonicalEvent) -> Result<()> + Send),
    ) -> Result<(Head, Contents)> {
        let mut reading = Reading { path, visit, head: None, held: None };
        self.each_line(path, &mut |line| reading.line(line).map(|()| true)).await?;
        reading.finish()
    }

    /// Calls `show` with every line, including its line end, until it returns `false`.
    async fn each_line(
        &self,
        path: &Path,
        show: &mut (dyn FnMut(&str) -> Result<bool> + Send),
    ) -> Result<()> {
        let found = self.0.store.objects.get(path).await;
        let mut stream = found.map_err(|error| failed("read", path, &error))?.into_stream();
        let mut lines = Lines { path, unpacker: GzDecoder::new(Vec::new()) };
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| failed("read", path, &error))?;
            for part in piece.chunks(PIECE_BYTES) {
                lines.unpack(part)?;
                if !lines.show(show)? {
                    return Ok(());
                }
            }
        }
        lines.finish(show)
    }
}

/// Splits unpacked data into lines.
struct Lines<'p> {
    path: &'p Path,
    unpacker: GzDecoder<Vec<u8>>,
}

impl Lines<'_> {
    fn unpack(&mut self, part: &[u8]) -> Result<()> {
        self.unpacker.write_all(part).map_err(|error| damaged(self.path, &error))
    }

    /// Shows the complete lines.
    fn show(&mut self, show: &mut (dyn FnMut(&str) -> Result<bool> + Send)) -> Result<bool> {
        let text = std::mem::take(self.unpacker.get_mut());
        let mut from = 0;
        while let Some(length) = text[from..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&text[from..=from + length]);
            if !show(line.map_err(|error| damaged(self.path, &error))?)? {
                return Ok(false);
            }
            from += length + 1;
        }
        if text.len() - from > LINE_LIMIT_BYTES {
            return Err(damaged(self.path, &"a line of it does not end"));
        }
        *self.unpacker.get_mut() = text[from..].to_vec();
        Ok(true)
    }

    fn finish(mut self, show: &mut (dyn FnMut(&str) -> Result<bool> + Send)) -> Result<()> {
        // Also verifies the checksum and the length in the gzip trailer.
        self.unpacker.try_finish().map_err(|error| damaged(self.path, &error))?;
        if !self.show(show)? {
            return Ok(());
        }
        if self.unpacker.get_ref().is_empty() {
            Ok(())
        } else {
            Err(damaged(self.path, &"its last line does not end"))
        }
    }
}

/// A file that is being read. The last line is recognizable only at the end of the file, so one line is held
/// back.
struct Reading<'r> {
    path: &'r Path,
    visit: &'r mut (dyn FnMut(CanonicalEvent) -> Result<()> + Send),
    head: Option<(Head, Sum)>,
    held: Option<String>,
}

impl Reading<'_> {
    fn line(&mut self, text: &str) -> Result<()> {
        if self.head.is_none() {
            let head: Head = line::read(text).map_err(|error| self.damaged(&error))?;
            head.check()?;
            let sum = Sum::behind(&head.run_id, text);
            self.head = Some((head, sum));
            return Ok(());
        }
        match self.held.replace(text.to_owned()) {
            Some(line) => self.event(&line),
            None => Ok(()),
        }
    }

    fn event(&mut self, text: &str) -> Result<()> {
        let event = line::read_event(text).map_err(|error| self.damaged(&error))?;
        let Some((head, sum)) = &mut self.head else { return Ok(()) };
        if event.run_id != head.run_id || event.run_seq != sum.snapshot.last_event_seq + 1 {
            let why = format!("event {} of run `{}` does not follow", event.run_seq, event.run_id);
            return Err(damaged(self.path, &why));
        }
        sum.add_event(&event);
        sum.add_line(text);
        (self.visit)(event)
    }

    fn finish(self) -> Result<(Head, Contents)> {
        let Some(((head, sum), held)) = self.head.zip(self.held) else {
            return Err(damaged(self.path, &"it ends too early"));
        };
        let foot: Foot = line::read(&held).map_err(|error| damaged(self.path, &error))?;
        if !sum.is_of(&foot) || sum.snapshot.last_event_seq != head.last_event_seq {
            return Err(damaged(self.path, &"its lines are not what its last line says"));
        }
        // Return the recomputed totals. A file of an earlier version has another snapshot hash than the
        // restored run.
        let Foot { count, sha256, snapshot_hash } = sum.foot();
        let run_id = head.run_id.clone();
        let status = head.status;
        Ok((head, Contents { run_id, status, count, sha256, snapshot_hash }))
    }

    /// Converts a parse error to damage, except that a newer contract version is passed on.
    fn damaged(&self, error: &Error) -> Error {
        match error.code() {
            Code::Unsupported | Code::NewerFormat => error.clone(),
            _ => damaged(self.path, error),
        }
    }
}

/// Reads the bytes of a file, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(super) fn read_packed(bytes: &[u8]) -> Result<Contents> {
    let path = &Path::default();
    let visit = &mut |_| Ok(());
    let mut reading = Reading { path, visit, head: None, held: None };
    let mut show = |line: &str| reading.line(line).map(|()| true);
    let mut lines = Lines { path, unpacker: GzDecoder::new(Vec::new()) };
    for part in bytes.chunks(PIECE_BYTES) {
        lines.unpack(part)?;
        lines.show(&mut show)?;
    }
    lines.finish(&mut show)?;
    reading.finish().map(|(_, contents)| contents)
}

/// Completes the lines of a file with their last line, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(super) fn read_lines(text: &str) -> Result<(String, Contents)> {
    let path = &Path::default();
    let visit = &mut |_| Ok(());
    let mut reading = Reading { path, visit, head: None, held: None };
    for line in text.split_inclusive('\n') {
        reading.line(line)?;
    }
    if let Some(event) = reading.held.take() {
        reading.event(&event)?;
    }
    let Some((_, sum)) = reading.head.as_ref().filter(|_| text.ends_with('\n')) else {
        return Err(damaged(path, &"it ends too early"));
    };
    let foot = line::plain(&sum.foot())?;
    reading.held = Some(foot.clone());
    Ok((foot, reading.finish()?.1))
}

/// Parses the path of an archived file.
pub(super) fn path_of(run: &ArchivedRun) -> Result<Path> {
    Path::parse(&run.path).map_err(|error| {
        Error::new(Code::InvalidArgument, format!("`{}` is no path: {error}", run.path))
    })
}
