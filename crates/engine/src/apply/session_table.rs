//! In-memory table of sessions: mirrors the stored sessions and adds their leases, which are not stored.
//!
//! ```text
//!   effects --absorb--> slots, mailboxes           on commit, and for all stored sessions on load
//!   client requests --renew--> leases              not stored: they restart when a database is opened
//! ```
//!
//! The table is ahead of the published revision, as the writer is. Only the writer's answers depend on it.

use crate::apply::response_slots::ResponseSlots;
use crate::apply::sessions::bytes::{Part, Profile, StoredSession, damaged, split_part};
use crate::apply::sessions::slot;
use crate::base::metrics::SessionCounters;
use crate::key::entry::EntryHeader;
use crate::key::keyspace::{self, MAIN_ID, SESSION_DATA, SESSIONS};
use crate::storage::index::Index;
use hashbrown::HashMap;
use mainstay_model::{Former, Letter, Mailbox, Name, Result, Retries, Revision, Stamp};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Maximal number of renewed leases checked in one go, because the writer waits for it.
const RENEWED_LIMIT: usize = 10_000;

/// All open sessions.
#[derive(Default)]
pub struct SessionTable {
    /// Boxed, because a hash table is half empty after it has grown.
    all: HashMap<Name, Box<LiveSession>>,
    /// The names of all sessions, in order.
    names: BTreeSet<Name>,
    /// Times at which leases are checked. Renewing a lease does not move its timer, which then fires once in
    /// vain.
    timers: BTreeSet<(Stamp, Name)>,
    retries: Retries,
}

/// The change of a session by an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    None,
    Opened,
    Closed,
    Expired,
}

impl SessionChange {
    pub fn count(self, counts: &SessionCounters) {
        match self {
            SessionChange::None => {}
            SessionChange::Opened => counts.opened.add(1),
            SessionChange::Closed => counts.closed.add(1),
            SessionChange::Expired => counts.expired.add(1),
        }
    }
}

/// An open session.
pub struct LiveSession {
    lease_us: u64,
    /// The session expires at this time, unless its client renews the lease. 0: it has expired.
    pub expires: Stamp,
    /// Time at which the current client took the session.
    epoch: Stamp,
    /// Time of the next check of the lease.
    timer: Stamp,
    pub slots: ResponseSlots,
    pub mailbox: Mailbox<()>,
}

impl LiveSession {
    /// Renews the lease, after a request of the client.
    pub fn renew(&mut self, now: Stamp) {
        if self.expires != 0 {
            self.expires = self.expires.max(now + self.lease_us);
        }
    }

    /// Returns whether the lease is over, and marks it as expired if so. A thread that read the clock earlier
    /// must not renew the session while it is being removed.
    fn end(&mut self, now: Stamp) -> bool {
        let is_over = self.expires <= now;
        if is_over {
            self.expires = 0;
        }
        is_over
    }

    /// Returns whether a request of an epoch is meant for this session. 0 matches any epoch.
    pub fn is_in(&self, epoch: Stamp) -> bool {
        epoch == 0 || epoch == self.epoch
    }

    /// Returns the numbers that are remembered when the session is closed.
    pub fn former(&self) -> Former {
        Former { next_request: self.slots.ledger.beyond(), last_letter: self.mailbox.last() }
    }
}

impl SessionTable {
    /// Loads the table from its key spaces as of a revision. Leases begin now.
    pub fn load(index: &Index, at: Revision, now: Stamp) -> Result<SessionTable> {
        let mut table = SessionTable::default();
        for space in [SESSIONS, SESSION_DATA] {
            let from = keyspace::key(space, MAIN_ID, b"");
            let to = keyspace::key(space + 1, MAIN_ID, b"");
            for row in index.scan(Bound::Included(&from), Bound::Excluded(&to), at) {
                let row = row?;
                let (head, payload) = crate::key::entry::parse(row.entry())?;
                table.absorb(row.key(), &head, payload, now)?;
            }
        }
        Ok(table)
    }

    /// Returns whether the table mirrors a key space.
    #[inline]
    pub fn concerns(space: u8) -> bool {
        matches!(space, SESSIONS | SESSION_DATA)
    }

