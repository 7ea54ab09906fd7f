//! What was done through a handle and its clones.

use crate::sweeper::SweepReport;

/// What was done through a handle and its clones, on whatever branch, since it was opened. What is done in an open
/// transaction counts when it is done there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// How many jobs were submitted.
    pub submitted: u64,
    /// How many were claimed.
    pub claimed: u64,
    /// How many heartbeats and steps there were.
    pub beats: u64,
    /// How many jobs were completed.
    pub completed: u64,
    /// How many were failed by their workers for good.
    pub failed: u64,
    /// How many were failed by their workers and are tried again.
    pub failed_once: u64,
    /// How many were called off.
    pub cancelled: u64,
    /// How many were tried again by hand.
    pub retried: u64,
    /// How many operations were refused because what they held was lost.
    pub fenced: u64,
    /// How many locks were taken.
    pub locked: u64,
    /// How many sweeps there were.
    pub sweeps: u64,
    /// What they did together.
    pub swept: SweepReport,
}
