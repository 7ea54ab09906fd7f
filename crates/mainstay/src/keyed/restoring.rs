//! Restores a space from a snapshot: written in pieces under a hidden generation, then shown atomically.
//!
//! ```text
//!   snapshot --blocks--> pieces of some MiB, unsynced, under a hidden generation
//!            --its end, checked--> the last piece, synced, makes it visible
//! ```

use super::Keyed;
use mainstay_model::{
    Code, Durability, EntryBlock, EntryRef, Error, Result, Revision, SnapshotHead, SnapshotReader,
    SpaceInfo, StateCommand, Version,
};
use std::collections::HashMap;
use std::io::Read;

/// Size at which a piece is written.
const PIECE_BYTES: usize = 2 << 20;

impl Keyed {
    /// Replaces the content of the space by a snapshot. If the snapshot is damaged or a step fails, the
    /// space is unchanged.
    pub(super) fn replace_by(&self, from: &mut dyn Read) -> Result<u64> {
        let mut reader = SnapshotReader::new(from)?;
        if reader.head().some_keys || reader.head().changes {
            // Report damage before any other error.
            reader.check_rest()?;
            return Err(not_all());
        }
        let mut pieces = Pieces { keyed: self, head: *reader.head(), begun: None, entries: 0 };
        let done = pieces.replace(&mut reader);
        if let (Err(_), Some(begun)) = (&done, pieces.begun) {
            // Best effort: pieces that cannot be abandoned now are removed when the next restore begins.
            let space = self.space.clone();
            let _ = self.run(StateCommand::Abandon { space, begun });
        }
        done.map(|()| pieces.entries)
    }

    /// Adds the entries of a snapshot to the space. The whole snapshot is read into memory and verified
    /// first.
    pub(super) fn add_from(&self, from: &mut dyn Read) -> Result<u64> {
        let mut reader = SnapshotReader::new(from)?;
        if reader.head().changes {
            reader.check_rest()?;
            return Err(not_all());
        }
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block()? {
            blocks.push(block);
        }
        let info = reader.head().space;
        // A snapshot of another kind of space is rejected with the first piece.
        let is_alike = |here: &SpaceInfo| here.options.is_as(&info.options);
        if let Some(here) = self.info()?.filter(|here| here.frontier.is_some() && is_alike(here)) {
            blocks = without_overtaken(blocks, &info, &here)?;
        }
        let mut taken = 0;
        for block in join(blocks) {
            let space = self.space.clone();
            taken += self.run(StateCommand::Take { space, info, block })?.into_count()?;
        }
        Ok(taken)
    }
}

/// Drops the waiting writes that are older than a deletion in the same snapshot. Below the frontier, the
/// space forgets a deletion at once, so it could not reject such a write later. Fails, before anything is
/// added, if a write waits for a merge function with a version that is sealed here.
fn without_overtaken(
    blocks: Vec<EntryBlock>,
    of: &SpaceInfo,
    here: &SpaceInfo,
) -> Result<Vec<EntryBlock>> {
    let mut deleted: HashMap<&[u8], Version> = HashMap::new();
    let mut all = Vec::with_capacity(blocks.len());
    for block in &blocks {
        let mut kept = EntryBlock::default();
        for entry in block {
            let (place, payload) = entry?;
            match EntryRef::from_parts(place, payload, of.options.versions)? {
                EntryRef::State { key, version, value: None } => {
                    deleted.insert(key, version);
                }
                EntryRef::Waiting { version, .. }
                    if here.options.merged && here.is_sealed(version) =>
                {
                    return Err(closed(version));
                }
                EntryRef::Waiting { key, version, .. }
                    if deleted.get(key).is_some_and(|deleted| *deleted >= version) =>
                {
                    continue;
                }
                _ => {}
            }
            kept.push(place, payload);
        }
        all.push(kept);
    }
    Ok(all)
}

/// Joins blocks into pieces of about `PIECE_BYTES`. Returns at least one piece.
fn join(blocks: Vec<EntryBlock>) -> Vec<EntryBlock> {
    let mut pieces = vec![EntryBlock::default()];
    for block in blocks {
        match pieces.last_mut() {
            Some(last) if last.as_bytes().len() < PIECE_BYTES => last.append(&block),
            _ => pieces.push(block),
        }
    }
    pieces
}

struct Pieces<'p> {
    keyed: &'p Keyed,
    head: SnapshotHead,
    /// The revision of the transaction that began the restore.
    begun: Option<Revision>,
    entries: u64,
}

impl Pieces<'_> {
    fn replace(&mut self, reader: &mut SnapshotReader<&mut dyn Read>) -> Result<()> {
        let mut piece = EntryBlock::default();
        while let Some(block) = reader.next_block()? {
            piece.append(&block);
            if piece.as_bytes().len() >= PIECE_BYTES {
                self.put(std::mem::take(&mut piece), false)?;
            }
        }
        self.put(piece, true)
    }

    fn put(&mut self, block: EntryBlock, ends: bool) -> Result<()> {
        let space = self.keyed.space.clone();
        let info = self.head.space;
        let begun = self.begun;
        let command = StateCommand::Restore { space, info, block, begun, ends };
        // The fsync of the last piece also makes all earlier pieces durable.
        let durability = if ends { self.keyed.durability } else { Some(Durability::Memory) };
        let receipt = self.keyed.receive(command, durability)?;
        self.begun.get_or_insert(receipt.revision);
        self.entries += receipt.into_first()?.into_count()?;
        Ok(())
    }
}

#[cold]
fn closed(version: Version) -> Error {
    let message = format!(
        "a write with version {version} waits for the function that merges it, and that version is closed here: settle \
         it first"
    );
    Error::new(Code::Conflict, message)
}

#[cold]
fn not_all() -> Error {
    let message = "the snapshot has only some keys of a space, or what has changed of it: a space is replaced by a \
                   snapshot of all, and keys are added by a snapshot of keys";
    Error::new(Code::InvalidArgument, message)
}
