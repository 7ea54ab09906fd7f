//! The guided tour: example calls with their results, on a database that is kept.

use super::console::print_error;
use super::failure;
use super::tour_output::TourOutput;
use clap::Args;
use mainstay::{
    At, CellCommand, Clock, Code, Database, Error, Filter, MergeStrategy, Name, Result, Revision,
    SystemClock, Transaction, Value,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The numbers of writes that are timed one at a time, and submitted together.
const SINGLE_WRITES: u64 = 100;
const BATCHED_WRITES: u64 = 10_000;
const READS: u64 = 200_000;

/// The tour's arguments.
#[derive(Debug, Args)]
pub struct TourArgs {
    /// Where the tour keeps its store
    #[arg(default_value = "mainstay-tour")]
    directory: PathBuf,
}

impl TourArgs {
    pub fn run(&self, out: &mut TourOutput) -> ExitCode {
        run(&self.directory, out)
    }
}

fn run(directory: &Path, out: &mut TourOutput) -> ExitCode {
    match Tour::open(directory, out).and_then(|mut tour| tour.walk(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error.to_string());
            if error.code() != Code::Locked {
                print_error(&format!("`mainstay doctor {}` says more", directory.display()));
            }
            ExitCode::from(failure::ERROR)
        }
    }
}

struct Tour<'a> {
    db: Database,
    out: &'a mut TourOutput,
    clock: SystemClock,
    run: i64,
    /// The newest revision at the start of the tour.
    start: Revision,
}

