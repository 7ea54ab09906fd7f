//! The first stage: transactions are executed, one round of them at a time.

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

/// The most transactions executed in one round, so that the first are not kept waiting.
const ROUND_LIMIT: usize = if MODELS { 2 } else { 1024 };

/// So many are executed together while the log syncs; a light one does no more than this either.
const GATHER_LIMIT: usize = if MODELS { 2 } else { 8 };

/// Values up to this are written in an instant.
const LIGHT_BYTES: usize = 64 << 10;

/// A submitted transaction; without its completion it has been executed.
pub(super) struct Pending {
    work: QueuedWork,
    completion: Option<Completion>,
}

/// What was submitted and is not executed yet.
#[derive(Default)]
pub(super) struct SubmitQueue {
    waiting: VecDeque<Pending>,
    /// An empty one: its memory is used again.
    spare: VecDeque<Pending>,
}

impl SubmitQueue {
    fn push(&mut self, work: QueuedWork, completion: Completion) {
        self.waiting.push_back(Pending { work, completion: Some(completion) });
    }

    /// Takes what one round may execute, at most so many.
    fn take(&mut self, limit: usize) -> VecDeque<Pending> {
        let mut taken = std::mem::take(&mut self.spare);
        match self.waiting.len() <= limit {
            true => std::mem::swap(&mut self.waiting, &mut taken),
            false => taken.extend(self.waiting.drain(..limit)),
        }
        taken
    }

    /// Puts back what a round did not come to.
    fn put_back(&mut self, mut rest: VecDeque<Pending>) {
        rest.append(&mut self.waiting);
        self.waiting = rest;
    }
}

#[allow(clippy::large_enum_variant, reason = "nearly every work is a transaction")]
pub(super) enum QueuedWork {
    Run(PreparedTransaction),
    /// Nothing but to be durable with all before it.
    Sync,
}

impl QueuedWork {
    /// Whether it is done in an instant, so that it may be left for somebody else to do.
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

/// Whether a command reads or writes one cell or record, and no large value.
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

/// What one turn at the executor gives.
struct ExecutedRound {
    now: Stamp,
    sync: bool,
    soon: bool,
    done: SmallVec<[(Completion, Executed); 1]>,
    /// What was queued and is executed. It is dropped when the executor is free again: its memory
    /// belongs to other threads, and giving that back takes time.
    spent: VecDeque<Pending>,
    failed: Vec<(Completion, Error)>,
}

impl ExecutedRound {
    fn begin(exec: &mut Executor) -> ExecutedRound {
        let now = exec.now();
        let (done, spent, failed) = (SmallVec::new(), VecDeque::new(), Vec::new());
        ExecutedRound { now, sync: false, soon: false, done, spent, failed }
    }

    /// Runs what fits into the round; gives back the rest.
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
    /// Executes work if nobody else is at it, else leaves it to whoever is. Waits while too much is
    /// under way; on a closed database the completion gets the error.
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

    /// Executes a transaction that `make` builds while the executor is held, from the newest executed revision and a stamp:
    /// nothing is executed between its reads and its writes. Others queue meanwhile. `make` must not submit anything, which
    /// would wait for itself.
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

    /// While the log syncs nothing is gained by executing at once: several at a time share a round
    /// and their waits for memory. What is left when the sync ends is seen by the log thread: either
    /// its look at the queue comes behind this work, or this look at the flag behind the sync.
    fn enqueue_during_sync(&self, work: QueuedWork, completion: Completion) {
        let gathered = self.enqueue(work, completion);
        if gathered >= GATHER_LIMIT || !self.syncing.load(Ordering::Relaxed) {
            self.combine_queued();
        }
    }

    /// Queues; gives how much is queued now.
    fn enqueue(&self, work: QueuedWork, completion: Completion) -> usize {
        // It will most likely come into the group that forms now.
        completion.expect_at(wakeup::of_group(self.forming.load(Ordering::Relaxed)));
        let mut queue = self.queue.lock();
        queue.push(work, completion);
        queue.waiting.len()
    }

    /// Executes several transactions one behind the other, in as few rounds as they fit into.
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

    /// Whether work is queued that nobody may be looking at.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Executes what is queued, if nobody else does.
    pub(super) fn combine_queued(&self) {
        while self.has_queued() {
            let Some(exec) = self.exec.try_lock() else { return };
            self.run_round(exec, ROUND_LIMIT);
        }
    }

    /// By the log thread, before it writes: executes what was gathered last, if nobody else does. Only
    /// so much: those in the group wait for the log.
    pub(super) fn execute_some(&self) {
        if self.has_queued()
            && let Some(exec) = self.exec.try_lock()
        {
            self.run_round(exec, GATHER_LIMIT);
        }
    }

    /// Executes what is queued now, behind what somebody else is executing.
    pub(super) fn execute_queued(&self) {
        self.run_round(self.exec.lock(), IN_FLIGHT_LIMIT);
        self.wake_log();
    }

    /// Executes what is queued, and waits for what somebody else is executing.
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

    /// Drops what was executed and keeps the memory of its list.
    fn recycle(&self, mut spent: VecDeque<Pending>) {
        spent.clear();
        if spent.capacity() > 0 && spent.capacity() <= 2 * ROUND_LIMIT {
            self.queue.lock().spare = spent;
        }
    }

    /// Hands a round over to the log and lets the executor go; what failed is answered at once.
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
