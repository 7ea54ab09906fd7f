//! A server in a child process, with its log and spans configured by the test. A child process is necessary
//! because a process has only one log.

use crate::support::Client;
use mainstay_server::telemetry::{Export, Log};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use tempfile::TempDir;

pub struct Server {
    pub resp: SocketAddr,
    pub http: SocketAddr,
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<ChildStderr>,
    _directory: TempDir,
}

/// The output of a server that has ended.
pub struct Said {
    pub stdout: String,
    pub stderr: String,
}

impl Server {
    pub fn start(log: &Log, export: &Export) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let mut child = command(directory.path(), log, export).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = child.stderr.take();
        let port = after(&mut stdout, "redis-cli -p ");
        let resp = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
        let http = after(&mut stdout, "curl http://").split('/').next().unwrap().parse().unwrap();
        Server { resp, http, child, stdout, stderr, _directory: directory }
    }

    pub fn client(&self) -> Client {
        Client::to(self.resp)
    }

    pub fn get(&self, path: &str) -> String {
        let mut answer = ureq::get(format!("http://{}{path}", self.http)).call().unwrap();
        answer.body_mut().read_to_string().unwrap()
    }

    /// Sends SIGTERM, and waits until the server has ended.
    pub fn end(mut self) -> Said {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut stdout = String::new();
        let mut stderr = String::new();
        self.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        self.stdout.read_to_string(&mut stdout).unwrap();
        assert!(self.child.wait().unwrap().success(), "{stdout}{stderr}");
        Said { stdout, stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    /// Parses the lines of the log as JSON.
    pub fn objects(&self) -> Vec<Value> {
        objects(&self.stderr)
    }
}

/// Parses lines as JSON.
pub fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

fn command(directory: &Path, log: &Log, export: &Export) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
    command.args(["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"]);
    command.arg(directory.join("data")).args(["--set", "resp.slow_log_us=1"]);
    command.args(flags("log", log)).args(flags("telemetry", export));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Converts settings to flags.
fn flags(table: &str, settings: &impl Serialize) -> Vec<String> {
    let settings = serde_json::to_value(settings).unwrap();
    let flag = |(name, value): (&String, &Value)| {
        let value = if value.is_null() { "none".to_owned() } else { value.to_string() };
        ["--set".to_owned(), format!("{table}.{name}={value}")]
    };
    settings.as_object().unwrap().iter().flat_map(flag).collect()
}

/// Returns the text behind `what` in the output, up to the next space.
fn after(output: &mut impl BufRead, what: &str) -> String {
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        if let Some((_, rest)) = line.split_once(what) {
            return rest.split(' ').next().unwrap().to_owned();
        }
        line.clear();
    }
    panic!("the server ended before it could be talked to");
}
