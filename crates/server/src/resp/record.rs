//! Audit records of commands.

use super::reply::Reply;
use super::session::{Handled, Session};
use super::table::Spec;
use crate::security::{Entry, Outcome};

impl Session {
    /// Records the outcome of an audited command, at once or when its work is done.
    pub fn recorded(&self, spec: &'static Spec, words: &[&[u8]], handled: Handled) -> Handled {
        match handled {
            Handled::Reply(reply) => {
                self.record(spec, words, &reply);
                Handled::Reply(reply)
            }
            Handled::Slow(job) if self.shared.security.audit().is_on() => {
                let security = self.shared.security.clone();
                let entry = self.entry(spec, words);
                Handled::Slow(Box::new(move || {
                    let reply = job();
                    security.audit().record(&entry, outcome(&reply));
                    reply
                }))
            }
            other => other,
        }
    }

    /// Records the outcome of a command if the command is audited.
    pub fn record(&self, spec: &'static Spec, words: &[&[u8]], reply: &Reply) {
        let audit = self.shared.security.audit();
        if spec.is_audited(words) && audit.is_on() {
            audit.record(&self.entry(spec, words), outcome(reply));
        }
    }

    /// Creates the audit entry. Of the words it holds only those that are names, and it holds the branch.
    fn entry(&self, spec: &'static Spec, words: &[&[u8]]) -> Entry {
        let names = spec.audited.unwrap_or_default();
        let named = words.iter().skip(1).take(names).copied();
        let about = named.chain([self.branch.as_bytes()]);
        Entry::new(self.user.as_ref().map(|user| user.name()), &self.peer, spec.name, about)
    }
}

/// Returns whether a reply is a permission error.
pub fn is_denial(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("NOPERM"))
}

pub fn outcome(reply: &Reply) -> Outcome {
    match reply {
        reply if is_denial(reply) => Outcome::Denied,
        Reply::Error(_) => Outcome::Failed,
        _ => Outcome::Done,
    }
}
