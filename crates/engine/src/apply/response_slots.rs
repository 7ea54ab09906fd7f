//! Slot allocator for the stored responses of one session: slots of evicted responses are reused.
//!
//! ```text
//!   slot     0           1        2        3
//!   holds    12 14 15    9        11       -          mark 10
//!            open        spare    kept     vacant
//! ```
//!
//! The next response reuses a slot whose responses are all evicted. A client that waits for each answer needs
//! one slot, which is overwritten each time. So a request costs one effect more than its transaction, and
//! leaves no garbage to delete, flush and compact. If no slot is free, the response is added to the slot that
//! was written last, as long as that slot is small. In a slot of its own, a small response would be mostly
//! overhead: about a hundred bytes of key and header. Spare slots are few and small, and surplus ones are
//! deleted.

use mainstay_model::{KeptLimits, Ledger, SmallVec, Weighed};

/// Maximal number of slots with evicted responses that are kept for reuse.
const SPARE_LIMIT: usize = 32;

/// Slots with larger responses are deleted once these are evicted.
const SPARE_LIMIT_BYTES: usize = 1024;

/// A slot is not shared beyond this size, because each added response rewrites the whole slot.
const SHARED_LIMIT_BYTES: usize = 256;

/// Approximate overhead of a response in its slot: its number, revision and time.
const COVER_BYTES: u32 = 8;

/// The slot of a response, and the response's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRef {
    pub slot: u16,
    pub bytes: u32,
}

impl Weighed for SlotRef {
    fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

impl SlotRef {
    /// Returns the number of bytes that the response takes in its slot.
    fn weight(&self) -> u32 {
        self.bytes + COVER_BYTES
    }
}

/// The request ledger of one session, and the slots of its responses.
#[derive(Debug)]
pub struct ResponseSlots {
    pub ledger: Ledger<SlotRef>,
    slots: SmallVec<[ResponseSlot; 2]>,
    /// Slots whose responses are all evicted.
    spare: SmallVec<[u16; 4]>,
    /// The slot that was written last.
    open: u16,
}

/// The bookkeeping of one slot.
#[derive(Clone, Copy, Debug, Default)]
struct ResponseSlot {
    stored: bool,
    /// Number of responses that are kept in the slot.
    kept: u16,
    /// Number of bytes that they take.
    weight: u32,
}

/// Plan for storing a response.
#[derive(Debug, PartialEq, Eq)]
pub struct SlotPlan {
    pub mark: u64,
    /// The slot for the response.
    pub slot: u16,
    /// Whether other responses stay in that slot.
    pub shared: bool,
    /// Slots to delete.
    pub drop: SmallVec<[u16; 4]>,
}

impl ResponseSlots {
    pub fn from(mark: u64) -> ResponseSlots {
        let slots = SmallVec::new();
        let spare = SmallVec::new();
        ResponseSlots { ledger: Ledger::from(mark), slots, spare, open: 0 }
    }

    /// Plans the storage of a response of `bytes` bytes.
    pub fn plan(&self, request_id: u64, lowest_pending: u64, bytes: usize) -> SlotPlan {
        let mark = self.ledger.mark_after(request_id, lowest_pending, bytes, KeptLimits::default());
        let emptied = self.emptied(mark);
        let (slot, shared) = match self.spare.last().or(emptied.first().map(|place| &place.slot)) {
            Some(slot) => (*slot, false),
            None if self.has_room(mark, bytes) => (self.open, true),
            None => (self.vacant(), false),
        };
        let drop = self.surplus(emptied.iter().filter(|place| place.slot != slot));
        SlotPlan { mark, slot, shared, drop }
    }

    /// Returns the slots to delete when the mark is raised.
    pub fn dropped(&self, mark: u64) -> SmallVec<[u16; 4]> {
        self.surplus(self.emptied(mark).iter())
    }

    /// Returns the slots that a mark empties, each with the total size of its responses.
    fn emptied(&self, mark: u64) -> SmallVec<[SlotRef; 4]> {
        let below = self.ledger.iter().take_while(|(id, _)| *id < mark);
        let mut evicted: SmallVec<[SlotRef; 4]> = below.map(|(_, place)| *place).collect();
        evicted.sort_unstable_by_key(|place| place.slot);
        let all = evicted.chunk_by(|a, b| a.slot == b.slot);
        let none_stays =
            |of_one: &&[SlotRef]| self.slot(of_one[0].slot).kept as usize == of_one.len();
        let sum = |of_one: &[SlotRef]| SlotRef {
            slot: of_one[0].slot,
            bytes: of_one.iter().map(|place| place.bytes).sum(),
        };
        all.filter(none_stays).map(sum).collect()
    }

