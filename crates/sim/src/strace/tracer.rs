//! Runs a child under strace, and collects its output and its trace.

use super::call::Call;
use super::case::Case;
use super::child::Orders;
use super::trace::{self, Event};
use crate::drill::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Calls that are not traced do not stop the child. They cannot be injected either.
const FLAGS: [&str; 8] = ["-f", "-qq", "-y", "-s", "0", "--seccomp-bpf", "-e", "signal=none"];

/// Checks that strace exists and may trace. The error gives the reason if not.
pub fn permitted() -> Outcome<()> {
    let tried = Command::new("strace").args(FLAGS).args(["-o", "/dev/null", "true"]).output();
    let tried = tried.map_err(|error| format!("there is no strace: {error}"))?;
    if tried.status.success() {
        Ok(())
    } else {
        Err(format!(
            "strace may not trace here, ptrace has to be permitted: {}",
            String::from_utf8_lossy(&tried.stderr).trim()
        ))
    }
}

/// Starts children under strace.
pub struct Tracer {
    /// The program, which runs as the child when it is called with `traced`.
    pub program: PathBuf,
    /// The database's directory.
    pub directory: PathBuf,
    /// The file of the trace, outside of that directory.
    pub trace: PathBuf,
    /// The fault that is injected into the children's database.
    pub bug: Option<String>,
}

/// The result of a child.
pub struct Life {
    /// The lines of the drill.
    pub said: String,
    /// Whether the child started; otherwise a call failed before that.
    pub begun: bool,
    /// The error of opening, if opening failed.
    pub refused: Option<String>,
    /// Whether writes were refused until the next opening.
    pub latched: bool,
    /// Its file operations.
    pub events: Vec<Event>,
}

impl Tracer {
    /// Runs a child on the directory, with or without a failure.
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
        // Reported violations are handled by the parser of the lines.
        let alarmed = told("X ").is_some();
        if life.begun && !ended && !alarmed {
            let also = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the process ended: {}: {}", output.status, also.trim()));
        }
        Ok(life)
    }

    /// Returns the injected calls.
    pub fn hits(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.injected)
    }
}

/// Returns whether a call concerns the database or a directory above it, because those are synced, too.
pub fn is_ours(event: &Event, directory: &Path) -> bool {
    let above = event.path.has_root() && directory.starts_with(&event.path);
    above || event.path.starts_with(directory)
}
