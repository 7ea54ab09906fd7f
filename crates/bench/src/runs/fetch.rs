//! Pages of events from the middle of runs, compared with the same query on PostgreSQL.

use super::events::{self, Notes, Told};
use super::ours;
use super::postgres::{Form, Postgres, Session};
use crate::context::{Context, Outcome};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::report::Row;
use crate::workload::Random;
use mainstay::{Database, Options};
use std::hint::black_box;

/// Number of events per page.
pub const PAGE: usize = 1_000;
/// Number of events per run.
const EVENTS: usize = 5_000;
const CASE: &str = "fetch a page of 1k events, 1 thread";

/// Returns whether the case is selected.
pub fn wanted(context: &Context) -> bool {
    context.wants(CASE)
}

/// Runs the case.
pub fn run(context: &mut Context, postgres: Option<&Postgres>) -> Outcome<()> {
    if !wanted(context) {
        return Ok(());
    }
    let notes = Notes::new();
    let count = context.sized(20);
    let directory = context.directory("fetch")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    ours::fill(&database, runs(&notes, count))?;
    let mut sides = vec![our_side(&database, count)];
    if let Some(postgres) = postgres {
        let mut session = Session::open(postgres)?;
        session.fill(Form::Lock, runs(&notes, count))?;
        sides.push(their_side(session, format!("{}, 1 connection", postgres.name), count));
    }
    let measured = interleave(&mut sides, context.shown())?;
    drop(sides);
    match &measured[..] {
        [ours] => context.report.add(Row::alone(CASE, ours)),
        sides => context.report.compare(CASE, sides, None),
    }
    Ok(())
}

fn runs(notes: &Notes, count: usize) -> impl Iterator<Item = Told> {
    let names: Vec<String> = (0..count).map(events::run).collect();
    names.into_iter().flat_map(|name| notes.of_run(&name, EVENTS).collect::<Vec<_>>())
}

/// A random run, and a random position that a whole page follows.
fn place(random: &mut Random, count: usize) -> (String, u64) {
    (events::run(random.below(count)), random.below(EVENTS - PAGE) as u64)
}

fn our_side(database: &Database, count: usize) -> Side<'_> {
    let runs = database.runs();
    let mut random = Random::new(5);
    let mut workers = [move || {
        let (run, after) = place(&mut random, count);
        check(black_box(runs.fetch(&run, after, PAGE)?).len())
    }];
    Side::new("ours", move |slice| threads(&mut workers, 1, slice))
}

fn their_side(mut session: Session, name: String, count: usize) -> Side<'static> {
    let mut random = Random::new(5);
    let mut workers = [move || {
        let (run, after) = place(&mut random, count);
        check(black_box(session.page(Form::Lock, &run, after, PAGE)?).len())
    }];
    Side::new(name, move |slice| threads(&mut workers, 1, slice))
}

fn check(events: usize) -> Outcome<()> {
    if events == PAGE { Ok(()) } else { Err(format!("a page had {events} events").into()) }
}
