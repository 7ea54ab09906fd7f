//! Counters of the operations through a handle and its clones.

use crate::maintenance::sweep::SweepReport;
use crate::model::name::JobName;
use crate::model::state::State;
use mainstay::{Code, Result};
use parking_lot::Mutex;

/// Counters of the operations through a handle and its clones, on any branch, since it was opened.
/// Operations inside an open transaction are counted when they execute, even if the transaction never
/// commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Submitted jobs.
    pub submitted: u64,
    /// Claimed jobs.
    pub claimed: u64,
    /// Claims that found no job, including those that then waited.
    pub claimed_nothing: u64,
    /// Heartbeats and steps.
    pub beats: u64,
    /// Completed jobs.
    pub completed: u64,
    /// Jobs that their workers failed for good.
    pub failed: u64,
    /// Failures by workers after which the job is retried.
    pub failed_once: u64,
    /// Cancelled jobs.
    pub cancelled: u64,
    /// Failed or cancelled jobs that were retried with `retry`.
    pub retried: u64,
    /// Deleted jobs.
    pub deleted: u64,
    /// Operations rejected with `Fenced`, because the caller had lost its job or lock.
    pub fenced: u64,
    /// Locks taken.
    pub locked: u64,
    /// Sweeps.
    pub sweeps: u64,
    /// Sum of the reports of all sweeps.
    pub swept: SweepReport,
}

/// An operation that changes a job's state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationKind {
    Heartbeat,
    Complete,
    Fail,
    Cancel,
    Retry,
    Delete,
}

/// Maximum number of swept jobs whose names are kept until the next read.
const SWEPT_NAMES_LIMIT: usize = 100;

/// Counters, and the names of swept jobs.
#[derive(Default)]
pub(crate) struct Counters(Mutex<JobStats>, Mutex<Vec<(JobName, State)>>);

impl Counters {
    pub fn stats(&self) -> JobStats {
        *self.0.lock()
    }

    pub fn add(&self, change: impl FnOnce(&mut JobStats)) {
        change(&mut self.0.lock());
    }

    /// Counts an operation by the state that the job gets.
    pub fn count(&self, operation: OperationKind, becomes: State) {
        let mut stats = self.0.lock();
        let counter = match (operation, becomes) {
            (OperationKind::Heartbeat, _) => &mut stats.beats,
            (OperationKind::Complete, _) => &mut stats.completed,
            (OperationKind::Fail, State::Pending) => &mut stats.failed_once,
            (OperationKind::Fail, _) => &mut stats.failed,
            (OperationKind::Cancel, _) => &mut stats.cancelled,
            (OperationKind::Retry, _) => &mut stats.retried,
            (OperationKind::Delete, _) => &mut stats.deleted,
        };
        *counter += 1;
    }

    /// Remembers a swept job and its new state.
    pub fn record_swept(&self, name: &JobName, becomes: State) {
        let mut names = self.1.lock();
        if names.len() < SWEPT_NAMES_LIMIT {
            names.push((name.clone(), becomes));
        }
    }

    /// Returns and clears the names of the first jobs swept since the last call.
    pub fn drain_swept(&self) -> Vec<(JobName, State)> {
        std::mem::take(&mut *self.1.lock())
    }

    /// Counts an operation that was fenced.
    pub fn count_fenced<T>(&self, result: Result<T>) -> Result<T> {
        if result.as_ref().is_err_and(|error| error.code() == Code::Fenced) {
            self.0.lock().fenced += 1;
        }
        result
    }
}
