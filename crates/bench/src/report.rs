//! The report: rows collected during the run, printed as a table at the end.

use crate::context::Outcome;
use crate::harness::{Measured, Ratio, median, median_round};
use crate::json;
use std::path::Path;
use std::time::Instant;

/// Direction of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// Rates: the ratio must be at least the target.
    AtLeast,
    /// Times and sizes: the ratio must be at most the target.
    AtMost,
}

impl Sense {
    /// The sign in the table and in the JSON.
    pub fn sign(self) -> &'static str {
        match self {
            Sense::AtLeast => ">=",
            Sense::AtMost => "<=",
        }
    }
}

/// One comparison with one peer.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the case.
    pub case: String,
    /// Unit of both figures.
    pub unit: &'static str,
    /// Our figure.
    pub ours: f64,
    /// Name and figure of the peer.
    pub peer: Option<(String, f64)>,
    /// The lowest and highest ratio of any round.
    pub range: Option<(f64, f64)>,
    /// The target for the ratio, if any.
    pub must: Option<f64>,
    /// Direction of the target.
    pub sense: Sense,
    /// Our p50, p99 and p999 latency in nanoseconds.
    pub latency: Option<[u64; 3]>,
    /// The peer's p50, p99 and p999 latency in nanoseconds.
    pub peer_latency: Option<[u64; 3]>,
}

impl Row {
    /// Two rates, with the figures of the median round.
    pub fn rates(case: &str, ours: &Measured, peer: &Measured, must: Option<f64>) -> Option<Row> {
        let Ratio { ours: mine, peer: theirs, low, high } = median_round(&ours.rates, &peer.rates)?;
        Some(Row {
            case: case.to_string(),
            unit: "op/s",
            ours: mine,
            peer: Some((peer.name.clone(), theirs)),
            range: Some((low, high)),
            must,
            sense: Sense::AtLeast,
            latency: ours.latency.percentiles(),
            peer_latency: peer.latency.percentiles(),
        })
    }

    /// A rate without a peer: its median round.
    pub fn alone(case: &str, ours: &Measured) -> Row {
        let rate = Row::figure(case, "op/s", median(&mut ours.rates.clone()));
        Row { sense: Sense::AtLeast, latency: ours.latency.percentiles(), ..rate }
    }

    /// A single figure without a peer.
    pub fn figure(case: &str, unit: &'static str, ours: f64) -> Row {
        Row { peer: None, ..Row::smaller(case, unit, ours, ("", 0.0)) }
    }

    /// Two single figures, of which the larger is better.
    pub fn larger(case: &str, unit: &'static str, ours: f64, peer: (&str, f64)) -> Row {
        Row { sense: Sense::AtLeast, ..Row::smaller(case, unit, ours, peer) }
    }

    /// Two single figures, of which the smaller is better.
    pub fn smaller(case: &str, unit: &'static str, ours: f64, peer: (&str, f64)) -> Row {
        Row {
            case: case.to_string(),
            unit,
            ours,
            peer: Some((peer.0.to_string(), peer.1)),
            range: None,
            must: None,
            sense: Sense::AtMost,
            latency: None,
            peer_latency: None,
        }
    }

    /// Sets the target.
    #[must_use]
    pub fn must(mut self, must: f64) -> Row {
        self.must = Some(must);
        self
    }

    /// Our figure divided by the peer's.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|(_, peer)| self.ours / peer)
    }

    /// Returns whether the target was reached. `None` without a target.
    pub fn reached(&self) -> Option<bool> {
        let must = self.must?;
        let ratio = self.ratio()?;
        Some(match self.sense {
            Sense::AtLeast => ratio >= must,
            Sense::AtMost => ratio <= must,
        })
    }
}

/// All rows of a run.
pub struct Report {
    bench: &'static str,
    started: Instant,
    rows: Vec<Row>,
}

impl Report {
    /// An empty report of a benchmark.
    pub fn new(bench: &'static str) -> Report {
        Report { bench, started: Instant::now(), rows: Vec::new() }
    }

    /// Adds a row and prints it to stderr, because a full run takes minutes.
    pub fn add(&mut self, row: Row) {
        let peer = row.peer.as_ref().map_or("nothing", |(name, _)| name.as_str());
        let ratio = row.ratio().map_or_else(String::new, |ratio| format!(" {ratio:.2}"));
        let seconds = self.started.elapsed().as_secs_f64();
        eprintln!("{seconds:6.1} s  {} / {peer}:{ratio}", row.case);
        self.rows.push(row);
    }

    /// Compares our side (the first) with every other side. The target applies to the first peer.
    pub fn compare(&mut self, case: &str, sides: &[Measured], must: Option<f64>) {
        let [ours, peers @ ..] = sides else { return };
        for (index, peer) in peers.iter().enumerate() {
            let must = must.filter(|_| index == 0);
            if let Some(row) = Row::rates(case, ours, peer, must) {
                self.add(row);
            }
        }
    }

    /// Prints the table and the number of reached targets.
    pub fn print(&self) {
        let mut lines = vec![HEAD.map(String::from)];
        lines.extend(self.rows.iter().map(cells));
        print!("{}", aligned(&lines));
        let missed = self.rows.iter().filter(|row| row.reached() == Some(false)).count();
        let bars = self.rows.iter().filter(|row| row.reached().is_some()).count();
        println!("\n{} of {bars} bars reached", bars - missed);
    }

