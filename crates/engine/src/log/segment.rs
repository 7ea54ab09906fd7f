//! The segment: one file of the log.
//!
//! Named `log-<first revision, 20 digits>.seg`, so that names sort like revisions. A header, then
//! frames one behind the other, then zeros up to the preallocated length. Little endian:
//!
//! ```text
//!  offset  bytes
//!       0      8  magic     "MAINSTAY"
//!       8      4  version   format version, 1
//!      12      4  chain     crc of the last frame before this segment, 0 for the first one
//!      16     16  database  the database id
//!      32      8  first     revision of the first transaction in it
//!      40      8  previous  `first` of the segment before; its own `first` when there is none
//!      48      8  owner     a number of the opening that made it; 0 by earlier programs
//!      56      4  reserved  zeros
//!      60      4  crc       crc32c of bytes 0..60
//!      64      …  frames
//! ```
//!
//! Every later version keeps magic, version and crc where they are, so that an old program can tell
//! a newer file from a damaged one.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Code, Error, Result, Revision};
use parking_lot::Mutex;

use super::failure::{io_failure, sync_failure};
use super::files::{File, Files};
use super::{DatabaseId, LogOptions};

/// Bytes before the first frame.
pub(super) const HEADER_BYTES: u64 = 64;
/// The file that becomes the next segment.
pub(super) const PREPARED: &str = "log-next.tmp";
/// A file that is still being filled, to become the prepared one.
pub(super) const FILLING: &str = "log-fill.tmp";
/// One known place per so many bytes.
const PLACE_BYTES: u64 = 64 * 1024;
/// The end of a segment that was not read yet.
const UNKNOWN: u64 = u64::MAX;

const MAGIC: &[u8; 8] = b"MAINSTAY";
const VERSION: u32 = 1;

/// The name of the segment that starts with this revision.
pub(super) fn name_of(first: Revision) -> String {
    format!("log-{first:020}.seg")
}

/// The revision a segment of this name starts with.
pub(super) fn parse_name(name: &str) -> Option<Revision> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".seg")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) database: DatabaseId,
    pub(super) first: Revision,
    pub(super) previous: Revision,
    pub(super) chain: u32,
    pub(super) owner: u64,
}

/// Why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Zeros, cut short, or not what was written.
    Damaged,
    /// Of a later format version.
    Newer(u32),
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.chain.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.database.0);
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.owner.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> std::result::Result<Header, HeaderFault> {
        let bytes: &[u8; HEADER_BYTES as usize] =
            bytes.first_chunk().ok_or(HeaderFault::Damaged)?;
        let sound = bytes.starts_with(MAGIC) && crc32c::crc32c(&bytes[..60]) == number(bytes, 60);
        match number(bytes, 8) {
            VERSION if sound => Ok(Header {
                database: DatabaseId(std::array::from_fn(|at| bytes[16 + at])),
                first: wide(bytes, 32),
                previous: wide(bytes, 40),
                chain: number(bytes, 12),
                owner: wide(bytes, 48),
            }),
            version if sound && version > VERSION => Err(HeaderFault::Newer(version)),
            _ => Err(HeaderFault::Damaged),
        }
    }
}

fn number(bytes: &[u8; HEADER_BYTES as usize], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn wide(bytes: &[u8; HEADER_BYTES as usize], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

/// Where a frame starts, and what is needed to read on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePosition {
    pub(super) first: Revision,
    pub(super) offset: u64,
    /// The crc of the frame before.
    pub(super) chain: u32,
}

/// What is known in memory about a segment; shared by the writer and the readers.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) first: Revision,
    pub(super) chain: u32,
    /// The length of the file.
    size: AtomicU64,
    /// Bytes before this are whole frames that no longer change.
    end: AtomicU64,
    places: Mutex<Vec<FramePosition>>,
}

