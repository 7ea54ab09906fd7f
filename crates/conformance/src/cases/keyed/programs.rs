//! Property test: random programs on spaces and branches, compared with a map-based model.

use super::{space_on, whole};
use crate::TestDb;
use mainstay::{At, KeyedState, SpaceOptions, StateWrite, VersionKind, Wrote};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Put { branch: usize, key: u8, version: u64, value: u8 },
    Delete { branch: usize, key: u8, version: u64 },
    Seal { branch: usize, frontier: u64 },
    Save { branch: usize },
    Restore { branch: usize },
    Fork { branch: usize },
    Reap,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let branch = 0..3_usize;
    let put = (branch.clone(), 0..4_u8, 0..40_u64, any::<u8>())
        .prop_map(|(branch, key, version, value)| Step::Put { branch, key, version, value });
    let delete = (branch.clone(), 0..4_u8, 0..40_u64)
        .prop_map(|(branch, key, version)| Step::Delete { branch, key, version });
    let seal =
        (branch.clone(), 0..45_u64).prop_map(|(branch, frontier)| Step::Seal { branch, frontier });
    let step = prop_oneof![
        8 => put,
        4 => delete,
        3 => seal,
        1 => branch.clone().prop_map(|branch| Step::Save { branch }),
        1 => branch.clone().prop_map(|branch| Step::Restore { branch }),
        1 => branch.prop_map(|branch| Step::Fork { branch }),
        1 => Just(Step::Reap),
    ];
    prop::collection::vec(step, 1..60)
}

/// Naive reference model of a space.
#[derive(Clone, Default)]
struct Model {
    ordered: bool,
    states: BTreeMap<u8, (u64, Option<u8>)>,
    waiting: BTreeMap<(u64, u8), Option<u8>>,
    frontier: Option<u64>,
}

impl Model {
    fn write(&mut self, key: u8, version: u64, value: Option<u8>) -> Wrote {
        let is_sealed = self.frontier.is_some_and(|frontier| version < frontier);
        let is_old = self.states.get(&key).is_some_and(|(before, _)| *before >= version);
        if is_sealed || is_old || self.waiting.contains_key(&(version, key)) {
            return Wrote::Stale;
        }
        if self.ordered {
            self.waiting.insert((version, key), value);
            return Wrote::Waiting;
        }
        self.states.insert(key, (version, value));
        Wrote::Applied
    }

    fn seal(&mut self, frontier: u64) -> u64 {
        if self.frontier.is_some_and(|before| before >= frontier) {
            return 0;
        }
        let open = self.waiting.split_off(&(frontier, 0));
        let due = std::mem::replace(&mut self.waiting, open);
        let settled = due.len() as u64;
        for ((version, key), value) in due {
            if self.states.get(&key).is_none_or(|(before, _)| *before < version) {
                self.states.insert(key, (version, value));
            }
        }
        self.states.retain(|_, (version, value)| value.is_some() || *version >= frontier);
        self.frontier = Some(frontier);
        settled
    }
}

struct Both {
    world: TestDb,
    models: Vec<Model>,
    saved: Option<(Vec<u8>, Model)>,
}

impl Both {
    fn new(on_disk: bool, ordered: bool) -> Both {
        let world = if on_disk { TestDb::disk() } else { TestDb::memory() };
        let options = SpaceOptions::default().versions(VersionKind::U64);
        let options = if ordered { options.ordered() } else { options };
        space_on(&world, "main").declare(options).unwrap();
        Both { world, models: vec![Model { ordered, ..Model::default() }], saved: None }
    }

    fn branch(at: usize) -> String {
        if at == 0 { "main".to_owned() } else { format!("fork-{at}") }
    }

    fn step(&mut self, step: &Step) {
        let count = self.models.len();
        let on = |world: &TestDb, branch: usize| space_on(world, &Self::branch(branch % count));
        match *step {
            Step::Put { branch, key, version, value } => {
                let write = StateWrite::put([key], [value], version);
                let wrote = on(&self.world, branch).write(vec![write]).unwrap();
                assert_eq!(wrote, [self.models[branch % count].write(key, version, Some(value))]);
            }
            Step::Delete { branch, key, version } => {
                let wrote = on(&self.world, branch).delete([key], version).unwrap();
                assert_eq!(wrote, self.models[branch % count].write(key, version, None));
            }
            Step::Seal { branch, frontier } => {
                let settled = on(&self.world, branch).seal(frontier).unwrap();
                assert_eq!(settled, self.models[branch % count].seal(frontier));
            }
            Step::Save { branch } => {
                let bytes = whole(&on(&self.world, branch));
                self.saved = Some((bytes, self.models[branch % count].clone()));
            }
            Step::Restore { branch } => {
                let Some((bytes, model)) = &self.saved else { return };
                on(&self.world, branch).restore(bytes).unwrap();
                self.models[branch % count] = model.clone();
            }
            Step::Fork { branch } => {
                if count < 3 {
                    let from = Self::branch(branch % count);
                    let to = Self::branch(count);
                    self.world.db().fork(&to, &from, At::Latest).unwrap();
                    self.models.push(self.models[branch % count].clone());
                }
            }
            Step::Reap => drop(self.world.beside().reap().unwrap()),
        }
    }

    fn compare(&self) {
        for (at, model) in self.models.iter().enumerate() {
            let keyed = space_on(&self.world, &Self::branch(at));
            assert_eq!(keyed.info().unwrap().unwrap().frontier, model.frontier.map(Into::into));
            for key in 0..4_u8 {
                let kept = keyed.look(&[&[key]]).unwrap().remove(0);
                let kept = kept.map(|kept| (kept.version, kept.value));
                let expected = model.states.get(&key);
                let expected =
                    expected.map(|(v, value)| ((*v).into(), value.map(|value| vec![value])));
                assert_eq!(kept, expected, "key {key} on branch {at}");
            }
            let waiting = keyed.waiting(None, 1_000).unwrap().into_iter();
            let waiting: Vec<_> = waiting.map(|one| (one.version, one.key, one.value)).collect();
            let expected: Vec<_> = model
                .waiting
                .iter()
                .map(|((version, key), value)| {
                    ((*version).into(), vec![*key], value.map(|value| vec![value]))
                })
                .collect();
            assert_eq!(waiting, expected, "what waits on branch {at}");
        }
    }
}

/// Writes, seals, restores, forks and reaping match the model, in memory and after a reopen.
pub fn spaces_do_what_maps_do(w: &mut TestDb) {
    let on_disk = w.is_on_disk();
    let cases = if on_disk { 24 } else { 128 };
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let program = (any::<bool>(), steps());
    runner
        .run(&program, |(ordered, steps)| {
            let mut both = Both::new(on_disk, ordered);
            steps.iter().for_each(|step| both.step(step));
            both.compare();
            if on_disk {
                both.world.drop_and_reopen();
                both.compare();
            }
            Ok(())
        })
        .unwrap();
}
