//! Doctor check: whether the stored state of each session is consistent.
//!
//! ```text
//!   standing  mark, last sent, acknowledged, bytes
//!      |  its slots:    each can be read, no request is answered twice, no more is kept than may be
//!      |  its requests: those after the acknowledged, up to the last, all of them, and so many bytes
//!   slots and client requests of no session
//! ```

use crate::apply::sessions::bytes::Part;
use crate::apply::sessions::bytes::Profile;
use crate::apply::sessions::bytes::StoredSession;
use crate::apply::sessions::bytes::part_key;
use crate::apply::sessions::bytes::split_part;
use crate::apply::sessions::response;
use crate::apply::sessions::slot;
use crate::key::entry::{self, EntryHeader};
use crate::key::keyspace::{self, MAIN_ID, PREFIX_BYTES, SESSION_DATA, SESSIONS};
use crate::storage::index::{Index, NEWEST};
use crate::tools::doctor::Faults;
use mainstay_model::{KEPT_LIMIT, KEPT_LIMIT_BYTES, Name, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

const ADVICE: &str = "Let the index be rebuilt from the log, or restore a backup.";

/// Counts of the checked items.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionTotals {
    pub sessions: u64,
    pub responses: u64,
    pub letters: u64,
}

/// Checks all sessions.
pub(crate) fn check(index: &Index, faults: &mut Faults) -> Result<SessionTotals> {
    let mut seen = SessionTotals::default();
    let mut check = |name: &[u8], entry: &[u8]| {
        let Some(session) = std::str::from_utf8(name).ok().and_then(|name| Name::new(name).ok())
        else {
            let name = name.escape_ascii().to_string();
            faults.session(&name, "no session can have that name".into(), ADVICE);
            return Ok(());
        };
        match standing(entry) {
            None => faults.session(session.as_str(), "it cannot be read".into(), ADVICE),
            Some((_, Some(StoredSession::Live(profile)))) => {
                seen.sessions += 1;
                check_live(index, &session, &profile, &mut seen, faults)?;
            }
            Some((head, Some(StoredSession::Gone { .. }))) if head.expires.is_none() => {
                let what = "it is gone, and would be remembered for ever";
                faults.session(session.as_str(), what.into(), ADVICE);
            }
            Some(_) => {}
        }
        Ok(())
    };
    let from = keyspace::key(SESSIONS, MAIN_ID, b"");
    let to = keyspace::key(SESSION_DATA, MAIN_ID, b"");
    walk(index, &from, &to, &mut check)?;
    check_strays(index, faults)?;
    Ok(seen)
}

fn walk(
    index: &Index,
    from: &[u8],
    to: &[u8],
    look: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    for row in index.scan(Bound::Included(from), Bound::Excluded(to), NEWEST) {
        let row = row?;
        look(row.key().get(PREFIX_BYTES..).unwrap_or_default(), row.entry())?;
    }
    Ok(())
}

/// Decodes the standing in an entry, if the session exists; `None` if it cannot be read.
fn standing(entry: &[u8]) -> Option<(EntryHeader, Option<StoredSession>)> {
    let (head, payload) = entry::parse(entry).ok()?;
    if head.is_deleted() {
        Some((head, None))
    } else {
        Some((head, Some(StoredSession::decode(payload).ok()?)))
    }
}

/// The collected entries of one session.
struct SessionEntries {
    mark: u64,
    /// The sizes of responses by request id.
    responses: BTreeMap<u64, usize>,
    /// The number of the next request to the client.
    next_letter: u64,
    letter_bytes: u64,
    faults: Vec<String>,
}

fn check_live(
    index: &Index,
    session: &Name,
    profile: &Profile,
    seen: &mut SessionTotals,
    faults: &mut Faults,
) -> Result<()> {
    let mut found = SessionEntries {
        mark: profile.mark,
        responses: BTreeMap::new(),
        next_letter: profile.acked + 1,
        letter_bytes: 0,
        faults: Vec::new(),
    };
    let from = part_key(session, Part::Slot(0));
    let to = part_key(session, Part::Letter(u64::MAX));
    walk(index, &from, &to, &mut |name, entry| {
        found.part(split_part(name).map(|(_, part)| part), entry);
        Ok(())
    })?;
    found.end(profile);
    seen.responses += found.responses.len() as u64;
    seen.letters += profile.last_sent.saturating_sub(profile.acked);
    found.faults.into_iter().for_each(|what| faults.session(session.as_str(), what, ADVICE));
    Ok(())
}

