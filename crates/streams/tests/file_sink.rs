//! File sink: whatever a crash leaves in the directory, readers see each output once.

mod common;

use common::{Event, digest, source};
use mainstay_model::{Code, ErrorKind, KeyedState, LogicalTime};
use mainstay_streams::{
    Cause, Deduplicator, FileSink, MemoryState, OpenStatus, Output, OutputIdSet, Pipeline, Sink,
};
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

fn output(n: u64) -> Output<String> {
    Output::new("o", b"k", Cause::Item(LogicalTime::new(0, n)), 0, "x".repeat(n as usize % 5))
}

fn outputs(range: std::ops::Range<u64>) -> Vec<Output<String>> {
    range.map(output).collect()
}

fn lines(range: std::ops::Range<u64>) -> String {
    range.map(|n| format!("{:?}\n", output(n).value)).collect()
}

fn read(directory: &Path) -> String {
    let mut text = String::new();
    FileSink::<String>::read(directory).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn sink(directory: &Path) -> FileSink<String> {
    FileSink::new("out", directory)
}

#[test]
fn output_is_seen_with_its_checkpoint_and_not_before() {
    let root = tempfile::tempdir().unwrap();
    let directory = &root.path().join("new").join("out");
    let mut sink = sink(directory);
    assert_eq!(sink.open(0).unwrap(), OpenStatus::Ready);
    let first = sink.write(&outputs(0..5)).unwrap();
    assert_eq!(first, lines(0..5).len() as u64);
    assert_eq!(names(directory), ["staged-00000000000000000000"]);
    sink.prepare(1).unwrap();
    let second = sink.write(&outputs(5..9)).unwrap();
    assert_eq!(read(directory), "");
    sink.commit(1, first).unwrap();
    assert_eq!(read(directory), lines(0..5));
    let staged = format!("staged-{first:020}");
    assert_eq!(names(directory), ["part-00000000000000000000", &staged]);
    // A repeated commit is a no-op.
    sink.commit(1, first).unwrap();
    sink.prepare(2).unwrap();
    sink.commit(2, second).unwrap();
    assert_eq!(read(directory), lines(0..9));
}

#[test]
fn an_aborted_checkpoint_is_committed_with_the_next() {
    let root = tempfile::tempdir().unwrap();
    let mut sink = sink(root.path());
    sink.open(0).unwrap();
    sink.write(&outputs(0..3)).unwrap();
    sink.prepare(1).unwrap();
    sink.abort(1).unwrap();
    let end = sink.write(&outputs(3..6)).unwrap();
    sink.prepare(2).unwrap();
    // No write since then, so no file to close.
    sink.prepare(3).unwrap();
    sink.commit(3, end).unwrap();
    assert_eq!(read(root.path()), lines(0..6));
}

#[test]
fn what_was_not_prepared_cannot_be_committed() {
    let root = tempfile::tempdir().unwrap();
    let mut sink = sink(root.path());
    sink.open(0).unwrap();
    let end = sink.write(&outputs(0..3)).unwrap();
    assert_eq!(sink.commit(1, end).unwrap_err().code(), Code::CorruptData);
    sink.prepare(1).unwrap();
    assert_eq!(sink.commit(1, end + 1).unwrap_err().code(), Code::CorruptData);
    assert_eq!(read(root.path()), lines(0..3));
}

/// After a restart, the sink continued to write one file beyond the checkpoint's position.
#[test]
fn a_file_that_goes_beyond_the_checkpoint_is_shown_with_the_next() {
    let root = tempfile::tempdir().unwrap();
    let mut first = sink(root.path());
    first.open(0).unwrap();
    let early = first.write(&outputs(0..2)).unwrap();
    first.prepare(1).unwrap();
    let barrier = first.write(&outputs(2..4)).unwrap();
    let end = first.write(&outputs(4..6)).unwrap();
    drop(first);
    let mut second = sink(root.path());
    second.open(end).unwrap();
    second.commit(2, barrier).unwrap();
    assert_eq!(read(root.path()), lines(0..2));
    assert!(early < barrier);
    second.prepare(3).unwrap();
    second.commit(3, end).unwrap();
    assert_eq!(read(root.path()), lines(0..6));
}

/// A process dies at any point: in the middle of a line, or with staged files beyond the state.
#[test]
fn whatever_a_crash_left_beyond_the_position_is_cut_off() {
    let whole = lines(0..6);
    for length in lines(0..4).len()..=whole.len() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path();
        let mut first = sink(directory);
        first.open(0).unwrap();
        first.write(&outputs(0..2)).unwrap();
        first.prepare(1).unwrap();
        let position = first.write(&outputs(2..4)).unwrap();
        first.write(&outputs(4..6)).unwrap();
        drop(first);
        let active = directory.join(format!("staged-{:020}", lines(0..2).len()));
        let file = OpenOptions::new().write(true).open(active).unwrap();
        file.set_len((length - lines(0..2).len()) as u64).unwrap();
        std::fs::write(directory.join(format!("staged-{length:020}")), "more").unwrap();
        std::fs::write(directory.join("staged-99999999999999999999"), "no number there is")
            .unwrap();
        std::fs::write(directory.join("notes"), "not ours").unwrap();

        let mut second = sink(directory);
        assert_eq!(second.open(position).unwrap(), OpenStatus::Ready);
        let end = second.write(&outputs(4..6)).unwrap();
        second.prepare(2).unwrap();
        second.commit(2, end).unwrap();
        assert_eq!(read(directory), whole, "{length}");
        let kept = ["notes", "staged-99999999999999999999"];
        assert!(kept.iter().all(|name| names(directory).contains(&name.to_string())));
    }
}

