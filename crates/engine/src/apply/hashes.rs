//! Redis hashes on records: same keys and entries, but Redis's answers.

use super::decimal::{self, Failure};
use super::key_state;
use super::records::{
    self, FieldChanges, find, find_all, in_order, put, put_staged, see_fields, sum,
};
use crate::key::keyspace::CELLS;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{Answer, Code, Error, Field, Fields, HashCommand, Name, Result};

/// Runs a command on a record as a hash.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut WriteSet,
    command: &HashCommand,
) -> Result<Answer> {
    refuse_cell(view, overlay, command.key())?;
    match command {
        HashCommand::Set { key, pairs, only_absent } => {
            set(view, overlay, key, pairs, *only_absent)
        }
        HashCommand::Delete { key, fields } => delete(view, overlay, key, fields),
        HashCommand::Add { key, field, by } => add(view, overlay, key, field, |old| {
            sum(old, *by, field, key).map(|sum| sum.to_string())
        }),
        HashCommand::AddFloat { key, field, by } => {
            add(view, overlay, key, field, |old| float_sum(old, by, field, key))
        }
        HashCommand::Get { key, fields } => {
            records::get(view, overlay, key, fields.as_deref()).map(Answer::Record)
        }
        HashCommand::Count { key } => {
            records::count_fields(view, overlay, key).map(|count| Answer::Count(count as u64))
        }
        _ => Err(Error::new(Code::Unsupported, "this version does not know that hash command")),
    }
}

/// Refuses a name that holds a cell, because in Redis a key has one type.
fn refuse_cell(view: &View<'_>, overlay: &WriteSet, name: &Name) -> Result<()> {
    // Without any cells, the lookup is skipped.
    if !view.index.has_cells() && overlay.is_empty() {
        return Ok(());
    }
    if key_state::load(view, overlay, CELLS, name)?.live {
        let message = format!("`{name}` is a cell: this is for records");
        Err(Error::new(Code::WrongType, message))
    } else {
        Ok(())
    }
}

fn set(
    view: &View<'_>,
    overlay: &mut WriteSet,
    key: &Name,
    pairs: &[(Field, Vec<u8>)],
    only_absent: bool,
) -> Result<Answer> {
    if pairs.is_empty() {
        let message = format!("nothing to put into `{key}`: a record has at least one field");
        return Err(Error::new(Code::InvalidField, message));
    }
    let (seen, old) = see_fields(view, overlay, key)?;
    if only_absent {
        let held = find_all(old.as_deref(), pairs.iter().map(|(field, _)| field))?;
        if held.iter().any(Option::is_some) {
            return Ok(Answer::Did(false));
        }
    }
    let changes = pairs.iter().map(|(field, value)| (field.as_bytes(), Some(value.as_slice())));
    let mut changes: FieldChanges<'_> = changes.collect();
    in_order(&mut changes);
    let expires = seen.expires;
    let (_, changed) = put(overlay, seen, old.as_deref(), &changes, expires)?;
    Ok(if only_absent { Answer::Did(true) } else { Answer::Count(changed.added as u64) })
}

fn delete(view: &View<'_>, overlay: &mut WriteSet, key: &Name, gone: &[Field]) -> Result<Answer> {
    let (seen, old) = see_fields(view, overlay, key)?;
    let Some(old) = old else { return Ok(Answer::Count(0)) };
    let mut changes: FieldChanges<'_> = gone.iter().map(|field| (field.as_bytes(), None)).collect();
    in_order(&mut changes);
    let (start, changed) = overlay.stage(|out| Fields::change(Some(&old), &changes, out))?;
    match changed.removed {
        0 => overlay.take_back(start),
        _ => {
            let expires = seen.expires;
            put_staged(overlay, seen, start, changed, expires)?;
        }
    }
    Ok(Answer::Count(changed.removed as u64))
}

fn add(
    view: &View<'_>,
    overlay: &mut WriteSet,
    key: &Name,
    field: &Field,
    sum: impl FnOnce(Option<&[u8]>) -> Result<String>,
) -> Result<Answer> {
    let (seen, old) = see_fields(view, overlay, key)?;
    let sum = sum(find(old.as_deref(), field)?)?;
    let change = (field.as_bytes(), Some(sum.as_bytes()));
    let expires = seen.expires;
    put(overlay, seen, old.as_deref(), &[change], expires)?;
    Ok(Answer::Sum(sum))
}

fn float_sum(old: Option<&[u8]>, by: &str, field: &Field, key: &Name) -> Result<String> {
    let text = std::str::from_utf8(old.unwrap_or(b"0")).map_err(|_| Failure::NotANumber);
    text.and_then(|text| decimal::sum(text, by)).map_err(|failure| match failure {
        Failure::NotANumber => {
            let message = format!(
                "field `{field}` of `{key}`, or what is to be added to it, is not a number"
            );
            Error::new(Code::NotANumber, message)
        }
        Failure::NotFinite => {
            let message =
                format!("adding to field `{field}` of `{key}` leaves the range of its number");
            Error::new(Code::Overflow, message)
        }
    })
}
