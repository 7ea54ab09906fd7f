//! Record and hash commands of random programs, and their generators.
//!
//! They use the names of the cells, so that the kinds collide.

use super::make::{a_cell, a_ttl, expect, expire_only};
use super::step::{CELLS, Expect, PREFIXES, cell};
use super::string_steps::numeral;
use mainstay::{
    Command, Condition, ExpireOnly, Field, FieldValue, HashCommand, RecordCommand, RecordWrite,
    Test, Ttl, Where,
};
use mainstay_conformance::reference_model::Oracle;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The field names; one of them is empty.
pub const FIELDS: [&str; 4] = ["state", "n", "at", ""];

/// A record or hash command before its counters are known.
#[derive(Clone, Debug)]
pub enum Rec {
    Write(RecWrite),
    Delete(usize, Vec<When>),
    Expire(usize, Ttl, ExpireOnly),
    /// `Get` of all fields or of some.
    Get(usize, Option<Vec<usize>>),
    Scan(Look),
    Count(usize, Vec<Filter>),
    HashSet(usize, Vec<(usize, Vec<u8>)>, bool),
    HashDelete(usize, Vec<usize>),
    HashAdd(usize, usize, i64),
    HashAddFloat(usize, usize, &'static str),
    HashGet(usize, Option<Vec<usize>>),
    HashCount(usize),
}

#[derive(Clone, Debug)]
pub struct RecWrite {
    at: usize,
    when: Vec<When>,
    replace: bool,
    set: Vec<(usize, FieldValue)>,
    clear: Vec<usize>,
    ttl: Ttl,
}

/// A condition before the contents of the record are known.
#[derive(Clone, Debug)]
pub enum When {
    /// A counter near the current one.
    Counter(Expect),
    Exists,
    /// A field has a value of the pool, or is absent.
    Field(usize, Option<Vec<u8>>),
    /// A field has its current value.
    Same(usize),
    /// A fence on a value of the pool.
    Fence(usize, Vec<u8>),
    /// A fence on the current value.
    Held(usize),
}

pub type Filter = (usize, Test);

/// The arguments of a scan.
#[derive(Clone, Debug)]
pub struct Look {
    pub prefix: usize,
    pub filters: Vec<Filter>,
    pub after: Option<usize>,
    pub limit: usize,
}

/// A field by its index.
pub fn field(index: usize) -> Field {
    Field::new(FIELDS[index]).unwrap()
}

fn fields(wanted: Option<Vec<usize>>) -> Option<Vec<Field>> {
    wanted.map(|wanted| wanted.into_iter().map(field).collect())
}

/// Converts the filters to those of the engine.
pub fn filters(filters: &[Filter]) -> Vec<Where> {
    filters.iter().map(|(at, test)| Where { field: field(*at), test: test.clone() }).collect()
}

/// The current value of a field in the model.
pub fn held(oracle: &Oracle, branch: &str, at: usize, of: usize) -> Option<Vec<u8>> {
    let record = oracle.record(branch, CELLS[at], oracle.latest()).ok().flatten()?;
    record.fields.get(FIELDS[of]).map(<[u8]>::to_vec)
}

/// A counter near the current one in the model.
pub fn record_counter(expect: Expect, oracle: &Oracle, branch: &str, at: usize) -> Option<u64> {
    let Expect::Near(off) = expect else { return None };
    let versions = oracle.record_history(branch, CELLS[at], 1, None, oracle.latest());
    let has = versions.ok().and_then(|seen| seen.first().map(|v| v.counter)).unwrap_or(0);
    Some(has.saturating_add_signed(off.into()))
}

impl Rec {
    /// Builds the command with counters and values near those in the model.
    pub fn command(&self, oracle: &Oracle, branch: &str) -> Command {
        match self.clone() {
            Rec::Write(write) => write.command(oracle, branch).into(),
            Rec::Delete(at, when) => {
                let when = conditions(&when, oracle, branch, at);
                RecordCommand::Delete { key: cell(at), when }.into()
            }
            Rec::Expire(at, ttl, only) => RecordCommand::Expire { key: cell(at), ttl, only }.into(),
            Rec::Get(at, wanted) => {
                RecordCommand::Get { key: cell(at), fields: fields(wanted) }.into()
            }
            Rec::Scan(look) => look.command().into(),
            Rec::Count(prefix, tests) => {
                let prefix = PREFIXES[prefix].to_owned();
                let filters = filters(&tests);
                RecordCommand::Count { prefix, filters }.into()
            }
            Rec::HashSet(at, pairs, only_absent) => {
                let pairs = pairs.into_iter().map(|(of, value)| (field(of), value)).collect();
                HashCommand::Set { key: cell(at), pairs, only_absent }.into()
            }
            Rec::HashDelete(at, gone) => {
                let fields = gone.into_iter().map(field).collect();
                HashCommand::Delete { key: cell(at), fields }.into()
            }
            Rec::HashAdd(at, of, by) => {
                HashCommand::Add { key: cell(at), field: field(of), by }.into()
            }
            Rec::HashAddFloat(at, of, by) => {
                let key = cell(at);
                let field = field(of);
                let by = by.to_owned();
                HashCommand::AddFloat { key, field, by }.into()
            }
            Rec::HashGet(at, wanted) => {
                HashCommand::Get { key: cell(at), fields: fields(wanted) }.into()
            }
            Rec::HashCount(at) => HashCommand::Count { key: cell(at) }.into(),
        }
    }
}

impl RecWrite {
    fn command(self, oracle: &Oracle, branch: &str) -> RecordWrite {
        RecordWrite {
            key: cell(self.at),
            when: conditions(&self.when, oracle, branch, self.at),
            replace: self.replace,
            set: self.set.into_iter().map(|(of, value)| (field(of), value)).collect(),
            clear: self.clear.into_iter().map(field).collect(),
            ttl: self.ttl,
        }
    }
}

impl Look {
    pub fn command(&self) -> RecordCommand {
        RecordCommand::Scan {
            prefix: PREFIXES[self.prefix].to_owned(),
            filters: filters(&self.filters),
            after: self.after.map(|at| CELLS[at].to_owned()),
            limit: self.limit,
        }
    }
}

fn conditions(when: &[When], oracle: &Oracle, branch: &str, at: usize) -> Vec<Condition> {
    let has = |of: usize| held(oracle, branch, at, of);
    let condition = |when: &When| match when.clone() {
        When::Counter(expect) => {
            Condition::Counter { is: record_counter(expect, oracle, branch, at) }
        }
        When::Exists => Condition::Exists,
        When::Field(of, is) => Condition::Field { field: field(of), is },
        When::Same(of) => Condition::Field { field: field(of), is: has(of) },
        When::Fence(of, is) => Condition::Fence { field: field(of), is },
        When::Held(of) => Condition::Fence { field: field(of), is: has(of).unwrap_or_default() },
    };
    when.iter().map(condition).collect()
}

/// Generates any record or hash command.
pub fn record(ttl: bool) -> BoxedStrategy<Rec> {
    prop_oneof![
        8 => rec_write(ttl).prop_map(Rec::Write),
        2 => (a_cell(), vec(when(), 0..2)).prop_map(|(at, when)| Rec::Delete(at, when)),
        2 => (a_cell(), a_ttl(ttl), expire_only())
            .prop_map(|(at, ttl, only)| Rec::Expire(at, ttl, only)),
        1 => (a_cell(), some_fields()).prop_map(|(at, wanted)| Rec::Get(at, wanted)),
        2 => look().prop_map(Rec::Scan),
        1 => (0..PREFIXES.len(), vec(filter(), 0..3))
            .prop_map(|(prefix, filters)| Rec::Count(prefix, filters)),
        4 => (a_cell(), vec((a_field(), text()), 0..4), prop::bool::weighted(0.3))
            .prop_map(|(at, pairs, only_absent)| Rec::HashSet(at, pairs, only_absent)),
        2 => (a_cell(), vec(a_field(), 0..3)).prop_map(|(at, gone)| Rec::HashDelete(at, gone)),
        2 => (a_cell(), a_field(), prop_oneof![4 => -2..3i64, 1 => Just(i64::MAX)])
            .prop_map(|(at, of, by)| Rec::HashAdd(at, of, by)),
        1 => (a_cell(), a_field(), numeral())
            .prop_map(|(at, of, by)| Rec::HashAddFloat(at, of, by)),
        1 => (a_cell(), some_fields()).prop_map(|(at, wanted)| Rec::HashGet(at, wanted)),
        1 => a_cell().prop_map(Rec::HashCount),
    ]
    .boxed()
}

fn rec_write(ttl: bool) -> impl Strategy<Value = RecWrite> {
    let set = vec((a_field(), field_value()), 0..4);
    let clear = prop_oneof![3 => Just(vec![]), 1 => vec(a_field(), 1..3)];
    let when = prop_oneof![3 => Just(vec![]), 2 => vec(when(), 1..3)];
    let ttl = if ttl { prop_oneof![Just(Ttl::Keep), a_ttl(true)].boxed() } else { a_ttl(false) };
    let parts = (a_cell(), when, prop::bool::weighted(0.2), set, clear, ttl);
    parts.prop_map(|(at, when, replace, set, clear, ttl)| RecWrite {
        at,
        when,
        replace,
        set,
        clear,
        ttl,
    })
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        2 => expect().prop_map(When::Counter),
        1 => Just(When::Exists),
        2 => (a_field(), option::of(text())).prop_map(|(of, is)| When::Field(of, is)),
        3 => a_field().prop_map(When::Same),
        1 => (a_field(), text()).prop_map(|(of, is)| When::Fence(of, is)),
        2 => a_field().prop_map(When::Held),
    ]
}

