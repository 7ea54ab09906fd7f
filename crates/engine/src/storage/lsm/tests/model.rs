//! Model-based test: random programs on both stores, compared with a plain list of versions.

use std::collections::BTreeMap;
use std::ops::Bound;

use mainstay_model::Revision;
use proptest::prelude::*;

use super::super::{Entries, Store, revision_of};
use super::{DELETION, HIDING, VALUE, Version, entry, ingest, open_small, purge};

#[derive(Clone, Debug)]
enum Step {
    /// Keys and flags, one revision each.
    Ingest(Vec<(u16, u8)>),
    Compact(u8),
    Settle,
    CompactAll,
    /// Raises the floor to this many hundredths of the way to the newest revision.
    Floor(u64),
    Reopen,
    OpenRange(u16, u16, u64),
    DrainRanges,
}

fn flags() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(VALUE), 3 => Just(DELETION), 1 => Just(HIDING)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec((0u16..60, flags()), 1..80).prop_map(Step::Ingest),
        3 => (1u8..=12).prop_map(Step::Compact),
        2 => Just(Step::Settle),
        1 => Just(Step::CompactAll),
        4 => (0u64..=100).prop_map(Step::Floor),
        1 => Just(Step::Reopen),
        2 => (0u16..60, 0u16..60, 0u64..=100).prop_map(|(a, b, c)| Step::OpenRange(a, b, c)),
        1 => Just(Step::DrainRanges),
    ]
}

fn key(number: u16) -> Vec<u8> {
    format!("key/{number:05}").into_bytes()
}

/// The model: all versions ever written.
#[derive(Default)]
struct Model {
    versions: BTreeMap<Vec<u8>, Vec<(Revision, Vec<u8>)>>,
    revision: Revision,
    floor: Revision,
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl Model {
    fn write(&mut self, writes: &[(u16, u8)]) -> Vec<Version> {
        let mut batch = Vec::new();
        for (number, flags) in writes {
            self.revision += 1;
            let payload = vec![*number as u8; 40 + (self.revision % 7) as usize * 60];
            let entry = entry(*flags, self.revision, &payload);
            let history = self.versions.entry(key(*number)).or_default();
            history.push((self.revision, entry.clone()));
            batch.push((key(*number), self.revision, entry));
        }
        batch.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        batch
    }

    fn at(&self, hundredths: u64) -> Revision {
        self.floor + (self.revision - self.floor) * hundredths / 100
    }

    fn get(&self, key: &[u8], at: Revision) -> Option<Vec<u8>> {
        let history = self.versions.get(key)?;
        history.iter().rev().find(|(revision, _)| *revision <= at).map(|(_, entry)| entry.clone())
    }

    fn range(&self, from: &[u8], to: &[u8], at: Revision) -> Pairs {
        let keys = self.versions.keys().filter(|key| &key[..] >= from && &key[..] < to);
        keys.filter_map(|key| Some((key.clone(), self.get(key, at)?))).collect()
    }

    /// A tombstone that may be purged counts as absent.
    fn seen(&self, key: &[u8], entry: &[u8]) -> bool {
        !purge(key, entry) || revision_of(entry).unwrap() > self.floor
    }

    fn seen_pairs(&self, pairs: Pairs) -> Pairs {
        pairs.into_iter().filter(|(key, entry)| self.seen(key, entry)).collect()
    }
}

struct Run {
    store: Store,
    dir: Option<tempfile::TempDir>,
    model: Model,
    open: Vec<(Entries, Pairs)>,
}

impl Run {
    fn disk() -> Run {
        let dir = tempfile::tempdir().unwrap();
        let store = open_small(dir.path(), false);
        Run { store, dir: Some(dir), model: Model::default(), open: Vec::new() }
    }

    fn memory() -> Run {
        let store = Store::memory(std::sync::Arc::new(purge));
        Run { store, dir: None, model: Model::default(), open: Vec::new() }
    }

