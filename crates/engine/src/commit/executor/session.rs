//! Exactly-once session requests: each is executed once, and its response is committed with its effects.
//!
//! ```text
//!   judge -- Repeat ---> the stored response, returned once it is durable
//!     |  \-- Evicted, or no such session: refused, nothing is executed
//!     v
//!   apply --ok--> effects --derive--> response ---\
//!        \--err-> no effects -------> response -----> commit
//! ```

use super::{Executed, Executor, check_limits, due_of};
use crate::apply::response_slots::SlotPlan;
use crate::apply::sessions::bytes::{Part, damaged, part_key};
use crate::apply::sessions::response::{self, StoredResponse};
use crate::apply::sessions::slot::{self, Response};
use crate::apply::sessions::{drop_slots, expired, taken};
use crate::base::fault_points::{self, InjectedFault};
use crate::commit::prepared::PreparedTransaction;
use crate::key::entry;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::{Index, NEWEST};
use mainstay_model::{
    Code, Command, Error, ErrorKind, KEPT_LIMIT_BYTES, Name, Receipt, Result, Revision,
    SessionRequest, Stamp, Step, Transaction, Verdict,
};
use std::iter::once;
use std::sync::atomic::Ordering;

/// The outcome of a session's request.
type RequestOutcome = std::result::Result<Receipt, Error>;

impl Executor {
    /// Runs a request of a session at time `now`.
    pub(super) fn run_in_session(
        &mut self,
        submitted: &PreparedTransaction,
        request: &SessionRequest,
        now: Stamp,
    ) -> Result<Executed> {
        request.check()?;
        let stamp = now.max(self.stamper.last() + 1);
        match self.judge(request, stamp) {
            Ok(Verdict::Repeat) => return self.repeat(request),
            Ok(_) => {}
            Err(error) => {
                self.end_if_expired(&request.session, now)?;
                return Err(error);
            }
        }
        let mut overlay = self.overlay.take().unwrap_or_default();
        let done = self.attempt(submitted, stamp, &mut overlay);
        let told = done.and_then(|done| self.answer(request, done, stamp, &mut overlay));
        self.put_away(overlay);
        if let Ok(Executed { answer: Ok(receipt), .. }) = &told {
            self.count_answers(&submitted.transaction, receipt);
        }
        told
    }

    /// Ends the sessions whose leases have expired and that commands of the transaction name, in a
    /// transaction of their own. The expiry is committed before it is reported, because leases restart
    /// at recovery and would revive the session.
    pub(super) fn end_expired(&mut self, transaction: &Transaction, now: Stamp) -> Result<()> {
        let of = |step: &Step| match &step.command {
            Command::Session(command) => command.session().cloned(),
            _ => None,
        };
        let all = transaction.steps.iter().chain(transaction.otherwise.iter().flatten());
        let mut named = all.filter_map(of);
        named.try_for_each(|session| self.end_if_expired(&session, now))
    }

    fn end_if_expired(&mut self, session: &Name, now: Stamp) -> Result<()> {
        let stamp = now.max(self.stamper.last() + 1);
        if !self.state.sessions.lock().end(session.as_str(), stamp) {
            return Ok(());
        }
        let mut overlay = self.overlay.take().unwrap_or_default();
        let removed = self.session_context(stamp).remove(&mut overlay, session, true);
        let due = removed.and_then(|_| self.derive_effects(&mut overlay));
        let done = due.and_then(|due| {
            self.commit(&overlay, stamp, b"")?;
            self.schedule_expiry(due);
            Ok(())
        });
        overlay.clear();
        self.overlay = Some(overlay);
        done
    }

