//! Limits of a session machine.

use mainstay_model::limits::VALUE_LIMIT_BYTES;
use mainstay_model::{Code, Error, Result};
use mainstay_model::{KeptLimits, MAILBOX_LIMIT, MAILBOX_LIMIT_BYTES, SESSION_LIMIT};
use serde::{Deserialize, Serialize};

/// The default number of removed sessions whose numbers are remembered.
pub const FORMER_LIMIT: usize = 100_000;

/// The limits of a machine. Answers depend on them, so they are part of the replicated state. Snapshots
/// contain them, and [`Input::SetLimits`](super::Input::SetLimits) changes them on all replicas at the same
/// log position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The stored responses per session.
    pub kept: KeptLimits,
    /// The most unacknowledged requests to one session's client.
    pub mailbox: usize,
    /// The most bytes of these requests.
    pub mailbox_bytes: usize,
    /// The most sessions.
    pub sessions: usize,
    /// The most removed sessions whose numbers are remembered. The oldest is forgotten first.
    pub formers: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            kept: KeptLimits::default(),
            mailbox: MAILBOX_LIMIT,
            mailbox_bytes: MAILBOX_LIMIT_BYTES,
            sessions: SESSION_LIMIT,
            formers: FORMER_LIMIT,
        }
    }
}

impl Limits {
    /// Rejects limits of zero, and a response limit that exceeds a block of a snapshot.
    pub fn check(&self) -> Result<()> {
        let Limits { kept, mailbox, sessions, .. } = self;
        if kept.count == 0 || *mailbox == 0 || *sessions == 0 {
            let message = "at least one response, one request to a client and one session are kept";
            return Err(Error::new(Code::InvalidOption, message));
        }
        if kept.bytes > VALUE_LIMIT_BYTES {
            let message = format!(
                "at most {VALUE_LIMIT_BYTES} bytes of responses are kept for a session, not {}",
                kept.bytes
            );
            return Err(Error::new(Code::InvalidOption, message));
        }
        Ok(())
    }
}
