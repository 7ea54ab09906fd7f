//! File and view sinks, fed from a file source.

mod common;

use common::{Event, FlakyState, digest, source};
use mainstay_model::{Code, KeyedState, LogicalTime};
use mainstay_streams::{
    Cause, FileSink, IdempotentSink, JsonLines, Lines, MemorySink, MemoryState, OpenStatus, Output,
    Pipeline, ShardId, Sink, StatefulOperator,
};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn output(key: &str, round: u64, ordinal: u32, value: u32) -> Output<u32> {
    let cause = Cause::Item(LogicalTime::new(0, round));
    Output::new("o", key.as_bytes(), cause, ordinal, value)
}

fn value(view: &MemoryState, key: &str) -> String {
    String::from_utf8(view.get(key.as_bytes()).unwrap().unwrap().value).unwrap()
}

#[test]
fn the_newest_output_of_a_key_stays_however_often_it_comes() {
    let view = Arc::new(MemoryState::new());
    let mut sink = IdempotentSink::new("view", view.clone());
    sink.open(0).unwrap();
    let outputs = [output("a", 1, 0, 10), output("b", 2, 0, 20), output("a", 3, 0, 30)];
    assert_eq!(sink.write(&outputs).unwrap(), 3);
    let before = view.snapshot().unwrap();
    // The state went back to a checkpoint.
    assert_eq!(sink.open(1).unwrap(), OpenStatus::Ready);
    assert_eq!(sink.write(&outputs[1..]).unwrap(), 3);
    assert_eq!(view.snapshot().unwrap(), before);
    assert_eq!((value(&view, "a"), value(&view, "b")), ("30".to_owned(), "20".to_owned()));
    assert_eq!(sink.open(4).unwrap(), OpenStatus::Lagging { position: 3 });
}

/// Two shards write into one space, with independent positions.
#[test]
fn each_shard_has_a_position_of_its_own_in_a_view() {
    let view = Arc::new(MemoryState::new());
    let open = |epoch: u64, shard: u32, position: u64| {
        let mut sink = IdempotentSink::new("view", view.clone());
        sink.assign(ShardId { epoch, shard }).unwrap();
        (sink.open(position).unwrap(), sink)
    };
    let (_, mut first) = open(0, 0, 0);
    first.write(&[output("a", 1, 0, 10), output("b", 2, 0, 20)]).unwrap();
    assert_eq!(open(0, 1, 1).0, OpenStatus::Lagging { position: 0 });
    assert_eq!(open(1, 0, 1).0, OpenStatus::Lagging { position: 0 });
    let (_, mut second) = open(0, 1, 0);
    second.write(&[output("c", 3, 0, 30)]).unwrap();
    assert_eq!(open(0, 1, 1).0, OpenStatus::Ready);
    assert_eq!(open(0, 0, 2).0, OpenStatus::Ready);
}

#[test]
fn what_a_view_has_taken_is_on_stable_storage_before_the_checkpoint() {
    let view = Arc::new(FlakyState::default());
    let mut sink = IdempotentSink::new("view", view.clone());
    sink.open(0).unwrap();
    sink.write(&[output("a", 1, 0, 10)]).unwrap();
    assert_eq!(view.synced.load(Ordering::Relaxed), 0);
    sink.prepare(1).unwrap();
    assert_eq!(view.synced.load(Ordering::Relaxed), 1);
}

#[test]
fn two_outputs_for_one_place_are_refused_unless_each_gets_its_own() {
    let view = Arc::new(MemoryState::new());
    let mut sink = IdempotentSink::new("view", view.clone());
    sink.open(0).unwrap();
    let outputs = [output("a", 1, 0, 10), output("a", 1, 1, 11)];
    let error = sink.write(&outputs).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("keyed_by"), "{error}");
    assert_eq!(view.info().unwrap(), None, "nothing was written");

    let mut sink = IdempotentSink::keyed_by("view", view.clone(), |output| {
        format!("all/{}", output.ordinal).into_bytes()
    });
    sink.open(0).unwrap();
    sink.write(&[output("b", 7, 0, 70), output("a", 1, 0, 10), output("a", 1, 1, 11)]).unwrap();
    assert_eq!((value(&view, "all/0"), value(&view, "all/1")), ("70".to_owned(), "11".to_owned()));
}

#[test]
fn a_view_is_the_same_when_the_state_was_begun_anew() {
    let events: Vec<Event> = (0..50).map(|n| ((n % 4) as u8, n * 3)).collect();
    let view = Arc::new(MemoryState::new());
    let key = |output: &Output<String>| [&output.key[..], &[output.ordinal as u8]].concat();
    let run = |steps: usize| {
        let state = Arc::new(MemoryState::new());
        let sink = IdempotentSink::keyed_by("view", view.clone(), key);
        let builder = Pipeline::of(digest()).source(source("events", &events)).sink(sink);
        let mut pipeline = builder.batch(7).open(state).unwrap();
        for _ in 0..steps {
            pipeline.step().unwrap();
        }
        view.snapshot().unwrap()
    };
    let whole = run(8);
    assert_eq!(run(3), whole, "it keeps what is newer");
    assert_eq!(run(8), whole);
}

#[derive(serde::Deserialize)]
struct Order {
    customer: String,
    cents: u64,
}

/// A file of orders that grows between runs, and two sinks.
#[test]
fn orders_from_a_file_become_totals_in_files() {
    let root = tempfile::tempdir().unwrap();
    let orders = root.path().join("orders.jsonl");
    let out = root.path().join("totals");
    let state = Arc::new(MemoryState::new());
    let newest = MemorySink::new("newest");
    let run = |checkpoint: u64| {
        let totals = StatefulOperator::new(
            "totals",
            |order: &Order| order.customer.clone(),
            |total: Option<u64>, order, _| {
                let total = total.unwrap_or(0) + order.cents;
                Ok((Some(total), vec![format!("{} {total}", order.customer)]))
            },
        );
        let mut pipeline = Pipeline::of(totals)
            .source(JsonLines::new(Lines::open("orders", &orders).unwrap()))
            .sink(FileSink::new("files", &out))
            .sink(newest.clone())
            .open(state.clone())
            .unwrap();
        let progress = pipeline.run().unwrap();
        pipeline.barrier(checkpoint).unwrap();
        pipeline.commit_checkpoint(checkpoint).unwrap();
        let mut text = String::new();
        FileSink::<String>::read(&out).unwrap().read_to_string(&mut text).unwrap();
        (progress.items, text)
    };
    let append = |customer: &str, cents: u64| {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&orders).unwrap();
        writeln!(file, "{{\"customer\":\"{customer}\",\"cents\":{cents}}}\n").unwrap();
    };
    append("ada", 100);
    append("bob", 250);
    assert_eq!(run(1), (2, "\"ada 100\"\n\"bob 250\"\n".to_owned()));
    assert_eq!(run(2).0, 0);
    append("ada", 17);
    assert_eq!(run(3), (1, "\"ada 100\"\n\"bob 250\"\n\"ada 117\"\n".to_owned()));
    assert_eq!(newest.committed().len(), 3);
    assert_eq!(state.get(b"ada").unwrap().unwrap().value, b"117");
}
