use mainstay_model::Code;

use super::*;

fn fill(files: Arc<DiskFiles>, frames: u64) {
    let (log, mut writer) = Log::create(files, ID, 1, SMALL).unwrap();
    let mut builder = FrameBuilder::new(0, &ID);
    for revision in 1..=frames {
        let out = encode(&mut builder, revision, 1, 500, revision - 1);
        writer.write(&out, revision, revision, builder.chain()).unwrap();
        writer.sync().unwrap();
        log.prepare().unwrap();
    }
    assert_eq!(read_all(&mut log.reader(0).unwrap(), frames), (1..=frames).collect::<Vec<_>>());
}

#[test]
fn a_real_directory_keeps_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let files = Arc::new(DiskFiles::new(directory.path()));
    fill(files.clone(), 30);
    let mut seen = 0;
    let (log, writer, recovered) = Log::open(files.clone(), ID, 0, SMALL, &mut |frame| {
        seen = frame.last_revision();
        Ok(())
    })
    .unwrap();
    assert_eq!((seen, writer.end(), recovered.last_stamp), (30, 30, 30_000));
    assert!(log.trim(20).unwrap() > 0);
    assert_eq!(inspect(&*files).unwrap().segments[0].first_revision, log.first_revision());
    assert!(log.first_revision() > 1 && log.first_revision() <= 20);
}

#[test]
fn a_segment_takes_its_space_at_once() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let files = Arc::new(DiskFiles::new(directory.path()));
    let options = LogOptions { segment_bytes: 1024 * 1024, owner: 1 };
    Log::create(files, ID, 1, options).unwrap();
    let data = std::fs::metadata(directory.path().join(segment::name_of(1))).unwrap();
    assert_eq!(data.len(), 1024 * 1024);
    assert!(data.blocks() * 512 >= 1024 * 1024, "{} blocks", data.blocks());
}

#[test]
fn a_torn_tail_on_a_real_disk_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let files = Arc::new(DiskFiles::new(directory.path()));
    fill(files.clone(), 3);
    let report = inspect(&*files).unwrap();
    let newest = report.segments.last().unwrap();
    files.open(&newest.file).unwrap().write_at(b"torn", newest.bytes - 100).unwrap();
    let (_, writer, recovered) = Log::open(files.clone(), ID, 0, SMALL, &mut |_| Ok(())).unwrap();
    assert_eq!(writer.end(), 2);
    assert!(recovered.cut.is_some());
    assert_eq!(inspect(&*files).unwrap().problem, None);
}

#[test]
fn read_only_files_can_be_inspected_and_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    fill(Arc::new(DiskFiles::new(directory.path())), 10);
    let files = Arc::new(DiskFiles::read_only(directory.path()));
    assert_eq!(inspect(&*files).unwrap().last_revision(), Some(10));
    let opened = Log::open(files, ID, 0, SMALL, &mut |_| Ok(()));
    assert_eq!(opened.map(drop).unwrap_err().code(), Code::ReadOnlyFiles);
}
