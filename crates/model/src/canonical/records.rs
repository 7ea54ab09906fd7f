//! Canonical bytes of commands on records, hashes and indexes.

use super::Out;
use crate::{
    Condition, Field, FieldValue, HashCommand, IndexCommand, RecordCommand, RecordWrite, Test, Ttl,
    Where,
};

impl Out<'_> {
    pub(super) fn record(&mut self, command: &RecordCommand) {
        match command {
            RecordCommand::Write(write) => self.record_write(write),
            RecordCommand::Delete { key, when } => {
                self.named(65, key.as_str());
                self.conditions(when);
            }
            RecordCommand::Expire { key, ttl, only } => {
                self.named(66, key.as_str());
                self.ttl(*ttl);
                self.expire_only(*only);
            }
            RecordCommand::Restore { key, fields, counter, expires } => {
                self.named(67, key.as_str());
                self.option(fields.as_ref(), |out, fields| {
                    out.number(fields.len() as u64);
                    fields.iter().for_each(|(field, value)| out.pair(field, value));
                });
                self.number(*counter);
                self.maybe(*expires);
            }
            RecordCommand::Get { key, fields } => {
                self.named(68, key.as_str());
                self.option(fields.as_ref(), |out, fields| out.fields(fields));
            }
            RecordCommand::Scan { prefix, filters, after, limit } => {
                self.named(69, prefix);
                self.filters(filters);
                self.maybe_text(after.as_deref());
                self.number(*limit as u64);
            }
            RecordCommand::Pick(pick) => {
                // `own` has a tag of its own, so that picks from before this option keep their bytes.
                self.named(if pick.own { 72 } else { 71 }, &pick.prefix);
                self.filters(&pick.filters);
                self.option(pick.by.as_ref(), |out, field| out.bytes(field.as_bytes()));
                self.changes(&pick.set, &pick.clear, pick.ttl);
            }
            RecordCommand::Count { prefix, filters } => {
                self.named(70, prefix);
                self.filters(filters);
            }
            RecordCommand::History { key, limit, before } => {
                self.named(73, key.as_str());
                self.number(*limit as u64);
                self.maybe(*before);
            }
        }
    }

    fn record_write(&mut self, write: &RecordWrite) {
        let RecordWrite { key, when, replace, set, clear, ttl } = write;
        self.named(64, key.as_str());
        self.conditions(when);
        self.tag(u8::from(*replace));
        self.changes(set, clear, *ttl);
    }

    fn changes(&mut self, set: &[(Field, FieldValue)], clear: &[Field], ttl: Ttl) {
        self.number(set.len() as u64);
        for (field, value) in set {
            self.bytes(field.as_bytes());
            self.field_value(value);
        }
        self.fields(clear);
        self.ttl(ttl);
    }

    fn field_value(&mut self, value: &FieldValue) {
        match value {
            FieldValue::Bytes(bytes) => {
                self.tag(1);
                self.bytes(bytes);
            }
            FieldValue::Revision => self.tag(2),
            FieldValue::Millis { plus } => {
                self.tag(3);
                self.number(*plus as u64);
            }
            FieldValue::Sum { by } => {
                self.tag(4);
                self.number(*by as u64);
            }
            FieldValue::Copy { of } => {
                self.tag(5);
                self.bytes(of.as_bytes());
            }
        }
    }

    fn conditions(&mut self, conditions: &[Condition]) {
        self.number(conditions.len() as u64);
        for condition in conditions {
            match condition {
                Condition::Counter { is } => {
                    self.tag(1);
                    self.maybe(*is);
                }
                Condition::Exists => self.tag(2),
                Condition::Field { field, is } => {
                    self.tag(3);
                    self.bytes(field.as_bytes());
                    self.option(is.as_deref(), Out::bytes);
                }
                Condition::Fence { field, is } => {
                    self.tag(4);
                    self.pair(field, is);
                }
            }
        }
    }

    fn filters(&mut self, filters: &[Where]) {
        self.number(filters.len() as u64);
        for Where { field, test } in filters {
            self.bytes(field.as_bytes());
            let (tag, bound) = match test {
                Test::Eq(bound) => (1, bound),
                Test::Ne(bound) => (2, bound),
                Test::Lt(bound) => (3, bound),
                Test::Le(bound) => (4, bound),
                Test::Gt(bound) => (5, bound),
                Test::Ge(bound) => (6, bound),
                Test::In(bounds) => {
                    self.tag(7);
                    self.number(bounds.len() as u64);
                    bounds.iter().for_each(|bound| self.bytes(bound));
                    continue;
                }
            };
            self.tag(tag);
            self.bytes(bound);
        }
    }

    pub(super) fn hash(&mut self, command: &HashCommand) {
        match command {
            HashCommand::Set { key, pairs, only_absent } => {
                self.named(80, key.as_str());
                self.number(pairs.len() as u64);
                pairs.iter().for_each(|(field, value)| self.pair(field, value));
                self.tag(u8::from(*only_absent));
            }
            HashCommand::Delete { key, fields } => {
                self.named(81, key.as_str());
                self.fields(fields);
            }
            HashCommand::Add { key, field, by } => {
                self.named(82, key.as_str());
                self.bytes(field.as_bytes());
                self.number(*by as u64);
            }
            HashCommand::AddFloat { key, field, by } => {
                self.named(83, key.as_str());
                self.pair(field, by.as_bytes());
            }
            HashCommand::Get { key, fields } => {
                self.named(84, key.as_str());
                self.option(fields.as_ref(), |out, fields| out.fields(fields));
            }
            HashCommand::Count { key } => self.named(85, key.as_str()),
        }
    }

    pub(super) fn index(&mut self, command: &IndexCommand) {
        match command {
            IndexCommand::Add { prefix, fields } => {
                self.named(96, prefix);
                self.fields(fields);
            }
            IndexCommand::Drop { id } => {
                self.tag(97);
                self.number(u64::from(*id));
            }
            IndexCommand::Fill { id, limit } => {
                self.tag(98);
                self.number(u64::from(*id));
                self.number(*limit as u64);
            }
        }
    }

    fn pair(&mut self, field: &Field, value: &[u8]) {
        self.bytes(field.as_bytes());
        self.bytes(value);
    }

    fn fields(&mut self, fields: &[Field]) {
        self.number(fields.len() as u64);
        fields.iter().for_each(|field| self.bytes(field.as_bytes()));
    }
}
