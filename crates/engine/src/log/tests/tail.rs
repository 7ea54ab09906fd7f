use mainstay_model::Code;

use super::*;

/// Writes three synced frames and an unsynced fourth. Returns the start and end of the fourth in the segment.
fn unsynced_tail() -> (Bench, String, u64, u64) {
    let mut bench = Bench::new().synced_frames(3);
    let name = bench.names()[0].clone();
    let start = used(&bench, &name);
    bench.frame(2, 20).unwrap();
    let end = used(&bench, &name);
    (bench, name, start, end)
}

/// The end of the frames: the last byte of every test entry is not zero.
fn used(bench: &Bench, name: &str) -> u64 {
    let bytes = bytes_of(&*bench.files, name);
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1;
    last.next_multiple_of(8)
}

/// Recovers the first three frames without the fourth. The log can be written and opened again.
fn recovers_three(files: &MemoryFiles, name: &str, start: u64) {
    let files = Arc::new(files.copy());
    let mut seen = Vec::new();
    let (_, mut writer, recovered) = Log::open(files.clone(), ID, 0, SMALL, &mut |frame| {
        seen.push(frame.last_revision());
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [2, 4, 6]);
    assert_eq!((recovered.last_revision, recovered.last_stamp), (6, 6000));
    let cut = recovered.cut.unwrap();
    assert_eq!((cut.file.as_str(), cut.offset), (name, start));
    assert!(bytes_of(&*files, name)[start as usize..].iter().all(|&byte| byte == 0));

    let mut builder = FrameBuilder::new(recovered.chain, &ID);
    let out = encode(&mut builder, 7, 1, 5, 6);
    writer.write(&out, 7, 7, builder.chain()).unwrap();
    let (again, recovered, ..) = reopen(&files, 0);
    assert_eq!(again, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(recovered.cut, None);
}

#[test]
fn a_file_cut_at_every_byte_of_the_last_frame() {
    let (bench, name, start, end) = unsynced_tail();
    for length in start + 1..end {
        let files = bench.files.copy();
        files.open(&name).unwrap().truncate(length).unwrap();
        recovers_three(&files, &name, start);
    }
}

#[test]
fn zeros_from_every_byte_of_the_last_frame_on() {
    let (bench, name, start, end) = unsynced_tail();
    let bytes = bytes_of(&*bench.files, &name);
    for from in start + 1..end {
        if bytes[from as usize..].iter().all(|&byte| byte == 0) {
            continue; // Only padding would be zeroed, so nothing changes.
        }
        let files = bench.files.copy();
        files.open(&name).unwrap().write_at(&vec![0; (end - from) as usize], from).unwrap();
        recovers_three(&files, &name, start);
    }
}

#[test]
fn zeros_up_to_every_byte_of_the_last_frame() {
    // Sectors reach the disk in any order, so the end of a frame may be written without its start.
    let (bench, name, start, end) = unsynced_tail();
    let last = bytes_of(&*bench.files, &name).iter().rposition(|&byte| byte != 0).unwrap() as u64;
    assert!(last < end);
    for to in start + 1..=last {
        let files = bench.files.copy();
        files.open(&name).unwrap().write_at(&vec![0; (to - start) as usize], start).unwrap();
        recovers_three(&files, &name, start);
    }
}

#[test]
fn garbage_at_every_byte_of_the_last_frame() {
    let (bench, name, start, end) = unsynced_tail();
    for at in start..end {
        for bits in [0x01, 0x80, 0xff] {
            let files = bench.files.copy();
            flip(&files, &name, at, bits);
            recovers_three(&files, &name, start);
        }
    }
}

#[test]
fn whole_frames_behind_a_torn_one_go_with_it() {
    let (mut bench, name, start, _) = unsynced_tail();
    bench.frame(2, 20).unwrap();
    bench.frame(3, 20).unwrap();
    flip(&bench.files, &name, start + 50, 4);
    recovers_three(&bench.files, &name, start);
}

#[test]
fn a_tail_the_caller_has_synced_is_damage() {
    let (bench, name, start, _) = unsynced_tail();
    flip(&bench.files, &name, start + 50, 4);
    let error = refused(bench.files.copy(), 7);
    assert_eq!(error.code(), Code::CorruptLog);
    assert!(error.message().contains(&format!("{name} is damaged at byte {start}")), "{error}");
    assert!(error.message().contains("does not match its checksum"), "{error}");
    recovers_three(&bench.files, &name, start);
}

#[test]
fn a_log_that_ends_before_what_was_synced_is_damage() {
    let bench = Bench::new().synced_frames(3);
    let error = refused(bench.files.copy(), 7);
    assert_eq!(error.code(), Code::CorruptLog);
    assert!(error.message().contains("revision 7 was synced"), "{error}");
}

#[test]
fn a_newest_segment_without_header_is_removed() {
    let bench = Bench::new().segments(2);
    let names = bench.names();
    let newest = segment::parse_name(&names[1]).unwrap();
    for length in [0, 1, 63, 64, 4096] {
        let files = Arc::new(bench.files.copy());
        let file = files.open(&names[1]).unwrap();
        let header = bytes_of(&*files, &names[1])[..40].to_vec();
        file.truncate(0).unwrap();
        file.write_at(&header[..header.len().min(length)], 0).unwrap();
        file.truncate(length as u64).unwrap();
        let (_, writer, recovered) =
            Log::open(files.clone(), ID, 0, SMALL, &mut |_| Ok(())).unwrap();
        assert_eq!(recovered.cut.unwrap().file, names[1]);
        assert_eq!(writer.end(), newest - 1);
        assert_eq!(segment_names(&*files), names[..1]);
    }
}

#[test]
fn a_first_segment_without_header_starts_again() {
    let files = Arc::new(MemoryFiles::new());
    files.create(&segment::name_of(5)).unwrap().truncate(100).unwrap();
    let (log, writer, recovered) = Log::open(files.clone(), ID, 4, SMALL, &mut |_| Ok(())).unwrap();
    assert_eq!((log.first_revision(), writer.end(), recovered.last_revision), (5, 4, 4));
    assert!(recovered.cut.is_some());
    assert_eq!(refused(MemoryFiles::new(), 0).code(), Code::CorruptLog);
}

#[test]
fn a_reserved_file_is_removed() {
    let bench = Bench::new().synced_frames(1);
    bench.log.prepare().unwrap();
    assert!(bench.files.list().unwrap().contains(&segment::PREPARED.to_owned()));
    let files = Arc::new(bench.files.copy());
    Log::open(files.clone(), ID, 0, SMALL, &mut |_| Ok(())).unwrap();
    assert_eq!(files.list().unwrap(), bench.names());
}
