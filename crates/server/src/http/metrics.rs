//! Metrics: requests by route, and the figures of the database, as Prometheus reads them.

use super::Http;
use super::refusal::{Answered, Refusal};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mainstay::{Clock, Stats, SystemClock};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

type Float = Gauge<f64, AtomicU64>;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The bounds of the latency histogram, in seconds.
const BOUNDS_SECONDS: [f64; 12] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    method: &'static str,
    route: String,
    status: u16,
}

/// Everything that is counted.
pub(crate) struct Metrics {
    registry: Registry,
    clock: SystemClock,
    requests: Family<AnswerLabels, Counter>,
    latency: Family<RouteLabels, Histogram>,
    /// Connections that are open.
    pub connections: Gauge,
    /// Connections that were answered 503 because there were too many.
    pub refused: Counter,
    readers: Gauge,
    figures: Figures,
}

/// The figures of the database, set whenever they are asked for.
#[derive(Default)]
struct Figures {
    revision: Gauge,
    durable: Gauge,
    flushed: Gauge,
    floor: Gauge,
    log_first: Gauge,
    log: Gauge,
    index: Gauge,
    index_pinned: Gauge,
    index_entries: Gauge,
    cache: Gauge,
    buffer: Gauge,
    longest_stall: Float,
    clock_jump: Float,
    read_only: Gauge,
}

impl Metrics {
    pub fn new() -> Metrics {
        let latency = || Histogram::new(BOUNDS_SECONDS);
        let metrics = Metrics {
            registry: Registry::with_prefix("mainstay"),
            clock: SystemClock::new(),
            requests: Family::default(),
            latency: Family::new_with_constructor(latency),
            connections: Gauge::default(),
            refused: Counter::default(),
            readers: Gauge::default(),
            figures: Figures::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let registry = &mut self.registry;
        registry.register("http_requests", "Requests that were answered", self.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time from the headers of a request to those of its answer",
            Unit::Seconds,
            self.latency.clone(),
        );
        registry.register("http_connections", "Open connections", self.connections.clone());
        let refused = "Connections that were one too many";
        registry.register("http_connections_refused", refused, self.refused.clone());
        registry.register("feed_readers", "Readers of the feed", self.readers.clone());
        self.figures.register(registry);
        self
    }
}

impl Figures {
    fn register(&self, registry: &mut Registry) {
        let plain = [
            ("revision", "The newest visible revision", &self.revision),
            ("durable_revision", "The newest revision on stable storage", &self.durable),
            ("flushed_revision", "The index holds everything up to here", &self.flushed),
            ("floor_revision", "The first revision that can be read", &self.floor),
            ("log_first_revision", "The first revision in the log", &self.log_first),
            ("index_entries", "Versions in the stores", &self.index_entries),
            ("read_only", "1 when a failed sync keeps the database read-only", &self.read_only),
        ];
        for (name, help, gauge) in plain {
            registry.register(name, help, gauge.clone());
        }
        let bytes = [
            ("log", "The log's files", &self.log),
            ("index", "The stores' tables", &self.index),
            ("index_pinned", "Memory for the stores' filters and indexes", &self.index_pinned),
            ("cache", "Current values held in memory", &self.cache),
            ("buffer", "Versions that the stores do not hold yet", &self.buffer),
        ];
        for (name, help, gauge) in bytes {
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        }
        let stall = "The longest time that a writer waited for room";
        let jump = "By how much the wall clock is ahead and not believed";
        registry.register_with_unit(
            "longest_stall",
            stall,
            Unit::Seconds,
            self.longest_stall.clone(),
        );
        registry.register_with_unit("clock_jump", jump, Unit::Seconds, self.clock_jump.clone());
    }

    fn set(&self, stats: &Stats) {
        let whole = [
            (&self.revision, stats.revision),
            (&self.durable, stats.durable),
            (&self.flushed, stats.flushed),
            (&self.floor, stats.floor),
            (&self.log_first, stats.log_first),
            (&self.log, stats.log_bytes),
            (&self.index, stats.index_bytes),
            (&self.index_pinned, stats.index_pinned_bytes),
            (&self.index_entries, stats.index_entries),
            (&self.cache, stats.cache_bytes),
            (&self.buffer, stats.buffer_bytes),
            (&self.read_only, u64::from(stats.read_only)),
        ];
        for (gauge, figure) in whole {
            gauge.set(i64::try_from(figure).unwrap_or(i64::MAX));
        }
        self.longest_stall.set(seconds(stats.longest_stall_us));
        self.clock_jump.set(seconds(stats.clock_jump_us.unwrap_or(0)));
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Counts a request and how long its answer took to begin.
pub(crate) async fn count(State(app): State<Http>, request: Request, next: Next) -> Response {
    let metrics = app.metrics();
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    // What matches no route has one name: clients must not make up new ones.
    let (route, method) = (route.unwrap_or("none").to_owned(), method_name(request.method()));
    let began_us = metrics.clock.monotonic_us();
    let response = next.run(request).await;
    let took_us = metrics.clock.monotonic_us().saturating_sub(began_us);
    let labels = RouteLabels { method, route: route.clone() };
    metrics.latency.get_or_create(&labels).observe(seconds(took_us));
    let labels = AnswerLabels { method, route, status: response.status().as_u16() };
    metrics.requests.get_or_create(&labels).inc();
    response
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Figures about requests and the database, as Prometheus reads them.
#[utoipa::path(
    get, path = "/metrics", tag = "operation", operation_id = "metrics",
    responses((status = 200, description = "Names `mainstay_*`, in seconds and bytes", content_type = "application/openmetrics-text", body = String))
)]
pub(crate) async fn show(State(app): State<Http>) -> Answered<Response> {
    let db = app.db().clone();
    let stats = app.look(move || Ok(db.stats())).await?;
    let metrics = app.metrics();
    metrics.figures.set(&stats);
    let free = app.feed_readers().available_permits();
    let readers = app.settings().feed_readers.saturating_sub(free);
    metrics.readers.set(i64::try_from(readers).unwrap_or(i64::MAX));
    let mut page = String::new();
    text::encode(&mut page, &metrics.registry).map_err(|_| Refusal::lost())?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))], page).into_response())
}
