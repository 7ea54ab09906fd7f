//! Verifies a whole store without opening it, because opening may delete files.
//!
//! The manifest is an archive whose section `tables` lists, little-endian: levels `u8`, and per
//! level its runs `u8`, and per run its tables `u32`, and per table its id `u64`, checksum type
//! `u8` (0), xxh3-128 `u128` of its file and first number `u64`.
//!
//! A table begins with its blocks, back to back: `LSM\x03`, type `u8`, xxh3-128 `u128` of its data, their
//! length `u32`, their length uncompressed `u32`, the low `u32` of the xxh3-128 of these 29 bytes, the data.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use mainstay_model::Result;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::failure::{corrupt, io_failure};
use super::manifest;

/// Verifies the table manifest in `dir`, as opening does. Damage is `CorruptIndex`.
pub fn check_list(dir: &Path) -> Result<()> {
    manifest::inspect(dir, true).map(|_| ())
}

/// Reads every table of the store in `dir`, whose manifest must be valid. Damage is `CorruptIndex`.
pub fn check_tables(dir: &Path) -> Result<()> {
    let Some(id) = manifest::current_id(dir)? else {
        return Err(corrupt(dir, "its file `current` is missing"));
    };
    let path = dir.join(format!("v{id}"));
    let archive = sfa::Reader::new(&path).map_err(|_| corrupt(&path, "it cannot be read"))?;
    let section = archive.toc().section(b"tables");
    let section = section.ok_or_else(|| corrupt(&path, "it lists no tables"))?;
    let mut listed = section.buf_reader(&path).map_err(|e| io_failure(&e, "reading", &path))?;
    let tables = read_list(&mut listed).map_err(|e| io_failure(&e, "reading", &path))?;
    tables.iter().try_for_each(|table| check_table(&dir.join(manifest::TABLES), table))
}

const BLOCK_MAGIC: &[u8] = b"LSM\x03";
const BLOCK_HEADER_BYTES: u64 = 33;

/// The ids and checksums of a list of tables, for fuzzers.
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub fn tables_of(mut list: &[u8]) -> Option<Vec<(u64, u128)>> {
    let tables = read_list(&mut list).ok()?;
    Some(tables.iter().map(|table| (table.id, table.checksum)).collect())
}

struct Listed {
    id: u64,
    checksum: u128,
}

fn read_list(list: &mut impl Read) -> io::Result<Vec<Listed>> {
    let mut tables = Vec::new();
    for _level in 0..u8::from_le_bytes(take(list)?) {
        for _run in 0..u8::from_le_bytes(take(list)?) {
            for _table in 0..u32::from_le_bytes(take(list)?) {
                let id = u64::from_le_bytes(take(list)?);
                let [_type] = take(list)?;
                let checksum = u128::from_le_bytes(take(list)?);
                let _first: [u8; 8] = take(list)?;
                tables.push(Listed { id, checksum });
            }
        }
    }
    Ok(tables)
}

fn take<const N: usize>(list: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    list.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn check_table(tables: &Path, listed: &Listed) -> Result<()> {
    let path = tables.join(listed.id.to_string());
    let checksum = checksum(&path).map_err(|error| io_failure(&error, "reading", &path))?;
    if checksum == listed.checksum {
        return Ok(());
    }
    let place = sound_bytes(&path).map_err(|error| io_failure(&error, "reading", &path))?;
    Err(corrupt(&path, &format!("what begins at byte {place} does not match its checksum")))
}

/// The offset up to which the blocks of a table are valid: the start of the damage, or the end of all blocks.
fn sound_bytes(path: &Path) -> io::Result<u64> {
    let mut file = BufReader::new(File::open(path)?);
    let mut sound = 0;
    while let Some(length) = read_block(&mut file)? {
        sound += length;
    }
    Ok(sound)
}

/// Reads a block. Returns its length, or `None` if it is damaged.
fn read_block(file: &mut impl Read) -> io::Result<Option<u64>> {
    let mut header = Vec::new();
    file.take(BLOCK_HEADER_BYTES).read_to_end(&mut header)?;
    let Some((fields, check)) = header.split_last_chunk::<4>() else { return Ok(None) };
    let is_header = fields.len() == 29 && fields.starts_with(BLOCK_MAGIC);
    if !is_header || xxh3_128(fields) as u32 != u32::from_le_bytes(*check) {
        return Ok(None);
    }
    let mut fields = &fields[BLOCK_MAGIC.len() + 1..];
    let checksum = u128::from_le_bytes(take(&mut fields)?);
    let length = u64::from(u32::from_le_bytes(take(&mut fields)?));
    let mut data = Vec::new();
    file.take(length).read_to_end(&mut data)?;
    let is_sound = data.len() as u64 == length && xxh3_128(&data) == checksum;
    Ok(is_sound.then_some(BLOCK_HEADER_BYTES + length))
}

fn checksum(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.digest128()),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
