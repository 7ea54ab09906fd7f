//! Where a case of stores of keyed state runs: spaces of any kind, and the words that cases are written in.
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

/// The most that a case looks at in one page.
const ALL: usize = 100_000;

/// Whoever brings stores of keyed state to the suite. Each case gets a world of its own.
pub trait KeyedWorld: Send + Sync {
    /// A space by its name, which is not declared before somebody does. Asked again it is the same one.
    fn space(&self, name: &str) -> Arc<dyn KeyedState>;

    /// Whether everything can be closed and opened again.
    fn can_reopen(&self) -> bool {
        false
    }

    /// Closes everything and opens it again; spaces are asked for anew.
    fn reopen(&self) {}
}

/// Spaces in memory.
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

/// The engine's own spaces.
pub struct EngineWorld {
    world: Mutex<World>,
    can_reopen: bool,
}

impl EngineWorld {
    /// In memory, or as it is served.
    pub fn of(world: World) -> EngineWorld {
        EngineWorld { world: Mutex::new(world), can_reopen: false }
    }

    /// On disk: it can be closed and opened again.
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

/// A space as cases use it: what is no answer is a failure.
pub struct KeyedStand<'w> {
    world: &'w dyn KeyedWorld,
    space: Arc<dyn KeyedState>,
}

/// A version of a kind: a number, or epochs of five rounds.
pub fn version(kind: VersionKind, number: u64) -> Version {
    match kind {
        VersionKind::U64 => number.into(),
        VersionKind::Time => LogicalTime::new(number / 5, number % 5).into(),
    }
}

/// A time.
pub fn time(epoch: u64, round: u64) -> Version {
    LogicalTime::new(epoch, round).into()
}

/// Bytes as people read them.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The keys of these names.
pub fn keys(names: &[&str]) -> KeySelection {
    KeySelection::Keys(names.iter().map(|name| name.as_bytes().to_vec()).collect())
}

