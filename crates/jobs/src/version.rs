//! What a job looked like over time.

use crate::job::Job;
use crate::name::JobName;
use mainstay::{Record, RecordHistoryEntry, Revision, Stamp};

/// A version of a job: its state and worker, when and by which revision it was written.
///
/// ```
/// use mainstay::Database;
/// use mainstay_jobs::{JobName, Jobs, Settings, State, Submission};
/// let jobs = Jobs::open(&Database::memory()?, Settings::default())?;
/// jobs.submit(&Submission::new("email", "1"))?;
/// jobs.claim("email", "worker 1", None)?;
/// let versions = jobs.history(&JobName::new("email", "1")?, 10, None)?;
/// let states: Vec<_> = versions.iter().flat_map(|version| version.state()).collect();
/// assert_eq!(states, [State::Claimed, State::Pending]);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JobVersion {
    /// The revision that wrote it.
    pub revision: Revision,
    /// When that was, in microseconds since 1970.
    pub stamp: Stamp,
    /// How often its record had been written.
    pub counter: u64,
    /// The job as it was; nothing where it was deleted.
    pub job: Option<Job>,
    /// Whether there was a record that could not be read as a job.
    pub is_unreadable: bool,
}

impl JobVersion {
    /// Reads the version of a job from that of its record.
    pub fn of(name: &JobName, entry: RecordHistoryEntry) -> JobVersion {
        let RecordHistoryEntry { counter, fields, stamp, revision, expires, .. } = entry;
        let was_there = fields.is_some();
        let job = fields.and_then(|fields| {
            let record = Record { fields, counter, stamp, revision, expires };
            Job::of(name.clone(), record).ok()
        });
        JobVersion { revision, stamp, counter, is_unreadable: was_there && job.is_none(), job }
    }

    /// Where it stood; nothing where it was deleted.
    pub fn state(&self) -> Option<crate::State> {
        self.job.as_ref().map(|job| job.state)
    }

    /// Who had it.
    pub fn worker(&self) -> Option<&str> {
        self.job.as_ref().and_then(|job| job.worker.as_deref())
    }
}
