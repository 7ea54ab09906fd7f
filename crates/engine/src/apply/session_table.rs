//! The table of sessions: a picture in memory of what is stored of them, with what is not.
//!
//! ```text
//!   effects --absorb--> slots, mailboxes           when they are committed, and of all there are when it is loaded
//!   words of clients --renew--> leases             not stored: they begin anew when a database is opened
//! ```
//!
//! It runs ahead of what readers see, as the writer does; only the writer's answers are made of it.

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

/// How many leases that were renewed are looked at in one go: the writer waits for it.
const RENEWED_LIMIT: usize = 10_000;

/// All sessions that live.
#[derive(Default)]
pub(crate) struct SessionTable {
    /// Boxed: such a table is half empty after it has grown.
    all: HashMap<Name, Box<LiveSession>>,
    /// Their names in order.
    names: BTreeSet<Name>,
    /// When to look at which lease. A lease that begins anew is not moved: it is looked at once in vain.
    timers: BTreeSet<(Stamp, Name)>,
    retries: Retries,
}

/// What became of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionChange {
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

/// A session that lives.
pub(crate) struct LiveSession {
    lease_us: u64,
    /// It expires then, if nothing is heard of its client; 0: it has expired.
    pub expires: Stamp,
    /// When its client has taken it.
    epoch: Stamp,
    /// When its lease is looked at.
    timer: Stamp,
    pub slots: ResponseSlots,
    pub mailbox: Mailbox<()>,
}

impl LiveSession {
    /// The client has said something: the lease begins anew.
    pub fn renew(&mut self, now: Stamp) {
        if self.expires != 0 {
            self.expires = self.expires.max(now + self.lease_us);
        }
    }

    /// Whether its lease is over. If it is, it stays so: who read the clock before that must not bring it back while it is
    /// being removed.
    fn end(&mut self, now: Stamp) -> bool {
        let is_over = self.expires <= now;
        if is_over {
            self.expires = 0;
        }
        is_over
    }

    /// Whether something that was sent in an epoch is meant for it; 0: in whichever.
    pub fn is_in(&self, epoch: Stamp) -> bool {
        epoch == 0 || epoch == self.epoch
    }

    /// What is remembered of it when it goes.
    pub fn former(&self) -> Former {
        Former { next_request: self.slots.ledger.beyond(), last_letter: self.mailbox.last() }
    }
}

impl SessionTable {
    /// Reads the table from its spaces, as of a revision; leases begin now.
    pub fn load(index: &Index, at: Revision, now: Stamp) -> Result<SessionTable> {
        let mut table = SessionTable::default();
        for space in [SESSIONS, SESSION_DATA] {
            let (from, to) =
                (keyspace::key(space, MAIN_ID, b""), keyspace::key(space + 1, MAIN_ID, b""));
            for row in index.scan(Bound::Included(&from), Bound::Excluded(&to), at) {
                let row = row?;
                let (head, payload) = crate::key::entry::parse(row.entry())?;
                table.absorb(row.key(), &head, payload, now)?;
            }
        }
        Ok(table)
    }

    /// Whether a space is pictured here.
    #[inline]
    pub fn concerns(space: u8) -> bool {
        matches!(space, SESSIONS | SESSION_DATA)
    }

    /// Takes an effect in; says what became of a session by it.
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
        // What goes with its session goes with its row.
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
            // The entry of its session says up to where letters are acknowledged.
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
            // Nobody remembers its numbers any more.
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
        // A letter that is sent and acknowledged in one transaction was never seen here.
        row.mailbox.advance(profile.acked);
        SessionChange::None
    }

    fn add(&mut self, name: Name, profile: &Profile, now: Stamp) {
        let lease_us = profile.lease_ms * 1000;
        let (expires, epoch) = (now + lease_us, profile.epoch);
        let (slots, mailbox) = (ResponseSlots::from(profile.mark), Mailbox::from(profile.acked));
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A session whose lease is not over.
    pub fn live(&self, session: &str, now: Stamp) -> Option<&LiveSession> {
        self.row(session).filter(|row| row.expires > now)
    }

    /// The same, to be changed.
    pub fn live_mut(&mut self, session: &str, now: Stamp) -> Option<&mut LiveSession> {
        self.all.get_mut(session).map(|row| &mut **row).filter(|row| row.expires > now)
    }

    /// A session that is there, whatever its lease.
    pub fn row(&self, session: &str) -> Option<&LiveSession> {
        self.all.get(session).map(|row| &**row)
    }

    /// The client has said something: its lease begins anew.
    pub fn renew(&mut self, session: &str, now: Stamp) {
        if let Some(row) = self.all.get_mut(session) {
            row.renew(now);
        }
    }

    /// Sessions behind one of them, in the order of their names.
    pub fn after(&self, session: Option<&str>) -> impl Iterator<Item = (&Name, &LiveSession)> {
        let from = session.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.names.range::<str, _>((from, Bound::Unbounded));
        names.filter_map(|name| self.all.get_key_value(name).map(|(name, row)| (name, &**row)))
    }

    /// So many sessions whose leases are over, the first of them first; nobody renews them any more. Timers of those that
    /// were renewed are set anew.
    pub fn due(&mut self, now: Stamp, limit: usize) -> Vec<Name> {
        let (mut due, mut renewed) = (Vec::new(), Vec::new());
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

    /// Ends a session whose lease is over, if it is: nobody renews it any more.
    pub fn end(&mut self, session: &str, now: Stamp) -> bool {
        self.all.get_mut(session).is_some_and(|row| row.end(now))
    }

    /// How many letters wait for all clients together.
    pub fn letters(&self) -> usize {
        self.retries.len()
    }

    /// When the next lease is to be looked at.
    pub fn next_due(&self) -> Option<Stamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether a letter that was sent before this is pending.
    pub fn any_before(&self, sent_before: Stamp) -> bool {
        self.retries.any_before(sent_before)
    }

    /// The letters that were sent before this and are pending, the oldest first.
    pub fn before(&self, sent_before: Stamp) -> impl Iterator<Item = (Stamp, &Name, u64)> {
        self.retries.before(sent_before)
    }

    /// A letter is sent again.
    pub fn sent(&mut self, session: &Name, number: u64, now: Stamp) {
        let letter = self.all.get_mut(session).and_then(|row| row.mailbox.letter_mut(number));
        let Some(letter) = letter else { return };
        self.retries.take(letter.sent, session, number);
        letter.sent = now;
        self.retries.put(now, session, number);
    }

    /// What all of them have together: responses, their bytes, letters.
    pub fn totals(&self) -> (u64, u64, u64) {
        let add = |(kept, bytes, letters), row: &LiveSession| {
            let (count, size) =
                (row.slots.ledger.len() as u64, row.slots.ledger.kept_bytes() as u64);
            (kept + count, bytes + size, letters + row.mailbox.len() as u64)
        };
        self.all.values().map(|row| &**row).fold((0, 0, 0), add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions with leases of 1, 2, 3 ... milliseconds.
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
        // Somebody has read the clock before, and comes to the lock after.
        assert!(table.live_mut("s1", 999).is_none());
        table.renew("s1", 999);
        assert!(table.live("s1", 999).is_none());
        assert_eq!(names(&table.due(2_000, 9)), ["s1", "s2"]);
        assert!(table.live("s2", 1_999).is_none());
    }
}
