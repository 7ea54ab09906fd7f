//! Model-based test: random programs on a store, an in-memory store and the oracle.
//!
//! All three must give equal results and equal snapshot bytes.

use super::{TestSpace, keys, text, version};
use crate::random::Random;
use crate::reference_model::keyed::KeyedOracle;
use mainstay_model::{
    Code, Error, Kept, KeySelection, KeyedCapabilities, KeyedState, Result, SpaceOptions,
    StateWrite, Version, VersionKind,
};
use mainstay_streams::MemoryState;
use std::fmt::Debug;
use std::sync::Arc;

const KEYS: [&str; 7] = ["a", "ab", "b", "b\0", "user-1", "user-2", "é"];
const IDS: [&str; 3] = ["1", "2", "\0"];
const SOURCES: [&str; 2] = ["orders", "sink"];
const PROGRAMS: u64 = 8;
const LENGTH: u64 = 120;

/// Programs in a space where the newest version wins.
pub fn of_newest_wins(s: &TestSpace<'_>) {
    programs(s, "newest", SpaceOptions::default());
}

/// Programs in an ordered space.
/// Requires: Ordered.
pub fn of_writes_in_order(s: &TestSpace<'_>) {
    programs(s, "ordered", SpaceOptions::default().ordered());
}

/// Programs in a merged space.
/// Requires: Merged.
pub fn of_merges(s: &TestSpace<'_>) {
    programs(s, "merged", SpaceOptions::default().merged());
}

/// Programs in a merged and ordered space.
/// Requires: Merged, Ordered.
pub fn of_merges_in_order(s: &TestSpace<'_>) {
    programs(s, "both", SpaceOptions::default().merged().ordered());
}

fn programs(s: &TestSpace<'_>, name: &str, options: SpaceOptions) {
    for seed in 0..PROGRAMS {
        for kind in [VersionKind::U64, VersionKind::Time] {
            let space = s.other(&format!("{name}/{seed}/{kind}"));
            Program::new(&space, seed, options, kind).run();
        }
    }
}

/// A saved snapshot with its expected contents, and whether it has only selected keys.
struct Saved {
    bytes: Vec<u8>,
    holds: KeyedOracle,
    some_keys: bool,
}

struct Program<'s, 'w> {
    s: &'s TestSpace<'w>,
    can: KeyedCapabilities,
    twin: Arc<dyn KeyedState>,
    model: KeyedOracle,
    random: Random,
    options: SpaceOptions,
    kind: VersionKind,
    saved: Vec<Saved>,
    /// The current version number, around which versions are drawn.
    now: u64,
    told: String,
}

impl<'s, 'w> Program<'s, 'w> {
    fn new(
        s: &'s TestSpace<'w>,
        seed: u64,
        options: SpaceOptions,
        kind: VersionKind,
    ) -> Program<'s, 'w> {
        let can = s.can();
        let twin = Arc::new(MemoryState::new());
        let model = KeyedOracle::default();
        let random = Random::of(&[seed, kind as u64]);
        let saved = Vec::new();
        let told = format!("seed {seed}, {options:?}, {kind}");
        Program { s, can, twin, model, random, options, kind, saved, now: 5, told }
    }

    fn run(mut self) {
        // A default space need not be declared.
        if self.options != SpaceOptions::default() || self.random.chance(50) {
            self.declare();
        }
        for step in 0..LENGTH {
            self.step(step);
            assert_eq!(self.s.store().info(), Ok(self.model.info), "{}", self.told);
            if step % 10 == 9 {
                self.compare();
            }
        }
        self.compare();
    }

    fn step(&mut self, step: u64) {
        self.now += self.random.below(2);
        match self.random.below(24) {
            0..=11 => self.write(),
            12 | 13 => self.seal(),
            14 => self.save(),
            15 if step > 30 => self.restore(),
            16 => self.save_some(),
            17 => self.restore_some(),
            18 => self.restore_damaged(),
            19 => self.scan(),
            20 => self.pages(),
            21 if self.random.chance(10) => self.clear(),
            22 => self.declare(),
            _ => self.look(),
        }
    }

