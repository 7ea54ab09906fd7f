//! After any faults, state and outputs equal those of an undisturbed run.

mod common;

use common::{ArrivalTimeSource, Event, FlakyState, RedeliveringSource, digest, source};
use mainstay_model::{Code, ErrorKind, KeyedState, LogicalTime, SpaceOptions};
use mainstay_streams::{
    Items, MemorySink, MemoryState, Operator, Output, Pipeline, PipelineBuilder, StatefulOperator,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The result of a run: the state's bytes and the outputs.
type RunResult = (Vec<u8>, Vec<Output<String>>);

fn events() -> Vec<Event> {
    (0..60).map(|n| ((n * n % 5) as u8, n * 31 % 23)).collect()
}

fn pipeline(
    events: &[Event],
    batch: usize,
    sink: &MemorySink<String>,
) -> PipelineBuilder<impl Operator<Item = Event, Out = String> + use<>> {
    Pipeline::of(digest()).source(source("events", events)).sink(sink.clone()).batch(batch)
}

fn uninterrupted(events: &[Event]) -> RunResult {
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let progress = pipeline(events, 1_024, &sink).open(state.clone()).unwrap().run().unwrap();
    assert_eq!((progress.items, progress.skipped), (events.len() as u64, 0));
    (state.snapshot().unwrap(), sink.outputs())
}

#[test]
fn a_crash_at_every_batch_changes_nothing() {
    let whole = uninterrupted(&events());
    for batch in [1, 3, 7] {
        for steps in 0..=events().len() / batch {
            let state = Arc::new(MemoryState::new());
            let sink = MemorySink::new("out");
            let mut first = pipeline(&events(), batch, &sink).open(state.clone()).unwrap();
            for _ in 0..steps {
                first.step().unwrap();
            }
            drop(first);
            pipeline(&events(), batch + 1, &sink).open(state.clone()).unwrap().run().unwrap();
            assert_eq!((state.snapshot().unwrap(), sink.outputs()), whole, "{steps} of {batch}");
        }
    }
}

/// The engine gives the same result as memory, down to the bytes of the snapshot.
#[test]
fn on_the_engine_it_is_the_same() {
    let whole = uninterrupted(&events());
    let db = mainstay::Database::memory().unwrap();
    let sink = MemorySink::new("out");
    let open = |back: u64| {
        let again = RedeliveringSource { source: source("events", &events()), back };
        let builder = Pipeline::of(digest()).source(again).sink(sink.clone()).batch(7);
        builder.open(Arc::new(db.keyed("digest").unwrap())).unwrap()
    };
    for back in 0..8 {
        open(back).step().unwrap();
    }
    open(3).run().unwrap();
    let snapshot = db.keyed("digest").unwrap().snapshot().unwrap();
    assert_eq!((snapshot, sink.outputs()), whole);
}

#[test]
fn a_write_that_fails_is_made_once_whether_it_was_made_or_not() {
    let whole = uninterrupted(&events());
    for made in [false, true] {
        for fails in 1..=20 {
            let state = Arc::new(FlakyState::new(fails, made));
            let sink = MemorySink::new("out");
            let mut pipeline = pipeline(&events(), 3, &sink).open(state.clone()).unwrap();
            let error = pipeline.run().unwrap_err();
            assert_eq!(error.code(), Code::UnknownOutcome);
            // The same pipeline recovers automatically.
            pipeline.run().unwrap();
            assert_eq!((state.snapshot().unwrap(), sink.outputs()), whole, "{fails}, {made}");
        }
    }
}

#[test]
fn items_that_come_again_are_passed_over_and_counted() {
    let whole = uninterrupted(&events());
    for back in 0..=60 {
        let state = Arc::new(MemoryState::new());
        let sink = MemorySink::new("out");
        let mut first = pipeline(&events(), 10, &sink).open(state.clone()).unwrap();
        for _ in 0..3 {
            first.step().unwrap();
        }
        let again = RedeliveringSource { source: source("events", &events()), back };
        let mut second = Pipeline::of(digest()).source(again).sink(sink.clone());
        second = second.batch(7);
        let progress = second.open(state.clone()).unwrap().run().unwrap();
        assert_eq!((progress.items, progress.skipped), (30, back.min(30)));
        assert_eq!((state.snapshot().unwrap(), sink.outputs()), whole, "{back}");
    }
}

/// The reason why versions must come from the source: this happens if they are assigned on arrival.
#[test]
fn versions_on_arrival_apply_twice_what_comes_again() {
    let sums = || {
        let add = |sum: Option<u64>, n: &u64, _| {
            let sum = sum.unwrap_or(0) + n;
            Ok((Some(sum), vec![sum]))
        };
        StatefulOperator::new("sums", |_: &u64| "sum", add)
    };
    let run = |on_arrival: bool| {
        let state = Arc::new(MemoryState::new());
        let sink = MemorySink::new("out");
        let clock = Arc::new(AtomicU64::new(0));
        let open = |back| {
            let again = RedeliveringSource { source: Items::new("numbers", 1..=60), back };
            let builder = Pipeline::of(sums()).sink(sink.clone()).batch(10);
            let builder = if on_arrival {
                builder.source(ArrivalTimeSource { source: again, clock: clock.clone() })
            } else {
                builder.source(again)
            };
            builder.open(state.clone()).unwrap()
        };
        let mut first = open(0);
        for _ in 0..3 {
            first.step().unwrap();
        }
        let progress = open(5).run().unwrap();
        let sum = String::from_utf8(state.get(b"sum").unwrap().unwrap().value).unwrap();
        (sum, progress.items, sink.outputs().len())
    };
    assert_eq!(run(false), ((1..=60).sum::<u64>().to_string(), 30, 60));
    let twice: u64 = (1..=60).chain(26..=30).sum();
    assert_eq!(run(true), (twice.to_string(), 35, 65), "five items were applied twice");
}

#[test]
fn a_source_that_goes_back_is_refused_behind_what_was_right() {
    let time = |round| LogicalTime::new(0, round);
    let events = [(time(5), (1, 1)), (time(6), (1, 2)), (time(6), (1, 3))];
    let state = Arc::new(MemoryState::new());
    let open = || {
        let builder = Pipeline::of(digest()).source(Items::with_times("clicks", events));
        builder.open(state.clone()).unwrap()
    };
    let mut pipeline = open();
    assert_eq!(pipeline.step().unwrap().items, 2);
    let error = pipeline.step().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("`clicks` gives time 0.6 after time 0.6"), "{error}");
    // Neither a retry nor another process skips it as already applied.
    for mut pipeline in [pipeline, open()] {
        let error = pipeline.step().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("`clicks` gives time 0.6 behind position 2"), "{error}");
        assert_eq!(state.get(&[1]).unwrap().unwrap().value, b"[1,2]");
    }
}

