//! The key layout of jobs and locks, which are stored as records.

use mainstay_jobs::JobName;

/// The key layout for one namespace.
#[derive(Clone, Debug)]
pub struct Keys {
    namespace: String,
}

impl Keys {
    /// Creates the layout for a namespace.
    pub fn new(namespace: &str) -> Keys {
        Keys { namespace: namespace.to_owned() }
    }

    /// Returns the key prefix of all jobs.
    pub fn jobs(&self) -> String {
        format!("{}state.tasks.", self.namespace)
    }

    /// Returns the key prefix of the jobs of a type.
    pub fn of_type(&self, task_type: &str) -> String {
        format!("{}{task_type}.", self.jobs())
    }

    /// Returns the key of a job.
    pub fn job(&self, name: &JobName) -> String {
        format!("{}{}", self.of_type(name.task_type()), name.id())
    }

    /// Returns the key prefix of all locks.
    pub fn locks(&self) -> String {
        format!("{}state.locks.", self.namespace)
    }

    /// Returns the key of a lock.
    pub fn lock(&self, name: &str) -> String {
        format!("{}{name}", self.locks())
    }
}
