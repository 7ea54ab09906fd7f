//! The arguments: all nouns of the program.

use super::backup::{Backup, Restore};
use super::branch::BranchVerb;
use super::cell::CellVerb;
use super::doctor::Doctor;
use super::feed::Feed;
use super::output::Format;
use super::tag::TagVerb;
use super::time;
use super::tour::TourArgs;
use super::transfer::{Export, Import};
use super::txn::Txn;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 what was asked for is not there (or there already), or a condition did not
hold; 2 an error, said on the standard error.

With no command at all: serve. Results are tables on a terminal and JSON in a pipe; -o chooses.
Colours go away with NO_COLOR=1 and when the output is not a terminal.";

/// Mainstay, the state engine: cells, branches, time travel.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub place: Place,
    /// How results are written [default: table on a terminal, json elsewhere]
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub output: Option<Format>,
    #[command(subcommand)]
    pub noun: Option<Noun>,
}

/// Which store is meant.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// The directory of a database, opened by this process
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "server")]
    pub data: Option<PathBuf>,
    /// The RESP address of a server [default: 127.0.0.1:7379]
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub server: Option<String>,
    /// How long to wait for each answer of a server
    #[arg(long, global = true, default_value = "30s", value_parser = time::span_ms)]
    pub timeout: u64,
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
    /// Walk through everything on a small store of its own
    Tour(TourArgs),
    /// Type commands and see their results
    Repl,
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
}

/// What a server is started with. What is not given is in the configuration file, or has its default:
/// `./mainstay-data`, `127.0.0.1:7379`, `127.0.0.1:7380`.
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
    /// The configuration file; what is given here goes before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
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
pub struct Moment {
    /// As of this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "at")]
    pub rev: Option<u64>,
    /// As of this time: microseconds, 2026-11-15T12:00:00Z, or "10m ago"
    #[arg(long, value_name = "TIME", value_parser = time::stamp_us)]
    pub at: Option<u64>,
}

impl Moment {
    /// Adds the point in time to a command.
    pub fn on(&self, call: super::call::Call) -> super::call::Call {
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
            assert_eq!(Arguments::try_parse_from(words).unwrap().place.data, Some("d".into()));
        }
    }
}
