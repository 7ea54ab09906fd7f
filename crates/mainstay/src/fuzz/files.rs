//! Fuzz target for the small files around log and index: `DATABASE`, `MARK`, segment headers, lists of
//! tables.

use mainstay_engine::lifecycle::database_file;
use mainstay_engine::log::{mend_header, read_header, segment_name};
use mainstay_engine::storage::flush_mark::FlushMark;
use mainstay_engine::storage::lsm::{current_of, tables_of};
use std::path::Path;

/// Decodes `DATABASE`, `MARK`, a segment header, `current` and the list of tables, unchanged and with
/// recomputed checksums. Checks that each survives a round trip.
pub fn files(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), mended(bytes, mend_identity), mended(bytes, mend_mark)] {
        if let Ok(id) = database_file::decode(&bytes, Path::new("DATABASE")) {
            assert_eq!(database_file::encode(&id), bytes);
        }
        if let Some(mark) = FlushMark::decode(&bytes) {
            assert_eq!(FlushMark::decode(&mark.encode()).as_ref(), Some(&mark));
        }
    }
    for bytes in [bytes.to_vec(), mended(bytes, mend_header)] {
        if let Some(header) = read_header(&bytes) {
            assert_eq!(read_header(&header), Some(header));
        }
    }
    lists(bytes);
}

fn lists(bytes: &[u8]) {
    if let Some((id, checksum)) = current_of(bytes) {
        let written = [&id.to_le_bytes()[..], &checksum.to_le_bytes(), &[0]].concat();
        assert_eq!(written, bytes);
    }
    let tables = tables_of(bytes).unwrap_or_default();
    assert!(tables.len() <= bytes.len() / 33, "a table takes 33 bytes of its list");
    if let Some(name) = std::str::from_utf8(bytes).ok().and_then(segment_name) {
        assert_eq!(name.as_bytes(), bytes);
    }
}

fn mended(bytes: &[u8], mend: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    mend(&mut bytes);
    bytes
}

fn mend_identity(bytes: &mut [u8]) {
    if let Some(file) = bytes.first_chunk_mut::<32>() {
        let crc = crc32c::crc32c(&file[..28]);
        file[28..].copy_from_slice(&crc.to_le_bytes());
    }
}

fn mend_mark(bytes: &mut [u8]) {
    if let Some((head, body)) = bytes.split_first_chunk_mut::<16>() {
        head[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[12..].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    }
}
