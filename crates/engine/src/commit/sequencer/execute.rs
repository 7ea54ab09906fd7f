//! The first stage of the commit pipeline: executes queued transactions, one round at a time.

use super::group_commit::FRAME_BYTES;
use super::session_reads::is_session_read;
use super::{IN_FLIGHT_LIMIT, MODELS, Sequencer, callbacks};
use crate::base::fault_points::{self, InjectedFault};
use crate::base::sync::MutexGuard;
use crate::base::sync::atomic::Ordering;
use crate::commit::executor::{Executed, Executor};
use crate::commit::prepared::PreparedTransaction;
use crate::commit::ticket::{Completion, Waiter};
use crate::commit::wakeup;
use crate::storage::version_cache::TOUCH_LIMIT;
use mainstay_model::{
    CellCommand, Command, Durability, Error, Field, FieldValue, HashCommand, Receipt,
    RecordCommand, Result, Revision, SmallVec, Stamp, StringCommand, Transaction, Value,
};
use std::collections::VecDeque;

/// The most transactions executed in one round, so that the first ones of a round do not wait long.
const ROUND_LIMIT: usize = if MODELS { 2 } else { 1024 };

/// While the log syncs, light transactions are queued until this many can share a round. A light
/// transaction has at most this many steps and guards.
const GATHER_LIMIT: usize = if MODELS { 2 } else { 8 };

/// The largest value that counts as light: writing it takes a negligible time.
const LIGHT_BYTES: usize = 64 << 10;

/// A submitted transaction. The completion is `None` once it has been executed.
pub(super) struct Pending {
    work: QueuedWork,
    completion: Option<Completion>,
}

/// Transactions that were submitted and are not executed yet.
#[derive(Default)]
pub(super) struct SubmitQueue {
    waiting: VecDeque<Pending>,
    /// An empty queue whose memory is reused.
    spare: VecDeque<Pending>,
}

impl SubmitQueue {
    fn push(&mut self, work: QueuedWork, completion: Completion) {
        self.waiting.push_back(Pending { work, completion: Some(completion) });
    }

    /// Takes up to `limit` transactions for one round.
    fn take(&mut self, limit: usize) -> VecDeque<Pending> {
        let mut taken = std::mem::take(&mut self.spare);
        if self.waiting.len() <= limit {
            std::mem::swap(&mut self.waiting, &mut taken)
        } else {
            taken.extend(self.waiting.drain(..limit))
        }
        taken
    }

    /// Puts back the transactions that a round did not reach, in front of the newer ones.
    fn put_back(&mut self, mut rest: VecDeque<Pending>) {
        rest.append(&mut self.waiting);
        self.waiting = rest;
    }
}

#[allow(clippy::large_enum_variant, reason = "nearly every work is a transaction")]
pub(super) enum QueuedWork {
    Run(PreparedTransaction),
    /// No effects: completes when everything queued before it is durable.
    Sync,
}

impl QueuedWork {
    /// Returns whether it executes in a negligible time, so that it may be left to another thread.
    fn is_light(&self) -> bool {
        self.transaction().is_some_and(|transaction| {
            let Transaction { steps, guards, otherwise, .. } = transaction;
            let few = steps.len() + guards.len() <= GATHER_LIMIT && otherwise.is_none();
            few && steps.iter().all(|step| is_light(&step.command))
        })
    }

    fn transaction(&self) -> Option<&Transaction> {
        match self {
            QueuedWork::Run(submitted) => Some(&submitted.transaction),
            QueuedWork::Sync => None,
        }
    }
}

/// Returns whether a command reads or writes one cell or record, and no large value.
fn is_light(command: &Command) -> bool {
    match command {
        Command::Cell(
            CellCommand::Init { value, .. }
            | CellCommand::Set { value, .. }
            | CellCommand::Cas { value, .. },
        ) => is_small(value),
        Command::Cell(command) => command.name().is_some(),
        Command::String(
            StringCommand::Set { value, .. }
            | StringCommand::Put { value, .. }
            | StringCommand::Swap { value, .. },
        ) => is_small(value),
        Command::String(command) => command.name().is_some(),
        Command::Record(RecordCommand::Write(write)) => {
            let bytes = |(_, value): &(Field, FieldValue)| match value {
                FieldValue::Bytes(bytes) => bytes.len(),
                _ => 0,
            };
            write.set.iter().map(bytes).sum::<usize>() <= LIGHT_BYTES
        }
        Command::Record(command) => command.key().is_some(),
        Command::Hash(HashCommand::Set { pairs, .. }) => {
            pairs.iter().map(|(_, value)| value.len()).sum::<usize>() <= LIGHT_BYTES
        }
        Command::Hash(_) => true,
        _ => false,
    }
}

fn is_small(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= LIGHT_BYTES,
        Value::Bytes(bytes) => bytes.len() <= LIGHT_BYTES,
        Value::Array(_) | Value::Object(_) => false,
        _ => true,
    }
}

