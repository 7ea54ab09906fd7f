//! The JSON description of a session, shared by all front ends.

use mainstay::SessionInfo;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Session)]
pub struct Told {
    /// Its id.
    pub session: String,
    /// When it was opened.
    pub opened_us: u64,
    /// How long it lives without a word of its client.
    pub lease_ms: u64,
    /// When it expires, if nothing is heard of its client.
    pub expires_us: u64,
    /// What its client can do, in words of its own.
    pub capabilities: BTreeMap<String, String>,
    /// The number for the client's next request.
    pub next_request: u64,
    /// Answers to requests below this one are gone.
    pub mark: u64,
    /// How many answers are kept.
    pub kept: u64,
    /// How many bytes they have.
    pub kept_bytes: u64,
    /// The number of the last request of the server.
    pub last_sent: u64,
    /// How many of them are not acknowledged.
    pub pending: u64,
}

impl From<SessionInfo> for Told {
    fn from(info: SessionInfo) -> Told {
        Told {
            session: info.session.as_str().to_owned(),
            opened_us: info.opened,
            lease_ms: info.lease_ms,
            expires_us: info.expires,
            capabilities: info.capabilities.into_iter().collect(),
            next_request: info.next_request,
            mark: info.mark,
            kept: info.kept,
            kept_bytes: info.kept_bytes,
            last_sent: info.last_sent,
            pending: info.pending,
        }
    }
}

impl Told {
    /// Returns it as JSON text.
    pub fn to_json(&self) -> String {
        // Serialization of numbers and strings cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
