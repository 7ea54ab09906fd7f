//! The program's log: level filter, format and output.

use super::{invalid, spans};
use crate::config::settings::settings;
use mainstay::Result;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing::Subscriber;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

settings! {
    /// The server's own log.
    pub struct Log {
        /// "error", "warn", "info", "debug", "trace" or "off"; other levels for parts behind commas, such
        /// as "info,mainstay_server::resp=debug".
        pub level: String = "info".to_owned();
        /// How a line looks: "text" for people, "json" for programs.
        pub format: Format = Format::Text;
        /// Where lines go: "stderr", or the path of a file that they are appended to.
        pub output: Output = Output::Stderr;
    }
}

impl Log {
    /// Checks that the level is valid.
    pub fn check(&self) -> Result<()> {
        self.filter().map(|_| ())
    }
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    Text,
    /// A JSON object per line.
    Json,
}

/// The destination of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Output {
    /// Standard error.
    Stderr,
    /// A file, which is appended to.
    File(PathBuf),
}

impl From<String> for Output {
    fn from(text: String) -> Output {
        match text.as_str() {
            "stderr" => Output::Stderr,
            _ => Output::File(text.into()),
        }
    }
}

impl From<Output> for String {
    fn from(output: Output) -> String {
        match output {
            Output::Stderr => "stderr".to_owned(),
            Output::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

impl Log {
    /// Creates the subscriber layer that writes lines.
    pub(super) fn layer<S>(&self) -> Result<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(self.writer()?);
        let filter = self.filter()?;
        Ok(match self.format {
            Format::Text => lines.with_filter(filter).boxed(),
            Format::Json => {
                let lines = lines.json().flatten_event(true);
                lines.with_current_span(false).with_span_list(false).with_filter(filter).boxed()
            }
        })
    }

    fn filter(&self) -> Result<EnvFilter> {
        let filter = EnvFilter::try_new(&self.level).map_err(|error| {
            invalid(format!(
                "the log's level `{}` is not understood ({error}): give error, warn, info, debug, trace \
                 or off, and for parts of the program `info,mainstay_server::resp=debug`",
                self.level
            ))
        })?;
        // Spans are only for the exporter, so no line shows them at any level.
        let no_spans = format!("{}=off", spans::TARGET).parse();
        Ok(no_spans.map_or(EnvFilter::new(&self.level), |none| filter.add_directive(none)))
    }

    fn writer(&self) -> Result<BoxMakeWriter> {
        Ok(match &self.output {
            Output::Stderr => BoxMakeWriter::new(std::io::stderr),
            Output::File(path) => BoxMakeWriter::new(Mutex::new(append_to(path)?)),
        })
    }
}

fn append_to(path: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(path);
    file.map_err(|error| {
        let path = path.display();
        invalid(format!("the log cannot be written to {path}: {error}: choose another output"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_and_what_is_not_known_is_refused() {
        let log: Log = toml::from_str("level = 'warn'\nformat = 'json'\noutput = 'x.log'").unwrap();
        let output = Output::File("x.log".into());
        assert_eq!(log, Log { level: "warn".to_owned(), format: Format::Json, output });
        assert_eq!(toml::from_str::<Log>("").unwrap(), Log::default());
        assert!(toml::from_str::<Log>("levl = 'warn'").is_err());
        assert_eq!(toml::from_str::<Log>("output = 'stderr'").unwrap().output, Output::Stderr);
        let written = toml::to_string(&log).unwrap();
        assert_eq!(toml::from_str::<Log>(&written).unwrap(), log);
    }

    #[test]
    fn a_level_that_is_none_is_refused_by_name() {
        let log = Log { level: "mainstay=loud".to_owned(), ..Log::default() };
        let error = log.filter().unwrap_err();
        assert!(error.message().contains("mainstay=loud"), "{error}");
    }
}
