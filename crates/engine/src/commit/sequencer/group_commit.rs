//! Group commit, the second stage: writes, syncs, publishes and answers groups of executed transactions.

use super::{Sequencer, callbacks, closed};
use crate::base::fault_points::{self, InjectedFault};
use crate::base::sync::atomic::Ordering;
use crate::base::sync::thread;
use crate::commit::executor::{Executed, Round};
use crate::commit::ticket::{self, Completion};
use crate::commit::wakeup;
use crate::log::{Chain, FrameBuffer, LogWriter};
use mainstay_model::{Code, Error, Receipt, Result, Revision, Stamp};
use std::sync::Arc;
use std::time::Duration;

/// A frame takes further rounds until it has this size. A single round ends when it reaches this size.
pub(super) const FRAME_BYTES: usize = 16 << 20;

/// Executed transactions that wait for the log together.
#[derive(Default)]
pub(super) struct Group {
    frames: Vec<u8>,
    /// The frames of the group and the end of each one's payload; nearly always one.
    parts: Vec<(FrameBuffer, usize)>,
    pub sync: bool,
    /// True if the group contains a transaction with `Durability::Interval`: it must be synced within
    /// the interval.
    pub soon: bool,
    pub waiting: Vec<(Completion, Executed)>,
    /// Numbers the groups; selects the event count that the group's waiters sleep on.
    number: u32,
    /// The answers of transactions that could not be written.
    failed: Vec<(Completion, Result<Receipt>)>,
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.frames.is_empty()
    }

    /// Adds an executed transaction.
    pub fn add(&mut self, (completion, told): (Completion, Executed)) {
        completion.expect_at(wakeup::of_group(self.number));
        self.waiting.push((completion, told));
    }

    /// Adds a round's transactions and returns the number of bytes they add.
    pub fn add_round(&mut self, round: &Round<'_>) -> usize {
        let before = self.frames.len();
        let (mut frame, _) = match self.parts.pop() {
            Some(part) if before - part.0.start() < FRAME_BYTES => part,
            full => {
                self.parts.extend(full);
                (FrameBuffer::begin(&mut self.frames, round.first), 0)
            }
        };
        frame.append(&mut self.frames, round.payload);
        self.parts.push((frame, self.frames.len()));
        self.frames.len() - before
    }

    fn clear(&mut self) {
        self.frames.clear();
        if self.frames.capacity() > 4 << 20 {
            self.frames = Vec::new();
        }
        self.parts.clear();
        self.waiting.clear();
        self.sync = false;
        self.soon = false;
    }
}

/// The log's writer and its position.
pub(super) struct LogStage {
    writer: LogWriter,
    written: Revision,
    stamp: Stamp,
    chain: Chain,
    unsynced: bool,
    /// The time of the oldest write that must be synced within the sync interval.
    soon_since_us: Option<u64>,
    /// True after `Sequencer::close`: nothing more is written.
    closed: bool,
}

impl LogStage {
    pub fn new(writer: LogWriter, written: Revision, stamp: Stamp, chain: Chain) -> LogStage {
        let unsynced = false;
        let soon_since_us = None;
        let closed = false;
        LogStage { writer, written, stamp, chain, unsynced, soon_since_us, closed }
    }

    /// Writes a group's frames, each chained to the one before it by checksum.
    fn write(&mut self, group: &mut Group, synced: Revision) -> Result<()> {
        for (frame, end) in &group.parts {
            let mut chain = self.chain;
            let bytes = chain.seal(&mut group.frames, frame, *end, synced);
            self.writer.write(bytes, frame.first(), frame.last(), chain.crc())?;
            self.written = frame.last();
            self.stamp = frame.stamp();
            self.chain = chain;
            self.unsynced = true;
        }
        Ok(())
    }
}

impl Sequencer {
    /// Called by a submitter: does the log's work unless another thread does it.
    pub(super) fn run_log_stage(&self) {
        if !self.background {
            return self.drain();
        }
        let group = self.log.try_lock().and_then(|mut log| self.log_group(&mut log));
        // Start the next group before this one is answered, so that the disk does not wait for
        // callbacks.
        self.wake_log();
        self.answer_group(group);
    }

