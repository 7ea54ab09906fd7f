//! The errors that several operations give.

use crate::job::Job;
use crate::name::JobName;
use crate::state::State;
use mainstay::{Code, Error, Result};

/// Refuses what the table of transitions does not have.
pub(crate) fn check_transition(job: &Job, into: State) -> Result<()> {
    match job.state.may_become(into) {
        true => Ok(()),
        false => Err(illegal(job, &format!("from there it cannot become {into}"))),
    }
}

/// Refuses a step behind the last.
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
pub(crate) fn illegal(job: &Job, why: &str) -> Error {
    Error::new(Code::IllegalTransition, format!("job {} is {}: {why}", job.name, job.state))
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
