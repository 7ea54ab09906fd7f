//! A pending call: an encoded request, its retry rules and the receiver of its answer.

use super::dedicated::DedicatedConnection;
use super::failure;
use super::in_flight_limit::InFlightPermit;
use super::oneshot::Oneshot;
use super::resp::{self, Reply};
use mainstay_model::ErrorKind::{Closed, ReadOnly, SessionExpired, Unavailable};
use mainstay_model::wire::{self, WORD_LIMIT_BYTES};
use mainstay_model::{Code, Error, Receipt, Result};
use std::sync::Arc;

/// Maximum number of times that a call is sent.
const ATTEMPT_LIMIT: u32 = 5;

/// Retry safety of a request whose answer did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetrySafety {
    /// A read: may be sent again.
    Read,
    /// A read on a dedicated connection: the caller retries it on another one.
    Errand,
    /// An idempotent write with a request id: may be sent again and is executed once.
    Named,
    /// A write without a request id: its outcome is unknown.
    Once,
    /// A commit of the transaction that the connection holds: its outcome is unknown.
    Commit,
    /// An operation on state that the connection held, which is lost with the connection.
    Held,
}

/// Also receives the call's in-flight permit, and keeps it until the callback has run.
type CallCallback = Box<dyn FnOnce(Result<Vec<u8>>, Option<InFlightPermit>) + Send>;

/// Receiver of the answer.
pub(crate) enum Answering {
    Slot(Arc<Oneshot<Result<Vec<u8>>>>),
    Callback(CallCallback),
    Nobody,
}

pub(crate) struct PendingCall {
    /// The encoded request. Empty if it was sent and is never sent again.
    pub bytes: Vec<u8>,
    pub nature: RetrySafety,
    /// How long the server may be silent before the connection is given up, in microseconds.
    pub limit_us: u64,
    /// Deadline for getting a connection.
    pub give_up_us: u64,
    /// Time of sending; 0 if it was never sent.
    pub sent_us: u64,
    /// The dedicated connection that the call occupies, if any.
    pub seat: Option<DedicatedConnection>,
    attempts: u32,
    done: Answering,
    permit: Option<InFlightPermit>,
}

impl PendingCall {
    pub fn new(
        bytes: Vec<u8>,
        nature: RetrySafety,
        done: Answering,
        permit: Option<InFlightPermit>,
    ) -> PendingCall {
        let limit_us = 0;
        let give_up_us = 0;
        let sent_us = 0;
        let attempts = 0;
        let seat = None;
        PendingCall { bytes, nature, limit_us, give_up_us, sent_us, seat, attempts, done, permit }
    }

    /// Returns whether the call is sent again after its connection broke.
    pub fn is_repeated(&self) -> bool {
        matches!(self.nature, RetrySafety::Read | RetrySafety::Named)
    }

    /// Returns whether a caller asked for the answer. That caller may have gone since.
    pub fn is_asked(&self) -> bool {
        !matches!(self.done, Answering::Nobody)
    }

    /// Returns whether the request may change state.
    pub fn writes(&self) -> bool {
        matches!(self.nature, RetrySafety::Once | RetrySafety::Named | RetrySafety::Commit)
    }

    /// Returns whether the call may be sent again. It may not after too many connections broke under it.
    pub fn has_attempts_left(&self) -> bool {
        self.is_repeated() && self.attempts + 1 < ATTEMPT_LIMIT
    }

    /// Counts a broken connection and sets the deadline for the next one.
    pub fn try_again(&mut self, give_up_us: u64) {
        self.attempts += 1;
        self.give_up_us = give_up_us;
    }

    /// Returns whether the request may have reached a server.
    pub fn was_sent(&self) -> bool {
        self.sent_us > 0
    }

    /// Completes the call with the server's reply.
    pub fn answer(self, reply: Reply) {
        let answer = match reply {
            Reply::Text(frame) => self.doubt(frame),
            Reply::Error(line) => Err(self.refused(&line)),
            // A valid server sends no other reply here. An empty frame fails to decode later.
            _ => Ok(Vec::new()),
        };
        self.finish(answer);
    }

    /// Returns whether an earlier attempt of this write may have been committed.
    fn may_be_done(&self) -> bool {
        self.nature == RetrySafety::Named && self.attempts > 0
    }

