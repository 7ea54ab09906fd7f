//! Queries on a machine that need no log entry.

use super::counters::Counters;
use super::limits::Limits;
use super::session_machine::SessionMachine;
use super::state::StateView;
use mainstay_model::Letter;
use mainstay_model::limits::check_page;
use mainstay_model::{Name, Result, SessionInfo, SessionPage, Stamp};
use std::sync::Arc;

/// The current memory usage of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The number of sessions, including expired ones that have not been ended.
    pub sessions: usize,
    /// The number of stored responses.
    pub kept: usize,
    /// The size of the stored responses, in bytes.
    pub kept_bytes: usize,
    /// The number of unacknowledged requests to clients.
    pub pending: usize,
    /// The size of these requests, in bytes.
    pub pending_bytes: usize,
    /// The number of removed sessions whose numbers are remembered.
    pub formers: usize,
    /// The number of keys in the user's state.
    pub keys: usize,
    /// The size of the keys and their values, in bytes.
    pub state_bytes: usize,
}

impl<M, C> SessionMachine<M, C> {
    /// Returns the state of a session that was live at the time of the last entry.
    pub fn info(&self, session: &Name) -> Option<SessionInfo> {
        let (name, session) = self.core.sessions.live_entry(session, self.core.clock)?;
        Some(session.info(name))
    }

    /// Lists the sessions that were live at the time of the last entry, in name order, after `after`.
    pub fn list(&self, after: Option<&Name>, limit: usize) -> Result<SessionPage> {
        check_page(limit)?;
        let sessions = &self.core.sessions;
        let (behind, all) = match after {
            Some(after) => (Some(sessions.behind(after)), None),
            None => (None, Some(sessions.iter())),
        };
        let found = behind.into_iter().flatten().chain(all.into_iter().flatten());
        let live = found.filter(|(_, session)| session.is_live(self.core.clock));
        // One more than the limit shows whether more remain.
        let mut infos: Vec<_> = live.map(|(name, s)| s.info(name)).take(limit + 1).collect();
        let more = infos.len() > limit;
        infos.truncate(limit);
        let next = infos.last().filter(|_| more).map(|last| last.session.as_str().to_owned());
        Ok(SessionPage { sessions: infos, next })
    }

    /// Iterates over the unacknowledged requests to a session's client, in the order of their numbers. Empty
    /// if the session does not exist.
    pub fn pending<'m>(
        &'m self,
        session: &Name,
    ) -> impl Iterator<Item = (u64, &'m Letter<Arc<[u8]>>)> + use<'m, M, C> {
        let found = self.core.sessions.live_entry(session, self.core.clock);
        found.into_iter().flat_map(|(_, session)| session.mailbox.iter())
    }

    /// Returns whether an unacknowledged request was sent strictly before a time, so that an
    /// [`Input::Retry`](super::Input::Retry) is useful. It runs in constant time. Requests to expired
    /// sessions count until the session is ended.
    pub fn has_pending(&self, sent_before: Stamp) -> bool {
        self.core.sessions.any_sent_before(sent_before)
    }

    /// Returns whether a session's lease has expired, so that an
    /// [`Input::ExpireDue`](super::Input::ExpireDue) is useful. It scans all sessions.
    pub fn has_due(&self, now: Stamp) -> bool {
        self.core.sessions.iter().any(|(_, session)| !session.is_live(now))
    }

    /// A view of the state for reading. Writes to this view are visible only in it.
    pub fn state(&self) -> StateView<'_> {
        StateView::new(&self.core.state)
    }

    /// The user's machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The timestamp of the last entry.
    pub fn clock(&self) -> Stamp {
        self.core.clock
    }

    /// The operation counters.
    pub fn counters(&self) -> Counters {
        self.core.counters
    }

    /// The current limits.
    pub fn limits(&self) -> Limits {
        self.core.limits
    }

    /// Returns the memory usage. It scans all sessions.
    pub fn usage(&self) -> Usage {
        let sessions = &self.core.sessions;
        let state = &self.core.state;
        let mut usage = Usage {
            sessions: sessions.len(),
            formers: sessions.formers.len(),
            keys: state.len(),
            state_bytes: state.bytes(),
            ..Usage::default()
        };
        for (_, session) in sessions.iter() {
            usage.kept += session.ledger.len();
            usage.kept_bytes += session.ledger.kept_bytes();
            usage.pending += session.mailbox.len();
            usage.pending_bytes += session.mailbox_bytes;
        }
        usage
    }
}
