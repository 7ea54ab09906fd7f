//! Keyed state store cases: requirements, fixtures and helpers.

pub mod append;
pub mod batch;
pub mod clear;
pub mod damage;
pub mod declare;
pub mod delete;
pub mod durable;
pub mod input;
pub mod lacking;
pub mod merging;
pub mod ordered;
pub mod positions;
pub mod programs;
pub mod races;
pub mod restore;
pub mod scan;
pub mod seal;
pub mod snapshot;
pub mod subsets;
mod test_space;
pub mod versions;

use crate::TestDb;
use crate::suite::{Contract, Fixture, StoreCase, TestStore};
use mainstay_model::{
    KeySelection, KeyedCapabilities, KeyedState, LogicalTime, StateWrite, Version, VersionKind,
};
use mainstay_streams::MemoryState;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub use crate::assertions::invalid;

/// A space under test.
pub type TestSpace<'f> = TestStore<'f, dyn KeyedState>;

/// A capability that a keyed state store case can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedRequirement {
    /// Batches of writes that apply all or nothing.
    Atomic,
    /// Ordered spaces, where writes wait for the frontier.
    Ordered,
    /// Spaces with merge functions.
    Merged,
    /// Logs of keys.
    Appends,
    /// Durable spaces, in a fixture that can close and reopen them.
    Durable,
}

impl Contract for dyn KeyedState {
    type Capabilities = KeyedCapabilities;
    type Requirement = KeyedRequirement;

    fn can(&self) -> KeyedCapabilities {
        self.capabilities()
    }

    fn store_name(&self) -> &'static str {
        self.can().store
    }

    fn meets(&self, requirement: KeyedRequirement, fixture: &dyn Fixture<Self>) -> bool {
        let can = self.can();
        match requirement {
            KeyedRequirement::Atomic => can.atomic,
            KeyedRequirement::Ordered => can.ordered,
            KeyedRequirement::Merged => can.merged,
            KeyedRequirement::Appends => can.appends,
            KeyedRequirement::Durable => can.durable && fixture.can_reopen(),
        }
    }

    fn cases() -> &'static [StoreCase<Self>] {
        crate::registry::KEYED_STORE_CASES
    }
}

/// In-memory spaces.
#[derive(Default)]
pub struct MemorySpaces {
    spaces: Mutex<HashMap<String, Arc<MemoryState>>>,
}

impl Fixture<dyn KeyedState> for MemorySpaces {
    fn open(&self, name: &str) -> Arc<dyn KeyedState> {
        let mut spaces = self.spaces.lock().unwrap();
        spaces.entry(name.to_owned()).or_default().clone()
    }
}

/// The engine's spaces.
pub struct EngineSpaces {
    db: Mutex<TestDb>,
    can_reopen: bool,
}

impl EngineSpaces {
    /// A database in memory or behind a server. It cannot be reopened.
    pub fn of(db: TestDb) -> EngineSpaces {
        EngineSpaces { db: Mutex::new(db), can_reopen: false }
    }

    /// A database on disk, which can be closed and opened again.
    pub fn disk() -> EngineSpaces {
        EngineSpaces { db: Mutex::new(TestDb::disk()), can_reopen: true }
    }
}

impl Fixture<dyn KeyedState> for EngineSpaces {
    fn open(&self, name: &str) -> Arc<dyn KeyedState> {
        Arc::new(self.db.lock().unwrap().db().keyed(name).unwrap())
    }

    fn can_reopen(&self) -> bool {
        self.can_reopen
    }

    fn reopen(&self) {
        TestDb::reopen(&mut self.db.lock().unwrap());
    }
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
