//! Reads and verifies an exported file, record by record.

use super::record::{
    END, FORMAT, HEAD, INDEX, MAGIC, TAG, index_of, is_version, source_of, tag_of, version_of,
};
use super::{ExportContents, Progress, keyed};
use crate::fs::checksummed_file::ChecksummedReader;
use mainstay_model::{Code, Error, Result, Revision, Value, codec};
use std::path::Path;

/// The largest record: a value and its name, with some margin.
const RECORD_LIMIT_BYTES: usize = 17 << 20;

/// Reads the records of an export.
pub(super) struct ExportReader<'a> {
    file: ChecksummedReader<'a>,
}

impl<'a> ExportReader<'a> {
    pub fn open(path: &'a Path) -> Result<ExportReader<'a>> {
        let mut records = ExportReader { file: ChecksummedReader::open(path)? };
        let mut magic = [0; 8];
        records.file.take(&mut magic)?;
        if let Some(format) = format_of(&magic).filter(|format| *format > FORMAT) {
            return Err(newer(path, format));
        }
        if magic != *MAGIC {
            let message = format!("{} is not an export of Mainstay", path.display());
            return Err(Error::new(Code::CorruptData, message));
        }
        Ok(records)
    }

    pub fn damaged(&self, what: &str) -> Error {
        self.file.damaged(what)
    }

    pub fn next(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut length = [0; 4];
        self.file.take(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 || length > RECORD_LIMIT_BYTES {
            return Err(self.damaged("a record has an impossible length"));
        }
        let mut body = vec![0; length];
        self.file.take(&mut body)?;
        let kind = body.remove(0);
        Ok((kind, body))
    }
}

/// Reads the whole file once and verifies everything.
pub(super) fn check_file(
    path: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<ExportContents> {
    let mut records = ExportReader::open(path)?;
    let mut contents = check_head(&mut records)?;
    loop {
        let (kind, body) = records.next()?;
        match kind {
            kind if is_version(kind) => {
                let version = version_of(kind, &body);
                let (_, command) =
                    version.ok_or_else(|| records.damaged("a version cannot be read"))?;
                contents.versions += 1;
                contents.spaces += u64::from(keyed::shows(&command));
            }
            INDEX => {
                index_of(&body).ok_or_else(|| records.damaged("an index cannot be read"))?;
            }
            TAG => {
                tag_of(&body).ok_or_else(|| records.damaged("a tag cannot be read"))?;
                contents.tags += 1;
            }
            END if body == contents.versions.to_le_bytes() => {
                records.file.check_end()?;
                contents.bytes = records.file.position();
                return Ok(contents);
            }
            _ => return Err(records.damaged("a record of an unknown kind")),
        }
        if contents.versions.is_multiple_of(1024) {
            let done = records.file.position();
            let total = Some(records.file.total());
            progress(Progress { phase: "checking", done, total });
        }
    }
}

/// Refuses a header that cannot be read, and with a specific error one of a newer version of this
/// program.
fn check_head(records: &mut ExportReader<'_>) -> Result<ExportContents> {
    let (kind, body) = records.next()?;
    let damaged = || records.damaged("its head cannot be read");
    let Ok(Value::Object(head)) = codec::decode(&body) else { return Err(damaged()) };
    match head.get("format").and_then(Value::as_i64) {
        Some(format) if format > FORMAT => return Err(newer(records.file.path(), format)),
        Some(FORMAT) if kind == HEAD => {}
        _ => return Err(damaged()),
    }
    let branch = source_of(&body).ok_or_else(damaged)?;
    let revision = head.get("revision").and_then(Value::as_i64).ok_or_else(damaged)? as Revision;
    Ok(ExportContents { branch, revision, ..ExportContents::default() })
}

/// Returns the format that the magic of an export contains.
fn format_of(magic: &[u8; 8]) -> Option<i64> {
    let digit = magic.strip_prefix(&MAGIC[..7])?.first()?;
    digit.is_ascii_digit().then(|| i64::from(digit - b'0'))
}

#[cold]
fn newer(path: &Path, format: i64) -> Error {
    let message = format!(
        "{} has format {format}, this program knows up to {FORMAT}: import it with a newer one",
        path.display()
    );
    Error::new(Code::NewerFormat, message)
}
