//! Table of a machine's sessions with their ledgers, mailboxes and leases.

use super::faults::{Fault, planted};
use super::formers::Formers;
use super::input::check_letter;
use super::limits::Limits;
use super::output::ServerRequest;
use super::reply::Reply;
use mainstay_model::{Code, Error, Name, Result, SessionInfo, Stamp};
use mainstay_model::{Former, Ledger, Mailbox, Retries};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request to a client before it gets a number.
pub(super) type Unsent = (Name, Arc<[u8]>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) opened: Stamp,
    pub(super) lease_ms: u64,
    pub(super) expires: Stamp,
    pub(super) capabilities: Vec<(String, String)>,
    pub(super) ledger: Ledger<Reply>,
    pub(super) mailbox: Mailbox<Arc<[u8]>>,
    pub(super) mailbox_bytes: usize,
}

impl Session {
    /// Creates a session that begins now and continues the numbers of a former one of its name.
    pub(super) fn new(
        now: Stamp,
        lease_ms: u64,
        capabilities: Vec<(String, String)>,
        former: Former,
    ) -> Session {
        let ledger = Ledger::from(former.next_request);
        let mailbox = Mailbox::from(former.last_letter);
        let opened = now;
        let expires = now;
        let mailbox_bytes = 0;
        let mut session =
            Session { opened, lease_ms, expires, capabilities, ledger, mailbox, mailbox_bytes };
        session.renew(now);
        session
    }

    /// Returns whether the lease has not expired. In the microsecond of its expiry a session is no longer
    /// live.
    pub(super) fn is_live(&self, now: Stamp) -> bool {
        now < self.expires
    }

    pub(super) fn renew(&mut self, now: Stamp) {
        self.expires = now.saturating_add(self.lease_ms.saturating_mul(1_000));
    }

    /// The numbers to remember when the session is removed.
    pub(super) fn former(&self) -> Former {
        let next_request = self.ledger.beyond();
        let last_letter = self.mailbox.last();
        Former { next_request, last_letter }
    }

    pub(super) fn info(&self, name: &Name) -> SessionInfo {
        SessionInfo {
            session: name.clone(),
            opened: self.opened,
            epoch: self.opened,
            lease_ms: self.lease_ms,
            expires: self.expires,
            capabilities: self.capabilities.clone(),
            next_request: self.ledger.next_request(),
            mark: self.ledger.mark(),
            kept: self.ledger.len() as u64,
            kept_bytes: self.ledger.kept_bytes() as u64,
            last_sent: self.mailbox.last(),
            pending: self.mailbox.len() as u64,
        }
    }
}

/// All sessions, and the numbers of removed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sessions {
    by_name: BTreeMap<Name, Session>,
    retries: Retries,
    pub(super) formers: Formers,
}

impl Sessions {
    /// Returns a session whose lease has not expired.
    pub(super) fn live_entry(&self, name: &Name, now: Stamp) -> Option<(&Name, &Session)> {
        self.by_name.get_key_value(name).filter(|(_, session)| session.is_live(now))
    }

    pub(super) fn live_mut(&mut self, name: &Name, now: Stamp) -> Option<&mut Session> {
        self.by_name.get_mut(name).filter(|session| session.is_live(now))
    }

