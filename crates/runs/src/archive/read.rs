//! Archive reader: lists the archive, and reads and verifies files.

use super::Archive;
use super::line::{self, Footer, Header};
use super::name::{self, ArchivedRun};
use super::run_events::RunDigest;
use super::store::{corrupt_error, file_error};
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
const UNPACK_BYTES: usize = 16 << 10;

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
            runs.extend(self.identify(&meta)?);
        }
        runs.sort();
        Ok(runs)
    }

    /// Returns the newest archived file of a run.
    pub fn find(&self, run: &str) -> Result<Option<ArchivedRun>> {
        let mut runs = Vec::new();
        for meta in self.files(None)?.into_iter().filter(|meta| name::may_belong_to(meta, run)) {
            runs.extend(self.identify(&meta)?.filter(|selected| selected.run_id == run));
        }
        Ok(runs.into_iter().max())
    }

    /// Reads and verifies a whole file.
    pub fn verify(&self, run: &ArchivedRun) -> Result<Contents> {
        let path = path_of(run)?;
        self.block_on(self.read(&path, &mut |_| Ok(()))).map(|(_, contents)| contents)
    }

    fn files(&self, day: Option<&str>) -> Result<Vec<ObjectMeta>> {
        let folder = name::directory_path(&self.0.settings, day);
        let list = self.0.store.objects.list(Some(&folder));
        let all: object_store::Result<Vec<ObjectMeta>> =
            self.block_on(async { Ok(list.collect().await) })?;
        all.map_err(|error| file_error("listed", &folder, &error))
    }

    /// Identifies a file of the archive; `None` for other files.
    fn identify(&self, meta: &ObjectMeta) -> Result<Option<ArchivedRun>> {
        let Some((mut run, is_known)) = name::parse(meta) else { return Ok(None) };
        if !is_known {
            run.run_id = self.block_on(self.read_head(&meta.location))?.run_id;
        }
        Ok(Some(run))
    }

    async fn read_head(&self, path: &Path) -> Result<Header> {
        let mut selected = None;
        let mut first = |text: &str| {
            selected = Some(line::decode::<Header>(text)?);
            Ok(false)
        };
        self.each_line(path, &mut first).await?;
        selected.ok_or_else(|| corrupt_error(path, &"it is empty"))
    }

    /// Reads and verifies a file, and calls `visit` with every event.
    pub(super) async fn read(
        &self,
        path: &Path,
        visit: &mut (dyn FnMut(CanonicalEvent) -> Result<()> + Send),
    ) -> Result<(Header, Contents)> {
        let mut reader = FileReader { path, visit, header: None, pending_line: None };
        self.each_line(path, &mut |line| reader.line(line).map(|()| true)).await?;
        reader.finish()
    }

    /// Calls `visit_line` with every line, including its line end, until it returns `false`.
    async fn each_line(
        &self,
        path: &Path,
        visit_line: &mut (dyn FnMut(&str) -> Result<bool> + Send),
    ) -> Result<()> {
        let selected = self.0.store.objects.get(path).await;
        let mut stream = selected.map_err(|error| file_error("read", path, &error))?.into_stream();
        let mut lines = LineSplitter { path, decoder: GzDecoder::new(Vec::new()) };
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| file_error("read", path, &error))?;
            for part in chunk.chunks(UNPACK_BYTES) {
                lines.decode_chunk(part)?;
                if !lines.emit_lines(visit_line)? {
                    return Ok(());
                }
            }
        }
        lines.finish(visit_line)
    }
}

/// Splits unpacked data into lines.
struct LineSplitter<'p> {
    path: &'p Path,
    decoder: GzDecoder<Vec<u8>>,
}

impl LineSplitter<'_> {
    fn decode_chunk(&mut self, part: &[u8]) -> Result<()> {
        self.decoder.write_all(part).map_err(|error| corrupt_error(self.path, &error))
    }

    /// Shows the complete lines.
    fn emit_lines(
        &mut self,
        visit_line: &mut (dyn FnMut(&str) -> Result<bool> + Send),
    ) -> Result<bool> {
        let text = std::mem::take(self.decoder.get_mut());
        let mut from = 0;
        while let Some(length) = text[from..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&text[from..=from + length]);
            if !visit_line(line.map_err(|error| corrupt_error(self.path, &error))?)? {
                return Ok(false);
            }
            from += length + 1;
        }
        if text.len() - from > LINE_LIMIT_BYTES {
            return Err(corrupt_error(self.path, &"a line of it does not end"));
        }
        *self.decoder.get_mut() = text[from..].to_vec();
        Ok(true)
    }

    fn finish(mut self, visit_line: &mut (dyn FnMut(&str) -> Result<bool> + Send)) -> Result<()> {
        // Also verifies the checksum and the length in the gzip trailer.
        self.decoder.try_finish().map_err(|error| corrupt_error(self.path, &error))?;
        if !self.emit_lines(visit_line)? {
            return Ok(());
        }
        if self.decoder.get_ref().is_empty() {
            Ok(())
        } else {
            Err(corrupt_error(self.path, &"its last line does not end"))
        }
    }
}

