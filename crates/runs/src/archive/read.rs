//! Reading archive files: what is in the archive, and what is in a file.

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

/// The longest line: the largest event with all that its text can add to it.
const LINE_LIMIT_BYTES: usize = 256 << 20;
/// How much is unpacked together: what is packed well does not fill the memory.
const PIECE_BYTES: usize = 16 << 10;

/// What a file was found to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The run.
    pub run_id: String,
    /// Where it stands.
    pub status: RunStatus,
    /// How many events it has.
    pub count: u64,
    /// The SHA-256 of its lines but the last.
    pub sha256: String,
    /// The hash of what the events add up to.
    pub snapshot_hash: String,
}

impl Archive {
    /// What is in the archive, or what is of one day (`2026-11-15`), in the order of days and runs. It is read
    /// from the store itself, so it is what there is.
    pub fn list(&self, day: Option<&str>) -> Result<Vec<ArchivedRun>> {
        let mut runs = Vec::new();
        for meta in self.files(day)? {
            runs.extend(self.named(&meta)?);
        }
        runs.sort();
        Ok(runs)
    }

    /// The newest of what the archive has of a run.
    pub fn find(&self, run: &str) -> Result<Option<ArchivedRun>> {
        let mut runs = Vec::new();
        for meta in self.files(None)?.into_iter().filter(|meta| name::is_of(meta, run)) {
            runs.extend(self.named(&meta)?.filter(|found| found.run_id == run));
        }
        Ok(runs.into_iter().max())
    }

    /// Reads a file and checks all of it.
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

    /// A file of the archive; what else lies there is passed by.
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

    /// Reads a file, shows every event, and checks that it is whole.
    pub(super) async fn read(
        &self,
        path: &Path,
        visit: &mut (dyn FnMut(CanonicalEvent) -> Result<()> + Send),
    ) -> Result<(Head, Contents)> {
        let mut reading = Reading { path, visit, head: None, held: None };
        self.each_line(path, &mut |line| reading.line(line).map(|()| true)).await?;
        reading.finish()
    }

    /// Shows every line with its end to a function, until it says that it is enough.
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

/// The lines of what is unpacked.
struct Lines<'p> {
    path: &'p Path,
    unpacker: GzDecoder<Vec<u8>>,
}

impl Lines<'_> {
    fn unpack(&mut self, part: &[u8]) -> Result<()> {
        self.unpacker.write_all(part).map_err(|error| damaged(self.path, &error))
    }

    /// Shows the whole lines that there are.
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
        // It checks the sum and the length that gzip keeps.
        self.unpacker.try_finish().map_err(|error| damaged(self.path, &error))?;
        if !self.show(show)? {
            return Ok(());
        }
        match self.unpacker.get_ref().is_empty() {
            true => Ok(()),
            false => Err(damaged(self.path, &"its last line does not end")),
        }
    }
}

/// A file that is being read. Its last line is known as such only at the end, so one line is held back.
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
        // What a file of an earlier version says of it is not what the run adds up to where it is restored.
        let Foot { count, sha256, snapshot_hash } = sum.foot();
        let (run_id, status) = (head.run_id.clone(), head.status);
        Ok((head, Contents { run_id, status, count, sha256, snapshot_hash }))
    }

    /// What makes a line unreadable; a later contract stays what it is.
    fn damaged(&self, error: &Error) -> Error {
        match error.code() {
            Code::Unsupported | Code::NewerFormat => error.clone(),
            _ => damaged(self.path, error),
        }
    }
}

/// What the bytes of a file hold, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(super) fn read_packed(bytes: &[u8]) -> Result<Contents> {
    let (path, visit) = (&Path::default(), &mut |_| Ok(()));
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

/// What lines hold that are all but the last of a file, and the last one, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(super) fn read_lines(text: &str) -> Result<(String, Contents)> {
    let (path, visit) = (&Path::default(), &mut |_| Ok(()));
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

/// The path of a file in the archive.
pub(super) fn path_of(run: &ArchivedRun) -> Result<Path> {
    Path::parse(&run.path).map_err(|error| {
        Error::new(Code::InvalidArgument, format!("`{}` is no path: {error}", run.path))
    })
}
