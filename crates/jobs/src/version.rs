//! What a job looked like over time.

use crate::job::Job;
use mainstay::{Revision, Stamp};

/// A version of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobVersion {
    /// The revision that wrote it.
    pub revision: Revision,
    /// When that was, in microseconds since 1970.
    pub stamp: Stamp,
    /// How often its record had been written.
    pub counter: u64,
    /// The job as it was; nothing where it was deleted or had expired.
    pub job: Option<Job>,
}
