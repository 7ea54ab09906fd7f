//! JSON forms of keyed state.
//!
//! ```text
//!   key, id   text as it is, other bytes as `$bytes:` and base64
//!   state     text as a string, other bytes as {"$bytes": base64}
//!   version   a whole number, or the text of one, or the text epoch.round; answers have texts
//! ```

use super::{Raw, bytes, shown_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mainstay::limits::{PAGE_DEFAULT, PAGE_LIMIT};
use mainstay::{
    Code, Error, Item, Kept, Name, Result, SpaceInfo, SpaceOptions, State, StateCommand, StateKey,
    StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// The prefix of keys that are not text.
const BYTES: &str = "$bytes:";

/// Parses the text form of a key.
pub(crate) fn key_of(text: &str) -> Result<Vec<u8>> {
    let Some(encoded) = text.strip_prefix(BYTES) else { return Ok(text.as_bytes().to_vec()) };
    STANDARD.decode(encoded).map_err(|_| {
        let message = format!("the key {text:?} has no padded base64 behind `{BYTES}`");
        Error::new(Code::InvalidName, message)
    })
}

/// The text form of a key.
pub(crate) fn shown_key(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.starts_with(BYTES) => text.to_owned(),
        _ => format!("{BYTES}{}", STANDARD.encode(key)),
    }
}

/// Parses the bytes of a state or an item.
pub(crate) fn state_bytes(said: &RawValue) -> Result<Vec<u8>> {
    bytes(said)?.ok_or_else(|| {
        let message = "null is no state: delete the key, or give a string or {\"$bytes\": base64}";
        Error::new(Code::InvalidArgument, message)
    })
}

/// The outcome of a write, as a word.
pub(crate) fn wrote(wrote: Wrote) -> &'static str {
    match wrote {
        Wrote::Applied => "applied",
        Wrote::Stale => "stale",
        Wrote::Waiting => "waiting",
        _ => "moved",
    }
}

/// A version.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "no version: give a whole number, or the text \"epoch.round\"")]
pub(crate) enum VersionForm {
    /// A whole number.
    Number(u64),
    /// The text of one, or epoch.round.
    Text(String),
}

impl VersionForm {
    pub fn version(&self) -> Result<Version> {
        match self {
            VersionForm::Number(number) => Ok((*number).into()),
            VersionForm::Text(text) => text.parse(),
        }
    }
}

/// How a space is declared.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclareForm {
    /// The space; where the path names it, it is left out.
    space: Option<String>,
    /// The kind of its versions, `u64` or `time`; that of the first one without it.
    versions: Option<String>,
    /// Whether writes wait until their version is sealed, and are applied in order.
    #[serde(default)]
    ordered: bool,
    /// Whether a function of its user merges what is put with what is there.
    #[serde(default)]
    merged: bool,
    /// How many groups its keys belong to; 128 without it.
    groups: Option<u32>,
}

impl DeclareForm {
    /// The command for the space that the path names.
    pub fn at(self, space: Name) -> Result<StateCommand> {
        match &self.space {
            None => self.named(space),
            Some(_) => {
                let message = "the path names the space: leave it out of the body";
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }

    /// The command for the space that the form names.
    pub fn command(self) -> Result<StateCommand> {
        let space = Name::new(self.space.as_deref().unwrap_or_default())?;
        self.named(space)
    }

    fn named(self, space: Name) -> Result<StateCommand> {
        let versions = self.versions.as_deref().map(str::parse).transpose()?;
        let groups = self.groups.unwrap_or(SpaceOptions::default().groups);
        let ordered = self.ordered;
        let merged = self.merged;
        let options = SpaceOptions { versions, ordered, merged, groups };
        Ok(StateCommand::Declare { space, options })
    }
}

/// One write to a space.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WriteForm {
    /// Writes a key's state.
    Put(PutForm),
    /// Deletes a key's state.
    Delete(DeleteForm),
    /// Adds an item to a key's log.
    Append(AppendForm),
    /// Says how far a source was read.
    Advance(PositionForm),
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PutStateWrite)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutForm {
    /// The key.
    key: String,
    /// Its state: a string, or {"$bytes": base64}; other JSON as its text.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
    /// Its version.
    version: VersionForm,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = DeleteStateWrite)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteForm {
    /// The key.
    key: String,
    /// The version of the deletion.
    version: VersionForm,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AppendItemWrite)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendForm {
    /// The key.
    key: String,
    /// What tells the item from others.
    id: String,
    /// The item: a string, or {"$bytes": base64}; other JSON as its text.
    #[schema(value_type = serde_json::Value)]
    item: Raw,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AdvanceWrite)]
#[serde(deny_unknown_fields)]
pub(crate) struct PositionForm {
    /// The source.
    source: String,
    /// How far it was read.
    position: u64,
}

