//! Commands on sessions within a transaction.

pub mod bytes;
mod letters;
pub mod response;
pub mod slot;

use crate::apply::outbox::transfer;
use crate::apply::response_slots::ResponseSlots;
use crate::apply::session_table::{LiveSession, SessionTable};
use crate::key::entry::{DELETED, EntryHeader};
use crate::key::keyspace::{Key, MAIN_ID};
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::Index;
use bytes::{Part, Profile, StoredSession, part_key, session_key};
use mainstay_model::{
    Answer, Code, Error, FORMER_KEPT_US, Former, Hold, Name, Result, Revision, SESSION_LEASE_MS,
    SESSION_LIMIT, SessionAnswer, SessionCommand, SessionInfo, SessionPage, Stamp,
};
use parking_lot::Mutex;

/// A page of sessions ends once it exceeds this many bytes.
const LIST_LIMIT_BYTES: usize = 16 << 20;

/// Inputs of commands on sessions.
pub struct SessionContext<'a> {
    pub index: &'a Index,
    pub table: &'a Mutex<SessionTable>,
    /// Stored entries are read as of this revision. The table is of the same revision.
    pub at: Revision,
    pub now: Stamp,
}

/// Runs a command of a transaction on a branch. Requests to clients are stored on the branch, unless branches
/// are served.
pub(crate) fn run_on(
    view: &View<'_>,
    desk: &SessionContext<'_>,
    overlay: &mut WriteSet,
    command: &SessionCommand,
    serves: bool,
) -> Result<Answer> {
    match command {
        SessionCommand::Send { session, payload } if view.branch() != MAIN_ID && !serves => {
            command.check()?;
            desk.keep(view, overlay, session, payload)
        }
        command => run(desk, overlay, command),
    }
}

/// Stores a client request on a branch, for an import.
pub(crate) fn restore(
    view: &View<'_>,
    overlay: &mut WriteSet,
    session: &Name,
    payload: &[u8],
) -> Result<Answer> {
    Ok(answer(SessionAnswer::Kept(transfer::keep_request(view, overlay, session, payload)?)))
}

/// Runs a command.
pub(crate) fn run(
    desk: &SessionContext<'_>,
    overlay: &mut WriteSet,
    command: &SessionCommand,
) -> Result<Answer> {
    command.check()?;
    match command {
        SessionCommand::Open { session, lease_ms, capabilities, hold } => {
            desk.open(overlay, session, (*lease_ms, capabilities), *hold)
        }
        SessionCommand::KeepAlive { session, lowest_pending, epoch } => {
            desk.keep_alive(overlay, session, *lowest_pending, *epoch)
        }
        SessionCommand::Close { session, epoch } => desk.close(overlay, session, *epoch),
        SessionCommand::Send { session, payload } => desk.send(overlay, session, payload),
        SessionCommand::Acknowledge { session, upto, epoch } => {
            desk.acknowledge(overlay, session, *upto, *epoch)
        }
        SessionCommand::Pending { session, after, limit, epoch } => {
            desk.pending(overlay, session, (*after, *limit), *epoch)
        }
        SessionCommand::Retry { sent_before, limit } => desk.retry(overlay, *sent_before, *limit),
        SessionCommand::HasPending { sent_before } => {
            Ok(Answer::Did(desk.table.lock().any_before(*sent_before)))
        }
        SessionCommand::Info { session } => {
            let info = desk.live(overlay, session)?.map(|profile| desk.info(session, &profile));
            Ok(answer(SessionAnswer::Info(info)))
        }
        SessionCommand::List { after, limit } => desk.list(overlay, after.as_deref(), *limit),
        _ => Err(Error::new(Code::Unsupported, "this version does not know that command")),
    }
}

/// Expires sessions whose leases are over, until `limit` keys are touched. Returns the number of touched
/// keys.
pub(crate) fn expire(
    desk: &SessionContext<'_>,
    overlay: &mut WriteSet,
    limit: usize,
) -> Result<usize> {
    // Each session is at least one key.
    let due = desk.table.lock().due(desk.now, limit);
    let mut touched = 0;
    for session in due {
        if touched >= limit {
            break;
        }
        touched += desk.remove(overlay, &session, true)?;
    }
    Ok(touched)
}