    /// Returns a session, even if its lease has expired and it has not been ended.
    pub(super) fn get_mut(&mut self, name: &Name) -> Option<&mut Session> {
        self.by_name.get_mut(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Session)> {
        self.by_name.iter()
    }

    pub(super) fn behind(&self, name: &Name) -> impl Iterator<Item = (&Name, &Session)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.by_name.range::<Name, _>((Excluded(name), Unbounded))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.by_name.values_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Inserts a session and registers its unacknowledged requests for retries.
    pub(super) fn insert(&mut self, name: Name, session: Session) {
        for (id, letter) in session.mailbox.iter() {
            self.retries.put(letter.sent, &name, id);
        }
        self.by_name.insert(name, session);
    }

    /// Removes a session and unregisters its requests.
    pub(super) fn remove(&mut self, name: &Name) -> Option<Session> {
        let session = self.by_name.remove(name)?;
        for (id, letter) in session.mailbox.iter() {
            self.retries.take(letter.sent, name, id);
        }
        Some(session)
    }

    /// Rejects requests to clients that are too large or exceed the mailbox limits, all or none.
    pub(super) fn check_room(&self, now: Stamp, unsent: &[Unsent], limits: &Limits) -> Result<()> {
        let mut added: BTreeMap<&Name, (usize, usize)> = BTreeMap::new();
        for (name, payload) in unsent {
            check_letter(payload)?;
            let Some((name, session)) = self.live_entry(name, now) else { continue };
            let (count, bytes) =
                added.entry(name).or_insert((session.mailbox.len(), session.mailbox_bytes));
            *count += 1;
            *bytes += payload.len();
            if *count > limits.mailbox || *bytes > limits.mailbox_bytes {
                return Err(mailbox_full(name, limits));
            }
        }
        Ok(())
    }

    /// Adds a request to a mailbox; `None` if the session does not exist.
    pub(super) fn post(&mut self, now: Stamp, (name, payload): Unsent) -> Option<ServerRequest> {
        let session = self.by_name.get_mut(&name).filter(|session| session.is_live(now))?;
        session.mailbox_bytes += payload.len();
        let id = session.mailbox.put(now, Arc::clone(&payload));
        self.retries.put(now, &name, id);
        Some(ServerRequest { session: name, id, payload })
    }

    /// Removes the acknowledged requests from a mailbox. Returns their number.
    pub(super) fn acknowledge(&mut self, name: &Name, upto: u64) -> u64 {
        let Some(session) = self.by_name.get_mut(name) else { return 0 };
        let mut count = 0;
        for (id, letter) in session.mailbox.acknowledge(upto) {
            session.mailbox_bytes -= letter.payload.len();
            self.retries.take(letter.sent, name, id);
            count += 1;
        }
        if planted(Fault::LetterNumberReused) && count > 0 && session.mailbox.is_empty() {
            session.mailbox = Mailbox::from(session.mailbox.last() - 1);
        }
        count
    }

    /// Returns whether an unacknowledged request was sent strictly before a time. It runs in constant time.
    pub(super) fn any_sent_before(&self, sent_before: Stamp) -> bool {
        self.retries.any_before(sent_before)
    }

    /// Marks requests as sent now, the oldest first, and returns them. The flag is true if more remain.
    pub(super) fn retry(
        &mut self,
        now: Stamp,
        sent_before: Stamp,
        limit: usize,
    ) -> (Vec<ServerRequest>, bool) {
        let sent_before = sent_before.saturating_add(u64::from(planted(Fault::RetryNotStrict)));
        let due = self.retries.before(sent_before);
        let due = due.filter(|(_, name, _)| self.live_entry(name, now).is_some());
        // One more than the limit shows whether more remain.
        let mut due: Vec<_> =
            due.map(|(sent, name, id)| (sent, name.clone(), id)).take(limit + 1).collect();
        let more = due.len() > limit;
        due.truncate(limit);
        (due.into_iter().filter_map(|due| self.resend(now, due)).collect(), more)
    }

    fn resend(
        &mut self,
        now: Stamp,
        (sent, session, id): (Stamp, Name, u64),
    ) -> Option<ServerRequest> {
        let letter = self.by_name.get_mut(&session)?.mailbox.letter_mut(id)?;
        letter.sent = now;
        let payload = Arc::clone(&letter.payload);
        self.retries.take(sent, &session, id);
        self.retries.put(now, &session, id);
        Some(ServerRequest { session, id, payload })
    }
}

#[cold]
fn mailbox_full(name: &Name, limits: &Limits) -> Error {
    let message = format!(
        "the client of session `{name}` has not acknowledged what it was sent: {} requests and {} bytes are the most",
        limits.mailbox, limits.mailbox_bytes
    );
    Error::new(Code::MailboxFull, message)
}
