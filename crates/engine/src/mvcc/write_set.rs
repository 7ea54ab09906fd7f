//! The write set: the uncommitted writes of a transaction.
//!
//! It has one effect per key, however often the key is written. A transaction therefore leaves one version
//! per key, which records the number of writes it stands for.

use crate::key::entry::{EntryHeader, LAPSED};
use crate::key::keyspace::Key;
use hashbrown::HashMap;
use mainstay_model::limits::{
    ENTRIES_LIMIT_BYTES, TRANSACTION_LIMIT_BYTES, TRANSACTION_LIMIT_WRITTEN_BYTES,
};
use mainstay_model::{Code, Error, Result, Revision, Stamp};
use std::ops::Range;

/// Up to this many effects, a linear search is faster than a map.
const WALK_LIMIT: usize = 12;

/// Replaced payloads may occupy this many bytes before they are compacted.
const BURY_BYTES: usize = 1 << 20;

/// The combined effect of all writes to one key.
pub struct Effect {
    pub key: Key,
    pub hash: u64,
    pub flags: u8,
    pub counter: u64,
    pub writes: u64,
    pub expires: Option<Stamp>,
    /// The expiry of the key's version in its own layer, whose expiry marker must be deleted.
    pub prior: Option<Stamp>,
    payload: Range<usize>,
}

impl Effect {
    /// The entry header as of a revision, which is 0 while it is unknown.
    #[inline]
    pub fn head(&self, revision: Revision, stamp: Stamp) -> EntryHeader {
        let Effect { flags, counter, writes, expires, .. } = *self;
        EntryHeader { flags, revision, stamp, counter, writes, expires }
    }
}

#[derive(Default)]
pub struct WriteSet {
    /// The revision of the transaction, visible when it reads its own writes; 0 while it is unknown.
    pub revision: Revision,
    effects: Vec<Effect>,
    payloads: Vec<u8>,
    places: HashMap<Key, usize>,
    key_bytes: usize,
    /// Bytes of payloads replaced by later writes.
    dead_bytes: usize,
    /// Bytes of all payloads ever written, including replaced ones.
    written_bytes: usize,
    /// Bytes exempt from the limit, because the engine adds them and not the user.
    spare_bytes: usize,
    /// Bytes of index entry keys.
    entry_bytes: usize,
}

/// A single write.
pub struct Write<'a> {
    pub flags: u8,
    pub counter: u64,
    /// The number of writes that it counts for.
    pub writes: u64,
    pub expires: Option<Stamp>,
    pub prior: Option<Stamp>,
    pub payload: Payload<'a>,
}

/// The payload of a write.
pub enum Payload<'a> {
    Bytes(&'a [u8]),
    /// A payload already encoded by [`WriteSet::stage`], which starts at this offset.
    Staged(usize),
}

impl WriteSet {
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    pub fn clear(&mut self) {
        self.revision = 0;
        self.effects.clear();
        self.payloads.clear();
        // Frees the memory of a large transaction.
        if self.payloads.capacity() > 1 << 20 {
            self.payloads = Vec::new();
        }
        if !self.places.is_empty() {
            self.places = HashMap::new();
        }
        self.key_bytes = 0;
        self.spare_bytes = 0;
        self.entry_bytes = 0;
        self.dead_bytes = 0;
        self.written_bytes = 0;
    }

    /// The memory in use, including the overhead of every effect.
    pub fn held_bytes(&self) -> usize {
        let places = self.places.capacity() * (size_of::<(Key, usize)>() + 1);
        // Long keys are heap-allocated, once for the effect and once for the map.
        let keys = 2 * self.key_bytes;
        self.effects.capacity() * size_of::<Effect>() + self.payloads.capacity() + places + keys
    }

    /// The bytes of all payloads written, including replaced ones.
    #[inline]
    pub fn written_bytes(&self) -> usize {
        self.written_bytes
    }

    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    pub fn payload(&self, effect: &Effect) -> &[u8] {
        &self.payloads[effect.payload.clone()]
    }

    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<&Effect> {
        self.place(hash, key).map(|place| &self.effects[place])
    }

    #[inline]
    fn place(&self, hash: u64, key: &[u8]) -> Option<usize> {
        if self.effects.len() > WALK_LIMIT {
            return self.places.get(key).copied();
        }
        self.effects.iter().position(|effect| effect.hash == hash && effect.key.as_slice() == key)
    }

