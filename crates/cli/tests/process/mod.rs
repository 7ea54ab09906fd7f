//! The real program in a child process, which can be killed and whose memory can be measured.
#![allow(dead_code, reason = "each test file uses its own part")]

use crate::support::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Poll interval and number of polls for the end of a process.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: usize = 3_000;

pub struct Process {
    pub address: SocketAddr,
    child: Child,
    /// Held open, so that the server can continue to print.
    _output: BufReader<ChildStdout>,
}

impl Process {
    /// Serves a directory, on a port that the system chooses.
    pub fn serve(data: &Path) -> Process {
        Process::serve_with(data, &[], Stdio::inherit())
    }

    /// Serves a directory with more arguments. Its stderr goes to `complaints`.
    pub fn serve_with(data: &Path, more: &[&OsStr], complaints: Stdio) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        command.arg("serve").args(more).stderr(complaints);
        Process::start(command, data)
    }

    /// Serves a directory with a limit of open files.
    pub fn serve_with_files(data: &Path, count: u32) -> Process {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {count}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_mainstay"), "serve"]);
        Process::start(shell, data)
    }

    fn start(mut command: Command, data: &Path) -> Process {
        let mut child = command
            .args(["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(data)
            // A test machine with little disk space is no failure.
            .env("MAINSTAY_HTTP__SCRATCH_RESERVE_BYTES", "0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let port = port_in(&mut output);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Process { address, child, _output: output }
    }

    pub fn client(&self) -> Client {
        Client::to(self.address)
    }

    /// Returns its resident memory.
    pub fn memory_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
    }

    /// Waits for the process to end. Returns its exit status.
    pub fn ended(mut self) -> ExitStatus {
        for _ in 0..LOOKS {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the server was asked to end and did not");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the port from the welcome text, which is printed once the server is ready.
fn port_in(output: &mut impl BufRead) -> u16 {
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        if let Some((_, rest)) = line.split_once("redis-cli -p ") {
            return rest.split(' ').next().unwrap().parse().unwrap();
        }
        line.clear();
    }
    panic!("the server ended before it could be talked to");
}
