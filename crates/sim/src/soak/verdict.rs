//! The verdict of a soak: compares its second quarter with its last one.
//!
//! ```text
//!   |  warming up  |  second quarter  |                |  last quarter  |
//!                     median a                            median b            b / a within a limit
//! ```
//!
//! | figure | limit | reason |
//! |---|---|---|
//! | memory | 1.15 times | an allocator keeps the memory of its worst moment |
//! | descriptors | 8 more | tables come and go with every compaction |
//! | disk | 1.25 times | retention and compaction alternate: the curve is a sawtooth |
//! | p99 | 2 times where the backlog grows, 4 times in any case | other programs on the machine make it noisy |
//! | throughput | 0.9 times at least | less means that the database does not keep up |
//!
//! Medians of quarters ignore single outlier seconds. If other programs used clearly more of the
//! machine in the last quarter than in the second one, times beyond their limit prove nothing about the
//! database. They are reported as undecided, and the soak should be repeated. A run of less than two
//! minutes is not judged, because the database has not warmed up by then.

use super::sample::Sample;
use std::fmt;

/// The least number of seconds that are judged.
const LEAST_SECONDS: usize = 120;
const MEMORY_RATIO: f64 = 1.15;
const MORE_DESCRIPTORS: f64 = 8.0;
const DISK_RATIO: f64 = 1.25;
const P99_RATIO: f64 = 2.0;
/// Beyond this ratio a p99 is not noise, even if the backlog does not grow.
const P99_WORST_RATIO: f64 = 4.0;
const THROUGHPUT_RATIO: f64 = 0.9;
/// A backlog has grown if it increased by this share of a second's operations.
const BACKLOG_GROWN: f64 = 0.5;

/// Other programs are clearly busier if their share of the machine grew by this many percentage points.
const BUSIER_PERCENT: f64 = 10.0;

/// The verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stayed within its limit.
    Flat,
    /// It exceeded its limit.
    NotFlat,
    /// It exceeded its limit, but the machine was busier.
    Undecided,
}

impl Verdict {
    fn of(holds: bool) -> Verdict {
        if holds { Verdict::Flat } else { Verdict::NotFlat }
    }
}

/// A figure of both quarters.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name of the figure, with its unit.
    pub name: &'static str,
    /// The median of the second quarter.
    pub second: f64,
    /// The median of the last quarter.
    pub last: f64,
    /// The limit, in words.
    pub limit: String,
    /// Whether it stayed within the limit.
    pub verdict: Verdict,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure { name, second, last, limit, verdict } = self;
        let verdict = match verdict {
            Verdict::Flat => "flat",
            Verdict::NotFlat => "NOT FLAT",
            Verdict::Undecided => "UNDECIDED: others were busier; run it again",
        };
        write!(f, "{name:<24}{second:>12.1}{last:>12.1}   {verdict} ({limit})")
    }
}

/// Compares the quarters. Returns no figures if the run was too short.
pub fn judge(samples: &[Sample]) -> Vec<Figure> {
    if samples.len() < LEAST_SECONDS {
        return Vec::new();
    }
    let medians = |of: fn(&Sample) -> f64| [second, last].map(|part| median(part(samples), of));
    let backlogs = medians(|sample| sample.backlog as f64);
    let done = medians(|sample| sample.latencies.count as f64);
    let grew = backlogs[1] - backlogs[0] > BACKLOG_GROWN * done[0];
    let p99_ratio = if grew { P99_RATIO } else { P99_WORST_RATIO };
    let p99s = medians(|sample| sample.latencies.p99_us as f64 / 1000.0);
    let others = medians(|sample| sample.others_percent as f64);
    let is_busier = others[1] > others[0] + BUSIER_PERCENT;
    vec![
        at_most("memory, MiB", medians(|sample| mib(sample.memory_bytes)), MEMORY_RATIO),
        descriptors(medians(|sample| sample.descriptors as f64)),
        at_most("disk, MiB", medians(|sample| mib(sample.disk_bytes)), DISK_RATIO),
        timed(at_most("p99, ms", p99s, p99_ratio), is_busier),
        timed(throughput(done), is_busier),
    ]
}

/// Returns the second quarter.
pub(super) fn second(samples: &[Sample]) -> &[Sample] {
    &samples[samples.len() / 4..samples.len() / 2]
}

/// Returns the last quarter.
pub(super) fn last(samples: &[Sample]) -> &[Sample] {
    &samples[samples.len() * 3 / 4..]
}

