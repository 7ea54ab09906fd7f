//! Doctor check: whether head, events, keys, stored snapshots and alerts of runs are consistent.
//!
//! ```text
//!   events 1, 2, 3 ... in order --> no gap, each one's key leads back to it
//!                    \--fold--> stored snapshots, alerts, and at the end the head
//!   keys --> each leads to an event that has it
//! ```
//!
//! Only one event and the folded state of its run are held in memory at a time.

use crate::apply::runs::append::tip;
use crate::apply::runs::fold::KEEP_EVENTS;
use crate::apply::runs::fold::KEEP_LIMIT_BYTES;
use crate::apply::runs::head::RunHead;
use crate::apply::runs::read::RunEvents;
use crate::key::entry;
use crate::key::keyspace::{self, ALERTS, EVENT_KEYS, EVENTS, PREFIX_BYTES, RUNS, STATES};
use crate::key::run_keys;
use crate::key::run_keys::RunName;
use crate::mvcc::view::{NameStep, NameWalk, View};
use crate::mvcc::write_set::WriteSet;
use crate::tools::doctor::Faults;
use mainstay_model::codec::{self, get_varint};
use mainstay_model::{
    CanonicalEvent, Code, Instant, Judgement, Name, Result, RunSnapshot, reduce_parts, take_text,
};
use std::ops::Bound;

const RESTORE: &str =
    "Restore the run from an archive or a backup, or export what can be read of it.";
const REPEATED: &str =
    "Until then a repeat of that event is not recognised: keep its producer from repeating it.";
const DERIVED: &str = "The events count, and `project` folds them all; let the index be rebuilt.";

/// Checks the runs whose heads are on the branch itself. Returns the number of runs and events.
pub(crate) fn check(view: &View<'_>, faults: &mut Faults) -> Result<(u64, u64)> {
    let (branch, at) = view.layers[0];
    let from = keyspace::key(RUNS, branch, b"");
    let end = keyspace::after_prefix(&from);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut runs = 0;
    let mut events = 0;
    let nothing = WriteSet::default();
    for row in view.index.scan(Bound::Included(&from), to, at) {
        let row = row?;
        let entry = entry::parse(row.entry());
        if entry.as_ref().is_ok_and(|(entry, _)| entry.is_deleted()) {
            continue;
        }
        runs += 1;
        let name = String::from_utf8_lossy(&row.key()[PREFIX_BYTES..]).into_owned();
        let head = entry.and_then(|(_, payload)| RunHead::decode(payload));
        match (Name::new(&name), head) {
            (Ok(run), Ok(head)) => {
                let prefix = run_keys::life(&name, head.generation);
                let life = RunLife { view, nothing: &nothing, run: &run, head: &head, prefix };
                events += life.check_all(faults)?;
            }
            _ => faults.run(&name, None, "its head cannot be read".into(), RESTORE),
        }
    }
    Ok((runs, events))
}

/// One life of a run.
struct RunLife<'l> {
    view: &'l View<'l>,
    nothing: &'l WriteSet,
    run: &'l Name,
    head: &'l RunHead,
    /// The common prefix of all its keys.
    prefix: RunName,
}

/// The folded state up to an event.
struct RunTotals {
    snapshot: RunSnapshot,
    /// The same by the reducer of earlier versions, which ignored attempts. They stored snapshots and
    /// raised alerts by it.
    without_attempts: RunSnapshot,
    tip: u64,
}

