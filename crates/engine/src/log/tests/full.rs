use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use mainstay_model::Code;

use super::*;

/// A disk with `left` bytes free. It counts every byte written, and refuses to allocate when none is left.
struct Small {
    inner: MemoryFiles,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    left: AtomicI64,
    sync_fails: AtomicBool,
    /// Simulates a file system that needs free space to truncate.
    truncate_fails: AtomicBool,
    read_only: AtomicBool,
    /// The operations performed, in order.
    steps: parking_lot::Mutex<Vec<&'static str>>,
}

impl State {
    fn note(&self, step: &'static str) {
        self.steps.lock().push(step);
    }
}

struct SmallFile(Arc<dyn File>, Arc<State>);

impl Small {
    fn new(left: i64) -> Arc<Small> {
        let state = Arc::new(State { left: AtomicI64::new(left), ..State::default() });
        Arc::new(Small { inner: MemoryFiles::new(), state })
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SmallFile(file, self.state.clone()))
    }
}

impl Files for Small {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.create(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        if self.state.read_only.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(self.wrap(self.inner.open(name)?))
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state.note("rename");
        self.inner.rename(from, to)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.state.note("sync directory");
        self.inner.sync_dir()
    }
}

impl File for SmallFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.1.note("write");
        let left = self.1.left.fetch_sub(bytes.len() as i64, Ordering::Relaxed).max(0) as usize;
        let part = bytes.len().min(left);
        self.0.write_at(&bytes[..part], offset)?;
        if part < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.note("sync");
        if self.1.sync_fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.0.sync()
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.1.note("allocate");
        if self.1.left.load(Ordering::Relaxed) <= 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.allocate(len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        if self.1.truncate_fails.load(Ordering::Relaxed) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.0.truncate(len)
        }
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