    /// Encodes a payload directly into the write set. Returns its offset and the result of `encode`.
    #[inline]
    pub fn stage<T>(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<T>,
    ) -> Result<(usize, T)> {
        let start = self.payloads.len();
        let said = encode(&mut self.payloads)?;
        Ok((start, said))
    }

    /// The bytes staged from `start` on.
    pub fn staged(&self, start: usize) -> &[u8] {
        &self.payloads[start..]
    }

    /// Discards the payload staged from `start` on.
    pub fn take_back(&mut self, start: usize) {
        self.payloads.truncate(start);
    }

    /// Exempts a receipt from the size limit: its payload, staged from `start` on, and the keys stored with
    /// it. The limit is on the work of a transaction, not on the data kept to answer a retry.
    pub fn make_room(&mut self, start: usize, keys_bytes: usize) {
        self.spare_bytes += self.payloads.len() - start + keys_bytes;
    }

    /// Exempts the bytes that an import adds to those of the exported transaction: the times of events, and
    /// the links between messages and events.
    pub fn make_import_room(&mut self) {
        self.spare_bytes += TRANSACTION_LIMIT_BYTES;
    }

    /// Writes an index entry. Index entries have a limit of their own, because the engine adds them and not
    /// the user.
    pub fn write_entry(&mut self, key: Key, hash: u64, write: Write<'_>) -> Result<()> {
        self.entry_bytes += key.len();
        if self.entry_bytes > ENTRIES_LIMIT_BYTES {
            return Err(too_many_entries());
        }
        self.spare_bytes += key.len();
        self.write(key, hash, write)
    }

    /// Writes a key. A second write to the same key replaces the first and adds to its number of writes.
    pub fn write(&mut self, key: Key, hash: u64, write: Write<'_>) -> Result<()> {
        let payload = self.take(&write.payload);
        let place = self.place(hash, &key);
        let replaced_bytes = place.map_or(0, |place| self.effects[place].payload.len());
        if let Err(error) = self.count(key.len(), payload.len(), replaced_bytes) {
            self.payloads.truncate(payload.start);
            return Err(error);
        }
        let Write { flags, counter, writes, expires, prior, .. } = write;
        if let Some(place) = place {
            let effect = &mut self.effects[place];
            let writes = effect.writes + writes;
            // An expiry before the first write stays recorded, even if that first write was the deletion by
            // the sweep.
            let lapsed = if effect.head(0, 0).is_sweep() { LAPSED } else { effect.flags & LAPSED };
            let flags = flags | lapsed;
            let prior = effect.prior;
            let key = std::mem::take(&mut effect.key);
            *effect = Effect { key, hash, flags, counter, writes, expires, prior, payload };
            self.bury();
            return Ok(());
        }
        self.key_bytes += key.len();
        self.effects.push(Effect { key, hash, flags, counter, writes, expires, prior, payload });
        self.remember();
        Ok(())
    }

    /// Accounts for a payload that replaces `replaced_bytes`, if it fits. Both the remaining bytes and the
    /// total bytes written are limited.
    fn count(&mut self, key_bytes: usize, bytes: usize, replaced_bytes: usize) -> Result<()> {
        if self.written_bytes + bytes > TRANSACTION_LIMIT_WRITTEN_BYTES {
            return Err(too_often());
        }
        self.dead_bytes += replaced_bytes;
        if let Err(error) = self.check_room(key_bytes) {
            self.dead_bytes -= replaced_bytes;
            return Err(error);
        }
        self.written_bytes += bytes;
        Ok(())
    }

    /// Compacts the payloads once replaced ones outweigh the others, so that the cost is amortized.
    fn bury(&mut self) {
        if self.dead_bytes < BURY_BYTES || self.dead_bytes < self.payloads.len() / 2 {
            return;
        }
        let mut kept = Vec::with_capacity(self.payloads.len() - self.dead_bytes);
        for effect in &mut self.effects {
            let start = kept.len();
            kept.extend_from_slice(&self.payloads[effect.payload.clone()]);
            effect.payload = start..kept.len();
        }
        self.payloads = kept;
        self.dead_bytes = 0;
    }

