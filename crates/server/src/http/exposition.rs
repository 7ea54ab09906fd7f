//! Prometheus metrics that are collected at the time of the scrape.

use mainstay::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;
use std::fmt;

/// The encoder takes exemplars; these metrics have none.
const NONE: Option<&Exemplar<NoLabelSet, f64>> = None;

/// The value of a metric.
#[derive(Clone, Debug)]
pub(crate) enum Sample {
    /// A gauge.
    Level(Amount),
    /// A counter.
    Count(Amount),
    /// A histogram. Its bounds and sum are divided by this number to get the unit.
    Sizes(Histogram, f64),
}

/// A metric family: one name with its samples.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    samples: Vec<(Vec<(&'static str, String)>, Sample)>,
}

impl Figure {
    fn new(name: &'static str, help: &'static str, kind: MetricType) -> Figure {
        Figure { name, help, unit: None, kind, samples: Vec::new() }
    }

    /// A gauge: its value goes up and down.
    pub fn gauge(name: &'static str, help: &'static str) -> Figure {
        Figure::new(name, help, MetricType::Gauge)
    }

    /// A counter: its value only goes up; its name ends in `_total`.
    pub fn counter(name: &'static str, help: &'static str) -> Figure {
        Figure::new(name, help, MetricType::Counter)
    }

    pub fn histogram(name: &'static str, help: &'static str) -> Figure {
        Figure::new(name, help, MetricType::Histogram)
    }

    /// Sets the unit to seconds, which becomes the suffix of the name.
    pub fn seconds(mut self) -> Figure {
        self.unit = Some(Unit::Seconds);
        self
    }

    /// Sets the unit to bytes, which becomes the suffix of the name.
    pub fn bytes(mut self) -> Figure {
        self.unit = Some(Unit::Bytes);
        self
    }

    /// Adds the only sample, without a label.
    pub fn is(self, value: impl Into<Amount>) -> Figure {
        self.with(Vec::new(), value)
    }

    /// Adds a sample with a label.
    pub fn of(self, label: &'static str, name: &str, value: impl Into<Amount>) -> Figure {
        self.with(vec![(label, name.to_owned())], value)
    }

    /// Adds a histogram. Its bounds and sum are divided by `divisor` to get the unit.
    pub fn sizes(mut self, histogram: Histogram, divisor: f64) -> Figure {
        self.samples.push((Vec::new(), Sample::Sizes(histogram, divisor)));
        self
    }

    /// Adds a histogram with a label.
    pub fn sizes_of(
        mut self,
        label: &'static str,
        name: &str,
        histogram: Histogram,
        divisor: f64,
    ) -> Figure {
        let labels = vec![(label, name.to_owned())];
        self.samples.push((labels, Sample::Sizes(histogram, divisor)));
        self
    }

    fn with(mut self, labels: Vec<(&'static str, String)>, value: impl Into<Amount>) -> Figure {
        let sample = match self.kind {
            MetricType::Counter => Sample::Count(value.into()),
            _ => Sample::Level(value.into()),
        };
        self.samples.push((labels, sample));
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = self.unit.as_ref();
        let mut metric = encoder.encode_descriptor(self.name, self.help, unit, self.kind)?;
        for (labels, sample) in &self.samples {
            if labels.is_empty() {
                sample.encode(&mut metric)?
            } else {
                sample.encode(&mut metric.encode_family(labels)?)?
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Sample::Level(Amount::Whole(value)) => {
                metric.encode_gauge(&i64::try_from(*value).unwrap_or(i64::MAX))
            }
            Sample::Level(Amount::Part(value)) => metric.encode_gauge(value),
            Sample::Count(Amount::Whole(value)) => metric.encode_counter(value, NONE),
            Sample::Count(Amount::Part(value)) => metric.encode_counter(value, NONE),
            Sample::Sizes(histogram, divisor) => {
                let sum = histogram.sum as f64 / divisor;
                let count = histogram.count();
                let bounds = histogram.bounds.iter().map(|bound| *bound as f64 / divisor);
                let bounds = bounds.chain([f64::MAX]);
                let buckets: Vec<_> = bounds.zip(histogram.counts.iter().copied()).collect();
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            }
        }
    }
}

/// A number; a whole one is written without a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    Whole(u64),
    Part(f64),
}

impl From<f64> for Amount {
    fn from(amount: f64) -> Amount {
        Amount::Part(amount)
    }
}

impl From<u64> for Amount {
    fn from(amount: u64) -> Amount {
        Amount::Whole(amount)
    }
}

impl From<usize> for Amount {
    fn from(amount: usize) -> Amount {
        Amount::Whole(amount as u64)
    }
}

impl From<bool> for Amount {
    fn from(amount: bool) -> Amount {
        Amount::Whole(amount.into())
    }
}

/// The metrics of one scrape.
#[derive(Debug)]
pub(crate) struct Page(pub Vec<Figure>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|figure| figure.encode(&mut encoder))
    }
}
