//! The first stage: transactions are executed, one round of them at a time.

use super::{IN_FLIGHT_LIMIT, Sequencer, calls};
use crate::bell;
use crate::candidates::Submitted;
use crate::executor::Executor;
use crate::ticket::Completion;
use mainstay_model::{Durability, Error, Receipt, SmallVec, Stamp};
use parking_lot::MutexGuard;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// The most transactions executed in one round, so that the first are not kept waiting.
const ROUND_LIMIT: usize = 1024;
/// A round ends when its frames are this large.
const ROUND_LIMIT_BYTES: usize = 32 << 20;

/// A submitted transaction.
pub(super) struct Pending {
    work: Work,
    completion: Completion,
}

#[allow(clippy::large_enum_variant, reason = "nearly every work is a transaction")]
pub(super) enum Work {
    Run(Submitted),
    /// Nothing but to be durable with all before it.
    Sync,
}

/// What one turn at the executor gives.
struct ExecutedRound {
    now: Stamp,
    sync: bool,
    soon: bool,
    done: SmallVec<[(Completion, Receipt); 1]>,
    failed: Vec<(Completion, Error)>,
}

impl ExecutedRound {
    fn begin(exec: &mut Executor) -> ExecutedRound {
        let now = exec.now();
        ExecutedRound { now, sync: false, soon: false, done: SmallVec::new(), failed: Vec::new() }
    }

    /// Runs what fits into the round; gives back the rest.
    fn run_all(
        &mut self,
        sequencer: &Sequencer,
        exec: &mut Executor,
        mut batch: VecDeque<Pending>,
    ) -> VecDeque<Pending> {
        while exec.round_bytes() < ROUND_LIMIT_BYTES {
            let Some(Pending { work, completion }) = batch.pop_front() else { break };
            self.run(sequencer, exec, &work, completion);
        }
        batch
    }

    fn run(
        &mut self,
        sequencer: &Sequencer,
        exec: &mut Executor,
        work: &Work,
        completion: Completion,
    ) {
        let result = match work {
            Work::Run(submitted) => {
                let durability = submitted.transaction.durability.unwrap_or(sequencer.durability);
                self.sync |= durability == Durability::Sync;
                self.soon |= durability == Durability::Interval;
                exec.run(submitted, self.now)
            }
            Work::Sync => {
                self.sync = true;
                Ok(Receipt {
                    revision: exec.executed(),
                    stamp: self.now,
                    held: true,
                    repeated: false,
                    answers: SmallVec::new(),
                })
            }
        };
        match result {
            Ok(receipt) => self.done.push((completion, receipt)),
            Err(error) => self.failed.push((completion, error)),
        }
    }
}

impl Sequencer {
    /// Executes work if nobody else is at it, else leaves it to whoever is. Waits while too much is
    /// under way; on a closed database the completion gets the error.
    pub(super) fn enter(&self, work: Work, completion: Completion) {
        if let Err(error) = self.check_open() {
            return calls::answer([(completion, Err(error))].into_iter());
        }
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if matches!(work, Work::Sync) {
            return self.queue.lock().push_back(Pending { work, completion });
        }
        if (in_flight >= IN_FLIGHT_LIMIT || self.is_full())
            && let Err(error) = self.wait_for_room(0)
        {
            self.leave(1);
            return calls::answer([(completion, Err(error))].into_iter());
        }
        let Some(mut exec) = self.exec.try_lock() else {
            // Whoever executes will most likely put it into the group that forms now.
            completion.expect_at(bell::of_group(self.forming.load(Ordering::Relaxed)));
            self.queue.lock().push_back(Pending { work, completion });
            return self.combine();
        };
        let mut round = ExecutedRound::begin(&mut exec);
        if self.queue.lock().is_empty() {
            round.run(self, &mut exec, &work, completion);
        } else {
            self.queue.lock().push_back(Pending { work, completion });
            self.run_queued(&mut round, &mut exec);
        }
        self.end(round, exec);
        self.combine();
    }

    /// Executes several transactions one behind the other, in as few rounds as they fit into.
    pub(super) fn enter_all(&self, chunk: Vec<(Submitted, Completion)>) {
        let entered = self.check_open().and_then(|()| self.wait_for_room(chunk.len()));
        if let Err(error) = entered {
            let refused = |(_, completion): (_, Completion)| (completion, Err(error.clone()));
            return calls::answer(chunk.into_iter().map(refused));
        }
        let pending =
            chunk.into_iter().map(|(run, completion)| Pending { work: Work::Run(run), completion });
        self.queue.lock().extend(pending);
        self.combine();
    }

    /// Whether work is queued that nobody may be looking at.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.lock().is_empty()
    }

    /// Executes what is queued, if nobody else does.
    pub(super) fn combine(&self) {
        while self.has_queued() {
            let Some(exec) = self.exec.try_lock() else { return };
            self.run_round(exec);
        }
    }

    /// Executes what is queued, and waits for what somebody else is executing.
    pub(super) fn combine_all(&self) {
        self.run_round(self.exec.lock());
        while self.has_queued() {
            self.run_round(self.exec.lock());
        }
    }

    fn run_round(&self, mut exec: MutexGuard<'_, Executor>) {
        let mut round = ExecutedRound::begin(&mut exec);
        self.run_queued(&mut round, &mut exec);
        self.end(round, exec);
    }

    fn run_queued(&self, round: &mut ExecutedRound, exec: &mut Executor) {
        let batch = {
            let mut queue = self.queue.lock();
            match queue.len() <= ROUND_LIMIT {
                true => std::mem::take(&mut *queue),
                false => queue.drain(..ROUND_LIMIT).collect(),
            }
        };
        let mut rest = round.run_all(self, exec, batch);
        if !rest.is_empty() {
            let mut queue = self.queue.lock();
            rest.append(&mut queue);
            *queue = rest;
        }
    }

    /// Hands a round over to the log and lets the executor go; what failed is answered at once.
    fn end(&self, round: ExecutedRound, mut exec: MutexGuard<'_, Executor>) {
        let ExecutedRound { sync, soon, mut done, failed, .. } = round;
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
        if !failed.is_empty() {
            self.leave(failed.len());
            calls::answer(failed.into_iter().map(|(completion, error)| (completion, Err(error))));
        }
        if sealed {
            self.tell_workers();
        }
    }
}
