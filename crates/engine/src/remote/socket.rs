//! One connection: requests go out in order, answers come back in the same order.
//!
//! ```text
//!   callers --send--> [ bytes to write ] --whoever finds the writer free--> server
//!                     [ calls that wait ] <--first in, first out-- reader <-- server
//! ```
//!
//! The reader never sends, and so never waits for a server that waits for it.

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

/// What is read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteTurn {
    /// The callers, who may block.
    Callers,
    /// A thread, because the callers may not.
    Thread,
}

pub(crate) struct Socket {
    queue: Mutex<RequestQueue>,
    more: Condvar,
    writer: Mutex<Box<dyn Write + Send>>,
    writing: WriteTurn,
    hang_up: Box<dyn Fn() + Send + Sync>,
    /// When the server said something last.
    heard_us: AtomicU64,
    /// It was given up because the server was silent.
    silent: AtomicBool,
    /// Why it ended, where the stream has a reason of its own.
    why: OnceLock<Error>,
}

/// What is under way on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingRequests {
    /// Only what has no effect behind its answer.
    Reads,
    /// A write.
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
        // Zero means never.
        call.sent_us = now_us.max(1);
        match call.is_repeated() {
            true => self.bytes.extend_from_slice(&call.bytes),
            false if self.bytes.is_empty() => self.bytes = std::mem::take(&mut call.bytes),
            false => self.bytes.append(&mut call.bytes),
        }
        self.calls.push_back(call);
    }
}

impl Socket {
    /// Takes a stream over. `now` tells the time; `over` is told when there will be no more answers,
    /// and has to [`Socket::end`] it.
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
        let (reading, reader) = (socket.clone(), stream.reader);
        let thread = std::thread::Builder::new().name("mainstay-read".to_owned());
        let spawned = thread.spawn(move || {
            reading.read_on(reader, &now);
            // Whoever is blocked in writing lets go.
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

    /// Sends a call; gives it back when the connection is over.
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

    /// Takes calls that wait, to be sent when [`Socket::start_writing`] says so; leaves them where
    /// they are when the connection is over.
    pub fn take_over(&self, calls: &mut VecDeque<PendingCall>, now_us: u64) -> bool {
        let mut queue = self.queue.lock();
        if !queue.broken {
            calls.drain(..).for_each(|call| queue.push(call, now_us));
        }
        !queue.broken
    }

    /// Has written what there is.
    pub fn start_writing(&self) {
        match self.writing {
            WriteTurn::Callers => self.flush(),
            WriteTurn::Thread => drop(self.more.notify_one()),
        }
    }

    /// Writes what there is, unless somebody is at it: that one writes this as well.
    fn flush(&self) {
        loop {
            let Some(mut writer) = self.writer.try_lock() else { return };
            self.write_all(&mut **writer);
            drop(writer);
            // What came while the writer was still held.
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
                // A part of it may be out. The reader sees that it is over, and tells everybody.
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

    /// Hands out answers until there are no more.
    fn read_on(&self, reader: Box<dyn Read + Send>, now: &dyn Fn() -> u64) {
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        while let Some((call, reply)) = self.next(&mut reader) {
            self.heard_us.store(now(), Ordering::Relaxed);
            call.answer(reply);
        }
    }

    fn next(&self, reader: &mut BufReader<Box<dyn Read + Send>>) -> Option<(PendingCall, Reply)> {
        let reply = resp::decode(reader).inspect_err(|error| self.note(error)).ok()?;
        // An answer that nobody asked for: this is no server of ours.
        let call = self.queue.lock().calls.pop_front()?;
        Some((call, reply))
    }

    fn note(&self, error: &io::Error) {
        if let Some(why) = failure::own(error) {
            let _ = self.why.set(why.clone());
        }
    }

    /// Takes no more calls; gives those that are left without an answer.
    pub fn end(&self) -> Vec<PendingCall> {
        let mut queue = self.queue.lock();
        queue.broken = true;
        queue.bytes = Vec::new();
        self.more.notify_all();
        queue.calls.drain(..).collect()
    }

    /// Ends it; who waits is told.
    pub fn hang_up(&self) {
        (self.hang_up)();
    }

    /// Ends it, and takes no more calls from now on.
    pub fn give_up(&self) {
        self.queue.lock().broken = true;
        self.hang_up();
    }

    /// Ends it if the server was silent for too long.
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

    /// Whether it was given up because the server was silent.
    pub fn was_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Why it ended, where more is known than that it did.
    pub fn why(&self) -> Option<&Error> {
        self.why.get()
    }

    /// Whether it is over.
    pub fn is_broken(&self) -> bool {
        self.queue.lock().broken
    }

    /// Whether answers are waited for.
    pub fn is_busy(&self) -> bool {
        !self.queue.lock().calls.is_empty()
    }

    /// Whether the answer is still to come of something that was asked for its answer, and whether
    /// that writes.
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

/// Whether a write failed because nothing of it was taken in time.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
