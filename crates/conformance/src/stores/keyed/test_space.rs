//! Panicking helpers of spaces: any error fails the case.

use super::{TestSpace, merge, text, version};
use mainstay_model::{
    Code, Item, Kept, KeySelection, SpaceInfo, SpaceOptions, State, StateWrite, Version,
    VersionKind, WaitingEntry, Wrote,
};
use std::collections::BTreeMap;

/// Page limit that no case reaches.
const ALL: usize = 100_000;

impl TestSpace<'_> {
    /// Another space of the same fixture, declared as new.
    #[track_caller]
    pub fn declared(&self, name: &str, options: SpaceOptions) -> Self {
        let other = self.other(name);
        assert!(other.declare(options), "{name} was there");
        other
    }

    /// Another space filled with every kind of entry that the store supports.
    #[track_caller]
    pub fn filled(&self, name: &str) -> Self {
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
    pub fn in_both_kinds(&self, case: impl Fn(&TestSpace<'_>, &dyn Fn(u64) -> Version)) {
        for kind in [VersionKind::U64, VersionKind::Time] {
            case(&self.other(&format!("of-{kind}")), &|number| version(kind, number));
        }
    }

    /// Declares the space and returns whether it is new.
    #[track_caller]
    pub fn declare(&self, options: SpaceOptions) -> bool {
        self.store().declare(options).unwrap()
    }

    /// The info of a declared space; panics if the space is undeclared.
    #[track_caller]
    pub fn info(&self) -> SpaceInfo {
        self.store().info().unwrap().expect("the space is there")
    }

    /// Asserts that the space is undeclared.
    #[track_caller]
    pub fn is_undeclared(&self) {
        assert_eq!(self.store().info(), Ok(None));
    }

    /// Writes a key's state.
    #[track_caller]
    pub fn put(&self, key: &str, value: &str, version: impl Into<Version>) -> Wrote {
        self.store().put(key.as_bytes(), value.as_bytes(), version.into()).unwrap()
    }

    /// Deletes a key's state.
    #[track_caller]
    pub fn delete(&self, key: &str, version: impl Into<Version>) -> Wrote {
        self.store().delete(key.as_bytes(), version.into()).unwrap()
    }

    /// Appends an item to a key's log and returns whether it is new.
    #[track_caller]
    pub fn append(&self, key: &str, id: &str, item: &str) -> bool {
        self.store().append_unique(key.as_bytes(), id.as_bytes(), item.as_bytes()).unwrap()
    }

    /// Advances the consumed position of a source.
    #[track_caller]
    pub fn advance(&self, source: &str, position: u64) -> Wrote {
        self.write(vec![StateWrite::advance(source, position)])[0]
    }

    /// Applies writes that must succeed.
    #[track_caller]
    pub fn write(&self, writes: Vec<StateWrite>) -> Vec<Wrote> {
        self.store().write(writes).unwrap()
    }

    /// Raises the frontier and returns the number of waiting writes that became due.
    #[track_caller]
    pub fn seal(&self, frontier: impl Into<Version>) -> u64 {
        self.store().seal(frontier.into()).unwrap()
    }

    /// The stored state of a key, including tombstones.
    #[track_caller]
    pub fn kept(&self, key: &str) -> Option<Kept> {
        self.store()
            .look(&[key.as_bytes()])
            .unwrap()
            .pop()
            .expect("there is an answer for each key")
    }

    /// Asserts a key's value and version.
    #[track_caller]
    pub fn holds(&self, key: &str, value: &str, version: impl Into<Version>) {
        let state = State { value: value.into(), version: version.into() };
        assert_eq!(self.store().get(key.as_bytes()), Ok(Some(state)), "{key}");
    }

    /// Asserts that a key has a tombstone with this version.
    #[track_caller]
    pub fn is_deleted(&self, key: &str, version: impl Into<Version>) {
        let version = version.into();
        assert_eq!(self.kept(key), Some(Kept { version, value: None }), "{key}");
        assert_eq!(self.store().get(key.as_bytes()), Ok(None), "{key}");
    }

    /// Asserts that a key has neither a state nor a tombstone.
    #[track_caller]
    pub fn is_absent(&self, key: &str) {
        assert_eq!(self.kept(key), None, "{key}");
    }

    /// All live keys and states, as text.
    #[track_caller]
    pub fn states(&self) -> Vec<(String, String)> {
        let page = self.store().scan(b"", None, ALL).unwrap();
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
        let page = self.store().scan(prefix.as_bytes(), after, limit).unwrap();
        let keys = page.states.iter().map(|(key, _)| text(key)).collect();
        (keys, page.next.map(|key| text(&key)))
    }

    /// All waiting writes.
    #[track_caller]
    pub fn waiting(&self) -> Vec<WaitingEntry> {
        self.store().waiting(None, ALL).unwrap()
    }

    /// The keys and versions of all waiting writes.
    #[track_caller]
    pub fn waits(&self) -> Vec<(String, Version)> {
        self.waiting().into_iter().map(|entry| (text(&entry.key), entry.version)).collect()
    }

    /// All items of a key's log.
    #[track_caller]
    pub fn items(&self, key: &str) -> Vec<(String, String)> {
        let items = self.store().items(key.as_bytes(), None, ALL).unwrap();
        items.into_iter().map(|Item { id, item }| (text(&id), text(&item))).collect()
    }

    /// The consumed positions of all sources.
    #[track_caller]
    pub fn positions(&self) -> BTreeMap<String, u64> {
        self.store().positions().unwrap()
    }

    /// A snapshot of the whole space.
    #[track_caller]
    pub fn snapshot(&self) -> Vec<u8> {
        self.store().snapshot().unwrap()
    }

    /// A snapshot of the selected keys.
    #[track_caller]
    pub fn snapshot_keys(&self, keys: &KeySelection) -> Vec<u8> {
        self.store().snapshot_keys(keys).unwrap()
    }

    /// Replaces the space by a snapshot and returns the number of entries.
    #[track_caller]
    pub fn restore(&self, snapshot: &[u8]) -> u64 {
        self.store().restore(snapshot).unwrap()
    }

    /// Adds a snapshot of selected keys and returns the number of new entries.
    #[track_caller]
    pub fn restore_keys(&self, snapshot: &[u8]) -> u64 {
        self.store().restore_keys(snapshot).unwrap()
    }

    /// The observable state of the space: its info and a full snapshot.
    #[track_caller]
    pub fn seen(&self) -> (Option<SpaceInfo>, Vec<u8>) {
        (self.store().info().unwrap(), self.snapshot())
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
        self.unchanged(|| crate::assertions::refused(self.store().write(writes), code));
    }
}
