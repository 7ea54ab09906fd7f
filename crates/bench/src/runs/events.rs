//! The benchmark events of runs, the same for every side.
//!
//! ```text
//!   producer 3:   turn 0 -> a run     turn 1 -> another …    turn 1,000 -> the first run again, the next event of its script
//!   script:       started, completed, started, completed, …, started, failed, retried, started, completed
//! ```
//!
//! Each producer has its own steps in every run, so that each of its events is a valid successor of the
//! earlier ones.

use crate::context::Outcome;
use crate::workload::{self, Random};
use mainstay::{Instant, NewEvent};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Number of runs over which producers spread their events.
pub const RUNS: usize = 1_000;
/// The producer of the events that exist before the measurement.
const EARLIER: usize = 999;
/// Coprime to the number of runs, so that a producer visits all runs before it returns to one.
const STRIDE: usize = 379;
/// A repeated event is one of this many previous turns.
const REPEATED_TURNS: usize = 100;
/// The plan version of all runs.
const PLAN: &str = "7";
/// Emission time of the first event, in microseconds since 1970.
const BEGINNING_US: u64 = 1_800_000_000_000_000;
const NOTE_BYTES: usize = 48;

/// Three steps that succeed at once, and one that fails and is retried: type, step, attempt.
const SCRIPT: [(&str, usize, u32); 11] = [
    ("StepStarted", 0, 1),
    ("StepCompleted", 0, 1),
    ("StepStarted", 1, 1),
    ("StepCompleted", 1, 1),
    ("StepStarted", 2, 1),
    ("StepCompleted", 2, 1),
    ("StepStarted", 3, 1),
    ("StepFailed", 3, 1),
    ("StepRetried", 3, 2),
    ("StepStarted", 3, 2),
    ("StepCompleted", 3, 2),
];
const STEPS_OF_SCRIPT: usize = 4;

/// The name of a run.
pub fn run(number: usize) -> String {
    format!("tenant-{:02}/order-{number:06}", number % 16)
}

/// One event, independent of the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Name of the run.
    pub run: String,
    /// Type of the event.
    pub event_type: &'static str,
    /// The step; `None` for the whole run.
    pub step: Option<String>,
    /// Number of the attempt.
    pub attempt: u64,
    /// Payload: JSON of about a hundred bytes.
    pub data: String,
    /// Emission time, in microseconds since 1970.
    pub emitted_us: u64,
}

impl Told {
    /// As an event of our API.
    pub fn event(&self) -> NewEvent {
        let mut event = self.named().data(&self.data);
        event.emitted_at = Some(Instant::of_us(self.emitted_us));
        event
    }

    /// Its idempotency key, computed as our side computes it.
    pub fn key(&self) -> Outcome<String> {
        Ok(self.named().key()?)
    }

    /// Its emission time.
    pub fn emitted(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.emitted_us)
    }

    fn named(&self) -> NewEvent {
        let event = NewEvent::new(&self.run, self.event_type).attempt(self.attempt).plan(PLAN);
        self.step.iter().fold(event, |event, step| event.step(step))
    }
}

/// Payload texts, created once.
#[derive(Clone)]
pub struct Notes(Arc<Vec<String>>);

impl Notes {
    /// Creates texts that hardly compress.
    pub fn new() -> Notes {
        let cut = |mut note: String| {
            note.truncate(NOTE_BYTES);
            note
        };
        Notes(Arc::new(workload::values().into_iter().map(cut).collect()))
    }