/// A key moved here from a shard that had read further.
#[test]
fn states_may_be_ahead_if_that_is_said() {
    let state = Arc::new(MemoryState::new());
    state.put(&[1], b"[5]", LogicalTime::new(0, 3).into()).unwrap();
    let events = [(1, 5), (1, 5), (1, 8)];
    let pipeline = || Pipeline::of(digest()).source(source("events", &events));
    let error = pipeline().open(state.clone()).unwrap().run().unwrap_err();
    assert_eq!(error.code(), Code::InvalidVersion);
    let progress = pipeline().states_ahead().open(state.clone()).unwrap().run().unwrap();
    assert_eq!((progress.items, progress.skipped), (1, 2));
    assert_eq!(state.get(&[1]).unwrap().unwrap().value, b"[5,8]");
}

#[test]
fn all_before_an_item_that_fails_is_in_the_state() {
    let picky = |fails: u64| {
        StatefulOperator::new(
            "picky",
            |_: &u64| "k",
            move |sum: Option<u64>, n, _| match *n {
                n if n == fails => Err(mainstay_model::Error::new(Code::NotANumber, "no")),
                n => Ok((Some(sum.unwrap_or(0) + n), vec![n])),
            },
        )
    };
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let source = || Items::new("numbers", 1..=10);
    let mut first = Pipeline::of(picky(7)).source(source()).sink(sink.clone());
    first = first.batch(4);
    let mut first = first.open(state.clone()).unwrap();
    assert_eq!(first.step().unwrap().items, 4);
    assert_eq!(first.step().unwrap().items, 2);
    for _ in 0..3 {
        let error = first.step().unwrap_err();
        assert_eq!(error.code(), Code::NotANumber);
        assert_eq!(error.message(), "operator `picky`, key k, time 0.6: no");
        assert_eq!(state.get(b"k").unwrap().unwrap().value, b"21");
        assert_eq!(sink.outputs().len(), 6);
    }
    let mut mended =
        Pipeline::of(picky(0)).source(source()).sink(sink.clone()).open(state.clone()).unwrap();
    mended.run().unwrap();
    assert_eq!(state.get(b"k").unwrap().unwrap().value, b"55");
    assert_eq!(sink.outputs().len(), 10);
}

