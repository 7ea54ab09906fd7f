//! JSON forms of commands on sessions and of their answers.

use super::{Raw, bytes, given, shown_bytes};
use crate::sessions::Told;
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{Name, Result, SessionCommand, SessionInfo, SessionOptions, SessionPage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::ToSchema;

/// A session to be opened.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenSessionForm {
    /// Its id: where there is a session of this id, it is that one. Without it, one that no other session has.
    session: Option<String>,
    /// How long it lives without a word of its client; 60,000 without it, a day at most. One that is there keeps its own.
    lease_ms: Option<u64>,
    /// What its client can do, in words of its own. One that is there keeps its own.
    #[serde(default)]
    capabilities: BTreeMap<String, String>,
}

/// Which session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionNameForm {
    /// Its id.
    session: String,
}

/// A sign of life, in a transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepSessionForm {
    /// The session.
    session: String,
    /// The lowest request whose answer the client has not got, or the next one; 0 says nothing.
    #[serde(default)]
    lowest: u64,
}

/// A request to a session's client, in a transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendRequestForm {
    /// The session.
    session: String,
    /// What it says: a string as it is, bytes as {"$bytes": base64}, anything else as its JSON text.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Raw>,
}

/// Requests that a session's client has done, in a transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcknowledgeForm {
    /// The session.
    session: String,
    /// All up to this number; beyond the last: all.
    upto: u64,
}

/// Which requests a session's client has not acknowledged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PendingForm {
    /// The session.
    session: String,
    /// Only those behind this number.
    #[serde(default)]
    after: u64,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
}

/// Which requests are to be sent again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryForm {
    /// Those that were sent before this, strictly, in microseconds.
    sent_before: u64,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
}

/// Since when something waits.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HasPendingForm {
    /// Whether something was sent before this, strictly, in microseconds.
    sent_before: u64,
}

/// Which sessions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSessionsForm {
    /// Only those behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
}

impl OpenSessionForm {
    pub fn command(self) -> Result<SessionCommand> {
        let mut options = SessionOptions::new();
        if let Some(session) = &self.session {
            options = options.name(session);
        }
        if let Some(lease_ms) = self.lease_ms {
            options = options.lease(Duration::from_millis(lease_ms));
        }
        let capabilities = self.capabilities.iter();
        let options =
            capabilities.fold(options, |options, (name, value)| options.capability(name, value));
        options.command()
    }
}

impl SessionNameForm {
    pub fn named(self) -> Result<Name> {
        Name::new(&self.session)
    }
}

impl KeepSessionForm {
    pub fn command(self) -> Result<SessionCommand> {
        let session = Name::new(&self.session)?;
        let lowest_pending = self.lowest;
        Ok(SessionCommand::KeepAlive { session, lowest_pending, epoch: 0 })
    }
}

impl SendRequestForm {
    pub fn command(self) -> Result<SessionCommand> {
        sending(Name::new(&self.session)?, self.payload)
    }
}

/// The command that sends a payload to a session's client.
pub(crate) fn sending(session: Name, payload: Option<Raw>) -> Result<SessionCommand> {
    let payload = payload.as_deref().map(bytes).transpose()?.flatten().unwrap_or_default();
    Ok(SessionCommand::Send { session, payload })
}

impl AcknowledgeForm {
    pub fn command(self) -> Result<SessionCommand> {
        Ok(SessionCommand::Acknowledge {
            session: Name::new(&self.session)?,
            upto: self.upto,
            epoch: 0,
        })
    }
}

impl PendingForm {
    pub fn command(self) -> Result<SessionCommand> {
        let session = Name::new(&self.session)?;
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        Ok(SessionCommand::Pending { session, after: self.after, limit, epoch: 0 })
    }
}

impl RetryForm {
    pub fn command(self) -> SessionCommand {
        let sent_before = self.sent_before;
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        SessionCommand::Retry { sent_before, limit }
    }
}

impl HasPendingForm {
    pub fn command(self) -> SessionCommand {
        SessionCommand::HasPending { sent_before: self.sent_before }
    }
}

impl ListSessionsForm {
    pub fn command(self) -> SessionCommand {
        SessionCommand::List { after: self.after, limit: self.limit.unwrap_or(PAGE_DEFAULT) }
    }
}

/// A session that is open.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpenedForm {
    /// Whether there was none of this id.
    created: bool,
    /// What is known of it.
    #[serde(flatten)]
    told: Told,
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionPageForm {
    /// In the order of their ids.
    sessions: Vec<Told>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<String>,
}

/// A request to a session's client.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterForm {
    /// The session, where it is not clear which.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Its number in the session, from 1.
    number: u64,
    /// What it says: text, or {"$bytes": base64}.
    #[schema(value_type = serde_json::Value)]
    payload: Raw,
}

/// Requests to a session's client.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LettersForm {
    /// In the order of their numbers.
    requests: Vec<LetterForm>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<u64>,
}

impl OpenedForm {
    pub fn of(info: SessionInfo, created: bool) -> OpenedForm {
        OpenedForm { created, told: info.into() }
    }
}

impl From<SessionPage> for SessionPageForm {
    fn from(page: SessionPage) -> SessionPageForm {
        let sessions = page.sessions.into_iter().map(Told::from).collect();
        SessionPageForm { sessions, next: page.next }
    }
}

impl LettersForm {
    pub fn of(requests: Vec<(u64, Vec<u8>)>, more: bool) -> LettersForm {
        let next = requests.last().filter(|_| more).map(|(number, _)| *number);
        let letter = |(number, payload): (u64, Vec<u8>)| LetterForm {
            session: None,
            number,
            payload: shown_bytes(&payload),
        };
        LettersForm { requests: requests.into_iter().map(letter).collect(), next }
    }
}

/// Requests of several sessions.
pub(crate) fn letters(requests: Vec<(Name, u64, Vec<u8>)>) -> Vec<LetterForm> {
    let letter = |(session, number, payload): (Name, u64, Vec<u8>)| LetterForm {
        session: Some(session.as_str().to_owned()),
        number,
        payload: shown_bytes(&payload),
    };
    requests.into_iter().map(letter).collect()
}
