//! Upper bound of a durable write: a bare log with group commit, which only appends records and shares
//! fsyncs.
//!
//! ```text
//!   appenders -> [ forming batch ]            while this one fills,
//!   leader    -> [ batch ] -> one pwrite, one fdatasync -> wake all that wait for it
//! ```
//!
//! It has no index, no names and no answers. Records are checksummed and written one after the other into a
//! preallocated file, which is reused in a circle. So an fsync writes data and no file growth. An appender
//! that finds no fsync in progress syncs itself, so a single appender wakes no thread. When others have
//! queued up meanwhile, the leader wakes the first of them as the next leader before it wakes those it has
//! served. So the disk waits for one wake-up and not for all.

use crate::context::Outcome;
use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{JoinHandle, Thread};

/// Bytes before a payload: length, checksum, number, and room for an engine's own header fields.
pub const HEADER_BYTES: usize = 40;
/// Size of a payload: about that of our engine's log record for a set of 100 bytes.
pub const PAYLOAD_BYTES: usize = 150;

const FILE_BYTES: u64 = 64 << 20;
const UNSYNCED_WRITE_BYTES: usize = 64 << 10;

/// A log that only makes records durable.
pub struct BareLog {
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
}

struct Shared {
    file: File,
    state: Mutex<State>,
}

struct State {
    forming: Batch,
    /// Emptied batches, kept to reuse their memory.
    spare: Vec<Batch>,
    /// A thread is syncing, or the syncer was asked to.
    busy: bool,
    /// The syncer thread was asked to sync.
    called: bool,
    closing: bool,
    offset: u64,
    number: u64,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    waiters: Vec<Waiter>,
}

enum Waiter {
    Thread(Arc<Seat>),
    Callback(Callback),
}

type Callback = Box<dyn FnOnce(Result<(), Failed>) + Send>;

/// The disk refused a write or an fsync.
#[derive(Clone, Copy, Debug)]
pub struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bare log could not write or sync its file")
    }
}

impl std::error::Error for Failed {}

/// The place where a thread waits for its record.
pub struct Seat {
    word: AtomicU8,
    thread: Thread,
}

const WAIT: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;
const LEAD: u8 = 3;

impl Seat {
    /// Creates a seat for the calling thread, which uses it for all its appends.
    pub fn new() -> Arc<Seat> {
        Arc::new(Seat { word: AtomicU8::new(WAIT), thread: std::thread::current() })
    }

    /// Returns whether the seat belongs to the calling thread.
    pub fn is_mine(&self) -> bool {
        self.thread.id() == std::thread::current().id()
    }

    fn tell(&self, word: u8) {
        // Release pairs with the Acquire in `wait`.
        self.word.store(word, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) -> u8 {
        loop {
            // Acquire pairs with the Release in `tell`.
            match self.word.load(Ordering::Acquire) {
                WAIT => std::thread::park(),
                word => return word,
            }
        }
    }
}

impl BareLog {
    /// Creates the file, fully allocated and synced, and starts the syncer thread that serves tickets.
    pub fn create(directory: &Path) -> Outcome<BareLog> {
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(directory.join("bare.log"))?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, FILE_BYTES)?;
        file.sync_all()?;
        File::open(directory)?.sync_all()?;
        let shared = Arc::new(Shared { file, state: Mutex::new(State::new()) });
        let serving = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("bare-log-syncer".to_string());
        let syncer = builder.spawn(move || serving.serve_tickets())?;
        Ok(BareLog { shared, syncer: Some(syncer) })
    }

    /// Appends a record and blocks until it is durable.
    pub fn append(&self, seat: &Arc<Seat>, payload: &[u8]) -> Result<(), Failed> {
        let checksum = crc32c::crc32c(payload);
        let mut state = self.shared.state.lock();
        state.put(checksum, payload);
        if !state.busy {
            state.busy = true;
            return self.shared.lead(state);
        }
        seat.word.store(WAIT, Ordering::Relaxed);
        state.forming.waiters.push(Waiter::Thread(Arc::clone(seat)));
        drop(state);
        match seat.wait() {
            LEAD => self.shared.lead(self.shared.state.lock()),
            FAILED => Err(Failed),
            _ => Ok(()),
        }
    }

    /// Appends a record and calls `done` once it is durable.
    pub fn append_with(
        &self,
        payload: &[u8],
        done: impl FnOnce(Result<(), Failed>) + Send + 'static,
    ) {
        let checksum = crc32c::crc32c(payload);
        let done = Waiter::Callback(Box::new(done));
        let mut state = self.shared.state.lock();
        state.put(checksum, payload);
        state.forming.waiters.push(done);
        if !state.busy {
            state.busy = true;
            state.called = true;
            drop(state);
            self.call_syncer();
        }
    }

    /// Appends a record without waiting: written in large pieces, never synced.
    pub fn append_unsynced(&self, payload: &[u8]) -> Result<(), Failed> {
        let checksum = crc32c::crc32c(payload);
        let mut state = self.shared.state.lock();
        state.put(checksum, payload);
        if state.forming.bytes.len() < UNSYNCED_WRITE_BYTES {
            return Ok(());
        }
        let offset = state.claim();
        let written = self.shared.file.write_all_at(&state.forming.bytes, offset);
        state.forming.bytes.clear();
        written.map_err(|_| Failed)
    }

    fn call_syncer(&self) {
        if let Some(syncer) = &self.syncer {
            syncer.thread().unpark();
        }
    }
}

