//! Canonical bytes of commands on cells, names and Redis strings.

use super::Out;
use crate::{CellCommand, Contract, ExpireOnly, KeyCommand, Number, Only, StringCommand};

impl Out<'_> {
    pub(super) fn cell(&mut self, command: &CellCommand) {
        match command {
            CellCommand::Init { name, value } => {
                self.named(1, name.as_str());
                self.value(value);
            }
            CellCommand::Set { name, value, ttl } => {
                self.named(2, name.as_str());
                self.value(value);
                self.ttl(*ttl);
            }
            CellCommand::Cas { name, expected, value } => {
                self.named(3, name.as_str());
                self.maybe(*expected);
                self.value(value);
            }
            CellCommand::Delete { name, counter } => {
                self.named(4, name.as_str());
                self.maybe(*counter);
            }
            CellCommand::Incr { name, by } => {
                self.named(5, name.as_str());
                self.addend(*by);
            }
            CellCommand::Expire { name, ttl } => {
                self.named(6, name.as_str());
                self.ttl(*ttl);
            }
            CellCommand::Restore { name, value, counter, expires } => {
                self.named(7, name.as_str());
                self.option(value.as_ref(), Out::value);
                self.number(*counter);
                self.maybe(*expires);
            }
            CellCommand::Get { name } => self.named(8, name.as_str()),
            CellCommand::List { prefix, after, limit } => {
                self.named(9, prefix);
                self.maybe_text(after.as_deref());
                self.number(*limit as u64);
            }
            CellCommand::History { name, limit, before } => {
                self.named(10, name.as_str());
                self.number(*limit as u64);
                self.maybe(*before);
            }
        }
    }

    pub(super) fn key(&mut self, command: &KeyCommand) {
        match command {
            KeyCommand::Names { kinds, prefix, after, limit, hidden } => {
                self.named(11, prefix);
                self.contracts(kinds);
                self.maybe_text(after.as_deref());
                self.number(*limit as u64);
                self.hidden(hidden);
            }
            KeyCommand::Count { kinds, limit, hidden } => {
                self.tag(12);
                self.contracts(kinds);
                self.number(*limit as u64);
                self.hidden(hidden);
            }
            KeyCommand::Clear { limit, hidden } => {
                self.tag(13);
                self.number(*limit as u64);
                self.hidden(hidden);
            }
        }
    }

    fn hidden(&mut self, prefixes: &[String]) {
        self.number(prefixes.len() as u64);
        prefixes.iter().for_each(|prefix| self.text(prefix));
    }

    fn contracts(&mut self, kinds: &[Contract]) {
        self.number(kinds.len() as u64);
        kinds.iter().for_each(|kind| self.of_contract(1, 2, *kind));
    }

    pub(super) fn string(&mut self, command: &StringCommand) {
        match command {
            StringCommand::Set { name, value, only, ttl } => {
                self.named(16, name.as_str());
                self.value(value);
                self.only(only);
                self.ttl(*ttl);
            }
            StringCommand::SetAll { pairs, only_absent } => {
                self.tag(17);
                self.number(pairs.len() as u64);
                for (name, value) in pairs {
                    self.text(name.as_str());
                    self.value(value);
                }
                self.tag(u8::from(*only_absent));
            }
            StringCommand::Take { name } => self.named(18, name.as_str()),
            StringCommand::Touch { name, ttl } => {
                self.named(19, name.as_str());
                self.ttl(*ttl);
            }
            StringCommand::Append { name, text } => {
                self.named(20, name.as_str());
                self.bytes(text);
            }
            StringCommand::Add { name, by } => {
                self.named(21, name.as_str());
                self.number(*by as u64);
            }
            StringCommand::AddFloat { name, by } => {
                self.named(22, name.as_str());
                self.text(by);
            }
            StringCommand::Expire { name, ttl, only } => {
                self.named(23, name.as_str());
                self.ttl(*ttl);
                self.expire_only(*only);
            }
            StringCommand::Persist { name } => self.named(24, name.as_str()),
            StringCommand::Put { name, value, ttl } => {
                self.named(25, name.as_str());
                self.value(value);
                self.ttl(*ttl);
            }
            StringCommand::Get { name } => self.named(26, name.as_str()),
            StringCommand::Swap { name, value, only, ttl } => {
                self.named(27, name.as_str());
                self.value(value);
                self.only(only);
                self.ttl(*ttl);
            }
        }
    }

    fn only(&mut self, only: &Only) {
        let (tag, value) = match only {
            Only::Always => (1, None),
            Only::Absent => (2, None),
            Only::Present => (3, None),
            Only::Equals(value) => (4, Some(value)),
            Only::Differs(value) => (5, Some(value)),
        };
        self.tag(tag);
        if let Some(value) = value {
            self.value(value);
        }
    }

    pub(super) fn expire_only(&mut self, only: ExpireOnly) {
        self.tag(match only {
            ExpireOnly::Always => 1,
            ExpireOnly::WithoutExpiry => 2,
            ExpireOnly::WithExpiry => 3,
            ExpireOnly::Later => 4,
            ExpireOnly::Earlier => 5,
            ExpireOnly::EarlierThanThere => 6,
        });
    }

    pub(super) fn addend(&mut self, number: Number) {
        let (tag, bits) = match number {
            Number::Int(n) => (1, n as u64),
            Number::Float(n) => (2, n.to_bits()),
        };
        self.tag(tag);
        self.number(bits);
    }
}
