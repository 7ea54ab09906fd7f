//! The list of checks that must find each injected fault.

use crate::cuts::Procedure;
use crate::disk::{Action, Fault};
use mainstay::fault_points::InjectedFault;
use std::fmt;

/// A kind of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Power failures in a drill.
    Cuts,
    /// Power failures in a procedure beside writing.
    Procedure(Procedure),
    /// Disk calls of one kind that fail in one way.
    Failures(Action, Fault),
    /// System calls that fail under strace.
    Strace,
    /// Flipped bits.
    Flips,
    /// Recorded histories of many threads.
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

/// Returns all checks that must find a fault: the one meant for it, and others if the fault is in
/// several places or as a cross-check.
pub fn checks_of(bug: InjectedFault) -> Vec<Check> {
    let also: &[Check] = match bug {
        InjectedFault::AnswerBeforeSync => &[Check::Strace, Check::Worlds],
        // Worlds find it only by timeouts, which take minutes.
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

/// Returns the check that is meant for a fault.
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
        // Writes that were reported as failed are on the disk, and cannot be cut off.
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
