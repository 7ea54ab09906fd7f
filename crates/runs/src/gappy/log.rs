//! The events of one run: visible ones, held ones and burned numbers.

use mainstay_model::{
    Appended, CanonicalEvent, Instant, NewEvent, RunInfo, RunSnapshot, Stamp, Value, reduce,
};
use std::collections::{BTreeMap, BTreeSet};

/// One run.
pub struct Log {
    /// The last number that was assigned or burned.
    last_number: u64,
    events: BTreeMap<u64, CanonicalEvent>,
    keys: BTreeMap<String, u64>,
    /// Events that are not visible yet.
    pub held: BTreeSet<u64>,
    /// If set, the next event is held back.
    pub hold_next: bool,
    /// True if the run was deleted.
    pub deleted: bool,
    /// The metadata given at creation.
    pub metadata: Option<Value>,
    created: Stamp,
    updated: Stamp,
}

impl Log {
    /// Creates a run without events.
    pub fn new(now_us: Stamp) -> Log {
        Log {
            last_number: 0,
            events: BTreeMap::new(),
            keys: BTreeMap::new(),
            held: BTreeSet::new(),
            hold_next: false,
            deleted: false,
            metadata: None,
            created: now_us,
            updated: now_us,
        }
    }

    /// Burns numbers, which no event will have.
    pub fn burn(&mut self, count: u64) {
        self.last_number += count;
    }

    /// The last sequence number of an event.
    pub fn last_seq(&self) -> u64 {
        self.events.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// The answer for a retried event whose key exists.
    pub fn first_of(&self, key: &str, event: &NewEvent) -> Option<Appended> {
        let first = &self.events[self.keys.get(key)?];
        let conflict = !first.says_the_same(event);
        Some(Appended { idempotent: true, persisted: false, conflict, ..answer(first) })
    }

    /// Appends an event with a new key.
    pub fn append(
        &mut self,
        event: NewEvent,
        key: String,
        written: u64,
        now_us: Stamp,
    ) -> Appended {
        self.last_number += 1;
        let event_id = format!("00000000-0000-4000-8000-{written:012x}");
        let event = event.stored(self.last_number, event_id, key, Instant::of_us(now_us));
        if std::mem::take(&mut self.hold_next) {
            self.held.insert(event.run_seq);
        }
        self.updated = now_us;
        let appended = answer(&event);
        self.put(event);
        appended
    }

    /// Restores an archived event, unless it exists.
    pub fn restore(&mut self, event: CanonicalEvent) {
        let is_there = self.events.contains_key(&event.run_seq);
        if is_there || self.keys.contains_key(&event.idempotency_key) {
            return;
        }
        self.last_number = self.last_number.max(event.run_seq);
        self.put(event);
    }

    fn put(&mut self, event: CanonicalEvent) {
        self.keys.insert(event.idempotency_key.clone(), event.run_seq);
        self.events.insert(event.run_seq, event);
    }

    /// Deletes the run. Returns whether it existed.
    pub fn delete(&mut self) -> bool {
        let was_there = !self.deleted;
        *self = Log { deleted: true, ..Log::new(self.created) };
        was_there
    }

    /// Iterates over the visible events after this one.
    pub fn visible(&self, after_seq: u64) -> impl Iterator<Item = &CanonicalEvent> {
        let behind = self.events.range(after_seq.saturating_add(1)..);
        behind.map(|(_, event)| event).filter(|event| !self.held.contains(&event.run_seq))
    }

    /// The run's metadata and status.
    pub fn info(&self, run: &str) -> RunInfo {
        let mut snapshot = RunSnapshot::new(run);
        self.visible(0).for_each(|event| drop(reduce(&mut snapshot, event)));
        RunInfo {
            run_id: run.to_owned(),
            status: snapshot.status,
            last_event_seq: snapshot.last_event_seq,
            inconsistent: snapshot.is_inconsistent(),
            created: self.created,
            updated: self.updated,
            revision: 0,
            metadata: self.metadata.clone(),
        }
    }
}

/// The result of an append.
fn answer(event: &CanonicalEvent) -> Appended {
    Appended {
        run_seq: event.run_seq,
        idempotent: false,
        persisted: true,
        conflict: false,
        event_id: event.event_id.clone(),
        persisted_at: event.persisted_at.clone().unwrap_or_else(|| event.emitted_at.clone()),
    }
}
