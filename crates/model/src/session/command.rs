//! Commands on sessions and their answers.

use super::{
    CAPABILITIES_LIMIT_BYTES, CAPABILITY_LIMIT, CAPABILITY_LIMIT_BYTES, LETTER_LIMIT_BYTES,
    SESSION_LEASE_LIMIT_MS, SESSION_LEASE_MS, check_number,
};
use crate::limits::check_page;
use crate::wire::fields;
use crate::{Code, Command, Error, Name, Result, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Commands on sessions, except the requests executed in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionCommand {
    /// Opens a session, or finds the existing one of this name. In both cases the lease is renewed. It must
    /// be the only command of its transaction.
    Open {
        /// The session.
        session: Name,
        /// The lease: how long the session lives without a message from its client; `None` for 60 seconds. An
        /// existing session keeps its own.
        lease_ms: Option<u64>,
        /// The client's capabilities, as it names them. An existing session keeps its own.
        #[serde(with = "fields::list")]
        capabilities: Vec<(String, String)>,
        /// If set, the client requests exclusive ownership of the session.
        hold: Option<Hold>,
    },
    /// Renews the lease and drops responses below the lowest pending request. It must be the only command of
    /// its transaction.
    KeepAlive {
        /// The session.
        session: Name,
        /// The lowest request whose response the client has not received, or the next one; 0 for no
        /// information.
        lowest_pending: u64,
        /// The epoch that the command applies to; 0 for any.
        epoch: Stamp,
    },
    /// Closes a session. Returns whether it existed. It must be the only command of its transaction.
    Close {
        /// The session.
        session: Name,
        /// The epoch that the command applies to; 0 for any.
        epoch: Stamp,
    },
    /// Sends a request to a session's client. Returns its number, or `None` if the session does not exist. On
    /// a branch other than `main`, the request is stored and sent when the branch is merged into `main`.
    Send {
        /// The session.
        session: Name,
        /// The content of the request.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
    },
    /// Acknowledges all requests to the client up to this number. Returns their count.
    Acknowledge {
        /// The session.
        session: Name,
        /// The number. A number beyond the last acknowledges all.
        upto: u64,
        /// The epoch that the command applies to; 0 for any.
        epoch: Stamp,
    },
    /// Reads the requests that the client has not acknowledged, in order.
    Pending {
        /// The session.
        session: Name,
        /// The cursor: reads only requests after this number.
        after: u64,
        /// The page size.
        limit: usize,
        /// The epoch that the command applies to; 0 for any.
        epoch: Stamp,
    },
    /// Reads the unacknowledged requests of all sessions sent strictly before a time, and marks them as sent
    /// now.
    Retry {
        /// The exclusive upper bound of the send time.
        sent_before: Stamp,
        /// The page size.
        limit: usize,
    },
    /// Returns whether an unacknowledged request was sent strictly before a time.
    HasPending {
        /// The exclusive upper bound of the send time.
        sent_before: Stamp,
    },
    /// Reads the state of a session.
    Info {
        /// The session.
        session: Name,
    },
    /// Lists all sessions in the order of their names.
    List {
        /// The cursor: lists only sessions after this one.
        after: Option<String>,
        /// The page size.
        limit: usize,
    },
    /// Stores an exported request to a client on a branch. Only an import sends it.
    Restore {
        /// The session.
        session: Name,
        /// The content of the request.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
    },
}

/// A request for exclusive ownership of a session. It starts a new epoch, and requests sent in an earlier
/// epoch are refused from then on. A delayed copy of it takes the session from no other client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// A number unique to the client. A client that owns the session with this number keeps it.
    pub nonce: u64,
    /// The epoch that ends. If the session is in another epoch, nothing happens. 0: takes only a new session.
    pub over: Stamp,
}

impl SessionCommand {
    /// The session of the command, if it names one.
    pub fn session(&self) -> Option<&Name> {
        match self {
            SessionCommand::Open { session, .. }
            | SessionCommand::KeepAlive { session, .. }
            | SessionCommand::Close { session, .. }
            | SessionCommand::Send { session, .. }
            | SessionCommand::Restore { session, .. }
            | SessionCommand::Acknowledge { session, .. }
            | SessionCommand::Pending { session, .. }
            | SessionCommand::Info { session } => Some(session),
            SessionCommand::Retry { .. }
            | SessionCommand::HasPending { .. }
            | SessionCommand::List { .. } => None,
        }
    }

    /// Returns whether the command changes the existence or the leases of sessions. Such a command must be
    /// the only one of its transaction, and the transaction must not be a session's request.
    pub fn stands_alone(&self) -> bool {
        matches!(
            self,
            SessionCommand::Open { .. }
                | SessionCommand::KeepAlive { .. }
                | SessionCommand::Close { .. }
                | SessionCommand::Retry { .. }
        )
    }

    /// Returns whether the command is read-only.
    pub fn reads(&self) -> bool {
        matches!(
            self,
            SessionCommand::Pending { .. }
                | SessionCommand::HasPending { .. }
                | SessionCommand::Info { .. }
                | SessionCommand::List { .. }
        )
    }

    /// Rejects commands that are invalid whatever sessions exist.
    pub fn check(&self) -> Result<()> {
        match self {
            SessionCommand::Open { hold: Some(Hold { nonce: 0, .. }), session, .. } => {
                let message = format!("session `{session}`: nobody holds it with the number 0");
                Err(Error::new(Code::InvalidArgument, message))
            }
            SessionCommand::Open { lease_ms, capabilities, .. } => {
                check_session_open(*lease_ms, capabilities)
            }
            SessionCommand::KeepAlive { session, lowest_pending, .. } => {
                check_number(session, *lowest_pending)
            }
            SessionCommand::Send { payload, .. } | SessionCommand::Restore { payload, .. }
                if payload.len() > LETTER_LIMIT_BYTES =>
            {
                let message = format!(
                    "a request to a client has at most {LETTER_LIMIT_BYTES} bytes, this one {}",
                    payload.len()
                );
                Err(Error::new(Code::ValueTooLarge, message))
            }
            SessionCommand::Pending { limit, .. }
            | SessionCommand::Retry { limit, .. }
            | SessionCommand::List { limit, .. } => check_page(*limit),
            _ => Ok(()),
        }
    }
}

