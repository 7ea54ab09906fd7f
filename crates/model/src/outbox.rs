//! The outbox: messages that are written with a transaction and sent behind it.
//!
//! ```text
//!   transaction { ..., Put } --committed--> pending --claim--> leased --ack--> gone
//!                                              ^                  |
//!                                              '--back-off--------+ fail, or the lease is over
//!                                                                 |
//!                                                           10 tries: dead --replay--> pending
//! ```
//!
//! The stamp of the transaction that claimed a message is the token of its lease: whoever names it is refused once
//! somebody else has claimed the message, so that nobody ends the lease of another.
//!
//! Messages of one run are claimed one behind the other; others do not wait for each other.

use crate::run::KEY_LIMIT_BYTES;
use crate::wire::fields;
use crate::{Code, Command, Error, Name, Result, Stamp};
use serde::{Deserialize, Serialize};

/// The longest subject, in bytes.
pub const SUBJECT_LIMIT_BYTES: usize = 1_024;
/// The most messages that one claim takes.
pub const CLAIM_LIMIT: usize = 1_000;
/// The longest text of a failure that is kept, in bytes.
pub const FAILURE_LIMIT_BYTES: usize = 4_096;
/// The longest lease, in milliseconds: a day.
pub const LEASE_LIMIT_MS: u64 = 86_400_000;
/// A message that failed so often is dead.
pub const TRIES_LIMIT: u32 = 10;

/// What can be done with the outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OutboxCommand {
    /// Writes a message; answers its id.
    Put {
        /// Where it goes.
        subject: String,
        /// What it says.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
        /// The run that it is of: messages of one run keep their order.
        run: Option<Name>,
    },
    /// Takes messages that wait, the longest waiting first.
    Claim {
        /// At most this many.
        limit: usize,
        /// How long nobody else gets them, in milliseconds.
        lease_ms: u64,
    },
    /// Messages were delivered: they go. Answers how many of them were there.
    Ack {
        /// The messages.
        #[serde(with = "fields::list")]
        ids: Vec<u64>,
    },
    /// A message could not be delivered: it waits, or is dead. Answers which.
    Fail {
        /// The message.
        id: u64,
        /// Why.
        message: String,
        /// How long it waits before its second try; each further one doubles it.
        backoff_ms: u64,
        /// After so many tries it is dead.
        tries: u32,
    },
    /// Dead messages, the oldest first.
    Dead {
        /// Only those behind this one.
        after: u64,
        /// At most this many.
        limit: usize,
    },
    /// Makes a dead message wait again, with all its tries; says whether it was dead.
    Replay {
        /// The message.
        id: u64,
    },
    /// How many messages there are.
    Look,
    /// The same as `Ack` by whoever holds the lease: `Fenced`, and nothing goes, where a message was claimed by another.
    AckHeld {
        /// The stamp of the transaction that claimed them.
        token: Stamp,
        /// The messages.
        #[serde(with = "fields::list")]
        ids: Vec<u64>,
    },
    /// The same as `Fail` by whoever holds the lease: `Fenced` where the message was claimed by another.
    FailHeld {
        /// The stamp of the transaction that claimed it.
        token: Stamp,
        /// The message.
        id: u64,
        /// Why.
        message: String,
        /// How long it waits before its second try; each further one doubles it.
        backoff_ms: u64,
        /// After so many tries it is dead.
        tries: u32,
    },
    /// Writes a message as an export has kept it; only an import does. Answers its id.
    Restore {
        /// Where it goes.
        subject: String,
        /// Its content.
        #[serde(with = "fields::bytes")]
        payload: Vec<u8>,
        /// The run that it is of.
        run: Option<Name>,
        /// Of a dead one, why it is.
        dead: Option<String>,
        /// The idempotency key of the event that it was appended with.
        event: Option<String>,
    },
}

impl OutboxCommand {
    /// Messages were delivered; with a token, by whoever holds it.
    pub fn ack(ids: Vec<u64>, token: Option<Stamp>) -> OutboxCommand {
        match token {
            Some(token) => OutboxCommand::AckHeld { token, ids },
            None => OutboxCommand::Ack { ids },
        }
    }

    /// A message could not be delivered; with a token, by whoever holds it.
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

    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        matches!(self, OutboxCommand::Dead { .. } | OutboxCommand::Look)
    }

    /// Whether it hands messages out, or settles those that were handed out.
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

    /// Refuses what makes no sense whatever the outbox holds.
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

/// A message that an event brings along: it is written where the event is new, and is one of the event's run.
///
/// In JSON the payload is a text, `{"$bytes": base64}`, or any other value, whose JSON is the payload then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventMessage {
    /// Where it goes.
    pub subject: String,
    /// Its bytes.
    #[serde(default, with = "payload")]
    pub payload: Vec<u8>,
}

/// A payload as the value that it is in JSON.
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
    /// A message to a subject.
    pub fn new(subject: &str, payload: impl Into<Vec<u8>>) -> EventMessage {
        EventMessage { subject: subject.to_owned(), payload: payload.into() }
    }

    /// Refuses what the outbox would not take.
    pub fn check(&self) -> Result<()> {
        check_subject(&self.subject)?;
        let length = self.payload.len();
        if length <= crate::limits::VALUE_LIMIT_BYTES {
            return Ok(());
        }
        let message = format!("a message for `{}` has {length} bytes: too many", self.subject);
        Err(Error::new(Code::ValueTooLarge, message))
    }

    /// The command that writes it to the outbox.
    pub fn put(&self, run: Name) -> OutboxCommand {
        let EventMessage { subject, payload } = self.clone();
        OutboxCommand::Put { subject, payload, run: Some(run) }
    }
}

/// A message, as whoever delivers it gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number: those written later have higher ones.
    pub id: u64,
    /// Where it goes.
    pub subject: String,
    /// What it says.
    #[serde(with = "fields::bytes")]
    pub payload: Vec<u8>,
    /// The run that it is of.
    pub run: Option<String>,
    /// How often it was claimed, this time included.
    pub tries: u32,
    /// When it was written.
    pub written: Stamp,
    /// Why the last try failed.
    pub failure: Option<String>,
}

/// Messages, and what names the lease that they were claimed with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The stamp of the transaction that claimed them: later claims have higher ones.
    pub token: Stamp,
    /// The messages.
    #[serde(with = "fields::list")]
    pub messages: Vec<Message>,
}

/// How the outbox stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxState {
    /// Messages that wait or are under way.
    pub pending: u64,
    /// Messages that were given up.
    pub dead: u64,
    /// The number that the last message got.
    pub last_id: u64,
    /// When the longest waiting one may be claimed.
    pub oldest_due: Option<Stamp>,
}

/// What became of a message that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failed {
    /// There is none of this number, or it is dead already.
    Unknown,
    /// It waits until then.
    Waits(Stamp),
    /// It was given up.
    Dead,
}

/// What commands on the outbox answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OutboxAnswer {
    /// The message's number.
    Put(u64),
    /// Messages.
    Messages(#[serde(with = "fields::list")] Vec<Message>),
    /// What became of it.
    Failed(Failed),
    /// How it stands.
    State(OutboxState),
}

impl OutboxAnswer {
    /// The memory that what it holds takes, about.
    pub fn weight_bytes(&self) -> usize {
        let one = |message: &Message| size_of::<Message>() + message.payload.len();
        match self {
            OutboxAnswer::Messages(messages) => messages.iter().map(one).sum(),
            _ => 0,
        }
    }
}
