//! Model-based test: random programs on a store and on the oracle must give the same results.
//!
//! Timestamps and the increments of counters depend on the store. Records, conditions and errors do not.

use super::TestRecords;
use crate::assertions::field;
use crate::random::Random;
use crate::reference_model::Oracle;
use crate::test_db::START_US;
use mainstay_model::{
    Answer, Capabilities, Code, Command, Condition, Conditions, Counters, ExpireOnly, FieldValue,
    MAIN, Name, Record, RecordCommand, RecordPage, RecordWrite, Result, Test, Transaction, Ttl,
    Where,
};

const KEYS: [&str; 5] = ["a", "a/1", "a/2", "b", "é"];
const PREFIXES: [&str; 4] = ["", "a", "a/", "x"];
const FIELDS: [&str; 3] = ["state", "n", ""];
const VALUES: [&str; 10] = ["", "0", "2", "10", "-3", "1.5", "007", "a", "b", "\u{e9}"];
const PROGRAMS: u64 = 12;
const STEPS: usize = 120;

/// Programs advance time in steps of this size, and records expire between two steps.
const TICK_MS: u64 = 10;

/// Programs without a passage of time.
pub fn of_every_write(s: &TestRecords<'_>) {
    (0..PROGRAMS).for_each(|seed| Program::new(s, seed, false).run());
}

/// Programs in which records expire.
/// Requires: Ttl, ManualClock.
pub fn with_time_going_by(s: &TestRecords<'_>) {
    (0..PROGRAMS).for_each(|seed| Program::new(s, seed, true).run());
}

struct Program<'s, 'w> {
    s: &'s TestRecords<'w>,
    can: Capabilities,
    oracle: Oracle,
    random: Random,
    seed: u64,
    time: bool,
    /// Old counters: the key, the model's counter and the store's counter.
    stale: Vec<(&'static str, u64, u64)>,
}

impl<'s, 'w> Program<'s, 'w> {
    fn new(s: &'s TestRecords<'w>, seed: u64, time: bool) -> Program<'s, 'w> {
        for key in KEYS {
            s.ok(s.delete(key));
        }
        let random = Random::of(&[seed, time.into()]);
        let oracle = Oracle::new(1, START_US);
        Program { s, can: s.can(), oracle, random, seed, time, stale: Vec::new() }
    }

    fn run(mut self) {
        for at in 0..STEPS {
            let step = self.step();
            assert!(step.1, "program {} of seed {}, step {at}: {}", self.time, self.seed, step.0);
            self.compare_all(at);
        }
    }

    /// Runs one step. Returns its description and whether both gave the same result.
    fn step(&mut self) -> (String, bool) {
        match self.random.below(10) {
            0..=5 => self.write(),
            6 => self.delete(),
            7 if self.time => self.expire(),
            8 if self.time => self.pass(),
            _ => self.scan(),
        }
    }

    fn write(&mut self) -> (String, bool) {
        let key = self.a_key();
        let write = self.a_write(key);
        let [modelled, stored] = [0, 1].map(|side| write.for_side(side));
        let model = self.model(modelled.clone()).map(|answer| match answer {
            Answer::MaybeCounter(counter) => counter.is_some(),
            other => panic!("{other:?}"),
        });
        let store = self.s.wait(self.s.write(stored.clone())).map(|counter| counter.is_some());
        (format!("{stored:?}: {store:?}, not {model:?}"), same(&model, &store))
    }

    fn delete(&mut self) -> (String, bool) {
        let key = self.a_key();
        let when = self.conditions(key);
        let [modelled, stored] = [0, 1].map(|side| sided(&when, side));
        let command = RecordCommand::Delete { key: name(key), when: modelled };
        let model = self.model(command).map(did);
        let store = self.s.wait(self.s.delete_when(key, stored));
        (format!("delete {key} {when:?}: {store:?}, not {model:?}"), same(&model, &store))
    }

