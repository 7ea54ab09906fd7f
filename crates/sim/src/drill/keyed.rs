//! Keyed-state part of a transfer: each transaction that moves money also writes a state, an item, a position
//! and a waiting write.
//!
//! ```text
//!   one transaction   accounts, mark/3 = its name     the cells, which the ledger checks
//!                     moved  writer/3 = its name @ 7.42   a state whose version is the operation
//!                            log/7/1 # its name           an item in a log that several writers append to
//!                            position of writer/3         how far this writer has got
//!                     due    writer/3 ? 7.42              in order: waits until later processes seal it
//! ```
//!
//! The cells are matched with the acknowledgements. So a mark without its state, item, position or waiting
//! write is a transaction that was torn or lost. One of these without its mark comes from no known
//! transaction, or was applied twice.

use super::op::Id;
use super::{Outcome, WRITERS};
use mainstay::{
    Code, Database, Error, Keyed, LogicalTime, Name, Result, SpaceOptions, StateCommand,
    StateWrite, Version, VersionKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// The keyed-state space of states, logs and positions.
const MOVED: &str = "moved";
/// The ordered space, whose writes wait until they are sealed.
const DUE: &str = "due";
/// Number of logs that the writers of a process share.
const LOGS: u64 = 3;
/// Waiting writes older than this many processes are sealed, because no operation of those is repeated any
/// more.
const SEALED_AFTER: u64 = 8;
/// Writes sealed per transaction: few, so that kills leave partly advanced frontiers.
const SEAL_PIECE: usize = 50;
/// Items or states per read.
const PAGE: usize = 500;
/// An upper bound on the number of waiting writes.
const ALL: usize = 100_000;

/// The key and source name of a writer.
fn writer(thread: u64) -> String {
    format!("writer/{thread}")
}

fn log(generation: u64, k: u64) -> String {
    format!("log/{generation}/{k}")
}

fn version(id: Id) -> Version {
    LogicalTime::new(id.generation, id.seq).into()
}

fn position(id: Id) -> u64 {
    id.generation << 32 | id.seq
}

/// The writes of an operation. The first time, `text` is the operation's name.
fn writes(id: Id, text: &str) -> [(&'static str, Vec<StateWrite>); 2] {
    let key = writer(id.thread);
    let name = id.to_string();
    let log = log(id.generation, (id.thread + id.seq) % LOGS);
    let moved = vec![
        StateWrite::put(key.clone(), text, version(id)),
        StateWrite::append(log, name, text),
        StateWrite::advance(&key, position(id)),
    ];
    [(MOVED, moved), (DUE, vec![StateWrite::put(key, text, version(id))])]
}

/// The commands that perform these writes.
pub fn commands(id: Id) -> Result<Vec<StateCommand>> {
    let all = writes(id, &id.to_string()).into_iter();
    all.map(|(space, writes)| Ok(StateCommand::Write { space: Name::new(space)?, writes }))
        .collect()
}

/// Declares both spaces.
pub fn declare(db: &Database) -> Result<()> {
    let options = SpaceOptions::default().versions(VersionKind::Time);
    db.keyed(MOVED)?.declare(options)?;
    db.keyed(DUE)?.declare(options.ordered())?;
    Ok(())
}

/// Seals some of the waiting writes of old processes.
pub fn seal(db: &Database, generation: u64) -> Result<()> {
    let frontier = LogicalTime::new(generation.saturating_sub(SEALED_AFTER), 0).into();
    let command = StateCommand::Seal { space: Name::new(DUE)?, frontier, limit: SEAL_PIECE };
    db.execute(mainstay::Transaction::new().step(command)).map(drop)
}

/// Repeats the writes of an acknowledged operation with other contents. All of them must be stale.
pub fn tell_again(db: &Database, id: Id) -> Result<()> {
    for (space, writes) in writes(id, "told again") {
        let wrote = db.keyed(space)?.write(writes)?;
        if wrote.iter().any(|wrote| wrote.took_effect()) {
            let message = format!("{id}, told again in `{space}`, became {wrote:?}");
            return Err(Error::new(Code::CorruptData, message));
        }
    }
    Ok(())
}

/// Checks that each marked operation has left all of its writes, and that no other write exists. Of the logs,
/// only those of processes from `since` on are read.
pub fn check(db: &Database, marked: &BTreeSet<String>, since: u64, generation: u64) -> Outcome<()> {
    let told = |error: Error| format!("looking at keyed state: {error}");
    let ids = marked.iter().map(|name| Id::parse(name).ok_or_else(|| odd(name)));
    let ids: Vec<Id> = ids.collect::<Outcome<_>>()?;
    let last = newest(ids.iter().copied());
    let moved = db.keyed(MOVED).map_err(told)?;
    alike("the states", &states(&moved).map_err(told)?, &expected_states(&last))?;
    let positions = moved.positions().map_err(told)?;
    let expected = last.iter().map(|(thread, id)| (writer(*thread), position(*id)));
    alike("the positions", &positions.into_iter().collect(), &expected.collect())?;
    let items = items(&moved, since..generation + 1).map_err(told)?;
    let expected = ids.iter().filter(|id| id.generation >= since).map(Id::to_string);
    alike("the items", &items, &expected.map(|name| (name.clone(), name)).collect())?;
    check_due(&db.keyed(DUE).map_err(told)?, &ids)
}

fn odd(name: &str) -> String {
    format!("there is a mark `{name}`, which names no operation")
}

/// Writes below the frontier are applied, and the others wait, each once. A partial seal may end among writes
/// of the same version. The frontier is then at that version, and only some of its writes are applied.
fn check_due(due: &Keyed, ids: &[Id]) -> Outcome<()> {
    let told = |error: Error| format!("looking at what waits: {error}");
    let frontier = due.info().map_err(told)?.and_then(|info| info.frontier);
    let held = states(due).map_err(told)?;
    let is_sealed = |id: &Id| {
        let is_held = || held.contains(&state(id));
        frontier.is_some_and(|at| version(*id) < at || version(*id) == at && is_held())
    };
    let applied = newest(ids.iter().copied().filter(is_sealed));
    alike("the sealed states", &held, &expected_states(&applied))?;
    let mut waiting = BTreeSet::new();
    for entry in due.waiting(None, ALL).map_err(told)? {
        let value = entry.value.map(|value| text(&value));
        waiting.insert((text(&entry.key), entry.version.to_string(), value));
    }
    let open = ids.iter().filter(|id| !is_sealed(id));
    alike(
        "what waits",
        &waiting,
        &open
            .map(|id| (writer(id.thread), version(*id).to_string(), Some(id.to_string())))
            .collect(),
    )
}

/// The newest operation of each writer.
fn newest(ids: impl Iterator<Item = Id>) -> BTreeMap<u64, Id> {
    let mut last = BTreeMap::new();
    for id in ids {
        let newest = last.entry(id.thread).or_insert(id);
        *newest = id.max(*newest);
    }
    last
}

fn expected_states(last: &BTreeMap<u64, Id>) -> BTreeSet<(String, String, String)> {
    last.values().map(state).collect()
}

/// The state that an operation leaves.
fn state(id: &Id) -> (String, String, String) {
    (writer(id.thread), id.to_string(), version(*id).to_string())
}

/// Keys, states and versions.
fn states(space: &Keyed) -> Result<BTreeSet<(String, String, String)>> {
    // The number of keys is at most the number of writers.
    let page = space.scan(b"", None, PAGE.max(WRITERS as usize))?;
    let one = |(key, state): (Vec<u8>, mainstay::State)| {
        (text(&key), text(&state.value), state.version.to_string())
    };
    Ok(page.states.into_iter().map(one).collect())
}

/// The ids and items in the logs of some processes.
fn items(space: &Keyed, generations: std::ops::Range<u64>) -> Result<BTreeSet<(String, String)>> {
    let mut found = BTreeSet::new();
    for log in generations.flat_map(|generation| (0..LOGS).map(move |k| log(generation, k))) {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = space.items(log.as_bytes(), after.as_deref(), PAGE)?;
            after = page.last().map(|item| item.id.clone());
            found.extend(page.iter().map(|item| (text(&item.id), text(&item.item))));
            if page.len() < PAGE {
                break;
            }
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compares two sets. The error names the first element that is in only one of them.
fn alike<T: Ord + std::fmt::Debug>(
    what: &str,
    found: &BTreeSet<T>,
    expected: &BTreeSet<T>,
) -> Outcome<()> {
    if let Some(lost) = expected.difference(found).next() {
        return Err(format!("LOST: {lost:?} has a mark, but is not among {what}"));
    }
    match found.difference(expected).next() {
        Some(more) => Err(format!("{more:?} is among {what}, but nobody has left a mark of it")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::Transaction;

    fn id(generation: u64, thread: u64, seq: u64) -> Id {
        Id { generation, thread, seq }
    }

    /// Runs operations of several processes, and seals the writes of the first one.
    fn filled() -> (Database, BTreeSet<String>) {
        let db = Database::memory().unwrap();
        declare(&db).unwrap();
        let ids = [id(1, 0, 1), id(1, 1, 1), id(1, 0, 2), id(2, 0, 1), id(9, 1, 1)];
        for id in ids {
            let all = commands(id).unwrap().into_iter();
            db.execute(all.fold(Transaction::new(), Transaction::step)).unwrap();
        }
        seal(&db, 10).unwrap();
        (db, ids.map(|id| id.to_string()).into())
    }

    /// The error of a check after a change to the state or to the marks.
    fn fails(bend: impl FnOnce(&Database, &mut BTreeSet<String>)) -> String {
        let (db, mut marked) = filled();
        check(&db, &marked, 1, 9).unwrap();
        bend(&db, &mut marked);
        check(&db, &marked, 1, 9).unwrap_err()
    }

    #[test]
    fn a_seal_may_end_among_writes_of_one_version() {
        let (db, mut marked) = filled();
        for id in (2..SEAL_PIECE as u64 + 9).map(|thread| id(2, thread, 1)) {
            let all = commands(id).unwrap().into_iter();
            db.execute(all.fold(Transaction::new(), Transaction::step)).unwrap();
            marked.insert(id.to_string());
        }
        seal(&db, 11).unwrap();
        let due = db.keyed(DUE).unwrap();
        assert_eq!(due.info().unwrap().unwrap().frontier, Some(LogicalTime::new(2, 1).into()));
        check(&db, &marked, 1, 9).unwrap();
        seal(&db, 11).unwrap();
        check(&db, &marked, 1, 9).unwrap();
    }

    #[test]
    fn told_again_is_stale() {
        let (db, marked) = filled();
        tell_again(&db, id(1, 0, 2)).unwrap();
        tell_again(&db, id(9, 1, 1)).unwrap();
        check(&db, &marked, 1, 9).unwrap();
        assert!(tell_again(&db, id(9, 1, 2)).is_err());
    }

    #[test]
    fn what_is_lost_is_found_out() {
        let said = fails(|_, marked| assert!(marked.insert("1.0.0".to_owned())));
        assert!(said.starts_with("LOST: (\"1.0.0\"") && said.ends_with("the items"), "{said}");
        let said = fails(|_, marked| assert!(marked.insert("9.1.2".to_owned())));
        assert!(said.starts_with("LOST") && said.ends_with("the states"), "{said}");
        for (frontier, among) in
            [(LogicalTime::new(2, 0), "the sealed states"), (LogicalTime::new(0, 1), "what waits")]
        {
            let said = fails(|db, _| {
                db.keyed(DUE).unwrap().clear().unwrap();
                declare(db).unwrap();
                db.keyed(DUE).unwrap().seal(frontier).unwrap();
            });
            assert!(said.starts_with("LOST") && said.ends_with(among), "{said}");
        }
    }

    #[test]
    fn what_nobody_did_is_found_out() {
        let said = fails(|_, marked| assert!(marked.remove("1.0.1")));
        assert!(said.contains("1.0.1") && said.contains("the items, but nobody"), "{said}");
        let bent: [(&str, &str, StateWrite); 4] = [
            (MOVED, "the states", StateWrite::put("writer/0", "x", LogicalTime::new(9, 9))),
            (MOVED, "the positions", StateWrite::advance("writer/0", u64::MAX)),
            (MOVED, "the items", StateWrite::append("log/9/0", "9.1.1", "twice")),
            (DUE, "what waits", StateWrite::put("writer/0", "x", LogicalTime::new(9, 9))),
        ];
        for (space, among, write) in bent {
            let said = fails(|db, _| drop(db.keyed(space).unwrap().write(vec![write]).unwrap()));
            assert!(said.contains(among), "{said}");
        }
    }
}
