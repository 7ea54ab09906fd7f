//! Recomputes checksums, because inputs changed by a fuzzer would otherwise never pass verification.

use mainstay_model::Revision;

use super::DatabaseId;
use super::frame::{ALIGN, FrameHeader, HEAD_BYTES, MAGIC};
use super::segment::{HEADER_BYTES, Header, name_of, parse_name};

/// Turns the start of `bytes` into a valid frame after one with crc `chain`. Returns its size, its crc and
/// the revision after it, or `None` if the bytes are too short for a frame.
pub fn mend(
    bytes: &mut [u8],
    id: &DatabaseId,
    chain: u32,
    first: Revision,
) -> Option<(usize, u32, Revision)> {
    let room = bytes.len().checked_sub(HEAD_BYTES)? / ALIGN * ALIGN;
    let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let length = number(4).min(room as u32);
    let count = number(24).clamp(1, 1 << 20);
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..16].copy_from_slice(&first.to_le_bytes());
    bytes[24..28].copy_from_slice(&count.to_le_bytes());
    bytes[28..32].fill(0);
    let head_crc = crc32c::crc32c_append(id.seed(), &bytes[4..32]);
    bytes[32..36].copy_from_slice(&head_crc.to_le_bytes());
    bytes[36..40].copy_from_slice(&MAGIC.to_le_bytes());
    let head = FrameHeader::parse(bytes, id.seed())?;
    let crc = crc32c::crc32c_append(chain, &bytes[4..head.size()]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    Some((head.size(), crc, head.last() + 1))
}

/// Recomputes the checksum of a segment header, if the bytes are long enough for one.
pub fn mend_header(bytes: &mut [u8]) {
    if let Some(header) = bytes.first_chunk_mut::<{ HEADER_BYTES as usize }>() {
        let crc = crc32c::crc32c(&header[..60]);
        header[60..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Decodes a segment header and encodes it again; `None` if it is not valid.
pub fn read_header(bytes: &[u8]) -> Option<[u8; HEADER_BYTES as usize]> {
    Header::decode(bytes).ok().map(|header| header.encode())
}

/// Parses a segment name and formats it again; `None` if it is not valid.
pub fn segment_name(name: &str) -> Option<String> {
    parse_name(name).map(name_of)
}
