//! Declaration of a space: its options, its frontier and its visible generation.

use crate::apply::key_state::{KeyState, load_with};
use crate::key::entry::QUIET;
use crate::key::keyspace::SPACES;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, WriteSet};
use mainstay_model::codec::{get_varint, put_varint};
use mainstay_model::{
    Code, Error, Name, Result, Revision, SpaceInfo, SpaceOptions, Version, VersionKind,
};

const THERE: u8 = 1;
const ORDERED: u8 = 2;
const MERGED: u8 = 4;
const RESTORED: u8 = 8;

/// The declaration of a space, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Whether the space exists. `false` while its first restore is under way.
    pub is_there: bool,
    /// The visible generation.
    pub generation: u64,
    /// Revision at which that generation became visible.
    pub shown: Revision,
    /// Whether a restore filled that generation, rather than writes.
    pub restored: bool,
    /// Generation that a restore is filling, which is not visible yet. 0: none.
    pub filling: u64,
    pub info: SpaceInfo,
}

impl Declaration {
    /// Returns the declaration of a space that a transaction creates.
    pub fn new(options: SpaceOptions, revision: Revision) -> Declaration {
        let info = SpaceInfo { options, frontier: None };
        Declaration {
            is_there: true,
            generation: revision,
            shown: revision,
            restored: false,
            filling: 0,
            info,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let SpaceInfo { options, frontier } = self.info;
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        out.push(
            flag(self.is_there, THERE)
                | flag(options.ordered, ORDERED)
                | flag(options.merged, MERGED)
                | flag(self.restored, RESTORED),
        );
        out.push(options.versions.map_or(0, |kind| kind.bytes() as u8));
        put_varint(out, u64::from(options.groups));
        put_varint(out, self.generation);
        put_varint(out, self.shown);
        put_varint(out, self.filling);
        out.extend_from_slice(&frontier.map(Version::to_bytes).unwrap_or_default());
    }

    pub fn decode(bytes: &[u8]) -> Result<Declaration> {
        take(bytes)
            .ok_or_else(|| Error::new(Code::CorruptData, "the declaration of a space is damaged"))
    }
}

fn take(mut bytes: &[u8]) -> Option<Declaration> {
    let (&[flags, versions], rest) = bytes.split_first_chunk::<2>()?;
    bytes = rest;
    let versions = match versions {
        0 => None,
        bytes => Some(VersionKind::of_bytes(usize::from(bytes))?),
    };
    let groups = u32::try_from(get_varint(&mut bytes)?).ok()?;
    let generation = get_varint(&mut bytes)?;
    let shown = get_varint(&mut bytes)?;
    let filling = get_varint(&mut bytes)?;
    let frontier = match bytes {
        [] => None,
        bytes => Some(Version::from_bytes(bytes)?),
    };
    let ordered = flags & ORDERED != 0;
    let merged = flags & MERGED != 0;
    let options = SpaceOptions { versions, ordered, merged, groups };
    let info = SpaceInfo { options, frontier };
    let is_there = flags & THERE != 0;
    let restored = flags & RESTORED != 0;
    Some(Declaration { is_there, generation, shown, restored, filling, info })
}

/// State of a space before a write.
pub(crate) struct SpaceState {
    pub seen: KeyState,
    pub declared: Option<Declaration>,
}

impl SpaceState {
    /// Returns the declaration, if the space exists.
    pub fn there(&self) -> Option<Declaration> {
        self.declared.filter(|declared| declared.is_there)
    }
}

/// Loads a space, even one that does not exist yet.
pub(crate) fn meet(view: &View<'_>, overlay: &WriteSet, space: &Name) -> Result<SpaceState> {
    let (seen, declared) = load_with(view, overlay, SPACES, space.as_bytes(), Declaration::decode)?;
    Ok(SpaceState { seen, declared })
}

/// Loads the declaration of a space, if the space exists.
pub fn find(view: &View<'_>, overlay: &WriteSet, space: &Name) -> Result<Option<Declaration>> {
    Ok(meet(view, overlay, space)?.there())
}

/// Writes a declaration.
pub(in crate::apply) fn put(
    overlay: &mut WriteSet,
    seen: KeyState,
    declared: &Declaration,
) -> Result<()> {
    put_as(overlay, seen, declared, 0)
}

/// Writes a declaration without a feed event, because readers see no difference. If this transaction has
/// written the declaration before, the event stays, because it reports that earlier write.
pub(in crate::apply) fn put_quietly(
    overlay: &mut WriteSet,
    seen: KeyState,
    declared: &Declaration,
) -> Result<()> {
    let flags = if overlay.find(seen.hash, &seen.key).is_some() { 0 } else { QUIET };
    put_as(overlay, seen, declared, flags)
}

fn put_as(overlay: &mut WriteSet, seen: KeyState, declared: &Declaration, flags: u8) -> Result<()> {
    let encode = |out: &mut Vec<u8>| {
        declared.encode(out);
        Ok(())
    };
    let (start, ()) = overlay.stage(encode)?;
    let write = seen.write(flags, None, Payload::Staged(start));
    overlay.write(seen.key, seen.hash, write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::LogicalTime;

    #[test]
    fn declarations_come_back_and_torn_ones_are_refused() {
        let options = SpaceOptions::default().versions(VersionKind::Time).ordered().groups(300);
        let frontier = Some(LogicalTime::new(1, 2).into());
        let info = SpaceInfo { options, frontier };
        let generation = 900;
        let shown = 1000;
        let filling = 1200;
        let is_there = true;
        let restored = true;
        let full = Declaration { is_there, generation, shown, restored, filling, info };
        let bare = Declaration::new(SpaceOptions::default(), 7);
        for declared in [full, bare] {
            let mut bytes = Vec::new();
            declared.encode(&mut bytes);
            assert_eq!(Declaration::decode(&bytes).unwrap(), declared);
            assert!(Declaration::decode(&bytes[..4]).is_err());
            bytes.push(0);
            assert!(Declaration::decode(&bytes).is_err());
        }
    }
}