    /// Applies an effect. Returns the change of the session.
    pub fn absorb(
        &mut self,
        key: &[u8],
        head: &EntryHeader,
        payload: &[u8],
        now: Stamp,
    ) -> Result<SessionChange> {
        let (space, _, name) = keyspace::split(key).ok_or_else(damaged)?;
        if space == SESSIONS {
            let name = std::str::from_utf8(name).map_err(|_| damaged())?;
            return self.absorb_session(Name::new(name)?, head, payload, now);
        }
        let (session, part) = split_part(name).ok_or_else(damaged)?;
        // Parts of a closed session were removed with its row.
        let Some(row) = self.all.get_mut(session) else { return Ok(SessionChange::None) };
        match part {
            Part::Slot(slot) if head.is_deleted() => row.slots.remove(slot),
            Part::Slot(number) => {
                let (mark, responses) = slot::split(head, payload)?;
                responses.clone().try_for_each(|response| response.map(|_| ()))?;
                let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let responses = responses.flatten().map(|of| (of.request_id, size(of.bytes)));
                row.slots.raise(mark);
                row.slots.put(number, responses);
            }
            // Acknowledgments are applied by the session's own entry.
            Part::Letter(_) if head.is_deleted() => {}
            Part::Letter(number) if number > row.mailbox.last() => {
                row.mailbox.put(head.stamp, ());
                self.retries.put(head.stamp, &Name::new(session)?, number);
            }
            Part::Letter(_) => {}
        }
        Ok(SessionChange::None)
    }

    fn absorb_session(
        &mut self,
        name: Name,
        head: &EntryHeader,
        payload: &[u8],
        now: Stamp,
    ) -> Result<SessionChange> {
        if head.is_deleted() {
            // The numbers of the closed session are no longer remembered.
            self.remove(&name);
            return Ok(SessionChange::None);
        }
        match StoredSession::decode(payload)? {
            StoredSession::Live(profile) => Ok(self.stand(name, &profile, now)),
            StoredSession::Gone { expired, .. } => {
                self.remove(&name);
                Ok(if expired { SessionChange::Expired } else { SessionChange::Closed })
            }
        }
    }

    fn stand(&mut self, name: Name, profile: &Profile, now: Stamp) -> SessionChange {
        let Some(row) = self.all.get_mut(&name) else {
            self.add(name, profile, now);
            return SessionChange::Opened;
        };
        row.epoch = profile.epoch;
        row.slots.raise(profile.mark);
        for (number, Letter { sent, .. }) in row.mailbox.acknowledge(profile.acked) {
            self.retries.take(sent, &name, number);
        }
        // A message that is sent and acknowledged in one transaction was never added here.
        row.mailbox.advance(profile.acked);
        SessionChange::None
    }

    fn add(&mut self, name: Name, profile: &Profile, now: Stamp) {
        let lease_us = profile.lease_ms * 1000;
        let expires = now + lease_us;
        let epoch = profile.epoch;
        let slots = ResponseSlots::from(profile.mark);
        let mailbox = Mailbox::from(profile.acked);
        self.timers.insert((expires, name.clone()));
        self.names.insert(name.clone());
        let row = LiveSession { lease_us, expires, epoch, timer: expires, slots, mailbox };
        self.all.insert(name, Box::new(row));
    }

