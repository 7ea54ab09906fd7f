//! Keyed state in the reference model: a space is a set of maps.

use super::Moment;
use super::run::Run;
use super::versions::Versions;
use mainstay_model::{
    Answer, Code, Error, Item, Kept, Name, Result, Revision, SnapshotHead, SnapshotWriter,
    SpaceEntry, SpaceInfo, SpaceOptions, State, StateAnswer, StateCommand, StatePage, StateWrite,
    Version, WaitingEntry, Wrote,
};
use std::collections::BTreeMap;

/// All versions of all spaces.
pub type Spaces = Versions<Space>;

/// The contents of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// The options and the frontier.
    pub info: SpaceInfo,
    /// The revision of the transaction that created these contents.
    pub generation: Revision,
    /// The revision from which this branch shows them.
    pub shown: Revision,
    /// The last write to each key, including tombstones.
    pub states: BTreeMap<Vec<u8>, (Version, Option<Vec<u8>>)>,
    /// Writes that wait for the frontier.
    pub waiting: BTreeMap<(Version, Vec<u8>), Option<Vec<u8>>>,
    /// Log items by key and item ID.
    pub items: BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    /// Consumed positions by source.
    pub positions: BTreeMap<String, u64>,
}

impl Space {
    /// Creates an empty space.
    pub fn new(info: SpaceInfo, revision: Revision) -> Space {
        let (states, waiting, items, positions) = Default::default();
        Space { info, generation: revision, shown: revision, states, waiting, items, positions }
    }

    /// All entries, keyed by their position in a snapshot.
    pub fn entries(&self) -> BTreeMap<Vec<u8>, SpaceEntry> {
        let states = self.states.iter().map(|(key, (version, value))| SpaceEntry::State {
            key: key.clone(),
            version: *version,
            value: value.clone(),
        });
        let waiting = self.waiting.iter().map(|((version, key), value)| {
            let key = key.clone();
            let version = *version;
            let value = value.clone();
            SpaceEntry::Waiting(WaitingEntry { key, version, value })
        });
        let items = self.items.iter().map(|((key, id), item)| SpaceEntry::Item {
            key: key.clone(),
            id: id.clone(),
            item: item.clone(),
        });
        let positions = self.positions.iter().map(|(source, position)| SpaceEntry::Position {
            source: source.clone(),
            position: *position,
        });
        let all = states.chain(waiting).chain(items).chain(positions);
        all.map(|entry| (entry.place().to_vec(), entry)).collect()
    }

    /// Inserts an entry of a snapshot.
    pub fn place(&mut self, entry: SpaceEntry) {
        match entry {
            SpaceEntry::State { key, version, value } => {
                self.states.insert(key, (version, value));
            }
            SpaceEntry::Waiting(WaitingEntry { key, version, value }) => {
                self.waiting.insert((version, key), value);
            }
            SpaceEntry::Item { key, id, item } => {
                self.items.insert((key, id), item);
            }
            SpaceEntry::Position { source, position } => {
                self.positions.insert(source, position);
            }
            _ => {}
        }
    }

