//! Telemetry of the server: its log, and spans for OpenTelemetry.
//!
//! ```text
//!   tracing events --level--> text or JSON --> stderr or a file
//!   tracing spans  --sampled--> a bounded queue --thread--> OTLP over HTTP
//! ```
//!
//! Neither contains values or secrets. Spans cost nothing while no endpoint is set.

mod export;
mod log;
pub mod spans;
mod watch;

pub use export::Export;
pub use log::{Format, Log, Output};
pub use watch::Watch;

use mainstay::{Code, Error, Result};
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt;

/// The longest time that unsent spans may delay the end of the program.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);

/// The program's log and spans, as long as it lives.
#[must_use = "spans that wait are sent when it ends"]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Installs the subscriber. This has an effect only once per program; an existing subscriber stays.
    pub fn start(log: &Log, export: &Export) -> Result<Telemetry> {
        let (provider, spans) = match export.provider()? {
            Some(provider) => {
                let spans = spans::layer(&provider);
                (Some(provider), Some(spans))
            }
            None => (None, None),
        };
        let subscriber = tracing_subscriber::registry().with(log.layer()?).with(spans);
        // Tests and programs that embed the server may have a log of their own.
        let _ = tracing::subscriber::set_global_default(subscriber);
        Ok(Telemetry { provider })
    }

    /// Sends the queued spans, within a time limit.
    pub fn finish(self) {
        if let Some(provider) = self.provider
            && let Err(error) = provider.shutdown_with_timeout(FLUSH_LIMIT)
        {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(Code::InvalidOption, message)
}
