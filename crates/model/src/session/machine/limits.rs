//! How much a machine keeps.

use crate::limits::VALUE_LIMIT_BYTES;
use crate::session::{KeptLimits, MAILBOX_LIMIT, MAILBOX_LIMIT_BYTES, SESSION_LIMIT};
use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// The most sessions that are gone and whose numbers are remembered, if it is not said otherwise.
pub const FORMER_LIMIT: usize = 100_000;

/// How much a machine keeps. What is answered depends on it, so it is a part of the state: it is in snapshots, and
/// [`Input::SetLimits`](super::Input::SetLimits) changes it on all replicas at the same place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The responses that are kept for one session.
    pub kept: KeptLimits,
    /// The requests that may wait for one session's client.
    pub mailbox: usize,
    /// The bytes of them.
    pub mailbox_bytes: usize,
    /// The sessions.
    pub sessions: usize,
    /// The sessions that are gone and whose numbers are remembered; the one that went first is forgotten first.
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
    /// Refuses limits with which nothing could be done, or a response would not fit into a block of a snapshot.
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
