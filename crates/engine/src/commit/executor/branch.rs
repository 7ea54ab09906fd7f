//! Rules about the branch that a command runs on.
//!
//! Only imports restore exported contents. Only served branches deliver messages and requests to clients; normally
//! only `main` is served.

use super::Executor;
use crate::apply::{keyed, outbox, sessions};
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{
    Answer, Code, Error, OutboxCommand, Result, RunCommand, SessionCommand, StateCommand,
};

impl Executor {
    /// Allows replayed entries only on a branch that is being imported, which no reader sees yet.
    pub(super) fn check_replay(&self, view: &View<'_>, command: &StateCommand) -> Result<()> {
        match command {
            StateCommand::Replay { .. } if self.is_imported(view) => Ok(()),
            command => keyed::refuse_replay(command),
        }
    }

    /// Allows restored messages and run tombstones only on a branch that is being imported.
    fn check_imports(&self, view: &View<'_>) -> Result<()> {
        if self.is_imported(view) { Ok(()) } else { Err(only_imports()) }
    }

    fn is_imported(&self, view: &View<'_>) -> bool {
        self.state.catalog.read().imports().any(|branch| branch.id == view.branch())
    }

    pub(super) fn check_tombstone(&self, view: &View<'_>, command: &RunCommand) -> Result<()> {
        match command {
            RunCommand::Tombstone { .. } => self.check_imports(view),
            _ => Ok(()),
        }
    }

    /// Refuses to deliver from a branch that is not served.
    pub(super) fn check_outbox(
        &self,
        view: &View<'_>,
        command: &OutboxCommand,
        branch: &str,
    ) -> Result<()> {
        match command {
            OutboxCommand::Restore { .. } => self.check_imports(view),
            _ => outbox::check_served(view, command, branch, self.state.serves_branches),
        }
    }

    /// Runs a command on sessions.
    pub(super) fn session(
        &self,
        view: &View<'_>,
        overlay: &mut WriteSet,
        command: &SessionCommand,
    ) -> Result<Answer> {
        if let SessionCommand::Restore { session, payload } = command {
            self.check_imports(view)?;
            return sessions::restore(view, overlay, session, payload);
        }
        let desk = self.session_context(view.now);
        sessions::run_on(view, &desk, overlay, command, self.state.serves_branches)
    }
}

#[cold]
pub(crate) fn only_imports() -> Error {
    let message = "messages and deletions are put as they once were while a branch is imported, and by nobody else";
    Error::new(Code::Unsupported, message)
}
