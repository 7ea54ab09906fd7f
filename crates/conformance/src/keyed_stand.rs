//! Test fixture for stores of keyed state: makes spaces of any implementation and wraps them with assertions.
//!
//! ```text
//!   KeyedWorld (memory, the engine, ...) --by name--> Arc<dyn KeyedState> --> KeyedStand --> case
//! ```

use crate::{World, stand};
use mainstay_model::{
    Code, ErrorKind, Item, Kept, KeySelection, KeyedCapabilities, KeyedState, LogicalTime, Result,
    SpaceInfo, SpaceOptions, State, StateWrite, Version, VersionKind, WaitingEntry, Wrote,
};
use mainstay_streams::MemoryState;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// Page limit that no case reaches.
const ALL: usize = 100_000;

/// Factory of spaces, implemented by each store under test. Each case gets its own world.
pub trait KeyedWorld: Send + Sync {
    /// Returns the space with this name. It is undeclared until a case declares it. Repeated calls
    /// return the same space.
    fn space(&self, name: &str) -> Arc<dyn KeyedState>;

    /// Returns whether the world can close all spaces and open them again.
    fn can_reopen(&self) -> bool {
        false
    }

    /// Closes all spaces and opens them again. Handles from before are stale: callers fetch their spaces
    /// again.
    fn reopen(&self) {}
}

/// A world of in-memory spaces.
#[derive(Default)]
pub struct MemoryWorld {
    spaces: Mutex<HashMap<String, Arc<MemoryState>>>,
}

impl KeyedWorld for MemoryWorld {
    fn space(&self, name: &str) -> Arc<dyn KeyedState> {
        let mut spaces = self.spaces.lock().unwrap();
        spaces.entry(name.to_owned()).or_default().clone()
    }
}

/// A world of the engine's spaces.
pub struct EngineWorld {
    world: Mutex<World>,
    can_reopen: bool,
}

impl EngineWorld {
    /// A world in memory or behind a server. It cannot be reopened.
    pub fn of(world: World) -> EngineWorld {
        EngineWorld { world: Mutex::new(world), can_reopen: false }
    }

    /// A world on disk, which can be closed and opened again.
    pub fn disk() -> EngineWorld {
        EngineWorld { world: Mutex::new(World::disk()), can_reopen: true }
    }
}

impl KeyedWorld for EngineWorld {
    fn space(&self, name: &str) -> Arc<dyn KeyedState> {
        Arc::new(self.world.lock().unwrap().db().keyed(name).unwrap())
    }

    fn can_reopen(&self) -> bool {
        self.can_reopen
    }

    fn reopen(&self) {
        self.world.lock().unwrap().reopen();
    }
}

/// A space with panicking helpers: any error fails the case.
pub struct KeyedStand<'w> {
    world: &'w dyn KeyedWorld,
    space: Arc<dyn KeyedState>,
}

/// Builds a version of the given kind. For `Time`, each epoch has five rounds.
pub fn version(kind: VersionKind, number: u64) -> Version {
    match kind {
        VersionKind::U64 => number.into(),
        VersionKind::Time => LogicalTime::new(number / 5, number % 5).into(),
    }
}

/// Builds a version from a logical time.
pub fn time(epoch: u64, round: u64) -> Version {
    LogicalTime::new(epoch, round).into()
}

/// Decodes bytes as lossy UTF-8.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Selects keys by name.
pub fn keys(names: &[&str]) -> KeySelection {
    KeySelection::Keys(names.iter().map(|name| name.as_bytes().to_vec()).collect())
}

/// The write that stores the result of a merge function for a key.
pub fn merge(
    key: &str,
    value: Option<&str>,
    version: u64,
    read: Option<u64>,
    settles: &[u64],
) -> StateWrite {
    StateWrite::Merge {
        key: key.into(),
        value: value.map(Into::into),
        version: version.into(),
        read: read.map(Into::into),
        settles: settles.iter().map(|version| (*version).into()).collect(),
    }
}

impl<'w> KeyedStand<'w> {
    /// The default space of a world, named `space`.
    pub fn of(world: &'w dyn KeyedWorld) -> KeyedStand<'w> {
        KeyedStand { world, space: world.space("space") }
    }

    /// Another space of the same world, not declared by this call.
    pub fn other(&self, name: &str) -> KeyedStand<'w> {
        KeyedStand { world: self.world, space: self.world.space(name) }
    }

