//! Windows compared with a model that knows all events in advance.

mod common;

use common::{FlakyState, RedeliveringSource};
use mainstay_model::{Code, KeyedState};
use mainstay_streams::{
    Items, MemorySink, MemoryState, Output, Pipeline, PipelineBuilder, Window, WindowOperator,
    Windows,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key, the event time and the event's number.
type Event = (u8, u64, u32);
type Sink = MemorySink<Window<Vec<u32>>>;

const LATENESS_MS: u64 = 20;

/// Collects the items of a window.
fn collect(windows: Windows) -> WindowOperator<Event, Vec<u32>> {
    WindowOperator::new(
        "collect",
        windows,
        |event: &Event| vec![event.0],
        |event| event.1,
        |all: Option<Vec<u32>>, event| {
            let mut all = all.unwrap_or_default();
            all.push(event.2);
            Ok(all)
        },
    )
    .merged_by(|mut earlier, later| {
        earlier.extend(later);
        Ok(earlier)
    })
    .lateness_ms(LATENESS_MS)
}

fn build(
    windows: Windows,
    events: &[Event],
    batch: usize,
    sink: &Sink,
) -> PipelineBuilder<WindowOperator<Event, Vec<u32>>> {
    let source = Items::new("events", events.to_vec());
    Pipeline::of(collect(windows)).source(source).sink(sink.clone()).batch(batch)
}

/// The outputs in order: key, start, end, items.
type FiredWindows = Vec<(u8, u64, u64, Vec<u32>)>;

fn fired(outputs: Vec<Output<Window<Vec<u32>>>>) -> FiredWindows {
    let one = |output: Output<Window<Vec<u32>>>| {
        let Window { start_ms, end_ms, value } = output.value;
        assert_eq!((output.version.epoch, output.version.round), (end_ms, start_ms));
        (output.key[0], start_ms, end_ms, value)
    };
    outputs.into_iter().map(one).collect()
}

/// Runs to the end and fires all windows. Returns the outputs and the number of late items.
fn run(windows: Windows, events: &[Event], batch: usize) -> (FiredWindows, u64) {
    let sink = MemorySink::new("out");
    let mut pipeline =
        build(windows, events, batch, &sink).open(Arc::new(MemoryState::new())).unwrap();
    let progress = pipeline.run().unwrap();
    assert_eq!(progress.late, pipeline.late());
    pipeline.advance_to(u64::MAX).unwrap();
    (fired(sink.outputs()), progress.late)
}

/// The windows of an event, computed naively.
fn spans(windows: Windows, event_ms: u64) -> Vec<(u64, u64)> {
    let (size, slide) = match windows {
        Windows::Tumbling { size_ms } => (size_ms, size_ms),
        Windows::Sliding { size_ms, slide_ms } => (size_ms, slide_ms),
        _ => unreachable!("sessions have no fixed windows"),
    };
    let all = (0..=event_ms).filter(|start| start % slide == 0 && start + size > event_ms);
    all.map(|start| (start, start + size)).collect()
}

/// The content of the windows if all events are known as a set.
fn model(windows: Windows, events: &[Event]) -> FiredWindows {
    let mut held: BTreeMap<(u8, u64, u64), Vec<u32>> = BTreeMap::new();
    if let Windows::Session { gap_ms } = windows {
        let mut sorted = events.to_vec();
        sorted.sort_by_key(|event| (event.0, event.1));
        let mut sessions: Vec<(u8, u64, u64, Vec<u32>)> = Vec::new();
        for (key, at, n) in sorted {
            match sessions.last_mut() {
                Some(session) if session.0 == key && at < session.2 => {
                    session.2 = at + gap_ms;
                    session.3.push(n);
                }
                _ => sessions.push((key, at, at + gap_ms, vec![n])),
            }
        }
        return as_set(sessions);
    }
    for (key, at, n) in events {
        for (start, end) in spans(windows, *at) {
            held.entry((*key, start, end)).or_default().push(*n);
        }
    }
    as_set(held.into_iter().map(|((key, start, end), all)| (key, start, end, all)).collect())
}

fn as_set(mut fired: FiredWindows) -> FiredWindows {
    fired.iter_mut().for_each(|window| window.3.sort_unstable());
    fired.sort();
    fired
}

/// Processes events one by one, naively, and drops late ones. Returns the fired windows in order.
fn walk(windows: Windows, events: &[Event]) -> (FiredWindows, u64) {
    let mut open = FiredWindows::new();
    let mut out = FiredWindows::new();
    let mut late = 0;
    let mut watermark = 0;
    let fire = |open: &mut FiredWindows, out: &mut FiredWindows, watermark: u64| {
        let (mut due, kept): (FiredWindows, FiredWindows) =
            open.drain(..).partition(|window| window.2 <= watermark);
        *open = kept;
        due.sort_by_key(|window| (window.2, window.0, window.1));
        out.extend(due);
    };
    for (key, at, n) in events {
        watermark = watermark.max(at.saturating_sub(LATENESS_MS));
        fire(&mut open, &mut out, watermark);
        let mut was_late = true;
        if let Windows::Session { gap_ms } = windows {
            let (mut joined, kept): (FiredWindows, FiredWindows) =
                open.drain(..).partition(|w| w.0 == *key && *at < w.2 && w.1 < at + gap_ms);
            open = kept;
            joined.sort();
            let start = joined.iter().map(|w| w.1).fold(*at, u64::min);
            let end = joined.iter().map(|w| w.2).fold(at + gap_ms, u64::max);
            let mut all: Vec<u32> = joined.into_iter().flat_map(|w| w.3).collect();
            if end > watermark {
                all.push(*n);
                open.push((*key, start, end, all));
                was_late = false;
            }
        } else {
            for (start, end) in spans(windows, *at).into_iter().filter(|span| span.1 > watermark) {
                was_late = false;
                match open.iter_mut().find(|w| (w.0, w.1, w.2) == (*key, start, end)) {
                    Some(window) => window.3.push(*n),
                    None => open.push((*key, start, end, vec![*n])),
                }
            }
        }
        late += u64::from(was_late);
    }
    fire(&mut open, &mut out, u64::MAX);
    (out, late)
}

fn kinds() -> impl Strategy<Value = Windows> {
    prop_oneof![
        (1_u64..40).prop_map(Windows::tumbling),
        (1_u64..40, 1_u64..40).prop_map(|(a, b)| Windows::sliding(a.max(b), a.min(b))),
        (1_u64..40).prop_map(Windows::session),
    ]
}

/// Events in any order.
fn events() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec((0_u8..9, 0_u64..200), 0..60)
        .prop_map(|all| (0..).zip(all).map(|(n, (key, at))| (key, at, n)).collect())
}