#[test]
fn a_sink_that_holds_less_says_so_and_keeps_it() {
    let root = tempfile::tempdir().unwrap();
    let mut first = sink(root.path());
    first.open(0).unwrap();
    let kept = first.write(&outputs(0..2)).unwrap();
    first.prepare(1).unwrap();
    let position = first.write(&outputs(2..4)).unwrap();
    drop(first);
    let active = root.path().join(format!("staged-{kept:020}"));
    OpenOptions::new().write(true).open(&active).unwrap().set_len(1).unwrap();
    let mut second = sink(root.path());
    assert_eq!(second.open(position).unwrap(), OpenStatus::Lagging { position: kept });
    // The directory may have lost the file's name too.
    std::fs::remove_file(active).unwrap();
    assert_eq!(second.open(position).unwrap(), OpenStatus::Lagging { position: kept });
    assert_eq!(second.open(kept).unwrap(), OpenStatus::Ready);
    let end = second.write(&outputs(2..4)).unwrap();
    second.prepare(2).unwrap();
    second.commit(2, end).unwrap();
    assert_eq!(read(root.path()), lines(0..4));
}

/// After a power failure a file may have its full length but zeros instead of unwritten bytes.
#[test]
fn zeros_and_torn_lines_are_not_held() {
    let root = tempfile::tempdir().unwrap();
    let mut first = sink(root.path());
    first.open(0).unwrap();
    let kept = first.write(&outputs(0..2)).unwrap();
    first.prepare(1).unwrap();
    let third = first.write(&outputs(2..3)).unwrap();
    let position = first.write(&outputs(3..6)).unwrap();
    drop(first);
    let active = root.path().join(format!("staged-{kept:020}"));
    let whole = std::fs::read(&active).unwrap();
    for (zeros, held) in [(0, kept), (2, kept), ((third - kept) as usize + 1, third)] {
        let mut cut = whole.clone();
        cut[zeros..].fill(0);
        std::fs::write(&active, cut).unwrap();
        assert_eq!(
            sink(root.path()).open(position).unwrap(),
            OpenStatus::Lagging { position: held },
            "{zeros}"
        );
    }
    let mut second = sink(root.path());
    assert_eq!(second.open(third).unwrap(), OpenStatus::Ready);
    let end = second.write(&outputs(3..6)).unwrap();
    second.prepare(2).unwrap();
    second.commit(2, end).unwrap();
    assert_eq!(read(root.path()), lines(0..6));
}

