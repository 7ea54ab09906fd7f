//! Repairs the checksums of a snapshot file, so that mutated fuzzer inputs pass the checksum test.

const MAGIC_BYTES: usize = 8;
const HEAD_BYTES: usize = 9;
const END: u8 = 3;
const HASH_BYTES: usize = 32;

/// Sets the correct checksum in every block and the hash at the end, as far as the bytes parse as a
/// snapshot.
pub(crate) fn mend(bytes: &mut [u8]) {
    mend_blocks(bytes, MAGIC_BYTES);
}

/// Repairs any file of such blocks, starting at offset `at`.
pub(crate) fn mend_blocks(bytes: &mut [u8], mut at: usize) {
    while let Some(size) = mend_block(bytes, at) {
        at += size;
    }
}

/// Repairs the block at an offset. Returns its size in bytes.
fn mend_block(bytes: &mut [u8], at: usize) -> Option<usize> {
    let room = bytes.len().checked_sub(at + HEAD_BYTES)?;
    let length = u32::from_le_bytes(*bytes.get(at + 1..)?.first_chunk()?) as usize;
    let length = length.min(room);
    let body = at + HEAD_BYTES;
    bytes[at + 1..at + 5].copy_from_slice(&(length as u32).to_le_bytes());
    if let (END, Some(hash)) = (bytes[at], length.checked_sub(HASH_BYTES)) {
        let right = blake3::hash(&bytes[..at]);
        bytes[body + hash..body + length].copy_from_slice(right.as_bytes());
    }
    let crc = crc32c::crc32c(&bytes[at..at + 5]);
    let crc = crc32c::crc32c_append(crc, &bytes[body..body + length]);
    bytes[at + 5..body].copy_from_slice(&crc.to_le_bytes());
    Some(HEAD_BYTES + length)
}