impl SessionEntries {
    fn part(&mut self, part: Option<Part>, entry: &[u8]) {
        let read = entry::parse(entry).ok();
        match (part, read) {
            (Some(_), Some((head, _))) if head.is_deleted() => {}
            (Some(Part::Slot(number)), Some((head, payload))) => {
                if self.slot(&head, payload).is_none() {
                    self.faults.push(format!("slot {number} of its responses cannot be read"));
                }
            }
            (Some(Part::Letter(number)), Some((_, payload))) => self.letter(number, payload),
            _ => self.faults.push("something of it cannot be read".to_owned()),
        }
    }

    fn slot(&mut self, head: &EntryHeader, payload: &[u8]) -> Option<()> {
        let (mark, responses) = slot::split(head, payload).ok()?;
        self.mark = self.mark.max(mark);
        for response in responses {
            let slot::Response { request_id, bytes, .. } = response.ok()?;
            drop(response::decode(bytes).ok()?);
            if self.responses.insert(request_id, bytes.len()).is_some() {
                self.faults.push(format!("request {request_id} has two responses"));
            }
        }
        Some(())
    }

    fn letter(&mut self, number: u64, payload: &[u8]) {
        if number < self.next_letter {
            let what = format!("request {number} to its client is acknowledged, and still there");
            return self.faults.push(what);
        }
        self.missing(self.next_letter, number);
        self.next_letter = number + 1;
        self.letter_bytes += payload.len() as u64;
    }

    /// Reports that requests to the client, from one number up to another, are missing.
    fn missing(&mut self, from: u64, to: u64) {
        if from < to {
            let what = format!("requests {from} to {} to its client are missing", to - 1);
            self.faults.push(what);
        }
    }

    fn end(&mut self, profile: &Profile) {
        self.missing(self.next_letter, profile.last_sent.saturating_add(1));
        if self.next_letter > profile.last_sent.saturating_add(1) {
            let last = self.next_letter - 1;
            let said = profile.last_sent;
            let what = format!("request {last} to its client is there, and {said} was the last");
            self.faults.push(what);
        }
        if self.faults.is_empty() && self.letter_bytes != profile.pending_bytes {
            let bytes = self.letter_bytes;
            let said = profile.pending_bytes;
            let what = format!("requests to its client have {bytes} bytes, and it says {said}");
            self.faults.push(what);
        }
        self.responses.retain(|request_id, _| *request_id >= self.mark);
        let count = self.responses.len();
        let bytes = self.responses.values().sum::<usize>();
        if count > KEPT_LIMIT || bytes > KEPT_LIMIT_BYTES {
            self.faults
                .push(format!("it keeps {count} responses of {bytes} bytes, which is too much"));
        }
    }
}

/// Reports slots and client requests without a live session.
fn check_strays(index: &Index, faults: &mut Faults) -> Result<()> {
    let mut last: Option<(String, bool)> = None;
    let mut check = |name: &[u8], entry: &[u8]| {
        if entry::parse(entry).is_ok_and(|(head, _)| head.is_deleted()) {
            return Ok(());
        }
        let Some((session, _)) = split_part(name) else {
            let name = name.escape_ascii().to_string();
            faults.session(&name, "this is part of no session".into(), ADVICE);
            return Ok(());
        };
        if last.as_ref().is_none_or(|(last, _)| last != session) {
            let lives = lives(index, session)?;
            if !lives {
                faults.session(
                    session,
                    "it does not live, and something of it is there".into(),
                    ADVICE,
                );
            }
            last = Some((session.to_owned(), lives));
        }
        Ok(())
    };
    let from = keyspace::key(SESSION_DATA, MAIN_ID, b"");
    let to = keyspace::key(SESSION_DATA + 1, MAIN_ID, b"");
    walk(index, &from, &to, &mut check)
}

/// Returns whether a session lives. An unreadable one has been reported before and counts as live.
fn lives(index: &Index, session: &str) -> Result<bool> {
    let key = keyspace::key(SESSIONS, MAIN_ID, session.as_bytes());
    let read = |entry: &[u8]| match standing(entry) {
        Some((_, standing)) => matches!(standing, Some(StoredSession::Live(_))),
        None => true,
    };
    Ok(index.entry(index.current.hash(&key), &key, NEWEST, false, read)?.unwrap_or(false))
}
