//! The segment: one file of the write-ahead log.
//!
//! The name is `log-<first revision, 20 digits>.seg`, so that names sort like revisions. The file has a
//! header, then frames back to back, then zeros up to the allocated length. All numbers are little endian:
//!
//! ```text
//!  offset  bytes
//!       0      8  magic     "MAINSTAY"
//!       8      4  version   format version, 1
//!      12      4  chain     crc of the last frame before this segment, 0 for the first one
//!      16     16  database  the database id
//!      32      8  first     revision of the first transaction in it
//!      40      8  previous  `first` of the previous segment; its own `first` if it has none
//!      48      8  owner     number of the database opening that created it; 0 in earlier versions
//!      56      4  reserved  zeros
//!      60      4  crc       crc32c of bytes 0..60
//!      64      …  frames
//! ```
//!
//! Every later version keeps the offsets of magic, version and crc, so that an old program can distinguish a
//! newer file from a damaged one.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Code, Error, Result, Revision};
use parking_lot::Mutex;

use super::failure::{io_failure, sync_failure};
use super::files::{File, Files};
use super::{DatabaseId, LogOptions};

/// Offset of the first frame.
pub(super) const HEADER_BYTES: u64 = 64;
/// The allocated file that becomes the next segment.
pub(super) const PREPARED: &str = "log-next.tmp";
/// A file still being filled, which becomes the prepared file.
pub(super) const FILLING: &str = "log-fill.tmp";
/// Spacing of the remembered frame positions.
const PLACE_BYTES: u64 = 64 * 1024;
/// The end of a segment that was not scanned yet.
const UNKNOWN: u64 = u64::MAX;

const MAGIC: &[u8; 8] = b"MAINSTAY";
const VERSION: u32 = 1;

/// The name of the segment that starts with this revision.
pub(super) fn name_of(first: Revision) -> String {
    format!("log-{first:020}.seg")
}

/// The first revision of a segment with this name; `None` if it is not a segment name.
pub(super) fn parse_name(name: &str) -> Option<Revision> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".seg")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// The decoded header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) database: DatabaseId,
    pub(super) first: Revision,
    pub(super) previous: Revision,
    pub(super) chain: u32,
    pub(super) owner: u64,
}

/// The reason why bytes are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Zeros, too short, or a checksum mismatch.
    Damaged,
    /// A later format version.
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

/// The position of a frame, and the state needed to continue reading there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePosition {
    pub(super) first: Revision,
    pub(super) offset: u64,
    /// The crc of the frame before.
    pub(super) chain: u32,
}

/// In-memory state of a segment, shared by the writer and the readers.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) first: Revision,
    pub(super) chain: u32,
    /// File size in bytes.
    size: AtomicU64,
    /// Bytes before this offset are complete frames that no longer change.
    end: AtomicU64,
    /// Sparse index of frame positions, in ascending order.
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

    /// The limit for readers: the maximum offset if the end of the frames is not known.
    pub(super) fn end(&self) -> u64 {
        // Pairs with the `Release` in `set_end`: the bytes before the end are in the file.
        self.end.load(Ordering::Acquire)
    }

    /// Makes the frames before this offset visible to readers.
    pub(super) fn set_end(&self, end: u64) {
        // Pairs with the `Acquire` in `end`: publishes the bytes written before.
        self.end.store(end, Ordering::Release);
    }

    /// Remembers a frame position, unless a nearby one is known.
    pub(super) fn note(&self, place: FramePosition) {
        let mut places = self.places.lock();
        if places.last().is_none_or(|last| place.offset >= last.offset + PLACE_BYTES) {
            places.push(place);
        }
    }

    /// The last remembered position at or before the frame that holds this revision.
    pub(super) fn place_of(&self, revision: Revision) -> FramePosition {
        let places = self.places.lock();
        let after = places.partition_point(|place| place.first <= revision);
        let start = FramePosition { first: self.first, offset: HEADER_BYTES, chain: self.chain };
        after.checked_sub(1).and_then(|at| places.get(at)).copied().unwrap_or(start)
    }
}

/// Allocates the next segment under its temporary name.
pub(super) fn prepare_file(files: &dyn Files, size: u64) -> Result<Arc<dyn File>> {
    make_file(files, PREPARED, size, |_| Ok(()))
}

/// Allocates a segment file under this name and fills it with zeros.
pub(super) fn prefill_file(files: &dyn Files, name: &str, size: u64) -> Result<Arc<dyn File>> {
    make_file(files, name, size, |file| file.prefill(size))
}

pub(super) fn make_file(
    files: &dyn Files,
    name: &str,
    size: u64,
    fill: impl FnOnce(&dyn File) -> std::io::Result<()>,
) -> Result<Arc<dyn File>> {
    // A leftover file has no user: the caller would know of one in use.
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
        // An incomplete file only takes space. If it cannot be removed now, the next open removes it.
        let _ = files.remove(name);
        io_failure("reserving space for", name, &error)
    })
}

/// Turns the prepared file into the segment with this header.
///
/// The header is durable before the name is, and both before any frame is written.
pub(super) fn install(files: &dyn Files, file: &dyn File, header: &Header) -> Result<()> {
    let name = name_of(header.first);
    file.write_at(&header.encode(), 0)
        .map_err(|e| io_failure("writing the header of", &name, &e))?;
    let synced = fault_points::unless(InjectedFault::NoSyncOfSegment, || file.sync());
    synced.map_err(|error| sync_failure(&name, &error))?;
    if let Err(error) = files.rename(PREPARED, &name) {
        // The rename failed, but the new name may exist. The log must not continue without that segment, so
        // this counts as a failed sync, after which the writer refuses everything.
        let is_free = files.list().is_ok_and(|names| !names.contains(&name));
        return Err(if is_free {
            io_failure("naming", &name, &error)
        } else {
            sync_failure(&name, &error)
        });
    }
    let synced = fault_points::unless(InjectedFault::NoSyncOfSegmentName, || files.sync_dir());
    synced.map_err(|error| sync_failure("the directory of the log", &error))
}

/// Refuses segment sizes too small to hold a frame.
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
