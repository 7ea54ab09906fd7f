//! Log entries: the inputs of a session machine.

use super::limits::Limits;
use mainstay_model::limits::check_page;
use mainstay_model::wire::fields;
use mainstay_model::{Code, Error, Name, Result, SessionRequest, Stamp};
use mainstay_model::{LETTER_LIMIT_BYTES, check_number, check_session_open};
use serde::{Deserialize, Serialize};

/// A log entry. Its timestamp is a separate argument
/// ([`SessionMachine::apply`](super::SessionMachine::apply)).
///
/// Commands and payloads are encoded, as in a log. They are decoded only on execution, so a retry is answered
/// even if its bytes are malformed. [`SessionMachine::request`](super::SessionMachine::request) and other
/// functions encode them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Input {
    /// Opens a session, or finds the existing one of this name. In both cases the lease is renewed.
    Open {
        /// The session.
        session: Name,
        /// The lease: how long the session lives without a message from its client; `None` for 60 seconds. An
        /// existing session keeps its own.
        lease_ms: Option<u64>,
        /// The client's capabilities, as it names them. An existing session keeps its own.
        #[serde(with = "fields::list")]
        capabilities: Vec<(String, String)>,
    },
    /// A client's request, executed exactly once however often it is sent.
    Request {
        /// The session and the number of the request.
        request: SessionRequest,
        /// The command.
        #[serde(with = "fields::bytes")]
        command: Vec<u8>,
    },
    /// Renews the lease and drops responses below the lowest pending request.
    KeepAlive {
        /// The session.
        session: Name,
        /// The lowest request whose response the client has not received, or the next one; 0 for no
        /// information.
        lowest_pending: u64,
    },
    /// Acknowledges all requests to the client up to this number.
    Acknowledge {
        /// The session.
        session: Name,
        /// The number. A number beyond the last acknowledges all.
        upto: u64,
    },
    /// A command without a session. Its response is not stored, so each occurrence in the log is executed.
    Internal {
        /// The command.
        #[serde(with = "fields::bytes")]
        command: Vec<u8>,
    },
    /// Sends a request to a session's client.
    Send {
        /// The session.
        session: Name,
        /// The content of the request.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
    },
    /// Closes a session at its client's request.
    Close {
        /// The session.
        session: Name,
    },
    /// Ends a session, even if its lease has not expired.
    Expire {
        /// The session.
        session: Name,
    },
    /// Ends sessions whose lease has expired, in the order of their names.
    ExpireDue {
        /// The most sessions to end.
        limit: usize,
    },
    /// Outputs the unacknowledged requests sent strictly before a time, the oldest first, and marks them as
    /// sent now.
    Retry {
        /// The exclusive upper bound of the send time.
        sent_before: Stamp,
        /// The most requests to resend.
        limit: usize,
    },
    /// Renews the leases of all sessions that were live at the time of the last entry. It is the first entry
    /// after an outage, during which clients could send no message. Sessions that had expired before stay
    /// expired, because their clients may already know.
    RenewLeases,
    /// Sets new limits. Responses that exceed them are evicted.
    SetLimits(Limits),
}

impl Input {
    /// Opens a session with the default lease and no capabilities.
    pub fn open(session: Name) -> Input {
        Input::Open { session, lease_ms: None, capabilities: Vec::new() }
    }

    /// Rejects entries that are invalid in every state.
    pub fn check(&self) -> Result<()> {
        match self {
            Input::Open { lease_ms, capabilities, .. } => {
                check_session_open(*lease_ms, capabilities)
            }
            Input::Request { request, .. } => request.check(),
            Input::KeepAlive { session, lowest_pending } => check_number(session, *lowest_pending),
            Input::Send { payload, .. } => check_letter(payload),
            Input::ExpireDue { limit } | Input::Retry { limit, .. } => check_page(*limit),
            Input::SetLimits(limits) => limits.check(),
            _ => Ok(()),
        }
    }
}

/// Rejects a request to a client that is too large.
pub(super) fn check_letter(payload: &[u8]) -> Result<()> {
    if payload.len() <= LETTER_LIMIT_BYTES {
        return Ok(());
    }
    let message = format!(
        "a request to a client has at most {LETTER_LIMIT_BYTES} bytes, this one {}",
        payload.len()
    );
    Err(Error::new(Code::ValueTooLarge, message))
}

#[cfg(test)]
mod tests {
    use super::super::codec::{Codec, Postcard};
    use super::*;

    #[test]
    fn entries_of_the_log_have_bytes() {
        let name = |name| Name::new(name).unwrap();
        let request = SessionRequest::new(name("a"), 3, 2);
        for input in [
            Input::open(name("a")),
            Input::Request { request, command: vec![1, 2, 3] },
            Input::KeepAlive { session: name("a"), lowest_pending: 7 },
            Input::Retry { sent_before: 9, limit: 10 },
            Input::RenewLeases,
            Input::SetLimits(Limits::default()),
        ] {
            let bytes = Postcard::to_bytes(&input).unwrap();
            assert_eq!(<Postcard as Codec<Input>>::decode(&bytes).unwrap(), input);
            assert!(<Postcard as Codec<Input>>::decode(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
