//! Read-only context of a user function: the time, the caller and the other sessions.

use super::sessions::{Session, Sessions};
use mainstay_model::{Name, Stamp};

/// The time, the caller and the other sessions, all read-only.
///
/// ```compile_fail
/// # use mainstay_state_machine::Context;
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

    /// The timestamp of the command, in microseconds. It never decreases.
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// The session that sent the command, or that was opened or ends; `None` for an internal command.
    pub fn caller(&self) -> Option<SessionMetadata<'c>> {
        self.caller
    }

    /// Returns a live session.
    pub fn session(&self, name: &Name) -> Option<SessionMetadata<'c>> {
        let (name, session) = self.sessions.live_entry(name, self.now)?;
        Some(SessionMetadata { name, session })
    }

    /// Iterates over all live sessions in the order of their names.
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

/// The public part of a session, without its responses and mailbox.
#[derive(Clone, Copy)]
pub struct SessionMetadata<'c> {
    name: &'c Name,
    session: &'c Session,
}

impl<'c> SessionMetadata<'c> {
    pub(super) fn new(name: &'c Name, session: &'c Session) -> SessionMetadata<'c> {
        SessionMetadata { name, session }
    }

    /// The session's name.
    pub fn name(&self) -> &'c Name {
        self.name
    }

    /// The time of its opening.
    pub fn opened(&self) -> Stamp {
        self.session.opened
    }

    /// The lease in milliseconds: how long the session lives without a message from its client.
    pub fn lease_ms(&self) -> u64 {
        self.session.lease_ms
    }

    /// The time when the session expires unless its client sends a message.
    pub fn expires(&self) -> Stamp {
        self.session.expires
    }

    /// The client's capabilities, as it names them.
    pub fn capabilities(&self) -> &'c [(String, String)] {
        &self.session.capabilities
    }

    /// Returns the client's value of one capability.
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
