//! The two load forms, the same for the engine and for every peer.
//!
//! Threads: each calls, waits for its answer, and calls again (closed loop). Tickets: two threads submit
//! without waiting, each with a limited number of unanswered operations. An answer is a callback on any
//! thread.

use crate::context::Outcome;
use crate::harness::Slice;
use mainstay_server::histogram::Histogram;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// One worker's part of a slice.
pub struct Part {
    /// Number of answered operations.
    pub operations: u64,
    /// Start time.
    pub started: Instant,
    /// Time of the last answer.
    pub ended: Instant,
    /// Latency of the operations.
    pub latency: Histogram,
}

impl Part {
    /// A part that begins now.
    pub fn begin() -> Part {
        let now = Instant::now();
        Part { operations: 0, started: now, ended: now, latency: Histogram::new() }
    }
}

/// Runs every worker on its own thread. Times one of `sample` operations.
///
/// Reading the clock costs 25 ns or more, which is negligible compared with an fsync but large compared
/// with a lookup.
pub fn threads<W>(workers: &mut [W], sample: u64, slice: Duration) -> Outcome<Slice>
where
    W: FnMut() -> Outcome<()> + Send,
{
    let barrier = Barrier::new(workers.len());
    let barrier = &barrier;
    together(workers, |worker| {
        barrier.wait();
        call_in_a_row(worker, sample, slice)
    })
}

fn call_in_a_row(
    worker: &mut impl FnMut() -> Outcome<()>,
    sample: u64,
    slice: Duration,
) -> Outcome<Part> {
    let latency = Histogram::new();
    let started = Instant::now();
    let mut operations = 0;
    let mut ended = started;
    while ended - started < slice {
        for _ in 1..sample {
            worker()?;
        }
        let before = if sample > 1 { Instant::now() } else { ended };
        worker()?;
        ended = Instant::now();
        latency.record((ended - before).as_nanos() as u64);
        operations += sample;
    }
    Ok(Part { operations, started, ended, latency })
}

/// Runs every submitter on its own thread, each with at most `depth` operations in flight.
pub fn tickets<S>(submitters: &mut [S], depth: usize, slice: Duration) -> Outcome<Slice>
where
    S: FnMut(Landing) -> Outcome<()> + Send,
{
    let barrier = Barrier::new(submitters.len());
    let barrier = &barrier;
    together(submitters, |submitter| {
        barrier.wait();
        submit_in_a_row(submitter, depth, slice)
    })
}

fn submit_in_a_row(
    submit: &mut impl FnMut(Landing) -> Outcome<()>,
    depth: usize,
    slice: Duration,
) -> Outcome<Part> {
    let flight = Arc::new(Flight::new());
    let started = Instant::now();
    let mut now = started;
    let mut submitted = Ok(());
    while now - started < slice && submitted.is_ok() {
        flight.wait_until_fewer_than(depth);
        now = Instant::now();
        submitted = submit(flight.take_off(now));
    }
    flight.wait_until_fewer_than(1);
    submitted?;
    flight.finish(started)
}

/// The operations in flight of one submitter.
struct Flight {
    outstanding: AtomicUsize,
    landed: AtomicU64,
    waiting: AtomicBool,
    submitter: Thread,
    latency: Histogram,
    trouble: Mutex<Option<String>>,
}

impl Flight {
    fn new() -> Flight {
        Flight {
            outstanding: AtomicUsize::new(0),
            landed: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            submitter: std::thread::current(),
            latency: Histogram::new(),
            trouble: Mutex::new(None),
        }
    }

    fn take_off(self: &Arc<Flight>, started: Instant) -> Landing {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        Landing { flight: Arc::clone(self), started, answered: false }
    }

    fn wait_until_fewer_than(&self, depth: usize) {
        while self.outstanding.load(Ordering::SeqCst) >= depth {
            // SeqCst pairs with `land`: either this thread sees the new count, or `land` sees the flag.
            self.waiting.store(true, Ordering::SeqCst);
            // Check again: an operation that completed before the flag was set did not see it.
            if self.outstanding.load(Ordering::SeqCst) >= depth {
                std::thread::park();
            }
            self.waiting.store(false, Ordering::SeqCst);
        }
    }

