//! Server messages: requests of the server to the clients of sessions.

use super::bytes::{NUMBER_LIMIT, Part, Profile, damaged, part_key};
use super::{SessionContext, answer, check_epoch, expired, write};
use crate::apply::outbox::transfer;
use crate::key::entry::DELETED;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{
    Answer, Code, Error, LETTERS_LIMIT, MAILBOX_LIMIT, MAILBOX_LIMIT_BYTES, Name, Result,
    SessionAnswer, Stamp,
};

impl SessionContext<'_> {
    pub(super) fn send(
        &self,
        overlay: &mut WriteSet,
        session: &Name,
        payload: &[u8],
    ) -> Result<Answer> {
        Ok(answer(SessionAnswer::Sent(self.post(overlay, session, payload)?)))
    }

    /// Sends a request that a merge has brought to `main`. Returns whether the session exists.
    pub fn deliver(&self, overlay: &mut WriteSet, session: &Name, payload: &[u8]) -> Result<bool> {
        Ok(self.post(overlay, session, payload)?.is_some())
    }

    /// Stores a request on its branch until the branch is merged into `main`. A closed session gets none.
    pub(super) fn keep(
        &self,
        view: &View<'_>,
        overlay: &mut WriteSet,
        session: &Name,
        payload: &[u8],
    ) -> Result<Answer> {
        if self.live(overlay, session)?.is_none() {
            return Ok(answer(SessionAnswer::Sent(None)));
        }
        let number = transfer::keep_request(view, overlay, session, payload)?;
        Ok(answer(SessionAnswer::Kept(number)))
    }

    /// Adds a request to a mailbox. Returns its number, or `None` if the session does not exist.
    fn post(&self, overlay: &mut WriteSet, session: &Name, payload: &[u8]) -> Result<Option<u64>> {
        let Some(mut profile) = self.live(overlay, session)? else { return Ok(None) };
        profile.pending_bytes += payload.len() as u64;
        check_room(session, &profile)?;
        check_total(self.table.lock().letters())?;
        profile.last_sent += 1;
        let number = profile.last_sent;
        let key = part_key(session, Part::Letter(number));
        write(self.index, overlay, key, None, 0, payload)?;
        self.write_profile(overlay, session, profile)?;
        Ok(Some(number))
    }

    pub(super) fn acknowledge(
        &self,
        overlay: &mut WriteSet,
        session: &Name,
        upto: u64,
        epoch: Stamp,
    ) -> Result<Answer> {
        let mut profile = self.heard(overlay, session, epoch)?;
        let first = profile.acked + 1;
        let last = upto.min(profile.last_sent);
        if last < first {
            return Ok(Answer::Count(0));
        }
        for number in first..=last {
            let key = part_key(session, Part::Letter(number));
            let bytes = self.find(overlay, &key, |_, payload| Ok(payload.len() as u64))?;
            profile.pending_bytes = profile.pending_bytes.saturating_sub(bytes.unwrap_or(0));
            write(self.index, overlay, key, None, DELETED, b"")?;
        }
        profile.acked = last;
        self.write_profile(overlay, session, profile)?;
        Ok(Answer::Count(last + 1 - first))
    }

    pub(super) fn pending(
        &self,
        overlay: &WriteSet,
        session: &Name,
        (after, limit): (u64, usize),
        epoch: Stamp,
    ) -> Result<Answer> {
        let profile = self.live(overlay, session)?.ok_or_else(|| expired(session))?;
        check_epoch(session, &profile, epoch)?;
        let first = profile.acked.max(after).saturating_add(1);
        let mut requests = Vec::new();
        for number in (first..=profile.last_sent).take(limit) {
            if let Some(payload) = self.letter(overlay, session, number)? {
                requests.push((number, payload));
            }
        }
        let more = profile.last_sent.saturating_sub(first - 1) > limit as u64;
        Ok(answer(SessionAnswer::Pending { requests, more }))
    }

    /// Returns the messages to send again, as many as fit into one answer, and records them as sent now.
    pub(super) fn retry(
        &self,
        overlay: &WriteSet,
        sent_before: Stamp,
        limit: usize,
    ) -> Result<Answer> {
        let old = self.sent_before(sent_before, limit);
        let mut requests = Vec::new();
        let mut bytes = 0;
        for (session, number) in old {
            // Not under the lock, because the payload may have to be read from a file.
            let payload = self.letter(overlay, &session, number)?.ok_or_else(damaged)?;
            bytes += payload.len();
            if bytes > MAILBOX_LIMIT_BYTES && !requests.is_empty() {
                break;
            }
            requests.push((session, number, payload));
        }
        let mut table = self.table.lock();
        for (session, number, _) in &requests {
            table.sent(session, *number, self.now);
        }
        Ok(answer(SessionAnswer::Retry(requests)))
    }

    fn sent_before(&self, sent_before: Stamp, limit: usize) -> Vec<(Name, u64)> {
        let table = self.table.lock();
        let lives = |(_, session, number): (Stamp, &Name, u64)| {
            table.live(session.as_str(), self.now).is_some().then(|| (session.clone(), number))
        };
        table.before(sent_before).filter_map(lives).take(limit).collect()
    }

    fn letter(&self, overlay: &WriteSet, session: &Name, number: u64) -> Result<Option<Vec<u8>>> {
        let key = part_key(session, Part::Letter(number));
        let read = |head: crate::key::entry::EntryHeader, payload: &[u8]| {
            Ok((!head.is_deleted()).then(|| payload.to_vec()))
        };
        Ok(self.find(overlay, &key, read)?.flatten())
    }
}

fn check_total(letters: usize) -> Result<()> {
    if letters < LETTERS_LIMIT {
        return Ok(());
    }
    let message = format!(
        "{letters} requests to clients are not acknowledged: {LETTERS_LIMIT} are the most that wait for all clients \
         together; nothing was sent"
    );
    Err(Error::new(Code::MailboxFull, message))
}

fn check_room(session: &Name, profile: &Profile) -> Result<()> {
    let pending = profile.last_sent - profile.acked;
    let has_numbers = profile.last_sent < NUMBER_LIMIT;
    if has_numbers
        && pending < MAILBOX_LIMIT as u64
        && profile.pending_bytes <= MAILBOX_LIMIT_BYTES as u64
    {
        return Ok(());
    }
    let message = format!(
        "the client of session `{session}` has not acknowledged {pending} requests: more than {MAILBOX_LIMIT}, or \
         {MAILBOX_LIMIT_BYTES} bytes, do not wait for it; nothing was sent"
    );
    Err(Error::new(Code::MailboxFull, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_together_have_so_many_letters_at_most() {
        check_total(LETTERS_LIMIT - 1).unwrap();
        assert_eq!(check_total(LETTERS_LIMIT).unwrap_err().code(), Code::MailboxFull);
    }
}
