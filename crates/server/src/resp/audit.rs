//! Audit records of commands.

use super::connection_state::{CommandOutcome, ConnectionState};
use super::reply::Reply;
use super::table::Spec;
use crate::security::{Entry, Outcome};

impl ConnectionState {
    /// Records the outcome of an audited command, at once or when its work is done.
    pub fn audit_outcome(
        &self,
        spec: &'static Spec,
        words: &[&[u8]],
        outcome: CommandOutcome,
    ) -> CommandOutcome {
        match outcome {
            CommandOutcome::Reply(reply) => {
                self.audit(spec, words, &reply);
                CommandOutcome::Reply(reply)
            }
            CommandOutcome::LongWork(job) if self.shared.security.audit().is_on() => {
                let security = self.shared.security.clone();
                let entry = self.audit_entry(spec, words);
                CommandOutcome::LongWork(Box::new(move || {
                    let reply = job();
                    security.audit().record(&entry, audit_result(&reply));
                    reply
                }))
            }
            other => other,
        }
    }

    /// Records the outcome of a command if the command is audited.
    pub fn audit(&self, spec: &'static Spec, words: &[&[u8]], reply: &Reply) {
        let audit = self.shared.security.audit();
        if spec.is_audited(words) && audit.is_on() {
            audit.record(&self.audit_entry(spec, words), audit_result(reply));
        }
    }

    /// Creates the audit entry. Of the words it holds only those that are names, and it holds the branch.
    fn audit_entry(&self, spec: &'static Spec, words: &[&[u8]]) -> Entry {
        let names = spec.audited.unwrap_or_default();
        let names_in_words = words.iter().skip(1).take(names).copied();
        let about = names_in_words.chain([self.branch.as_bytes()]);
        Entry::new(self.user.as_ref().map(|user| user.name()), &self.peer, spec.name, about)
    }
}

/// Returns whether a reply is a permission error.
pub fn is_permission_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("NOPERM"))
}

pub fn audit_result(reply: &Reply) -> Outcome {
    match reply {
        reply if is_permission_error(reply) => Outcome::Denied,
        Reply::Error(_) => Outcome::Failed,
        _ => Outcome::Done,
    }
}
