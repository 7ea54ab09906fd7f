//! Tracing spans: the durations of requests, batches and long work.
//!
//! Spans are created only while an endpoint is set. Otherwise a request for a span only tests a flag.

use axum::http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanKind, Tracer, TracerProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};
use tracing::{Span, Subscriber, debug_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

/// The tracing target of all spans, so that the log level does not affect them.
pub const TARGET: &str = "mainstay_spans";

/// The tracer for spans that are created after the fact.
static AFTERWARDS: OnceLock<SdkTracer> = OnceLock::new();

/// Creates the subscriber layer that makes spans.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let tracer = provider.tracer("mainstay");
    // Only the first provider of a program counts, as for its log.
    let _ = AFTERWARDS.set(tracer.clone());
    let wanted = Targets::new().with_target(TARGET, LevelFilter::DEBUG);
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(wanted)
}

/// Returns the span of a batch of transactions.
pub fn batch(transactions: usize) -> Span {
    debug_span!(target: TARGET, "resp.batch", transactions)
}

/// Returns the span of a command's long work.
pub fn work(command: &'static str) -> Span {
    debug_span!(target: TARGET, "resp.work", command)
}

/// Returns the span of an HTTP request, as part of the trace named in its headers.
pub fn request(method: &'static str, route: &str, headers: &HeaderMap) -> Span {
    let span = debug_span!(
        target: TARGET, "http.request", otel.kind = "server", otel.name = format!("{method} {route}"),
        http.request.method = method, http.route = route, http.response.status_code = tracing::field::Empty
    );
    if !span.is_disabled() {
        let parent = TraceContextPropagator::new().extract(&Headers(headers));
        // This fails only if no layer takes spans. The span then needs no parent.
        let _ = span.set_parent(parent);
    }
    span
}

/// Records the status of an HTTP response.
pub fn answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
}

/// Creates the span of a slow command after its end.
pub fn slow(command: &'static str, ended_us: u64, took_us: u64) {
    let Some(tracer) = AFTERWARDS.get() else { return };
    let time = |us: u64| UNIX_EPOCH + Duration::from_micros(us);
    let builder = tracer.span_builder(format!("resp.slow {command}"));
    let begun =
        builder.with_kind(SpanKind::Server).with_start_time(time(ended_us - took_us.min(ended_us)));
    begun.start(tracer).end_with_timestamp(time(ended_us));
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