/// A file that is being read. The last line is recognizable only at the end of the file, so one line is held
/// back.
struct FileReader<'r> {
    path: &'r Path,
    visit: &'r mut (dyn FnMut(CanonicalEvent) -> Result<()> + Send),
    header: Option<(Header, RunDigest)>,
    pending_line: Option<String>,
}

impl FileReader<'_> {
    fn line(&mut self, text: &str) -> Result<()> {
        if self.header.is_none() {
            let header: Header = line::decode(text).map_err(|error| self.parse_error(&error))?;
            header.check()?;
            let digest = RunDigest::new(&header.run_id, text);
            self.header = Some((header, digest));
            return Ok(());
        }
        match self.pending_line.replace(text.to_owned()) {
            Some(line) => self.event(&line),
            None => Ok(()),
        }
    }

    fn event(&mut self, text: &str) -> Result<()> {
        let event = line::decode_event(text).map_err(|error| self.parse_error(&error))?;
        let Some((header, digest)) = &mut self.header else { return Ok(()) };
        if event.run_id != header.run_id || event.run_seq != digest.snapshot.last_event_seq + 1 {
            let why = format!("event {} of run `{}` does not follow", event.run_seq, event.run_id);
            return Err(corrupt_error(self.path, &why));
        }
        digest.add_event(&event);
        digest.add_line(text);
        (self.visit)(event)
    }

    fn finish(self) -> Result<(Header, Contents)> {
        let Some(((header, digest), pending_line)) = self.header.zip(self.pending_line) else {
            return Err(corrupt_error(self.path, &"it ends too early"));
        };
        let footer: Footer =
            line::decode(&pending_line).map_err(|error| corrupt_error(self.path, &error))?;
        if !digest.matches_footer(&footer)
            || digest.snapshot.last_event_seq != header.last_event_seq
        {
            return Err(corrupt_error(self.path, &"its lines are not what its last line says"));
        }
        // Return the recomputed totals. A file of an earlier version has another snapshot hash than the
        // restored run.
        let Footer { count, sha256, snapshot_hash } = digest.footer();
        let run_id = header.run_id.clone();
        let status = header.status;
        Ok((header, Contents { run_id, status, count, sha256, snapshot_hash }))
    }

    /// Converts a parse error to damage, except that a newer contract version is passed on.
    fn parse_error(&self, error: &Error) -> Error {
        match error.code() {
            Code::Unsupported | Code::NewerFormat => error.clone(),
            _ => corrupt_error(self.path, error),
        }
    }
}

/// Reads the bytes of a file, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(super) fn read_compressed(bytes: &[u8]) -> Result<Contents> {
    let path = &Path::default();
    let visit = &mut |_| Ok(());
    let mut reader = FileReader { path, visit, header: None, pending_line: None };
    let mut visit_line = |line: &str| reader.line(line).map(|()| true);
    let mut lines = LineSplitter { path, decoder: GzDecoder::new(Vec::new()) };
    for part in bytes.chunks(UNPACK_BYTES) {
        lines.decode_chunk(part)?;
        lines.emit_lines(&mut visit_line)?;
    }
    lines.finish(&mut visit_line)?;
    reader.finish().map(|(_, contents)| contents)
}

/// Completes the lines of a file with their last line, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(super) fn read_lines(text: &str) -> Result<(String, Contents)> {
    let path = &Path::default();
    let visit = &mut |_| Ok(());
    let mut reader = FileReader { path, visit, header: None, pending_line: None };
    for line in text.split_inclusive('\n') {
        reader.line(line)?;
    }
    if let Some(event) = reader.pending_line.take() {
        reader.event(&event)?;
    }
    let Some((_, digest)) = reader.header.as_ref().filter(|_| text.ends_with('\n')) else {
        return Err(corrupt_error(path, &"it ends too early"));
    };
    let footer = line::encode_line(&digest.footer())?;
    reader.pending_line = Some(footer.clone());
    Ok((footer, reader.finish()?.1))
}

/// Parses the path of an archived file.
pub(super) fn path_of(run: &ArchivedRun) -> Result<Path> {
    Path::parse(&run.path).map_err(|error| {
        Error::new(Code::InvalidArgument, format!("`{}` is no path: {error}", run.path))
    })
}