/// What a merge function made of a key's state.
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
    /// The space of a world that cases begin with.
    pub fn of(world: &'w dyn KeyedWorld) -> KeyedStand<'w> {
        KeyedStand { world, space: world.space("space") }
    }

    /// Another space of the same world.
    pub fn other(&self, name: &str) -> KeyedStand<'w> {
        KeyedStand { world: self.world, space: self.world.space(name) }
    }

    /// Another space, declared.
    #[track_caller]
    pub fn declared(&self, name: &str, options: SpaceOptions) -> KeyedStand<'w> {
        let other = self.other(name);
        assert!(other.declare(options), "{name} was there");
        other
    }

    /// Another space that holds something of everything that the store can hold.
    #[track_caller]
    pub fn filled(&self, name: &str) -> KeyedStand<'w> {
        let (can, options) = (self.can(), SpaceOptions::default().versions(VersionKind::U64));
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

    /// The same thing with versions of each kind, in spaces of their own.
    pub fn in_both_kinds(&self, case: impl Fn(&KeyedStand<'_>, &dyn Fn(u64) -> Version)) {
        for kind in [VersionKind::U64, VersionKind::Time] {
            case(&self.other(&format!("of-{kind}")), &|number| version(kind, number));
        }
    }

    /// Closes everything and opens it again; the space is the same.
    pub fn reopened(&self) -> KeyedStand<'w> {
        self.world.reopen();
        KeyedStand::of(self.world)
    }

    /// The space itself: for what may fail.
    pub fn space(&self) -> &Arc<dyn KeyedState> {
        &self.space
    }

    /// What the store can do.
    pub fn can(&self) -> KeyedCapabilities {
        self.space.capabilities()
    }

    /// Declares the space; says whether it is new.
    #[track_caller]
    pub fn declare(&self, options: SpaceOptions) -> bool {
        self.space.declare(options).unwrap()
    }

    /// What is known of the space.
    #[track_caller]
    pub fn info(&self) -> SpaceInfo {
        self.space.info().unwrap().expect("the space is there")
    }

    /// Asserts that there is no such space.
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

    /// Adds an item to a key's log; says whether it is new.
    #[track_caller]
    pub fn append(&self, key: &str, id: &str, item: &str) -> bool {
        self.space.append_unique(key.as_bytes(), id.as_bytes(), item.as_bytes()).unwrap()
    }

    /// Says how far a source was read.
    #[track_caller]
    pub fn advance(&self, source: &str, position: u64) -> Wrote {
        self.write(vec![StateWrite::advance(source, position)])[0]
    }

    /// Writes that are taken.
    #[track_caller]
    pub fn write(&self, writes: Vec<StateWrite>) -> Vec<Wrote> {
        self.space.write(writes).unwrap()
    }

    /// Closes versions; gives how many had waited.
    #[track_caller]
    pub fn seal(&self, frontier: impl Into<Version>) -> u64 {
        self.space.seal(frontier.into()).unwrap()
    }

    /// What is known of a key.
    #[track_caller]
    pub fn kept(&self, key: &str) -> Option<Kept> {
        self.space.look(&[key.as_bytes()]).unwrap().pop().expect("there is an answer for each key")
    }

    /// Asserts a key's state.
    #[track_caller]
    pub fn holds(&self, key: &str, value: &str, version: impl Into<Version>) {
        let state = State { value: value.into(), version: version.into() };
        assert_eq!(self.space.get(key.as_bytes()), Ok(Some(state)), "{key}");
    }

    /// Asserts that a key was deleted, and when.
    #[track_caller]
    pub fn is_deleted(&self, key: &str, version: impl Into<Version>) {
        let version = version.into();
        assert_eq!(self.kept(key), Some(Kept { version, value: None }), "{key}");
        assert_eq!(self.space.get(key.as_bytes()), Ok(None), "{key}");
    }

    /// Asserts that nothing is known of a key.
    #[track_caller]
    pub fn is_absent(&self, key: &str) {
        assert_eq!(self.kept(key), None, "{key}");
    }

    /// All keys and states, as text.
    #[track_caller]
    pub fn states(&self) -> Vec<(String, String)> {
        let page = self.space.scan(b"", None, ALL).unwrap();
        assert_eq!(page.next, None);
        page.states.into_iter().map(|(key, state)| (text(&key), text(&state.value))).collect()
    }

    /// The keys of a page, and its cursor.
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

    /// All that waits.
    #[track_caller]
    pub fn waiting(&self) -> Vec<WaitingEntry> {
        self.space.waiting(None, ALL).unwrap()
    }

    /// The keys and versions of all that waits.
    #[track_caller]
    pub fn waits(&self) -> Vec<(String, Version)> {
        self.waiting().into_iter().map(|entry| (text(&entry.key), entry.version)).collect()
    }

    /// All items of a key's log.
    #[track_caller]
    pub fn items(&self, key: &str) -> Vec<(String, String)> {
        let items = self.space.items(key.as_bytes(), None, ALL).unwrap();
        let one = |Item { id, item }: Item| (text(&id), text(&item));
        items.into_iter().map(one).collect()
    }

    /// How far sources were read.
    #[track_caller]
    pub fn positions(&self) -> BTreeMap<String, u64> {
        self.space.positions().unwrap()
    }

    /// All there is.
    #[track_caller]
    pub fn snapshot(&self) -> Vec<u8> {
        self.space.snapshot().unwrap()
    }

    /// Some keys.
    #[track_caller]
    pub fn snapshot_keys(&self, keys: &KeySelection) -> Vec<u8> {
        self.space.snapshot_keys(keys).unwrap()
    }

    /// Replaces everything.
    #[track_caller]
    pub fn restore(&self, snapshot: &[u8]) -> u64 {
        self.space.restore(snapshot).unwrap()
    }

    /// Adds some keys.
    #[track_caller]
    pub fn restore_keys(&self, snapshot: &[u8]) -> u64 {
        self.space.restore_keys(snapshot).unwrap()
    }

    /// Everything that can be seen of the space.
    #[track_caller]
    pub fn seen(&self) -> (Option<SpaceInfo>, Vec<u8>) {
        (self.space.info().unwrap(), self.snapshot())
    }

    /// Asserts that something changes nothing that can be seen.
    #[track_caller]
    pub fn unchanged<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.seen();
        let out = body();
        let after = self.seen();
        let bytes = (before.1.len(), after.1.len());
        assert!(after == before, "changed: {:?}, {:?}, {bytes:?} bytes", before.0, after.0);
        out
    }

    /// Asserts that writes are refused with a code, and that nothing of them is there.
    #[track_caller]
    pub fn refuses(&self, writes: Vec<StateWrite>, code: Code) {
        self.unchanged(|| crate::check::refused(self.space.write(writes), code));
    }

    /// Runs the same thing on several threads at once and gives what each answered.
    pub fn together<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        stand::together(run)
    }
}

/// Asserts that something was refused as it makes no sense.
#[track_caller]
pub fn invalid<T>(result: Result<T>) {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
    }
}
