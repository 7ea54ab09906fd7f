//! Errors shared by several operations.

use crate::model::name::JobName;
use crate::model::state::State;
use mainstay::{Code, Error, Result};

/// Rejects a state change that the transition table does not allow.
pub(crate) fn check_transition(name: &JobName, from: State, into: State) -> Result<()> {
    if from.may_become(into) {
        Ok(())
    } else {
        Err(illegal(name, from, &format!("from there it cannot become {into}")))
    }
}

/// Rejects a step number above the last step.
pub(crate) fn check_step(step: u64, of: Option<u64>) -> Result<()> {
    match of.filter(|of| step > *of) {
        None => Ok(()),
        Some(of) => {
            let message = format!("step {step} of {of}: there is no step behind the last");
            Err(Error::new(Code::InvalidArgument, message))
        }
    }
}

#[cold]
pub(crate) fn illegal(name: &JobName, state: State, why: &str) -> Error {
    Error::new(Code::IllegalTransition, format!("job {name} is {state}: {why}"))
}

#[cold]
pub(crate) fn unknown_dependency(of: &JobName, name: &JobName) -> Error {
    let message = format!("job {of} depends on {name}, which there is not: submit that first");
    Error::new(Code::UnknownDependency, message)
}

#[cold]
pub(crate) fn not_found(name: &JobName) -> Error {
    Error::new(Code::JobNotFound, format!("there is no job {name}: submit it first"))
}

#[cold]
pub(crate) fn exists(name: &JobName) -> Error {
    let message = format!("there is a job {name} already: give the new one another id");
    Error::new(Code::JobExists, message)
}

#[cold]
pub(crate) fn fenced(name: &JobName) -> Error {
    let message = format!("job {name} is gone: what was held of it is lost, stop working on it");
    Error::new(Code::Fenced, message)
}

#[cold]
pub(crate) fn inherited(name: &JobName, branch: &str) -> Error {
    let message = format!(
        "job {name} was granted before branch `{branch}` was forked: write where it was claimed"
    );
    Error::new(Code::Fenced, message)
}

#[cold]
pub(crate) fn not_served(branch: &str) -> Error {
    let message = format!(
        "jobs of branch `{branch}` are not served: claim and sweep on `main`, merge the branch into it, or \
         let all branches be served (the setting `serve`, of a server `jobs.serve_branches`)"
    );
    Error::new(Code::Unsupported, message)
}

#[cold]
pub(crate) fn busy(what: &str) -> Error {
    let message = format!("{what} was changed by others whenever it was to be written: try again");
    Error::new(Code::Conflict, message)
}

#[cold]
pub(crate) fn unexpected() -> Error {
    let message = "the database answered something else than was asked: are both of one version?";
    Error::new(Code::Unsupported, message)
}

#[cold]
pub(crate) fn no_effect() -> Error {
    Error::new(Code::MustFailed, "a command that must take effect did not: nothing was written")
}

#[cold]
pub(crate) fn no_token(what: &str) -> Error {
    let message =
        format!("0 is no token of {what}: a grant has one once its transaction is committed");
    Error::new(Code::Fenced, message)
}

#[cold]
pub(crate) fn no_thread(whose: &str, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("the {whose}'s thread could not be started: {error}"))
}

#[cold]
pub(crate) fn too_many(count: usize, limit: usize) -> Error {
    let message = format!(
        "{count} jobs and jobs that they depend on: at most {limit} are submitted together, \
         submit the others behind them"
    );
    Error::new(Code::TransactionTooLarge, message)
}

#[cold]
pub(crate) fn no_room(count: usize, limit: usize) -> Error {
    let message = format!(
        "it writes to {count} jobs, and the open transaction may read {limit} keys and ranges in all: do it \
         outside of the transaction or as the first of one"
    );
    Error::new(Code::TransactionTooLarge, message)
}

#[cold]
pub(crate) fn too_large_dependents(name: &JobName, limit_bytes: u64) -> Error {
    let message = format!(
        "the records of those who wait for job {name} would take more than {} MiB: put their input into an \
         object store, or let some wait for a job between them",
        limit_bytes >> 20
    );
    Error::new(Code::TransactionTooLarge, message)
}

#[cold]
pub(crate) fn too_many_dependents(name: &JobName, limit: usize) -> Error {
    let message = format!(
        "more than {limit} jobs would wait for job {name}: let some wait for a job between them"
    );
    Error::new(Code::TransactionTooLarge, message)
}

#[cold]
pub(crate) fn no_interval() -> Error {
    let message = "a sweeper that sweeps every 0 s would do nothing else: give it a pause";
    Error::new(Code::InvalidArgument, message)
}

#[cold]
pub(crate) fn panicked(what: &str, panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::new(Code::Unsupported, format!("{what} panicked, which is a bug to be reported: {text}"))
}
