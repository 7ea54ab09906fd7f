//! Generators of random programs (proptest strategies).

use super::record_steps::{a_field, look, record};
use super::run_steps::{append_to, run_write};
use super::space_steps::space_write;
use super::step::*;
use super::string_steps::{numeral, text};
use mainstay::{Demand, ExpireOnly, MergeStrategy, Number, Ttl, Value};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Any program: with times to live, with merges, with both, on branching runs, or on branching spaces.
pub fn program() -> impl Strategy<Value = Program> {
    let plain = |ttl, merges| vec(step(ttl, merges), 30..120).prop_map(Program);
    let mixed = prop_oneof![plain(true, false), plain(false, true), expiring_and_merging()];
    prop_oneof![3 => mixed, 1 => branching_runs(), 1 => branching_spaces()]
}

/// A program with times to live and with merges between all branches. It forks a child, a grandchild,
/// and a sibling of the child.
pub fn expiring_and_merging() -> BoxedStrategy<Program> {
    let fork = |name, from| Step::Fork { name, from, back: 0 };
    let forks = [fork(1, 0), fork(2, 1), fork(3, 0)];
    let some = || vec(step(true, true), 5..40);
    let steps = (some(), some(), some());
    let program = steps.prop_map(move |(a, b, c)| {
        let [child, grandchild, sibling] = forks.clone();
        let all = a.into_iter().chain([child]).chain(b).chain([grandchild, sibling]).chain(c);
        Program(all.collect())
    });
    program.boxed()
}

/// A program on few runs, which are forked from any of their events, continued on several branches and
/// merged.
pub fn branching_runs() -> BoxedStrategy<Program> {
    const RUNS: usize = 3;
    let a_branch = || 0..BRANCHES.len();
    let append = || append_to(RUNS).prop_map(Write::Run);
    let step = prop_oneof![
        12 => (a_branch(), append()).prop_map(|(branch, write)| Step::One { branch, write }),
        2 => (a_branch(), run_write()).prop_map(|(branch, write)| Step::One { branch, write: Write::Run(write) }),
        3 => (a_branch(), a_branch(), 0..RUNS, 0..5u64)
            .prop_map(|(name, from, run, back)| Step::ForkAtEvent { name, from, run, back }),
        1 => (a_branch(), a_branch()).prop_map(|(name, from)| Step::Fork { name, from, back: 0 }),
        1 => a_branch().prop_map(|name| Step::Delete { name }),
        4 => (a_branch(), a_branch(), strategy())
            .prop_map(|(from, into, strategy)| Step::Merge { from, into, strategy }),
        1 => (a_branch(), a_branch()).prop_map(|(a, b)| Step::Diff { a, b }),
        1 => (slot(), a_branch()).prop_map(|(slot, branch)| Step::Begin { slot, branch }),
        2 => (slot(), append()).prop_map(|(slot, write)| Step::Within { slot, act: Act::Do(write) }),
        1 => (slot(), any::<bool>()).prop_map(|(slot, as_value)| Step::Commit { slot, as_value }),
        3 => (a_branch(), 0..RUNS, 0..30u64)
            .prop_map(|(branch, run, back)| Step::ReadRun { branch, run, back }),
        1 => Just(Step::Reopen),
        1 => a_branch().prop_map(|branch| Step::Transfer { branch }),
    ];
    let begun = vec(
        append_to(RUNS).prop_map(|write| Step::One { branch: 0, write: Write::Run(write) }),
        4..12,
    );
    let program = (begun, vec(step, 30..120)).prop_map(|(begun, steps)| {
        let forks = [(1, 0, 0), (2, 1, 2), (3, 0, 1)];
        Program(
            begun
                .into_iter()
                .chain(forks.map(|(name, from, back)| Step::ForkAtEvent {
                    name,
                    from,
                    run: 0,
                    back,
                }))
                .chain(steps)
                .collect(),
        )
    });
    program.boxed()
}

