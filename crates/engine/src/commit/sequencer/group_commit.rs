//! The second stage: groups are written, synced, published and answered.

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

/// A frame takes further rounds until it has this size; a round ends when it alone has it.
pub(super) const FRAME_BYTES: usize = 16 << 20;

/// Executed transactions that wait for the log together.
#[derive(Default)]
pub(super) struct Group {
    frames: Vec<u8>,
    /// The frames in it, and where each one's payload ends: nearly always one.
    parts: Vec<(FrameBuffer, usize)>,
    pub sync: bool,
    /// Whether something in it has to be synced before long.
    pub soon: bool,
    pub waiting: Vec<(Completion, Executed)>,
    /// Groups are numbered, so that each has its bell.
    number: u32,
    /// Answers of what could not be written.
    failed: Vec<(Completion, Result<Receipt>)>,
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.frames.is_empty()
    }

    /// Takes a transaction that was executed.
    pub fn add(&mut self, (completion, told): (Completion, Executed)) {
        completion.expect_at(wakeup::of_group(self.number));
        self.waiting.push((completion, told));
    }

    /// Takes a round's transactions; gives how many bytes they add.
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
        (self.sync, self.soon) = (false, false);
    }
}

/// The log's writer and what it has written.
pub(super) struct LogStage {
    writer: LogWriter,
    written: Revision,
    stamp: Stamp,
    chain: Chain,
    unsynced: bool,
    /// When the oldest write was made that has to be synced before long.
    soon_since_us: Option<u64>,
    /// Nothing is written any more.
    closed: bool,
}

impl LogStage {
    pub fn new(writer: LogWriter, written: Revision, stamp: Stamp, chain: Chain) -> LogStage {
        let (unsynced, soon_since_us, closed) = (false, None, false);
        LogStage { writer, written, stamp, chain, unsynced, soon_since_us, closed }
    }

    /// Writes a group's frames.
    fn write(&mut self, group: &mut Group, synced: Revision) -> Result<()> {
        for (frame, end) in &group.parts {
            let mut chain = self.chain;
            let bytes = chain.seal(&mut group.frames, frame, *end, synced);
            self.writer.write(bytes, frame.first(), frame.last(), chain.crc())?;
            (self.written, self.stamp, self.chain) = (frame.last(), frame.stamp(), chain);
            self.unsynced = true;
        }
        Ok(())
    }
}

impl Sequencer {
    /// By a caller: does the log's work if nobody else does.
    pub(super) fn run_log_stage(&self) {
        if !self.background {
            return self.drain();
        }
        let group = self.log.try_lock().and_then(|mut log| self.log_group(&mut log));
        // The next group first, then the answers of this one: the disk should not wait.
        self.wake_log();
        self.answer_group(group);
    }

    /// Wakes the log thread if it rests while there is work.
    pub(super) fn wake_log(&self) {
        if self.is_closed() || !self.background {
            // The log thread may have ended: what came too late is answered here. Or there never was one.
            return self.drain();
        }
        if !self.log_idle.load(Ordering::SeqCst) || !self.has_work() {
            return;
        }
        if self.log_idle.swap(false, Ordering::SeqCst)
            && !fault_points::is(InjectedFault::LogNotWoken)
        {
            self.log_thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// Brings everything that was submitted before through both stages, waiting for whoever is at them.
    /// Then its answers are given, or somebody is giving them.
    pub(super) fn drain(&self) {
        self.combine_all();
        let group = self.log_group(&mut self.log.lock());
        self.answer_group(group);
        if !self.background {
            self.sync_late();
        }
    }

    /// Whether something waits for the log, executed or not. What is queued while somebody
    /// executes is that one's to do, and to tell.
    fn has_work(&self) -> bool {
        let looks = !fault_points::is(InjectedFault::GatheredForgotten);
        !self.group.lock().is_empty() || looks && self.has_queued() && !self.exec.is_locked()
    }

    /// By the log thread: until the database is closed.
    pub fn run_log(self: Arc<Self>) {
        let _ = self.log_thread.set(thread::current());
        let own = self.clone();
        // A callback on this thread that waits would wait for itself.
        ticket::before_sleep(move || own.drain());
        // Looked at four times an interval, so that nothing stays unsynced for longer than one.
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
            self.log_idle.store(true, Ordering::SeqCst);
            if self.has_work() {
                self.log_idle.store(false, Ordering::SeqCst);
                self.combine_queued();
                continue;
            }
            if self.is_closed() {
                return;
            }
            thread::park_timeout(pause);
            self.log_idle.store(false, Ordering::SeqCst);
        }
    }

    /// Syncs what was published unsynced, when its interval is nearly over.
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
        self.syncing.store(true, Ordering::Relaxed);
        let began_us = self.clock.monotonic_us();
        let synced = log.writer.sync();
        self.state.figures.sync_us.add(self.clock.monotonic_us().saturating_sub(began_us), 1);
        self.syncing.store(false, Ordering::Relaxed);
        synced?;
        log.unsynced = false;
        log.soon_since_us = None;
        self.durable.store(log.written, Ordering::SeqCst);
        self.tell_listeners();
        Ok(())
    }

