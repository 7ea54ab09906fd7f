//! Transactions as bytes, for a fingerprint that outlives this program.
//!
//! ```text
//!   transaction   1 | branch | guards | steps | otherwise
//!   list          count | items          option   0, or 1 | what is there
//!   text          length | bytes         value    length | canonical bytes
//!   guard, command, ttl, number, only    tag | fields
//! ```
//!
//! Every number is a `u64` in little-endian order, a tag is one byte. Nothing here follows from a
//! derive: what is written stays as it is when types are renamed or reordered, and a new variant
//! does not compile before it has a tag. Tags are never given twice.

use crate::{
    BranchCommand, CellCommand, Command, Condition, Contract, Demand, ExpireOnly, Field,
    FieldValue, Guard, HashCommand, IndexCommand, MergeStrategy, Number, Only, OutboxCommand,
    RecordCommand, RecordWrite, RunCommand, RunFilter, Step, StringCommand, SystemCommand, Test,
    Transaction, Ttl, Value, Where, codec, to_value,
};

/// Writes what a transaction asks for, piece by piece.
///
/// The request's id, its durability and the number of its branch are left out: they say how it is
/// asked for, not what.
pub fn transaction(transaction: &Transaction, write: &mut dyn FnMut(&[u8])) {
    let Transaction { request: _, branch, branch_id: _, guards, steps, otherwise, durability: _ } =
        transaction;
    let mut out = Out { write, scratch: Vec::new() };
    out.tag(1);
    out.text(branch);
    out.number(guards.len() as u64);
    guards.iter().for_each(|guard| out.guard(guard));
    out.steps(steps);
    out.option(otherwise.as_ref(), |out, steps| out.steps(steps));
}

struct Out<'a> {
    write: &'a mut dyn FnMut(&[u8]),
    /// Room for the bytes of one value at a time.
    scratch: Vec<u8>,
}

