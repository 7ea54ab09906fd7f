//! Load generation: as much as possible for a while, then four fifths of that on a schedule.
//!
//! ```text
//!   closed loop   every worker begins its next operation when the last one is done  -> peak
//!   open loop     workers take start times from a schedule                         -> samples, one a second
//! ```

use super::histogram::Histogram;
use super::pace::Pace;
use super::sample::{self, Sample, Ticks};
use super::work::Hand;
use crate::drill::Outcome;
use mainstay::{Clock, SystemClock};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const SECOND_US: u64 = 1_000_000;

/// The state that workers and the monitor share.
pub(super) struct Load<'a> {
    pub clock: SystemClock,
    pub directory: &'a Path,
    /// The latencies since the last sample.
    pub latencies: Histogram,
    /// Set when one worker gives up, so that all stop.
    pub over: AtomicBool,
}

impl Load<'_> {
    pub fn now_us(&self) -> u64 {
        self.clock.monotonic_us()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, at_us: u64) {
        thread::sleep(Duration::from_micros(at_us.saturating_sub(self.now_us())));
    }

    /// Runs one operation that was scheduled for `meant_us`.
    fn step(&self, hand: &mut Hand, meant_us: u64) -> Outcome<()> {
        let done = hand.step();
        self.latencies.add(self.now_us().saturating_sub(meant_us));
        done.inspect_err(|_| self.over.store(true, Ordering::Relaxed))
    }

    /// Returns how many operations per second all workers do together without a schedule.
    pub fn peak(&self, hands: &mut [Hand], warm_up: Duration, lasts: Duration) -> Outcome<u64> {
        self.closed(hands, warm_up)?;
        self.latencies.take();
        let begun_us = self.now_us();
        self.closed(hands, lasts)?;
        let done = self.latencies.take().count;
        Ok(done * SECOND_US / (self.now_us() - begun_us).max(1))
    }

    fn closed(&self, hands: &mut [Hand], lasts: Duration) -> Outcome<()> {
        let end_us = self.now_us() + lasts.as_micros() as u64;
        let work = |hand: &mut Hand| {
            while !self.is_over() && self.now_us() < end_us {
                self.step(hand, self.now_us())?;
            }
            Ok(())
        };
        self.all(hands, &work, || Ok(()))
    }

    /// Runs `rate` operations per second for `seconds`. Takes a sample each second and reports it.
    pub fn open(
        &self,
        hands: &mut [Hand],
        (seconds, rate): (u64, u64),
        tell: &mut dyn FnMut(&Sample),
    ) -> Outcome<(Vec<Sample>, u64)> {
        let start_us = self.now_us();
        let pace = Pace::new(start_us, start_us + seconds * SECOND_US, rate);
        let work = |hand: &mut Hand| {
            while let Some(meant_us) = pace.next(self.now_us())
                && !self.is_over()
            {
                self.sleep_until(meant_us);
                self.step(hand, meant_us)?;
            }
            Ok(())
        };
        let mut samples = Vec::new();
        let mut ticks = Ticks::now()?;
        self.all(hands, &work, || {
            for second in 1..=seconds {
                self.sleep_until(start_us + second * SECOND_US);
                if self.is_over() {
                    break;
                }
                let before = std::mem::replace(&mut ticks, Ticks::now()?);
                let others_percent = ticks.others_percent(before);
                let sample = Sample { others_percent, ..self.sample(second, &pace)? };
                tell(&sample);
                samples.push(sample);
            }
            Ok(())
        })?;
        Ok((samples, pace.shed()))
    }

    fn sample(&self, second: u64, pace: &Pace) -> Outcome<Sample> {
        Ok(Sample {
            second,
            memory_bytes: sample::memory_bytes()?,
            descriptors: sample::descriptors()?,
            disk_bytes: sample::disk_bytes(self.directory),
            latencies: self.latencies.take(),
            backlog: pace.backlog(self.now_us()),
            ..Sample::default()
        })
    }

    /// Runs every worker on a thread of its own, and the monitor on this thread.
    fn all(
        &self,
        hands: &mut [Hand],
        work: &(dyn Fn(&mut Hand) -> Outcome<()> + Sync),
        watch: impl FnOnce() -> Outcome<()>,
    ) -> Outcome<()> {
        thread::scope(|scope| {
            let hands: Vec<_> =
                hands.iter_mut().map(|hand| scope.spawn(move || work(hand))).collect();
            let watched = watch();
            let ended = |hand: thread::ScopedJoinHandle<'_, Outcome<()>>| {
                hand.join().unwrap_or_else(|_| Err("a hand panicked".to_owned()))
            };
            hands.into_iter().map(ended).fold(watched, Result::and)
        })
    }
}
