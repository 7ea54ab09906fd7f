//! JSON forms of commands on the outbox and of their answers.

use super::{Raw, bytes, given, shown_bytes};
use crate::outbox::Settings;
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{Failed, Message, Name, OutboxCommand, OutboxState, Result};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The number of messages that a claim takes by default.
const CLAIM_DEFAULT: usize = 10;

/// A message to be written.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutMessageForm {
    /// Where it goes.
    subject: String,
    /// What it says: a string as it is, bytes as {"$bytes": base64}, anything else as its JSON text.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Raw>,
    /// The run that it is of: messages of one run keep their order.
    run: Option<String>,
}

/// How many messages are taken, and for how long.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimMessagesForm {
    /// At most this many; 10 without it, 1,000 at most.
    limit: Option<usize>,
    /// How long nobody else gets them; without it as `[outbox]` of the configuration says.
    lease_ms: Option<u64>,
}

/// Messages that were delivered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AckMessagesForm {
    /// Their numbers.
    ids: Vec<u64>,
    /// The token of their claim: refused if another has claimed one of them since.
    token: Option<u64>,
}

/// A message that could not be delivered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailMessageForm {
    /// Its number.
    id: u64,
    /// Why.
    #[serde(default)]
    message: String,
    /// How long it waits before its second try; each further one doubles it. Without it as `[outbox]` of the
    /// configuration says.
    backoff_ms: Option<u64>,
    /// After so many tries it is dead; without it as `[outbox]` of the configuration says.
    tries: Option<u32>,
    /// The token of its claim: refused if another has claimed it since.
    token: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadMessagesForm {
    /// Only those behind this one.
    #[serde(default)]
    after: u64,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayMessageForm {
    /// Its number.
    id: u64,
}

/// Nothing is said.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookForm {}

impl PutMessageForm {
    pub fn command(self) -> Result<OutboxCommand> {
        let payload = self.payload.as_deref().map(bytes).transpose()?.flatten();
        let run = self.run.as_deref().map(Name::new).transpose()?;
        let subject = self.subject;
        let payload = payload.unwrap_or_default();
        Ok(OutboxCommand::Put { subject, payload, run })
    }
}

impl ClaimMessagesForm {
    pub fn command(self, settings: &Settings) -> OutboxCommand {
        let limit = self.limit.unwrap_or(CLAIM_DEFAULT);
        OutboxCommand::Claim { limit, lease_ms: self.lease_ms.unwrap_or(settings.lease_ms) }
    }
}

impl AckMessagesForm {
    pub fn command(self) -> OutboxCommand {
        OutboxCommand::ack(self.ids, self.token)
    }
}

impl FailMessageForm {
    pub fn command(self, settings: &Settings) -> OutboxCommand {
        let FailMessageForm { id, message, backoff_ms, tries, token } = self;
        let backoff_ms = backoff_ms.unwrap_or(settings.backoff_ms);
        OutboxCommand::fail(id, message, backoff_ms, tries.unwrap_or(settings.tries), token)
    }
}

impl DeadMessagesForm {
    pub fn command(self) -> OutboxCommand {
        OutboxCommand::Dead { after: self.after, limit: self.limit.unwrap_or(PAGE_DEFAULT) }
    }
}

impl ReplayMessageForm {
    pub fn command(self) -> OutboxCommand {
        OutboxCommand::Replay { id: self.id }
    }
}

/// A message, as whoever delivers it gets it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageForm {
    /// Its number: those written later have higher ones.
    id: u64,
    /// Where it goes.
    subject: String,
    /// What it says: text, or {"$bytes": base64}.
    #[schema(value_type = serde_json::Value)]
    payload: Raw,
    /// The run that it is of.
    run: Option<String>,
    /// How often it was claimed.
    tries: u32,
    /// When it was written, in microseconds.
    written: u64,
    /// Why the last try failed.
    failure: Option<String>,
}

/// How the outbox stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutboxForm {
    /// Messages that wait or are under way.
    pending: u64,
    /// Messages that were given up.
    dead: u64,
    /// The number that the last message got.
    last_id: u64,
    /// When the longest waiting one may be claimed, in microseconds.
    oldest_due: Option<u64>,
}

/// What became of a message that could not be delivered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UndeliveredForm {
    /// `waits`, `dead`, or `unknown`: there is none of this number, or it was dead already.
    #[schema(example = "waits")]
    became: &'static str,
    /// When it may be claimed again, in microseconds.
    due: Option<u64>,
}

impl From<Message> for MessageForm {
    fn from(message: Message) -> MessageForm {
        let Message { id, subject, payload, run, tries, written, failure } = message;
        let payload = shown_bytes(&payload);
        MessageForm { id, subject, payload, run, tries, written, failure }
    }
}

impl From<OutboxState> for OutboxForm {
    fn from(state: OutboxState) -> OutboxForm {
        let OutboxState { pending, dead, last_id, oldest_due } = state;
        OutboxForm { pending, dead, last_id, oldest_due }
    }
}

impl From<Failed> for UndeliveredForm {
    fn from(failed: Failed) -> UndeliveredForm {
        match failed {
            Failed::Unknown => UndeliveredForm { became: "unknown", due: None },
            Failed::Waits(due) => UndeliveredForm { became: "waits", due: Some(due) },
            Failed::Dead => UndeliveredForm { became: "dead", due: None },
        }
    }
}
