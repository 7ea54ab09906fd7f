//! Canonical bytes of commands on runs and the outbox.

use super::Out;
use crate::{OutboxCommand, RunCommand, RunFilter, to_value};

impl Out<'_> {
    /// Encodes a type that has its own JSON form as that JSON value.
    fn object<T: serde::Serialize>(&mut self, what: &T) {
        self.value(&to_value(what).unwrap_or_default());
    }

    pub(super) fn run(&mut self, command: &RunCommand) {
        match command {
            RunCommand::Append { event, expected } => {
                self.tag(128);
                self.object(event);
                self.maybe(*expected);
            }
            RunCommand::Bootstrap { run, metadata, events } => {
                self.named(129, run.as_str());
                self.value(metadata);
                self.number(events.len() as u64);
                events.iter().for_each(|event| self.object(event));
            }
            RunCommand::Delete { run } => self.named(130, run.as_str()),
            RunCommand::Tombstone { run } => self.named(156, run.as_str()),
            RunCommand::Restore { run, metadata, created, events } => {
                self.named(131, run.as_str());
                self.option(metadata.as_ref(), Out::value);
                self.maybe(*created);
                self.number(events.len() as u64);
                events.iter().for_each(|event| self.object(event));
            }
            RunCommand::RestoreHidden { run, metadata, created, events, begun, ends } => {
                self.named(140, run.as_str());
                self.option(metadata.as_ref(), Out::value);
                self.maybe(*created);
                self.number(events.len() as u64);
                events.iter().for_each(|event| self.object(event));
                self.maybe(*begun);
                self.number(u64::from(*ends));
            }
            RunCommand::Keep { run, reducer, version, seq, state } => {
                self.named(132, run.as_str());
                self.text(reducer);
                self.number(*version);
                self.number(*seq);
                self.value(state);
            }
            RunCommand::Kept { run, reducer, version, upto } => {
                self.named(133, run.as_str());
                self.text(reducer);
                self.number(*version);
                self.maybe(*upto);
            }
            RunCommand::Get { run } => self.named(134, run.as_str()),
            RunCommand::Fetch { run, after, limit } => {
                self.named(135, run.as_str());
                self.number(*after);
                self.number(*limit as u64);
            }
            RunCommand::Snapshot { run, seq } => {
                self.named(136, run.as_str());
                self.maybe(*seq);
            }
            RunCommand::Project { run } => self.named(137, run.as_str()),
            RunCommand::Revision { run, seq } => {
                self.named(143, run.as_str());
                self.number(*seq);
            }
            RunCommand::Alerts { run, after, limit } => {
                self.named(138, run.as_str());
                self.number(*after);
                self.number(*limit as u64);
            }
            RunCommand::List { filter, after, limit } => {
                self.run_filter(filter);
                self.maybe_text(after.as_deref());
                self.number(*limit as u64);
            }
        }
    }

    fn run_filter(&mut self, filter: &RunFilter) {
        let RunFilter { prefix, status, .. } = filter;
        self.named(139, prefix);
        self.option(status.as_ref(), |out, status| out.object(status));
        self.maybe(filter.created_from);
        self.maybe(filter.created_before);
        self.maybe(filter.updated_from);
        self.maybe(filter.updated_before);
    }

    pub(super) fn outbox(&mut self, command: &OutboxCommand) {
        match command {
            OutboxCommand::Put { subject, payload, run } => {
                self.named(144, subject);
                self.bytes(payload);
                self.maybe_text(run.as_ref().map(|run| run.as_str()));
            }
            OutboxCommand::Claim { limit, lease_ms } => {
                self.tag(145);
                self.number(*limit as u64);
                self.number(*lease_ms);
            }
            OutboxCommand::Ack { ids } => {
                self.tag(146);
                self.number(ids.len() as u64);
                ids.iter().for_each(|id| self.number(*id));
            }
            OutboxCommand::Fail { id, message, backoff_ms, tries } => {
                self.tag(147);
                self.number(*id);
                self.text(message);
                self.number(*backoff_ms);
                self.number(u64::from(*tries));
            }
            OutboxCommand::Dead { after, limit } => {
                self.tag(148);
                self.number(*after);
                self.number(*limit as u64);
            }
            OutboxCommand::Replay { id } => {
                self.tag(149);
                self.number(*id);
            }
            OutboxCommand::Look => self.tag(150),
            OutboxCommand::AckHeld { token, ids } => {
                self.tag(151);
                self.number(*token);
                self.number(ids.len() as u64);
                ids.iter().for_each(|id| self.number(*id));
            }
            OutboxCommand::FailHeld { token, id, message, backoff_ms, tries } => {
                self.tag(152);
                self.number(*token);
                self.number(*id);
                self.text(message);
                self.number(*backoff_ms);
                self.number(u64::from(*tries));
            }
            OutboxCommand::Restore { subject, payload, run, dead, event } => {
                self.named(155, subject);
                self.bytes(payload);
                self.maybe_text(run.as_ref().map(|run| run.as_str()));
                self.maybe_text(dead.as_deref());
                self.maybe_text(event.as_deref());
            }
        }
    }
}