/// A program on few spaces of keyed state, which are written, sealed and replaced on several branches
/// and merged.
pub fn branching_spaces() -> BoxedStrategy<Program> {
    let a_branch = || 0..BRANCHES.len();
    let one = |(branch, write)| Step::One { branch, write: Write::Space(write) };
    let steps = || vec((space_write().prop_map(Write::Space), demand()), 1..5);
    let step = prop_oneof![
        14 => (a_branch(), space_write()).prop_map(one),
        2 => (a_branch(), steps(), any::<bool>()).prop_map(|(branch, steps, named)| {
            Step::Transact { branch, guards: Vec::new(), steps, otherwise: None, named }
        }),
        2 => (slot(), a_branch()).prop_map(|(slot, branch)| Step::Begin { slot, branch }),
        5 => (slot(), space_write())
            .prop_map(|(slot, write)| Step::Within { slot, act: Act::Do(Write::Space(write)) }),
        2 => (slot(), any::<bool>())
            .prop_map(|(slot, as_value)| Step::Commit { slot, as_value }),
        1 => Just(Step::Repeat),
        2 => (a_branch(), a_branch(), 0..6u64)
            .prop_map(|(name, from, back)| Step::Fork { name, from, back }),
        1 => a_branch().prop_map(|name| Step::Delete { name }),
        6 => (a_branch(), a_branch(), strategy())
            .prop_map(|(from, into, strategy)| Step::Merge { from, into, strategy }),
        2 => (a_branch(), a_branch()).prop_map(|(a, b)| Step::Diff { a, b }),
        2 => (a_branch(), 0..30u64).prop_map(|(branch, back)| Step::ReadSpaces { branch, back }),
        1 => Just(Step::Reap),
        1 => Just(Step::Reopen),
        1 => a_branch().prop_map(|branch| Step::Transfer { branch }),
    ];
    let begun = vec((Just(0_usize), space_write()).prop_map(one), 2..8);
    let program = (begun, vec(step, 30..120)).prop_map(|(begun, steps)| {
        let forks = [(1, 0), (2, 1), (3, 0)].map(|(name, from)| Step::Fork { name, from, back: 0 });
        Program(begun.into_iter().chain(forks).chain(steps).collect())
    });
    program.boxed()
}

fn step(ttl: bool, merges: bool) -> BoxedStrategy<Step> {
    prop_oneof![
        8 => (branch(), write(ttl)).prop_map(|(branch, write)| Step::One { branch, write }),
        1 => (branch(), vec(write(ttl), 1..5))
            .prop_map(|(branch, writes)| Step::Batch { branch, writes }),
        6 => transact(ttl),
        1 => Just(Step::Repeat),
        4 => (slot(), branch()).prop_map(|(slot, branch)| Step::Begin { slot, branch }),
        9 => (slot(), act(ttl)).prop_map(|(slot, act)| Step::Within { slot, act }),
        4 => (slot(), any::<bool>())
            .prop_map(|(slot, as_value)| Step::Commit { slot, as_value }),
        1 => slot().prop_map(|slot| Step::Abandon { slot }),
        3 => (branch(), branch(), 0..6u64)
            .prop_map(|(name, from, back)| Step::Fork { name, from, back }),
        1 => (branch(), branch(), a_cell(), 0..4u64)
            .prop_map(|(name, from, run, back)| Step::ForkAtEvent { name, from, run, back }),
        1 => branch().prop_map(|name| Step::Delete { name }),
        1 => (branch(), branch()).prop_map(|(name, to)| Step::Rename { name, to }),
        if merges { 24 } else { 5 } => expiring_or_merging(ttl, merges),
        1 => (0..TAGS.len(), branch(), 0..6u64)
            .prop_map(|(name, branch, back)| Step::Tag { name, branch, back }),
        1 => (0..TAGS.len()).prop_map(|name| Step::Untag { name }),
        2 => (1..8u64).prop_map(|tens| Step::Pass { tens }),
        1 => Just(Step::Reopen),
        3 => (branch(), a_cell(), 0..30u64)
            .prop_map(|(branch, cell, back)| Step::Read { branch, cell, back }),
        2 => (branch(), a_cell(), 0..30u64, -20_000..20_000i64)
            .prop_map(|(branch, cell, back, off_us)| Step::ReadStamp { branch, cell, back, off_us }),
        2 => (branch(), a_cell(), 1..6usize, option::of(0..12u64), 0..10u64)
            .prop_map(|(branch, cell, limit, before, back)| {
                Step::History { branch, cell, limit, before, back }
            }),
        3 => (branch(), 0..PREFIXES.len(), option::of(a_cell()), 1..5usize, 0..10u64)
            .prop_map(|(branch, prefix, after, limit, back)| {
                Step::List { branch, prefix, after, limit, back }
            }),
        3 => (branch(), a_cell(), 0..30u64)
            .prop_map(|(branch, key, back)| Step::ReadRecord { branch, key, back }),
        2 => (branch(), a_cell(), 1..6usize, option::of(0..12u64), 0..10u64)
            .prop_map(|(branch, key, limit, before, back)| {
                Step::RecordHistory { branch, key, limit, before, back }
            }),
        4 => (branch(), look(), 0..10u64)
            .prop_map(|(branch, look, back)| Step::Scan { branch, look, back }),
        3 => (branch(), a_cell(), 0..30u64)
            .prop_map(|(branch, run, back)| Step::ReadRun { branch, run, back }),
        1 => branch().prop_map(|branch| Step::Transfer { branch }),
    ]
    .boxed()
}