/// Fills the disk at every possible position: in the first write, in the roll and in the second segment.
#[test]
fn writing_goes_on_after_a_full_disk() {
    for left in (64..12_000).step_by(61) {
        let files = Small::new(left);
        let (log, mut writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
        let mut builder = FrameBuilder::new(0, &ID);
        let mut refusals = 0;
        while writer.end() < 24 {
            let first = writer.end() + 1;
            let out = encode(&mut builder, first, 2, 300, first - 1);
            match writer.write(&out, first, first + 1, builder.chain()) {
                Ok(()) => writer.sync().unwrap(),
                Err(error) => {
                    assert_eq!(error.code(), Code::DiskFull, "{error}");
                    refusals += 1;
                    // The log is intact while the disk is full, and readers continue.
                    let (seen, recovered, ..) = reopen(&files.inner, 0);
                    assert_eq!(seen, (1..first).collect::<Vec<_>>());
                    assert_eq!(recovered.cut, None);
                    assert_eq!(read_all(&mut log.reader(0).unwrap(), u64::MAX), seen);
                    builder.reset(writer.chain());
                    files.state.left.store(i64::MAX, Ordering::Relaxed);
                }
            }
        }
        assert!(refusals <= 1 && (refusals == 1 || left > 7000), "{left}: {refusals}");
        assert_eq!(reopen(&files.inner, 0).0, (1..=24).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_disk_refuses_a_frame_larger_than_a_segment_and_takes_it_later() {
    let files = Small::new(100);
    let (_log, mut writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
    files.state.left.store(0, Ordering::Relaxed);
    let mut builder = FrameBuilder::new(0, &ID);
    let out = encode(&mut builder, 1, 1, 9000, 0);
    let error = writer.write(&out, 1, 1, builder.chain()).unwrap_err();
    assert_eq!(error.code(), Code::DiskFull);
    files.state.left.store(i64::MAX, Ordering::Relaxed);
    writer.write(&out, 1, 1, builder.chain()).unwrap();
    assert_eq!(reopen(&files.inner, 0).0, [1]);
}

/// A failed write that stays in the file may be recovered at open, so it must not be reported as not written.
#[test]
fn what_cannot_be_cut_back_is_no_full_disk() {
    let files = Small::new(i64::MAX);
    let (_log, mut writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
    files.state.left.store(100, Ordering::Relaxed);
    files.state.truncate_fails.store(true, Ordering::Relaxed);
    let mut builder = FrameBuilder::new(0, &ID);
    let out = encode(&mut builder, 1, 1, 300, 0);
    assert_eq!(writer.write(&out, 1, 1, builder.chain()).unwrap_err().code(), Code::Io);
    files.state.left.store(i64::MAX, Ordering::Relaxed);
    files.state.truncate_fails.store(false, Ordering::Relaxed);
    assert_eq!(writer.write(&out, 1, 1, builder.chain()).unwrap_err().code(), Code::Io);
    assert_eq!(reopen(&files.inner, 0).0, Vec::<u64>::new());
}

#[test]
fn a_full_disk_leaves_no_reserved_file() {
    let files = Small::new(i64::MAX);
    let (log, _writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
    files.state.left.store(0, Ordering::Relaxed);
    assert_eq!(log.prepare().unwrap_err().code(), Code::DiskFull);
    assert_eq!(files.list().unwrap().len(), 1);
    files.state.left.store(i64::MAX, Ordering::Relaxed);
    log.prepare().unwrap();
    assert_eq!(files.list().unwrap().len(), 2);
}

#[test]
fn after_a_failed_sync_nothing_is_written_until_reopened() {
    let files = Small::new(i64::MAX);
    let (_log, mut writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
    let mut builder = FrameBuilder::new(0, &ID);
    let out = encode(&mut builder, 1, 1, 10, 0);
    writer.write(&out, 1, 1, builder.chain()).unwrap();
    files.state.sync_fails.store(true, Ordering::Relaxed);
    assert_eq!(writer.sync().unwrap_err().code(), Code::SyncFailed);
    files.state.sync_fails.store(false, Ordering::Relaxed);
    assert_eq!(writer.sync().unwrap_err().code(), Code::SyncFailed);
    let out = encode(&mut builder, 2, 1, 10, 0);
    let error = writer.write(&out, 2, 2, builder.chain()).unwrap_err();
    assert_eq!(error.code(), Code::SyncFailed);
    let (_, mut writer, recovered) =
        Log::open(files.clone(), ID, 0, SMALL, &mut |_| Ok(())).unwrap();
    assert_eq!(recovered.last_revision, 1);
    writer.write(&out, 2, 2, builder.chain()).unwrap();
    writer.sync().unwrap();
}

#[test]
fn a_sync_that_fails_while_rolling_is_not_passed_over() {
    let files = Small::new(i64::MAX);
    let (_log, mut writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
    let mut builder = FrameBuilder::new(0, &ID);
    let out = encode(&mut builder, 1, 1, 3000, 0);
    writer.write(&out, 1, 1, builder.chain()).unwrap();
    files.state.sync_fails.store(true, Ordering::Relaxed);
    let out = encode(&mut builder, 2, 1, 3000, 0);
    let error = writer.write(&out, 2, 2, builder.chain()).unwrap_err();
    assert_eq!(error.code(), Code::SyncFailed);
    assert_eq!(segment_names(&*files).len(), 1);
}

#[test]
fn a_read_only_file_system_is_named() {
    let files = Small::new(i64::MAX);
    Log::create(files.clone(), ID, 1, SMALL).unwrap();
    files.state.read_only.store(true, Ordering::Relaxed);
    let opened = Log::open(files, ID, 0, SMALL, &mut |_| Ok(()));
    assert_eq!(opened.map(drop).unwrap_err().code(), Code::ReadOnlyFiles);
}

#[test]
fn a_segment_is_synced_before_the_next_one_gets_its_name() {
    for prepare in [false, true] {
        let files = Small::new(i64::MAX);
        let (log, mut writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
        let created = std::mem::take(&mut *files.state.steps.lock());
        let made = ["allocate", "write", "sync", "rename", "sync directory"];
        assert_eq!(created, made);
        let mut builder = FrameBuilder::new(0, &ID);
        let out = encode(&mut builder, 1, 1, 3000, 0);
        writer.write(&out, 1, 1, builder.chain()).unwrap();
        if prepare {
            log.prepare().unwrap();
        }
        files.state.steps.lock().clear();
        let out = encode(&mut builder, 2, 1, 3000, 0);
        writer.write(&out, 2, 2, builder.chain()).unwrap();
        let rolled = std::mem::take(&mut *files.state.steps.lock());
        let reserved = ["sync", "write", "sync", "rename", "sync directory", "write"];
        let fresh = ["sync", "allocate", "write", "sync", "rename", "sync directory", "write"];
        assert_eq!(rolled, if prepare { reserved.to_vec() } else { fresh.to_vec() });
    }
}

#[test]
fn opening_makes_durable_what_it_read() {
    let files = Small::new(i64::MAX);
    let (_log, mut writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
    let mut builder = FrameBuilder::new(0, &ID);
    let out = encode(&mut builder, 1, 1, 30, 0);
    writer.write(&out, 1, 1, builder.chain()).unwrap();
    files.state.steps.lock().clear();
    Log::open(files.clone(), ID, 0, SMALL, &mut |_| Ok(())).unwrap();
    // Nothing proves the frame synced, so it is written again and then synced.
    assert_eq!(*files.state.steps.lock(), ["write", "sync", "sync directory"]);
}
