//! What producers tell of runs, the same for every side.
//!
//! ```text
//!   producer 3:   turn 0 -> a run     turn 1 -> another …    turn 1,000 -> the first run again, the next event of its script
//!   script:       started, completed, started, completed, …, started, failed, retried, started, completed
//! ```
//!
//! A producer has steps of its own in every run, so that whatever it tells can follow what was told before.

use crate::context::Outcome;
use crate::workload::{self, Random};
use mainstay::{Instant, NewEvent};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Among how many runs producers spread what they tell.
pub const RUNS: usize = 1_000;
/// The producer whose events are there before anything is measured.
const EARLIER: usize = 999;
/// Has no divisor in common with the runs: a producer comes to all of them before it comes back.
const STRIDE: usize = 379;
/// Repetitions are of one of so many turns before.
const REPEATED_TURNS: usize = 100;
/// The version of the plan that all runs follow.
const PLAN: &str = "7";
/// When the first of all was emitted, in microseconds since 1970.
const BEGINNING_US: u64 = 1_800_000_000_000_000;
const NOTE_BYTES: usize = 48;

/// Three steps that succeed at once, and one that fails and is tried again: type, step, attempt.
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

/// What a producer tells once.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The run.
    pub run: String,
    /// What happened.
    pub event_type: &'static str,
    /// To which step; nothing for the whole run.
    pub step: Option<String>,
    /// In which attempt.
    pub attempt: u64,
    /// What belongs to it, as JSON of about a hundred bytes.
    pub data: String,
    /// When its producer says that it happened, in microseconds since 1970.
    pub emitted_us: u64,
}

impl Told {
    /// As an event of ours.
    pub fn event(&self) -> NewEvent {
        let mut event = self.named().data(&self.data);
        event.emitted_at = Some(Instant::of_us(self.emitted_us));
        event
    }

    /// Its idempotency key: what our side makes of it, and in the same way.
    pub fn key(&self) -> Outcome<String> {
        Ok(self.named().key()?)
    }

    /// When it was emitted.
    pub fn emitted(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.emitted_us)
    }

    fn named(&self) -> NewEvent {
        let event = NewEvent::new(&self.run, self.event_type).attempt(self.attempt).plan(PLAN);
        self.step.iter().fold(event, |event, step| event.step(step))
    }
}

/// The texts that events carry, made once.
#[derive(Clone)]
pub struct Notes(Arc<Vec<String>>);

impl Notes {
    /// Some of them, which hardly compress.
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
        let (event_type, step) = ("RunStarted", None);
        Told { run, event_type, step, attempt: 1, data, emitted_us: BEGINNING_US }
    }

    /// What a producer tells of a run for the so-manieth time.
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

    /// Something that changes no state, of which a run may have any number: each is an attempt of its own.
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

    /// What is there before anything is measured: every run has begun, and has had events.
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

/// One of those who tell what happened.
pub struct Producer {
    notes: Notes,
    number: usize,
    turn: usize,
    repeats: Option<Random>,
    repeat_next: bool,
}

impl Producer {
    /// The producer with this number. One that repeats tells every other time what it has told already.
    pub fn new(notes: &Notes, number: usize, repeats: bool) -> Producer {
        let repeats = repeats.then(|| Random::new(number as u64));
        Producer { notes: notes.clone(), number, turn: 0, repeats, repeat_next: false }
    }

    /// What it tells next, and whether that is new.
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

/// Refuses an answer that is not what was to come.
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

    /// Alerts are written for what cannot follow: a workload with such events would measure those.
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