/// Writes an entry of a session in place of its previous version.
fn write(
    index: &Index,
    overlay: &mut WriteSet,
    key: Key,
    seen: Option<EntryHeader>,
    flags: u8,
    payload: &[u8],
) -> Result<()> {
    write_until(index, overlay, key, seen, flags, payload, None)
}

fn write_until(
    index: &Index,
    overlay: &mut WriteSet,
    key: Key,
    seen: Option<EntryHeader>,
    flags: u8,
    payload: &[u8],
    expires: Option<Stamp>,
) -> Result<()> {
    let hash = index.current.hash(&key);
    let prior = seen.filter(|head| !head.is_deleted()).and_then(|head| head.expires);
    let counter = seen.map_or(0, |head| head.counter) + 1;
    let payload = Payload::Bytes(payload);
    overlay.write(key, hash, Write { flags, counter, writes: 1, expires, prior, payload })
}

impl SessionContext<'_> {
    /// Reads an entry, own writes first.
    fn find<T>(
        &self,
        overlay: &WriteSet,
        key: &Key,
        mut read: impl FnMut(EntryHeader, &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        let hash = self.index.current.hash(key);
        if let Some(effect) = overlay.find(hash, key) {
            return read(effect.head(0, self.now), overlay.payload(effect)).map(Some);
        }
        let mut parse = |entry: &[u8]| {
            let (head, payload) = crate::key::entry::parse(entry)?;
            read(head, payload)
        };
        self.index.entry(hash, key, self.at, false, &mut parse)?.transpose()
    }

    /// Returns the stored state of a session, with the header of its entry.
    fn standing(
        &self,
        overlay: &WriteSet,
        session: &Name,
    ) -> Result<Option<(EntryHeader, StoredSession)>> {
        let read = |head: EntryHeader, payload: &[u8]| {
            if head.is_live(self.now) {
                Ok((head, Some(StoredSession::decode(payload)?)))
            } else {
                Ok((head, None))
            }
        };
        let found = self.find(overlay, &session_key(session), read)?;
        Ok(found.and_then(|(head, standing)| Some((head, standing?))))
    }

    /// Returns a session whose lease is not over.
    fn live(&self, overlay: &WriteSet, session: &Name) -> Result<Option<Profile>> {
        // A session that this transaction opened is not in the table yet, but then opening is its only
        // command.
        let lives = self.table.lock().live(session.as_str(), self.now).is_some();
        match self.standing(overlay, session)? {
            Some((_, StoredSession::Live(profile))) if lives => Ok(Some(profile)),
            _ => Ok(None),
        }
    }

    /// Returns a session for a request of its client in this epoch, and renews the lease.
    fn heard(&self, overlay: &WriteSet, session: &Name, epoch: Stamp) -> Result<Profile> {
        let profile = self.live(overlay, session)?.ok_or_else(|| expired(session))?;
        check_epoch(session, &profile, epoch)?;
        self.table.lock().renew(session.as_str(), self.now);
        Ok(profile)
    }

    fn write_profile(
        &self,
        overlay: &mut WriteSet,
        session: &Name,
        profile: Profile,
    ) -> Result<()> {
        self.write_standing(overlay, session, &StoredSession::Live(profile), None)
    }

    fn write_standing(
        &self,
        overlay: &mut WriteSet,
        session: &Name,
        standing: &StoredSession,
        expires: Option<Stamp>,
    ) -> Result<()> {
        let key = session_key(session);
        let seen = self.find(overlay, &key, |head, _| Ok(head))?;
        let mut payload = Vec::new();
        standing.encode(&mut payload);
        write_until(self.index, overlay, key, seen, 0, &payload, expires)
    }

    fn open(
        &self,
        overlay: &mut WriteSet,
        session: &Name,
        (lease_ms, capabilities): (Option<u64>, &[(String, String)]),
        hold: Option<Hold>,
    ) -> Result<Answer> {
        if self.live(overlay, session)?.is_some() {
            let profile = self.heard(overlay, session, 0)?;
            return self.take(overlay, session, profile, hold);
        }
        // A session whose lease is over was removed before, so the new one does not inherit its state.
        if self.table.lock().len() >= SESSION_LIMIT {
            let message =
                format!("there are {SESSION_LIMIT} sessions, which is the most: close some");
            return Err(Error::new(Code::TooManySessions, message));
        }
        let former = match self.standing(overlay, session)? {
            Some((_, StoredSession::Gone { former, .. })) => former,
            _ => Former::default(),
        };
        let profile = Profile {
            opened: self.now,
            epoch: self.now,
            nonce: hold.map_or(0, |hold| hold.nonce),
            lease_ms: lease_ms.unwrap_or(SESSION_LEASE_MS),
            mark: former.next_request.max(1),
            last_sent: former.last_letter,
            acked: former.last_letter,
            pending_bytes: 0,
            capabilities: capabilities.to_vec(),
        };
        let info = new_info(session, &profile);
        self.write_profile(overlay, session, profile)?;
        Ok(answer(SessionAnswer::Opened { info, created: true, held: hold.is_some() }))
    }

    /// Returns an existing session. Gives it to a client that wants it exclusively, unless another client was
    /// faster.
    fn take(
        &self,
        overlay: &mut WriteSet,
        session: &Name,
        mut profile: Profile,
        hold: Option<Hold>,
    ) -> Result<Answer> {
        let has = |hold: &Hold| hold.nonce == profile.nonce;
        let (held, takes) = match &hold {
            Some(hold) if has(hold) => (true, false),
            Some(hold) => (hold.over == profile.epoch, hold.over == profile.epoch),
            None => (false, false),
        };
        if let Some(hold) = hold.filter(|_| takes) {
            profile.epoch = self.now;
            profile.nonce = hold.nonce;
            self.write_profile(overlay, session, profile.clone())?;
        }
        let info = self.info(session, &profile);
        Ok(answer(SessionAnswer::Opened { info, created: false, held }))
    }

    fn keep_alive(
        &self,
        overlay: &mut WriteSet,
        session: &Name,
        lowest_pending: u64,
        epoch: Stamp,
    ) -> Result<Answer> {
        self.heard(overlay, session, epoch)?;
        self.raise_mark(overlay, session, lowest_pending)?;
        Ok(Answer::Did(true))
    }

    /// Raises the mark of a session, and evicts the responses below it.
    fn raise_mark(&self, overlay: &mut WriteSet, session: &Name, mark: u64) -> Result<()> {
        let profile = self.live(overlay, session)?.ok_or_else(|| expired(session))?;
        let dropped = match self.table.lock().row(session.as_str()) {
            Some(row) if row.slots.ledger.mark() < mark => row.slots.dropped(mark),
            _ => return Ok(()),
        };
        // The mark is written first, because the dropped slots hold responses that it evicts.
        self.write_profile(overlay, session, Profile { mark, ..profile })?;
        drop_slots(self.index, overlay, session, &dropped)
    }

    fn close(&self, overlay: &mut WriteSet, session: &Name, epoch: Stamp) -> Result<Answer> {
        let live = self.live(overlay, session)?;
        if live.as_ref().is_some_and(|profile| check_epoch(session, profile, epoch).is_err()) {
            // The caller's own session is closed already.
            return Ok(Answer::Did(false));
        }
        self.remove(overlay, session, live.is_none())?;
        Ok(Answer::Did(live.is_some()))
    }

    /// Removes everything of a session except its numbers. Returns the number of touched keys.
    pub fn remove(&self, overlay: &mut WriteSet, session: &Name, expired: bool) -> Result<usize> {
        let (former, parts) = match self.table.lock().row(session.as_str()) {
            Some(row) => (row.former(), parts(row)),
            None => return Ok(0),
        };
        for &part in &parts {
            let key = part_key(session, part);
            let seen = self.find(overlay, &key, |head, _| Ok(head))?;
            write(self.index, overlay, key, seen, DELETED, b"")?;
        }
        let gone = StoredSession::Gone { expired, former };
        self.write_standing(overlay, session, &gone, Some(self.now + FORMER_KEPT_US))?;
        Ok(parts.len() + 1)
    }

    fn info(&self, session: &Name, profile: &Profile) -> SessionInfo {
        match self.table.lock().row(session.as_str()) {
            Some(row) => row_info(session, profile, row),
            None => new_info(session, profile),
        }
    }

    fn list(&self, overlay: &WriteSet, after: Option<&str>, limit: usize) -> Result<Answer> {
        let names: Vec<Name> = self
            .table
            .lock()
            .after(after)
            .filter(|(_, row)| row.expires > self.now)
            .map(|(name, _)| name.clone())
            .take(limit + 1)
            .collect();
        let mut page = SessionPage::default();
        let mut bytes = 0;
        for name in &names {
            let Some(profile) = self.live(overlay, name)? else { continue };
            if page.sessions.len() == limit || bytes > LIST_LIMIT_BYTES {
                page.next = page.sessions.last().map(|last| last.session.as_str().to_owned());
                break;
            }
            page.sessions.push(self.info(name, &profile));
            bytes += page.sessions.last().map_or(0, SessionInfo::weight_bytes);
        }
        Ok(answer(SessionAnswer::List(page)))
    }
}

