//! Command-line arguments: all nouns of the program.

use super::backup::{Backup, Restore};
use super::bench::Bench;
use super::branch::BranchVerb;
use super::cell::CellVerb;
use super::checkpoint::CheckpointVerb;
use super::command_builder::CommandBuilder;
use super::config::ConfigVerb;
use super::doctor::Doctor;
use super::feed::Feed;
use super::job::JobVerb;
use super::lock::LockVerb;
use super::outbox::OutboxVerb;
use super::output::Output;
use super::record::RecordVerb;
use super::run::RunVerb;
use super::session::SessionVerb;
use super::state::StateVerb;
use super::tag::TagVerb;
use super::time;
use super::tour::TourArgs;
use super::transfer::{Export, Import};
use super::txn::Txn;
use super::user::UserVerb;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 what was asked for is not there (or there already), or a condition did not
hold; 2 an error, said on the standard error.

With no command at all: serve. Results are tables on a terminal and JSON in a pipe; -o chooses.
Colours go away with NO_COLOR=1 and when the output is not a terminal.";

/// Mainstay, the state engine: cells, records, jobs, runs, keyed state, sessions, branches, time travel.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub store: StoreArgs,
    /// How results are written [default: table on a terminal, json elsewhere]
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub output: Option<Output>,
    #[command(subcommand)]
    pub noun: Option<Noun>,
}

/// Which store is meant.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// The directory of a database, opened by this process
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "server")]
    pub data: Option<PathBuf>,
    /// The RESP address of a server [default: 127.0.0.1:7379]
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub server: Option<String>,
    /// The user to be on a server; its password is in MAINSTAY_PASSWORD or in a file, or is asked for
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "data")]
    pub user: Option<String>,
    /// A file whose first line is the password
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "data")]
    pub password_file: Option<PathBuf>,
    /// How long to wait for each answer of a server
    #[arg(long, global = true, default_value = "30s", value_parser = time::span_ms)]
    pub timeout: u64,
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// How a server is talked to over TLS. Each of these turns it on.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// Talk to the server over TLS
    #[arg(long, global = true)]
    pub tls: bool,
    /// The authorities that may vouch for the server, in PEM [default: those of this machine]
    #[arg(long, global = true, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// A certificate to show to the server, in PEM; with --key
    #[arg(long, global = true, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM; with --cert
    #[arg(long, global = true, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Do not check who the server is
    #[arg(long, global = true, conflicts_with = "cacert")]
    pub insecure: bool,
}

impl TlsArgs {
    /// True if any option asks for TLS.
    pub fn is_enabled(&self) -> bool {
        let files = [&self.cacert, &self.cert, &self.key];
        self.tls || self.insecure || files.iter().any(|file| file.is_some())
    }
}

/// Everything the program can do.
#[derive(Debug, Subcommand)]
pub enum Noun {
    /// Serve a database to others, over RESP and HTTP
    Serve(ServeArgs),
    #[command(flatten)]
    Data(DataNoun),
    /// Make a directory that holds what a backup and its increments hold
    Restore(Restore),
    /// Look at the files of a database and change nothing; or salvage a damaged one
    Doctor(Doctor),
    /// Check or show the settings of a server
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Walk through everything on a small store of its own
    Tour(TourArgs),
    /// Type commands and see their results
    Repl,
    /// What the settings of a user need
    #[command(subcommand)]
    User(UserVerb),
    /// Write the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Show the version
    Version,
}

/// The nouns on data, which the repl knows, too.
#[derive(Debug, Subcommand)]
pub enum DataNoun {
    /// Named values that count their writes
    #[command(subcommand)]
    Cell(CellVerb),
    /// Fields under a key, with conditions and times to live
    #[command(subcommand)]
    Record(RecordVerb),
    /// Work that is claimed by one worker at a time
    #[command(subcommand)]
    Job(JobVerb),
    /// One holder at a time, for a while
    #[command(subcommand)]
    Lock(LockVerb),
    /// Logs of events, what they add up to, and those who follow them
    #[command(subcommand)]
    Run(RunVerb),
    /// Messages that are written with a transaction, for those who send them
    #[command(subcommand)]
    Outbox(OutboxVerb),
    /// States by key and version, each applied once, with logs and positions
    #[command(subcommand)]
    State(StateVerb),
    /// Requests that are done once, and what is sent to those who make them
    #[command(subcommand)]
    Session(SessionVerb),
    /// State and positions of jobs at one moment, in files
    #[command(subcommand)]
    Checkpoint(CheckpointVerb),
    /// Forks of everything, compared and merged
    #[command(subcommand)]
    Branch(BranchVerb),
    /// Revisions pinned by name
    #[command(subcommand)]
    Tag(TagVerb),
    /// Committed changes, in order
    Feed(Feed),
    /// Run the commands of a file or of the standard input as one transaction
    Txn(Txn),
    /// Write a branch to a file
    Export(Export),
    /// Make a branch out of a file that `export` wrote
    Import(Import),
    /// Write everything, or what came since, to one file; or check such files
    Backup(Backup),
    /// Put load on the store and show how fast it answers
    Bench(Bench),
}

/// What a server is started with. What is not given is in the environment or the configuration file, or
/// has its default: `./mainstay-data`, `127.0.0.1:7379`, `127.0.0.1:7380`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct ServeArgs {
    /// The directory of the database: `--data`, which all nouns share.
    #[arg(skip)]
    pub data: Option<PathBuf>,
    /// Where to speak RESP [default: 127.0.0.1:7379]
    #[arg(long, value_name = "HOST:PORT")]
    pub resp: Option<String>,
    /// Where to speak HTTP [default: 127.0.0.1:7380]
    #[arg(long, value_name = "HOST:PORT")]
    pub http: Option<String>,
    /// The certificate of the server, in PEM: both faces speak TLS
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// The authorities of clients, in PEM: every client has to show a certificate
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// The configuration file [default: MAINSTAY_CONFIG, else ./mainstay.toml if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Any setting, such as resp.connections=500; `mainstay config print` shows them all
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
}

/// The branch that a verb works on.
#[derive(Clone, Debug, Args)]
pub struct OnBranch {
    /// The branch [default: main]
    #[arg(short, long, value_name = "NAME")]
    pub branch: Option<String>,
}

/// The point in time that a verb reads.
#[derive(Clone, Debug, Args)]
pub struct AsOf {
    /// As of this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "at")]
    pub rev: Option<u64>,
    /// As of this time: microseconds, 2026-11-15T12:00:00Z, or "10m ago"
    #[arg(long, value_name = "TIME", value_parser = time::stamp_us)]
    pub at: Option<u64>,
}

impl AsOf {
    /// Adds the options `REV` and `AT` to a command.
    pub fn add_to(&self, call: CommandBuilder) -> CommandBuilder {
        call.option("REV", self.rev).option("AT", self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_contradict_nowhere() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn no_noun_at_all_is_allowed_and_shared_options_stand_anywhere() {
        assert!(Arguments::try_parse_from(["mainstay"]).unwrap().noun.is_none());
        for words in [["--data", "d", "tag", "list"], ["tag", "list", "--data", "d"]] {
            let words = std::iter::once("mainstay").chain(words);
            assert_eq!(Arguments::try_parse_from(words).unwrap().store.data, Some("d".into()));
        }
    }
}
