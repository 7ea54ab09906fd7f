//! A pipelined connection: requests go out in order, and answers come back in the same order.
//!
//! ```text
//!   callers --send--> [ bytes to write ] --first caller to lock the writer--> server
//!                     [ pending calls  ] <--first in, first out-- reader <-- server
//! ```
//!
//! The reader thread never writes. So it cannot deadlock with a server that waits for its answers to be read.

use super::call::PendingCall;
use super::dial::Stream;
use super::failure;
use super::resp::{self, Reply};
use mainstay_model::Error;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Read buffer size.
const BUFFER_BYTES: usize = 64 << 10;

/// The thread that writes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteTurn {
    /// The calling threads, which may block.
    Callers,
    /// A writer thread, because async callers must not block.
    Thread,
}

pub(crate) struct Socket {
    queue: Mutex<RequestQueue>,
    more: Condvar,
    writer: Mutex<Box<dyn Write + Send>>,
    writing: WriteTurn,
    hang_up: Box<dyn Fn() + Send + Sync>,
    /// Time of the last bytes from the server.
    heard_us: AtomicU64,
    /// True if the connection was closed because the server was silent.
    silent: AtomicBool,
    /// The error that ended the stream, if the transport reported one.
    why: OnceLock<Error>,
}

/// The kind of calls in flight on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingRequests {
    /// Only reads, which have no side effect.
    Reads,
    /// At least one write.
    Writes,
}

#[derive(Default)]
struct RequestQueue {
    calls: VecDeque<PendingCall>,
    bytes: Vec<u8>,
    broken: bool,
}

impl RequestQueue {
    fn push(&mut self, mut call: PendingCall, now_us: u64) {
        // Zero means never sent.
        call.sent_us = now_us.max(1);
        if call.is_repeated() {
            self.bytes.extend_from_slice(&call.bytes)
        } else if self.bytes.is_empty() {
            self.bytes = std::mem::take(&mut call.bytes)
        } else {
            self.bytes.append(&mut call.bytes)
        }
        self.calls.push_back(call);
    }
}

impl Socket {
    /// Takes over a stream. `now` is the clock. `over` is called when no more answers will arrive, and it
    /// must call [`Socket::end`].
    pub fn start(
        stream: Stream,
        writing: WriteTurn,
        now: impl Fn() -> u64 + Send + 'static,
        over: impl FnOnce(&Socket) + Send + 'static,
    ) -> io::Result<Arc<Socket>> {
        let socket = Arc::new(Socket {
            queue: Mutex::default(),
            more: Condvar::new(),
            writer: Mutex::new(stream.writer),
            writing,
            hang_up: stream.hang_up,
            heard_us: AtomicU64::new(0),
            silent: AtomicBool::new(false),
            why: OnceLock::new(),
        });
        let reading = socket.clone();
        let reader = stream.reader;
        let thread = std::thread::Builder::new().name("mainstay-read".to_owned());
        let spawned = thread.spawn(move || {
            reading.read_on(reader, &now);
            // Unblocks any thread that is writing.
            reading.hang_up();
            over(&reading);
        });
        spawned.inspect_err(|_| socket.hang_up())?;
        if writing == WriteTurn::Thread {
            let writes = socket.clone();
            let thread = std::thread::Builder::new().name("mainstay-write".to_owned());
            thread.spawn(move || writes.write_on()).inspect_err(|_| socket.hang_up())?;
        }
        Ok(socket)
    }

    /// Sends a call, or returns it if the connection has ended.
    pub fn send(&self, call: PendingCall, now_us: u64) -> Result<(), PendingCall> {
        let mut queue = self.queue.lock();
        if queue.broken {
            return Err(call);
        }
        queue.push(call, now_us);
        drop(queue);
        self.start_writing();
        Ok(())
    }

    /// Takes queued calls, which [`Socket::start_writing`] sends. Leaves them in place if the connection
    /// has ended.
    pub fn take_over(&self, calls: &mut VecDeque<PendingCall>, now_us: u64) -> bool {
        let mut queue = self.queue.lock();
        if !queue.broken {
            calls.drain(..).for_each(|call| queue.push(call, now_us));
        }
        !queue.broken
    }

