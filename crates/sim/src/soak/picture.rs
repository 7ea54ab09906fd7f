//! Draws a soak as SVG: six figures over one time axis, with the compared quarters.
//!
//! ```text
//!   title
//!   memory        │ ──────────────────────────  104 → 106 MiB
//!   descriptors   │ ──────────────────────────
//!   disk          │ ╱╲╱╲╱╲╱╲╱╲╱╲╱╲╱╲╱╲╱╲╱╲╱╲╱╲
//!   latency       │ ──── p99 ──── p50 ────────
//!   throughput    │ ──────────────────────────
//!   others        │ ╱╲_____________________╱╲_
//!                 └ 0 ── 2 min ── 4 min ──────
//! ```

use super::verdict::{last, median, mib, second};
use super::{Report, Sample};
use std::fmt::Write;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 90.0;
/// The height of a panel, and the gap to the next one.
const PANEL: f64 = 92.0;
const GAP: f64 = 38.0;
const BOTTOM: f64 = 46.0;

const STYLE: &str = "\
  svg { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
  .paper { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e }
  .title { font-size: 17px; font-weight: 600 } .name { font-weight: 600 }
  .grid { stroke: #d8dee4; stroke-width: 1 } .band { fill: #0969da; opacity: 0.07 }
  .curve { fill: none; stroke-width: 1.4; stroke-linejoin: round }
  .median { stroke-width: 4; opacity: 0.35; stroke-linecap: round }
  .one { stroke: #0969da } .two { stroke: #9a6700 } .goal { stroke: #1a7f37; stroke-dasharray: 5 4 }
  .one-ink { fill: #0969da } .two-ink { fill: #9a6700 } .goal-ink { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .ink { fill: #e6edf3 } .soft { fill: #9198a1 }
    .grid { stroke: #30363d } .band { fill: #4493f8; opacity: 0.11 }
    .one { stroke: #4493f8 } .two { stroke: #d29922 } .goal { stroke: #3fb950 }
    .one-ink { fill: #4493f8 } .two-ink { fill: #d29922 } .goal-ink { fill: #3fb950 }
  }
";

/// A curve of a panel.
struct Curve {
    name: &'static str,
    colour: &'static str,
    of: fn(&Sample) -> f64,
}

/// A figure over time.
struct Panel {
    name: &'static str,
    unit: &'static str,
    curves: Vec<Curve>,
    /// A reference line for the curves.
    goal: Option<f64>,
    /// Whether the scale is logarithmic.
    logarithmic: bool,
}

impl Panel {
    fn of(name: &'static str, unit: &'static str, of: fn(&Sample) -> f64) -> Panel {
        let curves = vec![Curve { name: "", colour: "one", of }];
        Panel { name, unit, curves, goal: None, logarithmic: false }
    }
}

fn panels(target: f64) -> Vec<Panel> {
    let p99 = Curve { name: "p99", colour: "one", of: |it| it.latencies.p99_us as f64 / 1000.0 };
    let p50 = Curve { name: "p50", colour: "two", of: |it| it.latencies.p50_us as f64 / 1000.0 };
    let latency = Panel {
        name: "Latency, from the intended start",
        unit: "ms",
        curves: vec![p99, p50],
        goal: None,
        logarithmic: true,
    };
    let done = Panel::of("Operations", "per second", |it| it.latencies.count as f64);
    vec![
        Panel::of("Memory, resident", "MiB", |it| mib(it.memory_bytes)),
        Panel::of("Open file descriptors", "", |it| it.descriptors as f64),
        Panel::of("Disk, all files", "MiB", |it| mib(it.disk_bytes)),
        latency,
        Panel { goal: Some(target), ..done },
        Panel::of("Other programs on the machine", "% of its processors", |it| {
            it.others_percent as f64
        }),
    ]
}

/// Draws a report as SVG.
pub fn draw(report: &Report) -> String {
    let panels = panels(report.target as f64);
    let height = TOP + panels.len() as f64 * (PANEL + GAP) - GAP + BOTTOM;
    let mut svg = Svg { text: String::new(), samples: &report.samples };
    svg.line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{}\">",
        title(report)
    ));
    svg.line(format_args!("<style>\n{STYLE}</style>"));
    svg.line(format_args!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>"));
    svg.label((24.0, 32.0), "ink title", "start", &title(report));
    svg.label((24.0, 52.0), "soft", "start", &subtitle(report));
    for (place, panel) in panels.iter().enumerate() {
        svg.panel(panel, TOP + place as f64 * (PANEL + GAP));
    }
    svg.time(height - BOTTOM);
    svg.text.push_str("</svg>\n");
    svg.text
}

fn title(report: &Report) -> String {
    let minutes = report.samples.len() as f64 / 60.0;
    let target = short(report.target as f64);
    format!("Soak: {minutes:.1} minutes at {target} operations a second")
}

fn subtitle(report: &Report) -> String {
    let (made, merged) = report.branches;
    format!(
        "80 % of a peak of {}; {} branches made and deleted, {} of them merged. Shaded: the quarters that are compared.",
        short(report.peak as f64),
        short(made as f64),
        short(merged as f64),
    )
}

/// Maps values to positions in a panel.
struct Scale {
    top: f64,
    most: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(panel: &Panel, samples: &[Sample], top: f64) -> Scale {
        let values = panel.curves.iter().flat_map(|curve| samples.iter().map(curve.of));
        let most = values.chain(panel.goal).fold(1.0, f64::max);
        let most = if panel.logarithmic { power(most) } else { round_up(most * 1.05) };
        Scale { top, most, logarithmic: panel.logarithmic }
    }

    /// A logarithmic scale begins at 0.1.
    fn y(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(0.1) * 10.0).log10() / (self.most * 10.0).log10()
        } else {
            value / self.most
        };
        self.top + PANEL * (1.0 - share)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            return vec![0.0, self.most / 2.0, self.most];
        }
        let powers = std::iter::successors(Some(0.1), |tick| Some(tick * 10.0));
        powers.take_while(|tick| *tick <= self.most * 1.01).collect()
    }
}

/// Returns the smallest power of ten that is not below the value.
fn power(value: f64) -> f64 {
    10_f64.powf(value.log10().ceil())
}

/// Returns the next number of the form 1, 1.2, 1.6, 2, 3, 4, 5, 6 or 8 times a power of ten, so that
/// its half is short, too.
fn round_up(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * unit).find(|top| *top >= value).unwrap_or(value)
}