    fn remove(&mut self, name: &Name) {
        let Some(mut row) = self.all.remove(name) else { return };
        self.names.remove(name);
        self.timers.remove(&(row.timer, name.clone()));
        for (number, Letter { sent, .. }) in row.mailbox.acknowledge(u64::MAX - 1) {
            self.retries.take(sent, name, number);
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns a session whose lease is not over.
    pub fn live(&self, session: &str, now: Stamp) -> Option<&LiveSession> {
        self.row(session).filter(|row| row.expires > now)
    }

    /// Returns a session whose lease is not over, for a change.
    pub fn live_mut(&mut self, session: &str, now: Stamp) -> Option<&mut LiveSession> {
        self.all.get_mut(session).map(|row| &mut **row).filter(|row| row.expires > now)
    }

    /// Returns a session, even if its lease is over.
    pub fn row(&self, session: &str) -> Option<&LiveSession> {
        self.all.get(session).map(|row| &**row)
    }

    /// Renews the lease of a session, after a request of its client.
    pub fn renew(&mut self, session: &str, now: Stamp) {
        if let Some(row) = self.all.get_mut(session) {
            row.renew(now);
        }
    }

    /// Returns the sessions after one of them, ordered by name.
    pub fn after(&self, session: Option<&str>) -> impl Iterator<Item = (&Name, &LiveSession)> {
        let from = session.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.names.range::<str, _>((from, Bound::Unbounded));
        names.filter_map(|name| self.all.get_key_value(name).map(|(name, row)| (name, &**row)))
    }

    /// Returns up to `limit` sessions whose leases are over, earliest first, and marks them as expired, so
    /// that they cannot be renewed. Resets the timers of renewed sessions.
    pub fn due(&mut self, now: Stamp, limit: usize) -> Vec<Name> {
        let mut due = Vec::new();
        let mut renewed = Vec::new();
        for (at, name) in self.timers.iter().take_while(|(at, _)| *at <= now) {
            if due.len() == limit || renewed.len() == RENEWED_LIMIT {
                break;
            }
            let Some(row) = self.all.get_mut(name) else { continue };
            if row.end(now) {
                due.push(name.clone());
            } else {
                renewed.push((*at, name.clone(), row.expires));
                row.timer = row.expires;
            }
        }
        for (at, name, expires) in renewed {
            self.timers.remove(&(at, name.clone()));
            self.timers.insert((expires, name));
        }
        due
    }

    /// Marks a session as expired if its lease is over, so that it cannot be renewed. Returns whether it is
    /// over.
    pub fn end(&mut self, session: &str, now: Stamp) -> bool {
        self.all.get_mut(session).is_some_and(|row| row.end(now))
    }

    /// Returns the number of pending messages of all clients.
    pub fn letters(&self) -> usize {
        self.retries.len()
    }

    /// Returns the time of the next check of a lease.
    pub fn next_due(&self) -> Option<Stamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns whether a message that was sent before this time is pending.
    pub fn any_before(&self, sent_before: Stamp) -> bool {
        self.retries.any_before(sent_before)
    }

    /// Returns the pending messages that were sent before this time, oldest first.
    pub fn before(&self, sent_before: Stamp) -> impl Iterator<Item = (Stamp, &Name, u64)> {
        self.retries.before(sent_before)
    }

    /// Records that a message is sent again.
    pub fn sent(&mut self, session: &Name, number: u64, now: Stamp) {
        let letter = self.all.get_mut(session).and_then(|row| row.mailbox.letter_mut(number));
        let Some(letter) = letter else { return };
        self.retries.take(letter.sent, session, number);
        letter.sent = now;
        self.retries.put(now, session, number);
    }

    /// Returns the totals of all sessions: stored responses, their bytes, pending messages.
    pub fn totals(&self) -> (u64, u64, u64) {
        let add = |(kept, bytes, letters), row: &LiveSession| {
            let count = row.slots.ledger.len() as u64;
            let size = row.slots.ledger.kept_bytes() as u64;
            (kept + count, bytes + size, letters + row.mailbox.len() as u64)
        };
        self.all.values().map(|row| &**row).fold((0, 0, 0), add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns sessions with leases of 1, 2, 3 ... milliseconds.
    fn table(sessions: u64) -> SessionTable {
        let mut table = SessionTable::default();
        for n in 1..=sessions {
            let profile = Profile { lease_ms: n, ..Profile::default() };
            table.add(Name::new(&format!("s{n}")).unwrap(), &profile, 0);
        }
        table
    }

    fn names(due: &[Name]) -> Vec<&str> {
        due.iter().map(Name::as_str).collect()
    }

    #[test]
    fn those_whose_leases_are_over_come_in_order_and_no_more_than_asked_for() {
        let mut table = table(5);
        table.renew("s2", 1_500);
        assert_eq!(names(&table.due(3_200, 1)), ["s1"]);
        assert_eq!(names(&table.due(3_200, 9)), ["s1", "s3"], "until they are removed");
        assert_eq!(table.next_due(), Some(1_000));
        for name in ["s1", "s3"] {
            table.remove(&Name::new(name).unwrap());
        }
        assert_eq!((table.next_due(), table.len()), (Some(3_500), 3), "as it was renewed");
    }

    #[test]
    fn nobody_brings_back_what_has_expired() {
        let mut table = table(2);
        assert!(!table.end("s1", 999) && table.end("s1", 1_000));
        // A thread that read the clock before gets the lock only now.
        assert!(table.live_mut("s1", 999).is_none());
        table.renew("s1", 999);
        assert!(table.live("s1", 999).is_none());
        assert_eq!(names(&table.due(2_000, 9)), ["s1", "s2"]);
        assert!(table.live("s2", 1_999).is_none());
    }
}
