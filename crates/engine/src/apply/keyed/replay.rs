//! Replay of a space's history by an import, in its original order.
//!
//! ```text
//!   hidden entries   fill a generation that is not visible, as the original restore did
//!   declared, shows  makes that generation visible, or an empty one
//!   later entries    overwrite or remove entries, as the original writes did
//!   declared         sets the frontier and the kind of versions
//! ```

use super::restore::{self, RestoredStates};
use super::space::{self, Declaration, SpaceState};
use super::write::SpaceWriter;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{Code, EntryBlock, EntryRef, Error, Name, Result, Revision, SpaceInfo};

/// One step of a replay.
pub(crate) struct StateReplay<'r> {
    pub space: &'r Name,
    pub info: SpaceInfo,
    pub block: &'r EntryBlock,
    pub hidden: bool,
    pub shows: bool,
}

/// Replays a step. Returns the number of its entries.
pub(crate) fn replay(
    view: &View<'_>,
    overlay: &mut WriteSet,
    replay: &StateReplay<'_>,
    revision: Revision,
) -> Result<u64> {
    match (replay.block.is_empty(), replay.hidden) {
        (true, _) => declare(view, overlay, replay, revision).map(|()| 0),
        (false, true) => hide(view, overlay, replay, revision),
        (false, false) => write(view, overlay, replay, revision),
    }
}

fn declare(
    view: &View<'_>,
    overlay: &mut WriteSet,
    replay: &StateReplay<'_>,
    revision: Revision,
) -> Result<()> {
    let SpaceState { seen, declared } = space::meet(view, overlay, replay.space)?;
    let there = declared.filter(|declared| declared.is_there);
    let now = match (replay.shows, there) {
        (true, _) => {
            let filled = declared.map_or(0, |declared| declared.filling);
            let restored = filled != 0;
            let generation = if restored { filled } else { revision };
            let is_there = true;
            let shown = revision;
            let filling = 0;
            let info = replay.info;
            Declaration { is_there, generation, shown, restored, filling, info }
        }
        (false, Some(there)) => Declaration { info: replay.info, ..there },
        (false, None) => return Err(unseen(replay.space)),
    };
    space::put(overlay, seen, &now)
}

fn hide(
    view: &View<'_>,
    overlay: &mut WriteSet,
    replay: &StateReplay<'_>,
    revision: Revision,
) -> Result<u64> {
    let StateReplay { space, info, block, .. } = *replay;
    let SpaceState { seen, declared } = space::meet(view, overlay, space)?;
    let empty = Declaration { is_there: false, ..Declaration::new(info.options, 0) };
    let before = declared.unwrap_or(empty);
    let filling = if before.filling == 0 { revision } else { before.filling };
    if before.filling == 0 {
        space::put_quietly(overlay, seen, &Declaration { filling, ..before })?;
    }
    let piece = RestoredStates { space, info, block, begun: Some(filling), ends: false };
    overlay.check_room(block.as_bytes().len())?;
    restore::fill(view, overlay, &piece, filling)
}

fn write(
    view: &View<'_>,
    overlay: &mut WriteSet,
    replay: &StateReplay<'_>,
    revision: Revision,
) -> Result<u64> {
    let mut writer = SpaceWriter::open(view, overlay, replay.space, revision)?;
    if writer.is_new {
        return Err(unseen(replay.space));
    }
    let mut count = 0;
    for entry in replay.block {
        let (place, payload) = entry?;
        let versions = replay.info.options.versions;
        one(&mut writer, EntryRef::from_parts(place, payload, versions)?)?;
        count += 1;
    }
    writer.close()?;
    Ok(count)
}

fn one(writer: &mut SpaceWriter<'_>, entry: EntryRef<'_>) -> Result<()> {
    match entry {
        EntryRef::State { key, version, value } => {
            let (seen, had) = writer.see(key)?;
            writer.set_state(key, seen, had, version, value)
        }
        EntryRef::Waiting { key, version, value } => writer.wait_anew(key, value, version),
        EntryRef::Item { key, id, item } => writer.append_anew(key, id, item),
        EntryRef::Position { source, position } => writer.advance(source, position).map(drop),
        EntryRef::NoState { key } => writer.clear_state(key),
        EntryRef::NotWaiting { key, version } => writer.clear_waiting(version, key),
    }
}

#[cold]
fn unseen(space: &Name) -> Error {
    let message =
        format!("space `{space}` is replayed, and nothing has shown it yet: show it first");
    Error::new(Code::InvalidArgument, message)
}