    /// Checks whether this many further bytes of keys and payloads fit into the transaction.
    #[inline]
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        let bytes = self.payloads.len() - self.dead_bytes + self.key_bytes + bytes;
        if bytes > TRANSACTION_LIMIT_BYTES + self.spare_bytes {
            return Err(too_large());
        }
        Ok(())
    }

    fn take(&mut self, payload: &Payload<'_>) -> Range<usize> {
        match *payload {
            Payload::Staged(start) => start..self.payloads.len(),
            Payload::Bytes(bytes) => {
                let start = self.payloads.len();
                self.payloads.extend_from_slice(bytes);
                start..self.payloads.len()
            }
        }
    }

    /// Updates the map once a linear search would be too slow.
    fn remember(&mut self) {
        let count = self.effects.len();
        if count <= WALK_LIMIT {
            return;
        }
        let first = if count == WALK_LIMIT + 1 { 0 } else { count - 1 };
        for place in first..count {
            self.places.insert(self.effects[place].key.clone(), place);
        }
    }
}

#[cold]
fn too_many_entries() -> Error {
    let message = "the records that the transaction writes have more than 128 MiB of entries in indexes: write \
                   fewer of them at once, or drop an index that nobody needs";
    Error::new(Code::TransactionTooLarge, message)
}

#[cold]
fn too_often() -> Error {
    let message = "the transaction writes more than 256 MiB, those bytes counted that it overwrites itself: make it several";
    Error::new(Code::TransactionTooLarge, message)
}

#[cold]
fn too_large() -> Error {
    let message = "the transaction writes more than 64 MiB: make it several";
    Error::new(Code::TransactionTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::keyspace;

    fn write<'a>(counter: u64, payload: &'a [u8]) -> Write<'a> {
        let payload = Payload::Bytes(payload);
        Write { flags: 0, counter, writes: 1, expires: None, prior: None, payload }
    }

    #[test]
    fn a_key_stands_once_and_counts_its_writes() {
        let mut overlay = WriteSet::default();
        for round in 1..=3_u64 {
            for i in 0..40_u64 {
                let key = keyspace::key(keyspace::CELLS, 0, &i.to_be_bytes());
                let payload = [round as u8; 3];
                overlay.write(key, i, write(round, &payload)).unwrap();
            }
        }
        assert_eq!(overlay.effects().len(), 40);
        for i in 0..40_u64 {
            let key = keyspace::key(keyspace::CELLS, 0, &i.to_be_bytes());
            let effect = overlay.find(i, &key).unwrap();
            assert_eq!((effect.counter, effect.writes), (3, 3));
            assert_eq!(overlay.payload(effect), [3; 3]);
        }
        overlay.clear();
        assert!(overlay.find(1, b"x").is_none());
    }

    #[test]
    fn what_was_replaced_takes_no_room() {
        let mut overlay = WriteSet::default();
        let payload = |round: u64| vec![round as u8; 1000];
        let key = |i: u64| keyspace::key(keyspace::CELLS, 0, &i.to_be_bytes());
        for round in 1..=70_000_u64 {
            overlay.write(key(round % 3), round % 3, write(round, &payload(round))).unwrap();
        }
        assert!(overlay.payloads.len() <= 2 * BURY_BYTES, "{}", overlay.payloads.len());
        for round in 69_998..=70_000_u64 {
            let effect = overlay.find(round % 3, &key(round % 3)).unwrap();
            assert_eq!(overlay.payload(effect), payload(round));
        }
    }

    #[test]
    fn replacing_has_a_limit_too() {
        let mut overlay = WriteSet::default();
        let key = keyspace::key(keyspace::CELLS, 0, b"k");
        let big = vec![0; TRANSACTION_LIMIT_BYTES / 4];
        let mut again = || overlay.write(key.clone(), 1, write(1, &big));
        let most = TRANSACTION_LIMIT_WRITTEN_BYTES / big.len();
        (0..most).for_each(|_| again().unwrap());
        let error = again().unwrap_err();
        assert_eq!(error.code(), Code::TransactionTooLarge);
        assert!(error.to_string().contains("overwrites itself"), "{error}");
    }

    #[test]
    fn the_limit_in_bytes_is_kept() {
        let mut overlay = WriteSet::default();
        let big = vec![0; TRANSACTION_LIMIT_BYTES / 4];
        let key = |i: u8| keyspace::key(keyspace::CELLS, 0, &[i]);
        for i in 0..3 {
            overlay.write(key(i), u64::from(i), write(1, &big)).unwrap();
        }
        let error = overlay.write(key(9), 9, write(1, &big)).unwrap_err();
        assert_eq!(error.code(), Code::TransactionTooLarge);
    }
}
