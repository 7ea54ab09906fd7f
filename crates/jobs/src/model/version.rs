//! Versions of a job over time.

use crate::model::job::Job;
use crate::model::name::JobName;
use mainstay::{Record, RecordHistoryEntry, Revision, Stamp};

/// A version of a job: its content, and the time and revision of the write.
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
    /// Time of the write, in microseconds since 1970.
    pub stamp: Stamp,
    /// Number of writes to its record, including this one.
    pub counter: u64,
    /// The job at this version. `None` if it was deleted or is unreadable.
    pub job: Option<Job>,
    /// True if the record existed but was not a readable job.
    pub is_unreadable: bool,
}

impl JobVersion {
    /// Decodes a version of a job's record.
    pub fn of(name: &JobName, entry: RecordHistoryEntry) -> JobVersion {
        let RecordHistoryEntry { counter, fields, stamp, revision, expires, .. } = entry;
        let existed = fields.is_some();
        let job = fields.and_then(|fields| {
            let record = Record { fields, counter, stamp, revision, expires };
            Job::of(name.clone(), record).ok()
        });
        JobVersion { revision, stamp, counter, is_unreadable: existed && job.is_none(), job }
    }

    /// The state at this version. `None` if the job was deleted or is unreadable.
    pub fn state(&self) -> Option<crate::State> {
        self.job.as_ref().map(|job| job.state)
    }

    /// The worker that had the job.
    pub fn worker(&self) -> Option<&str> {
        self.job.as_ref().and_then(|job| job.worker.as_deref())
    }
}