#[test]
fn gaps_are_refused_with_the_place() {
    let root = tempfile::tempdir().unwrap();
    let mut sink = sink(root.path());
    sink.open(0).unwrap();
    let mut ends = Vec::new();
    for n in 0..3 {
        ends.push(sink.write(&outputs(n * 3..n * 3 + 3)).unwrap());
        sink.prepare(n).unwrap();
    }
    let middle = format!("{:020}", ends[0]);
    let away = root.path().join("away");
    std::fs::rename(root.path().join(format!("staged-{middle}")), &away).unwrap();
    let error = sink.open(ends[2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(&format!("up to byte {}", ends[0])), "{error}");
    // It cannot be committed either.
    assert_eq!(sink.commit(3, ends[2]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(read(root.path()), lines(0..3));
    std::fs::rename(&away, root.path().join(format!("staged-{middle}"))).unwrap();
    sink.commit(3, ends[2]).unwrap();
    std::fs::rename(root.path().join(format!("part-{middle}")), &away).unwrap();
    assert_eq!(FileSink::<()>::read(root.path()).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(sink.open(ends[2]).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_file_that_cannot_be_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join(format!("staged-{}", u64::MAX)), "x").unwrap();
    assert_eq!(sink(root.path()).open(0).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn what_was_committed_is_not_written_again_and_has_to_be_the_same() {
    let root = tempfile::tempdir().unwrap();
    let mut first = sink(root.path());
    first.open(0).unwrap();
    let early = first.write(&outputs(0..2)).unwrap();
    first.prepare(1).unwrap();
    let end = first.write(&outputs(2..6)).unwrap();
    first.prepare(2).unwrap();
    first.commit(2, end).unwrap();
    // The state went back to an earlier checkpoint, and batches end elsewhere now.
    let mut second = sink(root.path());
    assert_eq!(second.open(early).unwrap(), OpenStatus::Ready);
    second.write(&outputs(2..3)).unwrap();
    second.prepare(3).unwrap();
    second.write(&outputs(3..8)).unwrap();
    second.prepare(4).unwrap();
    let end = second.write(&[]).unwrap();
    second.commit(4, end).unwrap();
    assert_eq!(read(root.path()), lines(0..8));
    second.open(early).unwrap();
    let error = second.write(&outputs(3..4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("other output than it has committed"), "{error}");
}

#[test]
fn a_committed_file_that_was_cut_is_an_error_and_no_short_answer() {
    let root = tempfile::tempdir().unwrap();
    let mut sink = sink(root.path());
    sink.open(0).unwrap();
    let end = sink.write(&outputs(0..6)).unwrap();
    sink.prepare(1).unwrap();
    sink.commit(1, end).unwrap();
    let mut committed = FileSink::<String>::read(root.path()).unwrap();
    assert_eq!(committed.length_bytes(), end);
    let part = root.path().join("part-00000000000000000000");
    OpenOptions::new().write(true).open(part).unwrap().set_len(3).unwrap();
    let error = committed.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

/// A forwarder sends some outputs twice, with their ids.
#[test]
fn a_reader_that_is_sent_outputs_twice_takes_them_once() {
    let root = tempfile::tempdir().unwrap();
    let mut sink = sink(root.path()).with_ids();
    sink.open(0).unwrap();
    let end = sink.write(&outputs(0..20)).unwrap();
    sink.prepare(1).unwrap();
    sink.commit(1, end).unwrap();
    let all = || {
        let committed = BufReader::new(FileSink::<String>::read(root.path()).unwrap());
        committed
            .lines()
            .map(|line| serde_json::from_str::<Output<String>>(&line.unwrap()).unwrap())
    };
    let space = Arc::new(MemoryState::new());
    let sent = all()
        .take(7)
        .chain(all().skip(3).take(9))
        .chain(all().collect::<Vec<_>>().into_iter().rev());
    let taken: Vec<_> =
        Deduplicator::new(sent, OutputIdSet::new(space.clone())).map(Result::unwrap).collect();
    assert_eq!(taken[..12], outputs(0..12));
    let rest: Vec<_> = outputs(12..20).into_iter().rev().collect();
    assert_eq!(taken[12..], rest);
    // Another process recognizes them too.
    let restored = Arc::new(MemoryState::new());
    restored.restore(&space.snapshot().unwrap()).unwrap();
    let seen = OutputIdSet::new(restored);
    assert!(all().all(|output| !seen.is_new(&output).unwrap()));
    assert!(seen.is_new(&output(20)).unwrap());
}

#[derive(Clone, Debug)]
enum TestAction {
    Step,
    /// A checkpoint, which becomes durable or not, and whose outcome reaches the sink or not.
    Checkpoint {
        durable: bool,
        told: bool,
    },
    /// The process dies. Outputs beyond the state are torn somewhere.
    Dies {
        torn: prop::sample::Index,
    },
    /// Power failure: files lose unprepared outputs, and the state goes back to its checkpoint.
    PowerCut,
}

fn happenings() -> impl Strategy<Value = Vec<TestAction>> {
    let one = prop_oneof![
        4 => Just(TestAction::Step),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(durable, told)| TestAction::Checkpoint { durable, told }),
        2 => any::<prop::sample::Index>().prop_map(|torn| TestAction::Dies { torn }),
        1 => Just(TestAction::PowerCut),
    ];
    proptest::collection::vec(one, 0..25)
}

fn with_files(
    events: &[Event],
    batch: usize,
    directory: &Path,
    state: &Arc<MemoryState>,
) -> Pipeline<impl mainstay_streams::Operator<Item = Event, Out = String> + use<>> {
    let builder = Pipeline::of(digest()).source(source("events", events)).sink(sink(directory));
    builder.batch(batch).open(state.clone()).unwrap()
}

/// Adds torn bytes after the last staged file, like an unfinished batch.
fn tear(directory: &Path, torn: prop::sample::Index) {
    let staged = names(directory).into_iter().rfind(|name| name.starts_with("staged-"));
    let Some(staged) = staged else { return };
    let path = directory.join(&staged);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&b"\"torn\"\n\"to"[..torn.index(10)]).unwrap();
    let end = staged["staged-".len()..].parse::<u64>().unwrap() + file.metadata().unwrap().len();
    if torn.index(2) == 1 {
        std::fs::write(directory.join(format!("staged-{end:020}")), "also torn").unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn readers_see_each_output_once_whatever_happens(
        events in proptest::collection::vec((0_u8..4, 0_u64..30), 1..60),
        batch in 1_usize..10,
        happenings in happenings(),
    ) {
        let root = tempfile::tempdir().unwrap();
        let expected = {
            let state = Arc::new(MemoryState::new());
            let mut pipeline = with_files(&events, 1_000, &root.path().join("whole"), &state);
            pipeline.run().unwrap();
            pipeline.barrier(1).unwrap();
            pipeline.commit_checkpoint(1).unwrap();
            (state.snapshot().unwrap(), read(&root.path().join("whole")))
        };
        let directory = root.path().join("out");
        let state = Arc::new(MemoryState::new());
        let mut pipeline = with_files(&events, batch, &directory, &state);
        let (mut checkpoint, mut seen) = (state.snapshot().unwrap(), String::new());
        let mut prepared = Vec::new();
        for (id, happens) in (1..).zip(happenings) {
            match happens {
                TestAction::Step => {
                    pipeline.step().unwrap();
                }
                TestAction::Checkpoint { durable, told } => {
                    let barrier = pipeline.barrier(id).unwrap();
                    prepared = names(&directory);
                    if durable {
                        checkpoint = state.snapshot().unwrap();
                    }
                    match (durable, told) {
                        (true, true) => pipeline.commit_checkpoint(id).unwrap(),
                        (true, false) => {
                            // The process dies before the sinks learn the outcome; the next process informs
                            // them.
                            pipeline = with_files(&events, batch, &directory, &state);
                            pipeline.committed_before(&barrier).unwrap();
                        }
                        (false, _) => pipeline.abort_checkpoint(id).unwrap(),
                    }
                }
                TestAction::Dies { torn } => {
                    drop(pipeline);
                    tear(&directory, torn);
                    pipeline = with_files(&events, batch, &directory, &state);
                }
                TestAction::PowerCut => {
                    drop(pipeline);
                    for name in names(&directory) {
                        if name.starts_with("staged-") && !prepared.contains(&name) {
                            std::fs::remove_file(directory.join(name)).unwrap();
                        }
                    }
                    pipeline = with_files(&events, batch, &directory, &state);
                    if !pipeline.lagging_sinks().is_empty() {
                        state.restore(&checkpoint).unwrap();
                        pipeline.recover().unwrap();
                        prop_assert!(pipeline.lagging_sinks().is_empty());
                    }
                }
            }
            let now = read(&directory);
            prop_assert!(now.starts_with(&seen) && expected.1.starts_with(&now));
            seen = now;
        }
        pipeline.run().unwrap();
        pipeline.barrier(u64::MAX).unwrap();
        pipeline.commit_checkpoint(u64::MAX).unwrap();
        prop_assert_eq!((state.snapshot().unwrap(), read(&directory)), expected);
    }
}
