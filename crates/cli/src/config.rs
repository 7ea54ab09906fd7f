//! `mainstay config`: prints and checks the server's effective configuration.

use super::args::ServeArgs;
use super::console::print_line;
use super::failure::{Failure, Result};
use super::output::Output;
use clap::Subcommand;
use mainstay_server::config::{self, Loaded, Sources};
use std::path::PathBuf;

/// What can be done with a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Say whether the settings are in order, or all that is wrong with them
    Check {
        /// The file [default: as `serve` finds it]
        file: Option<PathBuf>,
    },
    /// Show the settings as a file with comments, each with where it came from
    Print {
        /// The defaults alone, whatever is given
        #[arg(long)]
        defaults: bool,
        #[command(flatten)]
        given: ServeArgs,
    },
}

impl ConfigVerb {
    /// Runs the verb; `data` is the option `--data`, which all nouns share.
    pub fn run(self, data: Option<PathBuf>, output: Option<Output>) -> Result<()> {
        match self {
            ConfigVerb::Check { file } => {
                check(ServeArgs { data, config: file, ..ServeArgs::default() })
            }
            ConfigVerb::Print { defaults: true, .. } => print(&config::defaults(), output),
            ConfigVerb::Print { given, .. } => print(&load(ServeArgs { data, ..given })?, output),
        }
    }
}

fn check(given: ServeArgs) -> Result<()> {
    let loaded = load(given)?;
    let what = match &loaded.file {
        Some(file) => format!("{} is in order", file.display()),
        None => "there is no file; all is in order".to_owned(),
    };
    let given = loaded.given();
    print_line(&format!("{what}; settings given: {given}"));
    Ok(())
}

fn print(loaded: &Loaded, output: Option<Output>) -> Result<()> {
    let text = match output {
        None | Some(Output::Toml) => loaded.to_toml(),
        Some(Output::Json) => loaded.to_json().to_string(),
        Some(_) => return Err(Failure::error("settings are printed with -o toml or -o json")),
    };
    print_line(text.trim_end());
    Ok(())
}

/// Loads the server's configuration. All its errors are joined into one failure.
pub fn load(given: ServeArgs) -> Result<Loaded> {
    sources(given)?.load().map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::error(lines.join("\nmainstay: "))
    })
}

fn sources(given: ServeArgs) -> Result<Sources> {
    let ServeArgs { data, resp, http, tls_cert, tls_key, tls_client_ca, config, set } = given;
    let path = |path: Option<PathBuf>| path.map(|path| path.to_string_lossy().into_owned());
    let flags_by_name = [
        ("--data", "server.data", path(data)),
        ("--resp", "resp.address", resp),
        ("--http", "http.address", http),
        ("--tls-cert", "tls.certificate", path(tls_cert)),
        ("--tls-key", "tls.key", path(tls_key)),
        ("--tls-client-ca", "tls.client_ca", path(tls_client_ca)),
    ];
    let mut flags = Vec::new();
    for (flag, key, value) in flags_by_name {
        flags.extend(value.map(|value| (flag.to_owned(), key.to_owned(), value)));
    }
    for pair in set {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::error(format!("--set wants TABLE.KEY=VALUE, not `{pair}`")))?;
        let key = key.trim();
        let value = value.trim();
        flags.push((format!("--set {key}"), key.to_owned(), value.to_owned()));
    }
    Ok(Sources { file: config, flags, ..Sources::here() })
}
