//! The command lines of the overload test and of its greedy clients.

use clap::Args;
use mainstay_sim::drill::Outcome;
use mainstay_sim::effort;
use mainstay_sim::hostile::{self, Measured, Plan, Target};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The arguments of the overload test.
#[derive(Args)]
pub struct Words {
    /// The attacks by name; all of them without it.
    attacks: Vec<String>,
    /// The duration of each attack, and of the quiet phase before them.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// The server's program; `mainstay` beside this one without it.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Not used: all choices are fixed.
    #[arg(long, hide = true)]
    seed: Option<u64>,
}

/// The arguments of the greedy clients.
#[derive(Args)]
pub struct GreedyWords {
    attack: String,
    #[arg(long)]
    resp: SocketAddr,
    #[arg(long)]
    http: SocketAddr,
}

/// Runs the attacks and prints a row for each.
pub fn run(words: Words) -> Outcome<()> {
    let greedy = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let server = words.server.unwrap_or_else(|| greedy.with_file_name("mainstay"));
    let plan = Plan { server, greedy, seconds: words.seconds, only: words.attacks };
    println!(
        "{:<20}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "attack", "requests", "p50 ms", "p99 ms", "max ms", "MiB"
    );
    let report = hostile::run(&plan, row)?;
    effort::insist_on(&[("acknowledged write", report.acknowledged)])?;
    let attacks = report.measured.iter().filter(|phase| phase.attack != "quiet");
    let worst = attacks.clone().map(|phase| phase.latencies.p99_us).max().unwrap_or(0);
    println!(
        "{} attacks, worst p99 {} ms, quiet {} ms, peak {} of {} MiB, {} acknowledged writes, 0 lost",
        attacks.count(),
        worst / 1000,
        report.measured[0].latencies.p99_us / 1000,
        report.measured.last().map_or(0, |phase| phase.peak_bytes) >> 20,
        report.memory_limit_bytes >> 20,
        report.acknowledged
    );
    Ok(())
}

/// Attacks until it is killed.
pub fn attack(words: &GreedyWords) -> Outcome<()> {
    let target = Target { resp: words.resp, http: words.http };
    hostile::attack(&words.attack)?.run(&target)
}

fn row(measured: &Measured) {
    let ms = |us: u64| format!("{:.1}", us as f64 / 1000.0);
    let seen = &measured.latencies;
    println!(
        "{:<20}{:>10}{:>10}{:>10}{:>10}{:>10}",
        measured.attack,
        seen.count,
        ms(seen.p50_us),
        ms(seen.p99_us),
        ms(seen.max_us),
        measured.peak_bytes >> 20
    );
}
