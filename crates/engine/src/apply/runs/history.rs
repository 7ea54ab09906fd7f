//! Historical reads of runs beyond the retention of their heads: uses the events, which live as long as the
//! run.
//!
//! ```text
//!   current head { last 90 } --search by revision--> last event at that revision --> its events and snapshot
//! ```

use super::head::{self, RunHead};
use super::read::RunEvents;
use super::{fold, read};
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{Code, Error, Result, Revision, RunAnswer, RunCommand, RunInfo, RunStatus};

/// Answers a read-only command as of a revision, from the current data.
pub(crate) fn answer(now: &View<'_>, then: Revision, command: &RunCommand) -> Result<RunAnswer> {
    let nothing = WriteSet::default();
    let run = match command {
        RunCommand::Get { run }
        | RunCommand::Fetch { run, .. }
        | RunCommand::Snapshot { run, .. }
        | RunCommand::Project { run } => run,
        _ => return Err(trimmed("that")),
    };
    // A run that was deleted, or created later, may have been a different run at that revision.
    let (head, _) = head::find(now, &nothing, run)?
        .filter(|(head, _)| head.generation.max(head.shown) <= then)
        .ok_or_else(|| trimmed(run.as_str()))?;
    let log = RunEvents { view: now, overlay: &nothing, run, generation: head.generation };
    let last_seq = last(&log, &head, then)?;
    let head = RunHead { last_seq, ..head };
    Ok(match command {
        RunCommand::Fetch { after, limit, .. } => {
            mainstay_model::limits::check_page(*limit)?;
            RunAnswer::Events(read::events(now, &nothing, run, &head, *after, *limit)?)
        }
        RunCommand::Snapshot { seq, .. } => {
            RunAnswer::Snapshot(read::snapshot_of(now, &nothing, run, &head, *seq)?)
        }
        RunCommand::Project { .. } => {
            RunAnswer::Snapshot(Some(fold::project(now, &nothing, run, &head)?))
        }
        _ => RunAnswer::Info(Some(info(&log, &head)?)),
    })
}

/// Returns the last event at that revision, by binary search.
fn last(log: &RunEvents<'_>, head: &RunHead, then: Revision) -> Result<u64> {
    let mut low = 0;
    let mut high = head.last_seq;
    while low < high {
        let middle = high - (high - low) / 2;
        let revision = log.find(middle, |entry, _| Ok(entry.revision))?;
        let revision = revision.ok_or_else(|| read::damaged(log.run.as_str(), middle))?;
        if revision <= then { low = middle } else { high = middle - 1 }
    }
    Ok(low)
}

fn info(log: &RunEvents<'_>, head: &RunHead) -> Result<RunInfo> {
    let snapshot = fold::upto(log.view, log.overlay, log.run, head, head.last_seq)?;
    let entry = log.find(head.last_seq, |entry, _| Ok(entry))?;
    let status: RunStatus = snapshot.status;
    let inconsistent: bool = snapshot.is_inconsistent();
    Ok(RunInfo {
        run_id: snapshot.run_id,
        status,
        last_event_seq: head.last_seq,
        inconsistent,
        created: head.created,
        updated: entry.map_or(head.created, |entry| entry.stamp),
        revision: entry.map_or(head.generation, |entry| entry.revision).max(head.shown),
        metadata: head::metadata(log.view, log.overlay, log.run, head.generation)?,
    })
}

#[cold]
fn trimmed(run: &str) -> Error {
    let message = format!("`{run}` as it was then is no longer kept: only runs that live are");
    Error::new(Code::HistoryTrimmed, message)
}
