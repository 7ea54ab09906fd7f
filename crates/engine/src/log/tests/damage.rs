use mainstay_model::Code;

use super::*;

/// The offsets at which the frames of a segment start.
fn starts(files: &MemoryFiles, name: &str) -> Vec<u64> {
    let mut starts = Vec::new();
    let file = files.open(name).unwrap();
    let mut note = |offset, _| starts.push(offset);
    scanner::find_heads(&*file, ID.seed(), 0, &mut note).unwrap();
    starts
}

fn names_place(error: &Error, name: &str, offset: u64) {
    assert_eq!(error.code(), Code::CorruptLog, "{error}");
    assert!(error.message().contains(&format!("{name} is damaged at byte {offset}:")), "{error}");
    assert!(error.message().contains("mainstay doctor"), "{error}");
}

#[test]
fn a_flip_in_every_byte_of_a_synced_frame_is_refused() {
    let bench = Bench::new().synced_frames(4);
    let name = &bench.names()[0];
    let starts = starts(&bench.files, name);
    assert_eq!(starts.len(), 4);
    for frame in 0..3 {
        for at in starts[frame]..starts[frame + 1] {
            for bits in [0x01, 0x40] {
                let files = bench.files.copy();
                flip(&files, name, at, bits);
                names_place(&refused(files, 0), name, starts[frame]);
            }
        }
    }
}

#[test]
fn a_synced_frame_lost_to_zeros_is_refused() {
    let bench = Bench::new().synced_frames(4);
    let name = &bench.names()[0];
    let starts = starts(&bench.files, name);
    let files = bench.files.copy();
    let zeros = vec![0; (starts[3] - starts[1]) as usize];
    files.open(name).unwrap().write_at(&zeros, starts[1]).unwrap();
    names_place(&refused(files, 0), name, starts[1]);
}

#[test]
fn a_flip_before_a_later_segment_is_refused() {
    let bench = Bench::new().segments(3);
    let names = bench.names();
    for name in &names[..2] {
        let starts = starts(&bench.files, name);
        for start in starts {
            let files = bench.files.copy();
            flip(&files, name, start + 45, 0x10);
            names_place(&refused(files, 0), name, start);
        }
    }
}

#[test]
fn frames_cut_off_an_older_segment_are_refused() {
    let bench = Bench::new().segments(3);
    let name = &bench.names()[1];
    let last = *starts(&bench.files, name).last().unwrap();
    let files = bench.files.copy();
    files.open(name).unwrap().truncate(last).unwrap();
    names_place(&refused(files, 0), name, last);
}

#[test]
fn a_flip_in_every_byte_of_a_header_is_refused() {
    let bench = Bench::new().segments(2);
    for name in &bench.names() {
        for at in 0..segment::HEADER_BYTES {
            let files = bench.files.copy();
            flip(&files, name, at, 0x04);
            names_place(&refused(files, 0), name, 0);
        }
    }
}

#[test]
fn a_missing_segment_is_refused_wherever_replay_starts() {
    let bench = Bench::new().segments(4);
    let names = bench.names();
    for after in [0, bench.writer.end()] {
        let files = bench.files.copy();
        files.remove(&names[1]).unwrap();
        let error = refused(files, after);
        names_place(&error, &names[2], 0);
        assert!(error.message().contains(&names[1]), "{error}");
    }
}

#[test]
fn a_missing_start_is_trimmed_history() {
    let bench = Bench::new().segments(3);
    bench.files.remove(&bench.names()[0]).unwrap();
    assert_eq!(refused(bench.files.copy(), 0).code(), Code::HistoryTrimmed);
}

#[test]
fn a_newer_format_is_refused() {
    let bench = Bench::new().segments(2);
    for name in &bench.names() {
        let files = bench.files.copy();
        let mut header = bytes_of(&files, name)[..64].to_vec();
        header[8] = 2;
        let crc = crc32c::crc32c(&header[..60]);
        header[60..].copy_from_slice(&crc.to_le_bytes());
        files.open(name).unwrap().write_at(&header, 0).unwrap();
        let error = refused(files, 0);
        assert_eq!(error.code(), Code::NewerFormat);
        assert!(error.message().contains("format version 2"), "{error}");
    }
}

#[test]
fn another_database_is_refused() {
    let bench = Bench::new().synced_frames(1);
    let other = DatabaseId([9; 16]);
    let before = contents(&bench.files);
    let opened = Log::open(bench.files.clone(), other, 0, SMALL, &mut |_| Ok(()));
    let error = opened.map(drop).unwrap_err();
    assert_eq!(error.code(), Code::CorruptLog);
    assert!(error.message().contains("belongs to database"), "{error}");
    assert!(contents(&bench.files) == before);
}

#[test]
fn a_renamed_segment_is_refused() {
    let bench = Bench::new().synced_frames(1);
    bench.files.rename(&bench.names()[0], &segment::name_of(0)).unwrap();
    names_place(&refused(bench.files.copy(), 0), &segment::name_of(0), 0);
}

#[test]
fn a_segment_of_another_history_is_refused() {
    // The same database and revisions with other content, as after restoring half a backup.
    let bench = Bench::new().segments(2);
    let mut other = Bench::new();
    while other.names().len() < 2 {
        other.frame(1, 401).unwrap();
    }
    let names = bench.names();
    assert_eq!(names, other.names());
    let bytes = bytes_of(&*other.files, &names[1]);
    bench.files.open(&names[1]).unwrap().write_at(&bytes, 0).unwrap();
    names_place(&refused(bench.files.copy(), 0), &names[1], 0);
}

#[test]
fn a_reader_names_the_damage() {
    let bench = Bench::new().synced_frames(3);
    let name = &bench.names()[0];
    let starts = starts(&bench.files, name);
    flip(&bench.files, name, starts[1] + 60, 1);
    let mut reader = bench.log.reader(0).unwrap();
    assert_eq!(reader.next(6).unwrap().unwrap().last_revision(), 2);
    names_place(&reader.next(6).unwrap_err(), name, starts[1]);
}