pub(super) fn median(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    let mut all: Vec<f64> = samples.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn at_most(name: &'static str, [second, last]: [f64; 2], ratio: f64) -> Figure {
    let limit = format!("{ratio} times at most");
    Figure { name, second, last, limit, verdict: Verdict::of(last <= second * ratio) }
}

/// Makes a failed time figure undecided if the machine was busier.
fn timed(figure: Figure, is_busier: bool) -> Figure {
    let verdict = match figure.verdict {
        Verdict::NotFlat if is_busier => Verdict::Undecided,
        verdict => verdict,
    };
    Figure { verdict, ..figure }
}

fn descriptors([second, last]: [f64; 2]) -> Figure {
    let limit = format!("{MORE_DESCRIPTORS} more at most");
    let verdict = Verdict::of(last <= second + MORE_DESCRIPTORS);
    Figure { name: "descriptors", second, last, limit, verdict }
}

fn throughput([second, last]: [f64; 2]) -> Figure {
    let limit = format!("{THROUGHPUT_RATIO} times at least");
    let verdict = Verdict::of(last >= second * THROUGHPUT_RATIO);
    Figure { name: "operations a second", second, last, limit, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::histogram::Latencies;
    use mainstay_conformance::random::Random;

    const SECONDS: u64 = 600;

    fn flat(second: u64) -> Sample {
        Sample {
            second,
            memory_bytes: 100 << 20,
            descriptors: 50,
            disk_bytes: 80 << 20,
            latencies: Latencies { count: 4000, p50_us: 2000, p99_us: 9000, max_us: 30_000 },
            backlog: 3,
            others_percent: 20,
        }
    }

    fn judged(bend: impl Fn(u64, &mut Sample)) -> Vec<&'static str> {
        let figures = figures(bend);
        let grown = figures.iter().filter(|figure| figure.verdict == Verdict::NotFlat);
        grown.map(|figure| figure.name).collect()
    }

    fn figures(bend: impl Fn(u64, &mut Sample)) -> Vec<Figure> {
        let bent = |second| {
            let mut sample = flat(second);
            bend(second, &mut sample);
            sample
        };
        let samples: Vec<Sample> = (0..SECONDS).map(bent).collect();
        let figures = judge(&samples);
        assert_eq!(figures.len(), 5);
        figures
    }

    #[test]
    fn what_stays_flat_holds() {
        assert!(judged(|_, _| {}).is_empty());
    }

    #[test]
    fn what_grows_is_named() {
        let grows = |at: u64, by: u64| by * at / SECONDS;
        assert_eq!(judged(|at, it| it.memory_bytes += grows(at, 60 << 20)), ["memory, MiB"]);
        assert_eq!(judged(|at, it| it.descriptors += grows(at, 40)), ["descriptors"]);
        assert_eq!(judged(|at, it| it.disk_bytes += grows(at, 80 << 20)), ["disk, MiB"]);
        let late = |at, it: &mut Sample| it.latencies.p99_us *= if at > 400 { 50 } else { 1 };
        assert_eq!(judged(late), ["p99, ms"]);
        let slow = |at, it: &mut Sample| it.latencies.count -= grows(at, 2000);
        assert_eq!(judged(slow), ["operations a second"]);
    }

    #[test]
    fn a_p99_of_three_times_is_noise_unless_the_backlog_grows_with_it() {
        let later = |at: u64, it: &mut Sample| it.latencies.p99_us *= if at > 400 { 3 } else { 1 };
        assert!(judged(later).is_empty());
        let behind = |at: u64, it: &mut Sample| {
            later(at, it);
            it.backlog += 50 * at;
        };
        assert_eq!(judged(behind), ["p99, ms"]);
    }

    /// Only time figures are excused.
    #[test]
    fn where_others_were_busier_times_are_undecided() {
        let starved = |at: u64, it: &mut Sample| {
            it.latencies.p99_us *= if at > 400 { 50 } else { 1 };
            it.memory_bytes += at << 18;
            it.others_percent += at / 20;
        };
        let verdicts: Vec<Verdict> = figures(starved).iter().map(|it| it.verdict).collect();
        let [memory, .., p99, throughput] = verdicts[..] else { panic!("{verdicts:?}") };
        assert_eq!(
            (memory, p99, throughput),
            (Verdict::NotFlat, Verdict::Undecided, Verdict::Flat)
        );
    }

    #[test]
    fn noise_that_stays_the_same_holds() {
        let noisy = |at: u64, it: &mut Sample| {
            let mut random = Random::of(&[at]);
            it.memory_bytes += random.below(20 << 20);
            it.descriptors += random.below(10);
            // A sawtooth, as trims produce it.
            it.disk_bytes += (at % 60) << 20;
            it.latencies.p99_us += random.below(20_000);
            if random.chance(3) {
                it.latencies = Latencies { count: 400, p99_us: 3_000_000, ..it.latencies };
                it.backlog = 10_000;
            }
        };
        assert!(judged(noisy).is_empty());
    }

    #[test]
    fn a_short_run_is_not_judged() {
        assert!(judge(&(0..100).map(flat).collect::<Vec<_>>()).is_empty());
        assert!(judge(&[]).is_empty());
    }

    #[test]
    fn a_figure_shows_both_values() {
        let figure = at_most("memory, MiB", [100.0, 130.0], MEMORY_RATIO).to_string();
        assert!(figure.contains("100.0") && figure.contains("130.0"), "{figure}");
        assert!(figure.ends_with("NOT FLAT (1.15 times at most)"), "{figure}");
    }
}