    /// Runs an operation on the store and on its in-memory twin and asserts that both return the
    /// expected result.
    #[track_caller]
    fn judge<T: Debug + PartialEq>(
        &self,
        what: &dyn Debug,
        expected: std::result::Result<T, Code>,
        ask: impl Fn(&dyn KeyedState) -> Result<T>,
    ) {
        let code = |error: Error| error.code();
        let told = format!("{}: {what:?}", self.told);
        assert_eq!(ask(&*self.twin).map_err(code), expected, "in memory, {told}");
        assert_eq!(ask(&**self.s.store()).map_err(code), expected, "{told}");
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.below(of.len() as u64) as usize]
    }

    /// A random version near the current one, sometimes a late one.
    fn a_version(&mut self) -> Version {
        let number = (self.now + self.random.below(8)).saturating_sub(5);
        version(self.kind, number)
    }

    fn write(&mut self) {
        let most = if self.can.atomic { 4 } else { 1 };
        let count = 1 + self.random.below(most);
        let mut writes: Vec<StateWrite> = (0..count).map(|_| self.a_write()).collect();
        if self.random.chance(6) {
            let place = self.random.below(count) as usize;
            writes[place] = self.a_bad_write();
        } else if self.can.merged && self.can.atomic && self.random.chance(10) {
            writes.push(StateWrite::AllSettled { below: self.a_version() });
        }
        let expected = self.model.write(&writes);
        self.judge(&writes, expected, |space| space.write(writes.clone()));
    }

    fn a_write(&mut self) -> StateWrite {
        let key = self.pick(&KEYS);
        let version = self.a_version();
        let value = format!("{}", self.random.below(100));
        let is_plain = !self.options.merged || self.options.ordered;
        match self.random.below(12) {
            0..=4 if is_plain => StateWrite::put(key, value, version),
            5 | 6 if is_plain => StateWrite::delete(key, version),
            7 if self.can.appends => StateWrite::append(key, self.pick(&IDS), value),
            8 => StateWrite::advance(self.pick(&SOURCES), self.random.below(50)),
            _ if self.can.merged => self.a_merge(key, value, version),
            _ => StateWrite::put(key, value, version),
        }
    }

    /// A merge write based on the current state or, sometimes, on another version.
    fn a_merge(&mut self, key: &str, value: String, version: Version) -> StateWrite {
        let held = self.model.states.get(key.as_bytes()).map(|kept| kept.version);
        let read = if self.random.chance(80) { held } else { Some(self.a_version()) };
        let waits = self.model.waiting.keys().filter(|(_, of)| of == key.as_bytes());
        let mut settles: Vec<Version> = waits.map(|(version, _)| *version).collect();
        settles.truncate(self.random.below(4) as usize);
        if self.random.chance(5) {
            settles.push(self.a_version());
        }
        // The result's version must be newer than all its inputs.
        let newest = read.into_iter().chain(settles.iter().copied()).max();
        let version = match newest {
            // Sometimes no newer version is chosen, so that the write is invalid.
            Some(newest) if newest >= version && self.random.chance(10) => newest,
            Some(newest) if newest >= version => newest.next().unwrap(),
            _ => version,
        };
        let value = self.random.chance(80).then(|| value.into_bytes());
        StateWrite::Merge { key: key.into(), value, version, read, settles }
    }

    fn a_bad_write(&mut self) -> StateWrite {
        let other = match self.kind {
            VersionKind::U64 => VersionKind::Time,
            VersionKind::Time => VersionKind::U64,
        };
        match self.random.below(4) {
            0 => StateWrite::delete("", self.a_version()),
            1 => StateWrite::advance("a\0b", 1),
            2 if self.can.appends => StateWrite::append("k", "", "item"),
            // Only possible once the version kind is fixed: otherwise this write would fix the wrong
            // kind for the program.
            _ if self.model.info_or_default().options.versions.is_some() => {
                StateWrite::put("a", "v", version(other, self.now))
            }
            _ => StateWrite::advance("", 1),
        }
    }

    fn seal(&mut self) {
        let frontier = version(self.kind, self.now.saturating_sub(self.random.below(6)));
        let expected = self.model.seal(frontier);
        self.judge(&("seal", frontier), expected, |space| space.seal(frontier));
    }

    fn declare(&mut self) {
        let options = match self.random.below(6) {
            0 => self.options.versions(self.kind),
            1 if self.model.info.is_some() => self.options.groups(77),
            _ => self.options,
        };
        let expected = self.model.declare(options);
        self.judge(&options, expected, |space| space.declare(options));
    }

    fn clear(&mut self) {
        let expected = Ok(self.model.info.is_some());
        self.model = KeyedOracle::default();
        self.judge(&"clear", expected, |space| space.clear());
        self.declare();
    }

    fn save(&mut self) {
        let bytes = self.s.snapshot();
        let holds = self.model.clone();
        self.saved.push(Saved { bytes, holds, some_keys: false });
    }

    fn save_some(&mut self) {
        let selection = self.a_selection();
        let bytes = self.s.snapshot_keys(&selection);
        let holds = self.model.only(&selection);
        assert_eq!(bytes, holds.snapshot(true), "{}: {selection:?}", self.told);
        assert_eq!(self.twin.snapshot_keys(&selection), Ok(bytes.clone()));
        self.saved.push(Saved { bytes, holds, some_keys: true });
    }

    fn a_selection(&mut self) -> KeySelection {
        match self.random.below(3) {
            0 => keys(&[self.pick(&KEYS), self.pick(&KEYS)]),
            1 => KeySelection::Prefix(self.pick(&["", "b", "user-"]).into()),
            _ => {
                let from = self.random.below(4) as u32;
                KeySelection::Groups { of: 4, groups: from..from + 2 }
            }
        }
    }

    /// Picks a saved snapshot.
    fn a_saved(&mut self) -> Option<(Vec<u8>, KeyedOracle, bool)> {
        let count = self.saved.len() as u64;
        let place = (count > 0).then(|| self.random.below(count) as usize)?;
        let Saved { bytes, holds, some_keys } = &self.saved[place];
        Some((bytes.clone(), holds.clone(), *some_keys))
    }

    fn restore(&mut self) {
        let Some((bytes, holds, some_keys)) = self.a_saved() else { return };
        let expected = if some_keys { Err(Code::InvalidArgument) } else { Ok(holds.count()) };
        if !some_keys {
            self.model = KeyedOracle { info: Some(holds.info_or_default()), ..holds };
        }
        self.judge(&"restore", expected, |space| space.restore(&bytes));
    }

    fn restore_some(&mut self) {
        let Some((bytes, holds, _)) = self.a_saved() else { return };
        let expected = self.model.add(&holds);
        self.judge(&"restore keys", expected, |space| space.restore_keys(&bytes));
    }

    fn restore_damaged(&mut self) {
        let Some((mut bytes, ..)) = self.a_saved() else { return };
        let at = self.random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << self.random.below(8);
        let damaged = Err(Code::CorruptData);
        self.judge(&"restore damaged", damaged, |space| space.restore(&bytes));
        self.judge(&"restore damaged keys", damaged, |space| space.restore_keys(&bytes));
    }

    fn look(&mut self) {
        let keys: Vec<&str> = (0..3).map(|_| self.pick(&KEYS)).collect();
        let keys: Vec<&[u8]> = keys.into_iter().map(str::as_bytes).collect();
        let expected: Vec<Option<Kept>> =
            keys.iter().map(|key| self.model.states.get(*key).cloned()).collect();
        self.judge(&keys, Ok(expected), |space| space.look(&keys));
    }

    fn scan(&mut self) {
        let prefix = self.pick(&["", "", "a", "b", "user-"]);
        let limit = self.random.below(8);
        let after = self.random.chance(50).then(|| self.pick(&KEYS).as_bytes());
        let prefix = prefix.as_bytes();
        let limit = 1 + limit as usize;
        let expected = Ok(self.model.scan(prefix, after, limit));
        self.judge(&("scan", text(prefix)), expected, |space| space.scan(prefix, after, limit));
    }

    fn pages(&mut self) {
        let key = self.pick(&KEYS).as_bytes();
        let limit = 1 + self.random.below(4) as usize;
        let after = self.random.chance(50).then(|| self.pick(&IDS).as_bytes());
        if self.can.appends {
            let expected = Ok(self.model.log(key, after, limit));
            self.judge(&("items", text(key)), expected, |space| space.items(key, after, limit));
        }
        let below = self.random.chance(50).then(|| self.a_version());
        let expected = Ok(self.model.waiting(below, limit));
        self.judge(&("waiting", below), expected, |space| space.waiting(below, limit));
        self.judge(&"positions", Ok(self.model.positions.clone()), |space| space.positions());
    }

    /// Compares full snapshots byte by byte, and restores them into a copy that must be equal.
    fn compare(&self) {
        let snapshot = self.s.snapshot();
        assert_eq!(snapshot, self.model.snapshot(false), "{}", self.told);
        assert_eq!(self.twin.snapshot(), Ok(snapshot.clone()), "{}", self.told);
        let copy = MemoryState::new();
        assert_eq!(copy.restore(&snapshot), Ok(self.model.count()), "{}", self.told);
        assert_eq!(copy.snapshot(), Ok(snapshot), "{}", self.told);
        let states = self.s.states().len();
        let live = self.model.states.values().filter(|kept| kept.value.is_some());
        assert_eq!(states, live.count(), "{}", self.told);
    }
}
