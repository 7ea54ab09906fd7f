//! Model-based test: random programs on a store and on a small model must give the same results.
//!
//! Sequence numbers, event IDs and times depend on the store. The events, their order and the errors do
//! not.

use super::{TestRuns, folded};
use crate::random::Random;
use mainstay_model::{
    Appended, CanonicalEvent, Code, FetchOptions, NewEvent, Result, RunCapabilities,
};
use std::collections::BTreeMap;

const RUNS: [&str; 4] = ["a", "a/1", "b", "é"];
const KEYS: u64 = 24;
const STEPS: [&str; 2] = ["load", "save"];
const TYPES: [&str; 12] = [
    "RunApproved",
    "RunStarted",
    "RunPaused",
    "RunResumed",
    "RunCompleted",
    "RunFailed",
    "StepStarted",
    "StepCompleted",
    "StepFailed",
    "StepRetried",
    "StepSkipped",
    "Tick",
];
const PROGRAMS: u64 = 12;
const LENGTH: usize = 150;

/// Runs programs with every operation that the store supports.
pub fn of_every_kind(s: &TestRuns<'_>) {
    (0..PROGRAMS).for_each(|seed| Program::new(s, seed).run());
}

/// A run in the model: the first event of each key with the store's sequence number.
#[derive(Default)]
struct Model {
    events: Vec<(NewEvent, u64)>,
    deleted: bool,
}

impl Model {
    fn last_seq(&self) -> u64 {
        self.events.last().map_or(0, |(_, seq)| *seq)
    }

    fn first_of(&self, event: &NewEvent) -> Option<&(NewEvent, u64)> {
        let key = event.key().unwrap();
        self.events.iter().find(|(first, _)| first.key().unwrap() == key)
    }
}

struct Program<'s, 'w> {
    s: &'s TestRuns<'w>,
    can: RunCapabilities,
    random: Random,
    seed: u64,
    runs: BTreeMap<String, Model>,
}

impl<'s, 'w> Program<'s, 'w> {
    fn new(s: &'s TestRuns<'w>, seed: u64) -> Program<'s, 'w> {
        let random = Random::of(&[seed]);
        Program { s, can: s.can(), random, seed, runs: BTreeMap::new() }
    }

    fn run(mut self) {
        for _ in 0..LENGTH {
            self.step();
        }
        for run in RUNS {
            self.compare(&self.name(run));
        }
    }

    /// Each program has its own runs.
    fn name(&self, run: &str) -> String {
        format!("{}/{run}", self.seed)
    }

    fn step(&mut self) {
        let run = RUNS[self.random.below(4) as usize];
        let run = self.name(run);
        match self.random.below(20) {
            0 if self.can.deletion && self.random.chance(30) => self.delete(&run),
            1..=3 if self.can.batches => self.batch(&run),
            4..=6 if self.can.expected_seq => self.expecting(&run),
            7..=9 => self.compare(&run),
            10 | 11 => self.fetch(&run),
            _ => self.append(&run),
        }
    }

    fn an_event(&mut self, run: &str) -> NewEvent {
        let event_type = TYPES[self.random.below(TYPES.len() as u64) as usize];
        let key = self.random.below(KEYS);
        let data = self.random.below(2);
        let event = NewEvent::new(run, event_type).with_key(&format!("k{key}")).value(data as i64);
        if event_type.starts_with("Step") {
            event.step(STEPS[self.random.below(2) as usize])
        } else {
            event
        }
    }

    fn model(&mut self, run: &str) -> &mut Model {
        self.runs.entry(run.to_owned()).or_default()
    }

    fn append(&mut self, run: &str) {
        let event = self.an_event(run);
        let answer = self.s.wait(self.s.append_event(event.clone()));
        self.judge(&event, answer);
    }

    fn expecting(&mut self, run: &str) {
        let event = self.an_event(run);
        let last = self.model(run).last_seq();
        let expected = if self.random.chance(60) { last } else { last + 1 };
        let answer = self.s.wait(self.s.append_expecting(event.clone(), expected));
        let model = self.model(run);
        let moves = !model.deleted && model.first_of(&event).is_none() && expected != last;
        if moves {
            assert_eq!(answer.unwrap_err().code(), Code::SequenceMoved, "{event:?}")
        } else {
            self.judge(&event, answer)
        }
    }

