//! Prometheus metrics. Requests are counted here by route; all other metrics are collected at each scrape.
//!
//! ```text
//!   requests --count--> registry --------------\
//!   Stats, pins, RESP's totals, seats, process --+--> one page of text
//! ```

use super::exposition::{Figure, Page};
use super::refusal::{Answered, Refusal};
use super::{Http, figures};
use crate::telemetry::spans;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mainstay::{Clock, SystemClock};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tracing::Instrument;

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

/// The registry and the metrics that are updated by requests.
pub(crate) struct Metrics {
    registry: Registry,
    clock: SystemClock,
    requests: Family<AnswerLabels, Counter>,
    latency: Family<RouteLabels, Histogram>,
    /// Open connections.
    pub connections: Gauge,
    /// Connections that were answered 503 because the connection limit was reached.
    pub refused: Counter,
    /// Clients that tail a run.
    pub tails: Gauge,
    start_us: u64,
}

impl Metrics {
    pub fn new() -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix("mainstay"),
            clock: SystemClock::new(),
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(BOUNDS_SECONDS)),
            connections: Gauge::default(),
            refused: Counter::default(),
            tails: Gauge::default(),
            start_us: SystemClock::new().wall_us(),
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
        registry.register("http_run_tails", "Readers that follow a run", self.tails.clone());
        self
    }
}

impl Metrics {
    /// Renders all metrics as OpenMetrics text.
    fn page(&self, ours: Vec<Figure>) -> Result<String, std::fmt::Error> {
        let mut database = Registry::with_prefix("mainstay");
        database.register_collector(Box::new(Page(ours)));
        let mut process = Registry::default();
        process.register_collector(Box::new(Page(figures::process(self.start_us))));
        let mut page = String::new();
        for registry in [&self.registry, &database, &process] {
            text::encode_registry(&mut page, registry)?;
        }
        text::encode_eof(&mut page)?;
        Ok(page)
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Middleware that counts each request and measures the time until the response begins.
pub(crate) async fn count(State(app): State<Http>, request: Request, next: Next) -> Response {
    let metrics = app.metrics();
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    // Unmatched paths share one label, because clients could otherwise create any number of label values.
    let route = route.unwrap_or("none").to_owned();
    let method = method_name(request.method());
    let began_us = metrics.clock.monotonic_us();
    let span = spans::request(method, &route, request.headers());
    let response = next.run(request).instrument(span.clone()).await;
    spans::answered(&span, response.status().as_u16());
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
        Method::PATCH => "PATCH",
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
    // A closed database has no index metrics; `/readyz` reports that it is closed.
    let look = move || (db.stats(), db.pin_summaries(), db.records().indexes().unwrap_or_default());
    let (stats, pins, indexes) = app.look(move || Ok(look())).await?;
    let mut ours = figures::database(&stats);
    ours.extend(figures::writes(&stats));
    ours.extend(figures::index(&stats));
    ours.extend(figures::records(&stats, &indexes));
    ours.extend(figures::runs(&stats));
    ours.extend(figures::outbox(&stats));
    ours.extend(figures::keyed(&stats));
    ours.extend(figures::sessions(&stats));
    ours.extend(figures::crew(app.crew()));
    ours.extend(figures::pins(&pins));
    ours.extend(figures::http(&app));
    ours.extend(figures::memory(app.memory()));
    ours.extend(figures::security(app.security()));
    ours.extend(figures::resp(app.resp()));
    ours.extend(figures::jobs(app.jobs()));
    let page = app.metrics().page(ours).map_err(|_| Refusal::lost())?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))], page).into_response())
}
