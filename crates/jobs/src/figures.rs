//! What was done through a handle and its clones.

use crate::name::JobName;
use crate::state::State;
use crate::sweeper::SweepReport;
use mainstay::{Code, Result};
use parking_lot::Mutex;

/// What was done through a handle and its clones, on whatever branch, since it was opened. What is done in an open
/// transaction counts when it is done there, whatever becomes of the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// How many jobs were submitted.
    pub submitted: u64,
    /// How many were claimed.
    pub claimed: u64,
    /// How many tries to claim found nothing, those of callers that went on to wait included.
    pub claimed_nothing: u64,
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
    /// How many were deleted.
    pub deleted: u64,
    /// How many operations were refused because what they held was lost.
    pub fenced: u64,
    /// How many locks were taken.
    pub locked: u64,
    /// How many sweeps there were.
    pub sweeps: u64,
    /// What they did together.
    pub swept: SweepReport,
}

/// What changes a job's state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Beat,
    Complete,
    Fail,
    Cancel,
    Retry,
    Delete,
}

/// How many jobs that were swept are kept by name, until somebody asks.
const NAMES_LIMIT: usize = 100;

/// Keeps the figures.
#[derive(Default)]
pub(crate) struct Tally(Mutex<JobFigures>, Mutex<Vec<(JobName, State)>>);

impl Tally {
    pub fn figures(&self) -> JobFigures {
        *self.0.lock()
    }

    pub fn add(&self, change: impl FnOnce(&mut JobFigures)) {
        change(&mut self.0.lock());
    }

    /// Counts an act after which the job stands so.
    pub fn did(&self, act: Act, becomes: State) {
        let mut figures = self.0.lock();
        let count = match (act, becomes) {
            (Act::Beat, _) => &mut figures.beats,
            (Act::Complete, _) => &mut figures.completed,
            (Act::Fail, State::Pending) => &mut figures.failed_once,
            (Act::Fail, _) => &mut figures.failed,
            (Act::Cancel, _) => &mut figures.cancelled,
            (Act::Retry, _) => &mut figures.retried,
            (Act::Delete, _) => &mut figures.deleted,
        };
        *count += 1;
    }

    /// Keeps the name of a job that was taken away, and what it became.
    pub fn swept(&self, name: &JobName, becomes: State) {
        let mut names = self.1.lock();
        if names.len() < NAMES_LIMIT {
            names.push((name.clone(), becomes));
        }
    }

    /// The first jobs that were taken away since this was asked.
    pub fn take_swept(&self) -> Vec<(JobName, State)> {
        std::mem::take(&mut *self.1.lock())
    }

    /// Counts what was refused because it was lost.
    pub fn heard<T>(&self, done: Result<T>) -> Result<T> {
        if done.as_ref().is_err_and(|error| error.code() == Code::Fenced) {
            self.0.lock().fenced += 1;
        }
        done
    }
}
