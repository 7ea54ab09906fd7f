//! The flush mark: the revision up to which the index holds everything, and after which the log is replayed.
//!
//! ```text
//!  | "MSTMARK1" | body length u32 LE | crc32c of the body u32 LE | body |
//!  body: a value (see docs/formats.md) with the mark, and per class its prefix and floor
//! ```

use crate::base::fault_points::{self, InjectedFault};
use crate::fs::error::io_error;
use mainstay_model::{Code, Error, Result, Revision, Value, codec};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

const MAGIC: &[u8; 8] = b"MSTMARK1";
const FILE: &str = "MARK";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushMark {
    pub database: [u8; 16],
    pub revision: Revision,
    /// Prefix and floor of each class, in class order.
    pub classes: Vec<(String, Revision)>,
}

impl FlushMark {
    /// Reads the mark and syncs its directory, so that the mark read survives a power failure.
    pub fn read_durably(directory: &Path) -> Result<Option<FlushMark>> {
        let mark = FlushMark::read(directory)?;
        if mark.is_some() {
            let synced = fault_points::unless(InjectedFault::NoSyncOfReadMark, || {
                fs::File::open(directory)?.sync_all()
            });
            synced.map_err(|error| io_error("sync", directory, &error))?;
        }
        Ok(mark)
    }

    /// Reads the mark; `None` if the file does not exist.
    pub fn read(directory: &Path) -> Result<Option<FlushMark>> {
        let bytes = match fs::read(directory.join(FILE)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &directory.join(FILE), &error)),
        };
        match FlushMark::decode(&bytes) {
            Some(mark) => Ok(Some(mark)),
            None => Err(Error::new(Code::CorruptIndex, "the index's MARK file is damaged")),
        }
    }

    /// Replaces the mark atomically and durably.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(FILE);
        let next = directory.join("MARK.next");
        let write = || -> std::io::Result<()> {
            let mut file = fs::File::create(&next)?;
            file.write_all(&self.encode())?;
            fault_points::unless(InjectedFault::NoSyncOfMark, || file.sync_all())?;
            fs::rename(&next, &path)?;
            fault_points::unless(InjectedFault::NoSyncOfMarkName, || {
                fs::File::open(directory)?.sync_all()
            })
        };
        write().map_err(|error| io_error("write", &path, &error))
    }

    pub fn encode(&self) -> Vec<u8> {
        let class = |(prefix, floor): &(String, Revision)| {
            Value::Array(vec![Value::String(prefix.clone()), Value::Int(*floor as i64)])
        };
        let body = Value::Object(BTreeMap::from([
            ("database".to_owned(), Value::Bytes(self.database.to_vec())),
            ("revision".to_owned(), Value::Int(self.revision as i64)),
            ("classes".to_owned(), Value::Array(self.classes.iter().map(class).collect())),
        ]));
        let mut bytes = Vec::new();
        // A mark is far below every limit of a value.
        let _ = codec::encode(&body, &mut bytes);
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        out.extend_from_slice(&bytes);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<FlushMark> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (crc, body) = rest.split_first_chunk::<4>()?;
        let whole = magic == MAGIC
            && body.len() == u32::from_le_bytes(*length) as usize
            && crc32c::crc32c(body) == u32::from_le_bytes(*crc);
        if !whole {
            return None;
        }
        let Ok(Value::Object(body)) = codec::decode(body) else { return None };
        let database = body.get("database")?.as_bytes()?.try_into().ok()?;
        let revision = body.get("revision")?.as_i64()? as u64;
        let classes = classes_of(body.get("classes")?)?;
        Some(FlushMark { database, revision, classes })
    }
}

/// Retention classes with their floors, as [`FlushMark`] and backups hold them.
pub(crate) fn classes_of(list: &Value) -> Option<Vec<(String, Revision)>> {
    let Value::Array(list) = list else { return None };
    let class = |value: &Value| match value {
        Value::Array(pair) => match pair.as_slice() {
            [Value::String(prefix), Value::Int(floor)] => Some((prefix.clone(), *floor as u64)),
            _ => None,
        },
        _ => None,
    };
    list.iter().map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> FlushMark {
        let classes = vec![(String::new(), 3), ("a/".into(), 0)];
        FlushMark { database: [7; 16], revision: 1 << 40, classes }
    }

    #[test]
    fn a_mark_comes_back_and_a_damaged_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(FlushMark::read(directory.path()).unwrap(), None);
        mark().write(directory.path()).unwrap();
        assert_eq!(FlushMark::read(directory.path()).unwrap(), Some(mark()));
        let whole = mark().encode();
        for i in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[i] ^= 1;
            assert_eq!(FlushMark::decode(&bytes), None, "byte {i}");
        }
    }
}