/// Events of which none is later than allowed.
fn in_time() -> impl Strategy<Value = Vec<Event>> {
    (events(), proptest::collection::vec(0..=LATENESS_MS, 60)).prop_map(|(events, delays)| {
        let mut arrivals: Vec<(u64, Event)> =
            events.into_iter().zip(delays).map(|(event, delay)| (event.1 + delay, event)).collect();
        arrivals.sort_by_key(|(arrival, _)| *arrival);
        arrivals.into_iter().map(|(_, event)| event).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_comes_in_time_is_in_its_windows(windows in kinds(), events in in_time(), batch in 1_usize..20) {
        let (fired, late) = run(windows, &events, batch);
        prop_assert_eq!(late, 0);
        prop_assert_eq!(as_set(fired), model(windows, &events));
    }

    #[test]
    fn what_fires_and_when_is_what_a_slow_walk_says(windows in kinds(), events in events(), batch in 1_usize..20) {
        prop_assert_eq!(run(windows, &events, batch), walk(windows, &events));
    }

    /// Dying processes, failing writes and repeated items do not change state and outputs.
    #[test]
    fn accidents_change_nothing(
        windows in kinds(),
        events in events(),
        plans in proptest::collection::vec((1_usize..8, 1_u64..8, 0_u64..5, any::<bool>()), 0..6),
    ) {
        let (state, sink) = (Arc::new(MemoryState::new()), MemorySink::new("out"));
        build(windows, &events, 1_000, &sink).open(state.clone()).unwrap().run().unwrap();
        let (left, outputs) = (state.snapshot().unwrap(), sink.outputs());

        let (sink, mut bytes) = (MemorySink::new("out"), None);
        for (batch, fails, back, made) in plans.into_iter().chain([(5, 0, 2, false)]) {
            let state = brought_back(&bytes, fails, made);
            let mut pipeline = again(windows, &events, back, &sink).batch(batch).open(state.clone()).unwrap();
            prop_assert!(pipeline.run().is_ok() || fails > 0);
            bytes = Some(state.snapshot().unwrap());
        }
        prop_assert_eq!(sink.outputs(), outputs);
        prop_assert_eq!(bytes.unwrap(), left);
    }

    /// The same, with the watermark raised manually after the same items.
    #[test]
    fn accidents_change_nothing_where_time_is_advanced(
        windows in kinds(),
        events in events(),
        stops in proptest::collection::btree_map(0_usize..60, 0_u64..250, 0..5),
        plans in proptest::collection::vec((1_u64..20, 0_u64..5, any::<bool>()), 0..6),
    ) {
        let stops: Vec<(u64, u64)> = stops.into_iter().map(|(at, to)| (at as u64, to)).collect();
        // Returns the number of completed stops.
        let run = |state: &Arc<FlakyState>, sink: &Sink, back: u64, mut made: usize| {
            let mut pipeline = again(windows, &events, back, sink).batch(1).open(state.clone()).unwrap();
            loop {
                let read = state.positions().unwrap().get("source/events").copied().unwrap_or(0);
                while let Some((_, to)) = stops.get(made).filter(|(at, _)| *at == read) {
                    if pipeline.advance_to(*to).is_err() {
                        return made;
                    }
                    made += 1;
                }
                match pipeline.step() {
                    Ok(progress) if !progress.ended => {}
                    _ => return made,
                }
            }
        };
        let (state, sink) = (brought_back(&None, 0, false), MemorySink::new("out"));
        run(&state, &sink, 0, 0);
        let (left, outputs) = (state.snapshot().unwrap(), sink.outputs());

        let (sink, mut bytes, mut made) = (MemorySink::new("out"), None, 0);
        for (fails, back, is_made) in plans.into_iter().chain([(0, 2, false)]) {
            let state = brought_back(&bytes, fails, is_made);
            made = run(&state, &sink, back, made);
            bytes = Some(state.snapshot().unwrap());
        }
        prop_assert_eq!(sink.outputs(), outputs);
        prop_assert_eq!(bytes.unwrap(), left);
    }
}

/// Each shard reads all items and processes its own keys. Together they fire the same windows as one
/// pipeline, even with repeated items of other keys.
#[test]
fn shards_fire_what_one_pipeline_does() {
    // Sixty keys expire at once, and some of them still exist when the first process dies.
    let mut events: Vec<Event> = (0..60).map(|n| (n as u8, 5, n)).collect();
    events.extend((60..120).map(|n| ((n * 7 % 31) as u8, 100 + u64::from(n), n)));
    let windows = Windows::sliding(12, 4);
    let (whole, _) = run(windows, &events, 10);
    let shard = |groups: std::ops::Range<u32>, back: u64| {
        let state = Arc::new(MemoryState::new());
        let sink = MemorySink::new("out");
        let open = |back| {
            let builder = again(windows, &events, back, &sink).batch(7).shard(groups.clone(), 128);
            builder.open(state.clone()).unwrap()
        };
        let mut first = open(0);
        for _ in 0..9 {
            first.step().unwrap();
        }
        let mut second = open(back);
        second.run().unwrap();
        second.advance_to(u64::MAX).unwrap();
        (state.snapshot().unwrap(), sink.outputs())
    };
    let mut together = Vec::new();
    for groups in [0..40, 40..128] {
        let left = shard(groups.clone(), 0);
        for back in [1, 20, 63] {
            assert_eq!(shard(groups.clone(), back), left, "{groups:?}, {back}");
        }
        together.extend(fired(left.1));
    }
    assert_eq!(as_set(together), as_set(whole));
}

/// A store as another process finds it, with one failing write.
fn brought_back(bytes: &Option<Vec<u8>>, fails: u64, made: bool) -> Arc<FlakyState> {
    let state = FlakyState::new(fails, made);
    if let Some(bytes) = bytes {
        state.restore(bytes).unwrap();
    }
    Arc::new(state)
}

/// A pipeline whose source goes further back than requested.
fn again(
    windows: Windows,
    events: &[Event],
    back: u64,
    sink: &Sink,
) -> PipelineBuilder<WindowOperator<Event, Vec<u32>>> {
    let source = RedeliveringSource { source: Items::new("events", events.to_vec()), back };
    Pipeline::of(collect(windows)).source(source).sink(sink.clone())
}

#[test]
fn windows_fire_by_end_and_then_by_key_whoever_raised_the_watermark() {
    let events = [(2, 5, 0), (1, 5, 1), (3, 15, 2), (1, 40, 3), (3, 60, 4)];
    let (fired, late) = run(Windows::tumbling(10), &events, 100);
    let order: Vec<(u8, u64)> = fired.iter().map(|window| (window.0, window.2)).collect();
    assert_eq!(order, [(1, 10), (2, 10), (3, 20), (1, 50), (3, 70)]);
    assert_eq!(late, 0);
}

#[test]
fn what_has_fired_leaves_the_states_of_keys_that_nothing_comes_to() {
    let mut events: Vec<Event> = (0..200).map(|n| (n as u8, 5, n)).collect();
    events.extend((0..101).map(|n| (250, 1_000 + n, 1_000 + n as u32)));
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let mut pipeline =
        build(Windows::tumbling(10), &events, 50, &sink).open(state.clone()).unwrap();
    pipeline.run().unwrap();
    let held = state.scan(&[], None, 1_000).unwrap().states;
    assert_eq!(held.len(), 1, "only the last key has windows that are open");
    // The tombstone is dropped when its time is sealed.
    pipeline.seal().unwrap();
    assert!(state.look(&[&[7][..]]).unwrap()[0].is_none());
}

#[test]
fn what_has_fired_is_known_to_another_process() {
    let mut events: Vec<Event> = (0..6).map(|n| (n as u8, 5, n)).collect();
    events.extend([(9, 6, 6), (9, 7, 7), (9, 8, 8)]);
    let left = |crash: bool| {
        let state = Arc::new(MemoryState::new());
        let sink = MemorySink::new("out");
        let open = || build(Windows::tumbling(10), &events, 6, &sink).open(state.clone()).unwrap();
        let mut pipeline = open();
        pipeline.step().unwrap();
        assert_eq!(pipeline.advance_to(10).unwrap(), 6);
        if crash {
            pipeline = open();
        }
        assert_eq!(pipeline.run().unwrap().late, 3);
        assert_eq!(pipeline.advance_to(u64::MAX).unwrap(), 0);
        (state.snapshot().unwrap(), sink.outputs())
    };
    assert_eq!(left(true), left(false));
}

#[test]
fn more_windows_than_fit_into_memory_at_once_fire_in_order() {
    let events: Vec<(u32, u64)> = (0..5_000).map(|n| (n * 7_919 % 5_000, 5)).collect();
    let count = || {
        WindowOperator::new(
            "count",
            Windows::sliding(20, 10),
            |event: &(u32, u64)| event.0.to_be_bytes(),
            |event| event.1,
            |count: Option<u32>, _| Ok(count.unwrap_or(0) + 1),
        )
    };
    let sink = MemorySink::new("out");
    let mut pipeline = Pipeline::of(count())
        .source(Items::new("events", events))
        .sink(sink.clone())
        .open(Arc::new(MemoryState::new()))
        .unwrap();
    pipeline.run().unwrap();
    assert_eq!(pipeline.advance_to(u64::MAX).unwrap(), 5_000);
    let keys: Vec<Vec<u8>> = sink.outputs().into_iter().map(|output| output.key).collect();
    assert!(keys.is_sorted());
}

#[test]
fn late_items_are_counted_once_however_often_they_come() {
    let events = [(1, 5, 0), (1, 100, 1), (1, 6, 2), (2, 7, 3)];
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("out");
    let windows = Windows::tumbling(10);
    let late = build(windows, &events, 100, &sink).open(state.clone()).unwrap().run().unwrap().late;
    assert_eq!(late, 2);
    let again = RedeliveringSource { source: Items::new("events", events), back: 4 };
    let builder = Pipeline::of(collect(windows)).source(again).sink(sink.clone());
    let mut pipeline = builder.open(state.clone()).unwrap();
    assert_eq!(pipeline.run().unwrap().skipped, 4);
    assert_eq!((pipeline.late(), pipeline.watermark_ms()), (2, 80));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let open = |operator: WindowOperator<Event, u32>, event: Event| {
        let builder = Pipeline::of(operator).source(Items::new("events", [event]));
        builder.open(Arc::new(MemoryState::new()))?.run()
    };
    let count = |windows| {
        WindowOperator::new(
            "count",
            windows,
            |event: &Event| vec![event.0],
            |event| event.1,
            |count, _| Ok(count.unwrap_or(0) + 1),
        )
    };
    let sessions = open(count(Windows::session(5)), (1, 1, 1)).unwrap_err();
    assert!(sessions.message().contains("`merged_by`"), "{sessions}");
    let none = open(count(Windows::tumbling(0)), (1, 1, 1)).unwrap_err();
    assert_eq!(none.code(), Code::InvalidOption);
    let never = open(count(Windows::tumbling(5)), (1, u64::MAX, 1)).unwrap_err();
    assert!(never.message().starts_with("operator `count`, key \\x01, time 0.0: "), "{never}");

    let plain = Pipeline::of(common::digest()).source(common::source("events", &[]));
    let mut plain = plain.open(Arc::new(MemoryState::new())).unwrap();
    assert_eq!(plain.advance_to(1).unwrap_err().code(), Code::InvalidArgument);
}