/// Deletes the slots of evicted responses.
pub(crate) fn drop_slots(
    index: &Index,
    overlay: &mut WriteSet,
    session: &Name,
    slots: &[u16],
) -> Result<()> {
    for &slot in slots {
        write(index, overlay, part_key(session, Part::Slot(slot)), None, DELETED, b"")?;
    }
    Ok(())
}

fn parts(row: &LiveSession) -> Vec<Part> {
    let slots = row.slots.all().map(Part::Slot);
    slots.chain(row.mailbox.iter().map(|(number, _)| Part::Letter(number))).collect()
}

/// Returns the description of a session that was just opened.
fn new_info(session: &Name, profile: &Profile) -> SessionInfo {
    info_of(
        session,
        profile,
        profile.opened + profile.lease_ms * 1000,
        &ResponseSlots::from(profile.mark),
    )
}

fn row_info(session: &Name, profile: &Profile, row: &LiveSession) -> SessionInfo {
    info_of(session, profile, row.expires, &row.slots)
}

fn info_of(
    session: &Name,
    profile: &Profile,
    expires: Stamp,
    slots: &ResponseSlots,
) -> SessionInfo {
    let ledger = &slots.ledger;
    SessionInfo {
        session: session.clone(),
        opened: profile.opened,
        epoch: profile.epoch,
        lease_ms: profile.lease_ms,
        expires,
        capabilities: profile.capabilities.clone(),
        next_request: ledger.next_request(),
        mark: ledger.mark(),
        kept: ledger.len() as u64,
        kept_bytes: ledger.kept_bytes() as u64,
        last_sent: profile.last_sent,
        pending: profile.last_sent - profile.acked,
    }
}

fn answer(answer: SessionAnswer) -> Answer {
    Answer::Session(Box::new(answer))
}

/// Refuses a request of another epoch of the session.
fn check_epoch(session: &Name, profile: &Profile, epoch: Stamp) -> Result<()> {
    if epoch == 0 || epoch == profile.epoch { Ok(()) } else { Err(taken(session)) }
}

/// Returns the error for a client that lost the session to another one. For that client the session is over.
#[cold]
pub(crate) fn taken(session: &Name) -> Error {
    let message = format!(
        "session `{session}` was taken by another client, or opened anew: nothing was executed; one name is for one \
         client at a time"
    );
    Error::new(Code::SessionExpired, message)
}

#[cold]
pub(crate) fn expired(session: &Name) -> Error {
    let message = format!(
        "there is no session `{session}`, or its lease is over: nothing was executed; open one and send what is \
         still wanted with new numbers"
    );
    Error::new(Code::SessionExpired, message)
}