    fn refused(&self, line: &str) -> Error {
        if self.may_be_done() {
            unknown(line)
        } else if line.starts_with("UNKNOWN") {
            Error::new(Code::UnknownOutcome, line)
        } else {
            failure::refused(line)
        }
    }

    /// Turns an error into `UnknownOutcome` where an earlier attempt may have committed. In these cases the
    /// retry was rejected before the server looked for the request id, or the session that would know the
    /// outcome is gone.
    fn doubt(&self, frame: Vec<u8>) -> Result<Vec<u8>> {
        if self.may_be_done()
            && let Ok(Err(error)) = wire::decode::<Result<Receipt>>(&frame)
            && matches!(error.kind(), Unavailable | ReadOnly | Closed | SessionExpired)
        {
            return Err(unknown(error.message()));
        }
        Ok(frame)
    }

    /// Completes the call with an error.
    pub fn fail(self, error: Error) {
        self.finish(Err(error));
    }

    fn finish(mut self, result: Result<Vec<u8>>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<Vec<u8>>) {
        // Release the connection before the answer, so that the receiver of the answer can use the
        // connection.
        self.seat = None;
        match std::mem::replace(&mut self.done, Answering::Nobody) {
            Answering::Slot(slot) => slot.put(result),
            Answering::Callback(callback) => callback(result, self.permit.take()),
            Answering::Nobody => {}
        }
    }
}

#[cold]
fn unknown(why: &str) -> Error {
    let message = format!("it was sent before, and may or may not have been committed then: {why}");
    Error::new(Code::UnknownOutcome, message)
}

impl Drop for PendingCall {
    /// A dropped call still completes, so that no caller waits forever.
    fn drop(&mut self) {
        self.tell(Err(failure::closed()));
    }
}

/// Encodes a command and a frame as a request.
pub(crate) fn request(command: &str, frame: &[u8]) -> Vec<u8> {
    let mut words = vec![command.as_bytes()];
    words.extend(frame.chunks(WORD_LIMIT_BYTES));
    resp::encode(&words)
}

#[cfg(test)]
mod tests {
    use super::super::oneshot::wait;
    use super::*;

    /// The error code of a call that was sent `sent` times before it got this reply.
    fn told(nature: RetrySafety, sent: u32, reply: Reply) -> Code {
        let slot: Arc<Oneshot<_>> = Arc::default();
        let mut call = PendingCall::new(Vec::new(), nature, Answering::Slot(slot.clone()), None);
        (1..sent).for_each(|_| call.try_again(0));
        call.answer(reply);
        let receipt =
            wait(slot.answer()).and_then(|frame| wire::decode::<Result<Receipt>>(&frame)?);
        receipt.unwrap_err().code()
    }

    fn framed(code: Code) -> Reply {
        let refusal: Result<Receipt> = Err(Error::new(code, "no"));
        Reply::Text(wire::encode(&refusal).unwrap())
    }

    #[test]
    fn a_repeated_write_that_is_refused_may_have_been_committed_before() {
        let refusals = [
            Code::QueueFull,
            Code::ReadOnlyFiles,
            Code::Closed,
            Code::DiskFull,
            Code::SessionExpired,
        ];
        for code in refusals {
            assert_eq!(told(RetrySafety::Named, 1, framed(code)), code, "nothing was sent before");
            assert_eq!(told(RetrySafety::Named, 2, framed(code)), Code::UnknownOutcome, "{code:?}");
            assert_eq!(told(RetrySafety::Read, 2, framed(code)), code, "it only reads");
        }
        let answers =
            [Code::GuardFailed, Code::RequestReused, Code::ResponseEvicted, Code::SessionNotFound];
        for code in answers {
            assert_eq!(
                told(RetrySafety::Named, 2, framed(code)),
                code,
                "it was looked for, and judged"
            );
        }
        let line = || Reply::Error("NOPERM may not".into());
        assert_eq!(told(RetrySafety::Named, 2, line()), Code::UnknownOutcome);
        assert_eq!(told(RetrySafety::Named, 1, line()), Code::Forbidden);
        for nature in [RetrySafety::Named, RetrySafety::Once, RetrySafety::Commit] {
            let line = Reply::Error("UNKNOWN outcome".into());
            assert_eq!(told(nature, 1, line), Code::UnknownOutcome);
        }
    }
}
