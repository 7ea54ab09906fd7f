//! Commands on keyed state and their answers.

use super::{
    EntryBlock, Item, Kept, SpaceInfo, SpaceOptions, StatePage, StateWrite, Version, WaitingEntry,
    Wrote,
};
use crate::limits::{TRANSACTION_LIMIT_COMMANDS, check_page};
use crate::wire::fields;
use crate::{Code, Command, Error, Name, Result, Revision};
use serde::{Deserialize, Serialize};

/// Commands on a space of keyed state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateCommand {
    /// Declares a space. Returns whether it is new. An existing space must be declared with the same options.
    Declare {
        /// The space.
        space: Name,
        /// The options of the space.
        options: SpaceOptions,
    },
    /// Writes a batch. Returns one result per write.
    Write {
        /// The space.
        space: Name,
        /// The writes, in order.
        #[serde(with = "fields::list")]
        writes: Vec<StateWrite>,
    },
    /// Seals all versions below the frontier: applies the waiting writes with these versions, in order.
    /// Touches at most `limit` entries, and the frontier advances with the last of them.
    Seal {
        /// The space.
        space: Name,
        /// The lowest version that is still open.
        frontier: Version,
        /// The most entries to touch in this transaction.
        limit: usize,
    },
    /// Removes a space with all its entries. Returns whether it existed.
    Drop {
        /// The space.
        space: Name,
    },
    /// Fills a hidden generation of the space, block by block. The last block replaces the visible
    /// generation. Returns the number of entries in the block.
    Restore {
        /// The space.
        space: Name,
        /// The options and the frontier of the restored space.
        info: SpaceInfo,
        /// The next entries, after those of the previous block.
        block: EntryBlock,
        /// The revision of the transaction with the first block; `None` if this is the first.
        begun: Option<Revision>,
        /// True if this is the last block.
        ends: bool,
    },
    /// Abandons a generation that is being filled. Returns whether it existed.
    Abandon {
        /// The space.
        space: Name,
        /// The revision of the transaction that began to fill it.
        begun: Revision,
    },
    /// Merges entries into the space without ever lowering a version. Returns the number of new entries.
    Take {
        /// The space.
        space: Name,
        /// The options and the frontier of the space that the entries come from.
        info: SpaceInfo,
        /// The entries.
        block: EntryBlock,
    },
    /// Reads the states and versions of keys.
    Look {
        /// The space.
        space: Name,
        /// The keys.
        #[serde(with = "fields::list")]
        keys: Vec<StateKey>,
    },
    /// Scans keys in byte order with their states.
    Scan {
        /// The space.
        space: Name,
        /// Reads only keys with this prefix.
        #[serde(with = "fields::bytes")]
        prefix: Vec<u8>,
        /// The cursor: reads only keys after this one.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// The page size.
        limit: usize,
    },
    /// Lists keys in byte order.
    List {
        /// The space.
        space: Name,
        /// Lists only keys with this prefix.
        #[serde(with = "fields::bytes")]
        prefix: Vec<u8>,
        /// The cursor: lists only keys after this one.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// The page size.
        limit: usize,
    },
    /// Reads the items of a key's log, in the order of their ids.
    Items {
        /// The space.
        space: Name,
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The cursor: reads only items after this one.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// The page size.
        limit: usize,
    },
    /// Reads waiting writes, in version order.
    Waiting {
        /// The space.
        space: Name,
        /// Reads only versions below this one.
        below: Option<Version>,
        /// The page size.
        limit: usize,
    },
    /// Reads the positions of all sources and sinks.
    Positions {
        /// The space.
        space: Name,
    },
    /// Reads the options and the frontier of a space.
    Info {
        /// The space.
        space: Name,
    },
    /// Lists spaces in byte order of their names.
    Spaces {
        /// Lists only names with this prefix.
        prefix: String,
        /// The cursor: lists only names after this one.
        after: Option<String>,
        /// The page size.
        limit: usize,
    },
    /// Reads entries in snapshot format.
    Dump {
        /// The space.
        space: Name,
        /// The cursor: reads only entries after this place.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// The approximate size of the block, in bytes.
        limit_bytes: usize,
    },
    /// Writes historical entries unconditionally, when an import replays a space. Returns their number.
    Replay {
        /// The space.
        space: Name,
        /// The new options and frontier. With entries, only the version kind is used.
        info: SpaceInfo,
        /// The entries, including removed ones. An empty block declares the space itself.
        block: EntryBlock,
        /// True if the entries are not visible yet.
        hidden: bool,
        /// True if the space becomes visible with this command, including all hidden entries.
        shows: bool,
    },
}