impl Drop for BareLog {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.call_syncer();
        if let Some(syncer) = self.syncer.take() {
            // It ends only this way or by a panic, which was printed at that time.
            let _ = syncer.join();
        }
    }
}

impl State {
    fn new() -> State {
        State {
            forming: Batch::default(),
            spare: Vec::new(),
            busy: false,
            called: false,
            closing: false,
            offset: 0,
            number: 0,
        }
    }

    /// Copies a record behind the others. The payload's checksum was computed outside the lock. It is
    /// continued over the header, which is known only here.
    fn put(&mut self, checksum: u32, payload: &[u8]) {
        self.number += 1;
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&self.number.to_le_bytes());
        let checksum = crc32c::crc32c_append(checksum, &header[4..]);
        header[..4].copy_from_slice(&checksum.to_le_bytes());
        self.forming.bytes.extend_from_slice(&header);
        self.forming.bytes.extend_from_slice(payload);
    }

    /// Reserves the position in the file for the formed batch. At the end of the file it starts over.
    fn claim(&mut self) -> u64 {
        let length = self.forming.bytes.len() as u64;
        let offset = if self.offset + length > FILE_BYTES { 0 } else { self.offset };
        self.offset = offset + length;
        offset
    }
}

impl Shared {
    /// Writes and syncs the formed batch, passes on the lead, and wakes the served waiters.
    fn lead(&self, mut state: MutexGuard<'_, State>) -> Result<(), Failed> {
        let spare = state.spare.pop().unwrap_or_default();
        let offset = state.claim();
        let mut batch = std::mem::replace(&mut state.forming, spare);
        drop(state);
        let result = self.write_and_sync(&batch.bytes, offset);
        self.pass_the_lead();
        batch.waiters.drain(..).for_each(|waiter| waiter.answer(result));
        batch.bytes.clear();
        self.state.lock().spare.push(batch);
        result
    }

    fn write_and_sync(&self, bytes: &[u8], offset: u64) -> Result<(), Failed> {
        self.file.write_all_at(bytes, offset).map_err(|_| Failed)?;
        self.file.sync_data().map_err(|_| Failed)
    }

    /// The first waiter of the next batch becomes its leader. A ticket has no waiting thread. Then the
    /// syncer, which is the caller in that case, continues itself.
    fn pass_the_lead(&self) {
        let mut state = self.state.lock();
        match state.forming.waiters.first() {
            None => state.busy = false,
            Some(Waiter::Callback(_)) => state.called = true,
            Some(Waiter::Thread(_)) => {
                let heir = state.forming.waiters.swap_remove(0);
                drop(state);
                heir.lead();
            }
        }
    }

    fn serve_tickets(&self) {
        loop {
            let mut state = self.state.lock();
            if state.called {
                state.called = false;
                // The waiters have the result; the syncer itself needs none.
                let _ = self.lead(state);
            } else if state.closing {
                return;
            } else {
                drop(state);
                std::thread::park();
            }
        }
    }
}

impl Waiter {
    fn answer(self, result: Result<(), Failed>) {
        match self {
            Waiter::Thread(seat) => seat.tell(if result.is_ok() { DONE } else { FAILED }),
            Waiter::Callback(done) => done(result),
        }
    }

    fn lead(self) {
        if let Waiter::Thread(seat) = self {
            seat.tell(LEAD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Reads the file back: the numbers of the records, up to the first one with a wrong checksum.
    fn records(directory: &Path, payload_bytes: usize) -> Vec<u64> {
        let bytes = std::fs::read(directory.join("bare.log")).unwrap();
        let whole = bytes.chunks_exact(HEADER_BYTES + payload_bytes).map_while(|record| {
            let (header, payload) = record.split_at(HEADER_BYTES);
            let expected = u32::from_le_bytes(header[..4].try_into().unwrap());
            let found = crc32c::crc32c_append(crc32c::crc32c(payload), &header[4..]);
            let number = u64::from_le_bytes(header[8..16].try_into().unwrap());
            (expected == found && number > 0).then_some(number)
        });
        whole.collect()
    }

    #[test]
    fn threads_find_their_records_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let log = BareLog::create(directory.path()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let seat = Seat::new();
                    (0..50).for_each(|_| log.append(&seat, &[7; 33]).unwrap());
                });
            }
        });
        assert_eq!(records(directory.path(), 33), (1..=400).collect::<Vec<_>>());
    }

    #[test]
    fn callbacks_come_once_each_and_after_the_write() {
        let directory = tempfile::tempdir().unwrap();
        let log = BareLog::create(directory.path()).unwrap();
        let done = Arc::new(AtomicU64::new(0));
        for _ in 0..500 {
            let done = Arc::clone(&done);
            log.append_with(&[1; 20], move |result| {
                result.unwrap();
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        drop(log);
        assert_eq!(done.load(Ordering::SeqCst), 500);
        assert_eq!(records(directory.path(), 20).len(), 500);
    }

    #[test]
    fn the_file_is_written_round_and_round() {
        let directory = tempfile::tempdir().unwrap();
        let log = BareLog::create(directory.path()).unwrap();
        log.shared.state.lock().offset = FILE_BYTES - 10;
        log.append(&Seat::new(), &[9; 60]).unwrap();
        assert_eq!(log.shared.state.lock().offset, 100);
        let length = std::fs::metadata(directory.path().join("bare.log")).unwrap().len();
        assert_eq!((records(directory.path(), 60), length), (vec![1], FILE_BYTES));
    }
}
