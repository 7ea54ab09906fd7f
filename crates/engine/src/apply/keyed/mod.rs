//! Keyed state: spaces of versioned keys.
//!
//! ```text
//!   declaration { options, frontier, generation, filling }
//!        |                     |           |
//!        |                     |           '--> filled by a restore; not visible yet
//!        v                     v
//!   put --newer?--> state, waiting, item, position of that generation
//! ```
//!
//! Every write reads the declaration and few writes change it, so puts to different keys do not conflict.

pub mod feed_names;
pub mod guard;
pub mod merge;
mod merge_precondition;
pub mod read;
mod replay;
mod restore;
mod seal;
pub mod space;
mod write;

use crate::key::keyspace::SPACES;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::limits::check_page;
use mainstay_model::{
    Answer, Code, Error, Name, Page, Result, Revision, SpaceOptions, StateAnswer, StateCommand,
};
use read::SpaceReader;
use replay::StateReplay;
use restore::RestoredStates;
use write::SpaceWriter;

/// Runs a command on a space, in the transaction that commits at this revision.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut WriteSet,
    command: &StateCommand,
    revision: Revision,
) -> Result<Answer> {
    if command.is_read() {
        return read(view, overlay, command);
    }
    command.check()?;
    match command {
        StateCommand::Declare { space, options } => {
            declare(view, overlay, space, options, revision).map(Answer::Did)
        }
        StateCommand::Write { space, writes } => {
            let mut writer = SpaceWriter::open(view, overlay, space, revision)?;
            let wrote = writer.write(writes)?;
            writer.close()?;
            Ok(answer(StateAnswer::Wrote(wrote)))
        }
        StateCommand::Seal { space, frontier, limit } => {
            let mut writer = SpaceWriter::open(view, overlay, space, revision)?;
            let sealed = writer.seal(*frontier, *limit)?;
            writer.close()?;
            Ok(answer(StateAnswer::Sealed { settled: sealed.settled, done: sealed.done }))
        }
        StateCommand::Drop { space } => {
            restore::remove(view, overlay, space, revision).map(Answer::Did)
        }
        StateCommand::Restore { space, info, block, begun, ends } => {
            let piece = RestoredStates { space, info: *info, block, begun: *begun, ends: *ends };
            restore::restore(view, overlay, &piece, revision).map(Answer::Count)
        }
        StateCommand::Abandon { space, begun } => {
            restore::abandon(view, overlay, space, *begun).map(Answer::Did)
        }
        StateCommand::Replay { space, info, block, hidden, shows } => {
            let info = *info;
            let hidden = *hidden;
            let shows = *shows;
            let replayed = StateReplay { space, info, block, hidden, shows };
            replay::replay(view, overlay, &replayed, revision).map(Answer::Count)
        }
        StateCommand::Take { space, info, block } => {
            let mut writer = SpaceWriter::open(view, overlay, space, revision)?;
            let taken = writer.take(info, block)?;
            writer.close()?;
            Ok(Answer::Count(taken))
        }
        _ => Err(unknown()),
    }
}

/// Refuses to replay historical entries, because that could lower versions and duplicate the items of logs.
pub(crate) fn refuse_replay(command: &StateCommand) -> Result<()> {
    match command {
        StateCommand::Replay { space, .. } => Err(only_imports(space)),
        _ => Ok(()),
    }
}

/// Declares a space. Returns whether it is new.
fn declare(
    view: &View<'_>,
    overlay: &mut WriteSet,
    space: &Name,
    options: &SpaceOptions,
    revision: Revision,
) -> Result<bool> {
    let there = space::find(view, overlay, space)?;
    let mut writer = SpaceWriter::open(view, overlay, space, revision)?;
    let own = &mut writer.declared.info.options;
    if there.is_none() {
        *own = *options;
    } else if own.versions.is_none() && options.versions.is_some() {
        own.versions = options.versions;
    }
    if !own.is_as(options) {
        return Err(restore::otherwise(space));
    }
    writer.changed = there.is_none_or(|there| there != writer.declared);
    writer.close()?;
    Ok(there.is_none())
}

/// Answers a read-only command.
pub(crate) fn read(view: &View<'_>, overlay: &WriteSet, command: &StateCommand) -> Result<Answer> {
    command.check()?;
    if let StateCommand::Spaces { prefix, after, limit } = command {
        return spaces(view, overlay, prefix, after.as_deref(), *limit).map(Answer::Names);
    }
    let space = command.space().ok_or_else(unknown)?;
    let reader = SpaceReader::open(view, overlay, space)?;
    Ok(answer(match command {
        StateCommand::Look { keys, .. } => StateAnswer::Kept(reader.look(keys)?),
        StateCommand::Scan { prefix, after, limit, .. } => {
            StateAnswer::States(reader.scan(prefix, after.as_deref(), *limit)?)
        }
        StateCommand::List { prefix, after, limit, .. } => {
            reader.list(prefix, after.as_deref(), *limit)?
        }
        StateCommand::Items { key, after, limit, .. } => {
            StateAnswer::Items(reader.items(key, after.as_deref(), *limit)?)
        }
        StateCommand::Waiting { below, limit, .. } => {
            StateAnswer::Waiting(reader.waiting(*below, *limit)?)
        }
        StateCommand::Positions { .. } => StateAnswer::Positions(reader.positions()?),
        StateCommand::Info { .. } => {
            StateAnswer::Info(reader.declared.map(|declared| declared.info))
        }
        StateCommand::Dump { after, limit_bytes, .. } => {
            reader.dump(after.as_deref(), *limit_bytes)?
        }
        _ => return Err(unknown()),
    }))
}

/// Lists names of spaces in byte order, without spaces that are still being restored for the first time.
fn spaces(
    view: &View<'_>,
    overlay: &WriteSet,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page> {
    check_page(limit)?;
    let mut walk = view.walk(overlay, SPACES, prefix.as_bytes(), after.map(str::as_bytes));
    let mut page = Page::default();
    while let Some(step) = walk.next()? {
        let is_there =
            !step.head.is_deleted() && space::Declaration::decode(step.payload())?.is_there;
        if !is_there {
            continue;
        }
        if page.names.len() == limit {
            page.next = page.names.last().cloned();
            break;
        }
        page.names.push(String::from_utf8_lossy(step.name()).into_owned());
    }
    Ok(page)
}

fn answer(answer: StateAnswer) -> Answer {
    Answer::State(Box::new(answer))
}

#[cold]
fn only_imports(space: &Name) -> Error {
    let message = format!(
        "entries of `{space}` are put as they once were by an import only, into its own branch: restore a snapshot, or \
         import a file"
    );
    Error::new(Code::Unsupported, message)
}

#[cold]
fn unknown() -> Error {
    Error::new(Code::Unsupported, "this version does not know that command on keyed state")
}
