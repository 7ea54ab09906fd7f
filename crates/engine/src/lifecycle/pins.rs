//! The pins of a database: the revisions that it keeps readable, and their holders.

use super::engine::Engine;
use mainstay_model::{Pin, PinSummary, Revision, Stamp};
use std::collections::BTreeMap;

impl Engine {
    /// Returns all pins, oldest first.
    pub fn all_pins(&self) -> Vec<Pin> {
        let newest = self.sequencer.published();
        let now = self.now();
        let mut pins = self.pinned(newest);
        pins.sort();
        let pin = |(revision, holder): (Revision, String)| {
            let age_us = self.age_us(revision, now);
            Pin { revision, holder, age_us, revisions_behind: newest.saturating_sub(revision) }
        };
        pins.into_iter().map(pin).collect()
    }

    /// Returns the pins by kind. Looks up the timestamp of only the oldest of each kind, because the
    /// pins may be very many.
    pub fn pins_by_kind(&self) -> Vec<PinSummary> {
        let newest = self.sequencer.published();
        let now = self.now();
        let mut kinds: BTreeMap<String, (u64, Revision)> = BTreeMap::new();
        for (revision, holder) in self.pinned(newest) {
            let kind = holder.split(' ').next().unwrap_or_default().to_owned();
            let (count, oldest) = kinds.entry(kind).or_insert((0, revision));
            *count += 1;
            *oldest = revision.min(*oldest);
        }
        let summary = |(kind, (count, oldest))| PinSummary {
            kind,
            count,
            oldest_age_us: self.age_us(oldest, now),
            revisions_behind: newest.saturating_sub(oldest),
        };
        kinds.into_iter().map(summary).collect()
    }

    /// Returns the pinned revisions with their holders.
    fn pinned(&self, newest: Revision) -> Vec<(Revision, String)> {
        let mut pins = self.state.catalog.read().pins(newest);
        let readers = self.pins.held();
        pins.extend(readers.into_iter().map(|held| (held.revision, held.holder.to_owned())));
        pins
    }

    /// Returns the age of a revision in microseconds.
    fn age_us(&self, revision: Revision, now: Stamp) -> u64 {
        let stamp = self.index().stamp_of(revision).ok().flatten().unwrap_or(now);
        now.saturating_sub(stamp)
    }
}