    /// Wakes the log thread if it sleeps while work is waiting.
    pub(super) fn wake_log(&self) {
        if self.is_closed() || !self.background {
            // After a close the log thread may have ended, and without a background it never existed:
            // this thread drains the work itself.
            return self.drain();
        }
        // SeqCst on `log_idle`: the log thread sets it and then checks for work; this thread has added
        // work and now reads it. Whichever is later sees the other, so no work is left while the log
        // thread sleeps.
        if !self.log_idle.load(Ordering::SeqCst) || !self.has_work() {
            return;
        }
        // SeqCst as above. Of several submitters only the one that clears the flag pays for the unpark.
        if self.log_idle.swap(false, Ordering::SeqCst)
            && !fault_points::is(InjectedFault::LogNotWoken)
        {
            self.log_thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// Brings everything submitted before through both stages, waiting for threads that are in them. On
    /// return each of these transactions has its answer, or another thread is giving it.
    pub(super) fn drain(&self) {
        self.combine_all();
        let group = self.log_group(&mut self.log.lock());
        self.answer_group(group);
        if !self.background {
            self.sync_late();
        }
    }

    /// Returns whether work waits for the log, executed or queued. Queued work does not count while a
    /// thread holds the executor: that thread rechecks the queue when it leaves, and wakes the log
    /// thread.
    fn has_work(&self) -> bool {
        let looks = !fault_points::is(InjectedFault::GatheredForgotten);
        !self.group.lock().is_empty() || looks && self.has_queued() && !self.exec.is_locked()
    }

    /// The log thread's loop; runs until the database is closed.
    pub fn run_log(self: Arc<Self>) {
        let _ = self.log_thread.set(thread::current());
        let own = self.clone();
        // If a callback on this thread waits for a commit, it would wait for this thread itself. So it
        // drains the work before it sleeps.
        ticket::before_sleep(move || own.drain());
        // Checks four times per interval, so that no write stays unsynced for longer than the interval.
        let pause = (self.sync_interval / 4).max(Duration::from_micros(100));
        loop {
            loop {
                self.execute_some();
                let group = self.log_group(&mut self.log.lock());
                if group.is_none() {
                    break;
                }
                self.answer_group(group);
            }
            self.sync_late();
            // SeqCst, before the check for work: see `wake_log`.
            self.log_idle.store(true, Ordering::SeqCst);
            if self.has_work() {
                // This thread is awake: submitters need not unpark it. SeqCst as the store above.
                self.log_idle.store(false, Ordering::SeqCst);
                self.combine_queued();
                continue;
            }
            if self.is_closed() {
                return;
            }
            thread::park_timeout(pause);
            // SeqCst: one order with the swap in `wake_log`. A second unpark would only return the next
            // park early.
            self.log_idle.store(false, Ordering::SeqCst);
        }
    }

    /// Syncs writes with `Durability::Interval` once three quarters of their interval are over.
    fn sync_late(&self) {
        let mut log = self.log.lock();
        if self.is_due(&log) && self.sync_log(&mut log).is_err() {
            self.set_read_only();
        }
    }

    fn is_due(&self, log: &LogStage) -> bool {
        let limit = u64::try_from(self.sync_interval.as_micros()).unwrap_or(u64::MAX) / 4 * 3;
        log.soon_since_us.is_some_and(|since| self.clock.monotonic_us() - since >= limit)
    }

    fn sync_log(&self, log: &mut LogStage) -> Result<()> {
        // Relaxed: the queue's mutex orders this flag with `enqueue_during_sync`.
        self.syncing.store(true, Ordering::Relaxed);
        let began_us = self.clock.monotonic_us();
        let synced = log.writer.sync();
        self.state.figures.sync_us.add(self.clock.monotonic_us().saturating_sub(began_us), 1);
        self.syncing.store(false, Ordering::Relaxed);
        synced?;
        log.unsynced = false;
        log.soon_since_us = None;
        // Pairs with the Acquire load in `durable`. SeqCst, because `tell_listeners` then reads
        // `listening`.
        self.durable.store(log.written, Ordering::SeqCst);
        self.tell_listeners();
        Ok(())
    }

    /// Writes, syncs and publishes one group. Returns it, so that the caller answers it without a lock.
    fn log_group(&self, log: &mut LogStage) -> Option<Group> {
        let mut group = self.spares.lock().pop().unwrap_or_default();
        {
            let mut forming = self.group.lock();
            group.number = forming.number.wrapping_add(1);
            self.forming.store(group.number, Ordering::Relaxed);
            std::mem::swap(&mut *forming, &mut group);
        }
        if group.is_empty() {
            // Clears `sync` in particular: a transaction that failed may have set it, and the next
            // group must not inherit it.
            group.clear();
            self.spares.lock().push(group);
            return None;
        }
        self.unwritten_bytes.fetch_sub(group.frames.len(), Ordering::Relaxed);
        let written = self.make_durable(log, &mut group);
        match written {
            Ok(()) => {
                // Releases the group's effects to readers: pairs with the Acquire load in `published`.
                // SeqCst, because `tell_listeners` then reads `listening`.
                self.published.store(log.written, Ordering::SeqCst);
                if !fault_points::is(InjectedFault::ListenersNotTold) {
                    self.tell_listeners();
                }
            }
            Err(error) => self.fail(log, &mut group, &error),
        }
        Some(group)
    }

    fn make_durable(&self, log: &mut LogStage, group: &mut Group) -> Result<()> {
        if log.closed {
            return Err(closed());
        }
        self.check_sound()?;
        if group.soon && log.soon_since_us.is_none() {
            // Before the write: if it fails in the middle, the part that was written has to be synced,
            // too.
            log.soon_since_us = Some(self.clock.monotonic_us());
        }
        log.write(group, self.durable())?;
        if !group.frames.is_empty() {
            if self.is_log_full() {
                self.note_log_full(None);
            }
            self.state.figures.group_transactions.add(group.waiting.len() as u64, 1);
            self.state.figures.group_bytes.add(group.frames.len() as u64, 1);
        }
        let wants = log.writer.wants_next();
        if wants != self.wants_segment() {
            self.wants_segment.store(wants, Ordering::Relaxed);
            self.tell_workers();
        }
        if fault_points::is(InjectedFault::PublishBeforeSync) {
            // SeqCst like the store in `log_group`, which this injected fault makes too early.
            self.published.store(log.written, Ordering::SeqCst);
        }
        if fault_points::is(InjectedFault::AnswerBeforeSync) {
            let waiting = std::mem::take(&mut group.waiting);
            self.answer_group(Some(Group { waiting, ..Group::default() }));
        }
        if log.unsynced && (group.sync || self.is_due(log)) {
            self.sync_log(log)?;
        }
        Ok(())
    }

    /// Gives out a group's answers. The caller must hold no lock.
    fn answer_group(&self, group: Option<Group>) {
        let Some(mut group) = group else { return };
        self.leave(group.waiting.len() + group.failed.len());
        let told = group.waiting.drain(..).map(|(completion, told)| (completion, told.answer));
        callbacks::answer(told.chain(group.failed.drain(..)));
        group.clear();
        let mut spares = self.spares.lock();
        if spares.len() < 4 {
            spares.push(group);
        }
    }

    /// Undoes the transactions that could not be written, and everything executed on top of them.
    #[cold]
    fn fail(&self, log: &mut LogStage, group: &mut Group, error: &Error) {
        // After these errors the log holds nothing of the frame that failed. After any other error that
        // is unknown.
        let is_lost = error.code() == Code::LockLost;
        let clean =
            matches!(error.code(), Code::DiskFull | Code::TransactionTooLarge | Code::QueueFull)
                || is_lost
                || fault_points::is(InjectedFault::RevisionReused);
        if error.code() == Code::DiskFull {
            self.note_log_full(Some(error));
        }
        let mut failed = std::mem::take(&mut group.waiting);
        let mut exec = self.exec.lock();
        let mut later = if fault_points::is(InjectedFault::UndoForgetsLater) {
            Group::default()
        } else {
            self.take_forming()
        };
        failed.append(&mut later.waiting);
        // `undo` reads the catalog again. If that fails, the cause is more than a full disk.
        let undone = clean && exec.undo(log.written, log.stamp).is_ok();
        drop(exec);
        let known = undone || error.code() == Code::Closed;
        if is_lost {
            self.refuse_writes(error);
        } else if !known {
            self.set_read_only();
        }
        let written = if undone { log.written } else { 0 };
        let kept = self.keep_written(log, undone, group.sync || later.sync);
        let outcome = |told: Executed| {
            if told.revision <= written {
                kept.clone().map_err(|error| unknown(&error)).and(told.answer)
            } else if known {
                Err(error.clone())
            } else {
                Err(unknown(error))
            }
        };
        let answers = failed.into_iter().map(|(completion, told)| (completion, outcome(told)));
        group.failed.extend(answers);
    }

    /// Takes everything that was executed since the last group.
    fn take_forming(&self) -> Group {
        let mut forming = self.group.lock();
        let taken = std::mem::take(&mut *forming);
        forming.number = taken.number;
        self.unwritten_bytes.fetch_sub(taken.frames.len(), Ordering::Relaxed);
        taken
    }

    /// Publishes the frames of a group that were written before the one that failed.
    fn keep_written(&self, log: &mut LogStage, undone: bool, sync: bool) -> Result<()> {
        if !undone {
            return Ok(());
        }
        if sync && log.unsynced {
            self.sync_log(log).inspect_err(|_| self.set_read_only())?;
        }
        // Pairs with the Acquire load in `published`; SeqCst as in `log_group`. A maximum, because
        // nothing may have been written since the last group was published.
        self.published.fetch_max(log.written, Ordering::SeqCst);
        self.tell_listeners();
        Ok(())
    }

    /// Refuses new work, finishes the transactions in flight and syncs writes that were acknowledged
    /// before their sync. After it returns nothing is written.
    pub fn close(&self) -> Result<()> {
        // Pairs with the Acquire load in `is_closed`. Work that is queued after `combine_all` found the
        // queue empty is not lost: the queue's mutex orders the two, so its submitter sees this flag in
        // `wake_log` and drains.
        self.closed.store(true, Ordering::Release);
        self.combine_all();
        let synced = loop {
            let mut log = self.log.lock();
            if let Some(group) = self.log_group(&mut log) {
                drop(log);
                self.answer_group(Some(group));
                continue;
            }
            let synced =
                fault_points::unless(InjectedFault::NoSyncOfClosed, || self.sync_last(&mut log));
            log.closed = true;
            break synced;
        };
        // SeqCst: one order with `wake_log` and the log thread. The unpark is unconditional, so that
        // the thread ends.
        self.log_idle.store(false, Ordering::SeqCst);
        self.log_thread.get().inspect(|thread| thread.unpark());
        drop(self.room.lock());
        self.room_made.notify_all();
        self.tell_listeners();
        synced
    }

    /// Makes writes with a weaker durability than `Sync` survive a power failure once the database is
    /// closed. Otherwise returns an error that says so.
    fn sync_last(&self, log: &mut LogStage) -> Result<()> {
        if !log.unsynced {
            return Ok(());
        }
        let why = if self.is_read_only() {
            String::new()
        } else {
            match self.sync_log(log).inspect_err(|_| self.set_read_only()) {
                Ok(()) => return Ok(()),
                Err(error) => format!(" ({})", error.message()),
            }
        };
        let message = format!(
            "it is closed, but a sync of the log failed{why}: what was not synced may be gone after a power cut"
        );
        Err(Error::new(Code::SyncFailed, message))
    }
}

fn unknown(error: &Error) -> Error {
    let message = format!("it is not known whether this was written: {}", error.message());
    Error::new(Code::UnknownOutcome, message)
}
