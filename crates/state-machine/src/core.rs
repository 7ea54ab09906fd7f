//! The machine's state and all operations that do not call user code.

use super::counters::Counters;
use super::faults::{Fault, planted};
use super::limits::Limits;
use super::output::{Answer, Output, ServerRequest};
use super::reply::Reply;
use super::sessions::{Session, Sessions, Unsent};
use super::state::UserState;
use mainstay_model::{Code, Error, Name, Result, SessionRequest, Stamp};
use mainstay_model::{Ledger, Verdict, Weighed};
use std::sync::Arc;

/// The complete state of a machine. User code may write only the user's state, and sees of the sessions only
/// the parts in [`Context`](super::Context).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Core {
    /// The timestamp of the last entry.
    pub(super) clock: Stamp,
    pub(super) limits: Limits,
    pub(super) counters: Counters,
    pub(super) sessions: Sessions,
    pub(super) state: UserState,
}

impl Core {
    /// Advances the clock to an entry's time. It never goes back, even if the entry's clock did.
    pub(super) fn advance(&mut self, now: Stamp) -> Stamp {
        self.clock = self.clock.max(now);
        self.clock
    }

    /// Decides about a request. Returns its stored reply for a retry, `None` if it must be executed, or an
    /// error if it is refused. In a live session it renews the lease in every case.
    pub(super) fn judge(&mut self, now: Stamp, request: &SessionRequest) -> Result<Option<Reply>> {
        let SessionRequest { session: name, request_id, epoch, .. } = request;
        if planted(Fault::ExpiredExecutes) {
            self.sessions.get_mut(name).into_iter().for_each(|session| session.renew(now));
        }
        let session = self.heard_in(now, name, *epoch)?;
        match session.ledger.judge(*request_id) {
            Verdict::Execute => Ok(None),
            Verdict::Repeat => {
                let reply = session.ledger.response(*request_id).cloned();
                self.counters.repeated += 1;
                Ok(reply)
            }
            Verdict::Evicted => {
                let mark = session.ledger.mark();
                self.counters.too_late += 1;
                Err(evicted(name, *request_id, mark))
            }
        }
    }

    /// Stores the reply of a request. Evicts the responses that the client has received or that exceed the
    /// limits.
    pub(super) fn keep(&mut self, request: &SessionRequest, reply: Reply) {
        let SessionRequest { session, request_id, lowest_pending, .. } = request;
        let lowest_pending = if planted(Fault::LowestPendingIgnored) { 0 } else { *lowest_pending };
        let limits = self.limits.kept;
        let Some(Session { ledger, .. }) = self.sessions.get_mut(session) else { return };
        if planted(Fault::AbortNotKept) && matches!(reply, Reply::Aborted(_)) {
            return;
        }
        let mut mark = ledger.mark_after(*request_id, lowest_pending, reply.bytes(), limits);
        if planted(Fault::EvictionOffByOne) && mark > ledger.mark() {
            mark += 1;
        }
        let before = ledger.len() + 1;
        // Raise the mark first: a reply below the new mark is not stored.
        ledger.raise(mark);
        ledger.keep(*request_id, reply);
        self.counters.evicted += (before - ledger.len()) as u64;
    }

    pub(super) fn keep_alive(&mut self, now: Stamp, name: &Name, lowest: u64) -> Result<Answer> {
        let Session { ledger, .. } = self.heard(now, name)?;
        if planted(Fault::MarkLowered) && lowest > 0 && lowest < ledger.mark() {
            let mut lowered = Ledger::from(lowest);
            ledger.iter().for_each(|(id, reply)| lowered.keep(id, reply.clone()));
            *ledger = lowered;
        }
        let before = ledger.len();
        ledger.raise(lowest);
        let evicted = before - ledger.len();
        self.counters.evicted += evicted as u64;
        Ok(Answer::Done)
    }

    pub(super) fn acknowledge(&mut self, now: Stamp, name: &Name, upto: u64) -> Result<Answer> {
        self.heard(now, name)?;
        let count = self.sessions.acknowledge(name, upto);
        self.counters.acknowledged += count;
        Ok(Answer::Acknowledged(count))
    }

