//! A latency histogram with 32 buckets per power of two, so a value is at most 3 % off.

use std::sync::atomic::{AtomicU64, Ordering};

const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = (SUB * (64 - SUB_BITS as u64 + 1)) as usize;

/// Latency counts; all threads add to it.
pub(crate) struct Histogram {
    counts: Box<[AtomicU64]>,
    most: AtomicU64,
}

/// A summary of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The number of latencies.
    pub count: u64,
    /// The median.
    pub p50_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { counts, most: AtomicU64::new(0) }
    }

    pub fn add(&self, latency_us: u64) {
        self.counts[bucket(latency_us)].fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(latency_us, Ordering::Relaxed);
    }

    /// Returns a summary of the latencies since the last call, and resets the counts.
    pub fn take(&self) -> Latencies {
        let counts: Vec<u64> =
            self.counts.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let max_us = self.most.swap(0, Ordering::Relaxed);
        let at = |percent: u64| quantile(&counts, (count * percent).div_ceil(100)).min(max_us);
        Latencies { count, p50_us: at(50), p99_us: at(99), max_us }
    }
}

/// Returns the latency of this rank, counted from 1; 0 if the histogram is empty.
fn quantile(counts: &[u64], rank: u64) -> u64 {
    let mut seen = 0;
    let reached = counts.iter().position(|count| {
        seen += count;
        seen >= rank.max(1)
    });
    reached.map_or(0, upper)
}

fn bucket(latency: u64) -> usize {
    let shift = (64 - latency.leading_zeros()).saturating_sub(SUB_BITS + 1);
    (u64::from(shift) * SUB + (latency >> shift)) as usize
}

/// Returns the longest latency of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / SUB).saturating_sub(1);
    let first = (bucket - shift * SUB) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_three_percent_shorter() {
        for latency in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let most = upper(bucket(latency));
            assert!(most >= latency && most - latency <= latency / 32, "{latency} {most}");
        }
    }

    #[test]
    fn a_second_has_its_figures_and_the_next_one_begins_anew() {
        let histogram = Histogram::new();
        (1..=1000).for_each(|latency| histogram.add(latency));
        let seen = histogram.take();
        assert_eq!((seen.count, seen.max_us), (1000, 1000));
        assert!((500..=516).contains(&seen.p50_us) && (990..=1000).contains(&seen.p99_us));
        assert_eq!(histogram.take(), Latencies::default());
    }
}
