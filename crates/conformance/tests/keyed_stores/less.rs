//! A keyed state store without any optional capability.

use super::bent::{Before, Bend, Wanted};
use mainstay_model::{
    Code, Error, Item, KeyedCapabilities, KeyedState, Result, SnapshotReader, SpaceOptions,
    StateWrite, Wrote,
};
use std::io::Read;

pub fn plain() -> Before {
    Before::bent(|| Plain)
}

struct Plain;

fn lacks<T>(capability: &str) -> Result<T> {
    let message = format!("this store lacks `{capability}`");
    Err(Error::new(Code::Unsupported, message))
}

fn check(options: &SpaceOptions) -> Result<()> {
    match options {
        SpaceOptions { ordered: true, .. } => lacks("ordered"),
        SpaceOptions { merged: true, .. } => lacks("merged"),
        _ => Ok(()),
    }
}

/// Reads a snapshot and checks that its space needs no missing capability.
fn taken(from: &mut dyn Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map_err(|error| Error::new(Code::Io, error.to_string()))?;
    check(&SnapshotReader::new(&bytes[..])?.head().space.options)?;
    Ok(bytes)
}

impl Bend for Plain {
    fn capabilities(&self, _inner: KeyedCapabilities) -> KeyedCapabilities {
        KeyedCapabilities::none("plain")
    }

    fn declare(&self, inner: &dyn KeyedState, options: SpaceOptions) -> Result<bool> {
        check(&options)?;
        inner.declare(options)
    }

    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        match &writes[..] {
            [_, _, ..] => lacks("atomic"),
            [StateWrite::Append { .. }] => lacks("appends"),
            [StateWrite::Merge { .. }] => lacks("merged"),
            _ => inner.write(writes),
        }
    }

    fn items(&self, _inner: &dyn KeyedState, _wanted: Wanted<'_>) -> Result<Vec<Item>> {
        lacks("appends")
    }

    fn restore(&self, inner: &dyn KeyedState, from: &mut dyn Read) -> Result<u64> {
        inner.restore(&taken(from)?)
    }

    fn restore_keys(&self, inner: &dyn KeyedState, from: &mut dyn Read) -> Result<u64> {
        inner.restore_keys(&taken(from)?)
    }
}