    /// Decides whether the request is executed, repeated or refused. Any valid request renews the
    /// session's lease.
    fn judge(&self, request: &SessionRequest, now: Stamp) -> Result<Verdict> {
        let mut table = self.state.sessions.lock();
        let row = table.live_mut(request.session.as_str(), now);
        let row = row.ok_or_else(|| expired(&request.session))?;
        if !row.is_in(request.epoch) {
            return Err(taken(&request.session));
        }
        row.renew(now);
        let verdict = row.slots.ledger.judge(request.request_id);
        let mark = row.slots.ledger.mark();
        let figures = &self.state.figures.sessions;
        match verdict {
            Verdict::Evicted => {
                figures.evicted.add(1);
                Err(evicted(request, mark))
            }
            Verdict::Repeat => {
                figures.repeated.fetch_add(1, Ordering::Relaxed);
                Ok(verdict)
            }
            Verdict::Execute => Ok(verdict),
        }
    }

    /// Returns the stored response of the request.
    fn repeat(&self, request: &SessionRequest) -> Result<Executed> {
        let slot = {
            let table = self.state.sessions.lock();
            let row = table.row(request.session.as_str());
            row.and_then(|row| row.slots.ledger.response(request.request_id))
                .map(|place| place.slot)
        };
        let SessionRequest { session, request_id, .. } = request;
        let told = slot
            .map(|slot| repeated(&self.state.index, session, *request_id, slot, NEWEST))
            .transpose()?;
        told.flatten().ok_or_else(damaged)
    }

    /// Runs the transaction. An error about the machine, and not about the request, is not stored as
    /// its answer.
    fn attempt(
        &mut self,
        submitted: &PreparedTransaction,
        stamp: Stamp,
        overlay: &mut WriteSet,
    ) -> Result<RequestOutcome> {
        let transaction = &submitted.transaction;
        let done = check_limits(transaction)
            .and_then(|()| self.apply(submitted, stamp, overlay))
            .and_then(|receipt| self.derive_effects(overlay).map(|due| (receipt, due)));
        match done {
            Ok((receipt, due)) => {
                self.schedule_expiry(due_of(transaction, due));
                Ok(Ok(Receipt { revision: self.next, ..receipt }))
            }
            Err(error) if is_answer(&error) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Stores the answer and commits it with the transaction's effects. An error is committed alone.
    fn answer(
        &mut self,
        request: &SessionRequest,
        done: RequestOutcome,
        stamp: Stamp,
        overlay: &mut WriteSet,
    ) -> Result<Executed> {
        let mut bytes = std::mem::take(&mut self.response);
        let done = encode(done, &mut bytes)?;
        if done.is_err() {
            self.count_large(overlay);
            overlay.clear();
        }
        let kept = self.keep_response(request, &bytes, stamp, overlay);
        self.response = bytes;
        kept?;
        let revision = self.next;
        self.commit(overlay, stamp, b"")?;
        self.state.figures.sessions.executed.add(1);
        Ok(Executed { revision, answer: done })
    }

    fn keep_response(
        &self,
        request: &SessionRequest,
        bytes: &[u8],
        stamp: Stamp,
        overlay: &mut WriteSet,
    ) -> Result<()> {
        if fault_points::is(InjectedFault::ResponseForgotten) {
            return Ok(());
        }
        let SessionRequest { session, request_id, lowest_pending, .. } = request;
        let SlotPlan { mark, slot, shared, drop } = {
            let table = self.state.sessions.lock();
            let row = table.row(session.as_str()).ok_or_else(|| expired(session))?;
            row.slots.plan(*request_id, *lowest_pending, bytes.len())
        };
        let index = &self.state.index;
        let key = part_key(session, Part::Slot(slot));
        let hash = index.current.hash(&key);
        let newest = Response { request_id: *request_id, revision: self.next, stamp, bytes };
        let (start, ()) = overlay.stage(|out| {
            if shared {
                index
                    .entry(hash, &key, NEWEST, false, |entry| {
                        encode_beside(newest, mark, entry, out)
                    })?
                    .unwrap_or_else(|| Err(damaged()))
            } else {
                slot::encode(mark, once(Ok(newest)), out)
            }
        })?;
        overlay.make_room(start, (drop.len() + 1) * key.len());
        let payload = Payload::Staged(start);
        let write = Write { flags: 0, counter: 1, writes: 1, expires: None, prior: None, payload };
        overlay.write(key, hash, write)?;
        drop_slots(index, overlay, session, &drop)
    }
}

/// Returns the response that a slot holds for a request at a revision; `None` if it holds another
/// request's response.
pub(crate) fn repeated(
    index: &Index,
    session: &Name,
    request_id: u64,
    slot: u16,
    at: Revision,
) -> Result<Option<Executed>> {
    let key = part_key(session, Part::Slot(slot));
    index
        .entry(index.current.hash(&key), &key, at, at != NEWEST, |entry| {
            told(entry, request_id).transpose()
        })?
        .flatten()
        .transpose()
}

fn told(entry: &[u8], request_id: u64) -> Result<Option<Executed>> {
    let (head, payload) = entry::parse(entry)?;
    if head.is_deleted() {
        return Ok(None);
    }
    let (_, mut responses) = slot::split(&head, payload)?;
    let is_it = |response: &Result<Response<'_>>| match response {
        Ok(response) => response.request_id == request_id,
        Err(_) => true,
    };
    let Some(found) = responses.find(is_it) else { return Ok(None) };
    let Response { revision, stamp, bytes, .. } = found?;
    let answer = match response::decode(bytes)? {
        Ok(StoredResponse { held, answers }) => {
            Ok(Receipt { revision, stamp, held, repeated: true, answers })
        }
        Err(error) => Err(error),
    };
    Ok(Some(Executed { revision, answer }))
}

/// Appends the slot's entry with one more response. Responses below the mark are evicted.
fn encode_beside(newest: Response<'_>, mark: u64, entry: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (head, payload) = entry::parse(entry)?;
    let (_, there) = slot::split(&head, payload)?;
    let stays = |response: &Result<Response<'_>>| match response {
        Ok(response) => response.request_id >= mark,
        Err(_) => true,
    };
    slot::encode(mark, once(Ok(newest)).chain(there.filter(stays)), out)
}

