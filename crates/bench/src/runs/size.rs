//! Size of an event on disk, with its key: in our index, and in PostgreSQL's table and indexes. Neither log
//! counts.

use super::events::Notes;
use super::ours;
use super::postgres::{Form, Postgres, Session};
use crate::context::{Context, Outcome, short_count};
use crate::report::Row;
use mainstay::Options;
use std::time::Duration;

fn case(context: &Context) -> (String, usize) {
    let count = context.sized(100_000);
    (format!("an event on disk, of {}", short_count(count)), count)
}

/// Returns whether the case is selected.
pub fn wanted(context: &Context) -> bool {
    context.wants(&case(context).0)
}

/// Runs the case.
pub fn run(context: &mut Context, postgres: Option<&Postgres>) -> Outcome<()> {
    let (case, count) = case(context);
    if !wanted(context) {
        return Ok(());
    }
    let per_event = |bytes: u64| bytes as f64 / count as f64;
    let notes = Notes::new();
    let directory = context.directory("size")?;
    let options = Options::new().feed_retention(Duration::ZERO, 0);
    let database = options.open(directory.path().join("ours"))?;
    ours::fill(&database, notes.earlier(count))?;
    database.trim()?;
    let ours = per_event(database.stats().index_bytes);
    let Some(postgres) = postgres else {
        context.report.add(Row::figure(&case, "bytes", ours));
        return Ok(());
    };
    let mut session = Session::open(postgres)?;
    session.fill(Form::Lock, notes.earlier(count))?;
    let name = format!("{}, table and indexes", postgres.name);
    let theirs = per_event(session.bytes(Form::Lock)?);
    context.report.add(Row::smaller(&case, "bytes", ours, (&name, theirs)));
    Ok(())
}