impl Tour<'_> {
    fn open<'a>(directory: &Path, out: &'a mut TourOutput) -> Result<Tour<'a>> {
        let clock = SystemClock::new();
        let db = Database::open(directory)?;
        let start = db.revision();
        let opened_us = clock.monotonic_us();
        let (run, _) = db.cells().incr("tour/runs", 1)?;
        let run = run.as_i64().unwrap_or(1);
        out.heading(concat!("Mainstay ", env!("CARGO_PKG_VERSION"), " - a guided tour"));
        let path = directory.display();
        out.note(&match start {
            0 => format!("A new store in {path}. It stays: run the tour again and it goes on."),
            _ => format!("Run {run} on the store in {path}, at revision {start}."),
        });
        let report = db.open_report();
        if let Some(why) = &report.rebuilt {
            out.note(&format!("The index was rebuilt from the log: {why}."));
        }
        if let Some(cut) = &report.cut {
            out.note(&format!("A write that was cut off was removed: {cut}."));
        }
        if start > 0 {
            let replayed = report.replayed;
            out.note(&format!("Opened in {} ({replayed} revisions replayed).", ms(opened_us)));
        }
        Ok(Tour { db, out, clock, run, start })
    }

    fn walk(&mut self, directory: &Path) -> Result<()> {
        self.cells()?;
        self.transaction()?;
        self.history()?;
        self.branches()?;
        self.feed()?;
        self.timing()?;
        self.next(directory);
        self.db.close()
    }

    fn cells(&mut self) -> Result<()> {
        let cells = self.db.cells();
        self.out.heading("1  Cells: named values that count their writes");
        let counter = cells.set("greeting", "hello")?;
        self.out.call(r#"cells.set("greeting", "hello")?"#, format!("counter {counter}"));
        let second = cells.cas("greeting", Some(counter), "hello, world")?;
        let call = format!(r#"cells.cas("greeting", Some({counter}), "hello, world")?"#);
        self.out.call(&call, format!("{second:?}"));
        let third = cells.cas("greeting", Some(counter), "too late")?;
        let call = format!(r#"cells.cas("greeting", Some({counter}), "too late")?"#);
        self.out.call(&call, format!("{third:?}, it has changed"));
        self.out.call(r#"cells.get("greeting")?"#, show(cells.get("greeting")?));
        let (visits, _) = cells.incr("visits", 1)?;
        self.out.call(r#"cells.incr("visits", 1)?"#, visits);
        Ok(())
    }

    fn transaction(&mut self) -> Result<()> {
        self.out.heading("2  A transaction: all of it or nothing");
        let name = Name::new;
        let start = Transaction::new()
            .step(CellCommand::set(name("account/alice")?, 100))
            .step(CellCommand::set(name("account/bob")?, 0));
        self.db.execute(start)?;
        self.out.code("let pay = |amount| db.transaction(|t| {");
        self.out.code(r#"    t.incr("account/bob", amount)?;"#);
        self.out.code(r#"    let (left, _) = t.incr("account/alice", -amount)?;"#);
        self.out.code("    if left.as_i64() < Some(0) { return Err(..); }");
        self.out.code("    Ok(left)");
        self.out.code("});");
        self.out.call("pay(30)?", format!("{} left", pay(&self.db, 30)?));
        let refused = pay(&self.db, 500).err();
        let refused = refused.map_or_else(String::new, |e| format!("Err: {}", e.message()));
        self.out.call("pay(500)", refused);
        let bob = self.db.cells().get("account/bob")?;
        self.out.call(r#"cells.get("account/bob")?"#, show(bob));
        Ok(())
    }

    fn history(&mut self) -> Result<()> {
        let cells = self.db.cells();
        self.out.heading("3  History: every version stays readable for a week");
        self.out.code(r#"cells.history("account/alice", 3, None)?"#);
        let history = cells.history("account/alice", 3, None)?;
        for version in &history {
            let counter = version.counter;
            let revision = version.revision;
            let value = show(version.value.clone());
            self.out.result(&format!("#{counter}: {value} at revision {revision}"));
        }
        let Some(before) = history.get(1) else { return Ok(()) };
        let at = At::Revision(before.revision);
        let call = format!(r#"cells.at(At::Revision({}))?.get("account/alice")?"#, before.revision);
        self.out.call(&call, show(cells.at(at)?.get("account/alice")?));
        Ok(())
    }

    fn branches(&mut self) -> Result<()> {
        let name = format!("draft-{}", self.run);
        self.out.heading("4  Branches: fork without copying, compare, merge");
        let start = self.clock.monotonic_us();
        let revision = self.db.fork(&name, "main", At::Latest)?;
        let took = ms(self.clock.monotonic_us() - start);
        let call = format!(r#"db.fork("{name}", "main", At::Latest)?"#);
        self.out.call(&call, format!("at revision {revision}, in {took}"));
        self.db.branch(&name)?.cells().set("account/bob", 1000)?;
        let call = format!(r#"db.branch("{name}")?.cells().set("account/bob", 1000)?;"#);
        self.out.code(&call);
        let bob = self.db.cells().get("account/bob")?;
        self.out.call(r#"db.cells().get("account/bob")?"#, format!("{} on main", show(bob)));
        self.out.code(&format!(r#"db.diff("main", "{name}")?"#));
        for found in self.db.diff("main", &name)? {
            let a = show(found.a);
            let b = show(found.b);
            self.out.result(&format!("{}: {a} on main, {b} on {name}", found.key));
        }
        let merged = self.db.merge(&name, "main", MergeStrategy::Strict)?;
        let call = format!(r#"db.merge("{name}", "main", MergeStrategy::Strict)?"#);
        self.out.call(&call, format!("revision {merged}"));
        let bob = self.db.cells().get("account/bob")?;
        self.out.call(r#"db.cells().get("account/bob")?"#, format!("{} on main", show(bob)));
        self.db.delete_branch(&name).map(|_| ())
    }

    fn feed(&mut self) -> Result<()> {
        self.out.heading("5  The feed: every committed change once, in order");
        let filter = Filter { prefix: Some("account/".to_owned()), ..Filter::default() };
        let mut feed = self.db.watch(filter, self.start)?;
        let shown = r#"Filter { prefix: Some("account/".into()), ..Filter::default() }"#;
        self.out.code(&format!("let accounts = {shown};"));
        self.out.code(&format!("let mut feed = db.watch(accounts, {})?;", self.start));
        self.out.code("while let Some(event) = feed.next(timeout)? { .. }");
        while let Some(event) = feed.next(Duration::ZERO)? {
            let revision = event.revision;
            let branch = event.branch;
            let key = event.key;
            let value = show(event.value);
            self.out.result(&format!("revision {revision:<6} {branch:10} {key:14} {value}"));
        }
        Ok(())
    }

    fn timing(&mut self) -> Result<()> {
        self.out.heading("6  Durability: an answer means that it is on the disk");
        let cells = self.db.cells();
        let alone =
            self.time(|| (0..SINGLE_WRITES).try_for_each(|_| cells.incr("timed", 1).map(|_| ())))?;
        let each = ms(alone / SINGLE_WRITES);
        self.out
            .call(&format!("{SINGLE_WRITES} writes, one after the other"), format!("{each} each"));
        let together = self.time(|| {
            let name = Name::new("timed")?;
            let by = mainstay::Number::Int(1);
            let write = |_| {
                let incr = CellCommand::Incr { name: name.clone(), by };
                self.db.submit(Transaction::new().step(incr))
            };
            let tickets: Vec<_> = (0..BATCHED_WRITES).map(write).collect();
            tickets.into_iter().try_for_each(|ticket| ticket.wait().map(|_| ()))
        })?;
        let call = format!("{BATCHED_WRITES} writes, submitted together");
        self.out.call(&call, format!("{} in all", ms(together)));
        let reads = self.time(|| (0..READS).try_for_each(|_| cells.get("timed").map(|_| ())))?;
        let ns = reads * 1000 / READS;
        self.out.call(&format!("{READS} reads"), format!("{ns} ns each"));
        self.out.note("Each write was synced before its answer; those together share syncs.");
        Ok(())
    }

    fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<u64> {
        let start = self.clock.monotonic_us();
        work()?;
        Ok(self.clock.monotonic_us() - start)
    }

    fn next(&mut self, directory: &Path) {
        let path = directory.display();
        self.out.heading("What to try next");
        let tries = [
            (format!("mainstay tour {path}"), "again: the counters go on"),
            (format!("mainstay --data {path} repl"), "type commands yourself"),
            (format!("mainstay doctor {path}"), "a look at the files"),
            (format!("rm -r {path}/index; mainstay tour {path}"), "the log rebuilds it"),
            ("mainstay help".to_owned(), "what the program can do"),
            ("cargo doc --open -p mainstay".to_owned(), "what the library can do"),
        ];
        tries.iter().for_each(|(call, why)| self.out.call(call, why));
    }
}

fn pay(db: &Database, amount: i64) -> Result<Value> {
    db.transaction(|t| {
        t.incr("account/bob", amount)?;
        let (left, _) = t.incr("account/alice", -amount)?;
        if left.as_i64() < Some(0) {
            return Err(Error::new(Code::InvalidArgument, "alice has too little"));
        }
        Ok(left)
    })
}

fn show(value: Option<Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| value.to_string())
}

/// Formats microseconds.
fn ms(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..10_000 => format!("{:.1} ms", us as f64 / 1000.0),
        _ => format!("{} ms", us / 1000),
    }
}