    /// Writes the rows as JSON.
    pub fn write_json(&self, path: &Path) -> Outcome<()> {
        std::fs::write(path, json::array(self.bench, &self.rows))
            .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
    }
}

const HEAD: [&str; 11] = [
    "case",
    "unit",
    "ours",
    "peer",
    "peer's",
    "ratio",
    "range",
    "must",
    "reached",
    "p50/p99/p999",
    "peer's p50/p99/p999",
];

fn cells(row: &Row) -> [String; 11] {
    let reached = row.reached().map_or("", |yes| if yes { "reached" } else { "NOT REACHED" });
    [
        row.case.clone(),
        row.unit.to_string(),
        figure(row.ours),
        row.peer.as_ref().map_or_else(String::new, |(name, _)| name.clone()),
        row.peer.as_ref().map_or_else(String::new, |(_, peer)| figure(*peer)),
        row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        row.range.map_or_else(String::new, |(low, high)| format!("{low:.2}..{high:.2}")),
        row.must.map_or_else(String::new, |must| format!("{} {must}", row.sense.sign())),
        reached.to_string(),
        row.latency.map_or_else(String::new, latencies),
        row.peer_latency.map_or_else(String::new, latencies),
    ]
}

/// Three significant digits, or more before the decimal point.
fn figure(value: f64) -> String {
    let size = value.abs();
    let digits = [100.0, 10.0, 1.0].iter().filter(|bound| size < **bound).count();
    format!("{value:.digits$}")
}

fn latencies(nanos: [u64; 3]) -> String {
    nanos.map(time).join(" ")
}

fn time(nanos: u64) -> String {
    match nanos as f64 {
        n if n < 1e3 => format!("{n}ns"),
        n if n < 1e6 => format!("{}us", figure(n / 1e3)),
        n if n < 1e9 => format!("{}ms", figure(n / 1e6)),
        n => format!("{}s", figure(n / 1e9)),
    }
}

/// Pads columns to their widest cell. Numbers are right-aligned, words left-aligned.
fn aligned(lines: &[[String; 11]]) -> String {
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in lines {
        let padded: Vec<String> =
            (0..HEAD.len()).map(|column| pad(column, &line[column], widths[column])).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn pad(column: usize, cell: &str, width: usize) -> String {
    let is_figure = matches!(HEAD[column], "ours" | "peer's" | "ratio" | "range" | "must");
    if is_figure { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_server::histogram::Histogram;

    fn measured(name: &str, rates: &[f64]) -> Measured {
        let latency = Histogram::new();
        latency.record(1_500);
        Measured { name: name.to_string(), rates: rates.to_vec(), latency }
    }

    #[test]
    fn a_bar_is_reached_in_its_own_sense() {
        let ours = measured("ours", &[90.0]);
        let peer = measured("log", &[100.0]);
        let rate = Row::rates("set", &ours, &peer, Some(0.8)).unwrap();
        assert_eq!((rate.ratio(), rate.reached()), (Some(0.9), Some(true)));
        assert_eq!(Row { must: Some(0.95), ..rate.clone() }.reached(), Some(false));
        assert_eq!(Row { must: None, ..rate }.reached(), None);
        let time = Row::smaller("open", "s", 2.0, ("bar", 1.5));
        assert_eq!(time.clone().must(1.0).reached(), Some(false));
        assert_eq!(time.must(1.5).reached(), Some(true));
    }

    #[test]
    fn a_figure_with_nothing_beside_it_has_neither_ratio_nor_bar() {
        let row = Row::alone("set", &measured("ours", &[3.0, 1.0, 2.0]));
        assert_eq!((row.ours, row.ratio(), row.reached()), (2.0, None, None));
        let row = Row::larger("last", "op/s", 8.0, ("first", 10.0)).must(0.7);
        assert_eq!((row.ratio(), row.reached()), (Some(0.8), Some(true)));
        assert_eq!(row.must(0.9).reached(), Some(false));
    }

    #[test]
    fn only_the_first_peer_has_the_bar() {
        let mut report = Report::new("engine");
        let sides = [measured("ours", &[1.0]), measured("a", &[2.0]), measured("b", &[4.0])];
        report.compare("set", &sides, Some(0.8));
        let shown: Vec<_> = report.rows.iter().map(|row| (row.ratio(), row.must)).collect();
        assert_eq!(shown, [(Some(0.5), Some(0.8)), (Some(0.25), None)]);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = ["a", "a long case"].map(|case| Row::smaller(case, "s", 2.0, ("bar", 1.5)));
        let text = aligned(&[cells(&rows[0]), cells(&rows[1])]);
        let columns: Vec<_> = text.lines().map(|line| line.find("bar")).collect();
        assert!(columns[0].is_some() && columns[0] == columns[1], "{text}");
        assert_eq!([figure(12345.6), figure(12.345), figure(0.1234)], ["12346", "12.3", "0.123"]);
        assert_eq!([time(900), time(1_500), time(2_000_000)], ["900ns", "1.50us", "2.00ms"]);
    }
}