impl Segment {
    pub(super) fn new(header: &Header, size: u64) -> Segment {
        let start =
            FramePosition { first: header.first, offset: HEADER_BYTES, chain: header.chain };
        Segment {
            name: name_of(header.first),
            first: header.first,
            chain: header.chain,
            size: AtomicU64::new(size),
            end: AtomicU64::new(UNKNOWN),
            places: Mutex::new(vec![start]),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Relaxed);
    }

    /// How far it may be read: to the end of the file when the end of its frames is not known.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Lets readers see the frames before this offset.
    pub(super) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// Remembers a place, unless one close before it is known.
    pub(super) fn note(&self, place: FramePosition) {
        let mut places = self.places.lock();
        if places.last().is_none_or(|last| place.offset >= last.offset + PLACE_BYTES) {
            places.push(place);
        }
    }

    /// The last known place at or before the frame that holds this revision.
    pub(super) fn place_of(&self, revision: Revision) -> FramePosition {
        let places = self.places.lock();
        let after = places.partition_point(|place| place.first <= revision);
        let start = FramePosition { first: self.first, offset: HEADER_BYTES, chain: self.chain };
        after.checked_sub(1).and_then(|at| places.get(at)).copied().unwrap_or(start)
    }
}

/// Reserves the file of a segment under its temporary name.
pub(super) fn prepare_file(files: &dyn Files, size: u64) -> Result<Arc<dyn File>> {
    make_file(files, PREPARED, size, |_| Ok(()))
}

/// Reserves the file of a segment under its temporary name and fills it with zeros.
pub(super) fn prefill_file(files: &dyn Files, name: &str, size: u64) -> Result<Arc<dyn File>> {
    make_file(files, name, size, |file| file.prefill(size))
}

pub(super) fn make_file(
    files: &dyn Files,
    name: &str,
    size: u64,
    fill: impl FnOnce(&dyn File) -> std::io::Result<()>,
) -> Result<Arc<dyn File>> {
    // One that is here already belongs to nobody: the caller would know of it.
    if let Err(error) = files.remove(name)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(io_failure("removing", name, &error));
    }
    let created = files.create(name).and_then(|file| {
        file.allocate(size)?;
        fill(&*file)?;
        Ok(file)
    });
    created.map_err(|error| {
        // Half a file only takes space; when it cannot be removed now, the next open does it.
        let _ = files.remove(name);
        io_failure("reserving space for", name, &error)
    })
}

/// Makes the prepared file the segment with this header.
///
/// The header is on stable storage before the name is, and both before any frame goes in.
pub(super) fn install(files: &dyn Files, file: &dyn File, header: &Header) -> Result<()> {
    let name = name_of(header.first);
    file.write_at(&header.encode(), 0)
        .map_err(|e| io_failure("writing the header of", &name, &e))?;
    let synced = fault_points::unless(InjectedFault::NoSyncOfSegment, || file.sync());
    synced.map_err(|error| sync_failure(&name, &error))?;
    if let Err(error) = files.rename(PREPARED, &name) {
        // One that has the name all the same must not stay beside a log that goes on without it.
        let is_free = files.list().is_ok_and(|names| !names.contains(&name));
        return Err(match is_free {
            true => io_failure("naming", &name, &error),
            false => sync_failure(&name, &error),
        });
    }
    let synced = fault_points::unless(InjectedFault::NoSyncOfSegmentName, || files.sync_dir());
    synced.map_err(|error| sync_failure("the directory of the log", &error))
}

/// Refuses sizes that could not hold a frame.
pub(super) fn check_options(options: &LogOptions) -> Result<()> {
    if options.segment_bytes >= LogOptions::MIN_SEGMENT_BYTES {
        return Ok(());
    }
    let message = format!(
        "a log segment of {} bytes is too small, give at least {}",
        options.segment_bytes,
        LogOptions::MIN_SEGMENT_BYTES
    );
    Err(Error::new(Code::InvalidOption, message))
}