impl WriteForm {
    pub fn write(self) -> Result<StateWrite> {
        let write = match self {
            WriteForm::Put(PutForm { key, value, version }) => {
                StateWrite::put(key_of(&key)?, state_bytes(&value)?, version.version()?)
            }
            WriteForm::Delete(DeleteForm { key, version }) => {
                StateWrite::delete(key_of(&key)?, version.version()?)
            }
            WriteForm::Append(AppendForm { key, id, item }) => {
                StateWrite::append(key_of(&key)?, key_of(&id)?, state_bytes(&item)?)
            }
            WriteForm::Advance(PositionForm { source, position }) => {
                StateWrite::advance(&source, position)
            }
        };
        write.check()?;
        Ok(write)
    }
}

fn one(space: &str, write: WriteForm) -> Result<StateCommand> {
    Ok(StateCommand::Write { space: Name::new(space)?, writes: vec![write.write()?] })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutStateForm {
    /// The space.
    space: String,
    /// The key.
    key: String,
    /// Its state: a string, or {"$bytes": base64}; other JSON as its text.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
    /// Its version.
    version: VersionForm,
}

impl PutStateForm {
    pub fn command(self) -> Result<StateCommand> {
        let PutStateForm { space, key, value, version } = self;
        one(&space, WriteForm::Put(PutForm { key, value, version }))
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteStateForm {
    /// The space.
    space: String,
    /// The key.
    key: String,
    /// The version of the deletion.
    version: VersionForm,
}

impl DeleteStateForm {
    pub fn command(self) -> Result<StateCommand> {
        let DeleteStateForm { space, key, version } = self;
        one(&space, WriteForm::Delete(DeleteForm { key, version }))
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendItemForm {
    /// The space.
    space: String,
    /// The key.
    key: String,
    /// What tells the item from others.
    id: String,
    /// The item: a string, or {"$bytes": base64}; other JSON as its text.
    #[schema(value_type = serde_json::Value)]
    item: Raw,
}

impl AppendItemForm {
    pub fn command(self) -> Result<StateCommand> {
        let AppendItemForm { space, key, id, item } = self;
        one(&space, WriteForm::Append(AppendForm { key, id, item }))
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdvanceForm {
    /// The space.
    space: String,
    /// The source.
    source: String,
    /// How far it was read.
    position: u64,
}

impl AdvanceForm {
    pub fn command(self) -> Result<StateCommand> {
        let AdvanceForm { space, source, position } = self;
        one(&space, WriteForm::Advance(PositionForm { source, position }))
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteStatesForm {
    /// The space.
    space: String,
    /// What is written, one behind the other.
    writes: Vec<WriteForm>,
}

impl WriteStatesForm {
    pub fn command(self) -> Result<StateCommand> {
        let writes = self.writes.into_iter().map(WriteForm::write).collect::<Result<_>>()?;
        Ok(StateCommand::Write { space: Name::new(&self.space)?, writes })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SealForm {
    /// The space.
    space: String,
    /// The lowest version that is still open.
    frontier: VersionForm,
    /// The most entries to touch; 100,000 without it.
    limit: Option<usize>,
}

impl SealForm {
    pub fn command(self) -> Result<StateCommand> {
        let space = Name::new(&self.space)?;
        let frontier = self.frontier.version()?;
        Ok(StateCommand::Seal { space, frontier, limit: self.limit.unwrap_or(PAGE_LIMIT) })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpaceNameForm {
    /// The space.
    space: String,
}

impl SpaceNameForm {
    pub fn named(&self) -> Result<Name> {
        Name::new(&self.space)
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetStatesForm {
    /// The space.
    space: String,
    /// The keys.
    keys: Vec<String>,
}

impl GetStatesForm {
    pub fn command(self) -> Result<StateCommand> {
        let keys = self.keys.iter().map(|key| key_of(key).map(StateKey));
        let keys = keys.collect::<Result<_>>()?;
        Ok(StateCommand::Look { space: Name::new(&self.space)?, keys })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScanStatesForm {
    /// The space.
    space: String,
    /// Only keys that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only keys behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

impl ScanStatesForm {
    pub fn states(self) -> Result<StateCommand> {
        let after = self.after.as_deref().map(key_of).transpose()?;
        let space = Name::new(&self.space)?;
        let prefix = key_of(&self.prefix)?;
        Ok(StateCommand::Scan { space, prefix, after, limit: self.limit.unwrap_or(PAGE_DEFAULT) })
    }

    pub fn keys(self) -> Result<StateCommand> {
        let after = self.after.as_deref().map(key_of).transpose()?;
        let space = Name::new(&self.space)?;
        let prefix = key_of(&self.prefix)?;
        Ok(StateCommand::List { space, prefix, after, limit: self.limit.unwrap_or(PAGE_DEFAULT) })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemsForm {
    /// The space.
    space: String,
    /// The key.
    key: String,
    /// Only items behind the one of this id.
    after: Option<String>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

impl ItemsForm {
    pub fn command(self) -> Result<StateCommand> {
        let after = self.after.as_deref().map(key_of).transpose()?;
        let space = Name::new(&self.space)?;
        let key = key_of(&self.key)?;
        Ok(StateCommand::Items { space, key, after, limit: self.limit.unwrap_or(PAGE_DEFAULT) })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitingStatesForm {
    /// The space.
    space: String,
    /// Only versions below this one.
    below: Option<VersionForm>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

impl WaitingStatesForm {
    pub fn command(self) -> Result<StateCommand> {
        let below = self.below.map(|below| below.version()).transpose()?;
        let space = Name::new(&self.space)?;
        Ok(StateCommand::Waiting { space, below, limit: self.limit.unwrap_or(PAGE_DEFAULT) })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSpacesForm {
    /// Only names that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only names behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

impl ListSpacesForm {
    pub fn command(self) -> Result<StateCommand> {
        let ListSpacesForm { prefix, after, limit } = self;
        super::check_place(&prefix, after.as_deref())?;
        Ok(StateCommand::Spaces { prefix, after, limit: limit.unwrap_or(PAGE_DEFAULT) })
    }
}

/// What sealing did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SealedForm {
    /// How many writes had waited.
    pub settled: u64,
    /// Whether the frontier is where it was asked to be; if not, seal again.
    pub done: bool,
}

/// What is known of a space.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpaceForm {
    /// The kind of its versions, `u64` or `time`; null before the first.
    versions: Option<String>,
    /// Whether writes wait until their version is sealed.
    ordered: bool,
    /// Whether a function of its user merges what is put with what is there.
    merged: bool,
    /// How many groups its keys belong to.
    groups: u32,
    /// Versions below it are sealed; null before the first seal.
    frontier: Option<String>,
}

impl From<SpaceInfo> for SpaceForm {
    fn from(SpaceInfo { options, frontier }: SpaceInfo) -> SpaceForm {
        SpaceForm {
            versions: options.versions.map(|kind| kind.to_string()),
            ordered: options.ordered,
            merged: options.merged,
            groups: options.groups,
            frontier: frontier.map(|frontier| frontier.to_string()),
        }
    }
}

/// What is known of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KnownForm {
    /// The version of the last write that was applied.
    version: String,
    /// The state; null where that write deleted it.
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Raw>,
}

impl From<Kept> for KnownForm {
    fn from(Kept { version, value }: Kept) -> KnownForm {
        KnownForm { version: version.to_string(), value: value.as_deref().map(shown_bytes) }
    }
}

/// A key and its state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StateForm {
    /// The key.
    key: String,
    /// Its state: a string, or {"$bytes": base64}.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
    /// Its version.
    version: String,
}

impl StateForm {
    pub fn of(key: &[u8], state: &State) -> StateForm {
        let value = shown_bytes(&state.value);
        let version = state.version.to_string();
        StateForm { key: shown_key(key), value, version }
    }
}

/// A page of keys with their states.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatePageForm {
    /// In byte order of the keys.
    states: Vec<StateForm>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<String>,
}

impl From<StatePage> for StatePageForm {
    fn from(StatePage { states, next }: StatePage) -> StatePageForm {
        let states = states.iter().map(|(key, state)| StateForm::of(key, state)).collect();
        StatePageForm { states, next: next.as_deref().map(shown_key) }
    }
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyPageForm {
    /// In byte order.
    keys: Vec<String>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<String>,
}

impl KeyPageForm {
    pub fn of(keys: &[StateKey], next: Option<Vec<u8>>) -> KeyPageForm {
        let keys = keys.iter().map(|key| shown_key(&key.0)).collect();
        KeyPageForm { keys, next: next.as_deref().map(shown_key) }
    }
}

/// An item of a key's log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ItemForm {
    /// What tells it from others.
    id: String,
    /// The item: a string, or {"$bytes": base64}.
    #[schema(value_type = serde_json::Value)]
    item: Raw,
}

impl From<Item> for ItemForm {
    fn from(Item { id, item }: Item) -> ItemForm {
        ItemForm { id: shown_key(&id), item: shown_bytes(&item) }
    }
}

/// A write that waits until its version is sealed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitingForm {
    /// The key.
    key: String,
    /// The version.
    version: String,
    /// The state; null for a deletion.
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Raw>,
}

impl From<WaitingEntry> for WaitingForm {
    fn from(WaitingEntry { key, version, value }: WaitingEntry) -> WaitingForm {
        let key = shown_key(&key);
        let version = version.to_string();
        WaitingForm { key, version, value: value.as_deref().map(shown_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_comes_back() {
        for key in
            [&b"a"[..], b"a/b c", b"\xff\x00", b"$bytes:", b"$bytes:AP8=", "\u{e4}".as_bytes()]
        {
            assert_eq!(key_of(&shown_key(key)).unwrap(), key);
        }
        assert_eq!(key_of("$bytes:?").unwrap_err().code(), Code::InvalidName);
    }

    #[test]
    fn a_state_is_text_or_bytes_and_never_null() {
        let of = |text: &str| state_bytes(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(of(r#""x""#).unwrap(), b"x");
        assert_eq!(of(r#"{"$bytes":"/w=="}"#).unwrap(), [0xff]);
        assert_eq!(of(r#"{"a":[1]}"#).unwrap(), br#"{"a":[1]}"#);
        assert_eq!(of("7").unwrap(), b"7");
        assert_eq!(of("null").unwrap_err().code(), Code::InvalidArgument);
    }
}
