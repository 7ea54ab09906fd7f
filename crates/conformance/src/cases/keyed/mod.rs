//! Engine cases for keyed state: transactions with other kinds of state, branches, past revisions, the feed.
//!
//! The cases in `keyed_stores` cover the behaviour of every keyed state store. This module covers only
//! the engine.

use crate::TestDb;
use crate::assertions::name;
use mainstay::{Keyed, KeyedState, SpaceOptions, StateCommand, StateWrite, VersionKind};

pub mod branches;
pub mod conflicts;
pub mod feed;
pub mod merge;
pub mod past;
pub mod programs;
pub mod reopening;
pub mod restore;
pub mod sealing;
pub mod since;
pub mod transactions;
pub mod transfer;

/// The space `s` on `main`.
pub(crate) fn space(w: &TestDb) -> Keyed {
    w.db().keyed("s").unwrap()
}

/// The space `s` on a branch.
pub(crate) fn space_on(w: &TestDb, branch: &str) -> Keyed {
    w.db().branch(branch).unwrap().keyed("s").unwrap()
}

/// The command that writes to the space `s`.
pub(crate) fn write(writes: Vec<StateWrite>) -> StateCommand {
    StateCommand::Write { space: name("s"), writes }
}

/// The command that puts a key in the space `s`.
pub(crate) fn put(key: &str, value: &str, version: u64) -> StateCommand {
    write(vec![StateWrite::put(key, value, version)])
}

/// The command that reads keys of the space `s`, including tombstones.
pub(crate) fn look(keys: &[&str]) -> StateCommand {
    let keys = keys.iter().map(|key| mainstay::StateKey(key.as_bytes().to_vec())).collect();
    StateCommand::Look { space: name("s"), keys }
}

/// The command that scans the space `s`.
pub(crate) fn scan(prefix: &str, limit: usize) -> StateCommand {
    let prefix = prefix.as_bytes().to_vec();
    StateCommand::Scan { space: name("s"), prefix, after: None, limit }
}

/// A key's state, formatted as `value@version`.
pub(crate) fn held(keyed: &Keyed, key: &str) -> Option<String> {
    let state = keyed.get(key).unwrap()?;
    Some(format!("{}@{}", String::from_utf8_lossy(&state.value), state.version))
}

/// All states of a space, formatted as `key=value@version`.
pub(crate) fn all(keyed: &Keyed) -> Vec<String> {
    let page = keyed.scan(b"", None, 1_000).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let states = page.states.iter();
    states
        .map(|(key, state)| format!("{}={}@{}", text(key), text(&state.value), state.version))
        .collect()
}

/// A full snapshot of the space, as bytes.
pub(crate) fn whole(keyed: &Keyed) -> Vec<u8> {
    KeyedState::snapshot(keyed).unwrap()
}

/// Declares the space `s` as ordered, so that writes wait for the frontier.
pub(crate) fn ordered(w: &TestDb) {
    let options = SpaceOptions::default().versions(VersionKind::U64).ordered();
    space(w).declare(options).unwrap();
}

/// Builds a full snapshot with these states.
pub(crate) fn snapshot_of(states: &[(&str, &str, u64)]) -> Vec<u8> {
    let other = TestDb::memory();
    for (key, value, version) in states {
        space(&other).put(key, value, *version).unwrap();
    }
    whole(&space(&other))
}