    fn data(&self, number: u64, worker: usize) -> String {
        let note = &self.0[number as usize % self.0.len()];
        format!(r#"{{"worker":"worker-{worker:03}","rows":{number},"tries":1,"note":"{note}"}}"#)
    }

    /// The first event of a run.
    pub fn start(&self, run: String) -> Told {
        let data = self.data(0, 0);
        let event_type = "RunStarted";
        let step = None;
        Told { run, event_type, step, attempt: 1, data, emitted_us: BEGINNING_US }
    }

    /// A producer's event number `time` of a run.
    pub fn step(&self, run: String, producer: usize, time: usize) -> Told {
        let (event_type, step, attempt) = SCRIPT[time % SCRIPT.len()];
        let step = time / SCRIPT.len() * STEPS_OF_SCRIPT + step;
        Told {
            run,
            event_type,
            step: Some(format!("step-{producer}-{step}")),
            attempt: u64::from(attempt),
            data: self.data(time as u64, producer),
            emitted_us: BEGINNING_US + 1_000 * (time as u64 + 1),
        }
    }

    /// An event that changes no state, of which a run may have any number: each is a separate attempt.
    pub fn progress(&self, run: String, number: u64) -> Told {
        Told {
            run,
            event_type: "ToolAnswered",
            step: Some(format!("step-0-{}", number % 64)),
            attempt: number,
            data: self.data(number, 0),
            emitted_us: BEGINNING_US + 1_000 * (number + 1),
        }
    }

    /// All events of one run, by one producer.
    pub fn of_run(&self, run: &str, count: usize) -> impl Iterator<Item = Told> {
        let first = self.start(run.to_owned());
        let rest =
            (0..count.saturating_sub(1)).map(move |time| self.step(run.to_owned(), EARLIER, time));
        std::iter::once(first).chain(rest)
    }

    /// The events before the measurement: every run has started and has events.
    pub fn earlier(&self, count: usize) -> impl Iterator<Item = Told> {
        let starts = (0..RUNS).map(|number| self.start(run(number)));
        let turns = (0..count.saturating_sub(RUNS)).map(|turn| self.turn(EARLIER, turn));
        starts.chain(turns)
    }

    fn turn(&self, producer: usize, turn: usize) -> Told {
        let number = (turn * STRIDE + producer * 17) % RUNS;
        self.step(run(number), producer, turn / RUNS)
    }
}

/// A producer of events.
pub struct Producer {
    notes: Notes,
    number: usize,
    turn: usize,
    repeats: Option<Random>,
    repeat_next: bool,
}

impl Producer {
    /// The producer with this number. With `repeats`, every second event is a repetition of an earlier one.
    pub fn new(notes: &Notes, number: usize, repeats: bool) -> Producer {
        let repeats = repeats.then(|| Random::new(number as u64));
        Producer { notes: notes.clone(), number, turn: 0, repeats, repeat_next: false }
    }

    /// The next event, and whether it is new.
    pub fn next(&mut self) -> (Told, bool) {
        let repeats = std::mem::replace(&mut self.repeat_next, false);
        match &mut self.repeats {
            Some(random) if repeats => {
                let back = 1 + random.below(REPEATED_TURNS.min(self.turn));
                (self.notes.turn(self.number, self.turn - back), false)
            }
            random => {
                self.repeat_next = random.is_some();
                let told = self.notes.turn(self.number, self.turn);
                self.turn += 1;
                (told, true)
            }
        }
    }
}

/// Rejects an unexpected answer.
pub fn check(fresh: bool, persisted: bool) -> Result<(), &'static str> {
    match (fresh, persisted) {
        (true, false) => Err("an event that nobody had told before was there already"),
        (false, true) => Err("an event that had been told before was written again"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::{Judgement, RunSnapshot, reduce};
    use std::collections::{HashMap, HashSet};

    /// Invalid successors write alerts, and a workload with such events would measure the alerts.
    #[test]
    fn everything_told_can_follow_and_has_a_key_of_its_own() {
        let notes = Notes::new();
        let mut producers: Vec<_> = (0..3).map(|n| Producer::new(&notes, n, false)).collect();
        let mut snapshots: HashMap<String, RunSnapshot> = HashMap::new();
        let mut keys = HashSet::new();
        let later = (0..30 * RUNS).map(|n| producers[n % 3].next().0);
        for told in notes.earlier(12 * RUNS).chain(later) {
            let key = told.key().unwrap();
            assert!((90..=130).contains(&told.data.len()), "{}", told.data);
            let snapshot =
                snapshots.entry(told.run.clone()).or_insert_with(|| RunSnapshot::new(&told.run));
            let seq = snapshot.last_event_seq + 1;
            let event = told.event().stored(seq, String::new(), key.clone(), Instant::of_us(0));
            assert_eq!(reduce(snapshot, &event), Judgement::Applied, "{told:?}");
            assert!(keys.insert((told.run, key)));
        }
        assert_eq!(snapshots.len(), RUNS);
    }

    #[test]
    fn a_producer_that_repeats_does_so_every_other_time() {
        let mut producer = Producer::new(&Notes::new(), 1, true);
        let mut told = Vec::new();
        for number in 0..1_000 {
            let (this, fresh) = producer.next();
            assert_eq!(fresh, number % 2 == 0);
            assert_eq!(fresh, !told.contains(&this));
            told.push(this);
        }
    }

    #[test]
    fn progress_has_a_key_of_its_own_too() {
        let notes = Notes::new();
        let keys: HashSet<_> = (0..500).map(|n| notes.progress(run(1), n).key().unwrap()).collect();
        assert_eq!(keys.len(), 500);
        assert_eq!(notes.of_run("r", 7).count(), 7);
    }
}