#[test]
fn an_item_without_a_key_is_named() {
    let operator =
        StatefulOperator::new("o", |word: &&str| *word, |_: Option<()>, _, _| Ok((None, vec![()])));
    let mut pipeline = Pipeline::of(operator)
        .source(Items::new("words", ["a", "", "b"]))
        .open(Arc::new(MemoryState::new()))
        .unwrap();
    assert_eq!(pipeline.step().unwrap().items, 1);
    let error = pipeline.step().unwrap_err();
    assert_eq!(error.code(), Code::InvalidName);
    assert!(error.message().contains("time 0.1 a key of 0 bytes"), "{error}");
}

#[test]
fn a_store_that_takes_less_gets_less() {
    let whole = uninterrupted(&events());
    let state = Arc::new(FlakyState { most: 6, ..FlakyState::default() });
    let sink = MemorySink::new("out");
    pipeline(&events(), 1_024, &sink).open(state.clone()).unwrap().run().unwrap();
    assert_eq!((state.snapshot().unwrap(), sink.outputs()), whole);
    // One key with all positions exceeds the limit: the error is reported and nothing changes.
    let state = Arc::new(FlakyState { most: 3, ..FlakyState::default() });
    let error = pipeline(&events(), 8, &sink).open(state.clone()).unwrap().run().unwrap_err();
    assert_eq!(error.code(), Code::TransactionTooLarge);
    assert!(state.positions().unwrap().is_empty());
}

