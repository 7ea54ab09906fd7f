//! What can be done with keyed state, and what that answers.

use super::{
    EntryBlock, Item, Kept, SpaceInfo, SpaceOptions, StatePage, StateWrite, Version, WaitingEntry,
    Wrote,
};
use crate::limits::{TRANSACTION_LIMIT_COMMANDS, check_page};
use crate::wire::fields;
use crate::{Code, Command, Error, Name, Result, Revision};
use serde::{Deserialize, Serialize};

/// What can be done with a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateCommand {
    /// Declares a space; says whether it is new. One that is there has to be declared the same.
    Declare {
        /// The space.
        space: Name,
        /// How.
        options: SpaceOptions,
    },
    /// Writes; answers each.
    Write {
        /// The space.
        space: Name,
        /// What.
        #[serde(with = "fields::list")]
        writes: Vec<StateWrite>,
    },
    /// Closes all versions below the frontier: what waited with one of them is applied, in order. At most so many at
    /// once: the frontier rises with the last.
    Seal {
        /// The space.
        space: Name,
        /// The lowest version that is still open.
        frontier: Version,
        /// The most entries to touch in this transaction.
        limit: usize,
    },
    /// Removes a space and everything in it; says whether there was one.
    Drop {
        /// The space.
        space: Name,
    },
    /// Fills a generation of the space that nobody sees, and shows it with the last piece, instead of what was there.
    /// Answers how many entries the piece had.
    Restore {
        /// The space.
        space: Name,
        /// What it is to be.
        info: SpaceInfo,
        /// Entries, behind those of the piece before.
        block: EntryBlock,
        /// The transaction that began; nothing: this one does.
        begun: Option<Revision>,
        /// Whether it is whole with this piece.
        ends: bool,
    },
    /// Gives up a generation that is being filled; says whether it was.
    Abandon {
        /// The space.
        space: Name,
        /// The transaction that began to fill it.
        begun: Revision,
    },
    /// Adds entries to what is there, and never lowers a version; answers how many of them were new.
    Take {
        /// The space.
        space: Name,
        /// The space that they are of.
        info: SpaceInfo,
        /// The entries.
        block: EntryBlock,
    },
    /// What is known of keys.
    Look {
        /// The space.
        space: Name,
        /// The keys.
        #[serde(with = "fields::list")]
        keys: Vec<StateKey>,
    },
    /// Keys in byte order with their states.
    Scan {
        /// The space.
        space: Name,
        /// Only keys that begin with this.
        #[serde(with = "fields::bytes")]
        prefix: Vec<u8>,
        /// Only keys behind this one.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// At most this many.
        limit: usize,
    },
    /// Keys in byte order.
    List {
        /// The space.
        space: Name,
        /// Only keys that begin with this.
        #[serde(with = "fields::bytes")]
        prefix: Vec<u8>,
        /// Only keys behind this one.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// At most this many.
        limit: usize,
    },
    /// Items of a key's log, in the order of their ids.
    Items {
        /// The space.
        space: Name,
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// Only items behind this one.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// At most this many.
        limit: usize,
    },
    /// Writes that wait, by their versions.
    Waiting {
        /// The space.
        space: Name,
        /// Only versions below this one.
        below: Option<Version>,
        /// At most this many.
        limit: usize,
    },
    /// How far sources were read.
    Positions {
        /// The space.
        space: Name,
    },
    /// What is known of a space.
    Info {
        /// The space.
        space: Name,
    },
    /// Spaces in byte order of their names.
    Spaces {
        /// Only names that begin with this.
        prefix: String,
        /// Only names behind this one.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// Entries as a snapshot has them.
    Dump {
        /// The space.
        space: Name,
        /// Only those behind this place.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// About so many bytes of them.
        limit_bytes: usize,
    },
    /// Writes entries as they once were, whatever is there: that is how an import replays a space. Answers how many.
    Replay {
        /// The space.
        space: Name,
        /// What it is from then on; with entries, only which versions these have.
        info: SpaceInfo,
        /// Entries, and those that went; with none, the space itself is declared.
        block: EntryBlock,
        /// Whether nobody saw them yet.
        hidden: bool,
        /// Whether the space is seen from then on, with all that was hidden.
        shows: bool,
    },
}