impl Out<'_> {
    fn tag(&mut self, tag: u8) {
        (self.write)(&[tag]);
    }

    fn number(&mut self, n: u64) {
        (self.write)(&n.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        (self.write)(bytes);
    }

    fn option<T>(&mut self, value: Option<T>, some: impl FnOnce(&mut Self, T)) {
        self.tag(u8::from(value.is_some()));
        if let Some(value) = value {
            some(self, value);
        }
    }

    fn maybe(&mut self, n: Option<u64>) {
        self.option(n, Out::number);
    }

    fn maybe_text(&mut self, text: Option<&str>) {
        self.option(text, Out::text);
    }

    /// A value beyond the limits has no bytes; it cannot be written nor met, so it needs none.
    fn value(&mut self, value: &Value) {
        self.scratch.clear();
        let _ = codec::encode(value, &mut self.scratch);
        (self.write)(&(self.scratch.len() as u64).to_le_bytes());
        (self.write)(&self.scratch);
    }

    fn guard(&mut self, guard: &Guard) {
        match guard {
            Guard::Counter { name, is } => {
                self.tag(1);
                self.text(name.as_str());
                self.maybe(*is);
            }
            Guard::Value { name, is } => {
                self.tag(2);
                self.text(name.as_str());
                self.option(is.as_ref(), Out::value);
            }
            Guard::Unchanged { contract, name, since, expires } => {
                self.of_contract(3, 5, *contract);
                self.text(name.as_str());
                self.number(*since);
                self.maybe(*expires);
            }
            Guard::RangeUnchanged { contract, prefix, after, upto, since, expires } => {
                self.of_contract(4, 6, *contract);
                self.text(prefix);
                self.maybe_text(after.as_deref());
                self.maybe_text(upto.as_deref());
                self.number(*since);
                self.maybe(*expires);
            }
            Guard::Record { key, is } => {
                self.named(7, key.as_str());
                self.maybe(*is);
            }
            Guard::Field { key, field, is } => {
                self.named(8, key.as_str());
                self.bytes(field.as_bytes());
                self.option(is.as_deref(), Out::bytes);
            }
            Guard::Event { run, key, is } => {
                self.named(9, run.as_str());
                self.text(key);
                self.maybe(*is);
            }
        }
    }

    /// Cells came first: their tag says no contract.
    fn of_contract(&mut self, cells: u8, other: u8, contract: Contract) {
        let contract = match contract {
            Contract::Cells => return self.tag(cells),
            Contract::Branches => 2,
            Contract::Records => 3,
            Contract::Runs => 4,
            Contract::Outbox => 5,
        };
        self.tag(other);
        self.tag(contract);
    }

    fn steps(&mut self, steps: &[Step]) {
        self.number(steps.len() as u64);
        for Step { command, demand } in steps {
            self.tag(match demand {
                Demand::Success => 0,
                Demand::Effect => 1,
                Demand::Nothing => 2,
            });
            match command {
                Command::Cell(command) => self.cell(command),
                Command::String(command) => self.string(command),
                Command::Branch(command) => self.branch(command),
                Command::Record(command) => self.record(command),
                Command::Hash(command) => self.hash(command),
                Command::Index(command) => self.index(command),
                Command::Run(command) => self.run(command),
                Command::Outbox(command) => self.outbox(command),
                Command::System(SystemCommand::Reap { limit }) => {
                    self.tag(49);
                    self.number(*limit as u64);
                }
                Command::System(SystemCommand::Sweep { limit }) => {
                    self.tag(48);
                    self.number(*limit as u64);
                }
            }
        }
    }

    fn cell(&mut self, command: &CellCommand) {
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
        }
    }

    fn string(&mut self, command: &StringCommand) {
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

    fn record(&mut self, command: &RecordCommand) {
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
                // A tag of its own: picks of before own ones keep their bytes.
                self.named(if pick.own { 72 } else { 71 }, &pick.prefix);
                self.filters(&pick.filters);
                self.option(pick.by.as_ref(), |out, field| out.bytes(field.as_bytes()));
                self.changes(&pick.set, &pick.clear, pick.ttl);
            }
            RecordCommand::Count { prefix, filters } => {
                self.named(70, prefix);
                self.filters(filters);
            }
        }
    }

    /// What has a form of its own in JSON, as the value that it is there.
    fn object<T: serde::Serialize>(&mut self, what: &T) {
        self.value(&to_value(what).unwrap_or_default());
    }

    fn run(&mut self, command: &RunCommand) {
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

    fn outbox(&mut self, command: &OutboxCommand) {
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

    fn hash(&mut self, command: &HashCommand) {
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

    fn index(&mut self, command: &IndexCommand) {
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

    fn expire_only(&mut self, only: ExpireOnly) {
        self.tag(match only {
            ExpireOnly::Always => 1,
            ExpireOnly::WithoutExpiry => 2,
            ExpireOnly::WithExpiry => 3,
            ExpireOnly::Later => 4,
            ExpireOnly::Earlier => 5,
            ExpireOnly::EarlierThanThere => 6,
        });
    }

    fn branch(&mut self, command: &BranchCommand) {
        match command {
            BranchCommand::Fork { name, from, at } => {
                self.named(32, name.as_str());
                self.text(from.as_str());
                self.maybe(*at);
            }
            BranchCommand::Create { name } => self.named(33, name.as_str()),
            BranchCommand::Delete { name } => self.named(34, name.as_str()),
            BranchCommand::Rename { name, to } => {
                self.named(35, name.as_str());
                self.text(to.as_str());
            }
            BranchCommand::Merge { from, into, strategy } => {
                self.named(36, from.as_str());
                self.text(into.as_str());
                self.tag(match strategy {
                    MergeStrategy::Strict => 1,
                    MergeStrategy::Theirs => 2,
                    MergeStrategy::Ours => 3,
                });
            }
            BranchCommand::Tag { name, branch, at } => {
                self.named(37, name.as_str());
                self.text(branch.as_str());
                self.maybe(*at);
            }
            BranchCommand::Untag { name } => self.named(38, name.as_str()),
            BranchCommand::Import { name } => self.named(39, name.as_str()),
            BranchCommand::Finish { name, tags } => {
                self.named(40, name.as_str());
                self.number(tags.len() as u64);
                for (tag, revision) in tags {
                    self.text(tag.as_str());
                    self.number(*revision);
                }
            }
        }
    }

    fn named(&mut self, tag: u8, name: &str) {
        self.tag(tag);
        self.text(name);
    }

    fn ttl(&mut self, ttl: Ttl) {
        let (tag, n) = match ttl {
            Ttl::Clear => (1, 0),
            Ttl::Keep => (2, 0),
            Ttl::Millis(millis) => (3, millis),
            Ttl::Until(stamp) => (4, stamp),
        };
        self.tag(tag);
        self.number(n);
    }

    fn addend(&mut self, number: Number) {
        let (tag, bits) = match number {
            Number::Int(n) => (1, n as u64),
            Number::Float(n) => (2, n.to_bits()),
        };
        self.tag(tag);
        self.number(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    fn bytes(of: &Transaction) -> Vec<u8> {
        let mut bytes = Vec::new();
        transaction(of, &mut |piece| bytes.extend_from_slice(piece));
        bytes
    }

    #[test]
    fn the_bytes_are_these() {
        let set = CellCommand::set(Name::new("k").unwrap(), Value::Null);
        let mut expected = vec![1, 4, 0, 0, 0, 0, 0, 0, 0];
        expected.extend_from_slice(b"main");
        expected.extend_from_slice(&[0; 8]);
        expected.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0, 0, b'k']);
        expected.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 1]);
        expected.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.push(0);
        assert_eq!(bytes(&Transaction::new().step(set)), expected);
    }

    /// The bytes of the command in a transaction that has no other.
    fn string_bytes(command: StringCommand) -> Vec<u8> {
        let all = bytes(&Transaction::new().step(command));
        let around = bytes(&Transaction::new());
        // Before it stand the transaction's head and the step's demand, behind it the otherwise.
        all[around.len()..all.len() - 1].to_vec()
    }

    fn number(n: u8) -> [u8; 8] {
        u64::from(n).to_le_bytes()
    }

    #[test]
    fn the_bytes_of_strings_are_these() {
        let k = || Name::new("k").unwrap();
        let named =
            |tag: u8, rest: &[&[u8]]| [&[tag], &number(1)[..], b"k", &rest.concat()].concat();
        let null: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 1];
        let ttl: &[u8] = &[3, 5, 0, 0, 0, 0, 0, 0, 0];
        let set =
            |only| StringCommand::Set { name: k(), value: Value::Null, only, ttl: Ttl::Millis(5) };
        let expire = |only| StringCommand::Expire { name: k(), ttl: Ttl::Millis(5), only };
        let all =
            |only_absent| StringCommand::SetAll { pairs: vec![(k(), Value::Null)], only_absent };
        let pair = [&number(1)[..], &number(1), b"k", null].concat();
        let cases = [
            (set(Only::Always), named(16, &[null, &[1], ttl])),
            (set(Only::Absent), named(16, &[null, &[2], ttl])),
            (set(Only::Present), named(16, &[null, &[3], ttl])),
            (set(Only::Equals(Value::Null)), named(16, &[null, &[4], null, ttl])),
            (set(Only::Differs(Value::Null)), named(16, &[null, &[5], null, ttl])),
            (all(false), [&[17][..], &pair, &[0]].concat()),
            (all(true), [&[17][..], &pair, &[1]].concat()),
            (StringCommand::Take { name: k() }, named(18, &[])),
            (StringCommand::Touch { name: k(), ttl: Ttl::Millis(5) }, named(19, &[ttl])),
            (
                StringCommand::Append { name: k(), text: vec![0xff] },
                named(20, &[&number(1), &[0xff]]),
            ),
            (StringCommand::Add { name: k(), by: -1 }, named(21, &[&[0xff; 8]])),
            (
                StringCommand::AddFloat { name: k(), by: "0.5".into() },
                named(22, &[&number(3), b"0.5"]),
            ),
            (expire(ExpireOnly::Always), named(23, &[ttl, &[1]])),
            (expire(ExpireOnly::WithoutExpiry), named(23, &[ttl, &[2]])),
            (expire(ExpireOnly::WithExpiry), named(23, &[ttl, &[3]])),
            (expire(ExpireOnly::Later), named(23, &[ttl, &[4]])),
            (expire(ExpireOnly::Earlier), named(23, &[ttl, &[5]])),
            (expire(ExpireOnly::EarlierThanThere), named(23, &[ttl, &[6]])),
            (StringCommand::Persist { name: k() }, named(24, &[])),
        ];
        for (command, expected) in cases {
            assert_eq!(string_bytes(command.clone()), expected, "{command:?}");
        }
    }

    #[test]
    fn what_differs_has_other_bytes() {
        let name = |name: &str| Name::new(name).unwrap();
        let get = |n: &str| CellCommand::Get { name: name(n) };
        let list = |prefix: &str, after: Option<&str>| CellCommand::List {
            prefix: prefix.into(),
            after: after.map(str::to_owned),
            limit: 1,
        };
        let all = [
            Transaction::new(),
            Transaction::on("side"),
            Transaction::new().step(get("ab")).step(get("c")),
            Transaction::new().step(get("a")).step(get("bc")),
            Transaction::new().must(get("ab")).step(get("c")),
            Transaction::new().attempt(get("ab")).step(get("c")),
            Transaction::new().step(list("a", None)),
            Transaction::new().step(list("a", Some(""))),
            Transaction::new().otherwise(vec![]),
            Transaction::new().otherwise(vec![get("a").into()]),
            Transaction::new().guard(Guard::Counter { name: name("a"), is: None }),
            Transaction::new().guard(Guard::Value { name: name("a"), is: None }),
        ];
        for (i, one) in all.iter().enumerate() {
            for other in &all[..i] {
                assert_ne!(bytes(one), bytes(other), "{one:?} and {other:?}");
            }
        }
    }
}