    pub(super) fn send(&mut self, now: Stamp, name: &Name, payload: &[u8]) -> Output {
        let unsent = vec![(name.clone(), Arc::from(payload))];
        if let Err(error) = self.sessions.check_room(now, &unsent, &self.limits) {
            return Output::new(Err(error));
        }
        let requests = self.post(now, unsent);
        Output { answer: Ok(Answer::Sent(requests.first().map(|sent| sent.id))), requests }
    }

    /// Adds requests to mailboxes. The caller has checked the limits before.
    pub(super) fn post(&mut self, now: Stamp, unsent: Vec<Unsent>) -> Vec<ServerRequest> {
        let count = unsent.len();
        let posted = unsent.into_iter().filter_map(|letter| self.sessions.post(now, letter));
        let posted: Vec<_> = posted.collect();
        self.counters.sent += posted.len() as u64;
        self.counters.dropped += (count - posted.len()) as u64;
        posted
    }

    pub(super) fn retry(&mut self, now: Stamp, sent_before: Stamp, limit: usize) -> Output {
        let (requests, more) = self.sessions.retry(now, sent_before, limit);
        self.counters.retried += requests.len() as u64;
        Output { answer: Ok(Answer::Retried { more }), requests }
    }

    pub(super) fn renew_leases(&mut self, before: Stamp, now: Stamp) -> Answer {
        // The client of a session that had expired by the last entry may know that already, so the session
        // stays expired.
        let lived = self.sessions.values_mut().filter(|session| session.is_live(before));
        lived.for_each(|session| session.renew(now));
        Answer::Done
    }

    pub(super) fn set_limits(&mut self, now: Stamp, limits: Limits) -> Answer {
        self.limits = limits;
        for Session { ledger, .. } in self.sessions.values_mut() {
            let before = ledger.len();
            ledger.raise(ledger.mark_within(limits.kept));
            self.counters.evicted += (before - ledger.len()) as u64;
        }
        self.sessions.formers.forget(now, limits.formers);
        Answer::Done
    }

    /// Removes a session and remembers its numbers.
    pub(super) fn remove(&mut self, now: Stamp, name: &Name) -> Option<Session> {
        let session = self.sessions.remove(name)?;
        if planted(Fault::NeighbourTaken) {
            let neighbours = self.sessions.iter().map(|(name, _)| name);
            let neighbours: Vec<Name> = neighbours
                .filter(|other| other.as_str().starts_with(name.as_str()))
                .cloned()
                .collect();
            neighbours.iter().for_each(|name| drop(self.sessions.remove(name)));
        }
        if !planted(Fault::FormerForgotten) {
            self.sessions.formers.put(name, now, session.former());
        }
        self.sessions.formers.forget(now, self.limits.formers);
        Some(session)
    }

    /// Finds a live session and renews its lease, because its client sent a message.
    fn heard(&mut self, now: Stamp, name: &Name) -> Result<&mut Session> {
        self.heard_in(now, name, 0)
    }

    /// Finds the live session of this epoch (0: of any) and renews its lease.
    fn heard_in(&mut self, now: Stamp, name: &Name, epoch: Stamp) -> Result<&mut Session> {
        match self
            .sessions
            .live_mut(name, now)
            .filter(|session| epoch == 0 || epoch == session.opened)
        {
            Some(session) => {
                session.renew(now);
                Ok(session)
            }
            None => {
                self.counters.strangers += 1;
                Err(no_session(name))
            }
        }
    }
}

#[cold]
fn no_session(name: &Name) -> Error {
    let message = format!("session `{name}` has expired, or there was none: open one");
    Error::new(Code::SessionExpired, message)
}

#[cold]
fn evicted(name: &Name, request_id: u64, mark: u64) -> Error {
    let message = format!(
        "session `{name}`: the response to request {request_id} is gone, as all below {mark} are: it is not executed again"
    );
    Error::new(Code::ResponseEvicted, message)
}
