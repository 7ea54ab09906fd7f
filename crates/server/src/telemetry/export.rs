//! Span export: spans are sampled, put into a bounded queue, and sent by a background thread.
//!
//! A slow or missing collector costs only spans: if the queue is full, spans are dropped, and one line of
//! the log says so.

use super::invalid;
use crate::config::settings::settings;
use mainstay::Result;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData,
    SpanExporter as Exporter,
};

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most spans in the queue. Further ones are dropped.
const QUEUE_LIMIT: usize = 2048;
/// The most spans in one request.
const BATCH_LIMIT: usize = 512;
/// The path at which a collector receives spans.
const PATH: &str = "/v1/traces";

settings! {
    /// Spans, for whoever collects them by OpenTelemetry.
    pub struct Export {
        /// Where spans are sent to, such as "http://127.0.0.1:4318"; "none": they are not made.
        pub otlp_endpoint: Option<String> = None;
        /// What this server is called there.
        pub service_name: String = "mainstay".to_owned();
        /// The part of traces that is sent, from 0 to 1. A request that is part of a sampled trace is always.
        pub sample_ratio: f64 = 0.01;
        /// Headers of each request, as ["authorization: Bearer …"].
        pub headers: Vec<String> = Vec::new();
        /// How long sending may take.
        pub timeout_ms: u64 = 5_000, 1..=600_000;
        /// How long spans are gathered before they are sent.
        pub interval_ms: u64 = 2_000, 1..=86_400_000;
    }
}

impl Export {
    /// Creates the provider that makes and sends spans, if an endpoint is set.
    pub(super) fn provider(&self) -> Result<Option<SdkTracerProvider>> {
        let Some(endpoint) = self.otlp_endpoint.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_LIMIT)
            .with_max_export_batch_size(BATCH_LIMIT)
            .with_scheduled_delay(Duration::from_millis(self.interval_ms.max(1)))
            .build();
        let told = Told { inner: self.exporter(endpoint)?, failing: AtomicBool::new(false) };
        let processor = BatchSpanProcessor::builder(told).with_batch_config(config).build();
        let resource = Resource::builder_empty().with_service_name(self.service_name.clone());
        let sampler = Sampler::TraceIdRatioBased(self.sample_ratio.clamp(0.0, 1.0));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(resource.build())
            .build();
        Ok(Some(provider))
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            return Err(invalid("telemetry.sample_ratio lies between 0 and 1".to_owned()));
        }
        self.header_pairs().map(|_| ())
    }

    /// Returns header names and values. Errors show neither, because they may be secrets.
    fn header_pairs(&self) -> Result<HashMap<String, String>> {
        let pair = |(number, line): (usize, &String)| match line.split_once(':') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(invalid(format!("telemetry.headers: number {number} is no `name: value`"))),
        };
        self.headers.iter().enumerate().map(pair).collect()
    }

    fn exporter(&self, endpoint: &str) -> Result<SpanExporter> {
        if !endpoint.starts_with("http://") {
            return Err(invalid(format!(
                "telemetry.otlp_endpoint is `{endpoint}`: give http://HOST:PORT of a collector nearby; that \
                 one can go on over TLS"
            )));
        }
        let headers = self.header_pairs()?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}{PATH}", endpoint.trim_end_matches('/')))
            .with_timeout(Duration::from_millis(self.timeout_ms.max(1)))
            .with_headers(headers)
            .build();
        exporter.map_err(|error| {
            invalid(format!("telemetry.otlp_endpoint `{endpoint}` cannot be used: {error}"))
        })
    }
}

/// An exporter that logs when it starts to fail and when it works again.
#[derive(Debug)]
struct Told {
    inner: SpanExporter,
    failing: AtomicBool,
}

impl Exporter for Told {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.inner.export(batch).await;
        let failed_before = self.failing.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Err(error) if !failed_before => {
                tracing::warn!(%error, "spans are not taken, and dropped: is the collector there?");
            }
            Ok(()) if failed_before => tracing::info!("spans are taken again"),
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_endpoint_nothing_is_made() {
        assert!(Export::default().provider().unwrap().is_none());
        let empty = Export { otlp_endpoint: Some(String::new()), ..Export::default() };
        assert!(empty.provider().unwrap().is_none());
    }

    #[test]
    fn an_endpoint_that_cannot_be_used_is_refused_by_name() {
        let export = Export { otlp_endpoint: Some("https://far".to_owned()), ..Export::default() };
        let error = export.provider().unwrap_err();
        assert!(error.message().contains("https://far"), "{error}");
    }

    #[test]
    fn a_table_is_read() {
        let text = "otlp_endpoint = 'http://a:1'\nsample_ratio = 0.5\nheaders = ['token: t']";
        let export: Export = toml::from_str(text).unwrap();
        assert_eq!(export.header_pairs().unwrap()["token"], "t");
        assert!(Export { headers: vec!["t".into()], ..Export::default() }.check().is_err());
        assert_eq!((export.sample_ratio, export.service_name.as_str()), (0.5, "mainstay"));
    }
}