/// The outcome of one round: one turn at the executor.
struct ExecutedRound {
    now: Stamp,
    sync: bool,
    soon: bool,
    done: SmallVec<[(Completion, Executed); 1]>,
    /// Work that was queued and has been executed. It is dropped after the executor is released,
    /// because its memory was allocated by other threads, and freeing such memory takes time.
    spent: VecDeque<Pending>,
    failed: Vec<(Completion, Error)>,
}

impl ExecutedRound {
    fn begin(exec: &mut Executor) -> ExecutedRound {
        let now = exec.now();
        let done = SmallVec::new();
        let spent = VecDeque::new();
        let failed = Vec::new();
        ExecutedRound { now, sync: false, soon: false, done, spent, failed }
    }

    /// Runs the transactions that fit into the round and returns the rest.
    fn run_all(
        &mut self,
        sequencer: &Sequencer,
        exec: &mut Executor,
        mut batch: VecDeque<Pending>,
    ) -> VecDeque<Pending> {
        self.done.reserve(batch.len());
        let mut ran = 0;
        for place in 0..batch.len() {
            if place % TOUCH_LIMIT == 0 {
                let next = batch.range(place..).take(TOUCH_LIMIT);
                exec.prefetch(next.filter_map(|pending| pending.work.transaction()));
            }
            let Pending { work, completion } = &mut batch[place];
            if exec.round_bytes() >= FRAME_BYTES {
                break;
            }
            if let Some(completion) = completion.take() {
                self.run(sequencer, exec, work, completion);
            }
            ran += 1;
        }
        let rest = batch.split_off(ran);
        self.spent = batch;
        rest
    }

    fn run(
        &mut self,
        sequencer: &Sequencer,
        exec: &mut Executor,
        work: &QueuedWork,
        completion: Completion,
    ) {
        let result = match work {
            QueuedWork::Run(submitted) => {
                let durability = submitted.transaction.durability.unwrap_or(sequencer.durability);
                self.sync |= durability == Durability::Sync;
                self.soon |= durability == Durability::Interval;
                exec.run(submitted, self.now)
            }
            QueuedWork::Sync => {
                self.sync = true;
                Ok(Executed::from(Receipt {
                    revision: exec.executed(),
                    stamp: self.now,
                    held: true,
                    repeated: false,
                    answers: SmallVec::new(),
                }))
            }
        };
        match result {
            Ok(told) => self.done.push((completion, told)),
            Err(error) => self.failed.push((completion, error)),
        }
    }
}

impl Sequencer {
    /// Executes the work if the executor is free, else queues it for the thread that holds the
    /// executor. Blocks while too many transactions are in flight (back-pressure). If the database is
    /// closed or read-only, the completion gets the error.
    pub(super) fn enter(&self, work: QueuedWork, completion: Completion) {
        if let Err(error) = self.check_open() {
            let told = match work.transaction() {
                Some(transaction) => self.read_sessions(transaction, error),
                None => Err(error),
            };
            return callbacks::answer([(completion, told)].into_iter());
        }
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if matches!(work, QueuedWork::Sync) && !fault_points::is(InjectedFault::SyncWaitsForRoom) {
            return self.queue.lock().push(work, completion);
        }
        if (in_flight >= IN_FLIGHT_LIMIT || self.is_full())
            && !work.transaction().is_some_and(is_session_read)
            && let Err(error) = self.wait_for_room(0)
        {
            self.leave(1);
            return callbacks::answer([(completion, Err(error))].into_iter());
        }
        // Relaxed: only a hint here; `enqueue_during_sync` reads the flag again after it has queued the
        // work.
        if self.syncing.load(Ordering::Relaxed) && work.is_light() {
            return self.enqueue_during_sync(work, completion);
        }
        let Some(mut exec) = self.exec.try_lock() else {
            self.enqueue(work, completion);
            return self.combine_queued();
        };
        let mut round = ExecutedRound::begin(&mut exec);
        if !self.has_queued() {
            round.run(self, &mut exec, &work, completion);
        } else {
            self.queue.lock().push(work, completion);
            self.run_queued(&mut round, &mut exec, ROUND_LIMIT);
        }
        self.end(round, exec);
        self.combine_queued();
    }

    /// Executes a transaction that `make` builds from the newest executed revision and a stamp while
    /// the executor is held, so that nothing is executed between its reads and its writes. Other
    /// transactions queue meanwhile. `make` must not submit anything, because that would wait for
    /// itself.
    pub fn execute_alone(
        &self,
        make: impl FnOnce(Revision, Stamp) -> Result<Transaction>,
    ) -> Result<Receipt> {
        self.check_open()?;
        self.wait_for_room(1)?;
        Waiter::with_seat(|waiter| {
            let mut exec = self.exec.lock();
            let mut round = ExecutedRound::begin(&mut exec);
            let stamp = round.now.max(exec.stamper.last() + 1);
            let work = match make(exec.executed(), stamp) {
                Ok(transaction) => QueuedWork::Run(PreparedTransaction::from(transaction)),
                Err(error) => {
                    drop(exec);
                    self.leave(1);
                    self.recheck_queue();
                    return Err(error);
                }
            };
            round.run(self, &mut exec, &work, Completion::Waiter(waiter.clone()));
            self.end(round, exec);
            self.combine_queued();
            self.run_log_stage_unless(waiter);
            waiter.wait()
        })
    }

