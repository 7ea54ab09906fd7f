//! Canonical byte encoding of transactions, for request fingerprints that stay valid across program versions.
//!
//! ```text
//!   transaction   1 | branch | guards | steps | otherwise
//!   list          count | items          option   0, or 1 | value
//!   text          length | bytes         value    length | canonical bytes
//!   guard, command, ttl, number, only    tag | fields
//! ```
//!
//! Every number is a little-endian `u64`, and a tag is one byte. No encoding is derived from the Rust types,
//! so renaming or reordering types does not change the bytes. A new variant does not compile before it has a
//! tag, and tags are never reused.

mod branches;
mod cells;
mod keyed;
mod records;
mod runs;
mod sessions;

use crate::{
    Command, Contract, Demand, Guard, Step, SystemCommand, Transaction, Ttl, Value, codec,
};

/// Writes the canonical bytes of a transaction to `write`, piece by piece.
///
/// The request id, the durability and the branch number are left out: they do not change the transaction's
/// effect.
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
    /// A reused buffer for the bytes of one value.
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

    /// Writes a value. A value beyond the limits is encoded as zero bytes: it can be neither stored nor
    /// found, so its fingerprint does not matter.
    fn value(&mut self, value: &Value) {
        self.scratch.clear();
        // A number that fits an integer or a float is encoded as such, so that all its spellings have equal
        // bytes.
        if codec::encode(value, &mut self.scratch).is_err() {
            let _ = codec::encode_exact(value, &mut self.scratch);
        }
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
            Guard::StateVersion { space, key, is } => {
                self.named(10, space.as_str());
                self.bytes(key);
                self.option(*is, Out::version);
            }
            Guard::StateUnchanged { space, place, since } => {
                self.named(11, space.as_str());
                self.state_place(place);
                self.number(*since);
            }
        }
    }

    /// Writes a tag and a contract. Cells were the first contract, so their tag implies the contract.
    fn of_contract(&mut self, cells: u8, other: u8, contract: Contract) {
        let contract = match contract {
            Contract::Cells => return self.tag(cells),
            Contract::Branches => 2,
            Contract::Records => 3,
            Contract::Runs => 4,
            Contract::Outbox => 5,
            Contract::Keyed => 6,
            Contract::Sessions => 7,
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
                Command::State(command) => self.state(command),
                Command::Session(command) => self.session(command),
                Command::Key(command) => self.key(command),
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CellCommand, ExpireOnly, Name, Only, StringCommand};

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

    /// The bytes of the only command in a transaction.
    fn string_bytes(command: StringCommand) -> Vec<u8> {
        let all = bytes(&Transaction::new().step(command));
        let around = bytes(&Transaction::new());
        // The transaction's head and the step's demand precede the command, and `otherwise` follows it.
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
