//! The events of one run: visible ones, held ones and burned numbers.

use mainstay_model::{
    Appended, CanonicalEvent, Instant, NewEvent, RunInfo, RunSnapshot, Stamp, Value, reduce,
};
use std::collections::{BTreeMap, BTreeSet};

/// One run.
pub struct RunLog {
    /// The last number that was assigned or burned.
    last_number: u64,
    events: BTreeMap<u64, CanonicalEvent>,
    keys: BTreeMap<String, u64>,
    /// Events that are not visible yet.
    pub hidden: BTreeSet<u64>,
    /// If set, the next event is held back.
    pub hide_next: bool,
    /// True if the run was deleted.
    pub is_deleted: bool,
    /// The metadata given at creation.
    pub metadata: Option<Value>,
    created: Stamp,
    updated: Stamp,
}

impl RunLog {
    /// Creates a run without events.
    pub fn new(now_us: Stamp) -> RunLog {
        RunLog {
            last_number: 0,
            events: BTreeMap::new(),
            keys: BTreeMap::new(),
            hidden: BTreeSet::new(),
            hide_next: false,
            is_deleted: false,
            metadata: None,
            created: now_us,
            updated: now_us,
        }
    }

    /// Burns numbers, which no event will have.
    pub fn skip_numbers(&mut self, count: u64) {
        self.last_number += count;
    }

    /// The last sequence number of an event.
    pub fn last_seq(&self) -> u64 {
        self.events.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// The answer for a retried event whose key exists.
    pub fn existing(&self, key: &str, event: &NewEvent) -> Option<Appended> {
        let first = &self.events[self.keys.get(key)?];
        let conflict = !first.says_the_same(event);
        Some(Appended { idempotent: true, persisted: false, conflict, ..append_result(first) })
    }

    /// Appends an event with a new key.
    pub fn append(
        &mut self,
        event: NewEvent,
        key: String,
        sequence: u64,
        now_us: Stamp,
    ) -> Appended {
        self.last_number += 1;
        let event_id = format!("00000000-0000-4000-8000-{sequence:012x}");
        let event = event.stored(self.last_number, event_id, key, Instant::of_us(now_us));
        if std::mem::take(&mut self.hide_next) {
            self.hidden.insert(event.run_seq);
        }
        self.updated = now_us;
        let appended = append_result(&event);
        self.insert(event);
        appended
    }

    /// Restores an archived event, unless it exists.
    pub fn restore(&mut self, event: CanonicalEvent) {
        let is_present = self.events.contains_key(&event.run_seq);
        if is_present || self.keys.contains_key(&event.idempotency_key) {
            return;
        }
        self.last_number = self.last_number.max(event.run_seq);
        self.insert(event);
    }

    fn insert(&mut self, event: CanonicalEvent) {
        self.keys.insert(event.idempotency_key.clone(), event.run_seq);
        self.events.insert(event.run_seq, event);
    }

    /// Deletes the run. Returns whether it existed.
    pub fn delete(&mut self) -> bool {
        let existed = !self.is_deleted;
        *self = RunLog { is_deleted: true, ..RunLog::new(self.created) };
        existed
    }

    /// Iterates over the visible events after this one.
    pub fn visible(&self, after_seq: u64) -> impl Iterator<Item = &CanonicalEvent> {
        let following = self.events.range(after_seq.saturating_add(1)..);
        following.map(|(_, event)| event).filter(|event| !self.hidden.contains(&event.run_seq))
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
fn append_result(event: &CanonicalEvent) -> Appended {
    Appended {
        run_seq: event.run_seq,
        idempotent: false,
        persisted: true,
        conflict: false,
        event_id: event.event_id.clone(),
        persisted_at: event.persisted_at.clone().unwrap_or_else(|| event.emitted_at.clone()),
    }
}
