use mainstay_model::Code;

use super::*;

#[test]
fn frames_go_on_in_the_next_segment() {
    let bench = Bench::new().segments(4);
    let end = bench.writer.end();
    assert_eq!(bench.log.bytes(), 4 * 4096);
    let (seen, recovered, log, _) = reopen(&bench.files, 0);
    assert_eq!(seen, (1..=end).collect::<Vec<_>>());
    assert_eq!(recovered.chain, bench.builder.chain());
    assert_eq!(log.bytes(), 4 * 4096);
    assert_eq!(read_all(&mut log.reader(0).unwrap(), end), seen);
}

#[test]
fn a_frame_larger_than_a_segment_gets_one_of_its_size() {
    let mut bench = Bench::new();
    bench.frame(1, 10_000).unwrap();
    bench.frame(1, 10).unwrap();
    bench.frame(1, 20_000).unwrap();
    bench.frame(1, 10).unwrap();
    assert_eq!(bench.names().len(), 4);
    assert!(bench.log.bytes() > 30_000);
    let (seen, _, log, _) = reopen(&bench.files, 0);
    assert_eq!(seen, [1, 2, 3, 4]);
    assert_eq!(log.bytes(), bench.log.bytes());
    assert_eq!(read_all(&mut bench.log.reader(1).unwrap(), 4), [2, 3, 4]);
}

#[test]
fn a_prepared_segment_is_used() {
    let mut bench = Bench::new();
    bench.log.prepare().unwrap();
    bench.log.prepare().unwrap();
    let bench = {
        bench.frame(1, 3000).unwrap();
        bench.frame(1, 3000).unwrap();
        bench
    };
    assert_eq!(bench.files.list().unwrap(), bench.names());
    assert_eq!(bench.names().len(), 2);
    assert_eq!(reopen(&bench.files, 0).0, [1, 2]);
}

#[test]
fn an_empty_newest_segment_keeps_the_last_stamp_and_chain() {
    let mut bench = Bench::new().segments(2);
    // The files as after a crash between renaming the segment and writing its first frame.
    let names = bench.names();
    let last = segment::parse_name(&names[1]).unwrap() - 1;
    bench.frame(1, 10).unwrap();
    let files = bench.files.copy();
    let file = files.open(&names[1]).unwrap();
    file.truncate(segment::HEADER_BYTES).unwrap();
    let (seen, recovered, log, writer) = reopen(&files, last);
    assert!(seen.is_empty());
    assert_eq!((recovered.last_revision, recovered.last_stamp), (last, last * 1000));
    assert_eq!((recovered.cut, writer.end()), (None, last));
    assert_eq!(log.trim(u64::MAX).unwrap(), 0, "the stamp is in the segment before");
}

#[test]
fn trim_removes_whole_segments_that_are_not_needed() {
    let bench = Bench::new().segments(4);
    let firsts: Vec<Revision> =
        bench.names().iter().map(|name| segment::parse_name(name).unwrap()).collect();
    assert_eq!(bench.log.trim(firsts[1] - 1).unwrap(), 0);
    assert_eq!(bench.log.first_revision(), 1);
    assert_eq!(bench.log.trim(firsts[1]).unwrap(), 4096);
    assert_eq!(bench.log.first_revision(), firsts[1]);
    assert_eq!(bench.log.trim(u64::MAX).unwrap(), 2 * 4096);
    assert_eq!(bench.log.first_revision(), firsts[3]);
    assert_eq!(bench.names(), [segment::name_of(firsts[3])]);

    let error = bench.log.reader(firsts[3] - 2).map(drop).unwrap_err();
    assert_eq!(error.code(), Code::HistoryTrimmed);
    assert!(bench.log.reader(firsts[3] - 1).is_ok());
    let (seen, recovered, ..) = reopen(&bench.files, firsts[3] - 1);
    assert_eq!(seen, (firsts[3]..=bench.writer.end()).collect::<Vec<_>>());
    assert_eq!(recovered.first_revision, firsts[3]);
}