    /// Starts writing the queued bytes.
    pub fn start_writing(&self) {
        match self.writing {
            WriteTurn::Callers => self.flush(),
            WriteTurn::Thread => drop(self.more.notify_one()),
        }
    }

    /// Writes the queued bytes, unless another thread is writing: then that thread writes these too.
    fn flush(&self) {
        loop {
            let Some(mut writer) = self.writer.try_lock() else { return };
            self.write_all(&mut **writer);
            drop(writer);
            // Bytes queued while this thread still held the writer would otherwise stay unsent.
            if self.queue.lock().bytes.is_empty() {
                return;
            }
        }
    }

    fn write_all(&self, writer: &mut dyn Write) {
        loop {
            let bytes = std::mem::take(&mut self.queue.lock().bytes);
            if bytes.is_empty() {
                return;
            }
            if let Err(error) = writer.write_all(&bytes).and_then(|()| writer.flush()) {
                if is_late(&error) {
                    self.silent.store(true, Ordering::Relaxed);
                }
                // Some bytes may already be on the wire. The reader thread sees the end of the stream and
                // fails the pending calls.
                return self.hang_up();
            }
        }
    }

    fn write_on(&self) {
        loop {
            let mut queue = self.queue.lock();
            while queue.bytes.is_empty() && !queue.broken {
                self.more.wait(&mut queue);
            }
            if queue.broken {
                return;
            }
            drop(queue);
            self.write_all(&mut **self.writer.lock());
        }
    }

    /// Delivers answers until the stream ends.
    fn read_on(&self, reader: Box<dyn Read + Send>, now: &dyn Fn() -> u64) {
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        while let Some((call, reply)) = self.next(&mut reader) {
            self.heard_us.store(now(), Ordering::Relaxed);
            call.answer(reply);
        }
    }

    fn next(&self, reader: &mut BufReader<Box<dyn Read + Send>>) -> Option<(PendingCall, Reply)> {
        let reply = resp::decode(reader).inspect_err(|error| self.note(error)).ok()?;
        // A reply without a pending call: the peer is not a Mainstay server.
        let call = self.queue.lock().calls.pop_front()?;
        Some((call, reply))
    }

    fn note(&self, error: &io::Error) {
        if let Some(why) = failure::own(error) {
            let _ = self.why.set(why.clone());
        }
    }

    /// Accepts no more calls. Returns those that are still pending.
    pub fn end(&self) -> Vec<PendingCall> {
        let mut queue = self.queue.lock();
        queue.broken = true;
        queue.bytes = Vec::new();
        self.more.notify_all();
        queue.calls.drain(..).collect()
    }

    /// Closes the stream. The pending calls fail.
    pub fn hang_up(&self) {
        (self.hang_up)();
    }

    /// Closes the stream and accepts no more calls.
    pub fn give_up(&self) {
        self.queue.lock().broken = true;
        self.hang_up();
    }

    /// Closes the stream if the server was silent for too long.
    pub fn hang_up_if_silent(&self, now_us: u64) {
        let queue = self.queue.lock();
        let Some(first) = queue.calls.front() else { return };
        let since = first.sent_us.max(self.heard_us.load(Ordering::Relaxed));
        if now_us.saturating_sub(since) > first.limit_us {
            self.silent.store(true, Ordering::Relaxed);
            drop(queue);
            self.hang_up();
        }
    }

    /// Returns whether the connection was closed because the server was silent.
    pub fn was_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// The transport's own error, if it reported one.
    pub fn why(&self) -> Option<&Error> {
        self.why.get()
    }

    /// Returns whether the connection has ended.
    pub fn is_broken(&self) -> bool {
        self.queue.lock().broken
    }

    /// Returns whether any call is pending.
    pub fn is_busy(&self) -> bool {
        !self.queue.lock().calls.is_empty()
    }

    /// Returns whether any pending call has a receiver for its answer, and whether such a call writes.
    pub fn under_way(&self) -> Option<PendingRequests> {
        let queue = self.queue.lock();
        let mut asked = queue.calls.iter().filter(|call| call.is_asked()).peekable();
        asked.peek()?;
        Some(if asked.any(PendingCall::writes) {
            PendingRequests::Writes
        } else {
            PendingRequests::Reads
        })
    }
}

/// Returns whether a write failed because the peer accepted nothing in time.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
