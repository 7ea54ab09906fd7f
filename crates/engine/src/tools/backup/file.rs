//! The file format of a full backup: a header, blocks with chained checksums, and a hash of everything.
//!
//! ```text
//!   head   | "MSTBACKU" | format u32 | database 16 bytes | revision u64 | crc32c u32 |
//!   block  | length u32 | crc32c u32 | kind u8 | body |                    length: kind and body
//!     1 versions   | varint key length | key | varint entry length | entry | ...
//!     9 end        a value: classes with their floors, number of keys and versions
//!   blake3 of all before, 32 bytes
//! ```
//!
//! Keys ascend and the versions of a key descend, which is the order in which stores are bulk-loaded.
//! The checksum of a block covers its length, kind and body, and continues from the checksum of the
//! block before; the first one continues from the header's. So damage is located, and no block can be
//! missing or moved.

use super::increment;
use super::progress::ReadProgress;
use crate::fs::checksummed_file::{ChecksummedReader, ChecksummedWriter};
use crate::key::entry;
use crate::key::keyspace;
use crate::storage::flush_mark::{FlushMark, classes_of};
use crate::storage::index::NEWEST;
use mainstay_model::{Code, Error, Result, Revision, Stamp, Value, codec};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) const MAGIC: &[u8; 8] = b"MSTBACKU";
/// The format that this program writes, and the newest it reads.
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 40;
const VERSIONS: u8 = 1;
const END: u8 = 9;
/// A block is closed when it has this size. A single version may be larger.
const BLOCK_BYTES: usize = 64 << 10;

/// The contents of a verified backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupContents {
    /// The mark of an index with these contents.
    pub mark: FlushMark,
    /// The stamp of the backup's revision; `None` if no version of that revision is left.
    pub stamp: Option<Stamp>,
    pub keys: u64,
    pub versions: u64,
    pub bytes: u64,
}

/// A backup that is being written.
pub(super) struct Blocks {
    file: ChecksummedWriter,
    /// The kind and the body of the current block.
    block: Vec<u8>,
    chain: u32,
}

impl Blocks {
    pub fn begin(
        mut file: ChecksummedWriter,
        database: &[u8; 16],
        revision: Revision,
    ) -> Result<Blocks> {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&FORMAT.to_le_bytes());
        head.extend_from_slice(database);
        head.extend_from_slice(&revision.to_le_bytes());
        let chain = crc32c::crc32c(&head);
        head.extend_from_slice(&chain.to_le_bytes());
        file.put(&head)?;
        Ok(Blocks { file, block: vec![VERSIONS], chain })
    }

    pub fn version(&mut self, key: &[u8], entry: &[u8]) -> Result<()> {
        for part in [key, entry] {
            codec::put_varint(&mut self.block, part.len() as u64);
            self.block.extend_from_slice(part);
        }
        if self.block.len() >= BLOCK_BYTES { self.close(VERSIONS) } else { Ok(()) }
    }

    /// Writes the current block and begins one of kind `next`.
    fn close(&mut self, next: u8) -> Result<()> {
        if self.block.len() > 1 {
            let Ok(length) = u32::try_from(self.block.len()) else {
                let message = "a version of 4 GiB or more does not fit into a backup";
                return Err(Error::new(Code::ValueTooLarge, message));
            };
            let length = length.to_le_bytes();
            self.chain = checksum(self.chain, &length, &self.block);
            self.file.put(&length)?;
            self.file.put(&self.chain.to_le_bytes())?;
            self.file.put(&self.block)?;
        }
        self.block.clear();
        self.block.push(next);
        Ok(())
    }

    /// Writes the trailer and renames the file to its final name. Returns its size.
    pub fn end(mut self, mark: &FlushMark, keys: u64, versions: u64) -> Result<u64> {
        self.close(END)?;
        let class = |(prefix, floor): &(String, Revision)| {
            Value::Array(vec![Value::String(prefix.clone()), Value::Int(*floor as i64)])
        };
        let end = Value::Object(BTreeMap::from([
            ("classes".to_owned(), Value::Array(mark.classes.iter().map(class).collect())),
            ("keys".to_owned(), Value::Int(keys as i64)),
            ("versions".to_owned(), Value::Int(versions as i64)),
        ]));
        codec::encode(&end, &mut self.block)?;
        self.close(END)?;
        self.file.finish()
    }
}

pub(super) fn checksum(chain: u32, length: &[u8; 4], block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(chain, length), block)
}

/// Called with the key and the entry of each version.
pub(super) type VersionVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Reads and verifies a backup, and visits its versions in order.
pub(super) fn read(
    path: &Path,
    watch: &mut ReadProgress<'_>,
    visit: VersionVisitor<'_>,
) -> Result<BackupContents> {
    let mut file = ChecksummedReader::open(path)?;
    let (database, revision, mut chain) = head(&mut file)?;
    let mut checker =
        VersionChecker { revision, stamp: None, key: Vec::new(), last: 0, keys: 0, versions: 0 };
    loop {
        let at = file.position();
        let block = block(&mut file, &mut chain)?;
        watch.read(&file);
        let refused = |what: &str| file.damaged_at(at, what);
        match block.split_first() {
            Some((&VERSIONS, body)) => each(body, &mut |key, entry| {
                checker.check(key, entry).map_err(refused)?;
                visit(key, entry)
            })
            .unwrap_or_else(|| Err(refused("a version cannot be read")))?,
            Some((&END, body)) => {
                let (classes, keys, versions) =
                    end(body).ok_or_else(|| refused("its end cannot be read"))?;
                if (keys, versions) != (checker.keys, checker.versions) {
                    return Err(refused("it does not hold as much as it says"));
                }
                file.check_end()?;
                let mark = FlushMark { database, revision, classes };
                return Ok(BackupContents {
                    mark,
                    stamp: checker.stamp,
                    keys,
                    versions,
                    bytes: file.position(),
                });
            }
            _ => return Err(refused("a block of an unknown kind")),
        }
    }
}