fn expiring_or_merging(ttl: bool, merges: bool) -> BoxedStrategy<Step> {
    if !merges {
        return Just(Step::Sweep).boxed();
    }
    let any = || 0..BRANCHES.len();
    let merge = (any(), any(), strategy()).prop_map(|(from, into, strategy)| Step::Merge {
        from,
        into,
        strategy,
    });
    let diff = (branch(), branch()).prop_map(|(a, b)| Step::Diff { a, b });
    if ttl {
        prop_oneof![3 => merge, 1 => diff, 2 => Just(Step::Sweep)].boxed()
    } else {
        prop_oneof![merge, diff].boxed()
    }
}

fn transact(ttl: bool) -> impl Strategy<Value = Step> {
    let steps = || vec((write(ttl), demand()), 0..6);
    (branch(), vec(check(), 0..3), steps(), option::weighted(0.3, steps()), any::<bool>()).prop_map(
        |(branch, guards, steps, otherwise, named)| Step::Transact {
            branch,
            guards,
            steps,
            otherwise,
            named,
        },
    )
}

fn act(ttl: bool) -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => a_cell().prop_map(Act::Get),
        1 => (0..PREFIXES.len()).prop_map(Act::List),
        2 => a_cell().prop_map(Act::GetRecord),
        6 => write(ttl).prop_map(Act::Do),
    ]
}

fn write(ttl: bool) -> BoxedStrategy<Write> {
    prop_oneof![
        2 => (a_cell(), value()).prop_map(|(at, value)| Write::Init(at, value)),
        5 => (a_cell(), value(), a_ttl(ttl)).prop_map(|(at, v, ttl)| Write::Set(at, v, ttl)),
        3 => (a_cell(), expect(), value()).prop_map(|(at, e, value)| Write::Cas(at, e, value)),
        2 => (a_cell(), option::of(expect())).prop_map(|(at, e)| Write::Delete(at, e)),
        2 => (a_cell(), number()).prop_map(|(at, by)| Write::Incr(at, by)),
        // Without times to live, `Clear` has no effect, which must be tested too.
        2 => (a_cell(), a_ttl(ttl)).prop_map(|(at, ttl)| Write::Expire(at, ttl)),
        1 => a_cell().prop_map(Write::Get),
        1 => (0..PREFIXES.len()).prop_map(Write::List),
        8 => text(ttl).prop_map(Write::Text),
        16 => record(ttl).prop_map(Write::Record),
        16 => run_write().prop_map(Write::Run),
        8 => space_write().prop_map(Write::Space),
    ]
    .boxed()
}

