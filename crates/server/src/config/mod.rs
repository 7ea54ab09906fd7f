//! Configuration: flags over environment over file over defaults, every limit in one place.
//!
//! ```text
//!   mainstay.toml --walk--+
//!   MAINSTAY_…    --------+--> leaves: table, field, value, origin --settle--> Config
//!   flags         --------+        |                                  \
//!                                  +--> problems, all of them          +--> print: value and origin
//! ```
//!
//! Every part of the server has a struct of settings, made by the macro `settings!`; [`Config`] holds
//! them, and the list in `tables` names them for whoever reads or prints a file.

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

/// The variable that names the file.
const FILE_VARIABLE: &str = "MAINSTAY_CONFIG";
/// The file in the working directory, where nobody names another.
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
    /// What is served.
    pub server: Server,
    /// The face for Redis clients.
    pub resp: resp::Settings,
    /// The face for HTTP.
    pub http: http::Settings,
    /// The memory for unfinished requests and unread answers.
    pub memory: memory::Settings,
    /// The database.
    pub database: database::Settings,
    /// Jobs and locks.
    pub jobs: jobs::Settings,
    /// The outbox.
    pub outbox: outbox::Settings,
    /// The archive of runs.
    pub archive: archive::Settings,
    /// Who may do what.
    pub security: security::Settings,
    /// How connections are encrypted.
    pub tls: tls::Settings,
    /// The server's own log.
    pub log: telemetry::Log,
    /// Spans, for whoever collects them.
    pub telemetry: telemetry::Export,
}

impl Config {
    /// What can be wrong with a setting beyond its type and its bounds.
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

    /// What can be wrong with all settings together.
    fn check_together(&self) -> Result<()> {
        self.check()?;
        self.memory.check()?;
        self.archive.check_together()?;
        self.tls.check()?;
        crate::serve::check(self)
    }

    /// The settings of the face for Redis clients, which tells them how durable writes are and fails their messages.
    pub fn resp_settings(&self) -> resp::Settings {
        let (durability, outbox) = (self.database.durability, self.outbox.clone());
        resp::Settings { durability, outbox, ..self.resp.clone() }
    }

    /// The settings of the face for HTTP, which claims and fails messages for those who do not say how.
    pub fn http_settings(&self) -> http::Settings {
        http::Settings { outbox: self.outbox.clone(), ..self.http.clone() }
    }
}

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that a flag names.
    pub file: Option<PathBuf>,
    /// Variables of the environment, with their values.
    pub environment: Vec<(String, String)>,
    /// Settings given as flags: the flag, the key, the value.
    pub flags: Vec<(String, String, String)>,
    /// Where `mainstay.toml` is looked for.
    pub directory: PathBuf,
}

impl Sources {
    /// The environment and the working directory of this process.
    pub fn here() -> Sources {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        Sources {
            environment: std::env::vars_os().filter_map(text).collect(),
            ..Sources::default()
        }
    }

    /// The file that is read, if there is one: whoever names one means it.
    pub fn file(&self) -> Option<PathBuf> {
        let named = self.environment.iter().find(|(name, _)| name == FILE_VARIABLE);
        let named = named.map(|(_, path)| path).filter(|path| !path.is_empty()).map(PathBuf::from);
        let nearby = || Some(self.directory.join(FILE)).filter(|path| path.exists());
        self.file.clone().or(named).or_else(nearby)
    }

    /// Reads them all; what is wrong is said of all that is wrong.
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

/// The settings in the text of a file, for fuzzers: addresses are numbers, so that nobody is asked for a name.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_text(text: &str) -> std::result::Result<Loaded, Vec<Problem>> {
    let mut problems = Vec::new();
    let layer = layers::file_text(Path::new(FILE), text, &mut problems);
    settle_numbers(layer, problems)
}

/// The setting in a variable of the environment, for fuzzers.
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

/// The defaults alone.
pub fn defaults() -> Loaded {
    Loaded::default()
}

/// A path as people write it: that of a file beside them without the `./`.
fn shown(path: &Path) -> String {
    path.strip_prefix("./").unwrap_or(path).display().to_string()
}
