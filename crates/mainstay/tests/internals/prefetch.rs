//! Tests of `mainstay_engine::read::prefetch` on whole databases.

use mainstay::{Database, Options, RecordWrite, Where};
use mainstay_engine::apply::names;
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Durability, KeyCommand, Name, RecordCommand, RunAnswer,
    RunCommand, StateCommand, Transaction,
};
use mainstay_model::{Contract, Guard, MAIN, StateAnswer, StateWrite, Test, Ttl, Version};
use proptest::prelude::*;
use std::time::Duration;

const RECORD_COUNT: usize = 1_000;

fn name(name: impl AsRef<str>) -> Name {
    Name::new(name.as_ref()).unwrap()
}

fn put(key: &str, value: &str) -> Command {
    RecordWrite::to(key).unwrap().set("n", value).unwrap().into()
}

fn count(prefix: &str) -> Command {
    RecordCommand::Count { prefix: prefix.to_owned(), filters: Vec::new() }.into()
}

fn count_names() -> Command {
    KeyCommand::Count { kinds: names::KINDS.to_vec(), limit: 10_000, hidden: Vec::new() }.into()
}

fn put_state(key: &str, version: u64) -> Command {
    let key = key.as_bytes().to_vec();
    let version = Version::U64(version);
    let writes = vec![StateWrite::Put { key, value: Vec::new(), version }];
    StateCommand::Write { space: name("s"), writes }.into()
}

fn list_states(prefix: &str) -> Command {
    let prefix = prefix.as_bytes().to_vec();
    StateCommand::List { space: name("s"), prefix, after: None, limit: 2 }.into()
}

fn set(cell: &str) -> Command {
    CellCommand::set(name(cell), 1).into()
}

fn all(commands: impl IntoIterator<Item = Command>) -> Transaction {
    commands.into_iter().fold(Transaction::new(), Transaction::step)
}

fn filled(options: Options) -> Database {
    let db = options.durability(Durability::Memory).memory().unwrap();
    db.execute(all((0..RECORD_COUNT).map(|i| put(&format!("r{i:04}"), "1")))).unwrap();
    db
}

#[test]
fn a_transaction_looks_at_so_many_entries_and_writes_nothing_beyond() {
    let db = filled(Options::new().work_limits(10 * RECORD_COUNT as u64, 1 << 30));
    let before = db.revision();
    let many = || (0..20).map(|_| count(""));
    for transaction in
        [all(many()), all(many().chain([set("a")])), all([set("a")].into_iter().chain(many()))]
    {
        let error = db.execute(transaction).unwrap_err();
        assert_eq!(error.code(), Code::TransactionTooLarge);
        assert!(error.to_string().contains("transaction_entries"), "{error}");
    }
    assert_eq!(db.revision(), before, "nothing was written");
    db.execute(all((0..9).map(|_| count("")).chain([set("a")]))).unwrap();
}

#[test]
fn an_interactive_transaction_has_one_budget_in_all() {
    let db = filled(Options::new().work_limits(10 * RECORD_COUNT as u64, 1 << 30));
    let mut open = db.begin().unwrap();
    let outcomes: Vec<_> = (0..20).map(|_| open.run(count(""))).collect();
    assert!(outcomes[8].is_ok());
    assert_eq!(outcomes[19].as_ref().unwrap_err().code(), Code::TransactionTooLarge);
}

#[test]
fn bytes_that_are_read_have_a_limit_too() {
    let db = filled(Options::new().work_limits(u64::MAX, 64 << 10));
    let gets = |n: usize| {
        let get = |i: usize| RecordCommand::Get {
            key: name(format!("r{:04}", i % RECORD_COUNT)),
            fields: None,
        };
        all((0..n).map(|i| get(i).into()))
    };
    db.execute(gets(100)).unwrap();
    let error = db.execute(gets(10_000)).unwrap_err();
    assert_eq!(error.code(), Code::TransactionTooLarge);
    assert!(error.to_string().contains("transaction_read_bytes"), "{error}");
}

