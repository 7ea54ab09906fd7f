//! Calls: a request on its way, and who gets its answer.

use super::dedicated::DedicatedConnection;
use super::failure;
use super::in_flight_limit::InFlightPermit;
use super::oneshot::Oneshot;
use super::resp::{self, Reply};
use crate::wire::{self, WORD_LIMIT_BYTES};
use mainstay_model::ErrorKind::{Closed, ReadOnly, SessionExpired, Unavailable};
use mainstay_model::{Code, Error, Receipt, Result};
use std::sync::Arc;

/// How often a call is sent before it is given up.
const ATTEMPT_LIMIT: u32 = 5;

/// What may be done about a request whose answer did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetrySafety {
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

/// It gets the room that the call took as well, to keep it until the answer is out of the way.
type CallCallback = Box<dyn FnOnce(Result<Vec<u8>>, Option<InFlightPermit>) + Send>;

/// Who gets the answer.
pub(crate) enum Answering {
    Slot(Arc<Oneshot<Result<Vec<u8>>>>),
    Callback(CallCallback),
    Nobody,
}

/// A request on its way.
pub(crate) struct PendingCall {
    /// As the wire has it; empty when it was sent and is never sent again.
    pub bytes: Vec<u8>,
    pub nature: RetrySafety,
    /// How long the server may be silent before it is given up.
    pub limit_us: u64,
    /// Until when a connection is waited for.
    pub give_up_us: u64,
    /// When it was sent.
    pub sent_us: u64,
    /// The connection that it has for itself, if it has one.
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
        let (limit_us, give_up_us, sent_us, attempts) = (0, 0, 0, 0);
        let seat = None;
        PendingCall { bytes, nature, limit_us, give_up_us, sent_us, seat, attempts, done, permit }
    }

    /// Whether it is sent again when its connection broke.
    pub fn is_repeated(&self) -> bool {
        matches!(self.nature, RetrySafety::Read | RetrySafety::Named)
    }

    /// Whether somebody asked for its answer, who may have gone since.
    pub fn is_asked(&self) -> bool {
        !matches!(self.done, Answering::Nobody)
    }

    /// Whether it may have changed something.
    pub fn writes(&self) -> bool {
        matches!(self.nature, RetrySafety::Once | RetrySafety::Named | RetrySafety::Commit)
    }

    /// Whether it may be sent once more: not when too many connections broke under it.
    pub fn has_attempts_left(&self) -> bool {
        self.is_repeated() && self.attempts + 1 < ATTEMPT_LIMIT
    }

    /// Counts a connection that broke, and waits for the next until then.
    pub fn try_again(&mut self, give_up_us: u64) {
        self.attempts += 1;
        self.give_up_us = give_up_us;
    }

    /// Whether it may have reached a server.
    pub fn was_sent(&self) -> bool {
        self.sent_us > 0
    }

    /// Gives the answer that a server gave.
    pub fn answer(self, reply: Reply) {
        let answer = match reply {
            Reply::Text(frame) => self.doubt(frame),
            Reply::Error(line) => Err(self.refused(&line)),
            // Nobody waits for anything else; as a frame it is none.
            _ => Ok(Vec::new()),
        };
        self.finish(answer);
    }

    /// Whether an earlier sending of this write may have been committed.
    fn may_be_done(&self) -> bool {
        self.nature == RetrySafety::Named && self.attempts > 0
    }

    fn refused(&self, line: &str) -> Error {
        match self.may_be_done() {
            true => unknown(line),
            false if line.starts_with("UNKNOWN") => Error::new(Code::UnknownOutcome, line),
            false => failure::refused(line),
        }
    }

    /// A write that was sent again and is refused before it is looked for, or finds the session gone that
    /// would know of it: nobody can tell whether its first sending was committed.
    fn doubt(&self, frame: Vec<u8>) -> Result<Vec<u8>> {
        if self.may_be_done()
            && let Ok(Err(error)) = wire::decode::<Result<Receipt>>(&frame)
            && matches!(error.kind(), Unavailable | ReadOnly | Closed | SessionExpired)
        {
            return Err(unknown(error.message()));
        }
        Ok(frame)
    }

    /// Says that there will be no answer.
    pub fn fail(self, error: Error) {
        self.finish(Err(error));
    }

    fn finish(mut self, result: Result<Vec<u8>>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<Vec<u8>>) {
        // Before the answer: whoever has that can have the connection as well.
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
    /// Nobody waits for ever.
    fn drop(&mut self) {
        self.tell(Err(failure::closed()));
    }
}

/// A command and a frame as a request.
pub(crate) fn request(command: &str, frame: &[u8]) -> Vec<u8> {
    let mut words = vec![command.as_bytes()];
    words.extend(frame.chunks(WORD_LIMIT_BYTES));
    resp::encode(&words)
}

#[cfg(test)]
mod tests {
    use super::super::oneshot::wait;
    use super::*;

    /// What a caller is told whose call was sent so many times before it got this reply.
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
