//! Which check is meant to find which bug.

use crate::cuts::Procedure;
use crate::disk::{Action, Fault};
use mainstay::fault_points::InjectedFault;
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
pub fn checks_of(bug: InjectedFault) -> Vec<Check> {
    let also: &[Check] = match bug {
        InjectedFault::AnswerBeforeSync => &[Check::Strace, Check::Worlds],
        // In worlds it is found by waiting, for minutes.
        InjectedFault::LatchForgotten => &[Check::Strace],
        InjectedFault::ChecksumIgnored
        | InjectedFault::FeedSkips
        | InjectedFault::FirstEffectOnly
        | InjectedFault::MarkTooFar
        | InjectedFault::NoSyncBeforeRoll
        | InjectedFault::NoSyncOfLog
        | InjectedFault::NoSyncOfRewritten
        | InjectedFault::NoSyncOfSegmentName
        | InjectedFault::ResponseForgotten => &[Check::Worlds],
        InjectedFault::NoSyncOfMovedIndex => &[Check::Procedure(Procedure::SalvageBoth)],
        InjectedFault::NoSyncOfNewDirectory => &[Check::Cuts],
        InjectedFault::NoSyncOfRename => {
            &[Check::Procedure(Procedure::Restore), Check::Procedure(Procedure::Base)]
        }
        _ => &[],
    };
    [check_of(bug)].into_iter().chain(also.iter().copied()).collect()
}

/// The check that is meant for a bug.
pub fn check_of(bug: InjectedFault) -> Check {
    match bug {
        InjectedFault::CombineOnce
        | InjectedFault::GatheredForgotten
        | InjectedFault::ListenersNotTold
        | InjectedFault::LogNotWoken
        | InjectedFault::NoSyncBeforeFloors
        | InjectedFault::PublishBeforeSync
        | InjectedFault::RefusedStayCounted
        | InjectedFault::RungReadLate
        | InjectedFault::SyncWaitsForRoom
        | InjectedFault::ToldWithoutLock
        | InjectedFault::UndoForgetsLater => Check::Models,
        InjectedFault::CasAlwaysWins | InjectedFault::GuardRangeForgotten => Check::Histories,
        InjectedFault::NoSyncBeforeFlush => Check::Worlds,
        InjectedFault::CounterLostOnDelete | InjectedFault::ExpiryByWallClock => Check::Suite,
        InjectedFault::ChecksumIgnored => Check::Flips,
        InjectedFault::LatchForgotten => Check::Failures(Action::Sync, Fault::Half),
        // What was said to have failed is there, and cannot be cut off.
        InjectedFault::RevisionReused => Check::Failures(Action::Write, Fault::After),
        InjectedFault::NoSyncOfCurrent
        | InjectedFault::NoSyncOfCurrentName
        | InjectedFault::NoSyncOfReadTables => Check::Procedure(Procedure::SetBack),
        InjectedFault::LostComesBack => Check::Procedure(Procedure::SalvageFlushed),
        InjectedFault::NoSyncBeforeBackup | InjectedFault::NoSyncOfClosed => {
            Check::Procedure(Procedure::BackupAhead)
        }
        InjectedFault::NoSyncOfSetBack => Check::Procedure(Procedure::SalvageTorn),
        InjectedFault::NoSyncOfSalvagedMark => Check::Procedure(Procedure::SalvageMarked),
        InjectedFault::NoSyncOfSalvagedDatabase => Check::Procedure(Procedure::SalvageRestored),
        InjectedFault::NoSyncOfReadMark => Check::Procedure(Procedure::Rest),
        InjectedFault::NoSyncOfRemovedSegments
        | InjectedFault::NoSyncOfRewrittenName
        | InjectedFault::NoSyncOfSegment => Check::Procedure(Procedure::Live),
        InjectedFault::NoSyncOfIdentity | InjectedFault::NoSyncOfStores => {
            Check::Procedure(Procedure::Create)
        }
        InjectedFault::NoSyncOfIdentityName => Check::Procedure(Procedure::Restore),
        InjectedFault::NoSyncOfNewDirectory => Check::Procedure(Procedure::SalvageGone),
        InjectedFault::NoSyncOfPart | InjectedFault::NoSyncOfPartName => {
            Check::Procedure(Procedure::Backup)
        }
        InjectedFault::NoSyncOfRestoredLog => Check::Procedure(Procedure::Restore),
        InjectedFault::NoSyncOfKnown | InjectedFault::NoSyncOfRename => {
            Check::Procedure(Procedure::Divide)
        }
        InjectedFault::NoSyncOfSalvagedCopyName => Check::Procedure(Procedure::SalvageBothLast),
        InjectedFault::NoSyncOfMovedIndex => Check::Procedure(Procedure::SalvageFirst),
        InjectedFault::NoSyncOfCut
        | InjectedFault::NoSyncOfMovedSegment
        | InjectedFault::NoSyncOfSalvagedCopy => Check::Procedure(Procedure::SalvageBoth),
        _ => Check::Cuts,
    }
}
