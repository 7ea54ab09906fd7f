//! Random producers, compared with a small model.

use crate::event;
use mainstay::{Database, Durability, ManualClock, NewEvent, Options, RunSnapshot, reduce};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const KINDS: [&str; 8] = [
    "RunStarted",
    "RunPaused",
    "RunResumed",
    "RunCompleted",
    "StepStarted",
    "StepCompleted",
    "StepFailed",
    "Noted",
];

#[derive(Clone, Debug)]
enum Act {
    /// Appends to a run: a type, a step, a key, a payload. A retry is the same action again.
    Append {
        run: u8,
        kind: u8,
        step: u8,
        key: u16,
        payload: u8,
        with_message: bool,
    },
    /// Appends several events in one batch.
    Batch(Vec<(u8, u8, u16)>),
    Delete(u8),
    Claim(u8),
    /// Acknowledges the claimed messages, or fails them.
    Settle(bool),
    Pass(u16),
    Reopen,
    Trim,
}

fn act() -> impl Strategy<Value = Act> {
    let append = (0..4_u8, 0..8_u8, 0..3_u8, 0..60_u16, 0..2_u8, any::<bool>()).prop_map(
        |(run, kind, step, key, payload, with_message)| Act::Append {
            run,
            kind,
            step,
            key,
            payload,
            with_message,
        },
    );
    let batch = prop::collection::vec((0..4_u8, 0..8_u8, 0..60_u16), 1..5).prop_map(Act::Batch);
    prop_oneof![
        20 => append,
        4 => batch,
        1 => (0..4_u8).prop_map(Act::Delete),
        3 => (1..4_u8).prop_map(Act::Claim),
        3 => any::<bool>().prop_map(Act::Settle),
        2 => (0..40_000_u16).prop_map(Act::Pass),
        1 => Just(Act::Reopen),
        1 => Just(Act::Trim),
    ]
}

/// Expected contents of a run.
#[derive(Default)]
struct Model {
    /// Sequence number and payload of the first event, by key.
    keys: BTreeMap<String, (u64, i64, String)>,
    events: Vec<(String, String)>,
    deleted: bool,
}

struct World<'w> {
    db: Option<Database>,
    directory: &'w Path,
    clock: std::sync::Arc<ManualClock>,
    runs: BTreeMap<String, Model>,
    /// Waiting messages by run, oldest first.
    waiting: BTreeMap<String, Vec<u64>>,
    claimed: Vec<u64>,
}

