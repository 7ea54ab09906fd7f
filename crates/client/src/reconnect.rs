//! Reconnect loop: the keeper thread of a pool connects, resends calls of broken connections, and closes silent ones.
//!
//! ```text
//!   no connection: a call is queued -> connect -> all queued calls are sent, in order -> published
//!   it broke:      reads and idempotent writes are queued again, other calls fail
//! ```
//!
//! A connection is published only after all queued calls were sent on it, so calls of one caller stay in order. Only
//! long requests take a dedicated connection instead.
//!
//! This thread writes the queued calls, and it is also the one that detects silent servers. Therefore a stream must
//! fail a write of which nothing is accepted (`Limits::write`).

use super::call::{PendingCall, RetrySafety};
use super::connection_pool::{PoolShared, SharedConnection};
use super::dedicated::DedicatedConnection;
use super::failure;
use super::oneshot::Oneshot;
use super::socket::Socket;
use mainstay_model::{Code, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// First delay after a failed connection attempt. It doubles with each further failure.
const PAUSE_MS: u64 = 5;
/// Maximum delay between two attempts.
const PAUSE_LIMIT_MS: u64 = 500;

/// Work queue of the keeper thread.
#[derive(Default)]
pub(crate) struct Tasks {
    pub calls: [VecDeque<PendingCall>; SharedConnection::COUNT],
    pub seats: VecDeque<WantedConnection>,
    pub closed: bool,
}

/// A request for a dedicated connection, with its deadline.
pub(crate) struct WantedConnection {
    /// A connection that arrives after the requester has gone is dropped with the slot and returned to the
    /// pool.
    pub slot: Arc<Oneshot<Result<DedicatedConnection>>>,
    pub give_up_us: u64,
}

impl Tasks {
    fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.calls.iter().all(VecDeque::is_empty)
    }
}

/// Runs until the pool is closed.
pub(crate) fn run(inner: &Arc<PoolShared>) {
    let mut failures = 0;
    while inner.wait_for_work(pause(failures)) {
        inner.drop_silent();
        match inner.serve_waiting() {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                inner.give_up(&error);
            }
        }
    }
    inner.fail_all();
}

fn pause(failures: u32) -> Option<Duration> {
    let ms = PAUSE_MS << failures.saturating_sub(1).min(10);
    (failures > 0).then(|| Duration::from_millis(ms.min(PAUSE_LIMIT_MS)))
}

impl PoolShared {
    /// Waits for work. Returns false when the pool is closed.
    fn wait_for_work(&self, pause: Option<Duration>) -> bool {
        let mut tasks = self.tasks.lock();
        match (tasks.is_empty(), pause) {
            _ if tasks.closed => {}
            (false, None) => {}
            (false, Some(pause)) => drop(self.wake.wait_for(&mut tasks, pause)),
            (true, _) => {
                // Set the flag before checking for calls in flight. SeqCst pairs with `wake_keeper`: a
                // sender that pushes its call after this check sees the flag and wakes this thread.
                self.asleep.store(true, Ordering::SeqCst);
                if self.is_busy() {
                    // SeqCst like the store above, so that senders skip the wake-up.
                    self.asleep.store(false, Ordering::SeqCst);
                    self.wake.wait_for(&mut tasks, self.tick());
                } else {
                    self.wake.wait(&mut tasks)
                }
            }
        }
        !tasks.closed
    }

    /// Interval between checks for silent servers.
    fn tick(&self) -> Duration {
        (self.options.timeout / 8).max(Duration::from_millis(1))
    }

    fn is_busy(&self) -> bool {
        self.sockets().iter().any(|socket| socket.is_busy())
    }

    fn drop_silent(&self) {
        let now_us = self.now_us();
        self.sockets().iter().for_each(|socket| socket.hang_up_if_silent(now_us));
    }

    /// Connects and sends the queued calls.
    fn serve_waiting(self: &Arc<PoolShared>) -> Result<()> {
        for lane in SharedConnection::ALL {
            if !self.tasks.lock().calls[lane as usize].is_empty() {
                let socket = match self.on_lane(lane) {
                    Some(socket) => socket,
                    None => self.open()?,
                };
                self.hand_over(lane, socket);
            }
        }
        self.serve_seats()
    }

    fn serve_seats(self: &Arc<PoolShared>) -> Result<()> {
        while let Some(wanted) = self.next_seat() {
            match self.free_seat() {
                Ok(seat) => wanted.slot.put(Ok(seat)),
                // The connection limit applies only to dedicated connections. It must not fail calls that
                // wait for a shared one.
                Err(error) if error.code() == Code::QueueFull => wanted.slot.put(Err(error)),
                Err(error) => {
                    self.tasks.lock().seats.push_front(wanted);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn free_seat(self: &Arc<PoolShared>) -> Result<DedicatedConnection> {
        if let Some(socket) = self.take_idle() {
            return Ok(DedicatedConnection::new(self.clone(), socket));
        }
        self.check_seats()?;
        Ok(DedicatedConnection::new(self.clone(), self.open()?))
    }

    fn next_seat(&self) -> Option<WantedConnection> {
        self.tasks.lock().seats.pop_front()
    }

    /// Moves the queued calls to the connection and publishes it, both under one lock. So no other call
    /// gets between them, and if the connection breaks, all calls come back in order.
    fn hand_over(&self, lane: SharedConnection, socket: Arc<Socket>) {
        let mut tasks = self.tasks.lock();
        if socket.take_over(&mut tasks.calls[lane as usize], self.now_us()) {
            self.publish(lane, socket.clone());
            drop(tasks);
            socket.start_writing();
        }
    }

    /// Fails the calls whose deadline has passed. Fails all of them if a retry cannot help.
    fn give_up(&self, error: &Error) {
        let now_us = self.now_us();
        let in_vain = error.code() != Code::Io;
        let is_over = |give_up_us: u64| in_vain || give_up_us <= now_us;
        let mut tasks = self.tasks.lock();
        let mut failed = Vec::new();
        for calls in &mut tasks.calls {
            let all = std::mem::take(calls).into_iter();
            let (over, left) = all.partition::<VecDeque<_>, _>(|call| is_over(call.give_up_us));
            *calls = left;
            failed.extend(over);
        }
        let wanted = std::mem::take(&mut tasks.seats).into_iter();
        let (over, left) = wanted.partition::<VecDeque<_>, _>(|seat| is_over(seat.give_up_us));
        tasks.seats = left;
        drop(tasks);
        failed.into_iter().for_each(|call| self.fail(call, error));
        over.iter().for_each(|seat| seat.slot.put(Err(error.clone())));
    }

    /// The outcome of an idempotent write that may have reached a server is unknown.
    fn fail(&self, call: PendingCall, error: &Error) {
        let unknown = call.was_sent() && call.nature == RetrySafety::Named;
        let lost = || failure::lost(call.nature, &self.options.address, false);
        let error = if unknown { lost() } else { error.clone() };
        call.fail(error);
    }

    fn fail_all(&self) {
        let ended = Tasks { closed: true, ..Tasks::default() };
        let tasks = std::mem::replace(&mut *self.tasks.lock(), ended);
        let error = failure::closed();
        tasks.calls.into_iter().flatten().for_each(|call| self.fail(call, &error));
        tasks.seats.iter().for_each(|seat| seat.slot.put(Err(error.clone())));
    }
}
