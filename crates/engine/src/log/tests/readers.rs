use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstay_model::Code;

use super::*;

#[test]
fn a_reader_stops_at_what_is_published_and_goes_on_later() {
    let mut bench = Bench::new().synced_frames(3);
    let mut reader = bench.log.reader(0).unwrap();
    assert_eq!(read_all(&mut reader, 0), [0; 0]);
    assert_eq!(read_all(&mut reader, 3), [1, 2]);
    assert_eq!(read_all(&mut reader, 6), [3, 4, 5, 6]);
    assert_eq!(read_all(&mut reader, u64::MAX), [0; 0]);
    bench.frame(1, 10).unwrap();
    assert_eq!(reader.position(), 7);
    assert_eq!(read_all(&mut reader, u64::MAX), [7]);
}

#[test]
fn a_reader_opens_at_every_revision() {
    let bench = Bench::new().segments(3);
    let end = bench.writer.end();
    let (.., reopened, _writer) = reopen(&bench.files, end);
    for log in [&bench.log, &reopened] {
        for after in 0..=end {
            let mut reader = log.reader(after).unwrap();
            assert_eq!(read_all(&mut reader, end), (after + 1..=end).collect::<Vec<_>>());
        }
        let error = log.reader(end + 1).map(drop).unwrap_err();
        assert_eq!(error.code(), Code::FutureRevision);
    }
}

#[test]
fn a_reader_starts_close_to_its_revision() {
    let files = Arc::new(MemoryFiles::new());
    let (log, mut writer) = Log::create(files, ID, 1, LogOptions::default()).unwrap();
    let mut builder = FrameBuilder::new(0, &ID);
    for revision in 1..=1000 {
        let out = encode(&mut builder, revision, 1, 1000, 0);
        writer.write(&out, revision, revision, builder.chain()).unwrap();
    }
    let segment = log.shared.segment_of(900).unwrap();
    let place = segment.place_of(900);
    assert!(place.first <= 900 && place.first > 900 - 70, "{place:?}");
    assert_eq!(read_all(&mut log.reader(899).unwrap(), 905), [900, 901, 902, 903, 904, 905]);
}

#[test]
fn a_trimmed_reader_is_told_where_to_resume() {
    let bench = Bench::new().segments(3);
    let mut behind = bench.log.reader(0).unwrap();
    let mut inside = bench.log.reader(0).unwrap();
    assert!(inside.next(u64::MAX).unwrap().is_some());
    let mut ahead = bench.log.reader(bench.writer.end()).unwrap();
    bench.log.trim(u64::MAX).unwrap();
    let resume = format!("resume at revision {}", bench.log.first_revision());
    for reader in [&mut behind, &mut inside] {
        let error = reader.next(u64::MAX).unwrap_err();
        assert_eq!(error.code(), Code::Lagged);
        assert!(error.message().contains(&resume), "{error}");
    }
    assert_eq!(ahead.next(u64::MAX).unwrap(), None);
}

#[test]
fn readers_follow_the_writer_on_other_threads() {
    const END: u64 = 5000;
    let mut bench = Bench::new();
    let published = AtomicU64::new(0);
    let log = bench.log.clone();
    std::thread::scope(|scope| {
        for after in [0, 1, 2] {
            let log = &log;
            let published = &published;
            scope.spawn(move || {
                // Pairs with the `Release` of the writer: published frames are written.
                while published.load(Ordering::Acquire) < after {
                    std::thread::yield_now();
                }
                let mut reader = log.reader(after).unwrap();
                let mut seen = after;
                while seen < END {
                    // Pairs with the `Release` of the writer: published frames are written.
                    let upto = published.load(Ordering::Acquire);
                    let Some(frame) = reader.next(upto).unwrap() else {
                        std::thread::yield_now();
                        continue;
                    };
                    assert!(frame.last_revision() <= upto);
                    for transaction in frame.transactions() {
                        let transaction = transaction.unwrap();
                        let (_, value) = transaction.effects.clone().next().unwrap();
                        assert_eq!(value, entry(transaction.revision, value.len()));
                        if transaction.revision > seen {
                            assert_eq!(transaction.revision, seen + 1);
                            seen += 1;
                        }
                    }
                }
            });
        }
        let mut size = 1;
        while bench.writer.end() < END {
            let count = (size % 4 + 1).min(END - bench.writer.end());
            bench.frame(count, (size * 37 % 500) as usize).unwrap();
            // Pairs with the `Acquire` loads of the readers.
            published.store(bench.writer.end(), Ordering::Release);
            size += 1;
        }
    });
}

#[test]
fn a_slow_reader_under_trimming_lags_and_never_sees_damage() {
    const END: u64 = 3000;
    let mut bench = Bench::new();
    let done = AtomicBool::new(false);
    let log = bench.log.clone();
    let mut reader = log.reader(0).unwrap();
    std::thread::scope(|scope| {
        let log = &log;
        let done = &done;
        scope.spawn(move || {
            let mut last = 0;
            loop {
                // Pairs with the `Release` after the last write.
                let finished = done.load(Ordering::Acquire);
                match reader.next(u64::MAX) {
                    Ok(Some(frame)) => {
                        assert!(frame.first_revision() > last);
                        last = frame.last_revision();
                    }
                    Ok(None) if finished => break,
                    Ok(None) => std::thread::yield_now(),
                    Err(error) => {
                        assert_eq!(error.code(), Code::Lagged, "{error}");
                        reader = loop {
                            match log.reader(log.first_revision() - 1) {
                                Ok(reader) => break reader,
                                Err(error) => assert_eq!(error.code(), Code::HistoryTrimmed),
                            }
                        };
                    }
                }
            }
            assert_eq!(last, END);
        });
        while bench.writer.end() < END {
            bench.frame(1, 300).unwrap();
            bench.log.trim(bench.writer.end().saturating_sub(15)).unwrap();
            bench.log.prepare().unwrap();
        }
        // Pairs with the `Acquire` of the reader.
        done.store(true, Ordering::Release);
    });
}
