//! Runs: append-only logs of events, each with a head.
//!
//! ```text
//!   append --> head { last n, status, tip } -- event n + 1 -- its key        in one transaction
//!                  |
//!   fetch, tail <--+--> snapshot: the last stored one, and the events since
//! ```
//!
//! The single writer assigns sequence numbers, so they have no gaps, and a smaller one never appears later.

pub mod append;
mod delete;
pub mod fold;
pub mod head;
pub mod history;
pub mod merge;
pub mod read;
pub mod staged_restore;

use crate::key::keyspace::RUNS;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use append::RunWriter;
pub(crate) use fold::{FoldCounts, Folds};
pub use head::{RunHead, last_seq, shown_seq};
use mainstay_model::{Answer, Code, Error, Result, Revision, RunAnswer, RunCommand};
use read::{alerts, fetch, info, kept, list, project, snapshot};
pub(crate) use read::{each_event, fetch_within, last_seq_of, made_of, revision_of, seq_of};
pub(crate) use staged_restore::is_being_rewound;

/// Runs a command on runs, in the transaction that commits at this revision.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut WriteSet,
    folds: &mut Folds,
    command: &RunCommand,
    revision: Revision,
) -> Result<Answer> {
    if command.is_read() {
        return read(view, overlay, command).map(answer);
    }
    if let RunCommand::Delete { run } = command {
        // The cached snapshot of a deleted run would only evict others.
        folds.forget(&view.key(RUNS, run.as_bytes()).0);
        return Ok(Answer::Did(delete::delete(view, overlay, run, revision)?));
    }
    if let RunCommand::Tombstone { run } = command {
        delete::bury(view, overlay, run, revision)?;
        return Ok(Answer::Did(true));
    }
    let mut writer = RunWriter { view, overlay, folds, revision };
    Ok(match command {
        RunCommand::Append { event, expected } => {
            answer(RunAnswer::Appended(writer.append(event, *expected)?))
        }
        RunCommand::Bootstrap { run, metadata, events } => {
            answer(RunAnswer::AppendedAll(writer.bootstrap(run, metadata, events)?))
        }
        RunCommand::Restore { run, metadata, created, events } => {
            Answer::Count(writer.restore(run, metadata.as_ref(), *created, events)?)
        }
        RunCommand::RestoreHidden { run, metadata, created, events, begun, ends } => {
            let metadata = metadata.as_ref();
            let created = *created;
            let begun = *begun;
            let ends = *ends;
            let piece =
                staged_restore::StagedEvents { run, metadata, created, events, begun, ends };
            Answer::Count(writer.restore_hidden(&piece)?)
        }
        RunCommand::Keep { run, reducer, version, seq, state } => {
            Answer::Did(writer.keep(run, reducer, (*version, *seq), state)?)
        }
        _ => return Err(unknown()),
    })
}

fn answer(answer: RunAnswer) -> Answer {
    Answer::Run(Box::new(answer))
}

/// Answers a read-only command.
pub(crate) fn read(view: &View<'_>, overlay: &WriteSet, command: &RunCommand) -> Result<RunAnswer> {
    Ok(match command {
        RunCommand::Get { run } => RunAnswer::Info(info(view, overlay, run)?),
        RunCommand::Fetch { run, after, limit } => {
            RunAnswer::Events(fetch(view, overlay, run, *after, *limit)?)
        }
        RunCommand::Snapshot { run, seq } => {
            RunAnswer::Snapshot(snapshot(view, overlay, run, *seq)?)
        }
        RunCommand::Project { run } => RunAnswer::Snapshot(project(view, overlay, run)?),
        RunCommand::Alerts { run, after, limit } => {
            RunAnswer::Alerts(alerts(view, overlay, run, *after, *limit)?)
        }
        RunCommand::Kept { run, reducer, version, upto } => {
            RunAnswer::Kept(kept(view, overlay, run, reducer, *version, *upto)?)
        }
        RunCommand::List { filter, after, limit } => {
            RunAnswer::Runs(list(view, overlay, filter, after.as_deref(), *limit)?)
        }
        RunCommand::Revision { run, seq } => {
            RunAnswer::Revision(revision_of(view, overlay, run, *seq)?)
        }
        _ => return Err(unknown()),
    })
}

#[cold]
fn unknown() -> Error {
    Error::new(Code::Unsupported, "this version does not know that command on runs")
}
