//! Checkpoint protocol: aligns the shards and collects their reports. Pure logic without I/O.
//!
//! ```text
//!   begin(id) --> Gathering: where is each shard? --all known--> Writing, up to the furthest place
//!                     |                                            |
//!                     | a shard fails, or it takes too long        | all reported --> Complete: the manifest is written
//!                     v                                            v
//!                  aborted <------------------------------------ aborted
//! ```
//!
//! Messages are counted by shard number, so a repeated message counts once. All shards stop at the furthest
//! place that one of them had reached, so that the job can be rescaled from there.

use crate::{ShardReport, SourcePositions};
use mainstay_model::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The phase of a checkpoint, with the expected action of the shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Phase {
    /// Report the current place and wait there.
    Gathering,
    /// Advance to the place, write the snapshot and report it.
    Writing {
        /// The place.
        upto: SourcePositions,
    },
    /// Nothing: all have reported, and the manifest is being written.
    Committing,
    /// The checkpoint is durable: sinks show their outputs.
    Committed,
    /// The checkpoint is aborted.
    Aborted {
        /// The reason.
        why: String,
    },
}

/// A message of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ShardStatus {
    /// The shard's current place.
    Reached(SourcePositions),
    /// The written snapshot.
    Report(Box<ShardReport>),
    /// The shard failed, with the reason.
    Failed(String),
}

/// The state of a checkpoint after a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Waits for other shards.
    Pending,
    /// All places are known: shards advance to this one.
    Aligned(SourcePositions),
    /// All shards have reported: the reports form the checkpoint.
    Complete(Vec<ShardReport>),
    /// The checkpoint is aborted, with the reason.
    Aborted(String),
}

/// Processes the shards' messages about one checkpoint at a time.
///
/// ```
/// use mainstay_streams::{CoordinatorState, Outcome, ShardStatus};
/// let mut coordinator = CoordinatorState::new(2)?;
/// coordinator.begin(7)?;
/// let reached = |at: u64| ShardStatus::Reached([("orders".to_owned(), at)].into());
/// assert_eq!(coordinator.handle(7, 0, reached(10))?, Outcome::Pending);
/// assert_eq!(coordinator.handle(7, 0, reached(10))?, Outcome::Pending, "twice is once");
/// let Outcome::Aligned(positions) = coordinator.handle(7, 1, reached(12))? else { panic!() };
/// assert_eq!(positions["orders"], 12);
/// assert!(coordinator.handle(7, 2, reached(0)).is_err(), "there are two shards");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoordinatorState {
    shards: u32,
    round: Option<Round>,
}

/// A checkpoint in progress.
#[derive(Clone, Debug)]
struct Round {
    id: u64,
    positions: BTreeMap<u32, SourcePositions>,
    upto: Option<SourcePositions>,
    reports: BTreeMap<u32, ShardReport>,
}

impl CoordinatorState {
    /// A coordinator of this number of shards.
    pub fn new(shards: u32) -> Result<CoordinatorState> {
        match shards {
            0 => Err(Error::new(Code::InvalidArgument, "a job has at least one shard")),
            _ => Ok(CoordinatorState { shards, round: None }),
        }
    }

    /// Begins a checkpoint. Only one may be in progress.
    pub fn begin(&mut self, id: u64) -> Result<()> {
        if let Some(round) = &self.round {
            let message = format!("checkpoint {} is under way: {id} comes after it", round.id);
            return Err(Error::new(Code::Conflict, message));
        }
        let positions = BTreeMap::new();
        let reports = BTreeMap::new();
        self.round = Some(Round { id, positions, upto: None, reports });
        Ok(())
    }

    /// The checkpoint in progress.
    pub fn current_id(&self) -> Option<u64> {
        self.round.as_ref().map(|round| round.id)
    }

