//! Overload test: greedy clients of every kind beside one honest client, against a real server process.
//!
//! ```text
//!   honest client, 100 rounds a second ──┐
//!                                        ├──> mainstay serve (two users, small memory limits)
//!   greedy clients, one attack at a time ┘        │
//!   (a process of their own, idle)                │ VmHWM from /proc
//!                                                 v
//!   verdict: p99 ≤ 10 × quiet p99, memory ≤ limit, no request lost, every acknowledged write present after kill -9
//! ```
//!
//! The greedy clients have idle scheduling priority, because in production they use the processors of
//! other machines.

mod attack;
mod honest;
mod server;
mod wire;

pub use attack::{ATTACKS, Attack, Target, attack};

use crate::drill::Outcome;
use crate::soak::Latencies;
use honest::Honest;
use server::Server;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The honest client's p99 may grow by this factor under attack.
const SLOWDOWN_LIMIT: u64 = 10;
/// The attempts of an attack over the limit. A virtual machine stalls now and then because of its
/// neighbours; a server that starves its clients does so every time.
const TRIES: usize = 3;
/// The least value assumed for the quiet p99, because the scheduler alone adds more on a machine with
/// two busy cores.
const QUIET_FLOOR_US: u64 = 2_000;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program to start as the server.
    pub server: PathBuf,
    /// The program to start as the greedy clients, with `greedy ATTACK --resp ADDRESS --http ADDRESS`.
    pub greedy: PathBuf,
    /// The duration of the quiet phase, and of each attack.
    pub seconds: u64,
    /// The attacks by name; all of them if empty.
    pub only: Vec<String>,
}

/// The measurements of one attack.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of the attack; `quiet` for the phase before all of them.
    pub attack: String,
    /// The latencies of the honest client.
    pub latencies: Latencies,
    /// The peak of the server's resident memory so far.
    pub peak_bytes: u64,
}

/// The result of a run in which nothing was violated.
#[derive(Clone, Debug)]
pub struct Report {
    /// The quiet phase first, then each attack.
    pub measured: Vec<Measured>,
    /// The writes of the honest client that were acknowledged and found again.
    pub acknowledged: u64,
    /// The most resident memory that the server may have.
    pub memory_limit_bytes: u64,
}

/// Runs all attacks against one server and checks the honest client's service, the server's memory and durability.
pub fn run(plan: &Plan, mut progress: impl FnMut(&Measured)) -> Outcome<Report> {
    let attacks = chosen(&plan.only)?;
    let mut server = Server::start(&plan.server)?;
    server.fill()?;
    // Flushes the data written so far, so that its writeback does not affect the measurement.
    let _ = Command::new("sync").status();
    let mut honest = Honest::connect(&server)?;
    let mut measured = vec![phase("quiet", &server, &mut honest, plan.seconds)?];
    progress(&measured[0]);
    let quiet_us = measured[0].latencies.p99_us.max(QUIET_FLOOR_US);
    let mut violations = Vec::new();
    for attack in attacks {
        let mut seen = under(attack, plan, &server, &mut honest)?;
        for _ in 1..TRIES {
            if seen.latencies.p99_us <= quiet_us * SLOWDOWN_LIMIT {
                break;
            }
            progress(&seen);
            // Requests that are still waiting must not count for the next attempt.
            phase("quiet again", &server, &mut honest, 1)?;
            seen = under(attack, plan, &server, &mut honest)?;
        }
        progress(&seen);
        if seen.latencies.p99_us > quiet_us * SLOWDOWN_LIMIT {
            violations.push(format!(
                "{}: p99 {} ms, more than {SLOWDOWN_LIMIT} x {} ms",
                attack.name,
                seen.latencies.p99_us / 1000,
                quiet_us / 1000
            ));
        }
        if seen.peak_bytes > server::MEMORY_LIMIT_BYTES {
            violations.push(format!(
                "{}: {} MiB of memory, the limit is {} MiB",
                attack.name,
                seen.peak_bytes >> 20,
                server::MEMORY_LIMIT_BYTES >> 20
            ));
        }
        measured.push(seen);
    }
    server.kill_and_restart(&plan.server)?;
    let acknowledged = honest.verify(&server)?;
    server.stop()?;
    if violations.is_empty() {
        Ok(Report { measured, acknowledged, memory_limit_bytes: server::MEMORY_LIMIT_BYTES })
    } else {
        Err(violations.join("; "))
    }
}

/// Measures the honest client under an attack.
fn under(attack: &Attack, plan: &Plan, server: &Server, honest: &mut Honest) -> Outcome<Measured> {
    let mut greedy = Greedy::start(plan, attack, server)?;
    let seen = phase(attack.name, server, honest, plan.seconds)?;
    greedy.stop()?;
    Ok(seen)
}

fn chosen(only: &[String]) -> Outcome<Vec<&'static Attack>> {
    if only.is_empty() {
        return Ok(ATTACKS.iter().collect());
    }
    only.iter().map(|name| attack(name)).collect()
}

fn phase(name: &str, server: &Server, honest: &mut Honest, seconds: u64) -> Outcome<Measured> {
    let latencies = honest.run(seconds).map_err(|error| format!("{name}: {error}"))?;
    let peak_bytes = server.peak_bytes().map_err(|error| format!("{name}: {error}"))?;
    Ok(Measured { attack: name.to_owned(), latencies, peak_bytes })
}

/// The process of the greedy clients.
struct Greedy(Child);

impl Greedy {
    fn start(plan: &Plan, attack: &Attack, server: &Server) -> Outcome<Greedy> {
        let child = Command::new("chrt")
            .args(["--idle", "0"])
            .arg(&plan.greedy)
            .args(["greedy", attack.name])
            .args(["--resp", &server.resp.to_string(), "--http", &server.http.to_string()])
            .stdin(Stdio::null())
            .spawn();
        child.map(Greedy).map_err(|error| format!("starting {}: {error}", attack.name))
    }

    /// Ends the greedy process. If it has ended by itself, it attacked nothing, which is an error.
    fn stop(&mut self) -> Outcome<()> {
        let ended = self.0.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            return Err(format!("the greedy clients gave up: {status}"));
        }
        self.0.kill().and_then(|()| self.0.wait()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        // Already ended in the normal case.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