impl World<'_> {
    fn open(&mut self) -> &Database {
        let options = Options::new().durability(Durability::Memory).sweep_interval(None);
        let options = options.clock(self.clock.clone()).write_buffer_bytes(64 << 10);
        self.db.get_or_insert_with(|| options.open(self.directory).unwrap())
    }

    fn new_event(run: &str, kind: u8, step: u8, key: u16, payload: u8) -> NewEvent {
        let kind = KINDS[usize::from(kind)];
        let step = ["a", "b", "c"][usize::from(step)];
        let step = kind.starts_with("Step").then_some(step);
        event(run, kind, step).with_key(&format!("k{key}")).value(i64::from(payload))
    }

    fn append(&mut self, events: Vec<NewEvent>, message: bool) {
        let refused = events
            .iter()
            .any(|event| self.runs.get(&event.run_id).is_some_and(|run: &Model| run.deleted));
        let first = events[0].clone();
        let db = self.open().clone();
        let answers = if message {
            db.transaction(|t| {
                let appended = t.append(first.clone())?;
                t.put_message("s", first.run_id.as_bytes(), Some(&first.run_id))?;
                Ok(vec![appended])
            })
        } else {
            db.runs().append_batch(events.clone())
        };
        if refused {
            assert!(answers.is_err());
            return;
        }
        for (event, answer) in events.into_iter().zip(answers.unwrap()) {
            let run = self.runs.entry(event.run_id.clone()).or_default();
            let key = event.key().unwrap();
            let payload = event.event_data.as_i64().unwrap();
            let said = format!("{}/{:?}", event.event_type, event.step_id);
            match run.keys.get(&key) {
                Some((seq, first, was)) => {
                    assert_eq!((answer.run_seq, answer.idempotent), (*seq, true));
                    assert_eq!(answer.conflict, *first != payload || *was != said);
                }
                None => {
                    run.events.push((key.clone(), event.event_type.clone()));
                    let seq = run.events.len() as u64;
                    run.keys.insert(key, (seq, payload, said));
                    assert_eq!((answer.run_seq, answer.persisted), (seq, true));
                }
            }
        }
        if message {
            let id = db.outbox().state().unwrap().last_id;
            self.waiting.entry(first.run_id).or_default().push(id);
        }
    }

    fn claim(&mut self, limit: u8) {
        let db = self.open().clone();
        for message in db.outbox().claim(limit.into(), Duration::from_secs(20)).unwrap() {
            // The message must be the first of its run that is not acknowledged yet.
            let run = message.run.clone().unwrap();
            assert_eq!(self.waiting[&run].first(), Some(&message.id));
            self.claimed.push(message.id);
        }
    }

    fn settle(&mut self, delivered: bool) {
        let db = self.open().clone();
        let claimed = std::mem::take(&mut self.claimed);
        if delivered {
            db.outbox().ack(&claimed).unwrap();
            self.waiting.values_mut().for_each(|ids| ids.retain(|id| !claimed.contains(id)));
            return;
        }
        for id in claimed {
            db.outbox().fail(id, "no", Duration::from_millis(100), 1000).unwrap();
        }
    }

    fn run(&mut self, act: &Act) {
        self.clock.advance(Duration::from_millis(1));
        match act {
            Act::Append { run, kind, step, key, payload, with_message } => {
                let run = format!("run-{run}");
                let event = World::new_event(&run, *kind, *step, *key, *payload);
                self.append(vec![event], *with_message);
            }
            Act::Batch(events) => {
                let event = |&(run, kind, key): &(u8, u8, u16)| {
                    World::new_event(&format!("run-{run}"), kind, 0, key, 0)
                };
                self.append(events.iter().map(event).collect(), false);
            }
            Act::Delete(run) => {
                let run = format!("run-{run}");
                let there = self.runs.get(&run).is_some_and(|model| !model.deleted);
                assert_eq!(self.open().runs().delete(&run).unwrap(), there);
                if there {
                    self.runs.insert(run, Model { deleted: true, ..Model::default() });
                }
            }
            Act::Claim(limit) => self.claim(*limit),
            Act::Settle(delivered) => self.settle(*delivered),
            Act::Pass(ms) => self.clock.advance(Duration::from_millis((*ms).into())),
            Act::Reopen => {
                self.open().sync().unwrap();
                self.db = None;
            }
            Act::Trim => {
                self.open().reap().unwrap();
                self.open().trim().unwrap();
            }
        }
    }

    fn check(&mut self) {
        let db = self.open().clone();
        for (run, model) in &self.runs {
            let events = db.runs().fetch(run, 0, 1000).unwrap();
            let seen: Vec<_> = events
                .iter()
                .map(|event| (event.idempotency_key.clone(), event.event_type.clone()))
                .collect();
            assert_eq!(seen, model.events, "{run}");
            let places = events.iter().map(|event| event.run_seq);
            assert!(places.eq(1..=events.len() as u64));
            let mut folded = RunSnapshot::new(run);
            events.iter().for_each(|event| drop(reduce(&mut folded, event)));
            let hash = |snapshot: Option<RunSnapshot>| snapshot.map(|snapshot| snapshot.hash());
            let expected = (!model.deleted).then(|| folded.hash());
            assert_eq!(hash(db.runs().snapshot(run).unwrap()), expected);
            assert_eq!(hash(db.runs().project(run).unwrap()), expected);
            if let Some(info) = db.runs().get(run).unwrap() {
                assert_eq!(
                    (info.status, info.last_event_seq),
                    (folded.status, folded.last_event_seq)
                );
                assert_eq!(info.inconsistent, folded.is_inconsistent());
            }
        }
        let pending: usize = self.waiting.values().map(Vec::len).sum();
        assert_eq!(db.outbox().state().unwrap().pending, pending as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever producers, relays and crashes do: one event per key, no gaps, the projection equals the
    /// snapshot, and messages are in the order of their run.
    #[test]
    fn runs_do_as_the_model_says(acts in prop::collection::vec(act(), 1..120)) {
        let directory = tempfile::tempdir().unwrap();
        let mut world = World {
            db: None,
            directory: directory.path(),
            clock: ManualClock::new(1_700_000_000_000_000),
            runs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            claimed: Vec::new(),
        };
        for act in &acts {
            world.run(act);
        }
        world.check();
        world.run(&Act::Reopen);
        world.check();
    }
}
