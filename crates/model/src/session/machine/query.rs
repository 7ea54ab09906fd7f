//! What can be asked of a machine, without an entry of the log.

use super::counters::Counters;
use super::limits::Limits;
use super::session_machine::SessionMachine;
use super::state::StateView;
use crate::limits::check_page;
use crate::session::Letter;
use crate::{Name, Result, SessionInfo, SessionPage, Stamp};
use std::sync::Arc;

/// How much a machine keeps at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Sessions, those among them whose lease is over and that were not ended yet.
    pub sessions: usize,
    /// Responses.
    pub kept: usize,
    /// Their bytes.
    pub kept_bytes: usize,
    /// Requests that wait for clients.
    pub pending: usize,
    /// Their bytes.
    pub pending_bytes: usize,
    /// Sessions that are gone and whose numbers are remembered.
    pub formers: usize,
    /// Keys of the user's state.
    pub keys: usize,
    /// The bytes of them and of their values.
    pub state_bytes: usize,
}

impl<M, C> SessionMachine<M, C> {
    /// What is known of a session that was alive at the time of the last entry.
    pub fn info(&self, session: &Name) -> Option<SessionInfo> {
        let (name, session) = self.core.sessions.live_entry(session, self.core.clock)?;
        Some(session.info(name))
    }

    /// The sessions that were alive at the time of the last entry, in the order of their names, behind one of them.
    pub fn list(&self, after: Option<&Name>, limit: usize) -> Result<SessionPage> {
        check_page(limit)?;
        let sessions = &self.core.sessions;
        let (behind, all) = match after {
            Some(after) => (Some(sessions.behind(after)), None),
            None => (None, Some(sessions.iter())),
        };
        let found = behind.into_iter().flatten().chain(all.into_iter().flatten());
        let live = found.filter(|(_, session)| session.is_live(self.core.clock));
        let mut infos: Vec<_> = live.map(|(name, s)| s.info(name)).take(limit + 1).collect();
        let more = infos.len() > limit;
        infos.truncate(limit);
        let next = infos.last().filter(|_| more).map(|last| last.session.as_str().to_owned());
        Ok(SessionPage { sessions: infos, next })
    }

    /// What a session's client has not acknowledged, by number and in order; nothing where there is no such session.
    pub fn pending<'m>(
        &'m self,
        session: &Name,
    ) -> impl Iterator<Item = (u64, &'m Letter<Arc<[u8]>>)> + use<'m, M, C> {
        let found = self.core.sessions.live_entry(session, self.core.clock);
        found.into_iter().flat_map(|(_, session)| session.mailbox.iter())
    }

    /// Whether a request to a client was sent before this, strictly, and is not acknowledged: whether
    /// [`Input::Retry`](super::Input::Retry) is worth an entry of the log. It looks at one number, however many wait;
    /// what waits for a session whose lease is over counts until that is ended.
    pub fn has_pending(&self, sent_before: Stamp) -> bool {
        self.core.sessions.any_sent_before(sent_before)
    }

    /// Whether the lease of a session is over: whether [`Input::ExpireDue`](super::Input::ExpireDue) is worth an entry of
    /// the log. It looks at all sessions.
    pub fn has_due(&self, now: Stamp) -> bool {
        self.core.sessions.iter().any(|(_, session)| !session.is_live(now))
    }

    /// The state, to be read. What is written to this view is seen by it alone.
    pub fn state(&self) -> StateView<'_> {
        StateView::new(&self.core.state)
    }

    /// The user's machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The time of the last entry.
    pub fn clock(&self) -> Stamp {
        self.core.clock
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.core.counters
    }

    /// How much may be kept.
    pub fn limits(&self) -> Limits {
        self.core.limits
    }

    /// How much is kept. It looks at all sessions.
    pub fn usage(&self) -> Usage {
        let (sessions, state) = (&self.core.sessions, &self.core.state);
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
