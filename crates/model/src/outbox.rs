//! Transactional outbox: messages are written atomically with a transaction and delivered after its commit.
//!
//! ```text
//!   transaction { ..., Put } --committed--> pending --claim--> leased --ack--> deleted
//!                                              ^                  |
//!                                              '--back-off--------+ fail, or the lease expires
//!                                                                 |
//!                                                           10 tries: dead --replay--> pending
//! ```
//!
//! The fencing token of a lease is the timestamp of the claiming transaction. A stale token is refused after
//! another consumer has claimed the message, so no consumer can end another's lease.
//!
//! Messages of one run are claimed one at a time, in order. Messages of different runs do not wait for each
//! other.

use crate::run::KEY_LIMIT_BYTES;
use crate::wire::fields;
use crate::{Code, Command, Error, Name, Result, Stamp};
use serde::{Deserialize, Serialize};

/// The longest subject, in bytes.
pub const SUBJECT_LIMIT_BYTES: usize = 1_024;
/// The most messages that one claim takes.
pub const CLAIM_LIMIT: usize = 1_000;
/// The longest stored failure text, in bytes.
pub const FAILURE_LIMIT_BYTES: usize = 4_096;
/// The longest lease, in milliseconds: a day.
pub const LEASE_LIMIT_MS: u64 = 86_400_000;
/// The default and highest number of tries of the relay, after which a message is dead.
pub const TRIES_LIMIT: u32 = 10;

/// Commands on the outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OutboxCommand {
    /// Writes a message. Returns its id.
    Put {
        /// The destination.
        subject: String,
        /// The content.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
        /// The run of the message. Messages of one run keep their order.
        run: Option<Name>,
    },
    /// Claims pending messages, the longest waiting first.
    Claim {
        /// The most messages to claim.
        limit: usize,
        /// The lease in milliseconds, during which no other consumer gets the messages.
        lease_ms: u64,
    },
    /// Deletes delivered messages. Returns the number of messages that existed.
    Ack {
        /// The messages.
        #[serde(with = "fields::list")]
        ids: Vec<u64>,
    },
    /// Reports a failed delivery. Returns whether the message is pending again or dead.
    Fail {
        /// The message.
        id: u64,
        /// The failure text.
        message: String,
        /// The back-off before the second try, in milliseconds. It doubles with each further try.
        backoff_ms: u64,
        /// The number of tries after which the message is dead.
        tries: u32,
    },
    /// Lists dead messages, the oldest first.
    Dead {
        /// The cursor: lists only messages after this id.
        after: u64,
        /// The page size.
        limit: usize,
    },
    /// Makes a dead message pending again, with all its tries. Returns whether it was dead.
    Replay {
        /// The message.
        id: u64,
    },
    /// Counts the messages.
    Look,
    /// Like `Ack`, but checks the fencing token: returns `Fenced` and deletes nothing if another consumer has
    /// claimed one of the messages.
    AckHeld {
        /// The timestamp of the claiming transaction.
        token: Stamp,
        /// The messages.
        #[serde(with = "fields::list")]
        ids: Vec<u64>,
    },
    /// Like `Fail`, but checks the fencing token: returns `Fenced` if another consumer has claimed the
    /// message.
    FailHeld {
        /// The timestamp of the claiming transaction.
        token: Stamp,
        /// The message.
        id: u64,
        /// The failure text.
        message: String,
        /// The back-off before the second try, in milliseconds. It doubles with each further try.
        backoff_ms: u64,
        /// The number of tries after which the message is dead.
        tries: u32,
    },
    /// Writes an exported message. Only an import sends it. Returns its id.
    Restore {
        /// The destination.
        subject: String,
        /// Its content.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
        /// The run of the message, if it has one.
        run: Option<Name>,
        /// The failure text of a dead message.
        dead: Option<String>,
        /// The idempotency key of the event that the message was appended with.
        event: Option<String>,
    },
}

impl OutboxCommand {
    /// Creates an `Ack`, or an `AckHeld` if a token is given.
    pub fn ack(ids: Vec<u64>, token: Option<Stamp>) -> OutboxCommand {
        match token {
            Some(token) => OutboxCommand::AckHeld { token, ids },
            None => OutboxCommand::Ack { ids },
        }
    }

    /// Creates a `Fail`, or a `FailHeld` if a token is given.
    pub fn fail(
        id: u64,
        message: String,
        backoff_ms: u64,
        tries: u32,
        token: Option<Stamp>,
    ) -> OutboxCommand {
        match token {
            Some(token) => OutboxCommand::FailHeld { token, id, message, backoff_ms, tries },
            None => OutboxCommand::Fail { id, message, backoff_ms, tries },
        }
    }

    /// Returns whether the command is read-only.
    pub fn is_read(&self) -> bool {
        matches!(self, OutboxCommand::Dead { .. } | OutboxCommand::Look)
    }

    /// Returns whether the command claims messages or settles their delivery.
    pub fn delivers(&self) -> bool {
        matches!(
            self,
            OutboxCommand::Claim { .. }
                | OutboxCommand::Ack { .. }
                | OutboxCommand::AckHeld { .. }
                | OutboxCommand::Fail { .. }
                | OutboxCommand::FailHeld { .. }
                | OutboxCommand::Replay { .. }
        )
    }

