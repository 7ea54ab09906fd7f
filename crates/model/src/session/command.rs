//! What can be done with sessions.

use super::{
    CAPABILITIES_LIMIT_BYTES, CAPABILITY_LIMIT, CAPABILITY_LIMIT_BYTES, LETTER_LIMIT_BYTES,
    SESSION_LEASE_LIMIT_MS, SESSION_LEASE_MS, check_number,
};
use crate::limits::check_page;
use crate::wire::fields;
use crate::{Code, Command, Error, Name, Result, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What can be done with sessions, beside executing requests in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionCommand {
    /// Opens a session, or finds the one of this name; either way its lease begins anew. Stands alone.
    Open {
        /// The session.
        session: Name,
        /// How long it lives without a word of its client; nothing: 60 seconds. One that exists keeps its own.
        lease_ms: Option<u64>,
        /// What its client can do, in words of its own. One that exists keeps its own.
        #[serde(with = "fields::list")]
        capabilities: Vec<(String, String)>,
        /// Who asks wants to have it alone.
        hold: Option<Hold>,
    },
    /// The lease begins anew, and what is below the lowest pending request goes. Stands alone.
    KeepAlive {
        /// The session.
        session: Name,
        /// The lowest request whose response the client has not got, or the next one; 0 says nothing.
        lowest_pending: u64,
        /// The epoch in which that is meant; 0: in whichever it has.
        epoch: Stamp,
    },
    /// Ends a session; answers whether there was one. Stands alone.
    Close {
        /// The session.
        session: Name,
        /// Only in this epoch; 0: in whichever it has.
        epoch: Stamp,
    },
    /// Sends a request to a session's client; answers its number, or nothing where there is no such session. On another
    /// branch than `main` it is kept, and sent when the branch is merged into `main`.
    Send {
        /// The session.
        session: Name,
        /// What it says.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
    },
    /// The client has done everything up to this number; answers how many that were.
    Acknowledge {
        /// The session.
        session: Name,
        /// The number; beyond the last: all.
        upto: u64,
        /// The epoch in which that is meant; 0: in whichever it has.
        epoch: Stamp,
    },
    /// What the client has not acknowledged, in order.
    Pending {
        /// The session.
        session: Name,
        /// Only those behind this number.
        after: u64,
        /// At most this many.
        limit: usize,
        /// The epoch in which that is asked; 0: in whichever it has.
        epoch: Stamp,
    },
    /// What was sent before this, strictly, to any session and is not acknowledged; it is marked as sent now.
    Retry {
        /// The moment.
        sent_before: Stamp,
        /// At most this many.
        limit: usize,
    },
    /// Whether something was sent before this, strictly, and is not acknowledged.
    HasPending {
        /// The moment.
        sent_before: Stamp,
    },
    /// What is known of a session.
    Info {
        /// The session.
        session: Name,
    },
    /// All sessions, in the order of their names.
    List {
        /// Only those behind this one.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// Keeps a request to a client on a branch as an export has kept it; only an import does.
    Restore {
        /// The session.
        session: Name,
        /// Its content.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
    },
}

/// Says that a client wants to have a session alone: a new epoch of it begins, and what was sent in an earlier one is refused
/// from then on. A copy of this that comes late takes nothing from anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// A number that no other client has: whoever holds the session with it holds it still.
    pub nonce: u64,
    /// The epoch that ends; where the session has another one, nothing happens. 0: only a new session is taken.
    pub over: Stamp,
}

impl SessionCommand {
    /// The session that it is about.
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

    /// Whether it changes what sessions there are and how long they live: such a command stands alone in its
    /// transaction, which is no request of a session.
    pub fn stands_alone(&self) -> bool {
        matches!(
            self,
            SessionCommand::Open { .. }
                | SessionCommand::KeepAlive { .. }
                | SessionCommand::Close { .. }
                | SessionCommand::Retry { .. }
        )
    }

    /// Whether it only looks.
    pub fn reads(&self) -> bool {
        matches!(
            self,
            SessionCommand::Pending { .. }
                | SessionCommand::HasPending { .. }
                | SessionCommand::Info { .. }
                | SessionCommand::List { .. }
        )
    }

    /// Refuses what makes no sense, whatever there is.
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

/// Refuses leases and capabilities that a session cannot have; gives nothing.
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

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Its name.
    pub session: Name,
    /// When it was opened.
    pub opened: Stamp,
    /// When its client has taken it: when it was opened, or by a [`Hold`] since.
    pub epoch: Stamp,
    /// How long it lives without a word of its client, in milliseconds.
    pub lease_ms: u64,
    /// When it expires, if nothing is heard of its client.
    pub expires: Stamp,
    /// What its client can do, in words of its own.
    #[serde(with = "fields::list")]
    pub capabilities: Vec<(String, String)>,
    /// The number for the client's next request.
    pub next_request: u64,
    /// Responses below this one are gone.
    pub mark: u64,
    /// How many responses are kept.
    pub kept: u64,
    /// How many bytes they have.
    pub kept_bytes: u64,
    /// The number of the last request of the server.
    pub last_sent: u64,
    /// How many of them are not acknowledged.
    pub pending: u64,
}

/// A page of sessions, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The sessions, in the order of their names.
    #[serde(with = "fields::list")]
    pub sessions: Vec<SessionInfo>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

/// What a command on sessions answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionAnswer {
    /// The session, and whether it is new.
    Opened {
        /// What is known of it.
        info: SessionInfo,
        /// Whether there was none of this name.
        created: bool,
        /// Whether who asked has it alone now, having asked for that.
        held: bool,
    },
    /// The number of the request that was sent; nothing: there is no such session, and it was dropped.
    Sent(Option<u64>),
    /// Requests of the server by their numbers, and whether there are more.
    Pending {
        /// The requests.
        #[serde(with = "fields::list")]
        requests: Vec<(u64, Vec<u8>)>,
        /// Whether the page was too small.
        more: bool,
    },
    /// Requests of the server to be sent again.
    Retry(#[serde(with = "fields::list")] Vec<(Name, u64, Vec<u8>)>),
    /// What is known of a session.
    Info(Option<SessionInfo>),
    /// Sessions.
    List(SessionPage),
    /// The request is kept on its branch under this number, and is sent once the branch is merged into `main`.
    Kept(u64),
}

impl SessionAnswer {
    /// The memory that it takes, about.
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
    /// The memory that it takes, about.
    pub fn weight_bytes(&self) -> usize {
        let capability =
            |(name, value): &(String, String)| 2 * size_of::<String>() + name.len() + value.len();
        size_of::<SessionInfo>() + self.capabilities.iter().map(capability).sum::<usize>()
    }
}