/// Rejects invalid leases and capabilities.
pub fn check_session_open(lease_ms: Option<u64>, capabilities: &[(String, String)]) -> Result<()> {
    let lease_ms = lease_ms.unwrap_or(SESSION_LEASE_MS);
    if !(1..=SESSION_LEASE_LIMIT_MS).contains(&lease_ms) {
        let message =
            format!("a lease has 1 to {SESSION_LEASE_LIMIT_MS} ms (a day), not {lease_ms}");
        return Err(Error::new(Code::InvalidTtl, message));
    }
    if capabilities.len() > CAPABILITY_LIMIT {
        let message =
            format!("{} capabilities: {CAPABILITY_LIMIT} are the most", capabilities.len());
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let long = |text: &String| text.len() > CAPABILITY_LIMIT_BYTES;
    if capabilities.iter().any(|(name, value)| name.is_empty() || long(name) || long(value)) {
        let message = format!(
            "a capability has a name of 1 to {CAPABILITY_LIMIT_BYTES} bytes and a value of at most as many"
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let bytes: usize = capabilities.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > CAPABILITIES_LIMIT_BYTES {
        let message =
            format!("the capabilities have {bytes} bytes: {CAPABILITIES_LIMIT_BYTES} are the most");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let mut names = BTreeSet::new();
    match capabilities.iter().find(|(name, _)| !names.insert(name)) {
        Some((twice, _)) => {
            let message = format!("the capability `{twice}` is given twice");
            Err(Error::new(Code::InvalidArgument, message))
        }
        None => Ok(()),
    }
}

impl From<SessionCommand> for Command {
    fn from(command: SessionCommand) -> Command {
        Command::Session(command)
    }
}

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The session's name.
    pub session: Name,
    /// The time of its opening.
    pub opened: Stamp,
    /// The fencing token of the owner: the time when the session was opened or last taken by a [`Hold`].
    pub epoch: Stamp,
    /// The lease in milliseconds: how long the session lives without a message from its client.
    pub lease_ms: u64,
    /// The time when the session expires unless its client sends a message.
    pub expires: Stamp,
    /// The client's capabilities, as it names them.
    #[serde(with = "fields::list")]
    pub capabilities: Vec<(String, String)>,
    /// The number of the client's next request.
    pub next_request: u64,
    /// The eviction mark: responses below this number are dropped.
    pub mark: u64,
    /// The number of stored responses.
    pub kept: u64,
    /// The size of the stored responses, in bytes.
    pub kept_bytes: u64,
    /// The number of the last request sent to the client.
    pub last_sent: u64,
    /// The number of unacknowledged requests to the client.
    pub pending: u64,
}

/// A page of sessions with the cursor of the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The sessions, in the order of their names.
    #[serde(with = "fields::list")]
    pub sessions: Vec<SessionInfo>,
    /// The cursor: pass it as `after` for the next page. `None` at the end.
    pub next: Option<String>,
}

/// The answer of a command on sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionAnswer {
    /// A session was opened or found.
    Opened {
        /// The state of the session.
        info: SessionInfo,
        /// True if the session is new.
        created: bool,
        /// True if the client requested exclusive ownership and now has it.
        held: bool,
    },
    /// The number of the request; `None` if the session does not exist and the request was dropped.
    Sent(Option<u64>),
    /// Requests to the client by number, and whether more remain.
    Pending {
        /// The requests.
        #[serde(with = "fields::list")]
        requests: Vec<(u64, Vec<u8>)>,
        /// True if more requests remain after this page.
        more: bool,
    },
    /// Requests to resend.
    Retry(#[serde(with = "fields::list")] Vec<(Name, u64, Vec<u8>)>),
    /// The state of a session.
    Info(Option<SessionInfo>),
    /// Sessions.
    List(SessionPage),
    /// The request is stored on its branch under this number. It is sent when the branch is merged into
    /// `main`.
    Kept(u64),
}

impl SessionAnswer {
    /// The approximate memory that the answer takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        match self {
            SessionAnswer::Pending { requests, .. } => requests
                .iter()
                .map(|(_, payload)| size_of::<(u64, Vec<u8>)>() + payload.len())
                .sum(),
            SessionAnswer::Retry(requests) => {
                let one = |(session, _, payload): &(Name, u64, Vec<u8>)| {
                    size_of::<(Name, u64, Vec<u8>)>() + session.as_bytes().len() + payload.len()
                };
                requests.iter().map(one).sum()
            }
            SessionAnswer::List(page) => page.sessions.iter().map(SessionInfo::weight_bytes).sum(),
            SessionAnswer::Opened { info, .. } | SessionAnswer::Info(Some(info)) => {
                info.weight_bytes()
            }
            SessionAnswer::Sent(_) | SessionAnswer::Kept(_) | SessionAnswer::Info(None) => 0,
        }
    }
}

impl SessionInfo {
    /// The approximate memory that the state takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        size_of::<SessionInfo>()
            + self
                .capabilities
                .iter()
                .map(|(name, value)| 2 * size_of::<String>() + name.len() + value.len())
                .sum::<usize>()
    }
}
