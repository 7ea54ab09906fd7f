//! Errors of the client connection, with advice for the user.

use super::call::RetrySafety;
use mainstay_model::{Code, Error};
use std::io;

/// Maps an error line of the server to an error. Its first word is the kind.
pub(crate) fn refused(line: &str) -> Error {
    let (word, message) = line.split_once(' ').unwrap_or((line, ""));
    let code = match word {
        "ERR" if message.starts_with("unknown command") => {
            let message = "the server does not know the commands of this client: it is no Mainstay, \
                           or an older one";
            return Error::new(Code::Unsupported, message);
        }
        "ERR" if message.starts_with("max number of clients") => Code::QueueFull,
        "NOAUTH" | "WRONGPASS" => return unknown_here(message),
        "NOPERM" => return Error::new(Code::Forbidden, message),
        "UNAVAILABLE" => Code::QueueFull,
        "TOOLARGE" => Code::TransactionTooLarge,
        "UNSUPPORTED" | "NOPROTO" => Code::Unsupported,
        "READONLY" => Code::ReadOnlyFiles,
        _ => Code::InvalidArgument,
    };
    Error::new(code, line)
}

/// The server requires authentication.
fn unknown_here(message: &str) -> Error {
    let message = message.trim_end_matches('.');
    let what_to_do = "give a user of the server and the password to `remote::Options::login`";
    Error::new(Code::Unauthenticated, format!("{message}: {what_to_do}"))
}

pub(crate) fn closed() -> Error {
    Error::new(Code::Closed, "the connection to the database was closed")
}

/// Returns the error of ours that an I/O error carries, if any.
pub(crate) fn own(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// The error for a server that was not reached.
pub(crate) fn unreachable(address: &str, error: &io::Error) -> Error {
    if let Some(own) = own(error) {
        return own.clone();
    }
    let what_to_do = "start one with `mainstay serve`, or check the address";
    let message = match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("nobody listens at {address}: {what_to_do}"),
        io::ErrorKind::InvalidInput => {
            format!("{address} is no address: HOST:PORT is wanted, as 127.0.0.1:7379")
        }
        _ => format!("no server was reached at {address} ({error}): {what_to_do}"),
    };
    Error::new(Code::Io, message)
}

/// The error for a call whose connection broke, or whose server was silent, before an answer arrived.
pub(crate) fn lost(nature: RetrySafety, address: &str, silent: bool) -> Error {
    let how = if silent {
        format!("{address} did not answer in time")
    } else {
        format!("the connection to {address} broke")
    };
    match nature {
        RetrySafety::Once | RetrySafety::Named | RetrySafety::Commit => {
            let message = format!(
                "{how}: it may or may not have been committed; look, or ask again with the same \
                 request id"
            );
            Error::new(Code::UnknownOutcome, message)
        }
        RetrySafety::Held => {
            let message = format!("{how}, and what was open on it is gone: begin again");
            Error::new(Code::TransactionExpired, message)
        }
        RetrySafety::Read | RetrySafety::Errand if silent => Error::new(Code::TimedOut, how),
        RetrySafety::Read | RetrySafety::Errand => Error::new(Code::Io, how),
    }
}

/// The error for an answer that cannot be decoded.
pub(crate) fn strange(nature: RetrySafety, error: &Error) -> Error {
    let message = format!("the server's answer cannot be read: {}", error.message());
    match nature {
        RetrySafety::Once | RetrySafety::Named | RetrySafety::Commit => {
            Error::new(Code::UnknownOutcome, message)
        }
        _ => Error::new(Code::CorruptData, message),
    }
}
