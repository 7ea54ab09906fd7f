//! Calls: a request on its way, and who gets its answer.

use super::failure;
use super::resp::{self, Reply};
use super::room::Permit;
use super::slot::Slot;
use crate::wire::WORD_LIMIT_BYTES;
use mainstay_model::{Error, Result};
use std::sync::Arc;

/// How often a call is sent before it is given up.
const ATTEMPT_LIMIT: u32 = 5;

/// What may be done about a request whose answer did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// It only reads: it is sent again.
    Read,
    /// It reads, on a connection that the caller chose: the caller asks again.
    Errand,
    /// It writes under a request id: it is sent again, and done once.
    Named,
    /// It writes: nobody knows whether it did.
    Once,
    /// It ends the transaction that its connection holds: nobody knows whether it did.
    Commit,
    /// It belongs to what its connection held, which is gone.
    Held,
}

/// Who gets the answer.
pub(crate) enum Done {
    Slot(Arc<Slot<Result<Vec<u8>>>>),
    Callback(Box<dyn FnOnce(Result<Vec<u8>>) + Send>),
    Nobody,
}

/// A request on its way.
pub(crate) struct Call {
    /// As the wire has it; empty when it was sent and is never sent again.
    pub bytes: Vec<u8>,
    pub nature: Nature,
    /// How long the server may be silent before it is given up.
    pub limit_us: u64,
    /// Until when a connection is waited for.
    pub give_up_us: u64,
    /// When it was sent.
    pub sent_us: u64,
    attempts: u32,
    done: Done,
    _permit: Option<Permit>,
}

impl Call {
    pub fn new(bytes: Vec<u8>, nature: Nature, done: Done, permit: Option<Permit>) -> Call {
        let (limit_us, give_up_us, sent_us, attempts) = (0, 0, 0, 0);
        Call { bytes, nature, limit_us, give_up_us, sent_us, attempts, done, _permit: permit }
    }

    /// Whether it is sent again when its connection broke.
    pub fn is_repeated(&self) -> bool {
        matches!(self.nature, Nature::Read | Nature::Named)
    }

    /// Whether it may have changed something.
    pub fn writes(&self) -> bool {
        matches!(self.nature, Nature::Once | Nature::Named | Nature::Commit)
    }

    /// Counts a connection that broke; false when there were too many of them.
    pub fn try_again(&mut self) -> bool {
        self.attempts += 1;
        self.is_repeated() && self.attempts < ATTEMPT_LIMIT
    }

    /// Whether it may have reached a server.
    pub fn was_sent(&self) -> bool {
        self.sent_us > 0
    }

    /// Gives the answer that a server gave.
    pub fn answer(self, reply: Reply) {
        self.finish(match reply {
            Reply::Text(bytes) => Ok(bytes),
            Reply::Error(line) => Err(failure::refused(&line)),
            // Nobody waits for anything else; as a frame it is none.
            _ => Ok(Vec::new()),
        });
    }

    /// Says that there will be no answer.
    pub fn fail(self, error: Error) {
        self.finish(Err(error));
    }

    fn finish(mut self, result: Result<Vec<u8>>) {
        tell(std::mem::replace(&mut self.done, Done::Nobody), result);
    }
}

fn tell(done: Done, result: Result<Vec<u8>>) {
    match done {
        Done::Slot(slot) => slot.put(result),
        Done::Callback(callback) => callback(result),
        Done::Nobody => {}
    }
}

impl Drop for Call {
    /// Nobody waits for ever.
    fn drop(&mut self) {
        tell(std::mem::replace(&mut self.done, Done::Nobody), Err(failure::closed()));
    }
}

/// A command and a frame as a request.
pub(crate) fn request(command: &str, frame: &[u8]) -> Vec<u8> {
    let mut words = vec![command.as_bytes()];
    words.extend(frame.chunks(WORD_LIMIT_BYTES));
    resp::encode(&words)
}
