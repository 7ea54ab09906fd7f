//! Errors of the client, and the meaning of transport errors.

use mainstay::{Code, Error, ErrorKind, Name};
use std::time::Duration;

/// Meaning of a transport error for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The error is the answer.
    Answer,
    /// The attempt had no effect, and a retry may succeed.
    Unavailable,
    /// The attempt may have been executed.
    UnknownOutcome,
    /// The session does not exist.
    SessionExpired,
    /// The attempt had no effect, and a retry is unlikely to succeed.
    Rejected,
}

pub(crate) fn classify(error: &Error) -> ErrorClass {
    match error.kind() {
        ErrorKind::Unavailable => ErrorClass::Unavailable,
        // A closed database may be reopened, and a closing one may have executed the request.
        ErrorKind::UnknownOutcome | ErrorKind::Closed => ErrorClass::UnknownOutcome,
        ErrorKind::SessionExpired => ErrorClass::SessionExpired,
        ErrorKind::ReadOnly
        | ErrorKind::Corrupt
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden => ErrorClass::Rejected,
        _ => ErrorClass::Answer,
    }
}

#[cold]
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message.into())
}

#[cold]
pub(crate) fn attempt_timed_out(time: Duration) -> Error {
    let message = format!("no answer came within {time:?}: it may or may not have been executed");
    Error::new(Code::UnknownOutcome, message)
}

/// No answer arrived before the caller's deadline, and the request may have been executed.
#[cold]
pub(crate) fn no_answer_yet(number: u64, last: &Error) -> Error {
    let message = format!(
        "request {number} has no answer yet: it may or may not have been executed, once at most; ask again by its \
         number, or give it up ({})",
        last.message()
    );
    Error::new(Code::UnknownOutcome, message)
}

/// The session is gone, and the stored answer with it.
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
pub(crate) fn window_full(window: usize) -> Error {
    let message = format!(
        "{window} requests are under way, or the first of them has no answer for long: this one was not sent"
    );
    Error::new(Code::TimedOut, message)
}

#[cold]
pub(crate) fn not_pending(number: u64) -> Error {
    invalid(format!("request {number} is not waiting for its answer"))
}

/// The request was given up by another task while its answer was awaited.
#[cold]
pub(crate) fn given_up(number: u64) -> Error {
    let message = format!(
        "request {number} was given up: it was executed once or not at all, and is not executed any more once the \
         database has heard the next word of this client"
    );
    Error::new(Code::UnknownOutcome, message)
}

#[cold]
pub(crate) fn already_awaited(number: u64) -> Error {
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