/// Formats a number in a short form.
fn short(value: f64) -> String {
    match value {
        value if value >= 1000.0 => {
            let whole = value.round() as u64;
            format!("{},{:03}", whole / 1000, whole % 1000)
        }
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

struct Svg<'a> {
    text: String,
    samples: &'a [Sample],
}

impl Svg<'_> {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a `String` never fails.
        let _ = writeln!(self.text, "{line}");
    }

    fn label(&mut self, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Returns the position of a second.
    fn x(&self, second: f64) -> f64 {
        let seconds = self.samples.len().max(1) as f64;
        LEFT + (WIDTH - LEFT - RIGHT) * second / seconds
    }

    fn panel(&mut self, panel: &Panel, top: f64) {
        let scale = Scale::of(panel, self.samples, top);
        let unit = if panel.unit.is_empty() { String::new() } else { format!(", {}", panel.unit) };
        self.bands(top);
        self.grid(&scale);
        self.label((LEFT, top - 9.0), "ink name", "start", &format!("{}{unit}", panel.name));
        if let Some(goal) = panel.goal {
            self.level(scale.y(goal), (0.0, self.samples.len() as f64), "goal");
            let text = format!("asked for: {}", short(goal));
            self.label((WIDTH - RIGHT + 10.0, top + 54.0), "goal-ink", "start", &text);
        }
        for (place, curve) in panel.curves.iter().enumerate() {
            self.curve(curve, &scale);
            self.medians(curve, &scale, top + 14.0 + 40.0 * place as f64);
        }
    }

    /// Draws the compared quarters as bands.
    fn bands(&mut self, top: f64) {
        for share in [0.25, 0.75] {
            let seconds = self.samples.len() as f64;
            let from = self.x(share * seconds);
            let to = self.x((share + 0.25) * seconds);
            let width = to - from;
            self.line(format_args!(
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{PANEL}\"/>"
            ));
        }
    }

    fn grid(&mut self, scale: &Scale) {
        for tick in scale.ticks() {
            let y = scale.y(tick);
            self.level(y, (0.0, self.samples.len() as f64), "grid");
            self.label((LEFT - 8.0, y + 4.0), "soft", "end", &short(tick));
        }
    }

    /// Draws a horizontal line from one second to another.
    fn level(&mut self, y: f64, (from, to): (f64, f64), class: &str) {
        let from = self.x(from);
        let to = self.x(to);
        self.line(format_args!(
            "<line class=\"{class}\" x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\"/>"
        ));
    }

    fn curve(&mut self, curve: &Curve, scale: &Scale) {
        let mut points = String::new();
        for sample in self.samples {
            let x = self.x(sample.second as f64);
            let y = scale.y((curve.of)(sample));
            // Writing to a `String` never fails.
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let class = curve.colour;
        let points = points.trim_end();
        self.line(format_args!("<polyline class=\"curve {class}\" points=\"{points}\"/>"));
    }

    /// Draws the medians of both quarters as lines, and prints them beside the panel.
    fn medians(&mut self, curve: &Curve, scale: &Scale, y: f64) {
        let medians = [second(self.samples), last(self.samples)].map(|part| median(part, curve.of));
        let seconds = self.samples.len() as f64;
        for (share, value) in [0.25, 0.75].into_iter().zip(medians) {
            let range = (share * seconds, (share + 0.25) * seconds);
            self.level(scale.y(value), range, &format!("median {}", curve.colour));
        }
        let [before, after] = medians.map(short);
        let x = WIDTH - RIGHT + 10.0;
        let name = if curve.name.is_empty() { "medians" } else { curve.name };
        self.label((x, y), "soft", "start", name);
        let class = format!("{}-ink name", curve.colour);
        self.label((x, y + 17.0), &class, "start", &format!("{before} → {after}"));
    }

    /// Draws the time axis below all panels.
    fn time(&mut self, y: f64) {
        let seconds = self.samples.len() as u64;
        let step = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600].into_iter();
        let step = step.clone().find(|step| seconds / step <= 10).unwrap_or(7200);
        for second in (0..=seconds).step_by(step as usize) {
            let text = match step {
                step if step < 60 => format!("{second} s"),
                _ => format!("{} min", second / 60),
            };
            self.label((self.x(second as f64), y + 20.0), "soft", "middle", &text);
        }
        self.label((self.x(seconds as f64 / 2.0), y + 38.0), "soft", "middle", "time under load");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::Latencies;

    fn report(seconds: u64) -> Report {
        let sample = |second| Sample {
            second,
            memory_bytes: (100 + second % 7) << 20,
            descriptors: 40 + second % 5,
            disk_bytes: (60 + second % 60) << 20,
            latencies: Latencies { count: 3990, p50_us: 900, p99_us: 12_000, max_us: 90_000 },
            backlog: 0,
            others_percent: second % 3,
        };
        let samples = (1..=seconds).map(sample).collect();
        Report { peak: 5000, target: 4000, samples, ..Report::default() }
    }

    /// Checks that every element is closed in order, and that attribute quotes match.
    fn assert_well_formed(svg: &str) {
        let mut open: Vec<&str> = Vec::new();
        for part in svg.split('<').skip(1) {
            let (tag, text) = part.split_once('>').unwrap();
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            assert!(!text.contains('&'), "{text}");
            let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, true) => {}
                (false, false) => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn it_is_well_formed_however_long_the_soak_was() {
        for seconds in [0, 1, 2, 5, 600, 7200] {
            assert_well_formed(&draw(&report(seconds)));
        }
    }

    #[test]
    fn every_curve_has_a_point_for_each_second() {
        let svg = draw(&report(600));
        let curves: Vec<&str> =
            svg.split("points=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(curves.len(), 7);
        assert!(curves.iter().all(|points| points.split(' ').count() == 600));
        assert!(svg.contains("10 min") && svg.contains("4,000"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.1, 9.96, 104.6, 3987.0, 12_004.0].map(short),
            ["0", "0.1", "10.0", "105", "3,987", "12,004"]
        );
        assert_eq!([9.0, 105.0, 1234.0].map(round_up), [10.0, 120.0, 1600.0]);
    }
}