    /// Processes a shard's message. A message about a finished checkpoint is `Fenced`.
    pub fn handle(&mut self, id: u64, shard: u32, message: ShardStatus) -> Result<Outcome> {
        if shard >= self.shards {
            let message = format!("there is no shard {shard}: they are 0 to {}", self.shards - 1);
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let Some(round) = self.round.as_mut().filter(|round| round.id == id) else {
            let message = format!("checkpoint {id} is not under way: shard {shard} comes too late");
            return Err(Error::new(Code::Fenced, message));
        };
        match message {
            ShardStatus::Failed(why) => Ok(self.abort(&format!("shard {shard} failed: {why}"))),
            ShardStatus::Reached(positions) => {
                Ok(round.add_positions(self.shards, shard, positions))
            }
            ShardStatus::Report(report) => round.add_report(self.shards, shard, *report),
        }
        .inspect(|outcome| {
            if matches!(outcome, Outcome::Complete(_)) {
                self.round = None;
            }
        })
    }

    /// Aborts the checkpoint in progress, for example after a timeout.
    pub fn abort(&mut self, why: &str) -> Outcome {
        self.round = None;
        Outcome::Aborted(why.to_owned())
    }
}

impl Round {
    fn add_positions(&mut self, shards: u32, shard: u32, positions: SourcePositions) -> Outcome {
        // The first reported place counts, because the shard waits there.
        self.positions.entry(shard).or_insert(positions);
        if self.upto.is_some() || self.positions.len() < shards as usize {
            return Outcome::Pending;
        }
        let upto = furthest(self.positions.values());
        self.upto = Some(upto.clone());
        Outcome::Aligned(upto)
    }

    fn add_report(&mut self, shards: u32, shard: u32, report: ShardReport) -> Result<Outcome> {
        if report.part.shard != shard || report.checkpoint != self.id {
            let message = format!(
                "shard {shard} reports what shard {} wrote for checkpoint {}, and {} is under way",
                report.part.shard, report.checkpoint, self.id
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.reports.entry(shard).or_insert(report);
        if self.reports.len() < shards as usize {
            return Ok(Outcome::Pending);
        }
        Ok(Outcome::Complete(std::mem::take(&mut self.reports).into_values().collect()))
    }
}

/// The furthest of the places. All shards read the sources in the same order, so one shard is ahead in all
/// sources.
fn furthest<'p>(all: impl Iterator<Item = &'p SourcePositions>) -> SourcePositions {
    let mut furthest = SourcePositions::new();
    for (source, at) in all.flatten() {
        let highest = furthest.entry(source.clone()).or_default();
        *highest = (*highest).max(*at);
    }
    furthest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShardPart;

    fn report(checkpoint: u64, shard: u32) -> ShardStatus {
        let part = ShardPart {
            shard,
            first_group: shard,
            end_group: shard + 1,
            versions: None,
            mark: None,
            positions: SourcePositions::new(),
            files: Vec::new(),
        };
        ShardStatus::Report(Box::new(ShardReport { checkpoint, part, why_full: None }))
    }

    fn coordinator_in_round(id: u64) -> CoordinatorState {
        let mut coordinator = CoordinatorState::new(2).unwrap();
        coordinator.begin(id).unwrap();
        coordinator
    }

    #[test]
    fn a_report_twice_is_one_report() {
        let mut coordinator = coordinator_in_round(3);
        for _ in 0..2 {
            assert_eq!(coordinator.handle(3, 1, report(3, 1)).unwrap(), Outcome::Pending);
        }
        let Outcome::Complete(reports) = coordinator.handle(3, 0, report(3, 0)).unwrap() else {
            panic!("both have reported");
        };
        assert_eq!(reports.iter().map(|it| it.part.shard).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(coordinator.current_id(), None);
    }

    #[test]
    fn any_failure_aborts_and_what_follows_is_fenced() {
        let mut coordinator = coordinator_in_round(3);
        coordinator.handle(3, 0, report(3, 0)).unwrap();
        let outcome = coordinator.handle(3, 1, ShardStatus::Failed("no disk".into())).unwrap();
        assert_eq!(outcome, Outcome::Aborted("shard 1 failed: no disk".into()));
        let late = coordinator.handle(3, 1, report(3, 1)).unwrap_err();
        assert_eq!(late.code(), Code::Fenced);
        coordinator.begin(4).unwrap();
        assert_eq!(coordinator.handle(3, 1, report(3, 1)).unwrap_err().code(), Code::Fenced);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(CoordinatorState::new(0).is_err());
        let mut coordinator = coordinator_in_round(3);
        assert_eq!(coordinator.begin(4).unwrap_err().code(), Code::Conflict);
        for (shard, message) in [(2, report(3, 2)), (0, report(3, 1)), (0, report(2, 0))] {
            let error = coordinator.handle(3, shard, message).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
        }
        assert_eq!(coordinator.current_id(), Some(3), "nothing was lost by it");
    }
}
