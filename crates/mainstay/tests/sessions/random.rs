//! Random programs on a database and on a model of plain maps: compares every answer and the final state.

use super::*;
use mainstay::{Code, ErrorKind, Guard, KEPT_LIMIT, REQUESTS_AHEAD_LIMIT};
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 3] = ["a", "ab", "b"];
const DAY_SECS: u64 = 24 * 3600;

/// Expected state of a session.
#[derive(Clone, Debug)]
struct Model {
    expires: u64,
    mark: u64,
    /// The answer of each request: the sum, or `None` if it failed.
    kept: BTreeMap<u64, Option<i64>>,
    last: u64,
    pending: Vec<u64>,
}

#[derive(Default)]
struct World {
    now: u64,
    sum: i64,
    sessions: BTreeMap<&'static str, Model>,
    /// Next request and last message of closed sessions, and the time until which these are remembered.
    gone: BTreeMap<&'static str, (u64, u64, u64)>,
    executed: BTreeMap<(&'static str, u64), u64>,
    /// Requests that were refused for good: they must never be executed.
    refused: BTreeSet<(&'static str, u64)>,
}

pub(crate) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

impl World {
    fn live(&mut self, name: &'static str) -> Option<&mut Model> {
        let now = self.now;
        let model = self.sessions.get_mut(name).filter(|model| model.expires > now)?;
        model.expires = now + 60;
        Some(model)
    }

    /// Removes a session whose lease is over when it is used next.
    fn meet(&mut self, name: &'static str) {
        if self.sessions.get(name).is_some_and(|model| model.expires <= self.now) {
            self.end(name);
        }
    }

    fn end(&mut self, name: &'static str) {
        let Some(model) = self.sessions.remove(name) else { return };
        let next = model.kept.keys().last().map_or(0, |id| id + 1).max(model.mark);
        self.gone.insert(name, (next + REQUESTS_AHEAD_LIMIT, model.last, self.now + DAY_SECS));
    }

    fn open(&mut self, name: &'static str) -> u64 {
        if self.live(name).is_none() {
            self.end(name);
            let known = self.gone.remove(name).filter(|(.., until)| *until > self.now);
            if known.is_none() {
                // After a day the old numbers are no longer remembered, and numbering restarts.
                self.refused.retain(|(of, _)| *of != name);
                self.executed.retain(|(of, _), _| *of != name);
            }
            let (mark, last, _) = known.unwrap_or((1, 0, 0));
            let expires = self.now + 60;
            let kept = BTreeMap::new();
            self.sessions.insert(name, Model { expires, mark, kept, last, pending: vec![] });
        }
        let model = &self.sessions[name];
        model.kept.keys().last().map_or(0, |id| id + 1).max(model.mark)
    }

    /// Returns the expected answer of a request: a sum, a failure, or the kind of its refusal.
    fn request(&mut self, name: &'static str, id: u64, lowest: u64, fails: bool) -> Told {
        let sum = self.sum;
        if self.live(name).is_none() {
            self.end(name);
            // A client of an earlier session gets the error, and its pending requests are never executed.
            if self.gone.get(name).is_some_and(|(next, ..)| id < *next) {
                self.refused.insert((name, id));
            }
            return Err(ErrorKind::SessionExpired);
        }
        let Some(model) = self.live(name) else { return Err(ErrorKind::SessionExpired) };
        if let Some(answer) = model.kept.get(&id) {
            return Ok(*answer);
        }
        if id < model.mark {
            return Err(ErrorKind::ResponseEvicted);
        }
        model.mark = model.mark.max(lowest);
        let answer = (!fails).then_some(sum + 1);
        model.kept.insert(id, answer);
        while model.kept.len() > KEPT_LIMIT {
            let (oldest, _) = model.kept.pop_first().unwrap();
            model.mark = oldest + 1;
        }
        let mark = model.mark;
        model.kept.retain(|id, _| *id >= mark);
        self.sum += i64::from(!fails);
        *self.executed.entry((name, id)).or_default() += 1;
        assert!(!self.refused.contains(&(name, id)), "it was told that it is not executed");
        Ok(answer)
    }
}

type Told = std::result::Result<Option<i64>, ErrorKind>;

/// Returns a transaction that adds one, or one that always fails.
fn transaction(fails: bool) -> Transaction {
    if fails {
        add("n").guard(Guard::Counter { name: name("never"), is: Some(1) })
    } else {
        add("n")
    }
}

fn told(receipt: Result<Receipt>) -> Told {
    match receipt {
        Ok(receipt) => Ok(Some(sum(Ok(receipt)))),
        Err(error) if error.code() == Code::GuardFailed => Ok(None),
        Err(error) => Err(error.kind()),
    }
}

fn program(seed: u64, steps: u64) {
    let path = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(START_US);
    let begin = || {
        let options = options(&clock).durability(Durability::Memory);
        options.write_buffer_bytes(9 << 20).open(path.path()).unwrap()
    };
    let mut db = begin();
    let mut world = World::default();
    let mut random = Random(seed);
    for step in 0..steps {
        let name = NAMES[random.below(3) as usize];
        let next = world
            .sessions
            .get(name)
            .map_or(5, |model| model.kept.keys().last().map_or(0, |id| id + 1).max(model.mark));
        let what = random.below(100);
        let place = format!("seed {seed}, step {step}: {what} of {name}");
        match what {
            0..60 => {
                let id = (next + random.below(4)).saturating_sub(random.below(6)).max(1);
                let lowest = id.saturating_sub(random.below(9));
                let fails = random.below(4) == 0;
                let request = mainstay::SessionRequest::new(super::name(name), id, lowest);
                let got = told(db.execute(transaction(fails).in_session(request)));
                assert_eq!(got, world.request(name, id, lowest, fails), "{place}: {id}");
            }
            60..70 => {
                let expected = world.open(name);
                assert_eq!(open(&db, name).info().next_request, expected, "{place}");
            }
            70..78 => {
                let lowest = next.saturating_sub(random.below(5));
                let keep = mainstay::SessionCommand::KeepAlive {
                    session: super::name(name),
                    lowest_pending: lowest,
                    epoch: 0,
                };
                let got = db.execute(Transaction::new().step(keep)).is_ok();
                world.meet(name);
                let expected = world.live(name).map(|model| {
                    model.mark = model.mark.max(lowest);
                    let mark = model.mark;
                    model.kept.retain(|id, _| *id >= mark);
                });
                assert_eq!(got, expected.is_some(), "{place}");
            }
            78..86 => {
                world.meet(name);
                let model = world.sessions.get_mut(name);
                let expected = model.map(|model| {
                    model.last += 1;
                    model.pending.push(model.last);
                    model.last
                });
                assert_eq!(db.sessions().send(name, "x").unwrap(), expected, "{place}");
            }
            86..91 => {
                let upto = world
                    .sessions
                    .get(name)
                    .map_or(3, |model| model.last.saturating_sub(random.below(3)));
                let ack = mainstay::SessionCommand::Acknowledge {
                    session: super::name(name),
                    upto,
                    epoch: 0,
                };
                let got = db.execute(Transaction::new().step(ack)).is_ok();
                world.meet(name);
                let expected = world.live(name).map(|model| model.pending.retain(|n| *n > upto));
                assert_eq!(got, expected.is_some(), "{place}");
            }
            91..93 => {
                let lived = world.live(name).is_some();
                world.end(name);
                assert_eq!(db.sessions().close(name).unwrap(), lived, "{place}");
            }
            93..96 => {
                // Multiples of seven seconds: no sum of them is exactly a lease or a day, whose last
                // microsecond the model does not know.
                let by = 7 * if random.below(12) == 0 { 12_343 } else { 1 + random.below(5) };
                clock.advance(secs(by));
                world.now += by;
            }
            96..97 => {
                db.sweep().unwrap();
                let due = |model: &Model| model.expires <= world.now;
                let due: Vec<_> = world
                    .sessions
                    .iter()
                    .filter(|(_, model)| due(model))
                    .map(|(name, _)| *name)
                    .collect();
                due.into_iter().for_each(|name| world.end(name));
            }
            97..98 => db.trim().unwrap(),
            _ => {
                drop(db);
                db = begin();
                // Leases restart, also those that were over but not swept.
                let now = world.now;
                world.sessions.values_mut().for_each(|model| model.expires = now + 60);
            }
        }
    }
    finish(&db, &mut world, seed);
}

/// Asserts that no request was executed twice, and that every kept answer is repeated.
fn finish(db: &Database, world: &mut World, seed: u64) {
    assert!(world.executed.values().all(|times| *times == 1));
    assert_eq!(value(db, "n"), world.sum, "seed {seed}");
    for name in NAMES {
        let Some(model) = world.live(name).cloned() else { continue };
        let session = open(db, name);
        let info = session.info();
        assert_eq!(
            (info.mark, info.kept),
            (model.mark, model.kept.len() as u64),
            "seed {seed}: {name}"
        );
        for (id, answer) in &model.kept {
            assert_eq!(
                told(session.execute(*id, 0, add("n"))),
                Ok(*answer),
                "seed {seed}: {name} {id}"
            );
        }
        let pending: Vec<u64> =
            session.pending(0, 1000).unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(pending, model.pending, "seed {seed}: {name}");
    }
    assert_eq!(value(db, "n"), world.sum, "seed {seed}");
}

#[test]
fn random_programs_do_as_the_model_says() {
    for seed in 1..=24 {
        program(seed, 250);
    }
}
