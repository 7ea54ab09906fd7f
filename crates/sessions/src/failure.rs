//! What is said when something goes wrong.

use mainstay::{Code, Error, ErrorKind, Name};
use std::time::Duration;

/// What an error of a transport means for the request that it was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It is the answer.
    Answer,
    /// This attempt did nothing, and the next one may succeed.
    NotNow,
    /// This attempt may have done it.
    Unknown,
    /// There is no such session.
    Expired,
    /// This attempt did nothing, and the next one is not likely to, either.
    Refused,
}

/// What an error means.
pub(crate) fn meaning(error: &Error) -> Meaning {
    match error.kind() {
        ErrorKind::Unavailable => Meaning::NotNow,
        // A database that is closed may be opened again, and one that closes may have been at work.
        ErrorKind::UnknownOutcome | ErrorKind::Closed => Meaning::Unknown,
        ErrorKind::SessionExpired => Meaning::Expired,
        ErrorKind::ReadOnly
        | ErrorKind::Corrupt
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden => Meaning::Refused,
        _ => Meaning::Answer,
    }
}

#[cold]
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message.into())
}

#[cold]
pub(crate) fn silent(time: Duration) -> Error {
    let message = format!("no answer came within {time:?}: it may or may not have been executed");
    Error::new(Code::UnknownOutcome, message)
}

/// No answer within the time of the caller, and something of it may have been executed.
#[cold]
pub(crate) fn overdue(number: u64, last: &Error) -> Error {
    let message = format!(
        "request {number} has no answer yet: it may or may not have been executed, once at most; ask again by its \
         number, or give it up ({})",
        last.message()
    );
    Error::new(Code::UnknownOutcome, message)
}

/// The session is gone, and the answer with it.
#[cold]
pub(crate) fn lost_with_session(number: u64, session: &Name) -> Error {
    let message = format!(
        "session `{session}` is gone, and with it the answer of request {number}, which was sent before: it was \
         executed once or not at all, and is not executed any more when the session is opened anew"
    );
    Error::new(Code::UnknownOutcome, message)
}

#[cold]
pub(crate) fn expired(session: &Name) -> Error {
    let message = format!(
        "session `{session}` is gone: the request was not executed; open the session anew and ask again"
    );
    Error::new(Code::SessionExpired, message)
}

#[cold]
pub(crate) fn closed(session: &Name) -> Error {
    Error::new(Code::Closed, format!("session `{session}` was closed by its client"))
}

#[cold]
pub(crate) fn no_room(window: usize) -> Error {
    let message = format!(
        "{window} requests are under way, or the first of them has no answer for long: this one was not sent"
    );
    Error::new(Code::TimedOut, message)
}

#[cold]
pub(crate) fn not_pending(number: u64) -> Error {
    invalid(format!("request {number} is not waiting for its answer"))
}

/// Somebody gave it up while its answer was waited for.
#[cold]
pub(crate) fn given_up(number: u64) -> Error {
    let message = format!(
        "request {number} was given up: it was executed once or not at all, and is not executed any more once the \
         database has heard the next word of this client"
    );
    Error::new(Code::UnknownOutcome, message)
}

#[cold]
pub(crate) fn waited_for(number: u64) -> Error {
    invalid(format!("somebody waits for the answer of request {number} already"))
}

#[cold]
pub(crate) fn unexpected() -> Error {
    Error::new(Code::CorruptData, "the database gave an answer of another kind")
}

#[cold]
pub(crate) fn no_thread(error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("a thread could not be started: {error}"))
}
