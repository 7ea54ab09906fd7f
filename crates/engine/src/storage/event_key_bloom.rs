//! A scalable blocked Bloom filter over idempotency keys of runs created since open, so that appends with a
//! new key skip the LSM lookup.
//!
//! ```text
//!   insert a key ---> layer 0 | layer 1 | layer 2 ...     each four times as large as the one before
//!   look one up ----> in none of them: it was never inserted
//! ```
//!
//! Almost every append has a key that the run has not seen yet. The store would have to check the filter of
//! each of its tables, whereas this filter reads one cache line per layer.
//!
//! The filter answers only for runs created after it started. The generation of a run is the revision that
//! created it, and all its keys are written at that revision or later. Every such write goes through the
//! index, and so through this filter. Keys of older runs are looked up in the store. When the last layer is
//! full, the filter is cleared, and answers only for runs created from then on.

use crate::key::keyspace::{EVENT_KEYS, PREFIX_BYTES};
use crate::key::run_keys;
use crate::key::version::Version;
use mainstay_model::Revision;
use parking_lot::Mutex;

/// Bits per block (one cache line), and the number of bits set per key.
const LINE_BITS: usize = 512;
const BITS_OF_KEY: u32 = 6;
/// Keys per block, for a false positive rate of about 1 %.
const KEYS_OF_LINE: usize = LINE_BITS / 12;
/// Blocks of the first layer (64 KiB) and of the last one (16 MiB): together the layers take 15 million keys.
const FIRST_LINES: usize = 1 << 10;
const LAST_LINES: usize = 1 << 18;
/// Size of each layer relative to the one before.
const GROWTH: usize = 4;

type Line = [u64; LINE_BITS / 64];

/// The filter with its lock. See the module documentation.
pub(crate) struct EventKeyBloom(Mutex<BloomLayers>);

struct BloomLayers {
    /// The filter answers for runs whose generation is newer than this.
    since: Revision,
    layers: Vec<BloomLayer>,
    /// The number of keys that the last layer can still take.
    room: usize,
    /// Maximum number of blocks in a layer.
    last_lines: usize,
}

struct BloomLayer(Vec<Line>);

impl EventKeyBloom {
    /// An empty filter, for runs created after `since`.
    pub fn new(since: Revision) -> EventKeyBloom {
        EventKeyBloom::with_layers_upto(LAST_LINES, since)
    }

    fn with_layers_upto(last_lines: usize, since: Revision) -> EventKeyBloom {
        EventKeyBloom(Mutex::new(BloomLayers { since, layers: Vec::new(), room: 0, last_lines }))
    }

    /// Adds the key of a version that is written to the index.
    #[inline]
    pub fn note(&self, hash: u64, version: &Version) {
        let Some(generation) = generation(version.key()) else { return };
        let mut layers = self.0.lock();
        if generation > layers.since {
            layers.note(hash, version.revision());
        }
    }

    /// Returns whether the key was certainly never inserted.
    #[inline]
    pub fn definitely_absent(&self, hash: u64, key: &[u8]) -> bool {
        let Some(generation) = generation(key) else { return false };
        let layers = self.0.lock();
        generation > layers.since && !layers.layers.iter().any(|layer| layer.may_have(hash))
    }
}

/// The generation of the run to which this idempotency key belongs: the revision that created the run.
#[inline]
fn generation(key: &[u8]) -> Option<Revision> {
    let name = key.get(PREFIX_BYTES..).filter(|_| key[0] == EVENT_KEYS)?;
    run_keys::split(name).map(|(_, generation, _)| generation)
}

impl BloomLayers {
    fn note(&mut self, hash: u64, revision: Revision) {
        if self.room == 0 && !self.grow() {
            self.layers.clear();
            self.since = self.since.max(revision);
            return;
        }
        if let Some(last) = self.layers.last_mut() {
            last.set(hash);
            self.room -= 1;
        }
    }