/// Encodes the answer into `bytes`. An answer that is too large to be stored becomes an error.
fn encode(done: RequestOutcome, bytes: &mut Vec<u8>) -> Result<RequestOutcome> {
    bytes.clear();
    response::encode(&done, bytes)?;
    if bytes.len() <= KEPT_LIMIT_BYTES {
        return Ok(done);
    }
    let error = Err(too_large(bytes.len()));
    *bytes = Vec::new();
    response::encode(&error, bytes)?;
    Ok(error)
}

/// Returns whether an error is about the request itself, so that it is stored as its final answer.
fn is_answer(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Unavailable
            | ErrorKind::UnknownOutcome
            | ErrorKind::ReadOnly
            | ErrorKind::Corrupt
            | ErrorKind::Closed
    )
}

/// Converts the error of a step. If the step found no session while the requesting session lives, the
/// client must not take the error for one about its own session.
#[cold]
pub(super) fn of_a_step(transaction: &Transaction, error: Error) -> Error {
    match transaction.session() {
        Some(_) if error.code() == Code::SessionExpired => {
            Error::new(Code::SessionNotFound, error.message())
        }
        _ => error,
    }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    let message = format!(
        "the answer has {bytes} bytes, and a session keeps {KEPT_LIMIT_BYTES} at most: nothing was written; ask \
         for less, or outside of the session"
    );
    Error::new(Code::ValueTooLarge, message)
}

#[cold]
fn evicted(request: &SessionRequest, mark: Revision) -> Error {
    let SessionRequest { session, request_id, .. } = request;
    let message = format!(
        "the response of request {request_id} of session `{session}` is gone, as all below {mark} are: if it was \
         executed, that was once, and it is not executed again"
    );
    Error::new(Code::ResponseEvicted, message)
}
