//! Closed-loop load generator: threads that send commands until the time or the count is used up.

use super::Kind;
use crate::failure::{Failure, Result};
use crate::progress::Bar;
use crate::store::Store;
use mainstay::{Clock, Progress, SystemClock};
use mainstay_server::histogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// The interval between updates of the progress bar.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// The commands to send, and their parameters.
pub struct Load {
    pub kind: Kind,
    pub pipeline: u64,
    pub keys: u64,
    pub value: Vec<u8>,
    pub end: End,
}

/// The end of a load.
#[derive(Clone, Copy)]
pub enum End {
    /// After this time.
    Seconds(u64),
    /// After this many commands in total.
    Requests(u64),
}

/// The result of a load.
pub struct Measurement {
    pub requests: u64,
    pub elapsed_us: u64,
    /// In microseconds.
    pub latencies: Histogram,
}

/// The state shared by all threads of a load.
struct LoadRun<'a> {
    load: &'a Load,
    clock: SystemClock,
    latencies: Histogram,
    /// The number of commands that threads have taken for sending.
    issued: AtomicU64,
    answered: AtomicU64,
    active: AtomicUsize,
    /// The time of the last answer, in microseconds.
    ended_us: AtomicU64,
    /// The thread that draws the progress bar, unparked by the last worker.
    drawer: Thread,
    /// Set when a thread fails, so that the others stop.
    failed: AtomicBool,
}

impl Load {
    /// Runs the load on all stores in parallel, one thread each.
    pub fn measure(&self, stores: &mut [Store], bar: &Bar) -> Result<Measurement> {
        let run = LoadRun {
            load: self,
            clock: SystemClock::new(),
            latencies: Histogram::new(),
            issued: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            active: AtomicUsize::new(stores.len()),
            ended_us: AtomicU64::new(0),
            drawer: std::thread::current(),
            failed: AtomicBool::new(false),
        };
        let ended: Result<Vec<()>> = std::thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (1..)
                .zip(stores)
                .map(|(seed, store)| scope.spawn(move || run.work(seed, store)))
                .collect();
            run.draw(bar);
            let panicked = |_| Err(Failure::error("a thread of the bench panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        ended?;
        let requests = run.answered.into_inner();
        let elapsed_us = run.ended_us.into_inner();
        Ok(Measurement { requests, elapsed_us, latencies: run.latencies })
    }

    /// The name of a cell.
    pub fn key(&self, number: u64) -> Vec<u8> {
        // Counters have names of their own, because `INCR` fails on a cell with other text.
        match self.kind {
            Kind::Incr => format!("bench:counter:{number}").into_bytes(),
            Kind::Set | Kind::Get => format!("bench:{number}").into_bytes(),
        }
    }

    fn command(&self, number: u64) -> Vec<Vec<u8>> {
        let mut words = vec![self.kind.name().into(), self.key(number)];
        if self.kind == Kind::Set {
            words.push(self.value.clone());
        }
        words
    }
}

impl LoadRun<'_> {
    fn work(&self, seed: u64, store: &mut Store) -> Result<()> {
        let sent = self.send_all(seed, store);
        self.ended_us.fetch_max(self.clock.monotonic_us(), Ordering::Relaxed);
        self.failed.fetch_or(sent.is_err(), Ordering::Relaxed);
        if self.active.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.drawer.unpark();
        }
        sent
    }

    fn send_all(&self, seed: u64, store: &mut Store) -> Result<()> {
        let mut numbers = Xorshift(seed);
        while let Some(count) = self.next_batch() {
            let calls: Vec<_> = (0..count)
                .map(|_| numbers.next() % self.load.keys)
                .map(|n| self.load.command(n))
                .collect();
            let sent_us = self.clock.monotonic_us();
            store.call_all(&calls, |_| {
                self.latencies.record(self.clock.monotonic_us() - sent_us);
                self.answered.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        Ok(())
    }

    /// Takes the next commands. Returns their number, or `None` at the end.
    fn next_batch(&self) -> Option<u64> {
        let pipeline = self.load.pipeline;
        let count = match self.load.end {
            End::Seconds(seconds) if self.clock.monotonic_us() < seconds * 1_000_000 => pipeline,
            End::Seconds(_) => 0,
            End::Requests(all) => {
                let issued = self.issued.fetch_add(pipeline, Ordering::Relaxed);
                all.saturating_sub(issued).min(pipeline)
            }
        };
        (count > 0 && !self.failed.load(Ordering::Relaxed)).then_some(count)
    }

    /// Updates the progress bar until all threads have ended.
    fn draw(&self, bar: &Bar) {
        while self.active.load(Ordering::Relaxed) > 0 {
            let (done, total) = match self.load.end {
                End::Seconds(seconds) => (self.clock.monotonic_us() / 1_000_000, seconds),
                End::Requests(all) => (self.answered.load(Ordering::Relaxed), all),
            };
            bar.show(Progress { phase: self.load.kind.name(), done, total: Some(total) });
            std::thread::park_timeout(DRAW_INTERVAL);
        }
    }
}

/// A pseudo-random generator (xorshift) with a fixed sequence per seed.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