    /// Queues work while the log syncs. Executing it at once would gain nothing, because its group
    /// waits for the sync anyway. Several transactions share a round, and their cache misses overlap.
    ///
    /// No work is left behind when the sync ends: either the log thread checks the queue after this
    /// push, or this thread reads `syncing` after the sync has cleared it. The queue's mutex orders the
    /// two, so `Relaxed` is enough.
    fn enqueue_during_sync(&self, work: QueuedWork, completion: Completion) {
        let gathered = self.enqueue(work, completion);
        if gathered >= GATHER_LIMIT || !self.syncing.load(Ordering::Relaxed) {
            self.combine_queued();
        }
    }

    /// Queues the work and returns the length of the queue.
    fn enqueue(&self, work: QueuedWork, completion: Completion) -> usize {
        // The work will most likely be in the group that forms now. Only a hint: `Group::add` sets the
        // final number.
        completion.expect_at(wakeup::of_group(self.forming.load(Ordering::Relaxed)));
        let mut queue = self.queue.lock();
        queue.push(work, completion);
        queue.waiting.len()
    }

    /// Executes several transactions one after the other, in as few rounds as possible.
    pub(super) fn enter_all(&self, chunk: Vec<(PreparedTransaction, Completion)>) {
        let entered = self.check_open().and_then(|()| self.wait_for_room(chunk.len()));
        if let Err(error) = entered {
            let refused = |(submitted, completion): (PreparedTransaction, Completion)| {
                (completion, self.read_sessions(&submitted.transaction, error.clone()))
            };
            return callbacks::answer(chunk.into_iter().map(refused));
        }
        {
            let mut queue = self.queue.lock();
            chunk
                .into_iter()
                .for_each(|(run, completion)| queue.push(QueuedWork::Run(run), completion));
        }
        self.combine_queued();
    }

    /// Returns whether the queue holds work, which no thread may be about to execute.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Executes the queue, unless another thread holds the executor.
    pub(super) fn combine_queued(&self) {
        while self.has_queued() {
            let Some(exec) = self.exec.try_lock() else { return };
            self.run_round(exec, ROUND_LIMIT);
        }
    }

    /// Called by the log thread before it writes: executes the work queued last, unless another thread
    /// holds the executor. At most `GATHER_LIMIT` transactions, because those already in the group wait
    /// for the log.
    pub(super) fn execute_some(&self) {
        if self.has_queued()
            && let Some(exec) = self.exec.try_lock()
        {
            self.run_round(exec, GATHER_LIMIT);
        }
    }

    /// Executes the queue as it is now, after waiting for the thread that holds the executor.
    pub(super) fn execute_queued(&self) {
        self.run_round(self.exec.lock(), IN_FLIGHT_LIMIT);
        self.wake_log();
    }

    /// Executes the queue until it is empty, waiting for any thread that holds the executor.
    pub(super) fn combine_all(&self) {
        self.run_round(self.exec.lock(), ROUND_LIMIT);
        while self.has_queued() {
            self.run_round(self.exec.lock(), ROUND_LIMIT);
        }
    }

    fn run_round(&self, mut exec: MutexGuard<'_, Executor>, limit: usize) {
        let mut round = ExecutedRound::begin(&mut exec);
        self.run_queued(&mut round, &mut exec, limit);
        self.end(round, exec);
    }

    fn run_queued(&self, round: &mut ExecutedRound, exec: &mut Executor, limit: usize) {
        let batch = self.queue.lock().take(limit);
        let rest = round.run_all(self, exec, batch);
        if !rest.is_empty() {
            self.queue.lock().put_back(rest);
        }
    }

    /// Drops the executed work and keeps the queue's memory for reuse.
    fn recycle(&self, mut spent: VecDeque<Pending>) {
        spent.clear();
        if spent.capacity() > 0 && spent.capacity() <= 2 * ROUND_LIMIT {
            self.queue.lock().spare = spent;
        }
    }

    /// Moves a round into the forming group and releases the executor. Transactions that failed are
    /// answered at once.
    fn end(&self, round: ExecutedRound, mut exec: MutexGuard<'_, Executor>) {
        let ExecutedRound { sync, soon, mut done, spent, failed, .. } = round;
        exec.seen = self.published();
        let ((), sealed) = exec.end_round(|round| {
            let mut group = self.group.lock();
            if let Some(round) = &round {
                let grown = group.add_round(round);
                self.unwritten_bytes.fetch_add(grown, Ordering::Relaxed);
            }
            group.sync |= sync;
            group.soon |= soon;
            done.drain(..).for_each(|done| group.add(done));
        });
        drop(exec);
        self.recycle(spent);
        if !failed.is_empty() {
            if !fault_points::is(InjectedFault::RefusedStayCounted) {
                self.leave(failed.len());
            }
            callbacks::answer(
                failed.into_iter().map(|(completion, error)| (completion, Err(error))),
            );
        }
        if sealed {
            self.tell_workers();
        }
    }
}
