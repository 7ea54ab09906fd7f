//! Configuration: flags override the environment, which overrides the file, which overrides the defaults.
//!
//! ```text
//!   mainstay.toml --walk--+
//!   MAINSTAY_…    --------+--> leaves: table, field, value, origin --settle--> Config
//!   flags         --------+        |                                  \
//!                                  +--> problems, all of them          +--> print: value and origin
//! ```
//!
//! Each part of the server has a struct of settings, made by the macro `settings!`. [`Config`] contains
//! them all. The list in `tables` names them for code that reads or prints a file.

mod address;
pub mod database;
mod durability;
mod layers;
mod origin;
mod print;
pub(crate) mod settings;
mod settle;
mod tables;
pub mod units;

pub use address::Address;
pub use origin::{Origin, Problem};
pub use settings::Field;
pub use settle::Loaded;

use crate::{archive, http, jobs, memory, outbox, resp, security, telemetry, tls};
use mainstay::Result;
use serde::{Deserialize, Serialize};
use settings::settings;
use std::path::{Path, PathBuf};

/// The environment variable with the path of the file.
const FILE_VARIABLE: &str = "MAINSTAY_CONFIG";
/// The default file, in the working directory.
const FILE: &str = "mainstay.toml";

settings! {
    /// What is served.
    pub struct Server {
        /// The directory of the database.
        pub data: PathBuf = PathBuf::from("mainstay-data");
    }
}

/// All settings of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The data directory.
    pub server: Server,
    /// The RESP front end.
    pub resp: resp::Settings,
    /// The HTTP front end.
    pub http: http::Settings,
    /// The memory budget for unfinished requests and unread replies.
    pub memory: memory::Settings,
    /// The database.
    pub database: database::Settings,
    /// Jobs and locks.
    pub jobs: jobs::Settings,
    /// The outbox.
    pub outbox: outbox::Settings,
    /// The archive of runs.
    pub archive: archive::Settings,
    /// Users and permissions.
    pub security: security::Settings,
    /// TLS.
    pub tls: tls::Settings,
    /// The server's own log.
    pub log: telemetry::Log,
    /// Span export.
    pub telemetry: telemetry::Export,
}

impl Config {
    /// Checks what types and bounds of single settings cannot express.
    fn check(&self) -> Result<()> {
        self.http.check()?;
        self.database.options().check()?;
        self.jobs.check()?;
        self.outbox.check()?;
        self.archive.check()?;
        self.security.check()?;
        self.log.check()?;
        self.telemetry.check()
    }

    /// Checks all settings together.
    fn check_together(&self) -> Result<()> {
        self.check()?;
        self.memory.check()?;
        self.archive.check_together()?;
        self.tls.check()?;
        crate::serve::check(self)
    }

    /// Returns the settings of the RESP front end, which also needs the durability of writes and the
    /// settings for failed messages.
    pub fn resp_settings(&self) -> resp::Settings {
        let durability = self.database.durability;
        let outbox = self.outbox.clone();
        resp::Settings { durability, outbox, ..self.resp.clone() }
    }

    /// Returns the settings of the HTTP front end, which also needs the defaults for claiming and failing
    /// messages.
    pub fn http_settings(&self) -> http::Settings {
        http::Settings { outbox: self.outbox.clone(), ..self.http.clone() }
    }
}

/// The sources of settings.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file named by a flag.
    pub file: Option<PathBuf>,
    /// Environment variables and their values.
    pub environment: Vec<(String, String)>,
    /// Settings given as flags: the flag, the key, the value.
    pub flags: Vec<(String, String, String)>,
    /// The directory in which `mainstay.toml` is expected.
    pub directory: PathBuf,
}

impl Sources {
    /// Returns the environment and the working directory of this process.
    pub fn here() -> Sources {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        Sources {
            environment: std::env::vars_os().filter_map(text).collect(),
            ..Sources::default()
        }
    }

    /// Returns the file to read, if any. A file named by a flag or a variable is returned even if it does
    /// not exist.
    pub fn file(&self) -> Option<PathBuf> {
        let named = self.environment.iter().find(|(name, _)| name == FILE_VARIABLE);
        let named = named.map(|(_, path)| path).filter(|path| !path.is_empty()).map(PathBuf::from);
        self.file
            .clone()
            .or(named)
            .or_else(|| Some(self.directory.join(FILE)).filter(|path| path.exists()))
    }

    /// Loads all sources. Returns all problems, not only the first.
    pub fn load(&self) -> std::result::Result<Loaded, Vec<Problem>> {
        let mut problems = Vec::new();
        let file = self.file();
        let layers = [
            file.as_deref().map(|path| layers::file(path, &mut problems)).unwrap_or_default(),
            layers::environment(&self.environment, &mut problems),
            layers::flags(&self.flags, &mut problems),
        ];
        settle::settle(layers, file, problems)
    }
}

/// Loads the settings in the text of a file, for fuzzers. Addresses that are not numeric are removed, so
/// that no name is resolved.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_text(text: &str) -> std::result::Result<Loaded, Vec<Problem>> {
    let mut problems = Vec::new();
    let layer = layers::file_text(Path::new(FILE), text, &mut problems);
    settle_numbers(layer, problems)
}

/// Loads the setting in an environment variable, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_variable(name: &str, value: &str) -> std::result::Result<Loaded, Vec<Problem>> {
    let mut problems = Vec::new();
    let layer = layers::environment(&[(name.to_owned(), value.to_owned())], &mut problems);
    settle_numbers(layer, problems)
}

#[cfg(any(test, fuzzing))]
fn settle_numbers(
    mut layer: layers::Layer,
    problems: Vec<Problem>,
) -> std::result::Result<Loaded, Vec<Problem>> {
    let is_number = |value: &serde_json::Value| {
        value.as_str().is_some_and(|text| text.parse::<std::net::SocketAddr>().is_ok())
    };
    layer.leaves.retain(|leaf| leaf.field.name != "address" || is_number(&leaf.value));
    settle::settle([layer], None, problems)
}

/// Returns the default settings.
pub fn defaults() -> Loaded {
    Loaded::default()
}

/// Formats a path as users write it, without a leading `./`.
fn shown(path: &Path) -> String {
    path.strip_prefix("./").unwrap_or(path).display().to_string()
}