/// A key, as one byte string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StateKey(#[serde(with = "fields::bytes")] pub Vec<u8>);

impl StateCommand {
    /// The space of the command; `None` for a listing of spaces.
    pub fn space(&self) -> Option<&Name> {
        match self {
            StateCommand::Declare { space, .. }
            | StateCommand::Write { space, .. }
            | StateCommand::Seal { space, .. }
            | StateCommand::Drop { space }
            | StateCommand::Restore { space, .. }
            | StateCommand::Abandon { space, .. }
            | StateCommand::Take { space, .. }
            | StateCommand::Look { space, .. }
            | StateCommand::Scan { space, .. }
            | StateCommand::List { space, .. }
            | StateCommand::Items { space, .. }
            | StateCommand::Waiting { space, .. }
            | StateCommand::Positions { space }
            | StateCommand::Info { space }
            | StateCommand::Dump { space, .. }
            | StateCommand::Replay { space, .. } => Some(space),
            StateCommand::Spaces { .. } => None,
        }
    }

    /// Returns whether the command is read-only.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            StateCommand::Look { .. }
                | StateCommand::Scan { .. }
                | StateCommand::List { .. }
                | StateCommand::Items { .. }
                | StateCommand::Waiting { .. }
                | StateCommand::Positions { .. }
                | StateCommand::Info { .. }
                | StateCommand::Spaces { .. }
                | StateCommand::Dump { .. }
        )
    }

    /// Rejects commands that are invalid whatever the space holds.
    pub fn check(&self) -> Result<()> {
        match self {
            StateCommand::Declare { options, .. } => options.check(),
            StateCommand::Write { writes, .. } => {
                check_count(writes.len())?;
                writes.iter().try_for_each(StateWrite::check)
            }
            StateCommand::Look { keys, .. } => check_count(keys.len()),
            StateCommand::Restore { info, .. }
            | StateCommand::Take { info, .. }
            | StateCommand::Replay { info, .. } => info.options.check(),
            StateCommand::Seal { limit, .. }
            | StateCommand::Scan { limit, .. }
            | StateCommand::List { limit, .. }
            | StateCommand::Items { limit, .. }
            | StateCommand::Waiting { limit, .. }
            | StateCommand::Spaces { limit, .. } => check_page(*limit),
            StateCommand::Drop { .. }
            | StateCommand::Abandon { .. }
            | StateCommand::Positions { .. }
            | StateCommand::Info { .. }
            | StateCommand::Dump { .. } => Ok(()),
        }
    }
}

fn check_count(count: usize) -> Result<()> {
    if count <= TRANSACTION_LIMIT_COMMANDS {
        return Ok(());
    }
    let message =
        format!("{count} keys at once: {TRANSACTION_LIMIT_COMMANDS} are the most; make it several");
    Err(Error::new(Code::TransactionTooLarge, message))
}

impl From<StateCommand> for Command {
    fn from(command: StateCommand) -> Command {
        Command::State(command)
    }
}