#[test]
fn long_reads_do_not_hold_the_writer() {
    // The writer may read far fewer entries than one count needs.
    let db = filled(Options::new().writer_entries(100));
    let many = || (0..20).map(|_| count(""));
    let read = db.execute(all(many())).unwrap();
    let mixed = db.execute(all([set("a")].into_iter().chain(many()))).unwrap();
    assert_eq!(read.answers[19], Answer::Count(RECORD_COUNT as u64));
    assert_eq!(mixed.answers[20], Answer::Count(RECORD_COUNT as u64));
    let own = all([put("r", "1")].into_iter().chain(many()));
    let error = db.execute(own).unwrap_err();
    assert_eq!(error.code(), Code::TransactionTooLarge, "its own writes are in the way");
    assert!(error.to_string().contains("transaction_writer_entries"), "{error}");
}

#[test]
fn names_histories_and_states_are_read_before_the_writer_too() {
    let db = filled(Options::new().writer_entries(100));
    (0..200).for_each(|_| drop(db.execute(all([set("hot"), put("hot", "1")])).unwrap()));
    db.execute(all((0..500).map(|i| put_state(&format!("k{i:03}"), i)))).unwrap();
    let oldest = || CellCommand::History { name: name("hot"), limit: 1, before: Some(2) };
    let record = || RecordCommand::History { key: name("hot"), limit: 1, before: Some(2) };
    let dump = || StateCommand::Dump { space: name("s"), after: None, limit_bytes: 1 << 20 };
    let reads: [Command; 4] = [count_names(), oldest().into(), record().into(), dump().into()];
    let others = [put_state("z", 1), set("a"), set("a"), set("a")];
    for (other, read) in others.into_iter().zip(reads.clone()) {
        db.execute(all([other, read])).unwrap();
    }
    let own = [put("r", "1"), set("hot"), put("hot", "1"), put_state("k", 1_000)];
    for (own, read) in own.into_iter().zip(reads) {
        let error = db.execute(all([own, read.clone()])).unwrap_err();
        assert_eq!(error.code(), Code::TransactionTooLarge, "{read:?}");
    }
}

#[test]
fn what_others_wrote_meanwhile_is_seen() {
    let db = filled(Options::new());
    let core = db.engine();
    let submitted = core.prepare(all([set("a"), count("r"), count("x")]));
    db.execute(all([put("r", "1")])).unwrap();
    let receipt = core.sequencer.execute(submitted).unwrap();
    assert_eq!(receipt.answers[1], Answer::Count(RECORD_COUNT as u64 + 1));
    assert_eq!(receipt.answers[2], Answer::Count(0));
}

#[test]
fn what_others_wrote_while_it_was_read_is_not_looked_at_by_the_writer_again() {
    let db = filled(Options::new());
    let core = db.engine();
    let mut submitted = core.prepare(all([set("a"), count("r"), count("x")]));
    db.execute(all([put("r", "1")])).unwrap();
    let prefetched = submitted.ahead.as_mut().unwrap().prefetched.as_mut().unwrap();
    prefetched.catch_up(&core.state.trail, db.revision());
    assert_eq!(prefetched.revision, db.revision());
    let receipt = core.sequencer.execute(submitted).unwrap();
    assert_eq!(receipt.answers[1], Answer::Count(RECORD_COUNT as u64 + 1));
    assert_eq!(receipt.answers[2], Answer::Count(0));
}

#[test]
fn a_transaction_that_nobody_comes_between_has_the_budget_of_the_writer() {
    let db = filled(Options::new().writer_entries(100));
    let main = db.branch(MAIN).unwrap();
    let counted = main.transaction_alone(Vec::new(), |open| open.run(count("")));
    assert_eq!(counted.unwrap_err().code(), Code::TransactionTooLarge);
}

#[test]
fn a_kept_state_is_that_of_the_same_transaction() {
    let db = filled(Options::new());
    let started = mainstay::NewEvent {
        plan_version: Some("1".to_owned()),
        ..mainstay::NewEvent::new("r", "RunStarted")
    };
    db.runs().append(started).unwrap();
    let keep = |state: i64| {
        let run = name("r");
        let reducer = "p".to_owned();
        let state = state.into();
        Command::from(RunCommand::Keep { run, reducer, version: 1, seq: 1, state })
    };
    db.execute(all([keep(1)])).unwrap();
    let run = name("r");
    let reducer = "p".to_owned();
    let kept = RunCommand::Kept { run, reducer, version: 1, upto: None };
    let answers = db.execute(all([keep(2), count("r"), kept.into()])).unwrap().answers;
    let Answer::Run(answer) = &answers[2] else { panic!("{answers:?}") };
    let RunAnswer::Kept(Some(kept)) = &**answer else { panic!("{answer:?}") };
    assert_eq!(kept.state, 2.into());
}

