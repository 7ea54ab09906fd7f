//! The keys of the records that jobs and locks are.

use mainstay_jobs::JobName;

/// What all of them begin with.
#[derive(Clone, Debug)]
pub struct Keys {
    namespace: String,
}

impl Keys {
    /// Of one namespace.
    pub fn new(namespace: &str) -> Keys {
        Keys { namespace: namespace.to_owned() }
    }

    /// The prefix of the keys of all jobs.
    pub fn jobs(&self) -> String {
        format!("{}state.tasks.", self.namespace)
    }

    /// What the keys of a type's jobs begin with.
    pub fn of_type(&self, task_type: &str) -> String {
        format!("{}{task_type}.", self.jobs())
    }

    /// The key of a job.
    pub fn job(&self, name: &JobName) -> String {
        format!("{}{}", self.of_type(name.task_type()), name.id())
    }

    /// The prefix of the keys of all locks.
    pub fn locks(&self) -> String {
        format!("{}state.locks.", self.namespace)
    }

    /// The key of a lock.
    pub fn lock(&self, name: &str) -> String {
        format!("{}{name}", self.locks())
    }
}
