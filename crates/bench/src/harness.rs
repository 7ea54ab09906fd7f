//! Fair comparison on a noisy machine: interleaved slices, and the median of the round ratios.
//!
//! ```text
//!   round 1: ours peer      round 2: peer ours      round 3: ours peer …
//!            \__/ ratio              \__/ ratio              \__/ ratio
//! ```
//!
//! A disk's fsync may take 40 µs now and 4 ms one second later. So two long runs in sequence would compare
//! two disk states. Alternating short slices see the same disk. The report shows the round with the median
//! ratio, and the range of the ratios of all rounds.

use crate::context::Outcome;
use mainstay_server::histogram::Histogram;
use std::time::Duration;

/// Division of a comparison's time into slices.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of rounds. Odd, so that a median round exists.
    pub rounds: usize,
    /// Duration of the whole comparison.
    pub total: Duration,
}

impl Pace {
    fn slice(&self, sides: usize) -> Duration {
        self.total / (self.rounds * sides.max(1)) as u32
    }
}

/// Result of one side in one slice.
pub struct Slice {
    /// Number of answered operations.
    pub operations: u64,
    /// Seconds until the last answer.
    pub seconds: f64,
    /// Latency of single operations: of all, or of a sample.
    pub latency: Histogram,
}

/// One side of a comparison, which can be run for a given time.
pub struct Side<'a> {
    name: String,
    run: Box<dyn FnMut(Duration) -> Outcome<Slice> + 'a>,
}

impl<'a> Side<'a> {
    /// Creates a named side.
    pub fn new(
        name: impl Into<String>,
        run: impl FnMut(Duration) -> Outcome<Slice> + 'a,
    ) -> Side<'a> {
        Side { name: name.into(), run: Box::new(run) }
    }
}

/// Results of one side in all rounds.
pub struct Measured {
    /// Name of the side.
    pub name: String,
    /// Operations per second, per round.
    pub rates: Vec<f64>,
    /// Latencies of all rounds.
    pub latency: Histogram,
}

/// Runs all sides in turn, after a short warm-up that does not count.
pub fn interleave(sides: &mut [Side<'_>], pace: Pace) -> Outcome<Vec<Measured>> {
    let slice = pace.slice(sides.len());
    let mut all: Vec<Measured> = sides.iter().map(|side| Measured::new(&side.name)).collect();
    for side in sides.iter_mut() {
        (side.run)(slice / 4)?;
    }
    for round in 0..pace.rounds {
        for turn in 0..sides.len() {
            let index = whose_turn(round, turn, sides.len());
            all[index].add((sides[index].run)(slice)?)?;
        }
    }
    Ok(all)
}

/// Every other round runs in reverse order, so that a steady drift favours no side.
fn whose_turn(round: usize, turn: usize, sides: usize) -> usize {
    if round.is_multiple_of(2) { turn } else { sides - 1 - turn }
}

impl Measured {
    fn new(name: &str) -> Measured {
        Measured { name: name.to_string(), rates: Vec::new(), latency: Histogram::new() }
    }

    fn add(&mut self, slice: Slice) -> Outcome<()> {
        if slice.operations == 0 || slice.seconds <= 0.0 {
            return Err(format!("{}: no operation ended within its slice", self.name).into());
        }
        self.rates.push(slice.operations as f64 / slice.seconds);
        self.latency.add(&slice.latency);
        Ok(())
    }
}

/// The round with the median ratio, and the range of all ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Our rate in that round.
    pub ours: f64,
    /// The peer's rate in that round.
    pub peer: f64,
    /// The lowest ratio of any round.
    pub low: f64,
    /// The highest ratio of any round.
    pub high: f64,
}

/// Pairs the rounds of two sides. `None` if there are no rounds.
pub fn median_round(ours: &[f64], peer: &[f64]) -> Option<Ratio> {
    let mut rounds: Vec<(f64, f64)> = ours.iter().copied().zip(peer.iter().copied()).collect();
    rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let first = rounds.first()?;
    let last = rounds.last()?;
    let (ours, peer) = rounds[(rounds.len() - 1) / 2];
    Some(Ratio { ours, peer, low: first.0 / first.1, high: last.0 / last.1 })
}

/// The median, or zero of an empty list.
pub fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn the_median_round_is_told_as_it_was() {
        let ratio = median_round(&[10.0, 40.0, 18.0], &[10.0, 20.0, 20.0]).unwrap();
        assert_eq!(ratio, Ratio { ours: 10.0, peer: 10.0, low: 0.9, high: 2.0 });
        assert_eq!(median_round(&[], &[]), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn sides_take_turns_and_every_other_round_goes_backwards() {
        let order = RefCell::new(String::new());
        let side = |name: char| {
            let order = &order;
            Side::new(name, move |_| {
                order.borrow_mut().push(name);
                Ok(Slice { operations: 4, seconds: 2.0, latency: Histogram::new() })
            })
        };
        let pace = Pace { rounds: 3, total: Duration::from_secs(6) };
        let all = interleave(&mut [side('a'), side('b')], pace).unwrap();
        assert_eq!(order.into_inner(), "ababbaab");
        assert_eq!(all[1].rates, [2.0, 2.0, 2.0]);
    }

    #[test]
    fn a_side_that_does_nothing_is_an_error() {
        let idle = Side::new("idle", |_| {
            Ok(Slice { operations: 0, seconds: 1.0, latency: Histogram::new() })
        });
        let pace = Pace { rounds: 1, total: Duration::from_secs(1) };
        assert!(interleave(&mut [idle], pace).is_err());
    }
}
