//! A latency histogram with 32 buckets per power of two, so a value is at most 3 % off.

use std::sync::atomic::{AtomicU64, Ordering};

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = SUB * (64 - SUB_BITS as usize + 1);

/// A lock-free histogram of latencies in any unit. All threads record through a shared reference.
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    most: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new() -> Histogram {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { counts, most: AtomicU64::new(0) }
    }

    /// Records one latency.
    pub fn record(&self, latency: u64) {
        self.counts[bucket(latency)].fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(latency, Ordering::Relaxed);
    }

    /// Adds all counts of another histogram.
    pub fn add(&self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter().zip(&other.counts) {
            mine.fetch_add(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.most.fetch_max(other.most(), Ordering::Relaxed);
    }

    /// Returns the exact maximum.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Returns p50, p99 and p999; `None` if nothing was recorded.
    pub fn percentiles(&self) -> Option<[u64; 3]> {
        let total: u64 = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum();
        (total > 0).then(|| [0.5, 0.99, 0.999].map(|q| self.quantile(total, q)))
    }

    fn quantile(&self, total: u64, q: f64) -> u64 {
        let rank = ((total as f64 * q).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count.load(Ordering::Relaxed);
            if seen >= rank {
                return middle(index).min(self.most());
            }
        }
        0
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < SUB as u64 {
        return nanos as usize;
    }
    let exponent = 63 - nanos.leading_zeros();
    let sub = (nanos >> (exponent - SUB_BITS)) as usize & (SUB - 1);
    (exponent - SUB_BITS + 1) as usize * SUB + sub
}

/// Returns the middle of a bucket, which represents all values in it.
fn middle(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = (index / SUB - 1) as u32;
    let low = ((SUB + index % SUB) as u64) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_at_most_three_percent_off() {
        for nanos in (0..63).flat_map(|e| [1u64 << e, (1 << e) + (1 << e) / 3, (2 << e) - 1]) {
            let shown = middle(bucket(nanos)) as f64;
            assert!((shown - nanos as f64).abs() <= nanos as f64 * 0.03, "{nanos} as {shown}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_what_was_counted() {
        let one = Histogram::new();
        let other = Histogram::new();
        (1..=500).for_each(|n| one.record(n * 1000));
        (501..=1000).for_each(|n| other.record(n * 1000));
        one.add(&other);
        let found = one.percentiles().unwrap();
        for (found, expected) in found.into_iter().zip([500_000.0, 990_000.0, 999_000.0]) {
            assert!((found as f64 / expected - 1.0).abs() < 0.03, "{found} for {expected}");
        }
        assert_eq!(one.most(), 1_000_000);
        assert_eq!(Histogram::new().percentiles(), None);
    }
}