    fn take(&mut self, step: &Step) {
        let floor = self.model.floor;
        match step {
            Step::Ingest(writes) => ingest(&self.store, &self.model.write(writes)).unwrap(),
            Step::Compact(runs) => drop(self.store.compact(floor, *runs).unwrap()),
            Step::Settle => super::settle(&self.store, floor),
            Step::CompactAll => drop(self.store.compact_all(floor).unwrap()),
            Step::Floor(hundredths) => self.model.floor = self.model.at(*hundredths),
            Step::Reopen => self.reopen(),
            Step::OpenRange(from, to, hundredths) => self.open_range(*from, *to, *hundredths),
            Step::DrainRanges => self.drain(),
        }
        self.check();
    }

    fn reopen(&mut self) {
        if let Some(dir) = &self.dir {
            self.open.clear();
            self.store = Store::memory(std::sync::Arc::new(purge));
            self.store = open_small(dir.path(), true);
        }
    }

    fn open_range(&mut self, from: u16, to: u16, hundredths: u64) {
        let from = key(from);
        let to = key(to);
        let at = self.model.at(hundredths);
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let range = self.store.range(bounds.0, bounds.1, at);
        self.open.push((range, self.model.range(&from, &to, at)));
    }

    /// Open ranges return the state at the time they were opened, regardless of later operations.
    fn drain(&mut self) {
        for (range, expected) in std::mem::take(&mut self.open) {
            assert_eq!(self.model.seen_pairs(pairs(range)), self.model.seen_pairs(expected));
        }
    }

    fn check(&self) {
        for hundredths in [0, 37, 80, 100] {
            let at = self.model.at(hundredths);
            let all = pairs(self.store.range(Bound::Unbounded, Bound::Unbounded, at));
            let expected = self.model.range(b"", b"z", at);
            assert_eq!(self.model.seen_pairs(all), self.model.seen_pairs(expected));
            for key in self.model.versions.keys() {
                self.check_key(key, at);
            }
            self.check_key(b"key/none", at);
        }
    }

    fn check_key(&self, key: &[u8], at: Revision) {
        let seen = |entry: &Vec<u8>| self.model.seen(key, entry);
        let found = self.store.get(key, at).unwrap().map(|entry| entry.to_vec());
        assert_eq!(found.filter(seen), self.model.get(key, at).filter(seen));
    }
}

fn pairs(range: Entries) -> Pairs {
    let pairs = range.map(|pair| pair.map(|(key, entry)| (key.to_vec(), entry.to_vec())));
    pairs.collect::<Result<_, _>>().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_on_disk_answers_like_a_list_of_versions(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut run = Run::disk();
        steps.iter().for_each(|step| run.take(step));
        run.drain();
    }

    #[test]
    fn the_store_in_memory_answers_like_a_list_of_versions(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut run = Run::memory();
        steps.iter().for_each(|step| run.take(step));
        run.drain();
    }
}

/// A long run that fills several levels, unlike the short random programs.
#[test]
fn many_levels_answer_like_a_list_of_versions() {
    let mut run = Run::disk();
    let mut levels = 0;
    for round in 0u64..120 {
        ingest(&run.store, &run.model.write(&mixed_writes(round))).unwrap();
        if round % 2 == 0 {
            run.store.compact(run.model.floor, 4).unwrap();
        }
        levels = levels.max(levels_in_use(&run.store));
        if round % 10 == 9 {
            super::settle(&run.store, run.model.floor);
            run.check();
            run.model.floor = run.model.at(50);
        }
    }
    assert!(levels >= 4, "only {levels} levels were in use");
    super::settle(&run.store, run.model.floor);
    run.reopen();
    run.check();
    run.store.compact_all(run.model.revision).unwrap();
    run.model.floor = run.model.revision;
    run.check();
    let kept = run.model.range(b"", b"z", run.model.revision);
    assert_eq!(run.store.entries(), run.model.seen_pairs(kept).len() as u64);
}

fn mixed_writes(round: u64) -> Vec<(u16, u8)> {
    let mixed = (0..150).map(|i| (round * 150 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32);
    mixed
        .map(|mixed| {
            let flags = [VALUE, VALUE, DELETION, VALUE, HIDING][(mixed >> 16) as usize % 5];
            ((mixed % 3000) as u16, flags)
        })
        .collect()
}

fn levels_in_use(store: &Store) -> usize {
    let Store::Disk(disk) = store else { return 0 };
    disk.tables_per_level().into_iter().filter(|tables| *tables > 0).count()
}
