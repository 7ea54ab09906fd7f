//! String commands of random programs, and their generators.

use super::make::{a_cell, a_ttl, expire_only, value};
use super::step::cell;
use mainstay::{ExpireOnly, Only, StringCommand, Ttl, Value};
use proptest::collection::vec;
use proptest::prelude::*;

/// A string command.
#[derive(Clone, Debug)]
pub enum Text {
    Set(usize, Value, Only, Ttl),
    SetAll(Vec<(usize, Value)>, bool),
    Take(usize),
    Touch(usize, Ttl),
    Append(usize, Vec<u8>),
    Add(usize, i64),
    AddFloat(usize, &'static str),
    Expire(usize, Ttl, ExpireOnly),
    Persist(usize),
    Put(usize, Value, Ttl),
    Get(usize),
    Swap(usize, Value, Only, Ttl),
}

impl Text {
    pub fn command(self) -> StringCommand {
        match self {
            Text::Set(at, value, only, ttl) => {
                StringCommand::Set { name: cell(at), value, only, ttl }
            }
            Text::SetAll(pairs, only_absent) => {
                let pairs = pairs.into_iter().map(|(at, value)| (cell(at), value)).collect();
                StringCommand::SetAll { pairs, only_absent }
            }
            Text::Take(at) => StringCommand::Take { name: cell(at) },
            Text::Touch(at, ttl) => StringCommand::Touch { name: cell(at), ttl },
            Text::Append(at, text) => StringCommand::Append { name: cell(at), text },
            Text::Add(at, by) => StringCommand::Add { name: cell(at), by },
            Text::AddFloat(at, by) => StringCommand::AddFloat { name: cell(at), by: by.into() },
            Text::Expire(at, ttl, only) => StringCommand::Expire { name: cell(at), ttl, only },
            Text::Persist(at) => StringCommand::Persist { name: cell(at) },
            Text::Put(at, value, ttl) => StringCommand::Put { name: cell(at), value, ttl },
            Text::Get(at) => StringCommand::Get { name: cell(at) },
            Text::Swap(at, value, only, ttl) => {
                StringCommand::Swap { name: cell(at), value, only, ttl }
            }
        }
    }
}

/// Generates any string command.
pub fn text(ttl: bool) -> BoxedStrategy<Text> {
    prop_oneof![
        4 => (a_cell(), value(), only(), a_ttl(ttl))
            .prop_map(|(at, value, only, ttl)| Text::Set(at, value, only, ttl)),
        2 => (vec((a_cell(), value()), 0..4), any::<bool>())
            .prop_map(|(pairs, only_absent)| Text::SetAll(pairs, only_absent)),
        1 => a_cell().prop_map(Text::Take),
        1 => (a_cell(), a_ttl(ttl)).prop_map(|(at, ttl)| Text::Touch(at, ttl)),
        2 => (a_cell(), piece()).prop_map(|(at, piece)| Text::Append(at, piece)),
        3 => (a_cell(), prop_oneof![4 => -2..3i64, 1 => Just(i64::MAX)])
            .prop_map(|(at, by)| Text::Add(at, by)),
        3 => (a_cell(), numeral()).prop_map(|(at, by)| Text::AddFloat(at, by)),
        2 => (a_cell(), a_ttl(ttl), expire_only())
            .prop_map(|(at, ttl, only)| Text::Expire(at, ttl, only)),
        1 => a_cell().prop_map(Text::Persist),
        2 => (a_cell(), value(), a_ttl(ttl))
            .prop_map(|(at, value, ttl)| Text::Put(at, value, ttl)),
        1 => a_cell().prop_map(Text::Get),
        1 => (a_cell(), value(), only(), a_ttl(ttl))
            .prop_map(|(at, value, only, ttl)| Text::Swap(at, value, only, ttl)),
    ]
    .boxed()
}

/// Valid and invalid spellings of numbers.
pub fn numeral() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "0",
        "1",
        "-3",
        "0.1",
        "0.2",
        "10.50",
        "2.0e2",
        "1e21",
        "1e300",
        "-1e-30",
        "01",
        "+1",
        "-0",
        " 1",
        "inf",
        "nan",
        "",
        "9223372036854775807",
        "0.00000000000000001",
        "0.123456789012345678",
    ])
}

/// Digits, and the two halves of a two-byte UTF-8 character.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![b"".to_vec(), b"1".to_vec(), b".5".to_vec(), vec![0xc3], vec![0xa9]])
}

fn only() -> impl Strategy<Value = Only> {
    prop_oneof![
        3 => Just(Only::Always),
        2 => Just(Only::Absent),
        2 => Just(Only::Present),
        2 => value().prop_map(Only::Equals),
        2 => value().prop_map(Only::Differs),
    ]
}