    /// Returns the emptied slots that are beyond the limits for spare slots.
    fn surplus<'p>(&self, emptied: impl Iterator<Item = &'p SlotRef>) -> SmallVec<[u16; 4]> {
        let mut spare = self.spare.len();
        let goes = |place: &&SlotRef| {
            let stays = place.bytes() <= SPARE_LIMIT_BYTES && spare < SPARE_LIMIT;
            spare += usize::from(stays);
            !stays
        };
        emptied.filter(goes).map(|place| place.slot).collect()
    }

    /// Returns whether a response fits into the slot that was written last.
    fn has_room(&self, mark: u64, bytes: usize) -> bool {
        let slot = self.slot(self.open);
        let evicted = self.ledger.iter().take_while(|(id, _)| *id < mark);
        let here = evicted.filter(|(_, place)| place.slot == self.open);
        let gone: u32 = here.map(|(_, place)| place.weight()).sum();
        let stays = slot.weight.saturating_sub(gone) as usize;
        slot.kept > 0 && stays + bytes + COVER_BYTES as usize <= SHARED_LIMIT_BYTES
    }

    fn slot(&self, slot: u16) -> ResponseSlot {
        self.slots.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// Returns the first slot that is not stored.
    fn vacant(&self) -> u16 {
        let vacant = self.slots.iter().position(|slot| !slot.stored);
        u16::try_from(vacant.unwrap_or(self.slots.len())).unwrap_or(u16::MAX)
    }

    /// Raises the mark. Slots in which no response stays become spare.
    pub fn raise(&mut self, mark: u64) {
        for (_, place) in self.ledger.raise_taking(mark) {
            let Some(slot) = self.slots.get_mut(usize::from(place.slot)) else { continue };
            slot.kept = slot.kept.saturating_sub(1);
            slot.weight = slot.weight.saturating_sub(place.weight());
            if slot.kept == 0 {
                self.spare.push(place.slot);
            }
        }
    }

    /// Records that a slot now holds these responses, as (number, bytes). The mark must have been raised
    /// before.
    pub fn put(&mut self, slot: u16, responses: impl Iterator<Item = (u64, u32)>) {
        self.forget(slot);
        let mark = self.ledger.mark();
        let mut now = ResponseSlot { stored: true, ..ResponseSlot::default() };
        for (request_id, bytes) in responses.filter(|(id, _)| *id >= mark) {
            let place = SlotRef { slot, bytes };
            now.kept = now.kept.saturating_add(1);
            now.weight = now.weight.saturating_add(place.weight());
            self.ledger.keep(request_id, place);
        }
        if now.kept == 0 {
            self.spare.push(slot);
        }
        let at = usize::from(slot);
        if self.slots.len() <= at {
            self.slots.resize(at + 1, ResponseSlot::default());
        }
        self.slots[at] = now;
        self.open = slot;
    }

    /// Records that a slot was deleted, after the mark was raised.
    pub fn remove(&mut self, slot: u16) {
        self.forget(slot);
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            *slot = ResponseSlot::default();
        }
    }

    fn forget(&mut self, slot: u16) {
        self.spare.retain(|spare| *spare != slot);
    }

    /// Returns all stored slots.
    pub fn all(&self) -> impl Iterator<Item = u16> + '_ {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.stored).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::{KEPT_LIMIT, Verdict};
    use std::collections::BTreeMap;

    /// The stored responses of each slot.
    type Disk = BTreeMap<u16, Vec<(u64, u32)>>;