    /// Encodes a full snapshot.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut writer = SnapshotWriter::new(Vec::new(), &SnapshotHead::all(self.info))
            .expect("a vector takes it");
        for (place, entry) in self.entries() {
            let mut payload = Vec::new();
            entry.put_payload(&mut payload);
            writer.push(&place, Some(&payload)).expect("they are in order");
        }
        writer.finish().expect("a vector takes it").1
    }

    /// Returns whether a version is newer than the key's.
    pub fn is_newer(&self, key: &[u8], version: Version) -> bool {
        self.states.get(key).is_none_or(|(before, _)| *before < version)
    }

    /// Applies a state if it is newer. A deletion below the frontier removes the key without a
    /// tombstone.
    pub fn settle(&mut self, key: &[u8], version: Version, value: Option<Vec<u8>>) {
        if !self.is_newer(key, version) {
            return;
        }
        if value.is_none() && self.info.is_sealed(version) {
            drop(self.states.remove(key))
        } else {
            drop(self.states.insert(key.to_vec(), (version, value)))
        }
    }

    /// Raises the frontier and returns the number of waiting writes below it.
    pub fn seal(&mut self, frontier: Version) -> u64 {
        if self.info.frontier.is_some_and(|before| before >= frontier) {
            return 0;
        }
        self.info.options.versions.get_or_insert(frontier.kind());
        self.info.frontier = Some(frontier);
        let open = self.waiting.split_off(&(frontier, Vec::new()));
        let due = std::mem::replace(&mut self.waiting, open);
        let settled = due.len() as u64;
        due.into_iter().for_each(|((version, key), value)| self.settle(&key, version, value));
        self.states.retain(|_, (version, value)| value.is_some() || *version >= frontier);
        settled
    }

    fn one(&mut self, write: &StateWrite) -> Wrote {
        if let Some(version) = write.version() {
            self.info.options.versions.get_or_insert(version.kind());
        }
        match write {
            StateWrite::Put { key, value, version } => self.put(key, Some(value), *version),
            StateWrite::Delete { key, version } => self.put(key, None, *version),
            StateWrite::Append { key, id, item } => {
                let place = (key.clone(), id.clone());
                if self.items.contains_key(&place) {
                    return Wrote::Stale;
                }
                self.items.insert(place, item.clone());
                Wrote::Applied
            }
            StateWrite::Advance { source, position } => {
                if self.positions.get(source).is_some_and(|before| before >= position) {
                    return Wrote::Stale;
                }
                self.positions.insert(source.clone(), *position);
                Wrote::Applied
            }
            other => panic!("{other:?} is not in any program"),
        }
    }

    fn put(&mut self, key: &[u8], value: Option<&Vec<u8>>, version: Version) -> Wrote {
        let place = (version, key.to_vec());
        let is_known = self.waiting.contains_key(&place) || !self.is_newer(key, version);
        if self.info.is_sealed(version) || is_known {
            return Wrote::Stale;
        }
        if self.info.options.ordered {
            self.waiting.insert(place, value.cloned());
            return Wrote::Waiting;
        }
        self.states.insert(key.to_vec(), (version, value.cloned()));
        Wrote::Applied
    }
}

fn declared(options: SpaceOptions) -> SpaceInfo {
    SpaceInfo { options, frontier: None }
}

impl Run<'_> {
    fn space(&self, name: &Name) -> Option<Space> {
        self.state.spaces.value(name.as_str(), self.moment())
    }

    fn put_space(&mut self, name: &Name, space: Option<Space>) {
        self.wrote = true;
        self.state.spaces.write(self.writer, name.as_str(), space, None);
    }

    pub(super) fn keyed(&mut self, command: &StateCommand) -> Result<Answer> {
        command.check()?;
        let revision = self.writer.revision;
        if command.is_read() {
            return Ok(answer(read(&self.state.spaces, command, self.moment())));
        }
        let Some(name) = command.space() else { return Err(made_now()) };
        let there = self.space(name);
        let or_new = || {
            there.clone().unwrap_or_else(|| Space::new(declared(SpaceOptions::default()), revision))
        };
        match command {
            StateCommand::Declare { options, .. } => {
                let mut space =
                    there.clone().unwrap_or_else(|| Space::new(declared(*options), revision));
                let own = &mut space.info.options;
                own.versions = own.versions.or(options.versions);
                if !own.is_as(options) {
                    return Err(Error::new(Code::SpaceExists, "it is declared in another way"));
                }
                if there.as_ref() != Some(&space) {
                    self.put_space(name, Some(space));
                }
                Ok(Answer::Did(there.is_none()))
            }
            StateCommand::Write { writes, .. } => {
                let mut space = or_new();
                check_kinds(&space.info, writes)?;
                let wrote: Vec<Wrote> = writes.iter().map(|write| space.one(write)).collect();
                if wrote.iter().any(|wrote| wrote.took_effect()) {
                    self.put_space(name, Some(space));
                }
                Ok(answer(StateAnswer::Wrote(wrote)))
            }
            StateCommand::Seal { frontier, .. } => {
                let mut space = or_new();
                space.info.check_version(*frontier)?;
                let settled = space.seal(*frontier);
                if there.as_ref() != Some(&space) {
                    self.put_space(name, Some(space));
                }
                Ok(answer(StateAnswer::Sealed { settled, done: true }))
            }
            StateCommand::Drop { .. } => {
                match &there {
                    None => return Ok(Answer::Did(false)),
                    Some(space) if space.generation == revision => return Err(made_now()),
                    Some(_) => self.put_space(name, None),
                }
                Ok(Answer::Did(true))
            }
            StateCommand::Restore { info, block, begun: None, ends: true, .. } => {
                if there.is_some_and(|space| space.generation == revision) {
                    return Err(made_now());
                }
                let mut space = Space::new(*info, revision);
                let mut count = 0;
                for entry in block {
                    let (place, payload) = entry?;
                    space.place(SpaceEntry::from_parts(place, payload, info.options.versions)?);
                    count += 1;
                }
                self.put_space(name, Some(space));
                Ok(Answer::Count(count))
            }
            other => panic!("{other:?} is not in any program"),
        }
    }
}

