//! Canonical bytes of commands on sessions.

use super::Out;
use crate::SessionCommand;

impl Out<'_> {
    pub(super) fn session(&mut self, command: &SessionCommand) {
        match command {
            SessionCommand::Open { session, lease_ms, capabilities, hold } => {
                self.named(192, session.as_str());
                self.maybe(*lease_ms);
                self.number(capabilities.len() as u64);
                for (name, value) in capabilities {
                    self.text(name);
                    self.text(value);
                }
                self.maybe(hold.map(|hold| hold.nonce));
                self.maybe(hold.map(|hold| hold.over));
            }
            SessionCommand::KeepAlive { session, lowest_pending, epoch } => {
                self.named(193, session.as_str());
                self.number(*lowest_pending);
                self.number(*epoch);
            }
            SessionCommand::Close { session, epoch } => {
                self.named(194, session.as_str());
                self.number(*epoch);
            }
            SessionCommand::Send { session, payload } => {
                self.named(195, session.as_str());
                self.bytes(payload);
            }
            SessionCommand::Acknowledge { session, upto, epoch } => {
                self.named(196, session.as_str());
                self.number(*upto);
                self.number(*epoch);
            }
            SessionCommand::Pending { session, after, limit, epoch } => {
                self.named(197, session.as_str());
                self.number(*after);
                self.number(*limit as u64);
                self.number(*epoch);
            }
            SessionCommand::Retry { sent_before, limit } => {
                self.tag(198);
                self.number(*sent_before);
                self.number(*limit as u64);
            }
            SessionCommand::HasPending { sent_before } => {
                self.tag(199);
                self.number(*sent_before);
            }
            SessionCommand::Restore { session, payload } => {
                self.named(203, session.as_str());
                self.bytes(payload);
            }
            SessionCommand::Info { session } => self.named(200, session.as_str()),
            SessionCommand::List { after, limit } => {
                self.tag(201);
                self.maybe_text(after.as_deref());
                self.number(*limit as u64);
            }
        }
    }
}