#[test]
fn a_history_shows_what_was_swept_meanwhile() {
    let clock = mainstay::ManualClock::new(1_000_000_000);
    let options = Options::new().durability(Durability::Memory).clock(clock.clone());
    let db = options.sweep_interval(None).memory().unwrap();
    let ttl = Ttl::Millis(5);
    let expire = [
        CellCommand::Expire { name: name("c"), ttl }.into(),
        RecordCommand::Expire { key: name("c"), ttl, only: Default::default() }.into(),
    ];
    db.execute(all([set("c"), put("c", "1")].into_iter().chain(expire))).unwrap();
    let cell = CellCommand::History { name: name("c"), limit: 9, before: None };
    let record = RecordCommand::History { key: name("c"), limit: 9, before: None };
    let core = db.engine();
    let submitted = core.prepare(all([set("a"), cell.into(), record.into()]));
    clock.advance(Duration::from_millis(10));
    db.sweep().unwrap();
    let answers = core.sequencer.execute(submitted).unwrap().answers;
    let [_, Answer::History(cells), Answer::RecordHistory(records)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(cells[0].value.is_none() && records[0].fields.is_none(), "{answers:?}");
}

#[test]
fn all_range_guards_of_a_transaction_take_one_walk() {
    let db = filled(Options::new());
    let mut open = db.begin().unwrap();
    for i in 0..500 {
        open.list(&format!("c{i}"), None, 10).unwrap();
    }
    open.set("other", 1).unwrap();
    let trail = &db.engine().state.trail;
    let before = trail.walks();
    open.commit().unwrap();
    let walks = trail.walks() - before;
    assert!(walks <= 2, "{walks} walks: one before the writer is asked, and one in it");
    let guard = |i: usize| Guard::RangeUnchanged {
        contract: Contract::Cells,
        prefix: format!("c{i}"),
        after: None,
        upto: None,
        since: db.revision(),
        expires: None,
    };
    let guarded = (0..500).fold(all([set("a")]), |all, i| all.guard(guard(i)));
    let before = trail.walks();
    db.execute(guarded).unwrap();
    let walks = trail.walks() - before;
    assert!(walks <= 2, "{walks} walks: those of a plain transaction as well");
}

#[test]
fn range_guards_are_checked_before_the_writer_and_again_for_what_came_since() {
    let db = filled(Options::new());
    let core = db.engine();
    let guarded = |on: &str, since| {
        let guard = Guard::RangeUnchanged {
            contract: Contract::Cells,
            prefix: "g".to_owned(),
            after: None,
            upto: None,
            since,
            expires: None,
        };
        let command: Command = set("done");
        Transaction {
            otherwise: Some(Vec::new()),
            ..Transaction::on(on).step(command).guard(guard)
        }
    };
    let since = db.revision();
    let holds = core.prepare(guarded(MAIN, since));
    let fails = core.prepare(guarded(MAIN, since));
    assert!(core.sequencer.execute(holds).unwrap().held);
    db.execute(all([set("g1")])).unwrap();
    assert!(!core.sequencer.execute(fails).unwrap().held, "written between the two checks");
    assert!(!db.execute(guarded(MAIN, since)).unwrap().held, "written before both");
    // The same name, but a different branch when the writer executes it.
    db.fork("b", MAIN, At::Latest).unwrap();
    let since = db.revision();
    db.execute(Transaction::on("b").step(set("g2"))).unwrap();
    let failed = core.prepare(guarded("b", since));
    db.delete_branch("b").unwrap();
    db.fork("b", MAIN, At::Latest).unwrap();
    assert!(core.sequencer.execute(failed).unwrap().held, "nothing was written on this one");
}

fn command() -> impl Strategy<Value = Command> {
    let key = || prop::sample::select(vec!["a", "ab", "b", "ba", "c"]);
    let prefix = || prop::sample::select(vec!["", "a", "b", "c"]);
    let is = |value: &str| {
        vec![Where {
            field: mainstay_model::Field::new("n").unwrap(),
            test: Test::Eq(value.into()),
        }]
    };
    let kinds = prop::sample::subsequence(names::KINDS.to_vec(), 1..=2);
    let writes = prop_oneof![
        (key(), "[12]").prop_map(|(key, value)| put(key, &value)),
        key().prop_map(|key| RecordCommand::Delete { key: name(key), when: Vec::new() }.into()),
        key().prop_map(set),
        key().prop_map(|key| CellCommand::Delete { name: name(key), counter: None }.into()),
        (key(), 0..9u64).prop_map(|(key, version)| put_state(key, version)),
        (key(), 1..9u64).prop_map(|(key, ms)| {
            CellCommand::Expire { name: name(key), ttl: Ttl::Millis(ms) }.into()
        }),
        (key(), 1..9u64).prop_map(|(key, ms)| {
            let (key, ttl) = (name(key), Ttl::Millis(ms));
            RecordCommand::Expire { key, ttl, only: Default::default() }.into()
        }),
    ];
    let histories = prop_oneof![
        key().prop_map(|key| {
            CellCommand::History { name: name(key), limit: 3, before: None }.into()
        }),
        key().prop_map(|key| {
            RecordCommand::History { key: name(key), limit: 3, before: None }.into()
        }),
    ];
    let reads = prop_oneof![
        prefix().prop_map(count),
        prefix().prop_map(move |prefix| {
            let (prefix, filters) = (prefix.to_owned(), is("1"));
            RecordCommand::Scan { prefix, filters, after: None, limit: 2 }.into()
        }),
        prefix().prop_map(|prefix| {
            CellCommand::List { prefix: prefix.to_owned(), after: None, limit: 2 }.into()
        }),
        (kinds, prefix(), prop::option::of(key())).prop_map(|(kinds, prefix, after)| {
            let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
            KeyCommand::Names { kinds, prefix, after, limit: 2, hidden: Vec::new() }.into()
        }),
        Just(count_names()),
        prefix().prop_map(list_states),
    ];
    prop_oneof![3 => writes, 3 => reads, 1 => histories]
}

/// Removes the cursor: a page has one if more may follow, and nothing may follow.
fn without_next(answer: Answer) -> Answer {
    match answer {
        Answer::Names(page) => Answer::Names(mainstay::Page { next: None, ..page }),
        Answer::Records(page) => Answer::Records(mainstay::RecordPage { next: None, ..page }),
        Answer::State(answer) => Answer::State(match *answer {
            StateAnswer::Keys { keys, .. } => StateAnswer::Keys { keys, next: None }.into(),
            other => other.into(),
        }),
        other => other,
    }
}

proptest! {
    /// For any prefetched reads and any concurrent writes, the answers equal those of the writer
    /// alone.
    #[test]
    fn prefetched_answers_are_those_of_the_writer(
        before in prop::collection::vec(command(), 0..6),
        meanwhile in prop::collection::vec(command(), 0..3),
        steps in prop::collection::vec(command(), 1..8),
        passes_ms in 0..9u64,
        sweeps: bool,
    ) {
        let receipts = [true, false].map(|prefetches| {
            let clock = mainstay::ManualClock::new(1_000_000_000);
            let options = Options::new().durability(Durability::Memory).clock(clock.clone());
            let db = options.sweep_interval(None).memory().unwrap();
            let core = db.engine();
            let attempt = |commands: &[Command]| {
                commands.iter().cloned().fold(Transaction::new(), Transaction::attempt)
            };
            let execute = |commands: &[Command]| core.sequencer.execute(attempt(commands)).unwrap();
            execute(&before);
            let transaction = attempt(&steps);
            let submitted =
                if prefetches { core.prepare(transaction) } else { transaction.into() };
            execute(&meanwhile);
            clock.advance(Duration::from_millis(passes_ms));
            if sweeps {
                db.sweep().unwrap();
            }
            core.sequencer.execute(submitted).unwrap()
        });
        let [prefetched, alone] = receipts.map(|receipt| receipt.answers.into_iter().map(without_next).collect::<Vec<_>>());
        prop_assert_eq!(prefetched, alone);
    }
}
