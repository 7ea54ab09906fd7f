//! Snapshot writer.

use super::entry::{put_former, put_head, put_key, put_pending, put_response, put_session};
use super::{END, ENTRIES, FORMAT, HEAD, MAGIC, SnapshotWritten};
use crate::core::Core;
use mainstay_model::Result;
use mainstay_model::blocks::{BLOCK_BYTES, BlockWriter};
use std::io::Write;

/// Collects entries in blocks.
struct EntryWriter<W> {
    out: BlockWriter<W>,
    block: Vec<u8>,
    entries: u64,
}

impl<W: Write> EntryWriter<W> {
    /// Adds an entry. Writes the block if it is full.
    fn push(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        put(&mut self.block);
        self.entries += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.put_block()?;
        }
        Ok(())
    }

    fn put_block(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            self.out.put_block(ENTRIES, &self.block)?;
            self.block.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<SnapshotWritten> {
        self.put_block()?;
        let EntryWriter { mut out, entries, .. } = self;
        let hash = out.hash();
        out.put_block(END, &[&entries.to_le_bytes()[..], &hash].concat())?;
        let (_, bytes) = out.finish()?;
        Ok(SnapshotWritten { entries, bytes, hash })
    }
}

pub(super) fn write(
    name: &str,
    version: u32,
    core: &Core,
    out: impl Write,
) -> Result<SnapshotWritten> {
    let mut out = BlockWriter::new(out);
    out.put(&prelude(FORMAT))?;
    let mut head = Vec::new();
    put_head(&mut head, name, version, core);
    out.put_block(HEAD, &head)?;
    let mut writer = EntryWriter { out, block: Vec::new(), entries: 0 };
    write_sessions(core, &mut writer)?;
    for (name, gone, former) in core.sessions.formers.iter() {
        writer.push(|out| put_former(out, name, gone, former))?;
    }
    for (key, value) in core.state.iter() {
        writer.push(|out| put_key(out, key, value))?;
    }
    writer.finish()
}

fn write_sessions(core: &Core, writer: &mut EntryWriter<impl Write>) -> Result<()> {
    for (name, session) in core.sessions.iter() {
        writer.push(|out| put_session(out, name, session))?;
        for (request_id, reply) in session.ledger.iter() {
            writer.push(|out| put_response(out, request_id, reply))?;
        }
        for (_, letter) in session.mailbox.iter() {
            writer.push(|out| put_pending(out, letter))?;
        }
    }
    Ok(())
}

/// The first bytes, whose layout all later formats keep.
pub(super) fn prelude(format: u32) -> [u8; super::PRELUDE_BYTES] {
    let mut prelude = [0; super::PRELUDE_BYTES];
    prelude[..8].copy_from_slice(MAGIC);
    prelude[8..12].copy_from_slice(&format.to_le_bytes());
    let checksum = crc32c::crc32c(&prelude[..12]);
    prelude[12..].copy_from_slice(&checksum.to_le_bytes());
    prelude
}