    fn batch(&mut self, run: &str) {
        let events: Vec<NewEvent> =
            (0..1 + self.random.below(4)).map(|_| self.an_event(run)).collect();
        match self.s.wait(self.s.append_batch(events.clone())) {
            Ok(answers) => {
                assert_eq!(answers.len(), events.len());
                let both = events.iter().zip(answers);
                both.for_each(|(event, answer)| self.judge(event, Ok(answer)));
            }
            Err(error) => self.judge(&events[0], Err(error)),
        }
    }

    /// Checks the answer to an append, then updates the model.
    fn judge(&mut self, event: &NewEvent, answer: Result<Appended>) {
        let seed = self.seed;
        let model = self.model(&event.run_id);
        let told = format!("seed {seed}, {event:?}: {answer:?}");
        if model.deleted {
            assert_eq!(answer.unwrap_err().code(), Code::RunNotFound, "{told}");
            return;
        }
        let answer = answer.unwrap_or_else(|_| panic!("{told}"));
        let found = (answer.idempotent, answer.persisted, answer.conflict);
        match model.first_of(event) {
            Some((first, seq)) => {
                assert_eq!(found, (true, false, !says_the_same(first, event)), "{told}");
                assert_eq!(answer.run_seq, *seq, "{told}");
            }
            None => {
                assert_eq!(found, (false, true, false), "{told}");
                assert!(answer.run_seq > model.last_seq(), "{told}");
                model.events.push((event.clone(), answer.run_seq));
            }
        }
    }

    fn delete(&mut self, run: &str) {
        let model = self.model(run);
        let was_there = !model.events.is_empty();
        let is_gone = model.deleted || was_there;
        *model = Model { deleted: is_gone, ..Model::default() };
        assert_eq!(self.s.ok(self.s.delete_run(run)), was_there);
    }

    fn fetch(&mut self, run: &str) {
        self.s.settle();
        let last = self.model(run).last_seq();
        let after = self.random.below(last + 3);
        let limit = 1 + self.random.below(6) as usize;
        let page = self.s.ok(self.s.fetch_events(run, FetchOptions::after(after).limit(limit)));
        let behind = self.model(run).events.iter().map(|(_, seq)| *seq);
        let wanted: Vec<u64> = behind.filter(|seq| *seq > after).take(limit).collect();
        assert_eq!(page.iter().map(|event| event.run_seq).collect::<Vec<_>>(), wanted);
    }

    /// Compares a run's events, snapshot and info with the model.
    fn compare(&mut self, run: &str) {
        let events = self.s.events(run);
        let model = self.model(run);
        let modelled: Vec<_> =
            model.events.iter().map(|(event, seq)| (*seq, of_new(event))).collect();
        let stored: Vec<_> = events.iter().map(|event| (event.run_seq, of_stored(event))).collect();
        assert_eq!(stored, modelled, "{run}");
        let made = self.s.ok(self.s.project_snapshot(run));
        assert_eq!(self.s.ok(self.s.get_snapshot(run)), made);
        let expected = (!events.is_empty()).then(|| folded(run, &events));
        assert_eq!(made.map(|it| it.hash()), expected.as_ref().map(|it| it.hash()));
        let info = self.s.ok(self.s.get(run));
        assert_eq!(info.map(|it| it.status), expected.map(|it| it.status));
    }
}

fn says_the_same(first: &NewEvent, other: &NewEvent) -> bool {
    of_new(first) == of_new(other)
}

fn of_new(event: &NewEvent) -> (String, Option<String>, String) {
    (event.event_type.clone(), event.step_id.clone(), event.event_data.to_json())
}

fn of_stored(event: &CanonicalEvent) -> (String, Option<String>, String) {
    (event.event_type.clone(), event.step_id.clone(), event.event_data.to_json())
}