    fn expire(&mut self) -> (String, bool) {
        let key = self.a_key();
        let ttl = self.a_ttl();
        let command = RecordCommand::Expire { key: name(key), ttl, only: ExpireOnly::Always };
        let model = self.model(command).map(did);
        let store = self.s.wait(self.s.expire(key, ttl));
        (format!("expire {key} {ttl:?}: {store:?}, not {model:?}"), same(&model, &store))
    }

    fn pass(&mut self) -> (String, bool) {
        let ms = TICK_MS * (1 + self.random.below(4));
        self.s.pass_ms(ms);
        self.oracle.wall += ms * 1_000;
        (format!("{ms} ms"), true)
    }

    fn scan(&mut self) -> (String, bool) {
        let prefix = PREFIXES[self.random.below(4) as usize];
        let filters: Vec<Where> = (0..self.random.below(3)).map(|_| self.a_filter()).collect();
        let limit = 1 + self.random.below(5) as usize;
        let inside: Vec<&str> = KEYS.into_iter().filter(|key| key.starts_with(prefix)).collect();
        let after = inside.get(self.random.below(12) as usize).copied();
        let now = self.oracle.latest();
        let model = self.oracle.scan(MAIN, prefix, &filters, after, limit, now).unwrap();
        let store = self.s.ok(self.s.scan(prefix, &filters, after, limit));
        let all = self.oracle.scan(MAIN, prefix, &filters, None, 1_000, now).unwrap().records.len();
        let count = self.s.ok(self.s.count(prefix, &filters));
        let is_same = pages(&model) == pages(&store) && all as u64 == count;
        (format!("{prefix} {filters:?} {after:?} {limit}: {store:?}, not {model:?}"), is_same)
    }

    /// Compares every record with the model.
    fn compare_all(&mut self, at: usize) {
        for key in KEYS {
            let (model, store) = self.both(key);
            let shown = |record: &Record| (record.fields.clone(), record.expires.is_some());
            let told = format!("seed {}, behind step {at}: {key}", self.seed);
            match self.can.lifetimes {
                mainstay_model::Lifetimes::PerStore { .. } => {
                    assert_eq!(model.map(|m| m.fields), store.map(|s| s.fields), "{told}");
                }
                _ => assert_eq!(model.as_ref().map(shown), store.as_ref().map(shown), "{told}"),
            }
        }
    }

    fn both(&self, key: &str) -> (Option<Record>, Option<Record>) {
        let model = self.oracle.record(MAIN, key, self.oracle.latest()).unwrap();
        (model, self.s.ok(self.s.get(key)))
    }

    fn model(&mut self, command: impl Into<Command>) -> Result<Answer> {
        let receipt = self.oracle.execute(&Transaction::new().step(command))?;
        Ok(receipt.answers[0].clone())
    }

    fn a_key(&mut self) -> &'static str {
        KEYS[self.random.below(KEYS.len() as u64) as usize]
    }