impl RunLife<'_> {
    /// Checks all of it and returns the number of events. If an entry cannot be decoded, skips the rest
    /// of this run, but not the other runs.
    fn check_all(&self, faults: &mut Faults) -> Result<u64> {
        let checked = self.check(faults);
        if matches!(&checked, Err(error) if error.code() == Code::CorruptData) {
            self.tell(faults, None, "something of it cannot be read".into(), RESTORE);
            return Ok(0);
        }
        checked
    }

    fn check(&self, faults: &mut Faults) -> Result<u64> {
        let before = faults.all;
        let events = self.check_events(faults)?;
        self.check_states(faults)?;
        // Each event's key leads to it, so an equal number of keys means equal keys.
        if self.count_keys()? != events || faults.all != before {
            self.check_keys(faults)?;
        }
        Ok(events)
    }

    fn check_events(&self, faults: &mut Faults) -> Result<u64> {
        let first = run_keys::at(self.run.as_str(), self.head.generation, 0);
        let mut walk = self.view.walk(self.nothing, EVENTS, &self.prefix, Some(&first));
        let mut alerts = Alerts::new(self)?;
        let mut sum = Some(self.begin()?);
        let mut expected = 1;
        let mut events = 0;
        while let Some(step) = next_live(&mut walk)? {
            let Some(seq) = self.seq(&step, faults) else { continue };
            if seq > self.head.last_seq {
                let what = format!("the run's head ends with event {}", self.head.last_seq);
                self.tell(faults, Some(seq), what, RESTORE);
                continue;
            }
            if self.tell_missing(expected, seq - 1, faults) {
                sum = None;
            }
            expected = seq + 1;
            events += 1;
            sum = self.check_event(seq, &step, sum, &mut alerts, faults)?;
        }
        if self.tell_missing(expected, self.head.last_seq, faults) {
            sum = None;
        }
        if let Some(sum) = sum {
            alerts.finish(self, faults)?;
            self.check_head(&sum, faults);
        }
        Ok(events)
    }

    /// Returns the folded state before the first event.
    fn begin(&self) -> Result<RunTotals> {
        let log = self.log();
        let made = log.find(0, |_, payload| Ok(tip(0, payload, None)))?;
        let snapshot = RunSnapshot::new(self.run.as_str());
        let without_attempts = snapshot.clone();
        Ok(RunTotals { snapshot, without_attempts, tip: made.unwrap_or_default() })
    }

    /// Checks one event, its key and its folded state. Returns `None` after an unreadable event.
    fn check_event(
        &self,
        seq: u64,
        step: &NameStep,
        sum: Option<RunTotals>,
        alerts: &mut Alerts<'_>,
        faults: &mut Faults,
    ) -> Result<Option<RunTotals>> {
        let payload = step.payload();
        let stamp = step.head.stamp;
        let Ok(event) = CanonicalEvent::decode(payload, self.run.as_str(), seq, stamp) else {
            self.tell(faults, Some(seq), "it cannot be read".into(), RESTORE);
            return Ok(None);
        };
        self.check_key_of(&event, faults)?;
        let Some(mut sum) = sum else { return Ok(None) };
        let mut bytes = Vec::with_capacity(payload.len());
        let said = event.encode(&Instant::of_us(stamp), &mut bytes)?;
        let of_step = event.step_id.as_deref();
        sum.tip = tip(sum.tip, &bytes[said], of_step);
        let event_type = &event.event_type;
        let attempt = event.logical_attempt_id.as_deref();
        let judged = [
            reduce_parts(&mut sum.snapshot, seq, event_type, of_step, attempt),
            reduce_parts(&mut sum.without_attempts, seq, event_type, of_step, None),
        ];
        let is_illegal = judged.map(|judgement| matches!(judgement, Judgement::Illegal(_)));
        alerts.check(self, seq, is_illegal, faults)?;
        self.check_kept(seq, &sum, faults)?;
        Ok(Some(sum))
    }

    fn check_key_of(&self, event: &CanonicalEvent, faults: &mut Faults) -> Result<()> {
        let place = run_keys::key(self.run.as_str(), self.head.generation, &event.idempotency_key);
        let (key, hash) = self.view.key(EVENT_KEYS, &place);
        let found = self.view.find(self.nothing, &key, hash, |entry, mut payload| {
            Ok(if entry.is_deleted() { None } else { get_varint(&mut payload) })
        })?;
        let key = &event.idempotency_key;
        let what = match found.and_then(|(seq, _)| seq) {
            Some(seq) if seq == event.run_seq => return Ok(()),
            Some(seq) => format!("its idempotency key `{key}` leads to event {seq}"),
            None => format!("its idempotency key `{key}` is missing"),
        };
        self.tell(faults, Some(event.run_seq), what, REPEATED);
        Ok(())
    }

    fn check_kept(&self, seq: u64, sum: &RunTotals, faults: &mut Faults) -> Result<()> {
        let is_named = seq == self.head.kept_seq;
        if !seq.is_multiple_of(KEEP_EVENTS) && !is_named {
            return Ok(());
        }
        let place = run_keys::snapshot(self.run.as_str(), self.head.generation, seq);
        let (key, hash) = self.view.key(STATES, &place);
        let found = self.view.find(self.nothing, &key, hash, |entry, payload| {
            let kept = || {
                let kept = RunSnapshot::decode(payload, self.run.as_str()).ok()?;
                let is_current = RunSnapshot::is_current(payload);
                Some(kept == *if is_current { &sum.snapshot } else { &sum.without_attempts })
            };
            Ok((!entry.is_deleted()).then(kept))
        })?;
        let is_kept = is_named && self.head.kept_bytes <= KEEP_LIMIT_BYTES as u64;
        let what = match found.and_then(|(kept, _)| kept) {
            Some(Some(true)) => return Ok(()),
            Some(Some(false)) => "the snapshot kept there is not what the events add up to",
            Some(None) => "the snapshot kept there cannot be read",
            None if is_kept => "the head names a snapshot kept there, but there is none",
            None => return Ok(()),
        };
        self.tell(faults, Some(seq), what.into(), DERIVED);
        Ok(())
    }

    /// Checks that the head matches the folded state.
    fn check_head(&self, sum: &RunTotals, faults: &mut Faults) {
        let head = self.head;
        let snapshot = &sum.snapshot;
        if head.tip != sum.tip {
            let what = "its head was written for other events (their hashes differ)";
            self.tell(faults, None, what.into(), RESTORE);
        }
        let flags = [snapshot, &sum.without_attempts].map(RunSnapshot::is_inconsistent);
        if head.status != snapshot.status || !flags.contains(&head.inconsistent) {
            let what = format!(
                "its head says {:?}, but its events add up to {:?}",
                head.status, snapshot.status
            );
            self.tell(faults, None, what, DERIVED);
        }
    }

    /// Checks that stored states refer to existing events.
    fn check_states(&self, faults: &mut Faults) -> Result<()> {
        let mut walk = self.view.walk(self.nothing, STATES, &self.prefix, None);
        while let Some(step) = next_live(&mut walk)? {
            let rest = &step.name()[self.prefix.len()..];
            let seq = match run_keys::kept_seq(rest) {
                Some(seq) => Some(seq),
                None => reduced_seq(step.payload()),
            };
            let last_seq = self.head.last_seq;
            match seq {
                Some(seq) if seq <= last_seq => {}
                Some(seq) => {
                    let what = format!("a state of it is kept, but the run ends with {last_seq}");
                    self.tell(faults, Some(seq), what, DERIVED);
                }
                None => self.tell(faults, None, "a kept state cannot be read".into(), DERIVED),
            }
        }
        Ok(())
    }

    fn count_keys(&self) -> Result<u64> {
        let mut walk = self.view.walk(self.nothing, EVENT_KEYS, &self.prefix, None);
        let mut keys = 0;
        while next_live(&mut walk)?.is_some() {
            keys += 1;
        }
        Ok(keys)
    }

    /// Checks that each key leads to an event that has it.
    fn check_keys(&self, faults: &mut Faults) -> Result<()> {
        let mut walk = self.view.walk(self.nothing, EVENT_KEYS, &self.prefix, None);
        while let Some(step) = next_live(&mut walk)? {
            let mut rest = &step.name()[self.prefix.len()..];
            let key = take_text(&mut rest).unwrap_or_default();
            let Some(seq) = get_varint(&mut step.payload()) else {
                let what = format!("what its idempotency key `{key}` leads to cannot be read");
                self.tell(faults, None, what, REPEATED);
                continue;
            };
            if self.key_of(seq)?.is_none_or(|of_event| of_event != key) {
                let what = format!(
                    "idempotency key `{key}` leads there, but there is no event with that key"
                );
                self.tell(faults, Some(seq), what, REPEATED);
            }
        }
        Ok(())
    }

    /// Returns the idempotency key of an event, if it exists and is readable.
    fn key_of(&self, seq: u64) -> Result<Option<String>> {
        let found = self.log().find(seq, |entry, payload| {
            let event = CanonicalEvent::decode(payload, self.run.as_str(), seq, entry.stamp);
            Ok(event.ok().filter(|_| seq > 0 && !entry.is_deleted()))
        });
        match found {
            Ok(event) => Ok(event.flatten().map(|event| event.idempotency_key)),
            Err(error) if error.code() == Code::CorruptData => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn log(&self) -> RunEvents<'_> {
        let RunLife { view, nothing: overlay, run, head, .. } = *self;
        RunEvents { view, overlay, run, generation: head.generation }
    }

    /// Returns the sequence of a scanned key.
    fn seq(&self, step: &NameStep, faults: &mut Faults) -> Option<u64> {
        let seq = run_keys::seq(&step.name()[self.prefix.len()..]);
        if seq.is_none() {
            self.tell(faults, None, "something stands where an event should".into(), RESTORE);
        }
        seq
    }

    /// Reports missing events. Returns whether any are missing.
    fn tell_missing(&self, first: u64, last: u64, faults: &mut Faults) -> bool {
        if first > last {
            return false;
        }
        let what = if first == last {
            "it is missing".to_owned()
        } else {
            format!("it and all up to event {last} are missing")
        };
        self.tell(faults, Some(first), what, RESTORE);
        true
    }

    fn tell(&self, faults: &mut Faults, seq: Option<u64>, what: String, advice: &'static str) {
        faults.run(self.run.as_str(), seq, what, advice);
    }
}