fn field_value() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        6 => text().prop_map(FieldValue::Bytes),
        1 => Just(FieldValue::Revision),
        1 => (-2_000..2_000i64).prop_map(|plus| FieldValue::Millis { plus }),
        2 => prop_oneof![4 => -2..5i64, 1 => Just(i64::MAX)]
            .prop_map(|by| FieldValue::Sum { by }),
        1 => a_field().prop_map(|of| FieldValue::Copy { of: Field::new(FIELDS[of]).unwrap() }),
        // Large values fill the write buffer, so that flushes happen during the program.
        1 => (1..4usize).prop_map(|n| FieldValue::Bytes("large ".repeat(n * 700).into_bytes())),
    ]
}

/// Field values: numbers whose byte order differs from their numeric order, and texts that are no
/// numbers.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let pool = ["", "0", "2", "10", "-3", "-20", "1.5", "1.50", "007", "a", "b", "1e5", "\u{e9}"];
    prop::sample::select(pool.to_vec()).prop_map(|text| text.as_bytes().to_vec())
}

pub fn look() -> impl Strategy<Value = Look> {
    let parts = (0..PREFIXES.len(), vec(filter(), 0..3), option::of(a_cell()), 1..5usize);
    parts.prop_map(|(prefix, filters, after, limit)| Look { prefix, filters, after, limit })
}

fn filter() -> impl Strategy<Value = Filter> {
    let test = prop_oneof![
        text().prop_map(Test::Eq),
        text().prop_map(Test::Ne),
        text().prop_map(Test::Lt),
        text().prop_map(Test::Le),
        text().prop_map(Test::Gt),
        text().prop_map(Test::Ge),
        vec(text(), 0..3).prop_map(Test::In),
    ];
    (a_field(), test)
}

fn some_fields() -> impl Strategy<Value = Option<Vec<usize>>> {
    option::of(vec(a_field(), 0..3))
}

pub fn a_field() -> impl Strategy<Value = usize> {
    // Few fields, so that most writes collide.
    prop_oneof![4 => Just(0usize), 4 => Just(1usize), 2 => Just(2usize), 1 => Just(3usize)]
}
