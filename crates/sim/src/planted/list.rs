//! Which check is meant to find which bug.

use crate::cuts::Procedure;
use crate::disk::{Action, Fault};
use mainstay::planted::Bug;
use std::fmt;

/// A check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Power cuts in a drill.
    Cuts,
    /// Power cuts in something that is done beside writing.
    Procedure(Procedure),
    /// Calls of the disk of one kind that fail in one way.
    Failures(Action, Fault),
    /// Calls that fail under strace.
    Strace,
    /// Flipped bits.
    Flips,
    /// Histories of many threads.
    Histories,
    /// Simulated worlds.
    Worlds,
    /// The conformance suite.
    Suite,
    /// Models of threads, which run as tests of the engine.
    Models,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Procedure(procedure) => write!(f, "cuts of {procedure:?}"),
            Check::Failures(action, fault) => write!(f, "failures, {action:?} with {fault}"),
            check => f.write_str(&format!("{check:?}").to_lowercase()),
        }
    }
}

/// All checks that have to find a bug: the one that is meant for it, and others where it is in several places, or for a
/// cross-check.
pub fn checks_of(bug: Bug) -> Vec<Check> {
    let also: &[Check] = match bug {
        Bug::AnswerBeforeSync => &[Check::Strace, Check::Worlds],
        // In worlds it is found by waiting, for minutes.
        Bug::LatchForgotten => &[Check::Strace],
        Bug::ChecksumIgnored
        | Bug::FeedSkips
        | Bug::FirstEffectOnly
        | Bug::MarkTooFar
        | Bug::NoSyncBeforeRoll
        | Bug::NoSyncOfLog
        | Bug::NoSyncOfRewritten
        | Bug::NoSyncOfSegmentName
        | Bug::ResponseForgotten => &[Check::Worlds],
        Bug::NoSyncOfMovedIndex => &[Check::Procedure(Procedure::SalvageBoth)],
        Bug::NoSyncOfNewDirectory => &[Check::Cuts],
        Bug::NoSyncOfRename => {
            &[Check::Procedure(Procedure::Restore), Check::Procedure(Procedure::Base)]
        }
        _ => &[],
    };
    [check_of(bug)].into_iter().chain(also.iter().copied()).collect()
}

/// The check that is meant for a bug.
pub fn check_of(bug: Bug) -> Check {
    match bug {
        Bug::CombineOnce
        | Bug::GatheredForgotten
        | Bug::ListenersNotTold
        | Bug::LogNotWoken
        | Bug::NoSyncBeforeFloors
        | Bug::PublishBeforeSync
        | Bug::RefusedStayCounted
        | Bug::RungReadLate
        | Bug::SyncWaitsForRoom
        | Bug::ToldWithoutLock
        | Bug::UndoForgetsLater => Check::Models,
        Bug::CasAlwaysWins | Bug::GuardRangeForgotten => Check::Histories,
        Bug::NoSyncBeforeFlush => Check::Worlds,
        Bug::CounterLostOnDelete | Bug::ExpiryByWallClock => Check::Suite,
        Bug::ChecksumIgnored => Check::Flips,
        Bug::LatchForgotten => Check::Failures(Action::Sync, Fault::Half),
        // What was said to have failed is there, and cannot be cut off.
        Bug::RevisionReused => Check::Failures(Action::Write, Fault::After),
        Bug::NoSyncOfCurrent | Bug::NoSyncOfCurrentName | Bug::NoSyncOfReadTables => {
            Check::Procedure(Procedure::SetBack)
        }
        Bug::LostComesBack => Check::Procedure(Procedure::SalvageFlushed),
        Bug::NoSyncBeforeBackup | Bug::NoSyncOfClosed => Check::Procedure(Procedure::BackupAhead),
        Bug::NoSyncOfSetBack => Check::Procedure(Procedure::SalvageTorn),
        Bug::NoSyncOfSalvagedMark => Check::Procedure(Procedure::SalvageMarked),
        Bug::NoSyncOfSalvagedDatabase => Check::Procedure(Procedure::SalvageRestored),
        Bug::NoSyncOfReadMark => Check::Procedure(Procedure::Rest),
        Bug::NoSyncOfRemovedSegments | Bug::NoSyncOfRewrittenName | Bug::NoSyncOfSegment => {
            Check::Procedure(Procedure::Live)
        }
        Bug::NoSyncOfIdentity | Bug::NoSyncOfStores => Check::Procedure(Procedure::Create),
        Bug::NoSyncOfIdentityName => Check::Procedure(Procedure::Restore),
        Bug::NoSyncOfNewDirectory => Check::Procedure(Procedure::SalvageGone),
        Bug::NoSyncOfPart | Bug::NoSyncOfPartName => Check::Procedure(Procedure::Backup),
        Bug::NoSyncOfRestoredLog => Check::Procedure(Procedure::Restore),
        Bug::NoSyncOfKnown | Bug::NoSyncOfRename => Check::Procedure(Procedure::Divide),
        Bug::NoSyncOfSalvagedCopyName => Check::Procedure(Procedure::SalvageBothLast),
        Bug::NoSyncOfMovedIndex => Check::Procedure(Procedure::SalvageFirst),
        Bug::NoSyncOfCut | Bug::NoSyncOfMovedSegment | Bug::NoSyncOfSalvagedCopy => {
            Check::Procedure(Procedure::SalvageBoth)
        }
        _ => Check::Cuts,
    }
}
