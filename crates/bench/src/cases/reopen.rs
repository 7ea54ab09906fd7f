//! Recovery after a crash: a child process writes and is killed, and this process opens its database.

use crate::args::WRITE_UNTIL_KILLED;
use crate::context::{Context, Outcome, short_count};
use crate::report::Row;
use crate::workload;
use mainstay::{Database, Durability, Options};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Upper limit for the time to open.
const LIMIT_SECONDS: f64 = 1.5;
/// The line with which the child reports that its cells are durable.
const WRITTEN: &str = "written";
/// How long the child continues to write before it is killed, so that it dies during a write.
const WRITING_ON: Duration = Duration::from_millis(100);

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(1_000_000);
    let case = format!("open after kill -9, {} keys", short_count(count));
    if !context.wants(&case) {
        return Ok(());
    }
    let directory = context.directory("reopen")?;
    let path = directory.path().join("ours");
    crash(&path, count)?;
    let started = Instant::now();
    let database = Database::open(&path)?;
    let seconds = started.elapsed().as_secs_f64();
    let found = cells_found(&database)?;
    if found != count {
        return Err(format!("{case}: {count} cells were durable, {found} were found").into());
    }
    context.report.add(Row::smaller(&case, "s", seconds, ("limit", LIMIT_SECONDS)).must(1.0));
    Ok(())
}

/// Starts the child, waits until its cells are durable, and kills it while it writes.
fn crash(path: &Path, count: usize) -> Outcome<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(WRITE_UNTIL_KILLED)
        .arg(path)
        .arg(count.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("the writing child has no output")?;
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line);
    std::thread::sleep(WRITING_ON);
    // SIGKILL, which stops it at once like a crash.
    child.kill()?;
    child.wait()?;
    read?;
    match line.trim() {
        WRITTEN => Ok(()),
        _ => Err("the writing child ended before its cells were durable".into()),
    }
}

/// The child: writes all cells, reports when they are durable, and continues to write forever.
pub fn write_until_killed(path: &Path, count: u64) -> Outcome<()> {
    let database = Options::new().durability(Durability::Interval).open(path)?;
    let cells = database.cells();
    let values = workload::values();
    let write_all = || -> Outcome<()> {
        for (n, value) in workload::scattered(count).zip(values.iter().cycle()) {
            cells.set(&workload::name(n), value.as_str())?;
        }
        Ok(())
    };
    write_all()?;
    database.sync()?;
    println!("{WRITTEN}");
    std::io::stdout().flush()?;
    loop {
        write_all()?;
    }
}

fn cells_found(database: &Database) -> Outcome<usize> {
    let cells = database.cells();
    let mut found = 0;
    let mut after = None::<String>;
    loop {
        let page = cells.list("cell:", after.as_deref(), 10_000)?;
        found += page.names.len();
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}