    /// Answers a request as the executor does.
    fn answer(slots: &mut ResponseSlots, disk: &mut Disk, id: u64, lowest: u64, bytes: u32) {
        let SlotPlan { mark, slot, shared, drop } = slots.plan(id, lowest, bytes as usize);
        let mut held = vec![(id, bytes)];
        if shared {
            held.extend(disk[&slot].iter().filter(|(id, _)| *id >= mark));
            assert!(held.len() > 1, "slot {slot} is shared with something");
            let size: u32 = held.iter().map(|(_, bytes)| bytes + COVER_BYTES).sum();
            assert!(size as usize <= SHARED_LIMIT_BYTES, "{size} bytes are shared");
        }
        slots.raise(mark);
        slots.put(slot, held.iter().copied());
        disk.insert(slot, held);
        for slot in drop {
            slots.remove(slot);
            assert!(disk.remove(&slot).is_some(), "slot {slot} was not stored");
        }
        check(slots, disk);
    }

    fn check(slots: &ResponseSlots, disk: &Disk) {
        let all: Vec<u16> = slots.all().collect();
        assert_eq!(all, disk.keys().copied().collect::<Vec<_>>(), "each slot once");
        let mark = slots.ledger.mark();
        let stored = disk.iter().flat_map(|(slot, held)| held.iter().map(move |held| (held, slot)));
        let kept: BTreeMap<u64, SlotRef> = stored
            .filter(|((id, _), _)| *id >= mark)
            .map(|(&(id, bytes), &slot)| (id, SlotRef { slot, bytes }))
            .collect();
        let said: BTreeMap<u64, SlotRef> =
            slots.ledger.iter().map(|(id, place)| (id, *place)).collect();
        assert_eq!(said, kept, "what is kept is where it is said to be");
        let spare: Vec<u16> = {
            let mut spare = slots.spare.to_vec();
            spare.sort_unstable();
            spare
        };
        let empty = disk.iter().filter(|(_, held)| held.iter().all(|(id, _)| *id < mark));
        assert_eq!(
            spare,
            empty.map(|(slot, _)| *slot).collect::<Vec<_>>(),
            "spare is what is empty"
        );
    }

    /// Rebuilds the slots from the stored responses.
    fn loaded(slots: &ResponseSlots, disk: &Disk) -> ResponseSlots {
        let mut loaded = ResponseSlots::from(1);
        for (slot, held) in disk {
            loaded.put(*slot, held.iter().copied());
        }
        loaded.raise(slots.ledger.mark());
        check(&loaded, disk);
        loaded
    }

    #[test]
    fn a_client_that_waits_has_one_slot() {
        let mut slots = ResponseSlots::from(1);
        let mut disk = Disk::new();
        for id in 1..100 {
            answer(&mut slots, &mut disk, id, id, 10);
        }
        assert_eq!((disk.len(), slots.ledger.len()), (1, 1));
    }

    #[test]
    fn small_responses_share_a_slot_and_large_ones_do_not() {
        let mut slots = ResponseSlots::from(1);
        let mut disk = Disk::new();
        for id in 1..=10 {
            answer(&mut slots, &mut disk, id, 1, 10);
        }
        assert_eq!((disk.len(), slots.ledger.len()), (1, 10));
        answer(&mut slots, &mut disk, 11, 1, 300);
        answer(&mut slots, &mut disk, 12, 1, 10);
        assert_eq!(disk.len(), 3);
        // Evicted responses make room in the shared slot.
        answer(&mut slots, &mut disk, 13, 11, 10);
        assert_eq!((disk.len(), slots.plan(14, 11, 10).shared), (3, true));
    }

    #[test]
    fn spare_slots_are_few_and_small() {
        let mut slots = ResponseSlots::from(1);
        let mut disk = Disk::new();
        for id in 1..=500 {
            answer(&mut slots, &mut disk, id, 1, if id % 2 == 0 { 300 } else { 2_000 });
        }
        answer(&mut slots, &mut disk, 501, 501, 300);
        assert_eq!((disk.len(), slots.ledger.len()), (SPARE_LIMIT + 1, 1));
        for id in 502..600 {
            answer(&mut slots, &mut disk, id, 501, 300);
        }
        assert_eq!(disk.len(), 99);
    }

    #[test]
    fn no_slot_is_given_twice_whatever_comes() {
        let mut slots = ResponseSlots::from(1);
        let mut disk = Disk::new();
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
                let bytes = if next(4) == 0 { next(3_000) } else { next(40) };
                answer(&mut slots, &mut disk, id, lowest, bytes as u32);
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
            if next(100) == 0 {
                slots = loaded(&slots, &disk);
            }
            assert!(disk.len() <= KEPT_LIMIT + SPARE_LIMIT);
        }
    }
}