    /// Another space of the same world, declared as new.
    #[track_caller]
    pub fn declared(&self, name: &str, options: SpaceOptions) -> KeyedStand<'w> {
        let other = self.other(name);
        assert!(other.declare(options), "{name} was there");
        other
    }

    /// Another space filled with every kind of entry that the store supports.
    #[track_caller]
    pub fn filled(&self, name: &str) -> KeyedStand<'w> {
        let can = self.can();
        let options = SpaceOptions::default().versions(VersionKind::U64);
        let options = if can.ordered { options.ordered() } else { options };
        let other = self.declared(name, options);
        for (key, version) in [("c", 2), ("a", 1), ("ab", 3)] {
            other.put(key, &format!("state of {key}"), version);
        }
        other.seal(4);
        if can.ordered {
            other.put("a", "waits", 6);
            other.delete("c", 5);
            other.put("d", "waits", 5);
        } else {
            other.delete("b", 7);
        }
        if can.ordered && can.merged {
            other.write(vec![merge("b", None, 7, None, &[])]);
        }
        if can.appends {
            other.append("a", "1", "item");
            other.append("log", "0", "item");
        }
        other.advance("orders", 17);
        other.advance("sink", 3);
        other
    }

    /// Runs a case once for each version kind, each in its own space.
    pub fn in_both_kinds(&self, case: impl Fn(&KeyedStand<'_>, &dyn Fn(u64) -> Version)) {
        for kind in [VersionKind::U64, VersionKind::Time] {
            case(&self.other(&format!("of-{kind}")), &|number| version(kind, number));
        }
    }

    /// Closes and reopens the world and returns its default space.
    pub fn reopened(&self) -> KeyedStand<'w> {
        self.world.reopen();
        KeyedStand::of(self.world)
    }

    /// The raw space, for calls that may fail.
    pub fn space(&self) -> &Arc<dyn KeyedState> {
        &self.space
    }

    /// The capabilities of the store.
    pub fn can(&self) -> KeyedCapabilities {
        self.space.capabilities()
    }

    /// Declares the space and returns whether it is new.
    #[track_caller]
    pub fn declare(&self, options: SpaceOptions) -> bool {
        self.space.declare(options).unwrap()
    }

    /// The info of a declared space; panics if the space is undeclared.
    #[track_caller]
    pub fn info(&self) -> SpaceInfo {
        self.space.info().unwrap().expect("the space is there")
    }

    /// Asserts that the space is undeclared.
    #[track_caller]
    pub fn is_undeclared(&self) {
        assert_eq!(self.space.info(), Ok(None));
    }

    /// Writes a key's state.
    #[track_caller]
    pub fn put(&self, key: &str, value: &str, version: impl Into<Version>) -> Wrote {
        self.space.put(key.as_bytes(), value.as_bytes(), version.into()).unwrap()
    }

    /// Deletes a key's state.
    #[track_caller]
    pub fn delete(&self, key: &str, version: impl Into<Version>) -> Wrote {
        self.space.delete(key.as_bytes(), version.into()).unwrap()
    }

    /// Appends an item to a key's log and returns whether it is new.
    #[track_caller]
    pub fn append(&self, key: &str, id: &str, item: &str) -> bool {
        self.space.append_unique(key.as_bytes(), id.as_bytes(), item.as_bytes()).unwrap()
    }

    /// Advances the consumed position of a source.
    #[track_caller]
    pub fn advance(&self, source: &str, position: u64) -> Wrote {
        self.write(vec![StateWrite::advance(source, position)])[0]
    }

    /// Applies writes that must succeed.
    #[track_caller]
    pub fn write(&self, writes: Vec<StateWrite>) -> Vec<Wrote> {
        self.space.write(writes).unwrap()
    }

    /// Raises the frontier and returns the number of waiting writes that became due.
    #[track_caller]
    pub fn seal(&self, frontier: impl Into<Version>) -> u64 {
        self.space.seal(frontier.into()).unwrap()
    }

    /// The stored state of a key, including tombstones.
    #[track_caller]
    pub fn kept(&self, key: &str) -> Option<Kept> {
        self.space.look(&[key.as_bytes()]).unwrap().pop().expect("there is an answer for each key")
    }

    /// Asserts a key's value and version.
    #[track_caller]
    pub fn holds(&self, key: &str, value: &str, version: impl Into<Version>) {
        let state = State { value: value.into(), version: version.into() };
        assert_eq!(self.space.get(key.as_bytes()), Ok(Some(state)), "{key}");
    }

    /// Asserts that a key has a tombstone with this version.
    #[track_caller]
    pub fn is_deleted(&self, key: &str, version: impl Into<Version>) {
        let version = version.into();
        assert_eq!(self.kept(key), Some(Kept { version, value: None }), "{key}");
        assert_eq!(self.space.get(key.as_bytes()), Ok(None), "{key}");
    }

    /// Asserts that a key has neither a state nor a tombstone.
    #[track_caller]
    pub fn is_absent(&self, key: &str) {
        assert_eq!(self.kept(key), None, "{key}");
    }

    /// All live keys and states, as text.
    #[track_caller]
    pub fn states(&self) -> Vec<(String, String)> {
        let page = self.space.scan(b"", None, ALL).unwrap();
        assert_eq!(page.next, None);
        page.states.into_iter().map(|(key, state)| (text(&key), text(&state.value))).collect()
    }

    /// The keys of one page, and its cursor.
    #[track_caller]
    pub fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> (Vec<String>, Option<String>) {
        let after = after.map(str::as_bytes);
        let page = self.space.scan(prefix.as_bytes(), after, limit).unwrap();
        let keys = page.states.iter().map(|(key, _)| text(key)).collect();
        (keys, page.next.map(|key| text(&key)))
    }

    /// All waiting writes.
    #[track_caller]
    pub fn waiting(&self) -> Vec<WaitingEntry> {
        self.space.waiting(None, ALL).unwrap()
    }

    /// The keys and versions of all waiting writes.
    #[track_caller]
    pub fn waits(&self) -> Vec<(String, Version)> {
        self.waiting().into_iter().map(|entry| (text(&entry.key), entry.version)).collect()
    }

    /// All items of a key's log.
    #[track_caller]
    pub fn items(&self, key: &str) -> Vec<(String, String)> {
        let items = self.space.items(key.as_bytes(), None, ALL).unwrap();
        items.into_iter().map(|Item { id, item }| (text(&id), text(&item))).collect()
    }

    /// The consumed positions of all sources.
    #[track_caller]
    pub fn positions(&self) -> BTreeMap<String, u64> {
        self.space.positions().unwrap()
    }

    /// A snapshot of the whole space.
    #[track_caller]
    pub fn snapshot(&self) -> Vec<u8> {
        self.space.snapshot().unwrap()
    }

    /// A snapshot of the selected keys.
    #[track_caller]
    pub fn snapshot_keys(&self, keys: &KeySelection) -> Vec<u8> {
        self.space.snapshot_keys(keys).unwrap()
    }

    /// Replaces the space by a snapshot and returns the number of entries.
    #[track_caller]
    pub fn restore(&self, snapshot: &[u8]) -> u64 {
        self.space.restore(snapshot).unwrap()
    }

    /// Adds a snapshot of selected keys and returns the number of new entries.
    #[track_caller]
    pub fn restore_keys(&self, snapshot: &[u8]) -> u64 {
        self.space.restore_keys(snapshot).unwrap()
    }

    /// The observable state of the space: its info and a full snapshot.
    #[track_caller]
    pub fn seen(&self) -> (Option<SpaceInfo>, Vec<u8>) {
        (self.space.info().unwrap(), self.snapshot())
    }

    /// Runs `body` and asserts that the observable state is unchanged.
    #[track_caller]
    pub fn unchanged<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.seen();
        let out = body();
        let after = self.seen();
        let bytes = (before.1.len(), after.1.len());
        assert!(after == before, "changed: {:?}, {:?}, {bytes:?} bytes", before.0, after.0);
        out
    }

    /// Asserts that a batch fails with a code and that none of its writes applied.
    #[track_caller]
    pub fn refuses(&self, writes: Vec<StateWrite>, code: Code) {
        self.unchanged(|| crate::check::refused(self.space.write(writes), code));
    }

    /// Runs `run` on `RACERS` threads at once and returns all results.
    pub fn together<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        stand::together(run)
    }
}

/// Asserts that an operation failed with an error of kind `Invalid`.
#[track_caller]
pub fn invalid<T>(result: Result<T>) {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
    }
}