fn check_kinds(info: &SpaceInfo, writes: &[StateWrite]) -> Result<()> {
    let mut kind = info.options.versions;
    for version in writes.iter().filter_map(StateWrite::version) {
        if *kind.get_or_insert(version.kind()) != version.kind() {
            return Err(Error::new(Code::InvalidVersion, "versions of two kinds"));
        }
    }
    Ok(())
}

/// Executes a read-only command at a moment.
pub(super) fn read(spaces: &Spaces, command: &StateCommand, moment: Moment) -> StateAnswer {
    let space = command.space().and_then(|name| spaces.value(name.as_str(), moment));
    let info = space.as_ref().map(|space| space.info);
    let space = space.unwrap_or_else(|| Space::new(declared(SpaceOptions::default()), 0));
    match command {
        StateCommand::Info { .. } => StateAnswer::Info(info),
        StateCommand::Look { keys, .. } => {
            let kept = |(version, value): &(Version, Option<Vec<u8>>)| Kept {
                version: *version,
                value: value.clone(),
            };
            StateAnswer::Kept(keys.iter().map(|key| space.states.get(&key.0).map(kept)).collect())
        }
        StateCommand::Scan { prefix, after, limit, .. } => {
            let live = space.states.into_iter().filter_map(|(key, (version, value))| {
                value.map(|value| (key, State { value, version }))
            });
            let wanted = live.filter(|(key, _)| {
                key.starts_with(prefix) && after.as_ref().is_none_or(|after| key > after)
            });
            let mut states: Vec<_> = wanted.take(limit + 1).collect();
            let more = states.len() > *limit;
            states.truncate(*limit);
            let next = states.last().filter(|_| more).map(|(key, _)| key.clone());
            StateAnswer::States(StatePage { states, next })
        }
        StateCommand::Items { key, after, limit, .. } => {
            let of_key = space.items.into_iter().filter(|((of, _), _)| of == key);
            let behind =
                of_key.filter(|((_, id), _)| after.as_ref().is_none_or(|after| id > after));
            let items = behind.map(|((_, id), item)| Item { id, item });
            StateAnswer::Items(items.take(*limit).collect())
        }
        StateCommand::Positions { .. } => {
            StateAnswer::Positions(space.positions.into_iter().collect())
        }
        other => panic!("{other:?} is not in any program"),
    }
}

fn answer(answer: StateAnswer) -> Answer {
    Answer::State(Box::new(answer))
}

fn made_now() -> Error {
    Error::new(Code::InvalidArgument, "it was made in the same transaction")
}
