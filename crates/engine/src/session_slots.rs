//! Where the responses of one session are stored: in slots, which are used again.
//!
//! ```text
//!   slot     0        1        2        3
//!   holds    12       9        11       -          mark 10
//!            kept     spare    kept     vacant
//! ```
//!
//! The next response goes where an evicted one is: a client that waits for each answer has one slot, written over and over.
//! So a request costs one effect more than its transaction, and leaves nothing to be deleted, flushed and compacted. Spare
//! slots are few and small; those beyond are deleted.

use mainstay_model::{KeptLimits, Ledger, SmallVec, Weighed};

/// So many slots with evicted responses are kept to be used again.
const SPARE_LIMIT: usize = 32;

/// Slots with larger responses are deleted when these are evicted.
const SPARE_LIMIT_BYTES: usize = 1024;

/// Where a response is, and how many bytes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub slot: u16,
    pub bytes: u32,
}

impl Weighed for Place {
    fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

/// The requests of one session, and where their responses are.
#[derive(Debug)]
pub(crate) struct Slots {
    pub ledger: Ledger<Place>,
    /// Slots whose responses are evicted.
    spare: SmallVec<[u16; 4]>,
    /// A bit for each slot that is stored.
    stored: SmallVec<[u64; 1]>,
}

/// What keeping a response will do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub mark: u64,
    /// Where the response goes.
    pub slot: u16,
    /// What is deleted.
    pub drop: SmallVec<[u16; 4]>,
}

impl Slots {
    pub fn from(mark: u64) -> Slots {
        Slots { ledger: Ledger::from(mark), spare: SmallVec::new(), stored: SmallVec::new() }
    }

    /// How a response of so many bytes will be kept.
    pub fn plan(&self, request_id: u64, lowest_pending: u64, bytes: usize) -> Plan {
        let mark = self.ledger.mark_after(request_id, lowest_pending, bytes, KeptLimits::default());
        let evicted = self.evicted(mark);
        let first = evicted.first().map(|place| place.slot);
        let slot = self.spare.last().copied().or(first).unwrap_or_else(|| self.vacant());
        Plan { mark, slot, drop: self.surplus(evicted.iter().filter(|place| place.slot != slot)) }
    }

    /// The slots that are deleted when the mark is raised.
    pub fn dropped(&self, mark: u64) -> SmallVec<[u16; 4]> {
        self.surplus(self.evicted(mark).iter())
    }

    fn evicted(&self, mark: u64) -> SmallVec<[Place; 4]> {
        let below = self.ledger.iter().take_while(|(id, _)| *id < mark);
        below.map(|(_, place)| *place).collect()
    }

