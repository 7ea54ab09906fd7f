//! Recomputes the checksums of a mutated backup, without which a fuzzer's changes are never parsed.

use super::file::checksum;
use super::increment;
use crate::fs::checksummed_file::mend_hash;
use crate::log::{DatabaseId, mend as mend_frame};

const HASH_BYTES: usize = 32;

/// Recomputes the checksums of a backup of either kind, as far as the bytes look like one.
pub fn mend(bytes: &mut [u8]) {
    let end = bytes.len().saturating_sub(HASH_BYTES);
    if bytes.starts_with(increment::MAGIC) {
        mend_increment(&mut bytes[..end])
    } else {
        mend_full(&mut bytes[..end])
    };
    mend_hash(bytes);
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Writes the checksum of a header after it, and returns it.
fn mend_head(bytes: &mut [u8], length: usize) -> Option<u32> {
    let crc = crc32c::crc32c(bytes.get(..length)?);
    bytes.get_mut(length..length + 4)?.copy_from_slice(&crc.to_le_bytes());
    Some(crc)
}

fn mend_full(bytes: &mut [u8]) -> Option<()> {
    let mut chain = mend_head(bytes, 36)?;
    let mut at = 40;
    loop {
        let room = bytes.len().checked_sub(at + 8)?;
        let length = (number(bytes, at)? as usize).min(room);
        let head = (length as u32).to_le_bytes();
        chain = checksum(chain, &head, &bytes[at + 8..at + 8 + length]);
        bytes[at..at + 4].copy_from_slice(&head);
        bytes[at + 4..at + 8].copy_from_slice(&chain.to_le_bytes());
        at += 8 + length;
    }
}

fn mend_increment(bytes: &mut [u8]) -> Option<()> {
    mend_head(bytes, 64)?;
    let id = DatabaseId(std::array::from_fn(|i| bytes[12 + i]));
    let mut chain = number(bytes, 60)?;
    let mut next = u64::from_le_bytes(std::array::from_fn(|i| bytes[52 + i]));
    let mut at = 68;
    loop {
        let (size, crc, behind) = mend_frame(bytes.get_mut(at..)?, &id, chain, next)?;
        at += size;
        chain = crc;
        next = behind;
    }
}
