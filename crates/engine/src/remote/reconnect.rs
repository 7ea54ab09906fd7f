//! The keeper: one thread per link that connects, sends again what a broken connection left, and
//! gives up on servers that are silent.
//!
//! ```text
//!   no connection: a call waits here -> connect -> all that wait is sent, in order -> published
//!   it broke:      reads and named writes come back here, the others are told
//! ```
//!
//! A connection is published only when nothing waits for it any more: who submits one after the other
//! is served in this order. Only what takes a while goes its own way, on a seat.
//!
//! What waited is written by this thread, who is also the one that notices silence: so a stream fails a write
//! of which nothing is taken (`Limits::write`).

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

/// How long it waits after a connection failed, the first time; then twice as long, and so on.
const PAUSE_MS: u64 = 5;
/// The longest it waits between two tries.
const PAUSE_LIMIT_MS: u64 = 500;

/// What waits for a connection.
#[derive(Default)]
pub(crate) struct Tasks {
    pub calls: [VecDeque<PendingCall>; SharedConnection::COUNT],
    pub seats: VecDeque<WantedConnection>,
    pub closed: bool,
}

/// Somebody who wants a connection of his own, until when.
pub(crate) struct WantedConnection {
    /// A seat that nobody takes is dropped with this, which gives its connection back.
    pub slot: Arc<Oneshot<Result<DedicatedConnection>>>,
    pub give_up_us: u64,
}

impl Tasks {
    fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.calls.iter().all(VecDeque::is_empty)
    }
}

/// Works until the link is closed.
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
    /// Waits until there is something to do; false when the link is closed.
    fn wait_for_work(&self, pause: Option<Duration>) -> bool {
        let mut tasks = self.tasks.lock();
        match (tasks.is_empty(), pause) {
            _ if tasks.closed => {}
            (false, None) => {}
            (false, Some(pause)) => drop(self.wake.wait_for(&mut tasks, pause)),
            (true, _) => {
                // Said before it is looked: who sends now sees it, or is seen.
                self.asleep.store(true, Ordering::SeqCst);
                match self.is_busy() {
                    false => self.wake.wait(&mut tasks),
                    true => {
                        self.asleep.store(false, Ordering::SeqCst);
                        self.wake.wait_for(&mut tasks, self.tick());
                    }
                }
            }
        }
        !tasks.closed
    }

    /// How often it is looked whether servers are silent.
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

    /// Connects for all who wait, and hands over.
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
                // The limit is for seats: it is nothing to those who wait for a shared connection.
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

    /// Gives the connection what waits, and to everybody: under one lock, so that nothing comes
    /// between and, if it breaks, everything comes back in its order.
    fn hand_over(&self, lane: SharedConnection, socket: Arc<Socket>) {
        let mut tasks = self.tasks.lock();
        if socket.take_over(&mut tasks.calls[lane as usize], self.now_us()) {
            self.publish(lane, socket.clone());
            drop(tasks);
            socket.start_writing();
        }
    }

    /// Tells those whose time is over; all of them, if trying again is in vain.
    fn give_up(&self, error: &Error) {
        let (now_us, in_vain) = (self.now_us(), error.code() != Code::Io);
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

    /// Of a write that may have reached a server before, nobody knows the outcome.
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
