use mainstay_model::Code;
use proptest::prelude::*;

use super::*;

type Effect = (Vec<u8>, Vec<u8>);
type Plain = (u64, Vec<u8>, Vec<Effect>);

fn bytes(limit: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..limit)
}

fn transaction() -> impl Strategy<Value = Plain> {
    let effects = proptest::collection::vec((bytes(40), bytes(300)), 0..5);
    (any::<u64>(), bytes(20), effects)
}

fn frames() -> impl Strategy<Value = Vec<Vec<Plain>>> {
    proptest::collection::vec(proptest::collection::vec(transaction(), 1..4), 1..20)
}

fn plain(frame: &Frame<'_>) -> Vec<Plain> {
    let mut all = Vec::new();
    for (at, transaction) in frame.transactions().enumerate() {
        let transaction = transaction.unwrap();
        assert_eq!(transaction.revision, frame.first_revision() + at as u64);
        let effects = transaction.effects.map(|(key, entry)| (key.to_vec(), entry.to_vec()));
        all.push((transaction.stamp, transaction.request.to_vec(), effects.collect()));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Frames survive a round trip through recovery and through a reader, in one write or in several.
    #[test]
    fn frames_come_back_as_they_went_in(frames in frames(), together in 1usize..5) {
        let files = Arc::new(MemoryFiles::new());
        let (log, mut writer) = Log::create(files.clone(), ID, 10, SMALL).unwrap();
        let mut builder = FrameBuilder::new(0, &ID);
        let mut next = 10;
        for group in frames.chunks(together) {
            let (mut out, first) = (Vec::new(), next);
            for frame in group {
                builder.begin(&mut out, next);
                for (stamp, request, effects) in frame {
                    builder.transaction(*stamp, request, effects.len());
                    effects.iter().for_each(|(key, entry)| builder.effect(key, entry));
                }
                builder.finish(&mut out, 0);
                next += frame.len() as u64;
            }
            writer.write(&out, first, next - 1, builder.chain()).unwrap();
        }
        let mut replayed = Vec::new();
        let (_, reopened, recovered) = Log::open(files, ID, 9, SMALL, &mut |frame| {
            replayed.push(plain(frame));
            Ok(())
        }).unwrap();
        prop_assert_eq!(&replayed, &frames);
        prop_assert_eq!(recovered.chain, builder.chain());
        prop_assert_eq!(recovered.last_revision, next - 1);
        prop_assert_eq!(recovered.last_stamp, frames.last().unwrap().last().unwrap().0);
        prop_assert_eq!(recovered.cut, None);
        prop_assert_eq!(reopened.end(), next - 1);
        let mut reader = log.reader(9).unwrap();
        let mut read = Vec::new();
        while let Some(frame) = reader.next(next).unwrap() {
            read.push(plain(&frame.frame()));
        }
        prop_assert_eq!(&read, &frames);
    }
}

#[test]
fn rounds_share_a_frame_and_several_frames_a_buffer() {
    let bench = Bench::new();
    let mut writer = bench.writer;
    let mut chain = Chain::new(0, &ID);
    let mut out = Vec::new();
    let round = |stamps: &[u64]| {
        let mut payload = FramePayload::default();
        for stamp in stamps {
            payload.transaction(*stamp, b"", 1);
            payload.effect(b"key", &stamp.to_le_bytes());
        }
        payload
    };
    let mut first = FrameBuffer::begin(&mut out, 1);
    first.append(&mut out, &round(&[1000, 2000]));
    first.append(&mut out, &round(&[3000]));
    let first_end = out.len();
    let mut second = FrameBuffer::begin(&mut out, 4);
    second.append(&mut out, &round(&[4000, 5000]));
    let second_end = out.len();
    for (frame, end, last) in [(first, first_end, 3), (second, second_end, 5)] {
        assert_eq!((frame.last(), frame.stamp()), (last, last * 1000));
        let bytes = chain.seal(&mut out, &frame, end, 0).to_vec();
        writer.write(&bytes, frame.first(), frame.last(), chain.crc()).unwrap();
    }
    writer.sync().unwrap();
    // `reopen` checks the stamp of every revision.
    assert_eq!(reopen(&bench.files, 0).0, [1, 2, 3, 4, 5]);
    assert_eq!(reopen(&bench.files, 2).0.last(), Some(&5));
}

#[test]
fn replay_starts_with_the_frame_that_holds_the_next_revision() {
    let bench = Bench::new().synced_frames(5);
    assert_eq!(reopen(&bench.files, 0).0, (1..=10).collect::<Vec<_>>());
    assert_eq!(reopen(&bench.files, 4).0, (5..=10).collect::<Vec<_>>());
    assert_eq!(reopen(&bench.files, 5).0, (5..=10).collect::<Vec<_>>());
    let (seen, recovered, ..) = reopen(&bench.files, 10);
    assert!(seen.is_empty());
    assert_eq!(recovered.last_stamp, 10_000);
}

#[test]
fn a_reopened_log_goes_on() {
    let bench = Bench::new().synced_frames(3);
    let (_, recovered, log, mut writer) = reopen(&bench.files, 0);
    let mut builder = FrameBuilder::new(recovered.chain, &ID);
    let out = encode(&mut builder, 7, 1, 10, 6);
    writer.write(&out, 7, 7, builder.chain()).unwrap();
    writer.sync().unwrap();
    let mut reader = log.reader(4).unwrap();
    assert_eq!(read_all(&mut reader, 7), [5, 6, 7]);
}

#[test]
fn revisions_must_follow_each_other() {
    let mut bench = Bench::new().synced_frames(1);
    let out = encode(&mut bench.builder, 9, 1, 1, 0);
    let error = bench.writer.write(&out, 9, 9, bench.builder.chain()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(bench.writer.end(), 2);
}

#[test]
fn an_error_of_the_visitor_ends_the_opening() {
    let bench = Bench::new().synced_frames(2);
    let result = Log::open(bench.files.clone(), ID, 0, SMALL, &mut |_| {
        Err(Error::new(Code::Closed, "enough"))
    });
    assert_eq!(result.map(drop).unwrap_err().code(), Code::Closed);
}

#[test]
fn creating_over_a_log_is_refused() {
    let bench = Bench::new().synced_frames(1);
    let before = contents(&bench.files);
    let error = Log::create(bench.files.clone(), ID, 1, SMALL).map(drop).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(contents(&bench.files) == before);
}

#[test]
fn a_tiny_segment_is_refused() {
    let options = LogOptions { segment_bytes: 100, owner: 1 };
    let error = Log::create(Arc::new(MemoryFiles::new()), ID, 1, options).map(drop).unwrap_err();
    assert_eq!(error.code(), Code::InvalidOption);
}