    fn a_field(&mut self) -> &'static str {
        FIELDS[self.random.below(FIELDS.len() as u64) as usize]
    }

    fn a_value(&mut self) -> Vec<u8> {
        VALUES[self.random.below(VALUES.len() as u64) as usize].as_bytes().to_vec()
    }

    /// A time to live that ends between two ticks, so that its start within a tick does not matter.
    fn a_ttl(&mut self) -> Ttl {
        match self.random.below(4) {
            0 => Ttl::Clear,
            1 => Ttl::Keep,
            _ => Ttl::Millis(TICK_MS * (1 + self.random.below(6)) + TICK_MS / 2),
        }
    }

    fn a_filter(&mut self) -> Where {
        let tests = [Test::Eq, Test::Ne, Test::Lt, Test::Le, Test::Gt, Test::Ge];
        let value = self.a_value();
        let test = match self.random.below(7) {
            6 => Test::In(vec![value, self.a_value()]),
            n => tests[n as usize](value),
        };
        Where { field: field(self.a_field()), test }
    }

    fn a_write(&mut self, key: &'static str) -> Sided {
        let mut write = RecordWrite::to(key).unwrap();
        for _ in 0..self.random.below(4) {
            let value = self.a_field_value();
            write = write.set(self.a_field(), value).unwrap();
        }
        if self.random.chance(30) {
            write = write.clear(self.a_field()).unwrap();
        }
        write.replace = self.random.chance(20);
        if self.time {
            write.ttl = self.a_ttl();
        }
        Sided { write, when: self.conditions(key) }
    }

    fn a_field_value(&mut self) -> FieldValue {
        if self.can.sums && self.random.chance(20) {
            FieldValue::Sum { by: self.random.below(9) as i64 - 4 }
        } else {
            FieldValue::Bytes(self.a_value())
        }
    }

    fn conditions(&mut self, key: &'static str) -> Vec<[Condition; 2]> {
        let most = match (self.can.conditions, self.can.several_conditions) {
            (Conditions::Nothing, _) => 0,
            (_, several) => 1 + u64::from(several),
        };
        let count = self.random.below(2 * most + 1).saturating_sub(most);
        (0..count).map(|_| self.condition(key)).collect()
    }

    /// A condition for the model and for the store, which differ only in counters.
    fn condition(&mut self, key: &'static str) -> [Condition; 2] {
        let with_fields = self.can.conditions >= Conditions::Fields;
        let field = field(self.a_field());
        let held =
            self.both(key).0.and_then(|seen| Some(seen.fields.get(field.as_bytes())?.to_vec()));
        let some = if self.random.chance(50) { held.unwrap_or_default() } else { self.a_value() };
        let one = match self.random.below(6) {
            0 => Condition::Exists,
            1 | 2 if with_fields => Condition::Field { field, is: Some(some) },
            3 if with_fields => Condition::Field { field, is: None },
            4 if with_fields && self.can.fences => Condition::Fence { field, is: some },
            _ => return self.counter(key),
        };
        [one.clone(), one]
    }

    /// A condition on the current counter, on an old one, or on absence.
    fn counter(&mut self, key: &'static str) -> [Condition; 2] {
        let counters = match self.both(key) {
            (Some(model), Some(store)) => Some((model.counter, store.counter)),
            _ => None,
        };
        // If counters do not survive deletion, an old counter could match again, so it is not used.
        let lasting = self.can.counters == Counters::Lasting;
        let stale = self.stale.iter().find(|(of, was, _)| {
            *of == key && counters.is_none_or(|(now, _)| now != *was) && lasting
        });
        let stale = stale.map(|(_, model, store)| (*model, *store));
        self.stale.extend(counters.map(|(model, store)| (key, model, store)));
        let chosen = if self.random.chance(30) { stale } else { counters };
        let is = |one: Option<u64>| Condition::Counter { is: one };
        [is(chosen.map(|(model, _)| model)), is(chosen.map(|(_, store)| store))]
    }
}

/// A write with separate conditions for model and store.
struct Sided {
    write: RecordWrite,
    when: Vec<[Condition; 2]>,
}

impl Sided {
    fn for_side(&self, side: usize) -> RecordWrite {
        RecordWrite { when: sided(&self.when, side), ..self.write.clone() }
    }
}

fn sided(when: &[[Condition; 2]], side: usize) -> Vec<Condition> {
    when.iter().map(|both| both[side].clone()).collect()
}

fn name(key: &str) -> Name {
    crate::assertions::name(key)
}

fn did(answer: Answer) -> bool {
    answer == Answer::Did(true)
}

/// Returns whether both gave the same result or the same error code.
fn same(model: &Result<bool>, store: &Result<bool>) -> bool {
    let code = |result: &Result<bool>| -> std::result::Result<bool, Code> {
        result.as_ref().map(|did| *did).map_err(|error| error.code())
    };
    code(model) == code(store)
}

fn pages(page: &RecordPage) -> (Vec<(&str, Vec<u8>)>, Option<&str>) {
    let bytes = |record: &Record| {
        let mut out = Vec::new();
        record.fields.encode(&mut out).map(|()| out).unwrap_or_default()
    };
    let records = page.records.iter().map(|(key, record)| (key.as_str(), bytes(record)));
    (records.collect(), page.next.as_deref())
}