/// A cursor over the alerts of a run, advanced with its events.
struct Alerts<'a> {
    walk: NameWalk<'a>,
    next: Option<u64>,
}

impl<'a> Alerts<'a> {
    fn new(life: &RunLife<'a>) -> Result<Alerts<'a>> {
        let walk = life.view.walk(life.nothing, ALERTS, &life.prefix, None);
        let mut alerts = Alerts { walk, next: None };
        alerts.step(life)?;
        Ok(alerts)
    }

    fn step(&mut self, life: &RunLife<'_>) -> Result<()> {
        self.next = next_live(&mut self.walk)?
            .map(|step| run_keys::seq(&step.name()[life.prefix.len()..]).unwrap_or_default());
        Ok(())
    }

    /// Checks that an alert exists exactly where an event could not follow. If today's reducer and that
    /// of versions without attempts differ, either may have decided.
    fn check(
        &mut self,
        life: &RunLife<'_>,
        seq: u64,
        is_illegal: [bool; 2],
        faults: &mut Faults,
    ) -> Result<()> {
        self.skip(life, seq, faults)?;
        let is_told = self.next == Some(seq);
        if is_told {
            self.step(life)?;
        }
        let what = match (is_illegal, is_told) {
            ([true, true], false) => "it could not follow those before it, but there is no alert",
            ([false, false], true) => "there is an alert, but it could follow those before it",
            _ => return Ok(()),
        };
        life.tell(faults, Some(seq), what.into(), DERIVED);
        Ok(())
    }

    /// Reports alerts without an event.
    fn skip(&mut self, life: &RunLife<'_>, upto: u64, faults: &mut Faults) -> Result<()> {
        while let Some(seq) = self.next.filter(|seq| *seq < upto) {
            life.tell(faults, Some(seq), "there is an alert, but no such event".into(), DERIVED);
            self.step(life)?;
        }
        Ok(())
    }

    fn finish(&mut self, life: &RunLife<'_>, faults: &mut Faults) -> Result<()> {
        self.skip(life, u64::MAX, faults)
    }
}

/// Returns the next live entry.
fn next_live<'o>(walk: &mut NameWalk<'o>) -> Result<Option<NameStep<'o>>> {
    while let Some(step) = walk.next()? {
        if !step.head.is_deleted() {
            return Ok(Some(step));
        }
    }
    Ok(None)
}

/// Returns the event up to which a user's reducer has folded.
fn reduced_seq(mut state: &[u8]) -> Option<u64> {
    let _version = get_varint(&mut state)?;
    let seq = get_varint(&mut state)?;
    codec::decode(state).ok().map(|_| seq)
}