    /// Writes, syncs and publishes one group; gives it back to be answered.
    fn log_group(&self, log: &mut LogStage) -> Option<Group> {
        let mut group = self.spares.lock().pop().unwrap_or_default();
        {
            let mut forming = self.group.lock();
            group.number = forming.number.wrapping_add(1);
            self.forming.store(group.number, Ordering::Relaxed);
            std::mem::swap(&mut *forming, &mut group);
        }
        if group.is_empty() {
            // A transaction that failed may have asked for a sync: the next group need not.
            group.clear();
            self.spares.lock().push(group);
            return None;
        }
        self.unwritten_bytes.fetch_sub(group.frames.len(), Ordering::Relaxed);
        let written = self.make_durable(log, &mut group);
        match written {
            Ok(()) => {
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
            // Before writing: if that fails in the middle, what is written has to be synced, too.
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

    /// Gives out a group's answers, with no lock held.
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

    /// Takes back what could not be written, with everything executed on top of it.
    #[cold]
    fn fail(&self, log: &mut LogStage, group: &mut Group, error: &Error) {
        // Nothing of it is in the log after these; after others nobody knows.
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
        let mut later = match fault_points::is(InjectedFault::UndoForgetsLater) {
            true => Group::default(),
            false => self.take_forming(),
        };
        failed.append(&mut later.waiting);
        // Undoing reads the catalog again; if that fails, the disk is not merely full.
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
        let outcome = |told: Executed| match told.revision <= written {
            true => kept.clone().map_err(|error| unknown(&error)).and(told.answer),
            false if known => Err(error.clone()),
            false => Err(unknown(error)),
        };
        let answers = failed.into_iter().map(|(completion, told)| (completion, outcome(told)));
        group.failed.extend(answers);
    }

    /// Takes what was executed since the last group.
    fn take_forming(&self) -> Group {
        let mut forming = self.group.lock();
        let taken = std::mem::take(&mut *forming);
        forming.number = taken.number;
        self.unwritten_bytes.fetch_sub(taken.frames.len(), Ordering::Relaxed);
        taken
    }

    /// Publishes pieces of a group that were written before the one that failed.
    fn keep_written(&self, log: &mut LogStage, undone: bool, sync: bool) -> Result<()> {
        if !undone {
            return Ok(());
        }
        if sync && log.unsynced {
            self.sync_log(log).inspect_err(|_| self.set_read_only())?;
        }
        self.published.fetch_max(log.written, Ordering::SeqCst);
        self.tell_listeners();
        Ok(())
    }

    /// Refuses new work, finishes what is under way and syncs what nobody has asked a sync for. Nothing is written when it
    /// returns.
    pub fn close(&self) -> Result<()> {
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
        self.log_idle.store(false, Ordering::SeqCst);
        self.log_thread.get().inspect(|thread| thread.unpark());
        drop(self.room.lock());
        self.room_made.notify_all();
        self.tell_listeners();
        synced
    }

    /// What was acknowledged without a promise is there after a power cut once the database was closed, or the error says so.
    fn sync_last(&self, log: &mut LogStage) -> Result<()> {
        if !log.unsynced {
            return Ok(());
        }
        let why = match self.is_read_only() {
            true => String::new(),
            false => match self.sync_log(log).inspect_err(|_| self.set_read_only()) {
                Ok(()) => return Ok(()),
                Err(error) => format!(" ({})", error.message()),
            },
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