#[test]
fn what_comes_again_is_known_when_its_deleted_key_is_forgotten() {
    let state = Arc::new(MemoryState::new());
    let once = || {
        StatefulOperator::new(
            "once",
            |n: &u64| n.to_be_bytes(),
            |_: Option<()>, n, _| Ok((None, vec![*n])),
        )
    };
    let sink = MemorySink::new("out");
    let first =
        Pipeline::of(once()).source(Items::new("numbers", 0..10)).sink(sink.clone()).batch(5);
    let mut first = first.open(state.clone()).unwrap();
    first.step().unwrap();
    let with_deleted = state.snapshot().unwrap().len();
    first.seal().unwrap();
    assert!(state.snapshot().unwrap().len() < with_deleted, "deleted keys are forgotten");
    assert!(state.look(&[&0_u64.to_be_bytes()]).unwrap()[0].is_none());
    drop(first);

    let again = RedeliveringSource { source: Items::new("numbers", 0..10), back: 5 };
    let mut second =
        Pipeline::of(once()).source(again).sink(sink.clone()).open(state.clone()).unwrap();
    let progress = second.run().unwrap();
    assert_eq!((progress.items, progress.skipped), (5, 5));
    let values: Vec<u64> = sink.outputs().into_iter().map(|output| output.value).collect();
    assert_eq!(values, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_sink_that_lost_something_sends_the_state_back_to_its_checkpoint() {
    let whole = uninterrupted(&events());
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let mut first = pipeline(&events(), 10, &sink).open(state.clone()).unwrap();
    first.step().unwrap();
    first.barrier(1).unwrap();
    let checkpoint = state.snapshot().unwrap();
    first.step().unwrap();
    first.commit_checkpoint(1).unwrap();
    first.step().unwrap();
    drop(first);
    sink.drop_uncommitted();

    let mut second = pipeline(&events(), 10, &sink).open(state.clone()).unwrap();
    let held = sink.outputs().len() as u64;
    assert_eq!(
        (second.lagging_sinks()[0].sink.as_str(), second.lagging_sinks()[0].actual),
        ("out", held)
    );
    let error = second.step().unwrap_err();
    assert_eq!(error.code(), Code::Conflict);
    assert!(error.message().contains("restore the last checkpoint"), "{error}");
    state.restore(&checkpoint).unwrap();
    second.recover().unwrap();
    second.run().unwrap();
    assert_eq!((state.snapshot().unwrap(), sink.outputs()), whole);
}

/// The state goes back further than the outputs that readers have seen.
#[test]
fn what_was_committed_is_known_when_it_comes_again() {
    let whole = uninterrupted(&events());
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let mut first = pipeline(&events(), 10, &sink).open(state.clone()).unwrap();
    for _ in 0..4 {
        first.step().unwrap();
    }
    first.barrier(1).unwrap();
    first.commit_checkpoint(1).unwrap();
    let committed = sink.committed();
    assert!(!committed.is_empty());
    state.clear().unwrap();
    first.recover().unwrap();
    first.step().unwrap();
    assert_eq!(sink.outputs(), committed, "nothing that others have seen goes away");
    first.run().unwrap();
    assert_eq!((state.snapshot().unwrap(), sink.outputs()), whole);
}

#[test]
fn barriers_are_committed_in_any_order_and_aborted_ones_with_a_later_one() {
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let mut pipeline = pipeline(&events(), 10, &sink).open(state.clone()).unwrap();
    pipeline.step().unwrap();
    let first = pipeline.barrier(1).unwrap();
    assert_eq!(first.positions, state.positions().unwrap());
    assert_eq!(first.positions["source/events"], 10);
    assert_eq!(pipeline.barrier(1).unwrap_err().code(), Code::InvalidArgument);
    pipeline.barrier(2).unwrap();
    pipeline.step().unwrap();
    let third = pipeline.barrier(3).unwrap();
    pipeline.abort_checkpoint(2).unwrap();
    pipeline.commit_checkpoint(3).unwrap();
    assert_eq!(sink.committed().len() as u64, third.positions["sink/out"]);
    pipeline.commit_checkpoint(1).unwrap();
    assert_eq!(sink.committed().len() as u64, third.positions["sink/out"]);
    assert_eq!(pipeline.commit_checkpoint(2).unwrap_err().code(), Code::InvalidArgument);
    pipeline.committed_before(&first).unwrap();
}

#[test]
fn a_barrier_that_the_state_went_back_behind_is_none() {
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let mut pipeline = pipeline(&events(), 10, &sink).open(state.clone()).unwrap();
    pipeline.step().unwrap();
    pipeline.barrier(1).unwrap();
    let checkpoint = state.snapshot().unwrap();
    pipeline.step().unwrap();
    pipeline.barrier(2).unwrap();
    state.restore(&checkpoint).unwrap();
    pipeline.recover().unwrap();
    assert_eq!(pipeline.commit_checkpoint(2).unwrap_err().code(), Code::InvalidArgument);
    pipeline.commit_checkpoint(1).unwrap();
}

#[test]
fn an_operator_that_gives_other_outputs_for_the_same_input_is_found_out() {
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let tells = |every: u64| {
        let tell = move |_: Option<()>, n: &u64, _| {
            Ok((None, if n.is_multiple_of(every) { vec![*n] } else { vec![] }))
        };
        let operator = StatefulOperator::new("tells", |_: &u64| "k", tell);
        let builder = Pipeline::of(operator).source(Items::new("numbers", 0..10));
        builder.sink(sink.clone()).open(state.clone()).unwrap()
    };
    let mut pipeline = tells(2);
    pipeline.run().unwrap();
    pipeline.barrier(1).unwrap();
    pipeline.commit_checkpoint(1).unwrap();
    state.clear().unwrap();
    assert_eq!(tells(3).run().unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_state_of_another_pipeline_is_refused() {
    let sink = MemorySink::new("out");
    let used = || {
        let state = Arc::new(MemoryState::new());
        pipeline(&events(), 10, &sink).open(state.clone()).unwrap().step().unwrap();
        sink.drop_uncommitted();
        state
    };
    let refused = |builder: PipelineBuilder<_>, state| -> String {
        let error = builder.open(state).err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.message().to_owned()
    };
    let other = StatefulOperator::new(
        "other",
        |_: &Event| "k",
        |_: Option<Vec<u64>>, _, _| Ok((None, Vec::<String>::new())),
    );
    let message = refused(Pipeline::of(other).source(source("events", &[])), used());
    assert!(message.contains("that of operator `digest`, not of `other`"), "{message}");
    let message = refused(Pipeline::of(digest()).source(source("clicks", &[])), used());
    assert!(message.contains(r#"sources ["events"], not from ["clicks"]"#), "{message}");
    let two = Pipeline::of(digest()).source(source("events", &[])).source(source("more", &[]));
    let message = refused(two, used());
    assert!(message.contains(r#"not from ["events", "more"]"#), "{message}");
    let ordered = Arc::new(MemoryState::new());
    ordered.declare(SpaceOptions::default().ordered()).unwrap();
    let message = refused(Pipeline::of(digest()).source(source("events", &[])), ordered);
    assert!(message.contains("newest wins"), "{message}");
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let state = || Arc::new(MemoryState::new());
    let code = |builder: PipelineBuilder<_>| builder.open(state()).err().map(|error| error.code());
    let one = || Pipeline::of(digest()).source(source("events", &[]));
    assert_eq!(code(one()), None);
    assert_eq!(code(Pipeline::of(digest())), Some(Code::InvalidOption));
    assert_eq!(code(one().batch(0)), Some(Code::InvalidOption));
    assert_eq!(code(one().batch(10_001)), Some(Code::InvalidOption));
    assert_eq!(code(one().source(source("events", &[]))), Some(Code::InvalidArgument));
    assert_eq!(code(one().source(source("\0", &[]))), Some(Code::InvalidName));
    let twice = one().sink(MemorySink::new("a")).sink(MemorySink::new("a"));
    assert_eq!(code(twice), Some(Code::InvalidArgument));
}

fn plans() -> impl Strategy<Value = Vec<(usize, u64, u64, bool)>> {
    let plan = (1_usize..9, 0_u64..8, 0_u64..4, any::<bool>());
    proptest::collection::vec(plan, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Several sources, any batch size, failing writes, dying processes and repeated items.
    #[test]
    fn a_run_with_accidents_leaves_what_one_without_does(
        inputs in proptest::collection::vec(proptest::collection::vec((0_u8..4, 0_u64..30), 0..25), 1..4),
        plans in plans(),
    ) {
        let names = ["a", "b", "c"];
        let build = |back: u64, batch: usize, sink: &MemorySink<String>| {
            let mut builder = Pipeline::of(digest()).sink(sink.clone()).batch(batch);
            for (name, events) in names.iter().zip(&inputs) {
                builder = builder.source(RedeliveringSource { source: source(name, events), back });
            }
            builder
        };
        let (whole, all) = (Arc::new(MemoryState::new()), MemorySink::new("out"));
        build(0, 1_024, &all).open(whole.clone()).unwrap().run().unwrap();

        let (sink, mut bytes) = (MemorySink::new("out"), None::<Vec<u8>>);
        for (batch, fails, back, made) in plans.into_iter().chain([(3, 0, 1, false)]) {
            let last = fails == 0;
            let state = Arc::new(FlakyState::new(fails, made));
            if let Some(bytes) = &bytes {
                state.restore(bytes).unwrap();
            }
            let mut pipeline = build(back, batch, &sink).open(state.clone()).unwrap();
            let ran = pipeline.run();
            prop_assert!(ran.is_ok() || !last);
            bytes = Some(state.snapshot().unwrap());
        }
        prop_assert_eq!(bytes.unwrap(), whole.snapshot().unwrap());
        prop_assert_eq!(sink.outputs(), all.outputs());
    }
}
