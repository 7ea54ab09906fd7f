//! What responses take in memory: a child opens sessions and has them answered, and says by how much it has grown.

use crate::args::MEASURE_SESSIONS;
use crate::context::{Context, Outcome};
use crate::proc;
use crate::report::Row;
use mainstay::{CellCommand, Database, Name, Options, Session, SessionOptions, Transaction};
use std::path::Path;
use std::process::Command;

/// How many sessions.
pub const SESSIONS: usize = 1_000;
/// How many responses each of them has.
pub const RESPONSES: u64 = 10;
const LIMIT_MIB: f64 = 2.0;

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let case = format!("memory of {SESSIONS} sessions, {RESPONSES} small responses each");
    if !context.wants(&case) {
        return Ok(());
    }
    let directory = context.directory("memory")?;
    let output = Command::new(std::env::current_exe()?)
        .arg(MEASURE_SESSIONS)
        .arg(directory.path().join("ours"))
        .arg("0")
        .output()?;
    if !output.status.success() {
        return Err(format!("{case}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let kib: f64 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
    context.report.add(Row::smaller(&case, "MiB", kib / 1024.0, ("limit", LIMIT_MIB)).must(1.0));
    Ok(())
}

/// The child: prints by how many KiB it has grown.
pub fn child(path: &Path) -> Outcome<()> {
    let database = Options::new().open(path)?;
    // What comes with the first of its kind is there before: threads, buffers, tables.
    let first = database.sessions().open(SessionOptions::new())?;
    for number in 1..=1_000 {
        first.execute(number, number, reading(number)?)?;
    }
    let before = proc::memory_kib(std::process::id(), proc::NOW)?;
    let sessions = filled(&database, reading)?;
    let after = proc::memory_kib(std::process::id(), proc::NOW)?;
    let stats = database.stats().sessions;
    if stats.kept != SESSIONS as u64 * RESPONSES + 1 || sessions.len() != SESSIONS {
        return Err(format!("{} responses are kept", stats.kept).into());
    }
    println!("{}", after.saturating_sub(before));
    Ok(())
}

/// A request that writes nothing itself, so that its response is all there is.
fn reading(_: u64) -> Outcome<Transaction> {
    let delete = CellCommand::Delete { name: Name::new("nothing")?, counter: None };
    Ok(Transaction::new().step(delete))
}

/// Sessions whose requests were all answered, and none acknowledged.
pub fn filled(database: &Database, make: fn(u64) -> Outcome<Transaction>) -> Outcome<Vec<Session>> {
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        let session = database.sessions().open(SessionOptions::new())?;
        for number in 1..=RESPONSES {
            session.execute(number, 1, make(number)?)?;
        }
        sessions.push(session);
    }
    Ok(sessions)
}
