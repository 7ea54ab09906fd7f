//! A keyed state store without any optional capability.

use super::faulty_store::{Faults, FaultySpaces};
use mainstay_model::{
    Code, Error, KeyedCapabilities, Result, SnapshotReader, SpaceOptions, StateWrite,
};
use std::io::Read;

pub fn plain() -> FaultySpaces {
    FaultySpaces::new(|| {
        Faults::default()
            .capabilities(|_| KeyedCapabilities::none("plain"))
            .declare(|inner, options| {
                check(&options)?;
                inner.declare(options)
            })
            .write(|inner, writes| match &writes[..] {
                [_, _, ..] => lacks("atomic"),
                [StateWrite::Append { .. }] => lacks("appends"),
                [StateWrite::Merge { .. }] => lacks("merged"),
                _ => inner.write(writes),
            })
            .items(|_, _, _, _| lacks("appends"))
            .restore_from(|inner, from| inner.restore(&taken(from)?))
            .restore_keys_from(|inner, from| inner.restore_keys(&taken(from)?))
    })
}

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
