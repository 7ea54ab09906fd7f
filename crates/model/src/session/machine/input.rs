//! What a machine is told: the entries of the log.

use super::limits::Limits;
use crate::limits::check_page;
use crate::session::{LETTER_LIMIT_BYTES, check_number, check_session_open};
use crate::wire::fields;
use crate::{Code, Error, Name, Result, SessionRequest, Stamp};
use serde::{Deserialize, Serialize};

/// An entry of the log. The time comes beside it ([`SessionMachine::apply`](super::SessionMachine::apply)).
///
/// Commands and payloads are bytes here, as they are in a log: they are decoded when they are executed, so a repeat is
/// answered whatever its bytes are. The machine has functions that encode them
/// ([`SessionMachine::request`](super::SessionMachine::request) and others).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Input {
    /// Opens a session, or finds the one of this name; either way its lease begins anew.
    Open {
        /// The session.
        session: Name,
        /// How long it lives without a word of its client; nothing: 60 seconds. One that exists keeps its own.
        lease_ms: Option<u64>,
        /// What its client can do, in words of its own. One that exists keeps its own.
        #[serde(with = "fields::list")]
        capabilities: Vec<(String, String)>,
    },
    /// A client's request: executed once, however often it is sent.
    Request {
        /// Whose request, and which of theirs.
        request: SessionRequest,
        /// The command.
        #[serde(with = "fields::bytes")]
        command: Vec<u8>,
    },
    /// The lease begins anew, and responses below the lowest pending request go.
    KeepAlive {
        /// The session.
        session: Name,
        /// The lowest request whose response the client has not got, or the next one; 0 says nothing.
        lowest_pending: u64,
    },
    /// The client has done everything that it was sent up to this number.
    Acknowledge {
        /// The session.
        session: Name,
        /// The number; beyond the last: all.
        upto: u64,
    },
    /// A command of nobody's: its response is not kept, so it is executed as often as it is in the log.
    Internal {
        /// The command.
        #[serde(with = "fields::bytes")]
        command: Vec<u8>,
    },
    /// Sends a request to a session's client.
    Send {
        /// The session.
        session: Name,
        /// What it says.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
    },
    /// The client ends its session.
    Close {
        /// The session.
        session: Name,
    },
    /// Ends a session, whatever is left of its lease.
    Expire {
        /// The session.
        session: Name,
    },
    /// Ends sessions whose lease is over, in the order of their names.
    ExpireDue {
        /// At most this many.
        limit: usize,
    },
    /// Requests that were sent before this, strictly, and are not acknowledged are given out to be sent again, the oldest
    /// first, and count as sent now.
    Retry {
        /// The moment.
        sent_before: Stamp,
        /// At most this many.
        limit: usize,
    },
    /// The leases begin anew of all sessions that lived at the time of the last entry: for the first entry after an outage,
    /// in which clients could not say a word. Those that were over before may have been told so, and stay so.
    RenewLeases,
    /// How much is kept from here on. What is over it goes.
    SetLimits(Limits),
}

impl Input {
    /// Opens a session with the usual lease, of a client that says nothing about itself.
    pub fn open(session: Name) -> Input {
        Input::Open { session, lease_ms: None, capabilities: Vec::new() }
    }

    /// Refuses what makes no sense, whatever there is.
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

/// Refuses a request to a client that is too large.
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
