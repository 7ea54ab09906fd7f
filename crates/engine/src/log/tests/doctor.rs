use mainstay_model::Code;

use super::*;

#[test]
fn a_sound_log_is_reported_and_left_alone() {
    let bench = Bench::new().segments(3);
    let before = contents(&bench.files);
    let report = inspect(&*bench.files).unwrap();
    assert_eq!(report.database, Some(ID));
    assert_eq!(report.problem, None);
    assert_eq!(report.last_revision(), Some(bench.writer.end()));
    assert_eq!(report.segments.len(), 3);
    let frames: u64 = report.segments.iter().map(|segment| segment.frames).sum();
    assert_eq!(frames, bench.writer.end());
    assert!(report.to_string().ends_with("no problem found"), "{report}");
    let salvaged = salvage(&*bench.files).unwrap();
    assert!(salvaged.kept.is_empty());
    assert!(contents(&bench.files) == before);
}

#[test]
fn damage_in_the_middle_is_found_and_salvaged() {
    let bench = Bench::new().segments(4);
    let names = bench.names();
    let first = segment::parse_name(&names[1]).unwrap();
    let end = bench.writer.end();
    let report = inspect(&*bench.files).unwrap();
    let frame_bytes = (report.segments[1].bytes - 64) / report.segments[1].frames;
    let offset = 64 + 2 * frame_bytes;
    flip(&bench.files, &names[1], offset + 100, 8);
    let damaged = contents(&bench.files);

    let report = inspect(&*bench.files).unwrap();
    let problem = report.problem.as_ref().unwrap();
    assert_eq!((&problem.file, problem.offset, problem.torn), (&names[1], offset, false));
    assert_eq!(problem.expected, first + 2);
    assert_eq!(report.unchecked, names[2..]);
    assert_eq!(report.seen_behind, Some(end));
    assert!(report.to_string().contains("DAMAGE"), "{report}");
    assert!(contents(&bench.files) == damaged, "looking changes nothing");

    let salvaged = salvage(&*bench.files).unwrap();
    assert_eq!(salvaged.last_revision, Some(first + 1));
    assert_eq!(salvaged.revisions_lost, end - first - 1);
    let aside: Vec<String> = names[1..].iter().map(|name| format!("{name}.damaged")).collect();
    assert_eq!(salvaged.kept, aside);
    for (name, bytes) in damaged.iter().skip(1) {
        assert!(bytes_of(&*bench.files, &format!("{name}.damaged")) == *bytes);
    }
    let (seen, recovered, ..) = reopen(&bench.files, 0);
    assert_eq!(seen, (1..first + 2).collect::<Vec<_>>());
    assert_eq!(recovered.cut, None);
}

#[test]
fn a_damaged_header_takes_its_whole_segment_out() {
    let bench = Bench::new().segments(3);
    let names = bench.names();
    flip(&bench.files, &names[1], 20, 1);
    let salvaged = salvage(&*bench.files).unwrap();
    let first = segment::parse_name(&names[1]).unwrap();
    assert_eq!(salvaged.last_revision, Some(first - 1));
    assert_eq!(bench.names(), names[..1]);
    assert_eq!(salvaged.revisions_lost, bench.writer.end() + 1 - first);
    assert_eq!(reopen(&bench.files, 0).1.last_revision, first - 1);
}

#[test]
fn a_missing_segment_ends_the_log_before_it() {
    let bench = Bench::new().segments(3);
    let names = bench.names();
    bench.files.remove(&names[1]).unwrap();
    let report = inspect(&*bench.files).unwrap();
    let missing = segment::parse_name(&names[1]).unwrap();
    assert_eq!(report.last_revision(), Some(missing - 1));
    assert!(report.problem.is_some());
    salvage(&*bench.files).unwrap();
    assert_eq!(bench.names(), names[..1]);
    assert_eq!(reopen(&bench.files, 0).1.last_revision, missing - 1);
}

#[test]
fn a_torn_tail_is_told_from_damage() {
    let mut bench = Bench::new().synced_frames(2);
    bench.frame(1, 50).unwrap();
    let report = inspect(&*bench.files).unwrap();
    let end = report.segments[0].bytes;
    flip(&bench.files, &report.segments[0].file, end - 20, 1);
    let report = inspect(&*bench.files).unwrap();
    assert!(report.problem.as_ref().unwrap().torn);
    assert_eq!(report.revisions_at_risk(), 1);
    assert!(report.to_string().contains("torn tail"), "{report}");
}

#[test]
fn a_second_salvage_keeps_the_first_one_too() {
    let bench = Bench::new().synced_frames(4);
    let name = &bench.names()[0];
    flip(&bench.files, name, 64 + 3 * 120, 1);
    let first = salvage(&*bench.files).unwrap();
    flip(&bench.files, name, 70, 1);
    let second = salvage(&*bench.files).unwrap();
    assert_eq!(first.kept, [format!("{name}.damaged")]);
    assert_eq!(second.kept, [format!("{name}.damaged.2")]);
    assert_eq!(second.last_revision, None);
    assert_eq!(reopen(&bench.files, 0).1.last_revision, 0);
}

#[test]
fn a_newer_format_is_not_salvaged() {
    let bench = Bench::new().synced_frames(1);
    let name = &bench.names()[0];
    let mut header = bytes_of(&*bench.files, name)[..64].to_vec();
    header[8] = 9;
    let crc = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    bench.files.open(name).unwrap().write_at(&header, 0).unwrap();
    let before = contents(&bench.files);
    assert_eq!(salvage(&*bench.files).unwrap_err().code(), Code::NewerFormat);
    assert!(contents(&bench.files) == before);
}