/// The answer of a command on a space. Answers that other commands also give have no variant here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateAnswer {
    /// The result of each write.
    Wrote(#[serde(with = "fields::list")] Vec<Wrote>),
    /// The number of entries applied or dropped, and whether the frontier has advanced.
    Sealed {
        /// The number of waiting writes processed.
        settled: u64,
        /// True if all waiting writes below the frontier are settled.
        done: bool,
    },
    /// The state of each key; `None` for unknown keys.
    Kept(#[serde(with = "fields::list")] Vec<Option<Kept>>),
    /// A page of keys with their states.
    States(StatePage),
    /// A page of keys with the cursor of the next page.
    Keys {
        /// Keys in byte order.
        #[serde(with = "fields::list")]
        keys: Vec<StateKey>,
        /// The cursor: pass it as `after` for the next page.
        #[serde(with = "fields::maybe_bytes")]
        next: Option<Vec<u8>>,
    },
    /// Items of a log.
    Items(#[serde(with = "fields::list")] Vec<Item>),
    /// Waiting writes.
    Waiting(#[serde(with = "fields::list")] Vec<WaitingEntry>),
    /// The positions of sources and sinks, by name.
    Positions(#[serde(with = "fields::list")] Vec<(String, u64)>),
    /// The options and the frontier of a space; `None` if it does not exist.
    Info(Option<SpaceInfo>),
    /// Entries in snapshot format.
    Entries {
        /// The entries.
        block: EntryBlock,
        /// The cursor: pass it as `after` for the next entries. `None` at the end.
        #[serde(with = "fields::maybe_bytes")]
        next: Option<Vec<u8>>,
    },
}

impl StateAnswer {
    /// Returns whether the command took effect, which `must` requires.
    pub fn took_effect(&self) -> bool {
        match self {
            StateAnswer::Wrote(all) => all.iter().all(|one| one.took_effect()),
            _ => true,
        }
    }

    /// The approximate memory that the answer takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        let value = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        match self {
            StateAnswer::Wrote(all) => all.len(),
            StateAnswer::Kept(all) => {
                all.iter().flatten().map(|kept| 48 + value(&kept.value)).sum()
            }
            StateAnswer::States(page) => {
                page.states.iter().map(|(key, state)| 64 + key.len() + state.value.len()).sum()
            }
            StateAnswer::Keys { keys, .. } => keys.iter().map(|key| 24 + key.0.len()).sum(),
            StateAnswer::Items(items) => {
                items.iter().map(|one| 48 + one.id.len() + one.item.len()).sum()
            }
            StateAnswer::Waiting(all) => {
                all.iter().map(|one| 64 + one.key.len() + value(&one.value)).sum()
            }
            StateAnswer::Positions(all) => all.iter().map(|(source, _)| 32 + source.len()).sum(),
            StateAnswer::Entries { block, .. } => block.as_bytes().len(),
            StateAnswer::Sealed { .. } | StateAnswer::Info(_) => 0,
        }
    }
}

/// The part of a space that a guard covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StatePlace {
    /// The options and the frontier.
    Space,
    /// A key's state.
    Key(#[serde(with = "fields::bytes")] Vec<u8>),
    /// An item of a key's log.
    Item {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The item's id.
        #[serde(with = "fields::bytes")]
        id: Vec<u8>,
    },
    /// The position of a source or sink.
    Position(String),
    /// A range guard: all entries whose places have this prefix, from `after` (exclusive) to `upto`
    /// (inclusive).
    Range {
        /// The prefix of the places.
        #[serde(with = "fields::bytes")]
        prefix: Vec<u8>,
        /// The exclusive lower bound.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// The inclusive upper bound.
        #[serde(with = "fields::maybe_bytes")]
        upto: Option<Vec<u8>>,
    },
    /// The version must be unsealed, and of the space's version kind.
    Open(Version),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::{LogicalTime, State, VersionKind};
    use crate::wire::{decode, encode};
    use std::fmt::Debug;

    /// Checks the variants' numbers, which the wire version promises, and the round trip of each.
    #[track_caller]
    fn numbered<T: Serialize + for<'f> Deserialize<'f> + PartialEq + Debug>(all: Vec<T>) {
        for (number, one) in all.into_iter().enumerate() {
            let frame = encode(&one).unwrap();
            assert_eq!(usize::from(frame[1]), number, "{one:?}");
            assert_eq!(decode::<T>(&frame).unwrap(), one);
        }
    }

    fn space() -> Name {
        Name::new("s").unwrap()
    }

    fn block() -> EntryBlock {
        let mut block = EntryBlock::default();
        block.push(b"\x04orders", Some(&[0, 7]));
        block
    }

    fn writes() -> Vec<StateWrite> {
        let time = Version::from(LogicalTime::new(3, 17));
        let key = vec![0, 255];
        let value = Some(b"v".to_vec());
        let settles = vec![7.into()];
        vec![
            StateWrite::put("k", [0, 255], 17),
            StateWrite::delete("k", LogicalTime::new(3, 17)),
            StateWrite::append("k", "id", "item"),
            StateWrite::advance("orders", u64::MAX),
            StateWrite::Merge { key, value, version: time, read: Some(6.into()), settles },
            StateWrite::AllSettled { below: time },
        ]
    }

    #[test]
    fn commands_and_writes_keep_their_numbers() {
        let options = SpaceOptions::default().versions(VersionKind::Time).ordered().groups(16);
        let info = SpaceInfo { options, frontier: Some(LogicalTime::new(1, 2).into()) };
        let prefix = vec![0, 255];
        let after = Some(b"a".to_vec());
        let limit = 9;
        let begun = Some(5);
        numbered(vec![
            StateCommand::Declare { space: space(), options },
            StateCommand::Write { space: space(), writes: writes() },
            StateCommand::Seal { space: space(), frontier: 7.into(), limit },
            StateCommand::Drop { space: space() },
            StateCommand::Restore { space: space(), info, block: block(), begun, ends: true },
            StateCommand::Abandon { space: space(), begun: 5 },
            StateCommand::Take { space: space(), info, block: block() },
            StateCommand::Look { space: space(), keys: vec![StateKey(vec![0, 255])] },
            StateCommand::Scan {
                space: space(),
                prefix: prefix.clone(),
                after: after.clone(),
                limit,
            },
            StateCommand::List { space: space(), prefix, after: after.clone(), limit },
            StateCommand::Items { space: space(), key: vec![1], after: after.clone(), limit },
            StateCommand::Waiting { space: space(), below: Some(7.into()), limit },
            StateCommand::Positions { space: space() },
            StateCommand::Info { space: space() },
            StateCommand::Spaces { prefix: "p".into(), after: Some("a".into()), limit },
            StateCommand::Dump { space: space(), after, limit_bytes: 1 << 20 },
        ]);
        numbered(writes());
    }

    #[test]
    fn answers_and_places_keep_their_numbers() {
        let version = Version::from(7);
        let value = Some(vec![0, 255]);
        let kept = Kept { version, value: value.clone() };
        let state = State { value: vec![0, 255], version };
        let states = vec![(b"k".to_vec(), state)];
        let item = Item { id: b"i".to_vec(), item: vec![0, 255] };
        let key = b"k".to_vec();
        let id = b"i".to_vec();
        let waiting = WaitingEntry { key: key.clone(), version, value };
        let next = Some(key.clone());
        let all = [Wrote::Applied, Wrote::Stale, Wrote::Waiting, Wrote::Moved];
        numbered(all.to_vec());
        numbered(vec![
            StateAnswer::Wrote(all.to_vec()),
            StateAnswer::Sealed { settled: 3, done: true },
            StateAnswer::Kept(vec![Some(kept), None]),
            StateAnswer::States(StatePage { states, next: next.clone() }),
            StateAnswer::Keys { keys: vec![StateKey(key.clone())], next: next.clone() },
            StateAnswer::Items(vec![item]),
            StateAnswer::Waiting(vec![waiting]),
            StateAnswer::Positions(vec![("orders".into(), u64::MAX)]),
            StateAnswer::Info(Some(SpaceInfo::default())),
            StateAnswer::Entries { block: block(), next: next.clone() },
        ]);
        numbered(vec![
            StatePlace::Space,
            StatePlace::Key(key.clone()),
            StatePlace::Item { key: key.clone(), id },
            StatePlace::Position("orders".into()),
            StatePlace::Range { prefix: key, after: None, upto: next },
            StatePlace::Open(7.into()),
        ]);
        numbered(vec![Version::from(7), LogicalTime::new(1, 2).into()]);
    }
}
