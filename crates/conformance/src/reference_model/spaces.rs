//! Keyed state of the database in the reference model: spaces with their versions.

use super::Moment;
use super::keyed::KeyedOracle;
use super::run::Run;
use super::versions::Versions;
use mainstay_model::{
    Answer, Code, Error, Name, Result, Revision, SpaceEntry, SpaceInfo, StateAnswer, StateCommand,
};
use std::ops::{Deref, DerefMut};

/// All versions of all spaces.
pub type Spaces = Versions<Space>;

/// A space of a branch: its contents and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// The revision of the transaction that created these contents.
    pub generation: Revision,
    /// The revision from which this branch shows them.
    pub shown: Revision,
    /// The contents, always declared.
    pub(super) contents: KeyedOracle,
}

impl Deref for Space {
    type Target = KeyedOracle;

    fn deref(&self) -> &KeyedOracle {
        &self.contents
    }
}

impl DerefMut for Space {
    fn deref_mut(&mut self) -> &mut KeyedOracle {
        &mut self.contents
    }
}

impl Space {
    /// Creates an empty space.
    pub fn new(info: SpaceInfo, revision: Revision) -> Space {
        let contents = KeyedOracle { info: Some(info), ..KeyedOracle::default() };
        Space { generation: revision, shown: revision, contents }
    }
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
        let or_new = || there.clone().unwrap_or_else(|| Space::new(SpaceInfo::default(), revision));
        match command {
            StateCommand::Declare { options, .. } => {
                let declared = SpaceInfo { options: *options, frontier: None };
                let mut space = there.clone().unwrap_or_else(|| Space::new(declared, revision));
                space.declare(*options).map_err(refused)?;
                if there.as_ref() != Some(&space) {
                    self.put_space(name, Some(space));
                }
                Ok(Answer::Did(there.is_none()))
            }
            StateCommand::Write { writes, .. } => {
                let mut space = or_new();
                let wrote = space.write(writes).map_err(refused)?;
                if wrote.iter().any(|wrote| wrote.took_effect()) {
                    self.put_space(name, Some(space));
                }
                Ok(answer(StateAnswer::Wrote(wrote)))
            }
            StateCommand::Seal { frontier, .. } => {
                let mut space = or_new();
                let settled = space.seal(*frontier).map_err(refused)?;
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

/// Executes a read-only command at a moment.
pub(super) fn read(spaces: &Spaces, command: &StateCommand, moment: Moment) -> StateAnswer {
    let space = command.space().and_then(|name| spaces.value(name.as_str(), moment));
    let space = space.map(|space| space.contents).unwrap_or_default();
    match command {
        StateCommand::Info { .. } => StateAnswer::Info(space.info),
        StateCommand::Look { keys, .. } => {
            StateAnswer::Kept(keys.iter().map(|key| space.states.get(&key.0).cloned()).collect())
        }
        StateCommand::Scan { prefix, after, limit, .. } => {
            StateAnswer::States(space.scan(prefix, after.as_deref(), *limit))
        }
        StateCommand::Items { key, after, limit, .. } => {
            StateAnswer::Items(space.log(key, after.as_deref(), *limit))
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

fn refused(code: Code) -> Error {
    Error::new(code, "the model refuses it")
}

fn made_now() -> Error {
    Error::new(Code::InvalidArgument, "it was made in the same transaction")
}