    fn land(&self) {
        // SeqCst pairs with `wait_until_fewer_than`. The load skips the swap in the common case.
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) && self.waiting.swap(false, Ordering::SeqCst) {
            self.submitter.unpark();
        }
    }

    fn finish(&self, started: Instant) -> Outcome<Part> {
        if let Some(trouble) = self.trouble.lock().take() {
            return Err(trouble.into());
        }
        let latency = Histogram::new();
        latency.add(&self.latency);
        // Every landing was counted before its SeqCst decrement of `outstanding`, which is 0 now.
        let operations = self.landed.load(Ordering::SeqCst);
        Ok(Part { operations, started, ended: Instant::now(), latency })
    }
}

/// Completion handle of one operation in flight. It is called once, on the thread that delivers the answer.
pub struct Landing {
    flight: Arc<Flight>,
    started: Instant,
    answered: bool,
}

impl Landing {
    /// Records that the operation was answered.
    pub fn answer<E: std::fmt::Display>(mut self, result: Result<(), E>) {
        self.answered = true;
        match result {
            Ok(()) => {
                self.flight.latency.record(self.started.elapsed().as_nanos() as u64);
                self.flight.landed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => *self.flight.trouble.lock() = Some(error.to_string()),
        }
    }
}

impl Drop for Landing {
    /// A callback that is dropped uncalled must not leave the submitter waiting forever.
    fn drop(&mut self) {
        if !self.answered {
            *self.flight.trouble.lock() = Some("an operation was never answered".to_string());
        }
        self.flight.land();
    }
}

/// Runs a body per worker, each on its own thread, and sums up their parts.
pub fn together<W: Send>(
    workers: &mut [W],
    body: impl Fn(&mut W) -> Outcome<Part> + Sync,
) -> Outcome<Slice> {
    let body = &body;
    let parts: Outcome<Vec<Part>> = std::thread::scope(|scope| {
        let running: Vec<_> = workers.iter_mut().map(|w| scope.spawn(move || body(w))).collect();
        running.into_iter().map(|thread| thread.join().map_err(|_| "a worker panicked")?).collect()
    });
    sum(&parts?)
}

fn sum(parts: &[Part]) -> Outcome<Slice> {
    let started = parts.iter().map(|part| part.started).min().ok_or("no workers")?;
    let ended = parts.iter().map(|part| part.ended).max().ok_or("no workers")?;
    let latency = Histogram::new();
    parts.iter().for_each(|part| latency.add(&part.latency));
    let operations = parts.iter().map(|part| part.operations).sum();
    Ok(Slice { operations, seconds: (ended - started).as_secs_f64(), latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(20);

    #[test]
    fn every_call_of_every_thread_is_counted() {
        let calls = AtomicU64::new(0);
        let worker = || {
            calls.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let slice = threads(&mut [worker, worker, worker], 8, SLICE).unwrap();
        assert_eq!(slice.operations, calls.load(Ordering::Relaxed));
        assert!(slice.latency.percentiles().is_some());
    }

    #[test]
    fn never_more_in_flight_than_allowed_and_all_land() {
        let (sender, receiver) = std::sync::mpsc::channel::<Landing>();
        let answering = std::thread::spawn(move || {
            let mut answered = 0;
            receiver.into_iter().for_each(|landing| {
                assert!(landing.flight.outstanding.load(Ordering::SeqCst) <= 4);
                answered += 1;
                landing.answer(Ok::<(), String>(()));
            });
            answered
        });
        let submit = |landing| Ok(sender.send(landing)?);
        let slice = tickets(&mut [submit, submit], 4, SLICE).unwrap();
        drop(sender);
        assert_eq!(slice.operations, answering.join().unwrap());
    }

    #[test]
    fn a_failed_or_forgotten_operation_fails_the_slice() {
        let fail = |landing: Landing| {
            landing.answer(Err("no"));
            Ok(())
        };
        assert_eq!(tickets(&mut [fail], 2, SLICE).err().unwrap().to_string(), "no");
        let forget = |landing: Landing| {
            drop(landing);
            Ok(())
        };
        assert!(tickets(&mut [forget], 2, SLICE).is_err());
        assert!(threads(&mut [|| Err("no".into())], 1, SLICE).is_err());
    }
}