/// Returns the database, the revision, and the checksum that the first block continues from.
pub(super) fn head(file: &mut ChecksummedReader<'_>) -> Result<([u8; 16], Revision, u32)> {
    let mut bytes = [0; HEAD_BYTES];
    file.take(&mut bytes)?;
    check_version(file, &bytes, &[MAGIC, increment::MAGIC], FORMAT)?;
    if bytes.starts_with(increment::MAGIC) {
        return Err(not_full(file.path()));
    }
    let rest = &bytes[8..];
    let number =
        |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
    let chain = crc32c::crc32c(&bytes[..HEAD_BYTES - 4]);
    if number(28) != chain {
        return Err(file.damaged_at(0, "its head does not match its checksum"));
    }
    let mut database = [0; 16];
    database.copy_from_slice(&rest[4..20]);
    let revision = u64::from(number(20)) | u64::from(number(24)) << 32;
    if revision >= NEWEST {
        return Err(file.damaged_at(28, "its revision is one that cannot be"));
    }
    Ok((database, revision, chain))
}

/// Refuses a foreign file, and with a specific error a file of a newer version of this program.
pub(super) fn check_version(
    file: &ChecksummedReader<'_>,
    head: &[u8],
    known: &[&[u8; 8]],
    newest: u32,
) -> Result<()> {
    let path = file.path().display();
    if !known.iter().any(|magic| head.starts_with(*magic)) {
        let message = format!("{path} is not a backup of Mainstay, or it is damaged at byte 0");
        return Err(Error::new(Code::CorruptData, message));
    }
    let format = head[8..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if format > newest {
        let message = format!(
            "{path} has format {format}, this program knows up to {newest}: use a newer one"
        );
        return Err(Error::new(Code::NewerFormat, message));
    }
    if format == 0 {
        let message =
            format!("{path} has format 0, which there never was: it is damaged at byte 8");
        return Err(Error::new(Code::CorruptData, message));
    }
    Ok(())
}

#[cold]
fn not_full(path: &Path) -> Error {
    let message = format!(
        "{} is an increment, which is of use behind a full backup only: name the full one first",
        path.display()
    );
    Error::new(Code::InvalidArgument, message)
}

/// Returns the kind and body of the next block.
fn block(file: &mut ChecksummedReader<'_>, chain: &mut u32) -> Result<Vec<u8>> {
    let at = file.position();
    let mut length = [0; 4];
    let mut expected = [0; 4];
    file.take(&mut length)?;
    file.take(&mut expected)?;
    let bytes = u32::from_le_bytes(length);
    if u64::from(bytes) > file.total().saturating_sub(file.position()) {
        return Err(file.damaged_at(at, "a block reaches beyond the end of the file"));
    }
    let mut block = vec![0; bytes as usize];
    file.take(&mut block)?;
    *chain = checksum(*chain, &length, &block);
    if chain.to_le_bytes() == expected {
        Ok(block)
    } else {
        Err(file.damaged_at(at, "a block does not match its checksum"))
    }
}

/// Visits the versions of a block; `None` if one cannot be read.
fn each(mut body: &[u8], visit: VersionVisitor<'_>) -> Option<Result<()>> {
    while !body.is_empty() {
        let key = part(&mut body)?;
        let entry = part(&mut body)?;
        if let Err(error) = visit(key, entry) {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

fn part<'b>(body: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(codec::get_varint(body)?).ok()?;
    let (part, rest) = body.split_at_checked(length)?;
    *body = rest;
    Some(part)
}

/// The classes with their floors, the number of keys, and the number of versions.
type BackupTrailer = (Vec<(String, Revision)>, u64, u64);

fn end(body: &[u8]) -> Option<BackupTrailer> {
    let Ok(Value::Object(end)) = codec::decode(body) else { return None };
    let number = |name: &str| end.get(name)?.as_i64().map(|n| n as u64);
    let classes = classes_of(end.get("classes")?)?;
    Some((classes, number("keys")?, number("versions")?))
}

/// Checks each version by itself and against the one before it.
struct VersionChecker {
    revision: Revision,
    /// The stamp of `revision`, once a version of it has been read.
    stamp: Option<Stamp>,
    key: Vec<u8>,
    last: Revision,
    keys: u64,
    versions: u64,
}

impl VersionChecker {
    fn check(&mut self, key: &[u8], entry: &[u8]) -> std::result::Result<(), &'static str> {
        let Some((space, ..)) = keyspace::split(key).filter(|_| key.len() <= usize::from(u16::MAX))
        else {
            return Err("a key cannot be read");
        };
        let Ok((head, _)) = entry::parse(entry) else { return Err("an entry cannot be read") };
        // Blocks of timestamps have a revision above all the revisions that they describe.
        let limit = self.revision + u64::from(space == keyspace::TIMES);
        if head.revision > limit {
            return Err("a version is newer than the backup");
        }
        if head.revision == self.revision && space != keyspace::TIMES {
            self.stamp = Some(head.stamp);
        }
        match key.cmp(&self.key) {
            Ordering::Greater => {
                self.keys += 1;
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            Ordering::Equal if head.revision < self.last => {}
            _ => return Err("versions are out of order"),
        }
        self.last = head.revision;
        self.versions += 1;
        Ok(())
    }
}