/// A key, in one piece.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StateKey(#[serde(with = "fields::bytes")] pub Vec<u8>);

impl StateCommand {
    /// The space that it is about; a listing of spaces is about none.
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

    /// Whether it only reads.
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

    /// Refuses what makes no sense whatever the space holds.
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

/// What a command on a space answers; what others answer, too, has no variant here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateAnswer {
    /// What became of each write.
    Wrote(#[serde(with = "fields::list")] Vec<Wrote>),
    /// How many entries were applied or forgotten, and whether the frontier has risen with them.
    Sealed {
        /// How many writes that waited were looked at.
        settled: u64,
        /// Whether all that had to be is done.
        done: bool,
    },
    /// What is known of each key.
    Kept(#[serde(with = "fields::list")] Vec<Option<Kept>>),
    /// A page of keys with their states.
    States(StatePage),
    /// A page of keys, and where the next one begins.
    Keys {
        /// Keys in byte order.
        #[serde(with = "fields::list")]
        keys: Vec<StateKey>,
        /// Pass this as `after` for the next page.
        #[serde(with = "fields::maybe_bytes")]
        next: Option<Vec<u8>>,
    },
    /// Items of a log.
    Items(#[serde(with = "fields::list")] Vec<Item>),
    /// Writes that wait.
    Waiting(#[serde(with = "fields::list")] Vec<WaitingEntry>),
    /// How far sources were read, by their names.
    Positions(#[serde(with = "fields::list")] Vec<(String, u64)>),
    /// What is known of a space; nothing where there is none.
    Info(Option<SpaceInfo>),
    /// Entries as a snapshot has them.
    Entries {
        /// The entries.
        block: EntryBlock,
        /// Pass this as `after` for those behind them; `None` at the end.
        #[serde(with = "fields::maybe_bytes")]
        next: Option<Vec<u8>>,
    },
}

impl StateAnswer {
    /// Whether the command took effect, which `must` requires.
    pub fn took_effect(&self) -> bool {
        match self {
            StateAnswer::Wrote(all) => all.iter().all(|one| one.took_effect()),
            _ => true,
        }
    }

    /// The memory that what it holds takes, about.
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

/// What of a space a guard is on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StatePlace {
    /// How it is declared, and its frontier.
    Space,
    /// A key's state.
    Key(#[serde(with = "fields::bytes")] Vec<u8>),
    /// An item of a key's log.
    Item {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// What tells it from others.
        #[serde(with = "fields::bytes")]
        id: Vec<u8>,
    },
    /// A position.
    Position(String),
    /// All entries whose places begin with this, behind one and up to another.
    Range {
        /// What they begin with.
        #[serde(with = "fields::bytes")]
        prefix: Vec<u8>,
        /// Only places behind this one.
        #[serde(with = "fields::maybe_bytes")]
        after: Option<Vec<u8>>,
        /// Only places up to and including this one.
        #[serde(with = "fields::maybe_bytes")]
        upto: Option<Vec<u8>>,
    },
    /// A version that is not sealed, and of the kind that the space has.
    Open(Version),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::{LogicalTime, State, VersionKind};
    use crate::wire::{decode, encode};
    use std::fmt::Debug;

    /// The variants of an enum by their numbers, which the version of the wire promises; and all of it comes back.
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
        let (key, value) = (vec![0, 255], Some(b"v".to_vec()));
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
        let (prefix, after, limit) = (vec![0, 255], Some(b"a".to_vec()), 9);
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
        let (version, value) = (Version::from(7), Some(vec![0, 255]));
        let kept = Kept { version, value: value.clone() };
        let state = State { value: vec![0, 255], version };
        let states = vec![(b"k".to_vec(), state)];
        let item = Item { id: b"i".to_vec(), item: vec![0, 255] };
        let (key, id) = (b"k".to_vec(), b"i".to_vec());
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