fn demand() -> impl Strategy<Value = Demand> {
    prop_oneof![6 => Just(Demand::Success), 1 => Just(Demand::Effect), 2 => Just(Demand::Nothing)]
}

fn check() -> impl Strategy<Value = Check> {
    prop_oneof![
        (a_cell(), expect()).prop_map(|(at, expect)| Check::Counter(at, expect)),
        (a_cell(), option::of(value())).prop_map(|(at, value)| Check::Value(at, value)),
        a_cell().prop_map(Check::SameValue),
        (a_cell(), 0..8u64).prop_map(|(at, back)| Check::Unchanged(at, back)),
        (0..PREFIXES.len(), 0..8u64).prop_map(|(at, back)| Check::Range(at, back)),
        (a_cell(), expect()).prop_map(|(at, expect)| Check::Record(at, expect)),
        (a_cell(), a_field()).prop_map(|(at, of)| Check::SameField(at, of)),
        (a_cell(), a_field()).prop_map(|(at, of)| Check::NoField(at, of)),
        (a_cell(), 0..8u64).prop_map(|(at, back)| Check::UnchangedRecord(at, back)),
        (0..PREFIXES.len(), 0..8u64).prop_map(|(at, back)| Check::RecordRange(at, back)),
        (a_cell(), 0..8u64).prop_map(|(at, back)| Check::UnchangedRun(at, back)),
        (0..PREFIXES.len(), 0..8u64).prop_map(|(at, back)| Check::RunRange(at, back)),
    ]
}

fn branch() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 3 => Just(1), 2 => Just(2), 1 => Just(3)]
}

pub fn a_cell() -> impl Strategy<Value = usize> {
    0..CELLS.len()
}

fn slot() -> impl Strategy<Value = usize> {
    0..2usize
}

pub fn expect() -> impl Strategy<Value = Expect> {
    prop_oneof![
        2 => Just(Expect::Absent),
        4 => Just(Expect::Near(0)),
        1 => (-2..3i8).prop_map(Expect::Near),
    ]
}

pub fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (0..3i64).prop_map(Value::Int),
        1 => Just(Value::Int(i64::MAX)),
        1 => Just(Value::Float(0.5)),
        1 => Just(Value::Float(f64::NAN)),
        1 => Just(Value::Null),
        1 => Just(Value::from("text")),
        2 => numeral().prop_map(Value::from),
        1 => Just(Value::Bytes(b"1".to_vec())),
        // Large values fill the write buffer, so that flushes happen during the program.
        2 => (1..4usize).prop_map(|n| Value::from("large ".repeat(n * 700))),
    ]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => (-2..5i64).prop_map(Number::Int),
        1 => Just(Number::Float(0.25)),
        1 => Just(Number::Float(f64::MAX)),
    ]
}

/// Clocks move in tens of milliseconds and times to live end between them, so the exact microsecond of a
/// read does not matter.
pub fn a_ttl(any: bool) -> BoxedStrategy<Ttl> {
    if !any {
        return Just(Ttl::Clear).boxed();
    }
    prop_oneof![
        3 => Just(Ttl::Clear),
        1 => Just(Ttl::Keep),
        4 => (0..12u64).prop_map(|tens| Ttl::Millis(tens * 10 + 5)),
    ]
    .boxed()
}

fn strategy() -> impl Strategy<Value = MergeStrategy> {
    prop_oneof![Just(MergeStrategy::Strict), Just(MergeStrategy::Theirs), Just(MergeStrategy::Ours)]
}

pub fn expire_only() -> impl Strategy<Value = ExpireOnly> {
    prop::sample::select(vec![
        ExpireOnly::Always,
        ExpireOnly::WithoutExpiry,
        ExpireOnly::WithExpiry,
        ExpireOnly::Later,
        ExpireOnly::Earlier,
        ExpireOnly::EarlierThanThere,
    ])
}