    /// Rejects commands that are invalid whatever the outbox holds.
    pub fn check(&self) -> Result<()> {
        match self {
            OutboxCommand::Put { subject, .. } => check_subject(subject),
            OutboxCommand::Restore { subject, event, .. } => {
                let bytes = event.as_ref().map_or(0, String::len);
                if bytes > KEY_LIMIT_BYTES {
                    return Err(invalid(format!(
                        "the key of a message's event has {bytes} bytes, {KEY_LIMIT_BYTES} are the most"
                    )));
                }
                check_subject(subject)
            }
            OutboxCommand::Claim { limit, lease_ms } => check_claim(*limit, *lease_ms),
            OutboxCommand::Fail { backoff_ms, tries, .. }
            | OutboxCommand::FailHeld { backoff_ms, tries, .. } => {
                if *backoff_ms > LEASE_LIMIT_MS || *tries == 0 {
                    return Err(invalid(format!(
                        "a back-off has at most {LEASE_LIMIT_MS} ms and a message at least one try"
                    )));
                }
                Ok(())
            }
            OutboxCommand::Dead { limit, .. } => crate::limits::check_page(*limit),
            _ => Ok(()),
        }
    }
}

fn check_subject(subject: &str) -> Result<()> {
    let length = subject.len();
    if (1..=SUBJECT_LIMIT_BYTES).contains(&length) && !subject.contains('\0') {
        return Ok(());
    }
    let message = format!(
        "the subject of a message has 1 to {SUBJECT_LIMIT_BYTES} bytes and no NUL, this one {length}"
    );
    Err(invalid(message))
}

fn check_claim(limit: usize, lease_ms: u64) -> Result<()> {
    if !(1..=CLAIM_LIMIT).contains(&limit) {
        let message = format!("a claim takes 1 to {CLAIM_LIMIT} messages, not {limit}");
        return Err(Error::new(Code::InvalidLimit, message));
    }
    if !(1..=LEASE_LIMIT_MS).contains(&lease_ms) {
        let message = format!("a lease lasts 1 to {LEASE_LIMIT_MS} ms, not {lease_ms}");
        return Err(Error::new(Code::InvalidTtl, message));
    }
    Ok(())
}

fn invalid(message: String) -> Error {
    Error::new(Code::InvalidArgument, message)
}

impl From<OutboxCommand> for Command {
    fn from(command: OutboxCommand) -> Command {
        Command::Outbox(command)
    }
}

/// A message that is appended together with an event: it is written only if the event is new, and belongs to
/// the event's run.
///
/// In JSON, the payload is a string, `{"$bytes": base64}`, or any other value, in which case its JSON text is
/// the payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventMessage {
    /// The destination.
    pub subject: String,
    /// The content.
    #[serde(default, with = "payload")]
    pub payload: Vec<u8>,
}

/// Serializes a payload as a JSON value.
mod payload {
    use crate::Value;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(payload: &[u8], to: S) -> Result<S::Ok, S::Error> {
        Value::from_text(payload).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Ok(match Value::deserialize(from)? {
            Value::Null => Vec::new(),
            value => value.as_text().into_owned(),
        })
    }
}

impl EventMessage {
    /// Creates a message.
    pub fn new(subject: &str, payload: impl Into<Vec<u8>>) -> EventMessage {
        EventMessage { subject: subject.to_owned(), payload: payload.into() }
    }

    /// Rejects a message that the outbox would refuse.
    pub fn check(&self) -> Result<()> {
        check_subject(&self.subject)?;
        let length = self.payload.len();
        if length <= crate::limits::VALUE_LIMIT_BYTES {
            return Ok(());
        }
        let message = format!("a message for `{}` has {length} bytes: too many", self.subject);
        Err(Error::new(Code::ValueTooLarge, message))
    }

    /// Creates the command that writes the message to the outbox.
    pub fn put(&self, run: Name) -> OutboxCommand {
        let EventMessage { subject, payload } = self.clone();
        OutboxCommand::Put { subject, payload, run: Some(run) }
    }
}

/// A message, as its consumer receives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The message's number. Later messages have higher numbers.
    pub id: u64,
    /// The destination.
    pub subject: String,
    /// The content.
    #[serde(with = "fields::bytes")]
    pub payload: Vec<u8>,
    /// The run of the message, if it has one.
    pub run: Option<String>,
    /// The number of claims, including this one.
    pub tries: u32,
    /// The timestamp of the write.
    pub written: Stamp,
    /// The failure text of the last try.
    pub failure: Option<String>,
}

/// Claimed messages with the fencing token of their lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The timestamp of the claiming transaction. Later claims have higher tokens.
    pub token: Stamp,
    /// The messages.
    #[serde(with = "fields::list")]
    pub messages: Vec<Message>,
}

/// Counts of the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxState {
    /// The number of messages that are pending or leased.
    pub pending: u64,
    /// The number of dead messages.
    pub dead: u64,
    /// The number of the last message.
    pub last_id: u64,
    /// The time when the longest waiting message may be claimed.
    pub oldest_due: Option<Stamp>,
}

/// The result of a failed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failed {
    /// The message does not exist or is already dead.
    Unknown,
    /// The message is pending again from this time on.
    Waits(Stamp),
    /// The message is dead.
    Dead,
}

/// The answer of a command on the outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OutboxAnswer {
    /// The message's number.
    Put(u64),
    /// Messages.
    Messages(#[serde(with = "fields::list")] Vec<Message>),
    /// The result of a failed delivery.
    Failed(Failed),
    /// Counts of the outbox.
    State(OutboxState),
}

impl OutboxAnswer {
    /// The approximate memory that the answer takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        let one = |message: &Message| {
            let texts = [message.run.as_ref(), message.failure.as_ref()];
            let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
            size_of::<Message>() + message.subject.len() + message.payload.len() + texts
        };
        match self {
            OutboxAnswer::Messages(messages) => messages.iter().map(one).sum(),
            _ => 0,
        }
    }
}
