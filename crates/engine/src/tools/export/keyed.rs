//! Keyed state in an export: for each space the history of the visible generation.
//!
//! ```text
//!   entries before it was visible   hidden
//!   its declaration, shown          and every later version of it
//!   entries since                   and their deletions
//! ```

use crate::apply::keyed::space::Declaration;
use crate::key::entry;
use crate::key::keyspace::{KEYED, SPACES};
use crate::key::state_keys;
use crate::mvcc::write_set::WriteSet;
use crate::read::snapshot::Snapshot;
use mainstay_model::{
    Command, EntryBlock, EntryRef, Name, Result, Revision, SpaceInfo, SpaceOptions, StateCommand,
    VersionKind,
};

/// The flag of an entry that was written before readers saw the generation.
const HIDDEN: u8 = 0x80;
/// The size of a block of entries that are written together, in bytes.
const BLOCK_BYTES: usize = 4 << 20;

/// Visits the versions of all spaces of a branch and of their entries, each with the keyspace before
/// its name. Returns the number of spaces.
pub(super) fn each(
    snapshot: &Snapshot,
    mut visit: impl FnMut(Revision, &[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let nothing = WriteSet::default();
    let view = snapshot.view();
    let mut walk = view.walk(&nothing, SPACES, b"", None);
    let mut spaces = 0;
    while let Some(step) = walk.next()? {
        if step.head.is_deleted() {
            continue;
        }
        let shown = Declaration::decode(step.payload())?;
        if shown.is_there {
            spaces += 1;
            each_declaration(snapshot, step.name(), &shown, &mut visit)?;
            each_entry(snapshot, step.name(), &shown, &mut visit)?;
        }
    }
    Ok(spaces)
}

/// Visits the declarations of a space since it is visible. The oldest retained one is placed where the
/// space became visible.
fn each_declaration(
    snapshot: &Snapshot,
    name: &[u8],
    shown: &Declaration,
    visit: &mut impl FnMut(Revision, &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut history = Vec::new();
    snapshot.view().versions(SPACES, name, |entry| {
        let (head, payload) = entry::parse(entry)?;
        let is_since = !head.is_deleted() && head.revision >= shown.shown;
        if is_since {
            history.push((head.revision, Declaration::decode(payload)?));
        }
        Ok(is_since)
    })?;
    let name = [&[SPACES], name].concat();
    for (place, (revision, declared)) in history.into_iter().rev().enumerate() {
        let (shows, revision) = if place == 0 { (true, shown.shown) } else { (false, revision) };
        let plain = Declaration { generation: 0, shown: 0, filling: 0, ..declared };
        let mut version = vec![u8::from(shows)];
        plain.encode(&mut version);
        visit(revision, &name, &version)?;
    }
    Ok(())
}

/// Visits the current and past entries of the visible generation of a space.
fn each_entry(
    snapshot: &Snapshot,
    name: &[u8],
    shown: &Declaration,
    visit: &mut impl FnMut(Revision, &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let nothing = WriteSet::default();
    let view = snapshot.view();
    let space = String::from_utf8_lossy(name);
    let life = state_keys::life(&space, shown.generation);
    let kind = shown.info.options.versions.map_or(0, |kind| kind.bytes() as u8);
    let mut walk = view.walk(&nothing, KEYED, &life, None);
    while let Some(step) = walk.next()? {
        let place = &step.name()[life.len()..];
        if !state_keys::is_entry(place) {
            continue;
        }
        let name = [&[KEYED], name, &[0], place].concat();
        let mut history = Vec::new();
        snapshot.view().versions(KEYED, step.name(), |entry| {
            history.push(entry.to_vec());
            Ok(true)
        })?;
        for entry in history.into_iter().rev() {
            let revision = entry::revision_of(&entry);
            let hidden = if revision < shown.shown { HIDDEN } else { 0 };
            visit(revision, &name, &[&[kind | hidden], &entry[..]].concat())?;
        }
    }
    Ok(())
}

/// Returns the command that declares a space as it was.
pub(super) fn space_of(name: &[u8], version: &[u8]) -> Option<StateCommand> {
    let space = Name::new(std::str::from_utf8(name).ok()?).ok()?;
    let (&shows, declared) = version.split_first()?;
    let info = Declaration::decode(declared).ok()?.info;
    info.options.check().ok()?;
    let block = EntryBlock::default();
    let hidden = false;
    let shows = shows == 1;
    Some(StateCommand::Replay { space, info, block, hidden, shows })
}

/// Returns the command that writes an entry as it was.
pub(super) fn entry_of(name: &[u8], version: &[u8]) -> Option<StateCommand> {
    let end = name.iter().position(|byte| *byte == 0)?;
    let space = Name::new(std::str::from_utf8(&name[..end]).ok()?).ok()?;
    let (place, (&flags, entry)) = (&name[end + 1..], version.split_first()?);
    let versions = match flags & !HIDDEN {
        0 => None,
        bytes => Some(VersionKind::of_bytes(usize::from(bytes))?),
    };
    let (head, payload) = entry::parse(entry).ok()?;
    let hidden = flags & HIDDEN != 0;
    let payload = (!head.is_deleted()).then_some(payload);
    EntryRef::from_parts(place, payload, versions).ok()?;
    if hidden && payload.is_none() {
        return None;
    }
    let mut block = EntryBlock::default();
    block.push(place, payload);
    let options = SpaceOptions { versions, ..SpaceOptions::default() };
    let info = SpaceInfo { options, frontier: None };
    Some(StateCommand::Replay { space, info, block, hidden, shows: false })
}

/// Returns whether a command makes a space visible.
pub(super) fn shows(command: &Command) -> bool {
    matches!(command, Command::State(StateCommand::Replay { shows: true, .. }))
}

/// Joins entries of one space into one command, because the source transaction may have had more of
/// them than a transaction may have commands. Returns a command that cannot be joined.
pub(super) fn join(last: Option<&mut Command>, command: Command) -> Option<Command> {
    let (Some(Command::State(last)), Command::State(next)) = (last, &command) else {
        return Some(command);
    };
    if let (
        StateCommand::Replay { space, info, block, hidden, .. },
        StateCommand::Replay { space: to, info: of, block: more, hidden: as_well, .. },
    ) = (last, next)
    {
        let is_one = (&*space, &*info, *hidden) == (to, of, *as_well);
        let are_entries = !block.is_empty() && !more.is_empty();
        if is_one && are_entries && block.as_bytes().len() < BLOCK_BYTES {
            block.append(more);
            return None;
        }
    }
    Some(command)
}
