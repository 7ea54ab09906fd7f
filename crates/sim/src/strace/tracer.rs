//! The tracer: a child under strace, what it said and what it did.

use super::call::Call;
use super::case::Case;
use super::child::Orders;
use super::trace::{self, Event};
use crate::drill::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Other calls than those that are traced do not stop. What is not traced is not injected either.
const FLAGS: [&str; 8] = ["-f", "-qq", "-y", "-s", "0", "--seccomp-bpf", "-e", "signal=none"];

/// Whether strace is here and may trace; the sentence says why not.
pub fn permitted() -> Outcome<()> {
    let tried = Command::new("strace").args(FLAGS).args(["-o", "/dev/null", "true"]).output();
    let tried = tried.map_err(|error| format!("there is no strace: {error}"))?;
    match tried.status.success() {
        true => Ok(()),
        false => Err(format!(
            "strace may not trace here, ptrace has to be permitted: {}",
            String::from_utf8_lossy(&tried.stderr).trim()
        )),
    }
}

/// Starts children.
pub struct Tracer {
    /// The program that is the child when it is called with `traced`.
    pub program: PathBuf,
    /// The database's directory.
    pub directory: PathBuf,
    /// Where the trace is written, outside of it.
    pub trace: PathBuf,
    /// The bug that children have on purpose.
    pub bug: Option<String>,
}

/// What came of a child.
pub struct Life {
    /// Lines of the drill.
    pub said: String,
    /// It came to life; else a call failed before it did anything.
    pub begun: bool,
    /// Opening failed.
    pub refused: Option<String>,
    /// Writing was refused until the next opening.
    pub latched: bool,
    /// What it did to files.
    pub events: Vec<Event>,
}

impl Tracer {
    /// Lets a child live on the directory, with a failure or without.
    pub fn live(&self, case: Option<Case>, orders: Orders) -> Outcome<Life> {
        let mut command = self.command(case, orders);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot start strace: {error}"))?;
        let text = fs::read(&self.trace).map_err(|error| format!("no trace: {error}"))?;
        let events = trace::read(&String::from_utf8_lossy(&text));
        Life::read(&output, events)
    }

    fn command(&self, case: Option<Case>, orders: Orders) -> Command {
        let names: Vec<_> = Call::ALL.iter().map(|call| call.name()).collect();
        let mut command = Command::new("strace");
        command.args(FLAGS);
        command.arg("-e").arg(format!("trace={}", names.join(",")));
        if let Some(case) = case {
            command.arg("-e").arg(case.expression());
        }
        command.arg("-o").arg(&self.trace).arg(&self.program).arg("traced").arg(&self.directory);
        command.args(["--seed", &orders.seed.to_string()]);
        command.args(["--generation", &orders.generation.to_string()]);
        let flags =
            [(orders.faulty, "--faulty"), (orders.blind, "--blind"), (orders.resumes, "--resumes")];
        command.args(flags.iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag));
        command.args(self.bug.iter().flat_map(|bug| ["--bug", bug]));
        command
    }
}

impl Life {
    fn read(output: &Output, events: Vec<Event>) -> Outcome<Life> {
        let text = String::from_utf8_lossy(&output.stdout);
        let told = |what: &str| text.lines().find_map(|line| line.strip_prefix(what));
        let said: String =
            text.split_inclusive('\n').filter(|line| !line.starts_with("= ")).collect();
        let life = Life {
            begun: told("= begun").is_some(),
            refused: told("= refused ").map(str::to_owned),
            latched: told("= latched").is_some(),
            said,
            events,
        };
        let ended = told("= ended").is_some() && output.status.success();
        // What was alarmed of is found where the lines are read.
        let alarmed = told("X ").is_some();
        if life.begun && !ended && !alarmed {
            let also = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the process ended: {}: {}", output.status, also.trim()));
        }
        Ok(life)
    }

    /// The calls that strace let fail.
    pub fn hits(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.injected)
    }
}

/// Whether a call is one on the database, or on the way to it: names above it are synced, too.
pub fn is_ours(event: &Event, directory: &Path) -> bool {
    let above = event.path.has_root() && directory.starts_with(&event.path);
    above || event.path.starts_with(directory)
}
