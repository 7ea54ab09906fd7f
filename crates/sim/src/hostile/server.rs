//! The server process under attack: two users with separate keys, and memory limits far below the machine's.

use super::wire::{Resp, line, request};
use crate::drill::Outcome;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The most resident memory that the server may have: its configured budgets and caches, and the
/// program itself.
pub(super) const MEMORY_LIMIT_BYTES: u64 = 640 << 20;

/// The most commands of a transaction that writes.
pub(super) const TRANSACTION_COMMANDS: u64 = 2_000;

/// Records that counts walk over.
const RECORDS: u64 = 20_000;
/// Names that are written and deleted again before the attacks.
const DEAD_NAMES: u64 = 100_000;
/// The size of a value that fills the buffers of clients that do not read.
const LARGE_VALUE_BYTES: usize = 1 << 20;
/// Fields of the record that is searched with patterns.
const FIELDS: u64 = 2_000;
/// How many requests are sent before their replies are read.
const PIPELINE: u64 = 1_000;

pub(super) struct User {
    pub name: &'static str,
    pub password: &'static str,
}

pub(super) const HONEST: User = User { name: "honest", password: "honest-password" };
pub(super) const GREEDY: User = User { name: "greedy", password: "greedy-password" };

/// A running server.
pub(super) struct Server {
    pub resp: SocketAddr,
    pub http: SocketAddr,
    home: TempDir,
    child: Child,
}

impl Server {
    pub fn start(program: &Path) -> Outcome<Server> {
        let home = tempfile::tempdir().map_err(|error| format!("a directory: {error}"))?;
        let users = [&HONEST, &GREEDY].map(|user| user_table(program, user));
        let [honest, greedy] = users;
        let commands = format!("[database]\ntransaction_commands = {TRANSACTION_COMMANDS}");
        let config = format!("{commands}\n{SETTINGS}\n{}\n{}", honest?, greedy?);
        let written = fs::write(home.path().join("mainstay.toml"), config);
        written.map_err(|error| format!("the configuration: {error}"))?;
        let resp = free_address()?;
        let http = free_address()?;
        let child = spawn(program, home.path(), resp, http)?;
        Ok(Server { resp, http, home, child })
    }

    /// Writes the data that the attacks work on, without waiting for each sync.
    pub fn fill(&self) -> Outcome<()> {
        let mut resp = Resp::login(self.resp, GREEDY.name, GREEDY.password)?;
        resp.call(&line("DURABILITY MEMORY"))?;
        batch(&mut resp, RECORDS, |n| {
            line(&format!("REC.SET greedy:record:{n} FIELDS a {n} b x"))
        })?;
        batch(&mut resp, DEAD_NAMES, |n| line(&format!("SET greedy:dead:{n} x")))?;
        batch(&mut resp, DEAD_NAMES, |n| line(&format!("DEL greedy:dead:{n}")))?;
        let large = vec![b'x'; LARGE_VALUE_BYTES];
        batch(&mut resp, 32, |n| {
            request(&[b"SET", format!("greedy:large:{n}").as_bytes(), &large])
        })?;
        batch(&mut resp, 8, |n| {
            request(&[b"HSET", b"greedy:heavy", format!("field-{n}").as_bytes(), &large])
        })?;
        resp.call(&line("HSET greedy:few f x"))?;
        batch(&mut resp, FIELDS, |n| line(&format!("HSET greedy:fields field-{n} x")))
    }

    /// The peak of resident memory since the start.
    pub fn peak_bytes(&self) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.map_err(|error| format!("the server is gone: {error}"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| "the server has ended".to_owned())
    }

    /// Ends it with SIGKILL and starts it again on the same directory.
    pub fn kill_and_restart(&mut self, program: &Path) -> Outcome<()> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| error.to_string())?;
        self.child = spawn(program, self.home.path(), self.resp, self.http)?;
        Ok(())
    }

    pub fn stop(mut self) -> Outcome<()> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended in the normal case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends `count` requests in pipelines and reads their replies. An error reply ends it.
fn batch(resp: &mut Resp, count: u64, request: impl Fn(u64) -> Vec<u8>) -> Outcome<()> {
    for first in (0..count).step_by(PIPELINE as usize) {
        let numbers = first..count.min(first + PIPELINE);
        let bytes: Vec<u8> = numbers.clone().flat_map(&request).collect();
        resp.send(&bytes)?;
        for _ in numbers {
            let reply = resp.read()?;
            if reply.starts_with('-') {
                return Err(format!("filling: {reply}"));
            }
        }
    }
    Ok(())
}

/// The configuration besides the users: small budgets, so that the attacks reach them within seconds.
const SETTINGS: &str = r#"
cache_bytes = "32 MiB"
block_cache_bytes = "32 MiB"
write_buffer_bytes = "16 MiB"
transaction_writer_entries = 5_000
transaction_write_bytes = "8 MiB"

[memory]
total_bytes = "192 MiB"
per_user_bytes = "128 MiB"
per_connection_bytes = "64 MiB"
"#;

fn user_table(program: &Path, user: &User) -> Outcome<String> {
    let hash = hash(program, user.password)?;
    let name = user.name;
    Ok(format!(
        "[[security.users]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\nallow = [\"all\"]\nprefixes = [\"{name}:\"]\n"
    ))
}

/// Returns the argon2 hash that `mainstay user hash` prints.
fn hash(program: &Path, password: &str) -> Outcome<String> {
    let failed = |error: std::io::Error| format!("mainstay user hash: {error}");
    let mut child = Command::new(program)
        .args(["user", "hash"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        writeln!(input, "{password}").map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns an address that was free a moment ago. RESP and HTTP need one each, and the startup message
/// names only the port of RESP.
fn free_address() -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("a port: {error}"))?;
    listener.local_addr().map_err(|error| format!("a port: {error}"))
}

/// Starts the program and waits for its startup message.
fn spawn(program: &Path, home: &Path, resp: SocketAddr, http: SocketAddr) -> Outcome<Child> {
    let failed = |error: std::io::Error| format!("starting {}: {error}", program.display());
    let mut child = Command::new(program)
        .args(["serve", "--resp", &resp.to_string(), "--http", &http.to_string()])
        .arg("--config")
        .arg(home.join("mainstay.toml"))
        .arg("--data")
        .arg(home.join("data"))
        .env("MAINSTAY_HTTP__SCRATCH_RESERVE_BYTES", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let Some(output) = child.stdout.take() else { return Err("no standard output".to_owned()) };
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while output.read_line(&mut line).map_err(failed)? > 0 {
        if line.contains("redis-cli -p ") {
            // The output is drained for the life of the process, so that the server never blocks on it.
            thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            return Ok(child);
        }
        line.clear();
    }
    thread::sleep(Duration::from_millis(100));
    Err("the server ended before it could be talked to".to_owned())
}