    /// Of evicted responses those that are not worth a spare slot.
    fn surplus<'p>(&self, evicted: impl Iterator<Item = &'p Place>) -> SmallVec<[u16; 4]> {
        let mut spare = self.spare.len();
        let goes = |place: &&Place| {
            let stays = place.bytes() <= SPARE_LIMIT_BYTES && spare < SPARE_LIMIT;
            spare += usize::from(stays);
            !stays
        };
        evicted.filter(goes).map(|place| place.slot).collect()
    }

    /// The first slot that is not stored.
    fn vacant(&self) -> u16 {
        let word = self.stored.iter().position(|word| *word != u64::MAX);
        let word = word.unwrap_or(self.stored.len());
        let bit = self.stored.get(word).map_or(0, |word| word.trailing_ones());
        u16::try_from(word * 64 + bit as usize).unwrap_or(u16::MAX)
    }

    /// Raises the mark: slots of what is below are spare.
    pub fn raise(&mut self, mark: u64) {
        self.spare.extend(self.ledger.raise_taking(mark).map(|(_, place)| place.slot));
    }

    /// A slot holds the response of a request; its mark was raised before.
    pub fn put(&mut self, request_id: u64, place: Place) {
        self.forget(place.slot);
        let (word, bit) = (usize::from(place.slot / 64), place.slot % 64);
        if self.stored.len() <= word {
            self.stored.resize(word + 1, 0);
        }
        self.stored[word] |= 1 << bit;
        match request_id < self.ledger.mark() {
            true => self.spare.push(place.slot),
            false => self.ledger.keep(request_id, place),
        }
    }

    /// A slot was deleted, after the mark was raised.
    pub fn remove(&mut self, slot: u16) {
        self.forget(slot);
        if let Some(word) = self.stored.get_mut(usize::from(slot / 64)) {
            *word &= !(1 << (slot % 64));
        }
    }

    fn forget(&mut self, slot: u16) {
        self.spare.retain(|spare| *spare != slot);
    }

    /// All that are stored.
    pub fn all(&self) -> impl Iterator<Item = u16> + '_ {
        self.spare.iter().copied().chain(self.ledger.iter().map(|(_, place)| place.slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::{KEPT_LIMIT, Verdict};
    use std::collections::BTreeMap;

    /// Answers a request as the executor does; gives what is stored then.
    fn answer(slots: &mut Slots, disk: &mut BTreeMap<u16, u64>, id: u64, lowest: u64, bytes: u32) {
        let Plan { mark, slot, drop } = slots.plan(id, lowest, bytes as usize);
        slots.raise(mark);
        slots.put(id, Place { slot, bytes });
        disk.insert(slot, id);
        for slot in drop {
            slots.remove(slot);
            assert!(disk.remove(&slot).is_some(), "slot {slot} was not stored");
        }
        check(slots, disk);
    }

    fn check(slots: &Slots, disk: &BTreeMap<u16, u64>) {
        let mut all: Vec<u16> = slots.all().collect();
        all.sort_unstable();
        assert_eq!(all, disk.keys().copied().collect::<Vec<_>>(), "each slot once");
        for (id, place) in slots.ledger.iter() {
            assert_eq!(disk.get(&place.slot), Some(&id), "what is kept is where it is said to be");
        }
    }

    #[test]
    fn a_client_that_waits_has_one_slot() {
        let (mut slots, mut disk) = (Slots::from(1), BTreeMap::new());
        for id in 1..100 {
            answer(&mut slots, &mut disk, id, id, 10);
        }
        assert_eq!((disk.len(), slots.ledger.len()), (1, 1));
    }

    #[test]
    fn spare_slots_are_few_and_small() {
        let (mut slots, mut disk) = (Slots::from(1), BTreeMap::new());
        for id in 1..=500 {
            answer(&mut slots, &mut disk, id, 1, if id % 2 == 0 { 10 } else { 2_000 });
        }
        answer(&mut slots, &mut disk, 501, 501, 10);
        assert_eq!((disk.len(), slots.ledger.len()), (SPARE_LIMIT + 1, 1));
        for id in 502..600 {
            answer(&mut slots, &mut disk, id, 501, 10);
        }
        assert_eq!(disk.len(), 99);
    }

    #[test]
    fn no_slot_is_given_twice_whatever_comes() {
        let (mut slots, mut disk) = (Slots::from(1), BTreeMap::new());
        let mut random = 1_u64;
        let mut next = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % limit
        };
        let mut newest = 0_u64;
        for _ in 0..20_000 {
            let id = (newest + 3).saturating_sub(next(40)).max(1);
            let lowest = id.saturating_sub(next(30));
            if slots.ledger.judge(id) == Verdict::Execute {
                answer(&mut slots, &mut disk, id, lowest, next(3_000) as u32);
                newest = newest.max(id);
            }
            if next(50) == 0 {
                let mark = newest.saturating_sub(next(20));
                let drop = slots.dropped(mark);
                slots.raise(mark);
                drop.into_iter().for_each(|slot| {
                    slots.remove(slot);
                    disk.remove(&slot);
                });
                check(&slots, &disk);
            }
            assert!(disk.len() <= KEPT_LIMIT + SPARE_LIMIT);
        }
    }
}