    /// Adds a layer. Returns false if the last one already has the maximum size.
    fn grow(&mut self) -> bool {
        let lines = self.layers.last().map_or(FIRST_LINES, |last| last.0.len() * GROWTH);
        if lines > self.last_lines {
            return false;
        }
        self.layers.push(BloomLayer(vec![Line::default(); lines]));
        self.room = lines * KEYS_OF_LINE;
        true
    }
}

impl BloomLayer {
    fn set(&mut self, hash: u64) {
        let place = place(hash, self.0.len());
        for bit in bits(hash) {
            self.0[place][bit / 64] |= 1 << (bit % 64);
        }
    }

    fn may_have(&self, hash: u64) -> bool {
        let line = &self.0[place(hash, self.0.len())];
        bits(hash).all(|bit| line[bit / 64] & 1 << (bit % 64) != 0)
    }
}

/// The block of a hash, from its upper half.
fn place(hash: u64, lines: usize) -> usize {
    ((hash >> 32) as usize * lines) >> 32
}

/// The bits of a hash within its block, from the whole hash.
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..BITS_OF_KEY).map(move |turn| (mixed >> (10 + 9 * turn)) as usize % LINE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::keyspace::{EVENTS, MAIN_ID, key};

    fn of(space: u8, generation: Revision, number: u64) -> (u64, Version) {
        let place = run_keys::key("run", generation, &format!("key {number}"));
        let hash = number.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29) ^ generation;
        let entry = [&[0][..], &(generation + number).to_le_bytes(), &[0; 10]].concat();
        (hash, Version::new(&key(space, MAIN_ID, &place), &entry))
    }

    fn never_had(known: &EventKeyBloom, (hash, version): &(u64, Version)) -> bool {
        known.definitely_absent(*hash, version.key())
    }

    fn note(known: &EventKeyBloom, generation: Revision, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let (hash, version) = of(EVENT_KEYS, generation, number);
            known.note(hash, &version);
        }
    }

    #[test]
    fn what_was_put_in_is_never_denied_and_little_else_is_suspected() {
        let known = EventKeyBloom::new(9);
        note(&known, 10, 0..300_000);
        assert!((0..300_000).all(|number| !never_had(&known, &of(EVENT_KEYS, 10, number))));
        let others = (300_000..400_000).filter(|&n| !never_had(&known, &of(EVENT_KEYS, 10, n)));
        let others = others.count();
        assert!(others < 4_000, "{others} of 100,000 are suspected");
    }

    #[test]
    fn only_keys_of_runs_that_were_made_since_are_denied() {
        let known = EventKeyBloom::new(9);
        assert!(never_had(&known, &of(EVENT_KEYS, 10, 1)));
        assert!(!never_had(&known, &of(EVENT_KEYS, 9, 1)), "it may have been flushed before");
        assert!(!never_had(&known, &of(EVENTS, 10, 1)), "events do not pass by");
        assert!(!known.definitely_absent(1, &[EVENT_KEYS]), "no key of a run");
    }

    #[test]
    fn when_it_is_full_it_answers_for_later_runs_only() {
        let known = EventKeyBloom::with_layers_upto(FIRST_LINES * GROWTH, 9);
        let all = (FIRST_LINES * (1 + GROWTH) * KEYS_OF_LINE) as u64;
        note(&known, 10, 0..all);
        let newest = 10 + all;
        assert!(!never_had(&known, &of(EVENT_KEYS, 10, 0)));
        assert!(never_had(&known, &of(EVENT_KEYS, newest, 1)));
        note(&known, 10, all..all + 1);
        assert!((0..1000).all(|number| !never_had(&known, &of(EVENT_KEYS, 10, number))));
        assert!(!never_had(&known, &of(EVENT_KEYS, newest, 1)));
        assert!(never_had(&known, &of(EVENT_KEYS, newest + 1, 1)));
        note(&known, newest + 1, 1..2);
        assert!(!never_had(&known, &of(EVENT_KEYS, newest + 1, 1)));
    }
}
