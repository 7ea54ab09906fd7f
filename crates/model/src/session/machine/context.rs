//! What a function of a user's machine knows beside its state: the time, who asks, and who else is there.

use super::sessions::{Session, Sessions};
use crate::{Name, Stamp};

/// The time, the caller and the other sessions. All of it can be read and nothing changed.
///
/// ```compile_fail
/// # use mainstay_model::machine::Context;
/// fn cheat(context: &Context<'_>) {
///     context.sessions.remove("the-others");
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Context<'c> {
    now: Stamp,
    caller: Option<SessionMetadata<'c>>,
    sessions: &'c Sessions,
}

impl<'c> Context<'c> {
    pub(super) fn new(
        now: Stamp,
        caller: Option<SessionMetadata<'c>>,
        sessions: &'c Sessions,
    ) -> Context<'c> {
        Context { now, caller, sessions }
    }

    /// The time that came with the command, in microseconds. It never goes back.
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// The session that asks, or that was opened or ends; nothing for an internal command.
    pub fn caller(&self) -> Option<SessionMetadata<'c>> {
        self.caller
    }

    /// A session that is alive.
    pub fn session(&self, name: &Name) -> Option<SessionMetadata<'c>> {
        let (name, session) = self.sessions.live_entry(name, self.now)?;
        Some(SessionMetadata { name, session })
    }

    /// All sessions that are alive, in the order of their names.
    pub fn sessions(&self) -> impl Iterator<Item = SessionMetadata<'c>> {
        let now = self.now;
        let live = self.sessions.iter().filter(move |(_, session)| session.is_live(now));
        live.map(|(name, session)| SessionMetadata { name, session })
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let caller = self.caller.map(|caller| caller.name);
        f.debug_struct("Context").field("now", &self.now).field("caller", &caller).finish()
    }
}

/// What a function may know of a session: not its responses, and not what waits for its client.
#[derive(Clone, Copy)]
pub struct SessionMetadata<'c> {
    name: &'c Name,
    session: &'c Session,
}

impl<'c> SessionMetadata<'c> {
    pub(super) fn new(name: &'c Name, session: &'c Session) -> SessionMetadata<'c> {
        SessionMetadata { name, session }
    }

    /// Its name.
    pub fn name(&self) -> &'c Name {
        self.name
    }

    /// When it was opened.
    pub fn opened(&self) -> Stamp {
        self.session.opened
    }

    /// How long it lives without a word of its client, in milliseconds.
    pub fn lease_ms(&self) -> u64 {
        self.session.lease_ms
    }

    /// When it expires, if nothing is heard of its client.
    pub fn expires(&self) -> Stamp {
        self.session.expires
    }

    /// What its client can do, in words of its own.
    pub fn capabilities(&self) -> &'c [(String, String)] {
        &self.session.capabilities
    }

    /// What its client says about one capability.
    pub fn capability(&self, name: &str) -> Option<&'c str> {
        let found = self.capabilities().iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl std::fmt::Debug for SessionMetadata<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionMetadata")
            .field("name", self.name)
            .field("opened", &self.opened())
            .field("expires", &self.expires())
            .field("capabilities", &self.capabilities())
            .finish()
    }
}
