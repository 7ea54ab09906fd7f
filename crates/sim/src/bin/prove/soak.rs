//! Runs a soak test, prints its progress, and draws the result.

use mainstay_sim::drill::Outcome;
use mainstay_sim::soak::{self, Figure, News, Plan, Report, Sample, Verdict};
use std::fs;
use std::path::Path;

/// The seconds between two printed lines.
const TOLD_EVERY: u64 = 10;

pub fn run(seconds: u64, seed: u64, report: &Path) -> Outcome<()> {
    println!("seed {seed}");
    let done = soak::run(&Plan { seed, seconds }, tell)?;
    // The picture is kept whatever the verdict is.
    fs::write(report, soak::draw(&done)).map_err(|error| format!("{report:?}: {error}"))?;
    print(&done);
    println!("the picture is in {}", report.display());
    let grown = done.figures.iter().filter(|figure| figure.verdict == Verdict::NotFlat);
    let grown: Vec<String> = grown.map(Figure::to_string).collect();
    if grown.is_empty() { Ok(()) } else { Err(grown.join("; ")) }
}

fn tell(news: &News<'_>) {
    match news {
        News::Peak(peak, target) => {
            println!("peak {peak} operations a second, load {target}");
            println!(
                "{:>8}{:>10}{:>6}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}",
                "second",
                "MiB",
                "fds",
                "disk MiB",
                "done",
                "p50 ms",
                "p99 ms",
                "max ms",
                "backlog",
                "others %"
            );
        }
        News::Second(sample) if sample.second % TOLD_EVERY == 0 => row(sample),
        News::Second(_) => {}
    }
}

fn row(sample: &Sample) {
    let Sample {
        second,
        memory_bytes,
        descriptors,
        disk_bytes,
        latencies,
        backlog,
        others_percent,
    } = sample;
    let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
    let ms = |us: u64| us as f64 / 1000.0;
    println!(
        "{second:>8}{:>10.1}{descriptors:>6}{:>10.1}{:>9}{:>9.1}{:>9.1}{:>9.1}{backlog:>9}{others_percent:>10}",
        mib(memory_bytes),
        mib(disk_bytes),
        latencies.count,
        ms(latencies.p50_us),
        ms(latencies.p99_us),
        ms(latencies.max_us),
    );
}

fn print(done: &Report) {
    let ((made, merged), (seen, lagged)) = (done.branches, done.followed);
    let count: u64 = done.samples.iter().map(|sample| sample.latencies.count).sum();
    println!("{count} operations done, {} left out for being too late", done.shed);
    println!(
        "{made} branches made and deleted, {merged} merged; the feed told of {seen} changes, lagged {lagged} times"
    );
    if done.figures.is_empty() {
        println!("too short to be judged")
    } else {
        println!("{:<24}{:>12}{:>12}", "medians of quarters", "second", "last")
    }
    done.figures.iter().for_each(|figure| println!("{figure}"));
    println!("closed, healthy, opened again: everything that was told is there");
}
