//! Keyed state commands of random programs: sources that repeat events and deliver them late, frontiers, restores.

use super::driver::Driver;
use super::step::{BRANCHES, CELLS, Step, cell};
use mainstay::{
    At, Command, EntryBlock, LogicalTime, SpaceInfo, SpaceOptions, StateCommand, StateKey,
    StateWrite, Version, VersionKind,
};
use mainstay_conformance::reference_model::{Oracle, Space};
use proptest::collection::vec;
use proptest::prelude::*;

/// The number of spaces. It is small, so that branches collide in them.
pub const SPACES: usize = 2;
/// The keys; one is a prefix of another.
const KEYS: [&str; 3] = ["k", "kk", "l"];

/// A write. Keys, versions and values come from small pools, so that writes collide.
#[derive(Clone, Debug)]
pub enum One {
    Put(usize, u64, u8),
    Delete(usize, u64),
    /// A deletion with a version of the other kind.
    Timed(usize, u64),
    Append(usize, u8, u8),
    Advance(usize, u64),
}

/// A command on a space.
#[derive(Clone, Debug)]
pub enum SpaceWrite {
    Write(usize, Vec<One>),
    /// Declares a space: whether it is ordered, and whether it has a version kind.
    Declare(usize, bool, bool),
    Seal(usize, u64),
    Drop(usize),
    /// Restores a space from the contents of another, on the same or another branch.
    Restore(usize, usize, usize),
    Look(usize),
    Scan(usize, usize),
}

impl One {
    fn write(&self) -> StateWrite {
        match *self {
            One::Put(key, version, value) => StateWrite::put(KEYS[key], value.to_string(), version),
            One::Delete(key, version) => StateWrite::delete(KEYS[key], version),
            One::Timed(key, round) => StateWrite::delete(KEYS[key], LogicalTime::new(0, round)),
            One::Append(key, id, item) => {
                StateWrite::append(KEYS[key], id.to_string(), item.to_string())
            }
            One::Advance(source, position) => StateWrite::advance(KEYS[source], position),
        }
    }
}

/// Encodes the entries of a space for a restore.
fn block(space: &Space) -> EntryBlock {
    let mut block = EntryBlock::default();
    for (place, entry) in space.entries() {
        let mut payload = Vec::new();
        entry.put_payload(&mut payload);
        block.push(&place, Some(&payload));
    }
    block
}

impl SpaceWrite {
    /// Builds the command with contents from the model.
    pub fn command(&self, oracle: &Oracle) -> Command {
        let command = match self.clone() {
            SpaceWrite::Write(space, writes) => {
                let writes = writes.iter().map(One::write).collect();
                StateCommand::Write { space: cell(space), writes }
            }
            SpaceWrite::Declare(space, ordered, typed) => {
                let versions = typed.then_some(VersionKind::U64);
                let options = SpaceOptions { versions, ordered, ..SpaceOptions::default() };
                StateCommand::Declare { space: cell(space), options }
            }
            SpaceWrite::Seal(space, frontier) => {
                let frontier = Version::from(frontier);
                StateCommand::Seal { space: cell(space), frontier, limit: 10_000 }
            }
            SpaceWrite::Drop(space) => StateCommand::Drop { space: cell(space) },
            SpaceWrite::Restore(space, from, branch) => {
                let found = oracle.space(BRANCHES[branch], CELLS[from], oracle.latest());
                let info = SpaceInfo { options: SpaceOptions::default(), frontier: None };
                let found = found.unwrap_or_else(|| Space::new(info, 0));
                let space = cell(space);
                let info = found.info_or_default();
                let block = block(&found);
                StateCommand::Restore { space, info, block, begun: None, ends: true }
            }
            SpaceWrite::Look(space) => {
                let keys = KEYS.map(|key| StateKey(key.as_bytes().to_vec())).to_vec();
                StateCommand::Look { space: cell(space), keys }
            }
            SpaceWrite::Scan(space, limit) => {
                let prefix = b"k".to_vec();
                let after = None;
                StateCommand::Scan { space: cell(space), prefix, after, limit }
            }
        };
        command.into()
    }
}

fn one() -> impl Strategy<Value = One> {
    let key = || 0..KEYS.len();
    let version = || 0..16_u64;
    prop_oneof![
        8 => (key(), version(), 0..3_u8).prop_map(|(key, version, value)| One::Put(key, version, value)),
        4 => (key(), version()).prop_map(|(key, version)| One::Delete(key, version)),
        2 => (key(), 0..3_u8, 0..2_u8).prop_map(|(key, id, item)| One::Append(key, id, item)),
        2 => (key(), version()).prop_map(|(source, position)| One::Advance(source, position)),
    ]
}

fn any_one() -> impl Strategy<Value = One> {
    let timed = (0..KEYS.len(), 0..16_u64).prop_map(|(key, round)| One::Timed(key, round));
    prop_oneof![40 => one(), 1 => timed]
}

/// Generates any command on a space.
pub fn space_write() -> impl Strategy<Value = SpaceWrite> {
    let space = || 0..SPACES;
    prop_oneof![
        16 => (space(), vec(any_one(), 1..4)).prop_map(|(space, all)| SpaceWrite::Write(space, all)),
        2 => (space(), any::<bool>(), any::<bool>())
            .prop_map(|(space, ordered, typed)| SpaceWrite::Declare(space, ordered, typed)),
        4 => (space(), 0..18_u64).prop_map(|(space, frontier)| SpaceWrite::Seal(space, frontier)),
        1 => space().prop_map(SpaceWrite::Drop),
        2 => (space(), space(), 0..BRANCHES.len())
            .prop_map(|(space, from, branch)| SpaceWrite::Restore(space, from, branch)),
        1 => space().prop_map(SpaceWrite::Look),
        1 => (space(), 1..4_usize).prop_map(|(space, limit)| SpaceWrite::Scan(space, limit)),
    ]
}

impl Driver {
    /// Runs a read of spaces. Returns false if the step is of another kind.
    pub fn space_read(&self, step: &Step) -> bool {
        let Step::ReadSpaces { branch, back } = step else { return false };
        self.compare_spaces(BRANCHES[*branch], self.past(*back));
        true
    }

    /// Compares every space of a branch at a revision, byte by byte.
    pub fn compare_spaces(&self, branch: &str, at: At) {
        let Some(moment) = self.moment(branch, at) else { return };
        for name in &CELLS[..SPACES] {
            let keyed = self.world.db().branch(branch).unwrap().keyed(name).unwrap();
            let view = keyed.at(at).unwrap();
            let model = self.oracle.space(branch, name, moment);
            let info = model.as_ref().and_then(|space| space.info);
            assert_eq!(view.info().unwrap(), info, "space {name} on {branch} at {at:?}");
            let Some(model) = model else { continue };
            let mut bytes = Vec::new();
            view.snapshot_to(&mut bytes).unwrap();
            assert!(
                bytes == model.snapshot(false),
                "space {name} on {branch} at {at:?}: the model has {model:?}, the engine {}",
                bytes.escape_ascii()
            );
        }
    }
}
